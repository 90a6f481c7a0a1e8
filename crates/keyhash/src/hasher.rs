//! The two hash kinds, their seed, and the hashing of single keys and of batches.
//!
//! | kind | code | key material | for |
//! |---|---|---|---|
//! | [`HashKind::Xxh3`] | 1 | the seed folded to the 64 bits that XXH3 takes | files |
//! | [`HashKind::SipHash13`] | 2 | the whole seed: low half k0, high half k1 | input from a network |
//!
//! Both are published functions with twins in other languages, and `tests/vectors.rs` pins them: summaries
//! built by another front end with the same kind and seed merge with ours.

use crate::KeyHash;
use siphasher::sip128::SipHasher13;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// The 128-bit seed of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seed(pub u128);

impl Seed {
    /// 64 bits that identify the seed in headers without giving it away.
    pub fn fingerprint(self) -> u64 {
        xxh3_64(&self.0.to_le_bytes())
    }

    /// The seed that XXH3 takes: the low half xor the high half turned by 32 bits. A seed below 2^64 is
    /// itself.
    pub const fn xxh3_seed(self) -> u64 {
        self.0 as u64 ^ ((self.0 >> 64) as u64).rotate_left(32)
    }
}

/// A 64-bit seed: under it [`HashKind::Xxh3`] gives exactly the published `XXH3_128bits_withSeed(key, seed)`.
impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self(seed.into())
    }
}

/// Which function hashes the keys. Stored in headers; summaries of different kinds do not merge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum HashKind {
    /// XXH3-128, seeded: the default for files.
    #[default]
    Xxh3 = 1,
    /// SipHash-1-3 with 128 bits of output, keyed: the default for input from a network.
    SipHash13 = 2,
}

impl From<HashKind> for u8 {
    fn from(kind: HashKind) -> Self {
        kind as u8
    }
}

impl TryFrom<u8> for HashKind {
    type Error = UnknownHashKind;

    fn try_from(code: u8) -> Result<Self, UnknownHashKind> {
        match code {
            1 => Ok(Self::Xxh3),
            2 => Ok(Self::SipHash13),
            _ => Err(UnknownHashKind { code }),
        }
    }
}

/// A header names a hash kind that this build does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownHashKind {
    /// The code that was found.
    pub code: u8,
}

impl core::fmt::Display for UnknownHashKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "hash kind {} is unknown: this build knows 1 (XXH3-128) and 2 (SipHash-1-3)", self.code)
    }
}

impl core::error::Error for UnknownHashKind {}

/// Hashes keys with one kind and one seed.
///
/// A key is its bytes. A number has no bytes of its own, so whoever hashes it chooses some: [`KeyHasher::hash_u64`] takes the eight of the
/// machine's number, a text file has its decimal digits, and the two are different keys:
///
/// ```
/// # use keyhash::{HashKind, KeyHasher, Seed};
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed::from(42));
/// assert_ne!(hasher.hash_u64(2), hasher.hash(b"2"));
/// assert_eq!(hasher.hash_u64(2), hasher.hash(&[2, 0, 0, 0, 0, 0, 0, 0]));
/// ```
///
/// One way for one stream, and for everything that is asked of it later: the readers of text, CSV, JSON and Parquet, and so the
/// command, take integers as decimal digits, unless they are told to take them as `hash_u64` does.
///
/// A batch of keys:
///
/// ```
/// use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed::from(42));
/// let mut hashes = [KeyHash::default(); 2];
/// hasher.hash_many(b"applepear", &[5, 9], &mut hashes);
/// assert_eq!(hashes, [hasher.hash(b"apple"), hasher.hash(b"pear")]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    kind: HashKind,
    seed: Seed,
}

impl KeyHasher {
    /// A hasher of `kind` with `seed`.
    pub const fn new(kind: HashKind, seed: Seed) -> Self {
        Self { kind, seed }
    }

    /// The kind.
    pub const fn kind(&self) -> HashKind {
        self.kind
    }

    /// The seed.
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// Hashes one key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match self.kind {
            HashKind::Xxh3 => xxh3(key, self.seed.xxh3_seed()),
            HashKind::SipHash13 => sip13(key, &self.sip13_keyed()),
        }
    }

    /// Hashes one 8-byte key: the same as [`KeyHasher::hash`] of its little-endian bytes, and another key than its decimal digits.
    #[inline]
    pub fn hash_u64(&self, key: u64) -> KeyHash {
        self.hash(&key.to_le_bytes())
    }

    /// Hashes a batch. Key `i` is the bytes of `arena` from `ends[i - 1]` (0 for the first) to `ends[i]`; its
    /// hash goes to `out[i]`.
    ///
    /// # Panics
    /// When `ends` and `out` differ in length, when `ends` descends, or when it points past the arena.
    pub fn hash_many(&self, arena: &[u8], ends: &[u32], out: &mut [KeyHash]) {
        assert_eq!(ends.len(), out.len(), "one hash for each key");
        let mut start = 0;
        let keys = ends.iter().map(|&end| {
            let key = &arena[start..end as usize];
            start = end as usize;
            key
        });
        // The kind is looked at once a batch.
        match self.kind {
            HashKind::Xxh3 => {
                let seed = self.seed.xxh3_seed();
                out.iter_mut().zip(keys).for_each(|(out, key)| *out = xxh3(key, seed));
            }
            HashKind::SipHash13 => {
                let keyed = self.sip13_keyed();
                out.iter_mut().zip(keys).for_each(|(out, key)| *out = sip13(key, &keyed));
            }
        }
    }

    /// Hashes a batch of 8-byte keys, each as by [`KeyHasher::hash_u64`].
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn hash_u64s(&self, keys: &[u64], out: &mut [KeyHash]) {
        assert_eq!(keys.len(), out.len(), "one hash for each key");
        match self.kind {
            HashKind::Xxh3 => {
                let seed = self.seed.xxh3_seed();
                out.iter_mut().zip(keys).for_each(|(out, key)| *out = xxh3(&key.to_le_bytes(), seed));
            }
            HashKind::SipHash13 => {
                let keyed = self.sip13_keyed();
                out.iter_mut().zip(keys).for_each(|(out, key)| *out = sip13(&key.to_le_bytes(), &keyed));
            }
        }
    }

    fn sip13_keyed(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.seed.0 as u64, (self.seed.0 >> 64) as u64)
    }
}

#[inline]
fn xxh3(key: &[u8], seed: u64) -> KeyHash {
    KeyHash(xxh3_128_with_seed(key, seed))
}

#[inline]
fn sip13(key: &[u8], keyed: &SipHasher13) -> KeyHash {
    let hash = keyed.hash(key);
    // The reference code writes h1 first, little-endian: h1 is the low half of the 128-bit number.
    KeyHash::new(hash.h2, hash.h1)
}
