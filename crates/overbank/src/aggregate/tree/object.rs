//! Partial aggregation objects in the bytes of buffers.
//!
//! ```text
//!   length of the key (varint) │ key │ the state's words (varints) │ the state's tail
//! ```
//!
//! How long an object is stands beside it, in the column of sizes; so a tail needs no length. The first two parts are equal where
//! and only where the keys are.
//!
//! Source: Amur et al., sections 3.1 and 4.2 (Efficiency through Serialization).

use super::super::state::{Shape, State};
use crate::bits::varint;
use crate::error::corrupt_bytes;
use crate::{Error, Result};

/// An object whose key was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    pub(super) key: &'a [u8],
    /// The key and its length: objects that begin with it have the same key, and others do not.
    pub(super) prefix: &'a [u8],
    /// The state, not yet read.
    rest: &'a [u8],
}

/// How many bytes an object takes.
#[inline]
pub(super) fn object_bytes(key: &[u8], state: State<'_>) -> usize {
    let words: usize = state.words.iter().map(|&word| varint::length(word)).sum();
    varint::length(key.len() as u64) + key.len() + words + state.tail.len()
}

/// Appends an object.
#[inline]
pub(super) fn push_object(key: &[u8], state: State<'_>, into: &mut Vec<u8>) {
    varint::push(key.len() as u64, into);
    into.extend_from_slice(key);
    state.words.iter().for_each(|&word| varint::push(word, into));
    into.extend_from_slice(state.tail);
}

impl<'a> Object<'a> {
    /// # Errors
    /// `Corrupt` for bytes that are no object.
    #[inline]
    pub(super) fn read(object: &'a [u8]) -> Result<Object<'a>> {
        let mut bytes = object;
        let length = varint::take(&mut bytes).and_then(|length| usize::try_from(length).ok());
        match length.and_then(|length| bytes.split_at_checked(length)) {
            Some((key, rest)) => Ok(Object { key, prefix: &object[..object.len() - rest.len()], rest }),
            None => Err(no_object(object)),
        }
    }

    /// An object that begins with the same prefix.
    #[inline]
    pub(super) fn of_the_same_key(&self, object: &'a [u8]) -> Object<'a> {
        Object { rest: &object[self.prefix.len()..], ..*self }
    }

    /// Reads the state: fills `words`, and says what the tail is.
    ///
    /// # Errors
    /// As [`Object::read`].
    #[inline]
    pub(super) fn state(&self, shape: Shape, words: &mut [u64]) -> Result<&'a [u8]> {
        let mut rest = self.rest;
        for word in words {
            *word = varint::take(&mut rest).ok_or_else(|| no_object(self.rest))?;
        }
        if !shape.has_tail && !rest.is_empty() {
            return Err(no_object(rest));
        }
        Ok(rest)
    }
}

#[cold]
fn no_object(bytes: &[u8]) -> Error {
    let found = format!("{} bytes that begin with {:02x?}", bytes.len(), &bytes[..bytes.len().min(8)]);
    corrupt_bytes(0, "an aggregation object in a buffer", "a key and a state", found)
}
