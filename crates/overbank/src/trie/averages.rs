//! How long the tries of so many keys are on average: what skip pointers count from.

use super::codes::{Codes, weights};
use super::{Detail, TrieShape};

/// Up to how many keys the average is computed; beyond it goes on in proportion.
const COMPUTED: usize = 256;

/// What a skip pointer takes, about.
const POINTER_BITS: u128 = 7;

/// Expected bits of dense tries, by their number of keys. None for sparse ones, which have no pointers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Averages(Vec<u16>);

impl Averages {
    /// Exact, but for the pointers, where counts are Huffman coded; of an even split beyond.
    pub(super) fn new(shape: TrieShape) -> Self {
        /// Fractions of a bit, so that integers do: every machine computes the same.
        const ONE: u128 = 1 << 16;
        if let Detail::Blocks { .. } = shape.detail {
            return Self(Vec::new());
        }
        let codes = Codes::of(shape.huffman_keys_max);
        let mut averages: Vec<u128> = vec![0, 0];
        for keys in 2..=COMPUTED as u32 {
            let sides = |left: usize| averages[left] + averages[keys as usize - left];
            let mut average = if keys <= shape.huffman_keys_max {
                let weights = weights(keys).into_iter().map(u128::from);
                let bits = |left: u32| u128::from(codes.encode(keys, left).0.width) * ONE;
                // After symbol 0, of weight 2, comes the same once more.
                let (mut total, mut weighted) = (0, 0);
                for (left, weight) in (0..).zip(weights) {
                    let behind = if left == 0 { 0 } else { sides(left as usize) };
                    total += if left == 0 { 0 } else { weight };
                    weighted += weight * (bits(left) + behind);
                }
                weighted / total
            } else {
                // A zigzag distance is some 0.8 standard deviations' double, and its gamma code twice its logarithm.
                let distance = (keys.isqrt() * 13 / 16).max(1);
                u128::from(2 * distance.ilog2() + 1) * ONE + sides(keys as usize / 2)
            };
            if keys >= shape.skip_keys_min() {
                average += POINTER_BITS * ONE;
            }
            averages.push(average);
        }
        let mut averages: Vec<u16> = averages.into_iter().map(|average| (average / ONE) as u16).collect();
        averages.shrink_to_fit();
        Self(averages)
    }

    /// The bits of a trie of `keys` keys, below 2^24.
    #[inline(always)]
    pub(super) fn bits(&self, keys: u32) -> i64 {
        match self.0.get(keys as usize) {
            Some(bits) => i64::from(*bits),
            None => self.beyond(keys),
        }
    }

    #[cold]
    fn beyond(&self, keys: u32) -> i64 {
        let last = self.0.last().copied().unwrap_or(0);
        i64::from(last) * i64::from(keys) / COMPUTED as i64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u16>()
    }
}
