//! The stream of keys: 64 random bits each, made in chunks from the chunk's number alone, so that threads can share it.

use super::hasher;
use crate::Random;
use crate::digest::mix;
use keyhash::KeyHash;
use std::ops::Range;

/// Keys of a chunk: 2 MiB, a hundredth of a second of our fastest engine.
pub(super) const CHUNK_KEYS: u64 = 1 << 18;

/// A stream of so many keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    count: u64,
}

impl Keys {
    pub(super) fn new(count: u64) -> Self {
        Self { count }
    }

    pub(super) fn chunks(self) -> u64 {
        self.count.div_ceil(CHUNK_KEYS)
    }

    /// How many keys a chunk has.
    pub(super) fn keys_of(self, chunk: u64) -> usize {
        CHUNK_KEYS.min(self.count - chunk * CHUNK_KEYS) as usize
    }

    /// Puts the keys of one chunk into `keys`.
    fn fill(self, chunk: u64, keys: &mut Vec<u64>) {
        keys.clear();
        keys.extend(self.keys_in(chunk));
    }

    fn keys_in(self, chunk: u64) -> impl Iterator<Item = u64> {
        let mut random = Random::new(mix(chunk));
        (0..self.keys_of(chunk)).map(move |_| random.next_u64())
    }

    /// The hashes of some keys of a chunk.
    pub(super) fn part(self, chunk: u64, part: Range<usize>) -> Vec<KeyHash> {
        let keys = self.keys_in(chunk).skip(part.start).take(part.len());
        keys.map(|key| hasher().hash_u64(key)).collect()
    }

    /// Calls `each` with the hashes of one chunk, `batch` at a time, until it answers that it has had enough; tells whether
    /// it has not.
    pub(super) fn for_batches<E>(
        self,
        chunk: u64,
        batch: usize,
        mut each: impl FnMut(&[KeyHash]) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let (mut keys, mut hashes) = (Vec::new(), Vec::new());
        self.fill(chunk, &mut keys);
        for keys in keys.chunks(batch) {
            hashes.resize(keys.len(), KeyHash::default());
            hasher().hash_u64s(keys, &mut hashes);
            if !each(&hashes)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The hashes of the first `count` keys, at most a chunk.
    pub(super) fn first(self, count: usize) -> Vec<KeyHash> {
        self.part(0, 0..count)
    }

    /// The hashes of `count` keys from all over the stream.
    pub(super) fn spread(self, count: usize, seed: u64) -> Vec<KeyHash> {
        const A_CHUNK: usize = 1024;
        let (mut random, mut keys) = (Random::new(seed), Vec::new());
        let mut hashes = Vec::with_capacity(count + A_CHUNK);
        while hashes.len() < count {
            self.fill(random.below(self.chunks()), &mut keys);
            hashes.extend(
                (0..A_CHUNK).map(|_| hasher().hash_u64(keys[random.below(keys.len() as u64) as usize])),
            );
        }
        hashes.truncate(count);
        random.shuffle(&mut hashes);
        hashes
    }
}

/// Hashes of keys that are in no stream.
pub(super) fn unknown(count: usize, seed: u64) -> Vec<KeyHash> {
    let mut random = Random::new(!mix(seed));
    (0..count).map(|_| hasher().hash_u64(random.next_u64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::convert::Infallible;

    #[test]
    fn a_stream_has_its_length_and_no_key_twice() {
        let keys = Keys::new(CHUNK_KEYS + 7);
        let mut all = HashSet::new();
        for chunk in 0..keys.chunks() {
            let Ok(whole) = keys.for_batches(chunk, 1000, |hashes| {
                all.extend(hashes.iter().copied());
                Ok::<_, Infallible>(true)
            });
            assert!(whole);
        }
        assert_eq!(all.len() as u64, CHUNK_KEYS + 7);
        assert_eq!(keys.part(0, 3..9), keys.first(9)[3..]);
        assert!(keys.first(10).iter().all(|hash| all.contains(hash)));
        assert!(keys.spread(3_000, 1).iter().all(|hash| all.contains(hash)));
        assert!(unknown(3_000, 1).iter().all(|hash| !all.contains(hash)));
    }
}
