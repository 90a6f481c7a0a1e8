//! A string of bits, appended to and read from any place, bit by bit.

/// The bits, lowest first in each word.
#[derive(Clone, Default, Debug)]
pub(in super::super) struct BitString {
    words: Vec<u64>,
    len: u64,
}

impl BitString {
    /// The string of `len` bits in these words.
    pub(super) fn from_words(words: Vec<u64>, len: u64) -> Self {
        Self { words, len }
    }

    pub(in super::super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << (self.len % 64);
        }
        self.len += 1;
    }

    /// Appends the lowest `width` bits of `number`, the highest of them first.
    pub(super) fn push_number(&mut self, number: u64, width: u32) {
        (0..width).rev().for_each(|bit| self.push(number >> bit & 1 == 1));
    }

    pub(super) fn get(&self, at: u64) -> bool {
        self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }
}
