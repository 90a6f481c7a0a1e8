//! The entropy-coded trie as its paper has it: Huffman codes of the binomial distribution for small tries, Elias-gamma codes for
//! larger ones, decoded bit by bit, everything before a key's place decoded too.
//!
//! `Rep(T) = EC(|Left(T)| given |T|) Rep(Left(T)) Rep(Right(T))`, empty for one key or none; with blocks of several items, empty also for
//! keys of one block (sparse indexing).
//!
//! Where the paper is silent: an Elias-gamma code is of the distance from an even split, zigzag; weights of symbols rarer than 2^-40 are
//! raised to that, so that a code fits a word.
//!
//! Source: Lim, Andersen, Kaminsky, ALENEX 2013, sections 2.4 and 2.6.

use super::bit_string::BitString;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rarer symbols are counted as if they were so rare.
const RAREST: f64 = 1.0 / (1u64 << 40) as f64;

/// The codes for tries up to `hmax` keys; beyond, Elias-gamma.
pub(in super::super) struct Codes {
    contexts: Vec<Context>,
}

/// The Huffman code for tries of one size: symbol 0 stands for all keys on one side, symbol `s` for `s` on the left.
struct Context {
    widths: Vec<u32>,
    codes: Vec<u64>,
    /// Symbols by width, then by number; and of each width, the first code, its symbol's place, and how many there are.
    ordered: Vec<u32>,
    by_width: Vec<(u64, usize, u64)>,
}

/// Which items share a block: the first item's number among all, and how many items a block has.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Blocks {
    pub(in super::super) first: u64,
    pub(in super::super) items: u64,
}

impl Blocks {
    /// Every item by itself: a dense index.
    pub(in super::super) const DENSE: Self = Self { first: 0, items: 1 };

    /// Whether so many items lie in one block.
    fn is_one(self, keys: u64) -> bool {
        keys <= 1 || self.first / self.items == (self.first + keys - 1) / self.items
    }

    fn behind(self, keys: u64) -> Self {
        Self { first: self.first + keys, ..self }
    }
}

impl Codes {
    /// The codes with Huffman codes for tries of up to `hmax` keys.
    pub(in super::super) fn new(hmax: u64) -> Self {
        Self { contexts: (0..=hmax).map(Context::new).collect() }
    }

    /// Bits of the code of `left` keys on the left of `keys`; 0 for all on one side.
    pub(in super::super) fn width(&self, keys: u64, left: u64) -> u32 {
        match self.contexts.get(keys as usize) {
            Some(context) => context.widths[left as usize],
            None => 2 * gamma_number(keys, left).ilog2() + 1,
        }
    }

    /// Appends the trie of sorted paths, all different.
    pub(in super::super) fn encode(&self, bits: &mut BitString, paths: &[u64], blocks: Blocks) {
        self.encode_below(bits, paths, 0, blocks);
    }

    fn encode_below(&self, bits: &mut BitString, paths: &[u64], depth: u32, blocks: Blocks) {
        let keys = paths.len() as u64;
        if blocks.is_one(keys) {
            return;
        }
        let left = paths.partition_point(|path| path << depth >> 63 == 0) as u64;
        let is_split = left != 0 && left != keys;
        let symbol = if is_split { left } else { 0 };
        match self.contexts.get(paths.len()) {
            Some(context) => {
                bits.push_number(context.codes[symbol as usize], context.widths[symbol as usize])
            }
            None => {
                let number = gamma_number(keys, symbol);
                bits.push_number(0, number.ilog2());
                bits.push_number(number, number.ilog2() + 1);
            }
        }
        if !is_split {
            return self.encode_below(bits, paths, depth + 1, blocks);
        }
        let (lefts, rights) = paths.split_at(left as usize);
        self.encode_below(bits, lefts, depth + 1, blocks);
        self.encode_below(bits, rights, depth + 1, blocks.behind(left));
    }

    /// How many of the `keys` keys of the trie that begins at bit `at` lie before the path, or before its block.
    pub(in super::super) fn rank(
        &self,
        bits: &BitString,
        at: u64,
        keys: u64,
        path: u64,
        blocks: Blocks,
    ) -> u64 {
        let (mut at, mut keys, mut path, mut blocks, mut before) = (at, keys, path, blocks, 0);
        while !blocks.is_one(keys) {
            let left = self.decode(bits, &mut at, keys);
            let is_right = path >> 63 == 1;
            path <<= 1;
            if left == 0 {
                continue;
            }
            if is_right {
                self.skip(bits, &mut at, left, blocks);
                (before, keys, blocks) = (before + left, keys - left, blocks.behind(left));
            } else {
                keys = left;
            }
        }
        before
    }

    /// Moves `at` behind a trie of so many keys.
    fn skip(&self, bits: &BitString, at: &mut u64, keys: u64, blocks: Blocks) {
        if blocks.is_one(keys) {
            return;
        }
        let left = self.decode(bits, at, keys);
        if left == 0 {
            return self.skip(bits, at, keys, blocks);
        }
        self.skip(bits, at, left, blocks);
        self.skip(bits, at, keys - left, blocks.behind(left));
    }

    fn decode(&self, bits: &BitString, at: &mut u64, keys: u64) -> u64 {
        let mut next = || {
            *at += 1;
            u64::from(bits.get(*at - 1))
        };
        if let Some(context) = self.contexts.get(keys as usize) {
            let mut code = 0;
            for (first, place, count) in &context.by_width[1..] {
                code = code << 1 | next();
                if code >= *first && code - first < *count {
                    return context.ordered[place + (code - first) as usize].into();
                }
            }
            return 0;
        }
        let mut width = 0;
        while next() == 0 {
            width += 1;
        }
        let number = (0..width).fold(1, |number, _| number << 1 | next());
        left_of(keys, number)
    }
}

impl Context {
    fn new(keys: u64) -> Self {
        let weights = weights(keys);
        let widths = huffman_widths(&weights);
        let mut ordered: Vec<u32> = (0..widths.len() as u32).collect();
        ordered.sort_by_key(|symbol| (widths[*symbol as usize], *symbol));
        let widest = widths.iter().copied().max().unwrap_or(0) as usize;
        let (mut codes, mut by_width) = (vec![0; widths.len()], vec![(0, 0, 0); widest + 1]);
        let (mut code, mut last) = (0u64, 0);
        for (place, symbol) in ordered.iter().enumerate() {
            let width = widths[*symbol as usize];
            if width != last {
                code <<= width - last;
                by_width[width as usize] = (code, place, 0);
                last = width;
            }
            by_width[width as usize].2 += 1;
            codes[*symbol as usize] = code;
            code += 1;
        }
        Self { widths, codes, ordered, by_width }
    }
}

/// How probable each symbol is for a trie of so many keys. None of one key or none: those have no code.
pub(in super::super) fn weights(keys: u64) -> Vec<f64> {
    if keys < 2 {
        return Vec::new();
    }
    let mut weight = 0.5f64.powi(keys as i32);
    let mut weights = Vec::with_capacity(keys as usize);
    for left in 0..keys {
        weights.push(if left == 0 { 2.0 * weight } else { weight });
        weight *= (keys - left) as f64 / (left + 1) as f64;
    }
    weights
}

fn huffman_widths(weights: &[f64]) -> Vec<u32> {
    let mut widths = vec![0; weights.len()];
    // Nodes by weight; a weight's bits are in its order, for it is positive. What a node holds moves one down in every join.
    let mut nodes: Vec<Vec<u32>> = (0..weights.len() as u32).map(|symbol| vec![symbol]).collect();
    let mut heap: BinaryHeap<_> = weights
        .iter()
        .enumerate()
        .map(|(node, weight)| Reverse((weight.max(RAREST).to_bits(), node)))
        .collect();
    while let (Some(Reverse((first, one))), Some(Reverse((second, other)))) = (heap.pop(), heap.pop()) {
        let joined: Vec<u32> = [std::mem::take(&mut nodes[one]), std::mem::take(&mut nodes[other])].concat();
        joined.iter().for_each(|symbol| widths[*symbol as usize] += 1);
        if heap.is_empty() {
            break;
        }
        let weight = f64::from_bits(first) + f64::from_bits(second);
        heap.push(Reverse((weight.to_bits(), nodes.len())));
        nodes.push(joined);
    }
    widths
}

fn gamma_number(keys: u64, left: u64) -> u64 {
    let distance = left.cast_signed() - (keys / 2).cast_signed();
    (distance << 1 ^ distance >> 63).cast_unsigned() + 1
}

fn left_of(keys: u64, gamma_number: u64) -> u64 {
    let zigzag = gamma_number - 1;
    let distance = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
    (distance + (keys / 2).cast_signed()).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn every_key_has_its_rank_dense_and_sparse_with_every_hmax() {
        for hmax in [1, 2, 8, 64] {
            let codes = Codes::new(hmax);
            for keys in [0, 1, 2, 3, 10, 64, 65, 300] {
                let mut paths = Workload::Uniform.keys(keys, 3 + keys as u64);
                paths.sort_unstable();
                for (first, items) in [(0, 1), (5, 4), (7, 16), (3, 1000)] {
                    let blocks = Blocks { first, items };
                    let mut bits = BitString::default();
                    bits.push_number(5, 3);
                    codes.encode(&mut bits, &paths, blocks);
                    for (at, path) in paths.iter().enumerate() {
                        let rank = codes.rank(&bits, 3, paths.len() as u64, *path, blocks);
                        let block = |rank: u64| (first + rank) / items;
                        assert_eq!(block(rank), block(at as u64), "{hmax} {keys} {items}");
                        assert!(items > 1 || rank == at as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn dense_tries_take_two_and_a_half_bits_a_key_as_the_paper_says() {
        let (codes, mut bits) = (Codes::new(64), BitString::default());
        for seed in 0..200 {
            let mut paths = Workload::Uniform.keys(256, seed);
            paths.sort_unstable();
            codes.encode(&mut bits, &paths, Blocks::DENSE);
        }
        let a_key = bits.len() as f64 / 51_200.0;
        assert!((2.30..2.52).contains(&a_key), "{a_key} bits a key");
    }
}
