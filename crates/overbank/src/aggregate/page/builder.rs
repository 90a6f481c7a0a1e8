//! Writes pages.
//!
//! What a page takes is known at any time for a *plan*: a base and a width for each column, and an exception for what does not fit. Entries
//! are added by it as long as they fit a block; only then the best plan for what is there is looked for, and the page is full if that
//! leaves no room.

use super::column::Column;
use super::format::{
    BUCKETS_AT, ENTRIES_AT, EXCEPTION_BYTES, EXCEPTIONS_AT, EXCEPTIONS_START_AT, FIRST_BUCKET_AT,
    KEY_BYTES_AT, KEYS_AT, LENGTH_WIDTH_AT, LENGTHS_DIFFER, Page, TAIL_WIDTH_AT, TAILS_AT, WORDS_AT,
    bucket_bytes, ends_at, put_exception, put_number,
};
use crate::aggregate::alphabet::Alphabet;
use crate::aggregate::code_bits::CodeBits;
use crate::aggregate::pool::{BLOCK_BYTES, Block};
use crate::aggregate::state::{Shape, State};

/// Exceptions that a page has room for beyond those it is written with.
const SPARE_EXCEPTIONS: usize = 2;

/// Gathers the entries of one page after the other.
#[derive(Debug)]
pub(in crate::aggregate) struct PageBuilder {
    shape: Shape,
    first_bucket: u32,
    /// Of the buckets up to that of the last entry: how many entries there are to the end of each.
    ends: Vec<u16>,
    fingerprints: Vec<u8>,
    keys: CodeBits,
    /// Of the first key.
    key_bytes: usize,
    /// Of all keys, where they differ; empty otherwise.
    lengths: Vec<u32>,
    /// Of a length; 0 where they do not differ.
    length_width: usize,
    columns: Vec<Column>,
    tails: Vec<u8>,
    tail_lengths: Vec<u32>,
    /// Of a tail's length.
    tail_width: usize,
    /// What the page takes by the plan, but for the keys and their lengths.
    planned_bytes: usize,
}

fn width_for(most: usize) -> usize {
    match most {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

impl PageBuilder {
    pub(in crate::aggregate) fn new(shape: Shape) -> PageBuilder {
        PageBuilder {
            shape,
            first_bucket: 0,
            ends: Vec::new(),
            fingerprints: Vec::new(),
            keys: CodeBits::default(),
            key_bytes: 0,
            lengths: Vec::new(),
            length_width: 0,
            columns: (0..shape.state_words).map(|_| Column::new()).collect(),
            tails: Vec::new(),
            tail_lengths: Vec::new(),
            tail_width: 1,
            planned_bytes: 0,
        }
    }

    /// Bytes that it keeps.
    pub(in crate::aggregate) fn memory_bytes(&self) -> usize {
        self.fingerprints.capacity()
            + self.ends.capacity() * 2
            + self.keys.memory_bytes()
            + (self.lengths.capacity() + self.tail_lengths.capacity()) * 4
            + self.columns.iter().map(Column::memory_bytes).sum::<usize>()
            + self.tails.capacity()
    }

    #[inline(always)]
    fn entries(&self) -> usize {
        self.fingerprints.len()
    }

    /// Bytes that the page takes.
    fn bytes(&self) -> usize {
        self.planned_bytes + self.keys.len().div_ceil(8) + self.bytes_of_lengths()
    }

    fn bytes_of_lengths(&self) -> usize {
        if self.length_width == 0 { 0 } else { self.lengths.len() * self.length_width + 2 * self.ends.len() }
    }

    /// Bytes that the page takes with some entries more, without tails, that are all of one bucket and whose keys' codes are of so many
    /// bits, if their words are no exceptions.
    #[inline(always)]
    fn bytes_with(&self, bucket: u32, entries: usize, key_bits: usize, length_width: usize) -> usize {
        let keys = self.keys.len().wrapping_add(key_bits).div_ceil(8);
        let buckets = self.buckets_to(bucket);
        let mut an_entry = 1usize;
        for column in &self.columns {
            an_entry = an_entry.wrapping_add(column.width);
        }
        let mut bytes = self.planned_bytes.wrapping_add(keys).wrapping_add(buckets.wrapping_mul(2));
        bytes = bytes.wrapping_add(entries.wrapping_mul(an_entry));
        if length_width > 0 {
            let (entries, buckets) =
                (self.entries().wrapping_add(entries), self.ends.len().wrapping_add(buckets));
            bytes =
                bytes.wrapping_add(entries.wrapping_mul(length_width)).wrapping_add(buckets.wrapping_mul(2));
        }
        bytes
    }

    /// Bytes of a length with one more key.
    #[inline(always)]
    fn length_width_with(&self, key_bytes: usize) -> usize {
        if self.length_width == 0 && (key_bytes == self.key_bytes || self.entries() == 0) {
            return 0;
        }
        self.length_width.max(width_for(key_bytes.max(self.key_bytes)))
    }

    /// Buckets that begin with an entry of `bucket`.
    #[inline(always)]
    fn buckets_to(&self, bucket: u32) -> usize {
        let begun = self.first_bucket.wrapping_add(self.ends.len() as u32);
        bucket.wrapping_add(1).wrapping_sub(begun) as usize
    }

    /// Whether the page has room for an entry.
    #[inline(always)]
    fn has_room(&self, bucket: u32, key: &[u8], state: State<'_>, alphabet: &Alphabet) -> bool {
        let key_bits = key.len().wrapping_mul(alphabet.code_bits() as usize);
        let mut bytes = self.bytes_with(bucket, 1, key_bits, self.length_width_with(key.len()));
        for (column, &word) in self.columns.iter().zip(state.words) {
            bytes = bytes.wrapping_add(column.bytes_beside(word));
        }
        if self.shape.has_tail {
            let width = self.tail_width.max(width_for(state.tail.len()));
            bytes += state.tail.len() + width + (width - self.tail_width) * self.entries();
        }
        bytes <= BLOCK_BYTES
    }

    /// Adds the next entry; a page that it does not fit any more is written first, to memory that `take` gives for so many bytes. All keys
    /// of a page are packed by one alphabet.
    #[inline]
    pub(in crate::aggregate) fn push(
        &mut self,
        bucket: u32,
        fingerprint: u8,
        key: &[u8],
        state: State<'_>,
        alphabet: &Alphabet,
        take: impl FnOnce(usize) -> Block,
    ) -> Option<Block> {
        let mut page = None;
        if self.entries() > 0 && !self.has_room(bucket, key, state, alphabet) {
            self.plan();
            if !self.has_room(bucket, key, state, alphabet) {
                page = Some(self.write(alphabet, take));
            }
        }
        let length_width = self.length_width_with(key.len());
        self.begin(bucket, key.len(), length_width);
        self.fingerprints.push(fingerprint);
        alphabet.pack(key, &mut self.keys);
        if length_width > 0 {
            self.lengths.push(key.len() as u32);
        }
        let mut bytes = 1usize;
        for (column, &word) in self.columns.iter_mut().zip(state.words) {
            bytes = bytes.wrapping_add(column.push(word));
        }
        self.planned_bytes = self.planned_bytes.wrapping_add(bytes);
        if self.shape.has_tail {
            self.push_tail(state.tail);
        }
        self.end_bucket();
        page
    }

    /// Adds some entries of `page`, whose words are of these columns, as they are: all of one bucket, without tails, their keys' codes
    /// from bit `key_bit` on. `false`, and nothing is added, where that is not known to fit.
    #[inline]
    pub(super) fn push_run(
        &mut self,
        page: &Page<'_>,
        bucket: u32,
        run: std::ops::Range<usize>,
        key_bits: std::ops::Range<usize>,
    ) -> bool {
        let entries = run.len();
        let length_width = match page.key_bytes() {
            Some(bytes) => self.length_width_with(bytes),
            None if self.length_width >= page.length_width() => self.length_width,
            None => return false,
        };
        let is_wider = self.entries() > 0 && length_width != self.length_width;
        if self.entries() == 0
            || is_wider
            || self.bytes_with(bucket, entries, key_bits.len(), length_width) > BLOCK_BYTES
            || !self.columns.iter().zip(page.columns()).all(|(to, from)| to.has_all(page, from, run.clone()))
        {
            return false;
        }
        self.begin(bucket, self.key_bytes, length_width);
        self.fingerprints.extend_from_slice(page.fingerprints(run.start, run.end));
        self.keys.push_from(page.bytes, key_bits.start, key_bits.len());
        if length_width > 0 {
            self.lengths.extend(run.clone().map(|entry| page.length(entry) as u32));
        }
        let mut an_entry = 1usize;
        for (to, from) in self.columns.iter_mut().zip(page.columns()) {
            to.push_all(page, from, run.clone());
            an_entry = an_entry.wrapping_add(to.width);
        }
        self.planned_bytes = self.planned_bytes.wrapping_add(entries.wrapping_mul(an_entry));
        self.end_bucket();
        true
    }

    /// Makes the buckets up to `bucket` begin, and keys of another length than before have lengths.
    #[inline(always)]
    fn begin(&mut self, bucket: u32, key_bytes: usize, length_width: usize) {
        if self.entries() == 0 {
            self.first_bucket = bucket;
            self.key_bytes = key_bytes;
            self.planned_bytes = self.fixed_bytes();
        }
        let begun = self.buckets_to(bucket);
        for _ in 0..begun {
            self.ends.push(self.entries() as u16);
        }
        self.planned_bytes = self.planned_bytes.wrapping_add(begun.wrapping_mul(2));
        if length_width != self.length_width {
            if self.length_width == 0 {
                self.lengths.resize(self.entries(), self.key_bytes as u32);
            }
            self.length_width = length_width;
        }
    }

    #[inline(always)]
    fn end_bucket(&mut self) {
        let entries = self.entries() as u16;
        if let Some(end) = self.ends.last_mut() {
            *end = entries;
        }
    }

    fn push_tail(&mut self, tail: &[u8]) {
        let width = self.tail_width.max(width_for(tail.len()));
        self.planned_bytes += (width - self.tail_width) * self.tail_lengths.len() + width + tail.len();
        self.tail_width = width;
        self.tails.extend_from_slice(tail);
        self.tail_lengths.push(tail.len() as u32);
    }

    fn fixed_bytes(&self) -> usize {
        let spare = if self.shape.has_tail { 0 } else { SPARE_EXCEPTIONS * EXCEPTION_BYTES };
        ends_at(self.shape.state_words) + spare
    }

    /// Makes the plan the best for what is there.
    #[cold]
    #[inline(never)]
    fn plan(&mut self) {
        let columns: usize = self.columns.iter_mut().map(|column| column.plan(self.shape.has_tail)).sum();
        let tails = self.tails.len() + self.tail_width * self.tail_lengths.len();
        self.planned_bytes = self.fixed_bytes() + 2 * self.ends.len() + self.entries() + columns + tails;
    }

    /// Writes the last page, unless there is no entry for it.
    pub(in crate::aggregate) fn finish(
        &mut self,
        alphabet: &Alphabet,
        take: impl FnOnce(usize) -> Block,
    ) -> Option<Block> {
        if self.entries() == 0 {
            return None;
        }
        self.plan();
        Some(self.write(alphabet, take))
    }

    /// Writes the page by the plan, and begins another.
    fn write(&mut self, alphabet: &Alphabet, take: impl FnOnce(usize) -> Block) -> Block {
        let mut page = take(self.bytes());
        self.write_to(&mut page, alphabet);
        self.ends.clear();
        self.fingerprints.clear();
        self.keys.clear();
        self.lengths.clear();
        self.length_width = 0;
        self.columns.iter_mut().for_each(Column::clear);
        self.tails.clear();
        self.tail_lengths.clear();
        self.tail_width = 1;
        page
    }

    fn write_to(&self, page: &mut [u8], alphabet: &Alphabet) {
        page.fill(0);
        let (entries, buckets) = (self.entries(), self.ends.len());
        let differ = self.length_width > 0;
        put_number(page, ENTRIES_AT, 2, entries as u64);
        put_number(page, BUCKETS_AT, 2, buckets as u64);
        put_number(page, FIRST_BUCKET_AT, 4, self.first_bucket.into());
        put_number(page, KEY_BYTES_AT, 4, if differ { LENGTHS_DIFFER.into() } else { self.key_bytes as u64 });
        page[LENGTH_WIDTH_AT] = self.length_width as u8;
        let mut at = ends_at(self.shape.state_words);
        if differ {
            self.write_ends_and_starts(&mut page[at..], alphabet);
        } else {
            for (bytes, &end) in page[at..].chunks_exact_mut(bucket_bytes(false)).zip(&self.ends) {
                put_number(bytes, 0, 2, end.into());
            }
        }
        at += bucket_bytes(differ) * buckets;
        page[at..at + entries].copy_from_slice(&self.fingerprints);
        at += entries;
        for &length in &self.lengths {
            put_number(page, at, self.length_width, length.into());
            at += self.length_width;
        }
        put_number(page, KEYS_AT, 4, at as u64);
        self.keys.write(&mut page[at..]);
        at += self.keys.len().div_ceil(8);
        put_number(page, WORDS_AT, 4, at as u64);
        let at = self.write_words(page, at);
        if self.shape.has_tail {
            self.write_tails(page, at);
        }
    }

    /// Writes where each bucket ends, and at which bit its keys begin.
    fn write_ends_and_starts(&self, page: &mut [u8], alphabet: &Alphabet) {
        let (mut entry, mut symbols) = (0, 0usize);
        for (bytes, &end) in page.chunks_exact_mut(bucket_bytes(true)).zip(&self.ends) {
            put_number(bytes, 0, 2, end.into());
            put_number(bytes, 2, 2, (symbols * alphabet.code_bits() as usize) as u64);
            let lengths = &self.lengths[entry..usize::from(end)];
            symbols += lengths.iter().map(|&length| length as usize).sum::<usize>();
            entry = usize::from(end);
        }
    }

    /// Returns where the exceptions end.
    fn write_words(&self, page: &mut [u8], words_at: usize) -> usize {
        let mut at = words_at;
        let columns_bytes: usize = self.columns.iter().map(|column| column.width * self.entries()).sum();
        let exceptions_at = words_at + columns_bytes;
        put_number(page, EXCEPTIONS_START_AT, 4, exceptions_at as u64);
        let mut exceptions = 0;
        for (i, column) in self.columns.iter().enumerate() {
            let head_at = ends_at(i);
            put_number(page, head_at, 8, column.base);
            page[head_at + 8] = column.width as u8;
            let bytes = &mut page[at..at + column.width * self.entries()];
            column.write(bytes);
            at += bytes.len();
            for (entry, word) in column.exceptions() {
                put_exception(page, exceptions_at + exceptions * EXCEPTION_BYTES, entry, i, word);
                exceptions += 1;
            }
        }
        put_number(page, EXCEPTIONS_AT, 2, exceptions as u64);
        exceptions_at + exceptions * EXCEPTION_BYTES
    }

    fn write_tails(&self, page: &mut [u8], at: usize) {
        let width = self.tail_width;
        page[TAIL_WIDTH_AT] = width as u8;
        put_number(page, TAILS_AT, 4, at as u64);
        for (i, &length) in self.tail_lengths.iter().enumerate() {
            put_number(page, at + i * width, width, length.into());
        }
        let tails_at = at + self.entries() * width;
        page[tails_at..tails_at + self.tails.len()].copy_from_slice(&self.tails);
    }
}
