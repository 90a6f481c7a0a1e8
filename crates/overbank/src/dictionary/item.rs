//! What a run says of a key.

use crate::{HashKind, KeyHash, KeyHasher, Seed};

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    /// It has this value, whatever it had before.
    Put(&'a [u8]),
    /// It has this value, unless it had one before.
    IfAbsent(&'a [u8]),
    /// Its value is what the dictionary's operator makes of what it had before and this.
    Operand(&'a [u8]),
    /// It has none.
    Deleted,
}

/// A key, and what is known of it. Items are in the order of their hashes, and of their keys where these are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) value: Value<'a>,
}

impl<'a> Value<'a> {
    /// The value or operand; empty where there is none.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Put(bytes) | Value::IfAbsent(bytes) | Value::Operand(bytes) => bytes,
            Value::Deleted => &[],
        }
    }

    /// The same kind with these bytes.
    pub(crate) fn with_bytes<'b>(self, bytes: &'b [u8]) -> Value<'b> {
        match self {
            Value::Put(_) => Value::Put(bytes),
            Value::IfAbsent(_) => Value::IfAbsent(bytes),
            Value::Operand(_) => Value::Operand(bytes),
            Value::Deleted => Value::Deleted,
        }
    }

    /// The value of an item that only fills a gap, or of an operand, where nothing is older.
    #[inline]
    pub(crate) fn as_put(self) -> Self {
        match self {
            Value::IfAbsent(bytes) | Value::Operand(bytes) => Value::Put(bytes),
            value => value,
        }
    }

    /// A number for each kind.
    #[inline]
    pub(crate) fn code(self) -> u8 {
        match self {
            Value::Put(_) => 0,
            Value::IfAbsent(_) => 1,
            Value::Operand(_) => 2,
            Value::Deleted => 3,
        }
    }
}

/// How a dictionary hashes its keys. Tests have it drop bits, so that different keys share all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemHasher {
    hasher: KeyHasher,
    #[cfg(test)]
    mask: u128,
}

impl ItemHasher {
    pub(crate) fn new(hasher: KeyHasher) -> Self {
        ItemHasher {
            hasher,
            #[cfg(test)]
            mask: u128::MAX,
        }
    }

    /// Leaves these bits of a hash.
    #[cfg(test)]
    pub(crate) fn masked(hasher: KeyHasher, mask: u128) -> Self {
        ItemHasher { hasher, mask }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        #[cfg(test)]
        let hash = KeyHash(hash.0 & self.mask);
        hash
    }

    /// The seed of its hashes.
    pub(crate) fn seed(&self) -> Seed {
        self.hasher.seed()
    }

    /// The function of its hashes.
    pub(crate) fn kind(&self) -> HashKind {
        self.hasher.kind()
    }

    /// The hasher of the store.
    pub(crate) fn key_hasher(&self) -> KeyHasher {
        self.hasher
    }
}

/// The first bytes of a key or value, in quotes, for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    let first: String = bytes.iter().take(60).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    if bytes.len() > 60 { format!("\"{first}…\"") } else { format!("\"{first}\"") }
}
