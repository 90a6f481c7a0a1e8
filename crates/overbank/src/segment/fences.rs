//! Where a hash's block is: the blocks' first hashes, truncated, in RAM.
//!
//! ```text
//!   hash − first hash, shifted so that the segment's range fills 64 bits
//!   │ bucket: lg_buckets bits │ remainder: 31 bits │ dropped │
//!              │                     ▲ u32 a block: remainder × 2 + "the block before reaches here too"
//!              └▶ starts[bucket] … starts[bucket + 1]: the blocks that begin in this bucket, about eight
//! ```
//!
//! Invariants:
//! 1. Blocks are numbered in the order of their truncated first hashes.
//! 2. The flag is set where the last hash of the block before truncates to the same bits, so that a hash with these
//!    bits may be in either.

use super::format::lg_buckets_for;
use crate::Result;
use crate::error::corrupt;
use std::ops::Range;
use std::path::Path;

/// Remainder bits: with 8 to 15 blocks a bucket, a block's range of hashes has 2^27 to 2^28 truncated values. A lookup
/// of a hash that is there reads a second block where its neighbour across a border shares its value, which happens to
/// about one lookup in 10^8, however many entries a block has: a lookup reads one block. 15 bits would halve the RAM and
/// make it one lookup in 1,000 to 2,000.
const REMAINDER_BITS: u32 = 31;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fences {
    first_hash: u64,
    last_hash: u64,
    lg_buckets: u32,
    starts: Vec<u32>,
    remainders: Vec<u32>,
}

/// The borders of blocks, collected while a segment is written: 9 bytes a block.
#[derive(Clone, Default, Debug)]
pub(super) struct Borders {
    first_hashes: Vec<u64>,
    /// Bits of the distance between a block's first hash and the last one before it. How many bits the two will share
    /// is known only with the whole range, and this bounds it in a byte.
    gap_bits: Vec<u8>,
    last_hash: u64,
}

impl Borders {
    pub(super) fn len(&self) -> usize {
        self.first_hashes.len()
    }

    pub(super) fn last_hash(&self) -> u64 {
        self.last_hash
    }

    pub(super) fn first_hash(&self) -> u64 {
        self.first_hashes.first().copied().unwrap_or(0)
    }

    /// Adds the next block; `first` is not below the last hash so far.
    pub(super) fn push(&mut self, first: u64, last: u64) {
        let gap = if self.first_hashes.is_empty() { u64::MAX } else { first - self.last_hash };
        // So the gap is at least 2^(bits - 1), or 0 where there are none.
        self.gap_bits.push((64 - gap.leading_zeros()) as u8);
        self.first_hashes.push(first);
        self.last_hash = last;
    }
}

impl Fences {
    pub(super) fn new(borders: &Borders) -> Self {
        let blocks = borders.first_hashes.len();
        let lg_buckets = lg_buckets_for(blocks as u64);
        let mut fences = Fences {
            first_hash: borders.first_hash(),
            last_hash: borders.last_hash,
            lg_buckets,
            starts: Vec::new(),
            remainders: Vec::with_capacity(blocks),
        };
        if blocks == 0 {
            return fences;
        }
        fences.starts = vec![0; (1 << lg_buckets) + 1];
        for (&first, &gap_bits) in borders.first_hashes.iter().zip(&borders.gap_bits) {
            let (bucket, remainder) = fences.split(first);
            // The greatest hash that the block before may end with; never below the real one, so the flag errs to
            // the safe side.
            let before = if gap_bits == 0 { first } else { first.saturating_sub(1 << (gap_bits - 1)) };
            let shared = !fences.remainders.is_empty()
                && before >= fences.first_hash
                && fences.split(before) == (bucket, remainder);
            fences.remainders.push(remainder << 1 | u32::from(shared));
            fences.starts[bucket + 1] += 1;
        }
        for bucket in 0..1 << lg_buckets {
            fences.starts[bucket + 1] += fences.starts[bucket];
        }
        fences
    }

    /// The blocks that may hold `hash`: none, one, or rarely more.
    pub(super) fn find(&self, hash: u64) -> Range<u64> {
        if self.remainders.is_empty() || hash < self.first_hash || hash > self.last_hash {
            return 0..0;
        }
        let (bucket, remainder) = self.split(hash);
        let (start, end) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        let within = &self.remainders[start..end];
        let below = start + within.partition_point(|&r| r >> 1 < remainder);
        let through = start + within.partition_point(|&r| r >> 1 <= remainder);
        // Blocks `below..through` begin with the hash's own bits. The one before them holds what lies between its
        // first hash and theirs, and these bits too if the flag says so.
        let first =
            if below == through || self.remainders[below] & 1 == 1 { below.saturating_sub(1) } else { below };
        first as u64..through as u64
    }

    /// How many blocks may begin below `hash`: no other does.
    pub(super) fn begin_below(&self, hash: u64) -> u64 {
        if self.remainders.is_empty() || hash <= self.first_hash {
            return 0;
        }
        if hash > self.last_hash {
            return self.remainders.len() as u64;
        }
        let (bucket, remainder) = self.split(hash - 1);
        let (start, end) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        (start + self.remainders[start..end].partition_point(|&r| r >> 1 <= remainder)) as u64
    }

    /// Bytes of RAM.
    pub(super) fn memory_bytes(&self) -> usize {
        self.starts.capacity() * 4 + self.remainders.capacity() * 4
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let starts = self.starts.iter().flat_map(|start| start.to_le_bytes());
        let remainders = self.remainders.iter().flat_map(|remainder| remainder.to_le_bytes());
        starts.chain(remainders).collect()
    }

    /// Reads what [`Fences::encode`] wrote of `blocks` blocks, more than none; `bytes` has the right length for them, and
    /// lies at `at` in the file, its trailers left out.
    pub(super) fn decode(
        bytes: &[u8],
        blocks: u64,
        hashes: (u64, u64),
        at: u64,
        path: &Path,
    ) -> Result<Self> {
        let lg_buckets = lg_buckets_for(blocks);
        let (starts, remainders) = bytes.split_at(((1usize << lg_buckets) + 1) * 4);
        let starts: Vec<u32> = starts.as_chunks().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect();
        let remainders: Vec<u32> =
            remainders.as_chunks().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect();
        let whole = starts.first() == Some(&0) && starts.last().map(|&s| u64::from(s)) == Some(blocks);
        if !whole || !starts.is_sorted() || remainders.len() as u64 != blocks {
            return Err(corrupt(path, at, "fences' starts", format!("0 rising to {blocks}"), "others"));
        }
        for bucket in starts.windows(2) {
            if !remainders[bucket[0] as usize..bucket[1] as usize].is_sorted_by_key(|r| r >> 1) {
                return Err(corrupt(path, at, "fences' remainders", "rising in a bucket", "falling"));
            }
        }
        Ok(Fences { first_hash: hashes.0, last_hash: hashes.1, lg_buckets, starts, remainders })
    }

    /// The bucket and the remainder of a hash between the first and the last.
    fn split(&self, hash: u64) -> (usize, u32) {
        let range = self.last_hash - self.first_hash;
        let scaled = (hash - self.first_hash) << range.leading_zeros().min(63);
        let truncated = scaled >> (64 - self.lg_buckets - REMAINDER_BITS);
        let remainder = truncated & ((1 << REMAINDER_BITS) - 1);
        ((truncated >> REMAINDER_BITS) as usize, remainder as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fences_of(blocks: &[(u64, u64)]) -> Fences {
        let mut borders = Borders::default();
        blocks.iter().for_each(|&(first, last)| borders.push(first, last));
        Fences::new(&borders)
    }

    proptest! {
        #[test]
        fn no_block_that_may_hold_a_hash_is_missed(
            mut hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0..200u64, Just(u64::MAX)], 1..400),
            per_block in 1..6usize,
            probes in prop::collection::vec(any::<u64>(), 50),
        ) {
            hashes.sort_unstable();
            let blocks: Vec<(u64, u64)> =
                hashes.chunks(per_block).map(|c| (c[0], c[c.len() - 1])).collect();
            let fences = fences_of(&blocks);
            for &hash in hashes.iter().chain(&probes) {
                let found = fences.find(hash);
                let below = fences.begin_below(hash);
                prop_assert!(blocks.iter().take_while(|block| block.0 < hash).count() as u64 <= below, "{hash} {below}");
                prop_assert!(below <= blocks.len() as u64);
                // As exact as the borders are apart: here, where remainders have bits to spare.
                let is_near = |block: &&(u64, u64)| block.0.saturating_sub(hash) < 1 << 33;
                prop_assert!(blocks.iter().take_while(is_near).count() as u64 >= below, "{hash} {below}");
                for (i, &(first, last)) in blocks.iter().enumerate() {
                    prop_assert!(!(first..=last).contains(&hash) || found.contains(&(i as u64)), "{hash} {i} {found:?}");
                }
            }
            let range = (blocks[0].0, blocks[blocks.len() - 1].1);
            let again = Fences::decode(&fences.encode(), blocks.len() as u64, range, 0, Path::new("f")).unwrap();
            prop_assert_eq!(again, fences);
        }
    }

    #[test]
    fn nearly_every_hash_has_one_block() {
        let mut state = 1u64;
        let mut hashes: Vec<u64> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                keyhash::Seed(u128::from(state)).fingerprint()
            })
            .collect();
        hashes.sort_unstable();
        let blocks: Vec<(u64, u64)> = hashes.chunks(8).map(|c| (c[0], c[7])).collect();
        let fences = fences_of(&blocks);
        let present: u64 = hashes.iter().map(|&h| fences.find(h).count() as u64).sum();
        let absent: u64 = (0..400_000u64)
            .map(|i| fences.find(keyhash::Seed(u128::from(i)).fingerprint()).count() as u64)
            .sum();
        // 50,000 borders of eight entries a block: a border is ambiguous where two neighbouring hashes agree in
        // 43 bits, with probability 400,000 / 2^43 < 1e-7, doubled by the rounding of the gap; then two of the
        // entries near it read a block more. One such border of 50,000 has probability below 1e-2, three below 1e-6,
        // five below 1e-10.
        assert!(present <= 400_008 && absent <= 400_008, "{present} {absent}");
        assert!(present >= 400_000);
        assert!(fences.memory_bytes() <= 50_000 * 9 / 2 + 1024, "{}", fences.memory_bytes());
    }

    #[test]
    fn damaged_fences_are_corrupt() {
        let blocks: Vec<(u64, u64)> = (0..100u64).map(|i| (i << 50, i << 50 | 7)).collect();
        let fences = fences_of(&blocks);
        let good = fences.encode();
        let range = (0, 99 << 50 | 7);
        let decode = |bytes: &[u8]| Fences::decode(bytes, 100, range, 0, Path::new("f"));
        assert_eq!(decode(&good).unwrap(), fences);
        for place in [0, 4, 33, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 0x80;
            // Either it is noticed, or the fences stay in order and finding stays inside the file.
            if let Ok(fences) = decode(&bad) {
                assert!((0..100u64).all(|i| fences.find(i << 50).end <= 100));
            }
        }
        assert!(decode(&[&[1], &good[1..]].concat()).is_err());
    }
}
