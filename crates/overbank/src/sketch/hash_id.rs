//! Under which hash a sketch was made: the kind and the fingerprint of the seed.

use crate::{Error, HashKind, KeyHasher, Result};

/// Names a hash function without giving its seed away. Sketches of different `HashId` do not merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashId {
    /// The hash function.
    pub kind: HashKind,
    /// [`Seed::fingerprint`](crate::Seed::fingerprint) of its seed.
    pub seed_fingerprint: u64,
}

impl From<&KeyHasher> for HashId {
    fn from(hasher: &KeyHasher) -> Self {
        Self { kind: hasher.kind(), seed_fingerprint: hasher.seed().fingerprint() }
    }
}

impl From<KeyHasher> for HashId {
    fn from(hasher: KeyHasher) -> Self {
        Self::from(&hasher)
    }
}

impl HashId {
    /// Fails unless both sketches were made under the same hash.
    ///
    /// # Errors
    /// [`Error::Incompatible`].
    pub(crate) fn require(self, other: Self) -> Result<()> {
        require_equal("the hash kind", format!("{:?}", self.kind), format!("{:?}", other.kind))?;
        require_equal("the seed's fingerprint", self.seed_fingerprint, other.seed_fingerprint)
    }
}

/// Fails with [`Error::Incompatible`] unless `here == there`.
pub(crate) fn require_equal<T: PartialEq + ToString>(what: &'static str, here: T, there: T) -> Result<()> {
    if here == there {
        return Ok(());
    }
    Err(Error::Incompatible { what, expected: here.to_string(), found: there.to_string() })
}
