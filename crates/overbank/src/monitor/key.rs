//! Keys as they travel from a worker to the aggregator: a few words by value.
//!
//! A message has a fixed number of words, and a key is a `Copy` type of so many: nothing is allocated, freed or pointed to where packets
//! are counted, a slot of a ring is written by plain stores of words, and a reader that looks at a slot while it is written anew reads
//! words that it then throws away. A flow of IPv6 is 37 bytes, five words; of IPv4, 13 bytes, two.

/// What a message carries beside its counter.
pub trait Key: Copy + Eq + std::fmt::Debug + Send + Sync + 'static {
    /// How many words it travels in.
    const WORDS: usize;

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
