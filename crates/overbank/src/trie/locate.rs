//! A sparse trie's bits in, blocks out.

use super::Path;
use super::read::{TrieReader, is_one_block};
use std::ops::Range;

impl TrieReader<'_> {
    /// Where among the `keys` keys of the sparse trie at bit `at` those are that a path may be of: all in one block, or of one path. The
    /// first key has `offset` items of its block before it.
    pub(super) fn locate(&self, at: u64, keys: u32, path: Path, offset: u32) -> Range<u32> {
        let items = self.shape.block_items();
        let (mut at, mut keys, mut path, mut offset, mut depth) = (at, keys, path, offset, 0);
        let mut before = 0;
        while !is_one_block(keys, offset, items) && depth < Path::BITS {
            let (left, width) = self.codes.decode(keys, self.bits(at));
            at += u64::from(width);
            depth += 1;
            let is_right = path.next_bit() == 1;
            if left == 0 {
                continue;
            }
            if is_right {
                at = self.end_of_sparse(at, left, offset, depth);
                before += left;
                keys -= left;
                offset = (offset + left) % items;
            } else {
                keys = left;
            }
        }
        before..before + keys
    }

    /// Where the sparse trie at bit `at` ends, `depth` levels down.
    fn end_of_sparse(&self, at: u64, keys: u32, offset: u32, depth: u32) -> u64 {
        let items = self.shape.block_items();
        let (mut at, mut keys, mut offset, mut depth) = (at, keys, offset, depth);
        while !is_one_block(keys, offset, items) && depth < Path::BITS {
            let (left, width) = self.codes.decode(keys, self.bits(at));
            at += u64::from(width);
            depth += 1;
            if left != 0 {
                at = self.end_of_sparse(at, left, offset, depth);
                keys -= left;
                offset = (offset + left) % items;
            }
        }
        at
    }
}
