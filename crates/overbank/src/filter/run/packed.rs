//! Runs in RAM: what was inserted and is not on flash yet, packed as on flash.
//!
//! ```text
//!   sorted fingerprints ─▶ windows, counts added up ─▶ blocks of 1024 fingerprints ─▶ chunks of 256 KiB, each as long as it has to be
//!                                                   └ in an array: its first fingerprint, where it is
//! ```
//!
//! 1. A block is one of a run on flash, but its length is that of its fingerprints.
//! 2. A packed run never changes, and may be asked by any number of threads.
//!
//! | n fingerprints | CPU | RAM |
//! |---|---|---|
//! | build | O(n) | n (r + 2.25) / 8 bytes, of which 0.13 bits are headers and 0.13 the array; a window of 16 Ki more |
//! | look up k | k lg (n / 1024), and about 20 words of a block each; in dense batches O(1) each | 0 |
//! | cursor | O(n) | 0 |

use super::RunKind;
use super::decode::{self, Prober};
use super::encode::Cutter;
use super::entries::{Entries, Totals};
use super::format::{check_bits, fingerprint_max};
use super::front::{Front, FrontBuilder, FrontShape};
use super::query::{add_counts, check_questions};
use super::writer::{check_max, out_of_order};
use crate::Result;
use crate::batch::gallop;
use crate::bits::prefetch::prefetch;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock};

/// Fingerprints of a block. 2048 would save 0.13 bits each, and take a lookup twice as long to find its word.
const BLOCK_KEYS: usize = 1024;

/// A chunk is at most this long: few allocations, and little is copied or lost where one ends.
const CHUNK_BYTES: usize = 1 << 18;

/// A cache line, and what of a block a question may pass over before it comes to one place.
const LINE_BYTES: usize = 64;
const HIGHS_BYTES: usize = 5 * LINE_BYTES;

/// Fingerprints that are taken at a time: they fit a core's second cache.
const WINDOW: usize = 1 << 14;

/// Ascending fingerprints with their counts, packed, in RAM.
#[derive(Debug)]
pub struct PackedRun {
    kind: RunKind,
    chunks: Vec<Box<[u8]>>,
    blocks: Vec<BlockPlace>,
    last: u64,
    /// How many blocks a distance of 1 between fingerprints is, on average.
    density: f64,
    totals: Totals,
    front: OnceLock<Front>,
}

/// A block: its first fingerprint, and where it begins.
#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    first: u64,
    chunk: u32,
    at: u32,
}

impl PackedRun {
    /// Packs ascending fingerprints, each for one occurrence, or one removal; repetitions add up.
    ///
    /// # Errors
    /// `InvalidOption` where a fingerprint is below the one before or has too many bits.
    pub fn new(kind: RunKind, fingerprints: &[u64]) -> Result<Self> {
        let mut packer = Packer::new(kind)?;
        check_max(kind, fingerprints.last().copied().unwrap_or(0))?;
        let (mut rest, mut twins) = (fingerprints, Vec::new());
        while let Some(&bound) = rest.get(WINDOW - 1).or(rest.last()) {
            // With all repetitions of its last one.
            let (window, after) = rest.split_at(gallop(rest, |&fingerprint| fingerprint <= bound));
            if window.is_empty() || !window.is_sorted() {
                return Err(out_of_order(bound, rest[0]));
            }
            packer.push_with(|backlog| backlog.push_sorted(window, false, &mut twins));
            rest = after;
        }
        Ok(packer.finish())
    }

    /// As [`PackedRun::new`], of fingerprints that come one by one.
    ///
    /// # Errors
    /// As there.
    pub fn of_ascending(kind: RunKind, fingerprints: impl Iterator<Item = u64>) -> Result<Self> {
        let mut packer = Packer::new(kind)?;
        let (mut fingerprints, mut window, mut twins) = (fingerprints.peekable(), Vec::new(), Vec::new());
        let mut before = None;
        loop {
            window.clear();
            window.extend(fingerprints.by_ref().take(WINDOW));
            let Some(&last) = window.last() else { return Ok(packer.finish()) };
            window.extend(std::iter::from_fn(|| fingerprints.next_if_eq(&last)));
            check_max(kind, last)?;
            if before.is_some_and(|before| window[0] <= before) || !window.is_sorted() {
                return Err(out_of_order(last, window[0]));
            }
            packer.push_with(|backlog| backlog.push_sorted(&window, false, &mut twins));
            before = Some(last);
        }
    }

    /// Puts a front before the run, for [`PackedRun::count`], unless it has one.
    ///
    /// # Cost
    /// Unpacks the run once.
    ///
    /// # Errors
    /// As [`PackedRun::count`].
    pub fn make_front(&self, shape: FrontShape) -> Result<()> {
        let Some(range) = self.range().filter(|_| !self.has_front()) else { return Ok(()) };
        let mut front = FrontBuilder::new(self.kind, shape, &range, self.fingerprints());
        let (mut entries, max) = (Entries::default(), fingerprint_max(self.kind.fingerprint_bits));
        for block in 0..self.blocks() {
            entries.clear();
            decode::decode(self.body(block), max, &mut entries)?;
            front.push(entries.fingerprints())?;
        }
        // Another thread may have made the same one meanwhile.
        let _ = self.front.set(front.finish());
        Ok(())
    }

    /// Whether it has a front.
    pub fn has_front(&self) -> bool {
        self.front.get().is_some()
    }

    /// Tells the cache that a hash will soon be asked for.
    #[inline]
    pub fn prefetch(&self, prefix: u64) {
        if let Some(front) = self.front.get() {
            front.prefetch(prefix);
        }
    }

    /// What its fingerprints are.
    pub fn kind(&self) -> RunKind {
        self.kind
    }

    /// Different fingerprints.
    pub fn fingerprints(&self) -> u64 {
        self.totals.fingerprints
    }

    /// Fingerprints whose count is below 0.
    pub fn tombstones(&self) -> u64 {
        self.totals.tombstones
    }

    /// The sum of the counts above 0.
    pub fn occurrences(&self) -> u64 {
        self.totals.occurrences
    }

    /// The least and the greatest fingerprint; `None` if there is none.
    pub fn range(&self) -> Option<RangeInclusive<u64>> {
        self.blocks.first().map(|block| block.first..=self.last)
    }

    /// RAM that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let bytes: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
        bytes
            + self.chunks.capacity() * size_of::<Box<[u8]>>()
            + self.blocks.capacity() * size_of::<BlockPlace>()
            + self.front.get().map_or(0, Front::memory_bytes)
            + size_of::<Self>()
    }

    /// Adds to `counts[i]` the count of the fingerprint of `prefixes[i]`, which ascend or repeat; see [`super::count_many`].
    ///
    /// # Errors
    /// `InvalidOption` for prefixes out of order, or another number of counts.
    pub fn count_many(&self, prefixes: &[u64], counts: &mut [i64]) -> Result<()> {
        check_questions(prefixes, counts.len())?;
        let within =
            self.range().map_or(0..0, |range| self.kind.within(prefixes, *range.start(), *range.end()));
        let (mut prefixes, mut counts) = (&prefixes[within.clone()], &mut counts[within]);
        let mut block = 0;
        while let Some(&prefix) = prefixes.first() {
            let fingerprint = self.kind.fingerprint_of(prefix);
            // The last block that begins at or below it; the first one does.
            block += gallop(&self.blocks[block + 1..], |next| next.first <= fingerprint);
            let end = match self.blocks.get(block + 1) {
                Some(next) => gallop(prefixes, |&prefix| self.kind.fingerprint_of(prefix) < next.first),
                None => prefixes.len(),
            };
            let (asked, answers);
            (asked, prefixes) = prefixes.split_at(end);
            (answers, counts) = counts.split_at_mut(end);
            add_counts(self.body(block), self.kind, asked, answers)?;
        }
        Ok(())
    }

    /// The count of the fingerprint of one prefix.
    ///
    /// # Errors
    /// `Corrupt` if the RAM has other bytes than were written.
    pub fn count(&self, prefix: u64) -> Result<i64> {
        if self.front.get().is_some_and(|front| !front.may_have(prefix)) {
            return Ok(0);
        }
        let fingerprint = self.kind.fingerprint_of(prefix);
        let Some(block) = self.block_of(fingerprint) else { return Ok(0) };
        let body = self.body(block);
        self.prefetch_block(block, body, fingerprint);
        let count = Prober::new(body, fingerprint_max(self.kind.fingerprint_bits))?.count(fingerprint)?;
        Ok(self.kind.sign.signed(count))
    }

    /// Tells the cache which lines of a block a question will come to, as far as the order of hashes tells: else each is a miss that waits
    /// for the one before.
    #[inline]
    fn prefetch_block(&self, block: usize, body: &[u8], fingerprint: u64) {
        let share = (self.blocks_between(self.blocks[block].first, fingerprint)).min(1.0);
        // Highs of 2 to 3 bits a fingerprint, passed over from the first on; then the lows.
        let (highs, lows) = body.split_at(body.len().min(HIGHS_BYTES));
        for line in 0..HIGHS_BYTES / LINE_BYTES {
            prefetch(highs, line * LINE_BYTES);
        }
        let guess = (share * lows.len() as f64) as usize;
        for at in [guess.saturating_sub(LINE_BYTES), guess, guess + LINE_BYTES] {
            prefetch(lows, at);
        }
    }

    /// How many blocks lie between two fingerprints of the run, if these are spread evenly.
    #[inline]
    fn blocks_between(&self, first: u64, fingerprint: u64) -> f64 {
        (fingerprint - first) as f64 * self.density
    }

    /// Goes through the entries of fingerprints in `range` in order. It keeps the run.
    pub fn cursor(self: &Arc<Self>, range: RangeInclusive<u64>) -> PackedCursor {
        let blocks = self.blocks_of(&range);
        PackedCursor { run: Arc::clone(self), blocks, range }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The blocks that may have a fingerprint in `range`.
    pub(super) fn blocks_of(&self, range: &RangeInclusive<u64>) -> Range<usize> {
        let start = self.blocks.partition_point(|block| block.first <= *range.start()).saturating_sub(1);
        let end = self.blocks.partition_point(|block| block.first <= *range.end());
        start..end.max(start)
    }

    /// The last block that begins at or below a fingerprint; none where it is outside of the run. Fingerprints are spread evenly, as
    /// hashes are, so a guess is a block or two off, and searched from; a binary search would miss the cache at each step.
    fn block_of(&self, fingerprint: u64) -> Option<usize> {
        let first = self.blocks.first()?.first;
        if !(first..=self.last).contains(&fingerprint) {
            return None;
        }
        let guess = (self.blocks_between(first, fingerprint) as usize).min(self.blocks.len() - 1);
        let is_behind = |at: usize| self.blocks.get(at).is_none_or(|block| block.first > fingerprint);
        if !is_behind(guess) && is_behind(guess + 1) {
            return Some(guess);
        }
        let (below, above) = self.blocks.split_at(guess);
        let behind = gallop(above, |block| block.first <= fingerprint);
        if behind > 0 {
            return Some(guess + behind - 1);
        }
        // The first block begins at or below it, so there is one.
        let mut reach = 1;
        while reach < below.len() && below[below.len() - reach].first > fingerprint {
            reach *= 2;
        }
        let from = below.len().saturating_sub(reach);
        (from + below[from..].partition_point(|block| block.first <= fingerprint)).checked_sub(1)
    }

    /// The `block`-th block.
    pub(super) fn body(&self, block: usize) -> &[u8] {
        let BlockPlace { chunk, at, .. } = self.blocks[block];
        let bytes = &self.chunks[chunk as usize][at as usize..];
        match self.blocks.get(block + 1) {
            Some(next) if next.chunk == chunk => &bytes[..(next.at - at) as usize],
            _ => bytes,
        }
    }
}

/// A place in a packed run, between two blocks.
#[derive(Debug)]
pub struct PackedCursor {
    run: Arc<PackedRun>,
    blocks: Range<usize>,
    range: RangeInclusive<u64>,
}

impl PackedCursor {
    /// Appends the next block's entries, as far as they are in the range, to `into`, which holds none above them; false at the end.
    ///
    /// # Errors
    /// `Corrupt` if the RAM has other bytes than were written.
    pub fn next_block(&mut self, into: &mut Entries) -> Result<bool> {
        let Some(block) = self.blocks.next() else { return Ok(false) };
        let start = into.len();
        let max = fingerprint_max(self.run.kind.fingerprint_bits);
        decode::decode(self.run.body(block), max, into)?;
        into.trim(start, &self.range);
        Ok(true)
    }
}

/// Packs entries as they come, in order.
pub(super) struct Packer {
    run: PackedRun,
    backlog: Entries,
    /// The chunk that is being filled.
    chunk: Vec<u8>,
}

impl Packer {
    pub(super) fn new(kind: RunKind) -> Result<Self> {
        check_bits(kind.fingerprint_bits)?;
        let run = PackedRun {
            kind,
            chunks: Vec::new(),
            blocks: Vec::new(),
            last: 0,
            density: 0.0,
            totals: Totals::default(),
            front: OnceLock::new(),
        };
        Ok(Packer { run, backlog: Entries::default(), chunk: Vec::new() })
    }

    /// Lets `fill` append entries that are above all others.
    pub(super) fn push_with<R>(&mut self, fill: impl FnOnce(&mut Entries) -> R) {
        fill(&mut self.backlog);
        self.cut(self.backlog.len() / BLOCK_KEYS * BLOCK_KEYS);
    }

    pub(super) fn finish(mut self) -> PackedRun {
        self.cut(self.backlog.len());
        let end = self.chunk.len();
        end_chunk(&mut self.run.chunks, &mut self.chunk, end);
        self.run.chunks.shrink_to_fit();
        self.run.blocks.shrink_to_fit();
        if let Some(range) = self.run.range() {
            self.run.density = self.run.blocks.len() as f64 / ((range.end() - range.start()) as f64 + 1.0);
        }
        self.run
    }

    /// Packs the first `end` entries of the backlog.
    fn cut(&mut self, end: usize) {
        if end == 0 {
            return;
        }
        let cutter = Cutter::new(self.backlog.all());
        let mut start = 0;
        while start < end {
            let keys = BLOCK_KEYS.min(end - start);
            let at = self.chunk.len();
            cutter.pack(start, keys, &mut self.chunk);
            let mut place = BlockPlace {
                first: self.backlog.fingerprints[start],
                chunk: self.run.chunks.len() as u32,
                at: at as u32,
            };
            if self.chunk.len() > CHUNK_BYTES && at > 0 {
                end_chunk(&mut self.run.chunks, &mut self.chunk, at);
                place = BlockPlace { chunk: place.chunk + 1, at: 0, ..place };
            }
            self.run.blocks.push(place);
            start += keys;
        }
        self.run.last = self.backlog.fingerprints[end - 1];
        self.run.totals.add(self.backlog.all().slice(0, end));
        self.backlog.drop_front(end);
    }
}

/// Moves the first `end` bytes of `chunk` to a chunk that is no longer than they are.
fn end_chunk(chunks: &mut Vec<Box<[u8]>>, chunk: &mut Vec<u8>, end: usize) {
    if end > 0 {
        chunks.push(chunk[..end].into());
        chunk.drain(..end);
    }
}
