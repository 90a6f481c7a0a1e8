//! Goes through the entries of a page.

use super::PageBuilder;
use super::format::{Page, TAIL_WIDTH_AT, TAILS_AT, number_at, u32_at};
use crate::aggregate::alphabet::Alphabet;
use crate::aggregate::group::KeyState;

/// Where the next entry of a page is.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::aggregate) struct EntryCursor {
    entry: usize,
    /// In the page; that of the entry, or one before it.
    bucket: usize,
    /// Behind the first key.
    key_bit: usize,
    /// Behind the tails' lengths.
    tail_byte: usize,
}

impl EntryCursor {
    /// The number of the next entry.
    #[inline]
    pub(in crate::aggregate) fn entry(&self) -> usize {
        self.entry
    }

    /// Reads the next entry; `false` at the end.
    pub(in crate::aggregate) fn next(
        &mut self,
        page: Page<'_>,
        alphabet: &Alphabet,
        into: &mut KeyState,
    ) -> bool {
        let entry = self.entry;
        if entry >= page.entries() {
            return false;
        }
        let key_bytes = page.length(entry);
        into.key.clear();
        alphabet.unpack(page.bytes, page.keys_at() * 8 + self.key_bit, key_bytes, &mut into.key);
        self.key_bit += key_bytes * alphabet.code_bits() as usize;
        into.words.resize(page.state_words, 0);
        page.words(entry, &mut into.words);
        into.tail.clear();
        let width = usize::from(page.bytes[TAIL_WIDTH_AT]);
        if width > 0 {
            let lengths_at = u32_at(page.bytes, TAILS_AT) as usize;
            let length = number_at(page.bytes, lengths_at + entry * width, width) as usize;
            let at = lengths_at + page.entries() * width + self.tail_byte;
            into.tail.extend_from_slice(&page.bytes[at..at + length]);
            self.tail_byte += length;
        }
        self.entry += 1;
        true
    }

    /// Gives `builder` the next entries up to `end` as they are, as many as are of one bucket and fit the page that it writes for sure;
    /// `false` if that is none. They have no tails, and the pages are of the same buckets and the same alphabet.
    #[inline]
    pub(in crate::aggregate) fn copy_some(
        &mut self,
        page: Page<'_>,
        end: usize,
        alphabet: &Alphabet,
        builder: &mut PageBuilder,
    ) -> bool {
        let run = self.entry..end.min(self.end_of_bucket(page));
        let key_bits = page.all_lengths(run.clone()).wrapping_mul(alphabet.code_bits() as usize);
        let from = page.keys_at().wrapping_mul(8).wrapping_add(self.key_bit);
        let bucket = page.first_bucket().wrapping_add(self.bucket as u32);
        let is_copied = builder.push_run(&page, bucket, run.clone(), from..from.wrapping_add(key_bits));
        if is_copied {
            self.entry = run.end;
            self.key_bit = self.key_bit.wrapping_add(key_bits);
        }
        is_copied
    }

    /// Bucket and fingerprint of the next entry, which is there.
    pub(in crate::aggregate) fn place(&mut self, page: Page<'_>) -> (u32, u8) {
        self.end_of_bucket(page);
        let bucket = page.first_bucket().wrapping_add(self.bucket as u32);
        (bucket, page.fingerprints(self.entry, self.entry + 1)[0])
    }

    /// Goes to the bucket of the next entry; the number of the entry behind it.
    #[inline(always)]
    fn end_of_bucket(&mut self, page: Page<'_>) -> usize {
        loop {
            let (_, end) = page.bucket(self.bucket);
            if end > self.entry || self.bucket >= page.buckets() {
                return end;
            }
            self.bucket += 1;
        }
    }
}

impl Page<'_> {
    /// Reads one entry.
    pub(in crate::aggregate) fn read(&self, entry: usize, alphabet: &Alphabet, into: &mut KeyState) {
        let mut cursor = EntryCursor::default();
        while cursor.entry <= entry && cursor.next(*self, alphabet, into) {}
    }
}
