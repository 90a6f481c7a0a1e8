//! What a run says of a key.

use crate::KeyHash;

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
