//! Writes a run as a stream of items.

use super::super::item::Item;
use super::super::page::{PageBuilder, Sizes};
use super::format::{Counts, Meta, front_kind, segment_kind};
use super::reader::RunSegment;
use super::{Expected, RunShape};
use crate::error::invalid;
use crate::filter::run::{FrontBuilder, FrontShape};
use crate::segment::{BODY_BYTES, Quanta, SegmentWriter};
use crate::store::Files;
use crate::{KeyHash, KeyHasher, Result};
use std::ops::RangeInclusive;

/// One write to the device.
const PIECE_BYTES: usize = 1 << 20;
/// The longest page: a read of it is one request, which systems take up to 2 GiB.
const PAGE_BYTES_MAX: u64 = 1 << 30;
/// Quanta of a short run at least: the index of one costs no block of its own anyway.
const QUANTA_MIN: u64 = 1 << 10;

/// Writes a run from its first item to its last.
///
/// Dropped before [`RunWriter::finish`], it removes its file.
#[derive(Debug)]
pub(crate) struct RunWriter {
    segment: SegmentWriter,
    hasher: KeyHasher,
    shape: RunShape,
    quanta: Quanta,
    front: Option<FrontBuilder>,
    counts: Counts,
    last: Option<KeyHash>,
    /// Items that are in no page yet: quanta that fit one page, and what came of the next quantum.
    items: PageBuilder,
    sizes: Sizes,
    /// Of the items before the quantum of the last one.
    whole: Sizes,
    quantum: u64,
    /// A page as it is written.
    body: Vec<u8>,
}

impl RunWriter {
    /// Begins a run of items whose hashes (their first 64 bits) are in `range`, in a new file of the store; if `is_behind`, a thread
    /// writes a mebibyte while the next is filled.
    ///
    /// # Errors
    /// `InvalidOption` for an empty range; what [`Files::create`] says.
    pub(crate) fn create(
        files: &Files,
        hasher: KeyHasher,
        shape: RunShape,
        range: RangeInclusive<u64>,
        expected: Expected,
        is_behind: bool,
    ) -> Result<RunWriter> {
        let quanta = Quanta::new(range, quanta_for(&shape, expected))?;
        let front = shape.front_bits.map(|bits_a_key| {
            let shape = FrontShape { bits_a_key, value_bits: 0 };
            FrontBuilder::new(front_kind(hasher), shape, &quanta.range(), expected.items)
        });
        let segment =
            SegmentWriter::create_quantised(files, segment_kind(hasher), quanta, PIECE_BYTES, is_behind)?;
        Ok(RunWriter {
            segment,
            hasher,
            shape,
            quanta,
            front,
            counts: Counts::default(),
            last: None,
            items: PageBuilder::default(),
            sizes: Sizes::default(),
            whole: Sizes::default(),
            quantum: u64::MAX,
            body: Vec::new(),
        })
    }

    /// Adds the next item.
    ///
    /// # Errors
    /// `InvalidOption` if it is not behind the last one, by hash and then by key, if it is outside the range, or longer than a page may
    /// be; `Full` or `Io` from the device.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'_>) -> Result<()> {
        self.check_order(&item)?;
        let quantum = self.quanta.of(item.hash.high());
        if quantum != self.quantum {
            self.whole = self.sizes;
            self.quantum = quantum;
        }
        let mut grown = self.sizes.with(&item);
        let mut bytes = grown.bytes();
        if bytes > self.page_bytes() && self.whole.items > 0 {
            self.write_page()?;
            grown = self.sizes.with(&item);
            bytes = grown.bytes();
        }
        if bytes > PAGE_BYTES_MAX {
            return refuse_long(bytes);
        }
        if let Some(front) = &mut self.front {
            front.push(&[item.hash.high()])?;
        }
        self.items.push(&item);
        self.sizes = grown;
        self.last = Some(item.hash);
        self.counts.add(&item);
        Ok(())
    }

    /// Bytes of pages that are written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.segment.blocks() * crate::device::BLOCK_BYTES as u64
    }

    /// Ends the run, syncs its file, and opens it; `None` where nothing was pushed, and no file.
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub(crate) fn finish(mut self) -> Result<Option<RunSegment>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        self.whole = self.sizes;
        self.write_page()?;
        let front = self.front.map_or_else(Vec::new, |front| front.finish().encode());
        let meta = Meta::of(&self.shape, self.counts, &[], &front).encode();
        let segment = self.segment.finish_open(&meta)?;
        segment.sync()?;
        RunSegment::of(segment, self.hasher).map(Some)
    }

    fn page_bytes(&self) -> u64 {
        u64::from(self.shape.page_blocks) * BODY_BYTES as u64
    }

    fn check_order(&self, item: &Item<'_>) -> Result<()> {
        let is_behind = self
            .last
            .is_none_or(|last| item.hash > last || item.hash == last && item.key > self.items.last_key());
        if is_behind && self.quanta.range().contains(&item.hash.high()) {
            return Ok(());
        }
        let why = format!(
            "items come in the order of hashes and keys, after {:?}, and in {:x?}",
            self.last,
            self.quanta.range()
        );
        invalid("an item's hash", format!("{:?}", item.hash), why)
    }

    /// Writes a page of all whole quanta.
    fn write_page(&mut self) -> Result<()> {
        let items = self.whole.items as usize;
        self.body.clear();
        self.items.encode(&self.whole, &mut self.body);
        let (first, last) = self.items.ends_of(items);
        self.segment.push_page(first, last, items as u64, &self.body)?;
        self.items.drop_first(items);
        self.sizes = self.items.sizes();
        self.whole = Sizes::default();
        Ok(())
    }
}

/// How many quanta the range of a run is cut into.
fn quanta_for(shape: &RunShape, expected: Expected) -> u64 {
    let page_bytes = u64::from(shape.page_blocks) * BODY_BYTES as u64;
    // Pages are filled to some fifteen sixteenths.
    let pages = expected.bytes.saturating_add(expected.bytes / 15) / page_bytes + 1;
    let mean_bytes = expected.bytes / expected.items.max(1);
    // The more quanta a page has, the less of one is left open at its end, for a bit of index a page each time they are doubled. Of
    // items of which a page has few, it is mostly the item that does not fit.
    let lg_quanta = if mean_bytes * 16 > page_bytes { 4 } else { 3 };
    (pages << lg_quanta).max(QUANTA_MIN)
}

#[cold]
fn refuse_long(bytes: u64) -> Result<()> {
    let why = format!(
        "a page, all items of hashes that are nearly equal, has at most {PAGE_BYTES_MAX} bytes; put long values elsewhere"
    );
    invalid("the length of a page", bytes, why)
}
