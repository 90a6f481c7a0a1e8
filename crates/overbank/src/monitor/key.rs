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

    /// Its bytes, up to [`BYTES`](Self::BYTES): how it is named in a sketch of any keys.
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::WORDS * size_of::<u64>());
        self.store(&mut |word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.truncate(Self::BYTES);
        bytes
    }
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

/// Up to `N` bytes, at most 255: flows of either family, 13 or 37, or addresses, 4 or 16. They travel as all `N` do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyBytes<const N: usize> {
    /// Zeros behind the key's own.
    bytes: [u8; N],
    length: u8,
}

impl<const N: usize> KeyBytes<N> {
    /// These bytes; `None` if they are more than `N`.
    #[inline]
    pub fn new(key: &[u8]) -> Option<Self> {
        const { assert!(N <= u8::MAX as usize, "a byte says how many there are") };
        let mut bytes = [0; N];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self { bytes, length: key.len() as u8 })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl<const N: usize> Key for KeyBytes<N> {
    /// The last word has room for the length.
    const WORDS: usize = N / size_of::<u64>() + 1;
    const BYTES: usize = N;

    #[inline]
    fn store(self, put: &mut impl FnMut(u64)) {
        let (words, rest) = self.bytes.as_chunks::<{ size_of::<u64>() }>();
        words.iter().for_each(|word| put(u64::from_le_bytes(*word)));
        let mut last = [0; size_of::<u64>()];
        last[..rest.len()].copy_from_slice(rest);
        last[size_of::<u64>() - 1] = self.length;
        put(u64::from_le_bytes(last));
    }

    #[inline]
    fn load(next: &mut impl FnMut() -> u64) -> Self {
        let mut bytes = [0; N];
        let (words, rest) = bytes.as_chunks_mut::<{ size_of::<u64>() }>();
        words.iter_mut().for_each(|word| *word = next().to_le_bytes());
        let last = next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
        Self { bytes, length: last[size_of::<u64>() - 1] }
    }

    fn to_bytes(self) -> Vec<u8> {
        self.as_bytes().to_vec()
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
        assert_eq!((&flow.to_bytes()[..], ().to_bytes()), (&flow[..], vec![]));
        assert_eq!(0x0102_u64.to_bytes(), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!((1u128 << 64).to_bytes()[8..], [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn keys_of_any_length_travel_with_it() {
        fn check<const N: usize>() {
            for length in 0..=N {
                let bytes: Vec<u8> = (1..=length).map(|byte| byte as u8).collect();
                let key = KeyBytes::<N>::new(&bytes).expect("not too long");
                assert_eq!(travels(key), key);
                assert_eq!((key.as_bytes(), key.to_bytes()), (&bytes[..], bytes.clone()));
                let longer = KeyBytes::<N>::new(&[&bytes[..], &[0]].concat());
                assert!(longer != Some(key), "a zero more is another key");
            }
            assert_eq!(KeyBytes::<N>::new(&vec![1; N + 1]), None);
        }
        check::<0>();
        check::<7>();
        check::<8>();
        check::<37>();
        check::<255>();
        // Words of no meaning, which a reader may meet while a slot changes hands.
        let torn = KeyBytes::<16>::load(&mut || u64::MAX);
        assert_eq!(torn.as_bytes(), b"");
    }
}
