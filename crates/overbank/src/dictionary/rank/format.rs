//! The bytes of a rank function: the header of all summaries, then this payload.
//!
//! ```text
//! byte 0         8
//!      ┌─────────┬───────────────────────────────────────────────────────┬──────────────────────────────────┐
//!      │ repeats │ for each item that repeats a hash: how many different │ the forest: see `trie/format.rs` │
//!      │ u64     │ hashes are less, u64                                  │                                  │
//!      └─────────┴───────────────────────────────────────────────────────┴──────────────────────────────────┘
//! ```
//!
//! 1. Little-endian. The repeats ascend, and are below the number of different hashes.

use super::HashRank;
use crate::Result;
use crate::sketch::format::{Decoder, Encoder, Identity};
use crate::trie::{Detail, Forest};

/// Ids 1 to 5 are the sketches' and the quotient filter's.
const HASH_RANK: Identity = Identity { id: 6, version: 1, name: "rank function" };

impl HashRank {
    /// The function as bytes; see `format.rs`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload_bytes = 8 + self.repeats.len() * 8 + self.forest.encoded_bytes();
        let mut encoder = Encoder::new(HASH_RANK, Some(self.hash_id), payload_bytes);
        encoder.u64(self.repeats());
        self.repeats.iter().for_each(|repeat| encoder.u64(*repeat));
        self.forest.encode(encoder.bytes_mut());
        encoder.seal()
    }

    /// The function back from its bytes, which may come from anywhere.
    ///
    /// # Cost
    /// One pass that decodes every trie.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, HASH_RANK)?;
        let hash_id = decoder.hash_id()?;
        let count = decoder.u64()?;
        let count = decoder.counted("the number of repeated hashes", count, size_of::<u64>())?;
        let repeats = (0..count).map(|_| decoder.u64()).collect::<Result<Vec<_>>>()?;
        let forest_at = decoder.clone();
        let forest = Forest::decode(&mut decoder)?;
        if !matches!(forest.shape().detail, Detail::Keys { .. }) {
            return Err(forest_at.corrupt("the detail of tries", "that of keys", "that of blocks"));
        }
        if !repeats.is_sorted() || repeats.last().is_some_and(|last| *last >= forest.len()) {
            let expected = format!("ascending, below {}", forest.len());
            return Err(forest_at.corrupt("the repeated hashes", expected, "others"));
        }
        Ok(Self { hash_id, forest, repeats })
    }
}
