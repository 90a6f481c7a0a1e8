//! Keys as they travel from a worker to the aggregator: a few words by value.
//!
//! A message has a fixed number of words, and a key is a `Copy` type of so many: nothing is allocated, freed or pointed to where packets
//! are counted, a slot of a ring is written by plain stores of words, and a reader that looks at a slot while it is written anew reads
//! words that it then throws away. A flow of IPv6 is 37 bytes, five words; of IPv4, 13 bytes, two.

use keyhash::KeyHash;

/// What a message carries beside its counter.
pub trait Key: Copy + Eq + std::fmt::Debug + Send + Sync + 'static {
    /// How many words it travels in.
    const WORDS: usize;
    /// How many bytes of these words it is: the first, each word's lowest byte first.
    const BYTES: usize = Self::WORDS * size_of::<u64>();

    /// Hands over its words, [`WORDS`](Self::WORDS) of them.
    fn store(self, put: &mut impl FnMut(u64));

    /// The key back from its words, in the same order.
    fn load(next: &mut impl FnMut() -> u64) -> Self;
}

/// No key: what is counted is not shown by name.
impl Key for () {
    const WORDS: usize = 0;

    #[inline]
    fn store(self, _: &mut impl FnMut(u64)) {}

    #[inline]
    fn load(_: &mut impl FnMut() -> u64) -> Self {}
}

impl Key for u64 {
    const WORDS: usize = 1;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        put(self);
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        next()
    }
}

impl Key for u128 {
    const WORDS: usize = 2;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        put(self as u64);
        put((self >> 64) as u64);
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        let low = next();
        u128::from(next()) << 64 | u128::from(low)
    }
}

/// Bytes of one length, which is the type's: 13 for a flow of IPv4, 37 for one of IPv6.
impl<const N: usize> Key for [u8; N] {
    const WORDS: usize = N.div_ceil(size_of::<u64>());
    const BYTES: usize = N;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        for bytes in self.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..bytes.len()].copy_from_slice(bytes);
            put(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        let mut key = [0; N];
        for bytes in key.chunks_mut(size_of::<u64>()) {
            let word = next().to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        key
    }
}

/// A key with the 64-bit fold of its hash, so that the aggregator finds its counters without hashing again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow<K> {
    /// [`KeyHash::fold`](keyhash::KeyHash::fold) of the key's hash.
    pub fold: u64,
    /// The key.
    pub key: K,
}

impl<K: Key> Key for Flow<K> {
    const WORDS: usize = 1 + K::WORDS;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        put(self.fold);
        self.key.store(put);
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        let fold = next();
        Self { fold, key: K::load(next) }
    }
}

/// A key with all of its hash, for sketches that take more than the fold from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashed<K> {
    /// The key's hash.
    pub hash: KeyHash,
    /// The key.
    pub key: K,
}

impl<K: Key> Key for Hashed<K> {
    const WORDS: usize = 2 + K::WORDS;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        put(self.hash.high());
        put(self.hash.low());
        self.key.store(put);
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        let high = next();
        Self { hash: KeyHash::new(high, next()), key: K::load(next) }
    }
}

/// The bytes of a key: how it is named in a sketch of any keys.
pub(super) fn bytes_of<K: Key>(key: K) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(K::WORDS * size_of::<u64>());
    key.store(&mut |word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.truncate(K::BYTES);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn travels<K: Key>(key: K) -> K {
        let mut words = Vec::new();
        key.store(&mut |word| words.push(word));
        assert_eq!(words.len(), K::WORDS);
        let mut words = words.into_iter();
        let back = K::load(&mut || words.next().expect("as many as were stored"));
        assert_eq!(words.next(), None);
        back
    }

    #[test]
    fn keys_travel_in_words_and_have_bytes() {
        let flow: [u8; 13] = *b"a flow's name";
        let hash = KeyHash::new(u64::MAX - 1, 2);
        let (hashed, folded) = (Hashed { hash, key: flow }, Flow { fold: 3, key: 1u128 << 100 | 5 });
        assert_eq!((travels(flow), travels(hashed), travels(folded)), (flow, hashed, folded));
        assert_eq!((travels(()), travels(u64::MAX)), ((), u64::MAX));
        assert_eq!((&bytes_of(flow)[..], bytes_of(())), (&flow[..], vec![]));
        assert_eq!(bytes_of(0x0102_u64), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes_of(1u128 << 64)[8..], [1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
