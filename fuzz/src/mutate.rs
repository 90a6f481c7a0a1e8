//! Random changes of an input, from a seed: what libFuzzer does, without its coverage.

/// Makes inputs. The same seed makes the same inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

/// Numbers at which lengths, counts and shifts go wrong.
const EDGES: [u64; 12] =
    [0, 1, 7, 63, 64, 127, 255, 4096, i32::MAX as u64, u32::MAX as u64, i64::MAX as u64, u64::MAX];

impl Mutator {
    /// A mutator for `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A mutant of one of `seeds`, which are not empty: one to eight changes.
    pub fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut input, seeds);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let room = input.len() - at;
        match self.below(9) {
            0 if room > 0 => input[at] ^= 1 << self.below(8),
            1 if room > 0 => input[at] = self.number() as u8,
            2 => self.overwrite_with_edge(input, at),
            3 => input.truncate(at),
            4 => drop(input.drain(at..at + self.below(room + 1).min(64))),
            5 => {
                let filler = self.number() as u8;
                let count = 1 + self.below(32);
                input.splice(at..at, vec![filler; count]);
            }
            6 => {
                // A piece of the input again, somewhere else.
                let piece = input[at..at + self.below(room + 1).min(256)].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            7 => {
                // The tail of another seed.
                let other = &seeds[self.below(seeds.len())];
                input.truncate(at);
                input.extend_from_slice(&other[at.min(other.len())..]);
            }
            _ => {
                for _ in 0..self.below(16) {
                    input.push(self.number() as u8);
                }
            }
        }
    }

    /// Writes an edge or its neighbour as 1, 2, 4 or 8 little-endian bytes, or adds a little to what is there.
    fn overwrite_with_edge(&mut self, input: &mut [u8], at: usize) {
        let width = 1 << self.below(4);
        let Some(field) = input.get_mut(at..at + width) else { return };
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let nudge = (self.below(5) as u64).wrapping_sub(2);
        let value = match self.below(2) {
            0 => EDGES[self.below(EDGES.len())].wrapping_add(nudge),
            _ => u64::from_le_bytes(old).wrapping_add(nudge),
        };
        field.copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// A number in `0..range`; `range` is not 0.
    pub fn below(&mut self, range: usize) -> usize {
        ((u128::from(self.number()) * range as u128) >> 64) as usize
    }

    /// The next 64 random bits, by SplitMix64.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_depend_on_the_seed_alone_and_differ_from_each_other() {
        let seeds = vec![b"hello, world".to_vec(), Vec::new()];
        let mutants = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200).map(|_| mutator.mutant(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(mutants(1), mutants(1));
        assert_ne!(mutants(1), mutants(2));
        let mut distinct = mutants(1);
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() > 120, "only {} of 200 differ", distinct.len());
    }
}
