//! Goes through a run in order, the whole of it or a range of hashes.

use super::super::item::Item;
use super::super::page::{Page, PageCursor, Place};
use crate::device::BLOCK_BYTES;
use crate::error::corrupt;
use crate::segment::Scan;
use crate::{KeyHash, KeyHasher, Result};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A place in a run, between two items. It outlives the run, and its file.
#[derive(Debug)]
pub(crate) struct RunScan {
    pages: Scan,
    path: PathBuf,
    hasher: KeyHasher,
    range: RangeInclusive<u64>,
    /// The page that the scan is in, from block `block` on.
    body: Vec<u8>,
    block: u64,
    cursor: Option<PageCursor>,
    last: KeyHash,
    place: Option<Place>,
}

impl RunScan {
    pub(super) fn new(pages: Scan, path: PathBuf, hasher: KeyHasher, range: RangeInclusive<u64>) -> RunScan {
        RunScan {
            pages,
            path,
            hasher,
            range,
            body: Vec::new(),
            block: 0,
            cursor: None,
            last: KeyHash::default(),
            place: None,
        }
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
        self.place.as_ref().map(|place| place.item(&self.body, self.last))
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
            let place = cursor.next(&self.body);
            let place =
                place.map_err(|error| error.in_file_from(&self.path, self.block * BLOCK_BYTES as u64))?;
            let Some(place) = place else {
                self.cursor = None;
                continue;
            };
            let hash = self.hasher.hash(place.key(&self.body));
            if hash < self.last {
                let (expected, found) = (format!("after {:?}", self.last), format!("{hash:?}"));
                return Err(corrupt(
                    &self.path,
                    self.block * BLOCK_BYTES as u64,
                    "the order of a page",
                    expected,
                    found,
                ));
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
        self.body.clear();
        self.body.extend_from_slice(body);
        let page = Page::of(&self.body);
        let page = page.map_err(|error| error.in_file_from(&self.path, self.block * BLOCK_BYTES as u64))?;
        self.cursor = Some(page.cursor());
        Ok(true)
    }
}
