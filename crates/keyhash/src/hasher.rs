//! The two hash kinds and their seed.

use crate::KeyHash;
use siphasher::sip128::{Hasher128, SipHasher13};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The 128-bit seed of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seed(pub u128);

impl Seed {
    /// 64 bits that identify the seed in headers without giving it away.
    pub fn fingerprint(self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&self.0.to_le_bytes())
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

/// Hashes keys with one kind and one seed.
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
            HashKind::Xxh3 => KeyHash(xxh3_128_with_seed(key, self.xxh3_seed())),
            HashKind::SipHash13 => {
                let (k0, k1) = (self.seed.0 as u64, (self.seed.0 >> 64) as u64);
                let h = SipHasher13::new_with_keys(k0, k1).hash(key);
                KeyHash::new(h.h2, h.h1)
            }
        }
    }

    fn xxh3_seed(&self) -> u64 {
        self.seed.0 as u64 ^ ((self.seed.0 >> 64) as u64).rotate_left(32)
    }
}
