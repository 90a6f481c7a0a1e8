//! Goes through a run in order, the whole of it or a range of hashes.

use super::super::item::Item;
use super::super::page::{Page, PageCursor, Place};
use super::file::RunFile;
use crate::device::pool::BufferPool;
use crate::error::corrupt_bytes;
use crate::segment::Scan;
use crate::{KeyHash, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A place in a run, between two items. It outlives the run, and its file.
#[derive(Debug)]
pub(crate) struct RunScan {
    pages: Scan,
    file: Arc<RunFile>,
    range: RangeInclusive<u64>,
    /// The page that the scan is in, from block `block` on, if it was packed; else it is where it was read.
    unpacked: Vec<u8>,
    is_packed: bool,
    block: u64,
    cursor: Option<PageCursor>,
    last: KeyHash,
    place: Option<Place>,
}

impl RunScan {
    pub(super) fn new(pages: Scan, file: Arc<RunFile>, range: RangeInclusive<u64>) -> RunScan {
        RunScan {
            pages,
            file,
            range,
            unpacked: Vec::new(),
            is_packed: false,
            block: 0,
            cursor: None,
            last: KeyHash::default(),
            place: None,
        }
    }

    /// Has the memory of what it reads come from a pool, unless a thread reads ahead.
    pub(crate) fn pooled(mut self, pool: Option<Arc<BufferPool>>) -> Self {
        self.pages = self.pages.pooled(pool);
        self
    }

    /// Goes to the next item; whether there is one.
    ///
    /// # Cost
    /// A hash of its key; a piece is read in one request.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says. The scan is then of no use.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.place = self.next_place()?;
        Ok(self.place.is_some())
    }

    /// The item that it stands at.
    #[inline]
    pub(crate) fn item(&self) -> Option<Item<'_>> {
        self.place
            .as_ref()
            .map(|place| place.item(body_of(&self.pages, &self.unpacked, self.is_packed), self.last))
    }

    /// Goes to the next item, and lends it; `None` at the end.
    ///
    /// # Errors
    /// As [`RunScan::advance`].
    pub(crate) fn next(&mut self) -> Result<Option<Item<'_>>> {
        self.advance()?;
        Ok(self.item())
    }

    fn next_place(&mut self) -> Result<Option<Place>> {
        loop {
            let Some(cursor) = &mut self.cursor else {
                if self.next_page()? {
                    continue;
                }
                return Ok(None);
            };
            let body = body_of(&self.pages, &self.unpacked, self.is_packed);
            let place = cursor.next(body).map_err(|error| self.file.in_page(error, self.block))?;
            let Some(place) = place else {
                self.cursor = None;
                continue;
            };
            let hash = self.file.hasher.hash(place.key(body));
            if hash < self.last {
                let (expected, found) = (format!("after {:?}", self.last), format!("{hash:?}"));
                let error = corrupt_bytes(0, "the hash of a key", expected, found);
                return Err(self.file.in_page(error, self.block));
            }
            self.last = hash;
            if hash.high() > *self.range.end() {
                return Ok(None);
            }
            if hash.high() >= *self.range.start() {
                return Ok(Some(place));
            }
        }
    }

    fn next_page(&mut self) -> Result<bool> {
        let Some((blocks, body)) = self.pages.next_page()? else { return Ok(false) };
        self.block = blocks.start;
        let opened = self.file.unpacker.unpack(body, &mut self.unpacked).and_then(|unpacked| {
            let page = Page::of(unpacked.page)?;
            Ok((page.cursor(), unpacked.packed_bytes.is_some()))
        });
        let (cursor, is_packed) = opened.map_err(|error| self.file.in_page(error, self.block))?;
        (self.cursor, self.is_packed) = (Some(cursor), is_packed);
        Ok(true)
    }
}

/// The bytes of the page that a scan is in.
#[inline]
fn body_of<'a>(pages: &'a Scan, unpacked: &'a [u8], is_packed: bool) -> &'a [u8] {
    if is_packed { unpacked } else { pages.page() }
}
