//! A trie's bits in, ranks out; and what bits are a trie's.

use super::averages::Averages;
use super::codes::Codes;
use super::{Detail, Path, TrieShape, pointer};

/// Sizes of right sides that are to be passed over: no more than a path has levels.
const WAITING: usize = Path::BITS as usize;

/// Reads tries that lie in `bytes`.
#[derive(Clone, Copy)]
pub(super) struct TrieReader<'a> {
    pub(super) codes: &'static Codes,
    averages: &'a Averages,
    pub(super) shape: TrieShape,
    skip_keys_min: u32,
    bytes: &'a [u8],
}

impl<'a> TrieReader<'a> {
    /// `bytes` are those of the tries and some behind, [`BEHIND_BYTES`](Self::BEHIND_BYTES).
    pub(super) fn new(shape: TrieShape, averages: &'a Averages, bytes: &'a [u8]) -> Self {
        let codes = Codes::of(shape.huffman_keys_max);
        Self { codes, averages, shape, skip_keys_min: shape.skip_keys_min(), bytes }
    }

    /// So many bytes follow the last trie, so that its last bits are read eight bytes at a time.
    pub(super) const BEHIND_BYTES: usize = 8;

    /// How many of the `keys` keys of the dense trie at bit `at` are less than the one of this path; for a path that is no key's, some
    /// number below `keys`.
    #[inline]
    pub(super) fn rank(&self, at: u64, keys: u32, path: Path) -> u32 {
        let (mut at, mut keys, mut path) = (at, keys, path);
        let mut less = 0;
        while keys > 1 {
            let (left, width) = self.codes.decode(keys, self.bits(at));
            at += u64::from(width);
            let is_right = path.next_bit() == 1;
            if left == 0 {
                continue;
            }
            let pointer = self.pointer(at, keys, left);
            at += pointer.map_or(0, |(_, width)| u64::from(width));
            if !is_right {
                keys = left;
                continue;
            }
            less += left;
            keys -= left;
            if keys > 1 {
                at = match pointer {
                    Some((left_bits, _)) => at.wrapping_add(left_bits),
                    None => self.end_of_dense(at, left),
                };
            }
        }
        less
    }

    /// Whether the bits from `at` to `end` are exactly a trie of `keys` keys, the first of which has `offset` items of its block before it.
    pub(super) fn check(&self, at: u64, end: u64, keys: u32, offset: u32) -> bool {
        self.checked_end(at, end, keys, offset, 0) == Some(end)
    }

    /// Where a trie ends that must not go past `end` nor below the last level.
    fn checked_end(&self, at: u64, end: u64, keys: u32, offset: u32, depth: u32) -> Option<u64> {
        let items = self.shape.block_items();
        let (mut at, mut keys, mut offset, mut depth) = (at, keys, offset, depth);
        while !is_one_block(keys, offset, items) {
            if depth == Path::BITS {
                // Of equal hashes a sparse trie may have several; in a dense one each is there once.
                return matches!(self.shape.detail, Detail::Blocks { .. }).then_some(at);
            }
            let (left, width) = self.codes.decode(keys, self.bits(at));
            at += u64::from(width);
            depth += 1;
            if at > end || left >= keys {
                return None;
            }
            if left == 0 {
                continue;
            }
            let pointer = self.pointer(at, keys, left);
            at += pointer.map_or(0, |(_, width)| u64::from(width));
            let start = at;
            at = self.checked_end(at, end, left, offset, depth)?;
            if pointer.is_some_and(|(bits, _)| bits != at - start) {
                return None;
            }
            keys -= left;
            offset = (offset + left) % items;
        }
        (at <= end).then_some(at)
    }

    /// Where the dense trie at bit `at` ends.
    #[inline]
    fn end_of_dense(&self, at: u64, keys: u32) -> u64 {
        let (mut at, mut keys) = (at, keys);
        let (mut waiting, mut waits) = ([0u32; WAITING], 0);
        loop {
            while keys > 1 {
                let bits = self.bits(at);
                if let Some(width) = self.codes.skip(keys, bits) {
                    at += u64::from(width);
                    break;
                }
                let (left, width) = self.codes.decode(keys, bits);
                at += u64::from(width);
                if left == 0 {
                    continue;
                }
                if let Some((left_bits, width)) = self.pointer(at, keys, left) {
                    at = at.wrapping_add(left_bits + u64::from(width));
                    keys -= left;
                    continue;
                }
                waiting[waits % WAITING] = keys - left;
                waits += 1;
                keys = left;
            }
            if waits == 0 {
                return at;
            }
            waits -= 1;
            keys = waiting[waits % WAITING];
        }
    }

    /// The length that a skip pointer at bit `at` gives the left side of `left` keys, and its own, if there is one.
    #[inline(always)]
    fn pointer(&self, at: u64, keys: u32, left: u32) -> Option<(u64, u32)> {
        (keys >= self.skip_keys_min).then(|| pointer::decode(self.bits(at), self.averages.bits(left)))
    }

    /// The bits from `at` on, at least 57 of them right; zeros past the end.
    #[inline(always)]
    pub(super) fn bits(&self, at: u64) -> u64 {
        let bytes = self.bytes.get((at / 8) as usize..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)) >> (at % 8)
    }
}

/// Whether a sparse trie ends here.
#[inline(always)]
pub(super) fn is_one_block(keys: u32, offset: u32, block_items: u32) -> bool {
    keys <= 1 || u64::from(offset) + u64::from(keys) <= u64::from(block_items)
}
