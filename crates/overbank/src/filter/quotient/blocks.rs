//! The slots: blocks of 64 with their three kinds of metadata, and how runs are found and shifted in them.
//!
//! ```text
//!   words    │ occupieds │ runends │ remainder words, 64 × r bits │ occupieds │ runends │ …      r + 2 words a block
//!   offsets  │ u8 │ u8 │ …                                                                      one a block
//!
//!   occupieds  bit i: some fingerprint has quotient 64 b + i             1 0 1 0 …       the n-th one of occupieds
//!   runends    bit i: slot 64 b + i holds the last of a run              0 0 1 1 …       belongs to the n-th of runends
//!   offset     slots from 64 b on that runs of earlier blocks fill: where this block's runs begin
//! ```
//!
//! 1. Fingerprints lie in ascending order, each in the first slot that is neither below its quotient nor taken: the words
//!    depend on the multiset of fingerprints alone, not on the way there.
//! 2. What no fingerprint occupies is zero; so is the word past the last block, which lets two words be read at once.
//! 3. Runs that pass the last quotient lie in spill blocks behind it, and a spill block that is empty does not exist.
//! 4. An offset above 254 is in `far`, whatever the keys.
//!
//! Cost: two lines of a block and a byte of `offsets` a look-up. Source: Pandey, Bender, Johnson, Patro, "A General-Purpose
//! Counting Filter" (SIGMOD 2017), section 3 (rank-and-select layout).

use crate::bits::prefetch::prefetch;
use crate::bits::select_as_many;
use crate::bits::word::{low_mask, read_bits, write_bits};
use std::collections::BTreeMap;

pub(super) const BLOCK_SLOTS: usize = 64;
/// Words of a block beside its remainders.
pub(super) const METADATA_WORDS: usize = 2;
/// An offset that `far` knows.
const FAR: u8 = u8::MAX;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    remainder_bits: u32,
    /// How many blocks have quotients.
    main: usize,
    words: Vec<u64>,
    offsets: Vec<u8>,
    far: BTreeMap<usize, usize>,
}

impl Blocks {
    /// `blocks` empty blocks.
    pub(super) fn new(blocks: usize, remainder_bits: u32) -> Self {
        let words = vec![0; blocks * (METADATA_WORDS + remainder_bits as usize) + 1];
        Self { remainder_bits, main: blocks, words, offsets: vec![0; blocks], far: BTreeMap::new() }
    }

    /// Blocks with such words, for a decoder to look through: the offsets are not set.
    pub(super) fn of_words(mut words: Vec<u64>, remainder_bits: u32) -> Self {
        let blocks = words.len() / (METADATA_WORDS + remainder_bits as usize);
        words.push(0);
        Self { remainder_bits, main: blocks, words, offsets: vec![0; blocks], far: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// All words of all blocks.
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.words.len() - 1]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry_bytes = 2 * size_of::<(usize, usize)>();
        self.words.capacity() * 8 + self.offsets.capacity() + self.far.len() * entry_bytes
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        METADATA_WORDS + self.remainder_bits as usize
    }

    #[inline(always)]
    pub(super) fn occupieds(&self, block: usize) -> u64 {
        self.words[block * self.stride()]
    }

    #[inline(always)]
    pub(super) fn runends(&self, block: usize) -> u64 {
        self.words[block * self.stride() + 1]
    }

    #[inline(always)]
    pub(super) fn is_occupied(&self, quotient: usize) -> bool {
        self.occupieds(quotient / 64) >> (quotient % 64) & 1 == 1
    }

    #[inline(always)]
    pub(super) fn is_runend(&self, slot: usize) -> bool {
        self.runends(slot / 64) >> (slot % 64) & 1 == 1
    }

    pub(super) fn mark_occupied(&mut self, quotient: usize, occupied: bool) {
        let at = quotient / 64 * self.stride();
        set_bit(&mut self.words[at], quotient % 64, occupied);
    }

    pub(super) fn mark_runend(&mut self, slot: usize, runend: bool) {
        let at = slot / 64 * self.stride() + 1;
        set_bit(&mut self.words[at], slot % 64, runend);
    }

    #[inline(always)]
    pub(super) fn remainder(&self, slot: usize) -> u64 {
        let start = slot / 64 * self.stride() + METADATA_WORDS;
        read_bits(
            &self.words[start..],
            (slot % 64) as u64 * u64::from(self.remainder_bits),
            self.remainder_bits,
        )
    }

    #[inline(always)]
    pub(super) fn set_remainder(&mut self, slot: usize, remainder: u64) {
        let (start, width) = (slot / 64 * self.stride() + METADATA_WORDS, self.remainder_bits);
        write_bits(&mut self.words[start..], (slot % 64) as u64 * u64::from(width), width, remainder);
    }

    #[inline(always)]
    pub(super) fn offset(&self, block: usize) -> usize {
        match self.offsets[block] {
            FAR => self.far_offset(block),
            near => usize::from(near),
        }
    }

    #[cold]
    fn far_offset(&self, block: usize) -> usize {
        self.far.get(&block).copied().unwrap_or(usize::from(FAR))
    }

    #[inline(always)]
    pub(super) fn set_offset(&mut self, block: usize, offset: usize) {
        if offset < usize::from(FAR) && self.offsets[block] != FAR {
            self.offsets[block] = offset as u8;
        } else {
            self.set_far_offset(block, offset);
        }
    }

    #[cold]
    fn set_far_offset(&mut self, block: usize, offset: usize) {
        if offset < usize::from(FAR) {
            self.far.remove(&block);
            self.offsets[block] = offset as u8;
        } else {
            self.far.insert(block, offset);
            self.offsets[block] = FAR;
        }
    }

    /// Asks for the lines that a look-up of this quotient will read, where its run has not been shifted.
    #[inline(always)]
    pub(super) fn prefetch(&self, quotient: usize) {
        let (block, start) = (quotient / 64, quotient / 64 * self.stride());
        let word = quotient % 64 * self.remainder_bits as usize / 64;
        prefetch(&self.words, start);
        prefetch(&self.words, start + METADATA_WORDS + word);
        prefetch(&self.offsets, block);
    }

    /// The last slot of the run of the last of `quotients`, which are the block's first occupied ones and not none.
    #[inline(always)]
    pub(super) fn run_end(&self, block: usize, quotients: u64) -> usize {
        match self.run_end_within(block, quotients, self.runends(block)) {
            64 => self.run_end_beyond(block, quotients.count_ones()),
            place => block * BLOCK_SLOTS + place as usize,
        }
    }

    /// As [`Blocks::run_end`], as a place in the block, of which `runends` are the runends; 64 for a later block.
    #[inline(always)]
    pub(super) fn run_end_within(&self, block: usize, quotients: u64, runends: u64) -> u32 {
        match self.offsets[block] {
            offset if offset < 64 => select_as_many(quotients, runends & u64::MAX << offset),
            _ => 64,
        }
    }

    /// As [`Blocks::run_end`], in a later block.
    fn run_end_beyond(&self, block: usize, mut runs: u32) -> usize {
        let offset = self.offset(block);
        let mut at = block + offset / BLOCK_SLOTS;
        let mut runends = self.runends(at) & u64::MAX << (offset % BLOCK_SLOTS);
        while runends.count_ones() < runs {
            runs -= runends.count_ones();
            at += 1;
            runends = self.runends(at);
        }
        at * BLOCK_SLOTS + crate::bits::select_in_word(runends, runs - 1) as usize
    }

    /// The occupied quotients of `quotient`'s block up to itself.
    #[inline(always)]
    pub(super) fn occupied_through(&self, quotient: usize) -> u64 {
        self.occupieds(quotient / 64) & u64::MAX >> (63 - quotient % 64)
    }

    /// The first slot behind all runs of quotients up to `quotient`, or a slot up to `quotient` where that is free.
    #[inline(always)]
    pub(super) fn end_through(&self, quotient: usize) -> usize {
        let block = quotient / BLOCK_SLOTS;
        match self.occupied_through(quotient) {
            0 => block * BLOCK_SLOTS + self.offset(block),
            quotients => self.run_end(block, quotients) + 1,
        }
    }

    /// The first slot from `slot` on that is free or begins a run in the slot of its quotient: what lies before it is shifted.
    pub(super) fn first_unshifted(&self, mut slot: usize) -> usize {
        while (slot - 1) / BLOCK_SLOTS < self.len() {
            let end = self.end_through(slot - 1);
            if end <= slot {
                break;
            }
            slot = end;
        }
        slot
    }

    /// The first free slot from `slot` on; maybe in a block that does not exist yet.
    pub(super) fn first_free(&self, mut slot: usize) -> usize {
        while slot / BLOCK_SLOTS < self.len() {
            let end = self.end_through(slot);
            if end <= slot {
                break;
            }
            slot = end;
        }
        slot
    }

    /// Makes block `block` exist.
    pub(super) fn reach(&mut self, block: usize) {
        if block < self.len() {
            return;
        }
        if block >= self.offsets.capacity() {
            // Exactly, for a vector's own growth would double the filter; half the spill more, so that a long one is not
            // copied often.
            let more = block + 1 - self.len() + (block - self.main) / 2;
            self.words.reserve_exact(more * self.stride());
            self.offsets.reserve_exact(more);
        }
        self.words.resize((block + 1) * self.stride() + 1, 0);
        self.offsets.resize(block + 1, 0);
    }

    /// Removes empty spill blocks.
    pub(super) fn trim(&mut self) {
        let mut len = self.len();
        while len > self.main && self.offset(len - 1) == 0 {
            len -= 1;
        }
        let words = len * self.stride();
        self.words.truncate(words + 1);
        self.words[words] = 0;
        self.offsets.truncate(len);
    }

    /// Zeroes a block; its offset stays.
    pub(super) fn clear(&mut self, block: usize) {
        let stride = self.stride();
        self.words[block * stride..][..stride].fill(0);
    }

    /// Sets the remainder of a slot that holds zero.
    #[inline(always)]
    pub(super) fn fill(&mut self, slot: usize, remainder: u64) {
        let (start, width) = (slot / 64 * self.stride() + METADATA_WORDS, self.remainder_bits as usize);
        let (word, shift) = (start + slot % 64 * width / 64, slot % 64 * width % 64);
        // Both words without asking whether the slot straddles them; behind the last slot there is a spare one.
        self.words[word] |= remainder << shift;
        self.words[word + 1] |= remainder >> 1 >> (63 - shift);
    }

    #[inline(always)]
    pub(super) fn view(&self, block: usize) -> View<'_> {
        let words = &self.words[block * self.stride()..];
        View { occupieds: words[0], runends: words[1], remainders: &words[METADATA_WORDS..] }
    }

    /// The remainder in a slot of a block.
    #[inline(always)]
    pub(super) fn remainder_of(&self, view: &View<'_>, place: u32) -> u64 {
        read_bits(view.remainders, u64::from(place * self.remainder_bits), self.remainder_bits)
    }

    /// Puts a remainder into `slot` and moves what is in `slot..hole` up by one; `hole` is free.
    pub(super) fn shift_in(&mut self, slot: usize, hole: usize, remainder: u64, runend: bool) {
        self.reach(hole / BLOCK_SLOTS);
        let (mut remainder, mut runend) = (remainder, runend);
        for block in slot / BLOCK_SLOTS..=hole / BLOCK_SLOTS {
            let (first, last) = within(block, slot, hole);
            let moved = (self.remainder(last), self.is_runend(last));
            if first < last {
                self.shift_up(block, first % BLOCK_SLOTS, last % BLOCK_SLOTS);
            }
            self.set_remainder(first, remainder);
            self.mark_runend(first, runend);
            (remainder, runend) = moved;
        }
    }

    /// Takes the remainder of `slot` out, moves what is in `slot + 1..=last` down by one, and leaves `last` free.
    pub(super) fn shift_out(&mut self, slot: usize, last: usize) {
        for block in slot / BLOCK_SLOTS..=last / BLOCK_SLOTS {
            let (first, end) = within(block, slot, last);
            if first < end {
                self.shift_down(block, first % BLOCK_SLOTS, end % BLOCK_SLOTS);
            }
            let (remainder, runend) =
                if end == last { (0, false) } else { (self.remainder(end + 1), self.is_runend(end + 1)) };
            self.set_remainder(end, remainder);
            self.mark_runend(end, runend);
        }
    }

    /// Within a block, slots `first..last` to `first + 1..=last`.
    fn shift_up(&mut self, block: usize, first: usize, last: usize) {
        let (width, stride) = (self.remainder_bits, self.stride());
        let block = &mut self.words[block * stride..][..stride];
        let moved = low_mask(last as u32) & !low_mask(first as u32);
        block[1] = block[1] & !(moved << 1) | (block[1] & moved) << 1;
        let words = &mut block[METADATA_WORDS..];
        let (from, to) = ((first + 1) * width as usize, (last + 1) * width as usize);
        for at in (from / 64..=(to - 1) / 64).rev() {
            let below = if at == 0 { 0 } else { words[at - 1] >> (64 - width) };
            let mask = word_mask(at, from, to);
            words[at] = words[at] & !mask | (words[at] << width | below) & mask;
        }
    }

    /// Within a block, slots `first + 1..=last` to `first..last`.
    fn shift_down(&mut self, block: usize, first: usize, last: usize) {
        let (width, stride) = (self.remainder_bits, self.stride());
        let block = &mut self.words[block * stride..][..stride];
        let moved = low_mask(last as u32) & !low_mask(first as u32);
        block[1] = block[1] & !moved | block[1] >> 1 & moved;
        let words = &mut block[METADATA_WORDS..];
        let (from, to) = (first * width as usize, last * width as usize);
        for at in from / 64..=(to - 1) / 64 {
            let above = words.get(at + 1).map_or(0, |next| next << (64 - width));
            let mask = word_mask(at, from, to);
            words[at] = words[at] & !mask | (words[at] >> width | above) & mask;
        }
    }
}

/// A block to read.
#[derive(Clone, Copy)]
pub(super) struct View<'b> {
    pub(super) occupieds: u64,
    pub(super) runends: u64,
    remainders: &'b [u64],
}

#[inline(always)]
fn set_bit(word: &mut u64, bit: usize, value: bool) {
    *word = *word & !(1 << bit) | u64::from(value) << bit;
}

/// The part of the slots `first..=last` that lies in a block, as its first and its last.
fn within(block: usize, first: usize, last: usize) -> (usize, usize) {
    (first.max(block * BLOCK_SLOTS), last.min(block * BLOCK_SLOTS + BLOCK_SLOTS - 1))
}

/// The bits of word `at` that belong to the bits `from..to` of all words.
#[inline(always)]
fn word_mask(at: usize, from: usize, to: usize) -> u64 {
    let bits = |bit: usize| low_mask(bit.saturating_sub(at * 64).min(64) as u32);
    bits(to) & !bits(from)
}
