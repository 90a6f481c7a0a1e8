//! Finds the entry of a key.
//!
//! Nothing here branches on how long a key is or where in its bucket it stands, as far as these are usual: such branches are as good as
//! random, and each that is foretold wrongly costs as much as a comparison.

use super::format::Page;
use crate::aggregate::alphabet::Alphabet;
use crate::bits::equal::equal;
use crate::bits::prefetch::prefetch;

/// Lengths that are added up at a time.
const LENGTHS_AT_ONCE: usize = 32;
/// From place `LENGTHS_AT_ONCE - n` on: `n` bytes of ones, and zeros.
const FIRST_BYTES: [u8; 2 * LENGTHS_AT_ONCE] = {
    let mut bytes = [0; 2 * LENGTHS_AT_ONCE];
    let mut at = 0;
    while at < LENGTHS_AT_ONCE {
        bytes[at] = u8::MAX;
        at += 1;
    }
    bytes
};

impl Page<'_> {
    /// Has on its way where a bucket ends, and the heads of words.
    #[inline(always)]
    pub(in crate::aggregate) fn prefetch_bucket(&self, bucket: u32) {
        prefetch(self.bytes, 0);
        prefetch(self.bytes, self.end_at(bucket.wrapping_sub(self.first_bucket()) as usize));
    }

    /// Has on its way the fingerprints of the entries from `begin` on, and their lengths.
    #[inline(always)]
    pub(in crate::aggregate) fn prefetch_fingerprints(&self, begin: usize) {
        prefetch(self.bytes, self.fingerprints_at().wrapping_add(begin));
        if self.lengths_differ() {
            prefetch(self.bytes, self.lengths_at().wrapping_add(begin));
        }
    }

    /// Has on its way a key, from its first bit on, and the first word of its entry, where that is where it is as a rule.
    #[inline(always)]
    pub(in crate::aggregate) fn prefetch_entry(&self, entry: usize, key_bit: usize) {
        prefetch(self.bytes, key_bit / 8);
        // A byte each, as a rule.
        prefetch(self.bytes, self.words_at().wrapping_add(entry));
    }

    /// The first of some entries that has a fingerprint.
    #[inline(always)]
    pub(in crate::aggregate) fn candidate(&self, begin: usize, end: usize, fingerprint: u8) -> Option<usize> {
        let mut entry = begin;
        while entry < end {
            let at = self.fingerprints_at().wrapping_add(entry);
            let Some(chunk) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
                return self.candidate_among_the_last(entry, end, fingerprint);
            };
            let found = equal(chunk, fingerprint);
            if found != 0 {
                let entry = entry.wrapping_add(found.trailing_zeros() as usize);
                return (entry < end).then_some(entry);
            }
            entry = entry.wrapping_add(16);
        }
        None
    }

    #[cold]
    fn candidate_among_the_last(self, begin: usize, end: usize, fingerprint: u8) -> Option<usize> {
        let at = self.fingerprints(begin, end).iter().position(|&found| found == fingerprint)?;
        Some(begin + at)
    }

    /// The bit of the page at which the key of an entry begins, in a bucket whose entries begin at `begin`.
    #[inline(always)]
    pub(in crate::aggregate) fn key_bit(
        &self,
        bucket: u32,
        begin: usize,
        entry: usize,
        alphabet: &Alphabet,
    ) -> usize {
        let code_bits = alphabet.code_bits() as usize;
        match self.key_bytes() {
            Some(bytes) => {
                let key_bits = bytes.wrapping_mul(code_bits);
                self.keys_at().wrapping_mul(8).wrapping_add(entry.wrapping_mul(key_bits))
            }
            None => self.key_bit_of_own_length(bucket, begin, entry, code_bits),
        }
    }

    #[inline(never)]
    fn key_bit_of_own_length(&self, bucket: u32, begin: usize, entry: usize, code_bits: usize) -> usize {
        let before = self.sum_of_lengths(begin, entry).wrapping_mul(code_bits);
        self.start_of(bucket).wrapping_add(before)
    }

    /// The bytes of the keys of some entries, where keys differ in their lengths.
    #[inline(always)]
    pub(super) fn sum_of_lengths(&self, begin: usize, end: usize) -> usize {
        let count = end.wrapping_sub(begin);
        if self.length_width() != 1 || count > LENGTHS_AT_ONCE {
            return self.sum_of_many_lengths(begin, end);
        }
        let lengths = self.bytes.get(self.lengths_at().wrapping_add(begin)..);
        let is_one = FIRST_BYTES.get(LENGTHS_AT_ONCE.wrapping_sub(count)..);
        let (lengths, is_one) = (
            lengths.and_then(|rest| rest.first_chunk::<LENGTHS_AT_ONCE>()),
            is_one.and_then(|rest| rest.first_chunk::<LENGTHS_AT_ONCE>()),
        );
        let (Some(lengths), Some(is_one)) = (lengths, is_one) else {
            return self.sum_of_many_lengths(begin, end);
        };
        let sum = lengths
            .iter()
            .zip(is_one)
            .fold(0u32, |sum, (&length, &is_one)| sum.wrapping_add((length & is_one).into()));
        sum as usize
    }

    #[cold]
    #[inline(never)]
    fn sum_of_many_lengths(self, begin: usize, end: usize) -> usize {
        (begin..end).map(|entry| self.length(entry)).sum()
    }

    /// Whether an entry, whose key begins at `key_bit` of the page, is that of a key.
    #[inline(always)]
    pub(in crate::aggregate) fn is_of(
        &self,
        entry: usize,
        key_bit: usize,
        key: &[u8],
        alphabet: &Alphabet,
    ) -> bool {
        match self.key_bytes() {
            Some(bytes) => bytes == key.len() && alphabet.matches(key, self.bytes, key_bit),
            None => self.is_of_own_length(entry, key_bit, key, alphabet),
        }
    }

    #[inline(never)]
    fn is_of_own_length(&self, entry: usize, key_bit: usize, key: &[u8], alphabet: &Alphabet) -> bool {
        self.length(entry) == key.len() && alphabet.matches_of_any_length(key, self.bytes, key_bit)
    }

    /// The entry of a key, whose hash has this bucket and fingerprint.
    pub(in crate::aggregate) fn find(
        &self,
        bucket: u32,
        fingerprint: u8,
        key: &[u8],
        alphabet: &Alphabet,
    ) -> Option<usize> {
        let (begin, end) = self.entries_of(bucket);
        let mut from = begin;
        while let Some(entry) = self.candidate(from, end, fingerprint) {
            if self.is_of(entry, self.key_bit(bucket, begin, entry, alphabet), key, alphabet) {
                return Some(entry);
            }
            from = entry + 1;
        }
        None
    }
}
