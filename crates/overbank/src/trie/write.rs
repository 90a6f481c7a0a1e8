//! Sorted paths in, a trie's bits out.

use super::averages::Averages;
use super::codes::{Code, Codes};
use super::{Path, TrieShape, pointer};

/// Bits that were written, first one lowest.
#[derive(Default)]
pub(super) struct BitSink {
    bytes: Vec<u8>,
    /// The bits that do not fill eight bytes yet, fewer than 64.
    waiting: u64,
    waiting_bits: u32,
}

impl BitSink {
    pub(super) fn len_bits(&self) -> u64 {
        self.bytes.len() as u64 * 8 + u64::from(self.waiting_bits)
    }

    /// Writes the lowest `width` bits of `bits`, at most 63; the others must be zero.
    #[inline(always)]
    fn write(&mut self, bits: u64, width: u32) {
        self.waiting |= bits << self.waiting_bits;
        let filled = self.waiting_bits + width;
        if filled < 64 {
            self.waiting_bits = filled;
            return;
        }
        self.bytes.extend_from_slice(&self.waiting.to_le_bytes());
        self.waiting_bits = filled - 64;
        // Two shifts, for a shift by 64 is none.
        self.waiting = bits >> 1 >> (width - self.waiting_bits - 1);
    }

    #[inline(always)]
    fn write_code(&mut self, code: Code) {
        self.write(code.bits, code.width);
    }

    fn append(&mut self, other: &Self) {
        for bytes in other.bytes.as_chunks::<4>().0 {
            self.write(u64::from(u32::from_le_bytes(*bytes)), 32);
        }
        self.write(other.waiting, other.waiting_bits);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.waiting, self.waiting_bits) = (0, 0);
    }

    /// The bits in whole bytes, the last one filled up with zeros.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        let waiting = self.waiting.to_le_bytes();
        self.bytes.extend_from_slice(&waiting[..self.waiting_bits.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Writes tries of one shape, one after another.
pub(super) struct TrieWriter {
    codes: &'static Codes,
    averages: Averages,
    skip_keys_min: usize,
    block_items: usize,
    highs: Vec<u64>,
    lows: Vec<u64>,
    /// Streams for left sides whose length goes before them.
    spare: Vec<BitSink>,
}

/// Keys of a subtrie, and where it is.
#[derive(Clone, Copy)]
struct Subtrie<'a> {
    highs: &'a [u64],
    lows: &'a [u64],
    depth: u32,
    /// Items of the first key's block before it.
    offset: usize,
}

impl TrieWriter {
    pub(super) fn new(shape: TrieShape) -> Self {
        Self {
            codes: Codes::of(shape.huffman_keys_max),
            averages: Averages::new(shape),
            skip_keys_min: shape.skip_keys_min() as usize,
            block_items: shape.block_items() as usize,
            highs: Vec::new(),
            lows: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds a key to the next trie; paths must ascend. In a dense trie, each comes once.
    #[inline]
    pub(super) fn push(&mut self, path: Path) {
        self.highs.push(path.high);
        self.lows.push(path.low);
    }

    /// Keys of the next trie so far.
    pub(super) fn len(&self) -> usize {
        self.highs.len()
    }

    /// Writes the trie of the keys that were pushed, the first of which has `offset` items of its block before it, and begins the next one.
    pub(super) fn finish(&mut self, offset: usize, sink: &mut BitSink) {
        let (highs, lows) = (std::mem::take(&mut self.highs), std::mem::take(&mut self.lows));
        self.write(Subtrie { highs: &highs, lows: &lows, depth: 0, offset }, sink);
        (self.highs, self.lows) = (highs, lows);
        self.highs.clear();
        self.lows.clear();
    }

    fn write(&mut self, of: Subtrie<'_>, sink: &mut BitSink) {
        let Subtrie { mut highs, mut lows, mut depth, mut offset } = of;
        while offset + highs.len() > self.block_items && highs.len() > 1 && depth < Path::BITS {
            let keys = highs.len();
            let (words, bit) = if depth < 64 { (highs, 63 - depth) } else { (lows, Path::BITS - 1 - depth) };
            let left = left_of(words, bit);
            depth += 1;
            let is_split = left != 0 && left != keys;
            let (first, second) = self.codes.encode(keys as u32, if is_split { left as u32 } else { 0 });
            sink.write_code(first);
            sink.write_code(second);
            if !is_split {
                continue;
            }
            let side = Subtrie { highs: &highs[..left], lows: &lows[..left], depth, offset };
            if keys >= self.skip_keys_min {
                let mut bits = self.spare.pop().unwrap_or_default();
                self.write(side, &mut bits);
                let (pointer, width) = pointer::encode(bits.len_bits(), self.averages.bits(left as u32));
                sink.write(pointer, width);
                sink.append(&bits);
                bits.clear();
                self.spare.push(bits);
            } else {
                self.write(side, sink);
            }
            (highs, lows) = (&highs[left..], &lows[left..]);
            if self.block_items > 1 {
                offset = (offset + left) % self.block_items;
            }
        }
    }
}

/// How many of the sorted words have a zero at `bit`.
#[inline(always)]
fn left_of(words: &[u64], bit: u32) -> usize {
    // Few are counted faster than searched: no branch is guessed.
    if words.len() <= 16 {
        return words.iter().map(|word| (word >> bit & 1 ^ 1) as usize).sum();
    }
    words.partition_point(|word| word >> bit & 1 == 0)
}
