//! Writes a run as a stream of items.
//!
//! ```text
//!   items ─▶ │ quantum │ quantum │ quantum, open │     a page is the longest row of whole quanta that fits its blocks;
//!            └──────── a page ───┘                     packed, how much fits is guessed from the pages before, and tried
//! ```
//!
//! Of items of which few fit a page, one more mostly does not fit, and what is left open is half of an item: pages of those have more
//! blocks, as many as they fill best.

use super::super::item::Item;
use super::super::page::{PageBuilder, Sizes};
use super::super::rank::{HashRank, HashRankBuilder, HashRankOptions};
use super::codec::{Packer, train};
use super::format::{Counts, Meta, front_kind, segment_kind};
use super::reader::RunSegment;
use super::{Compression, Expected, RunShape};
use crate::dictionary::item::ItemHasher;
use crate::error::invalid;
use crate::filter::run::{FrontBuilder, FrontShape};
use crate::segment::{BODY_BYTES, Quanta, SegmentWriter};
use crate::store::Files;
use crate::{KeyHash, Result};
use std::ops::RangeInclusive;

/// One write to the device.
const PIECE_BYTES: usize = 1 << 20;
/// The longest page: a read of it is one request, which systems take up to 2 GiB.
const PAGE_BYTES_MAX: u64 = 1 << 30;
/// Quanta of a short run at least: the index of one costs no block of its own anyway.
const QUANTA_MIN: u64 = 1 << 10;
/// What is looked at before the first page is packed: as much as a dictionary is trained on, and for the ratio some pages.
const TRAINED_BYTES: u64 = 1 << 20;
const TRIED_BYTES: u64 = 1 << 16;
/// Packed pages that fill so many sixteenths of their blocks are not tried again; nor is a page made longer that does.
const FULL_SIXTEENTHS: u64 = 15;
/// A page has twice its blocks where fewer items fit it, and as many as it fills best where half as many do.
const ITEMS_MIN: u64 = 6;
/// So often a packed page is tried with more or fewer quanta.
const TRIES_MAX: u32 = 4;

/// Writes a run from its first item to its last.
///
/// Dropped before [`RunWriter::finish`], it removes its file.
#[derive(Debug)]
pub(crate) struct RunWriter {
    files: Files,
    hasher: ItemHasher,
    shape: RunShape,
    range: RangeInclusive<u64>,
    expected: Expected,
    is_behind: bool,
    front: Option<FrontBuilder>,
    ranks: Option<HashRankBuilder>,
    counts: Counts,
    last: Option<KeyHash>,
    /// Items that are in no page yet.
    items: PageBuilder,
    sizes: Sizes,
    /// `None` while the first items are gathered, to see how they are packed.
    pages: Option<Pages>,
}

/// Where pages go, and where they may be cut.
#[derive(Debug)]
struct Pages {
    segment: SegmentWriter,
    quanta: Quanta,
    packer: Packer,
    dictionary: Vec<u8>,
    /// Of the last item.
    quantum: u64,
    /// What the items before each quantum but the first take, together.
    borders: Vec<Sizes>,
    lengths: PageLengths,
    /// Once items take more, a page is cut: what its blocks hold or, packed, are thought to hold.
    limit: u64,
    /// A page before and after it is packed, and the last one that fitted.
    raw: Vec<u8>,
    tried: Vec<u8>,
    fitting: Vec<u8>,
}

/// How many blocks a page has.
#[derive(Clone, Copy, Debug)]
struct PageLengths {
    /// So many, or a multiple: the index has a border for each.
    unit: u64,
    /// At most so many, unless one quantum takes more.
    most: u64,
}

impl RunWriter {
    /// Begins a run of items whose hashes (their first 64 bits) are in `range`, in a new file of the store; if `is_behind`, a thread
    /// writes a mebibyte while the next is filled.
    ///
    /// # Errors
    /// `InvalidOption` for an empty range or a compression that is not built in; what [`Files::create`] says.
    pub(crate) fn create(
        files: &Files,
        hasher: ItemHasher,
        shape: RunShape,
        range: RangeInclusive<u64>,
        expected: Expected,
        is_behind: bool,
    ) -> Result<RunWriter> {
        shape.compression.check()?;
        let front = shape.front_bits.map(|bits_a_key| {
            let shape = FrontShape { bits_a_key, value_bits: 0 };
            FrontBuilder::new(front_kind(hasher), shape, &range, expected.items)
        });
        let options = HashRankOptions::new();
        let ranks = (shape.has_ranks)
            .then(|| HashRank::builder_in(range.clone(), expected.items, hasher.key_hasher(), options))
            .transpose()?;
        let mut writer = RunWriter {
            files: files.clone(),
            hasher,
            shape,
            range,
            expected,
            is_behind,
            front,
            ranks,
            counts: Counts::default(),
            last: None,
            items: PageBuilder::default(),
            sizes: Sizes::default(),
            pages: None,
        };
        if shape.compression == Compression::None {
            writer.begin_pages()?;
        }
        Ok(writer)
    }

    /// Adds the next item.
    ///
    /// # Errors
    /// `InvalidOption` if it is not behind the last one, by hash and then by key, if it is outside the range, or longer than a page may
    /// be; `Full` or `Io` from the device.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'_>) -> Result<()> {
        self.check_order(&item)?;
        if self.pages.is_none() && self.sizes.bytes() >= self.sample_bytes() {
            self.begin_pages()?;
        }
        let mut grown = self.sizes.with(&item);
        if let Some(pages) = &mut self.pages {
            pages.pass(item.hash.high(), &self.sizes);
            while grown.bytes() > pages.limit && !pages.borders.is_empty() {
                if !pages.cut(&self.shape, &mut self.items, false)? {
                    break;
                }
                self.sizes = pages.recount(&self.items);
                pages.pass(item.hash.high(), &self.sizes);
                grown = self.sizes.with(&item);
            }
        }
        if grown.bytes() > PAGE_BYTES_MAX {
            return refuse_long(grown.bytes());
        }
        if let Some(front) = &mut self.front {
            front.push(&[item.hash.high()])?;
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.push(item.hash)?;
        }
        self.items.push(&item);
        self.sizes = grown;
        self.last = Some(item.hash);
        self.counts.add(&item);
        Ok(())
    }

    /// Ends the run, syncs its file, and opens it; `None` where nothing was pushed, and no file.
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub(crate) fn finish(mut self) -> Result<Option<RunSegment>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        if self.pages.is_none() {
            self.begin_pages()?;
        }
        let Some(mut pages) = self.pages else { return Ok(None) };
        while !self.items.is_empty() {
            pages.borders.push(self.sizes);
            pages.cut(&self.shape, &mut self.items, true)?;
            self.sizes = pages.recount(&self.items);
        }
        let front = self.front.map_or_else(Vec::new, |front| front.finish().encode());
        let ranks = self.ranks.map_or_else(Vec::new, |ranks| ranks.finish().to_bytes());
        let meta = Meta {
            compression: self.shape.compression,
            page_blocks: self.shape.page_blocks,
            counts: self.counts,
            dictionary: &pages.dictionary,
            front: &front,
            ranks: &ranks,
        };
        let meta = meta.encode();
        let segment = pages.segment.finish_open(&meta)?;
        segment.sync()?;
        RunSegment::of(segment, self.hasher).map(Some)
    }

    fn check_order(&self, item: &Item<'_>) -> Result<()> {
        let is_behind = self
            .last
            .is_none_or(|last| item.hash > last || item.hash == last && item.key > self.items.last_key());
        if is_behind && self.range.contains(&item.hash.high()) {
            return Ok(());
        }
        let why = format!(
            "items come in the order of hashes and keys, after {:?}, and in {:x?}",
            self.last, self.range
        );
        invalid("an item's hash", format!("{:?}", item.hash), why)
    }

    /// How much is gathered before the first page.
    fn sample_bytes(&self) -> u64 {
        if self.shape.compression == Compression::Zstd { TRAINED_BYTES } else { TRIED_BYTES }
    }

    /// Begins to cut pages: how they are packed, and into how many quanta the range is cut, follows from what came so far.
    fn begin_pages(&mut self) -> Result<()> {
        let page_bytes = page_bytes(&self.shape);
        let Expected { items, bytes } = self.expected;
        let mut raw = Vec::new();
        // Pages of what came, each twice as long as one that is not packed.
        let samples = self.items.samples(2 * page_bytes, &mut raw);
        let dictionary = train(self.shape.compression, &raw, &samples);
        let mut packer = Packer::new(self.shape.compression, &dictionary)?;
        let (mut tried, mut packed_bytes, mut rest) = (Vec::new(), 1, &raw[..]);
        for length in &samples {
            let (sample, behind) = rest.split_at(*length);
            packer.pack(sample, &mut tried)?;
            packed_bytes += tried.len() as u64;
            rest = behind;
        }
        let raw_bytes = raw.len().max(1) as u64;
        // In pages as they are packed; where nothing is, in pages as they are. They are filled to some fifteen sixteenths.
        let limit = (page_bytes as u128 * u128::from(raw_bytes) / u128::from(packed_bytes))
            .max(page_bytes.into()) as u64;
        let mean_bytes = bytes / items.max(1);
        let lengths = PageLengths::new(&self.shape, mean_bytes);
        let (unit_bytes, limit) = match self.shape.compression {
            Compression::None => (lengths.unit * BODY_BYTES as u64, lengths.most * BODY_BYTES as u64),
            _ => (limit, limit),
        };
        let pages = bytes.saturating_add(bytes / 15) / unit_bytes + 1;
        // The more quanta a page has, the less of one is left open at its end, for a bit of index a page each time they are doubled. Of
        // items of which a page has few, it is mostly the item that does not fit, and a page is to end between any two.
        let lg_quanta = match self.shape.compression {
            Compression::None if lengths.most > u64::from(self.shape.page_blocks) => 5,
            Compression::None if mean_bytes * 16 <= unit_bytes => 3,
            _ => 4,
        };
        let quanta = Quanta::new(self.range.clone(), (pages << lg_quanta).max(QUANTA_MIN))?;
        let segment = SegmentWriter::create_quantised(
            &self.files,
            segment_kind(self.hasher),
            quanta,
            PIECE_BYTES,
            self.is_behind,
        )?;
        let mut pages = Pages {
            segment,
            quanta,
            packer,
            dictionary,
            quantum: 0,
            borders: Vec::new(),
            lengths,
            limit,
            raw,
            tried,
            fitting: Vec::new(),
        };
        self.sizes = pages.recount(&self.items);
        self.pages = Some(pages);
        Ok(())
    }
}

impl Pages {
    /// Notes the border before an item of this hash, if there is one; `sizes` are those of the items before.
    #[inline]
    fn pass(&mut self, hash: u64, sizes: &Sizes) {
        let quantum = self.quanta.of(hash);
        if quantum != self.quantum {
            self.quantum = quantum;
            if sizes.items > 0 {
                self.borders.push(*sizes);
            }
        }
    }

    /// Finds the borders between `items` again, of which the first were taken away; what they take.
    fn recount(&mut self, items: &PageBuilder) -> Sizes {
        self.borders.clear();
        let mut sizes = Sizes::default();
        for (hash, grown) in items.grown() {
            self.pass(hash, &sizes);
            sizes = grown;
        }
        sizes
    }

    /// Writes a page of the first items, up to one of the borders, of which there are some; whether it did. Unless `is_end`, it waits for
    /// more items where those that are there do not fill one.
    fn cut(&mut self, shape: &RunShape, items: &mut PageBuilder, is_end: bool) -> Result<bool> {
        let border = match shape.compression {
            Compression::None => self.fullest(),
            _ => {
                let border = self.fit_packed(page_bytes(shape), items)?;
                let is_full = self.fitting.len() as u64 * 16 >= page_bytes(shape) * FULL_SIXTEENTHS;
                if border + 1 == self.borders.len() && !is_full && !is_end {
                    // All that is there fits; the limit was too low.
                    self.limit =
                        self.limit.max(self.borders[border].bytes() + self.borders[border].bytes() / 16);
                    return Ok(false);
                }
                border
            }
        };
        let sizes = self.borders[border];
        let (first, last) = items.ends_of(sizes.items as usize);
        let unit = self.lengths.unit;
        if shape.compression == Compression::None {
            self.fitting.clear();
            let (keys, values) = items.encode_columns(&sizes, &mut self.fitting);
            self.segment.push_page_of(first, last, sizes.items, &[&self.fitting, keys, values], unit)?;
        } else {
            self.segment.push_page_of(first, last, sizes.items, &[&self.fitting], unit)?;
        }
        items.drop_first(sizes.items as usize);
        Ok(true)
    }

    /// The border at which a page ends that is filled best, or well enough and shorter.
    fn fullest(&self) -> usize {
        let last = self.borders.len() - 1;
        let unit_bytes = self.lengths.unit * BODY_BYTES as u64;
        let units = |at: usize| self.borders[at].bytes().div_ceil(unit_bytes).max(1);
        let (mut best, mut end) = (None, 0);
        while end <= last {
            // The last of the pages of this length.
            let length = units(end);
            let at =
                end + self.borders[end..].partition_point(|sizes| sizes.bytes() <= length * unit_bytes) - 1;
            let (bytes, room) = (self.borders[at].bytes(), length * unit_bytes);
            if bytes * 16 >= room * FULL_SIXTEENTHS {
                return at;
            }
            let is_fuller = best.is_none_or(|(_, other, other_room)| {
                u128::from(bytes) * u128::from(other_room) > u128::from(other) * u128::from(room)
            });
            if is_fuller {
                best = Some((at, bytes, room));
            }
            end = at + 1;
        }
        best.map_or(last, |(at, _, _)| at)
    }

    /// The last border before which all items are thought to fit, packed, in `room`, and their page; the first one if none does.
    fn fit_packed(&mut self, room: u64, items: &PageBuilder) -> Result<usize> {
        let (mut fits, mut low, mut high) = (None, 0, self.borders.len());
        for tries in 0.. {
            let at = if tries < TRIES_MAX {
                let near = self.borders[low..high].partition_point(|sizes| sizes.bytes() <= self.limit);
                low + near.saturating_sub(1)
            } else {
                low + (high - low) / 2
            };
            self.raw.clear();
            items.encode(&self.borders[at], &mut self.raw);
            self.packer.pack(&self.raw, &mut self.tried)?;
            let packed_bytes = self.tried.len() as u64;
            // A fiftieth less than what would just fit, for pages differ.
            let limit = u128::from(room) * self.raw.len() as u128 * 49 / (u128::from(packed_bytes) * 50);
            self.limit = (limit as u64).max(1);
            if packed_bytes <= room || at == 0 {
                std::mem::swap(&mut self.tried, &mut self.fitting);
                (fits, low) = (Some(at), at + 1);
            } else {
                high = at;
            }
            let is_full = packed_bytes <= room && packed_bytes * 16 >= room * FULL_SIXTEENTHS;
            if low >= high || is_full || tries >= TRIES_MAX && fits.is_some() {
                break;
            }
        }
        // Where the loop ends without one that fits, the first was tried.
        Ok(fits.unwrap_or(0))
    }
}

impl PageLengths {
    /// Of pages of items that have so many bytes on average.
    fn new(shape: &RunShape, mean_bytes: u64) -> PageLengths {
        let (blocks, bytes) = (u64::from(shape.page_blocks), page_bytes(shape));
        if shape.compression != Compression::None {
            return PageLengths { unit: 1, most: blocks };
        }
        if mean_bytes * ITEMS_MIN <= bytes {
            PageLengths { unit: blocks, most: blocks }
        } else if mean_bytes * ITEMS_MIN <= 2 * bytes {
            PageLengths { unit: 2 * blocks, most: 4 * blocks }
        } else {
            PageLengths { unit: 1, most: 4 * blocks }
        }
    }
}

fn page_bytes(shape: &RunShape) -> u64 {
    u64::from(shape.page_blocks) * BODY_BYTES as u64
}

#[cold]
fn refuse_long(bytes: u64) -> Result<()> {
    let why = format!(
        "a page, all items of hashes that are nearly equal, has at most {PAGE_BYTES_MAX} bytes; put long values elsewhere"
    );
    invalid("the length of a page", bytes, why)
}
