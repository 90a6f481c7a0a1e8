//! The bytes of a quotient filter: the header of all summaries, then this payload.
//!
//! ```text
//! byte 0              4                8       16         24      25       32
//!      ┌──────────────┬────────────────┬───────┬──────────┬───────┬────────┬────────────────────────────────────┐
//!      │ lg_quotients │ remainder_bits │  len  │ keys_max │ grows │  zero  │ blocks, r + 2 words each           │
//!      │ u32          │ u32            │  u64  │ u64      │ u8    │  7 B   │ occupieds │ runends │ remainders … │
//!      └──────────────┴────────────────┴───────┴──────────┴───────┴────────┴────────────────────────────────────┘
//! ```
//!
//! 1. Little-endian. There are `2^lg_quotients / 64` blocks, and the spill blocks that runs reach.
//! 2. Offsets are not stored: they follow. Equal multisets of fingerprints of equal shape have equal blocks.
//! 3. What is read is laid out anew and compared, so that no slot is accepted where no insert would have put it.

use super::blocks::{BLOCK_SLOTS, Blocks, METADATA_WORDS};
use super::shape::Shape;
use super::sweep::{Fingerprints, Sweep};
use super::{QuotientFilter, Result};
use crate::bits::word::{append_le_bytes, words_from_le_bytes};
use crate::sketch::format::{Decoder, Encoder, Identity};

/// Ids 1 to 4 are the sketches'.
const QUOTIENT_FILTER: Identity = Identity { id: 5, version: 1, name: "quotient filter" };
const FIELDS_BYTES: usize = 32;

impl QuotientFilter {
    /// The filter as bytes; see `format.rs`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.blocks.words();
        let mut encoder = Encoder::new(QUOTIENT_FILTER, Some(self.hash_id), FIELDS_BYTES + words.len() * 8);
        encoder.u32(self.shape.lg_quotients);
        encoder.u32(self.shape.remainder_bits);
        encoder.u64(self.len);
        encoder.u64(self.keys_max);
        encoder.u8(u8::from(self.grows));
        encoder.zeros(7);
        append_le_bytes(words, encoder.bytes_mut());
        encoder.seal()
    }

    /// The filter back from its bytes, which may come from anywhere.
    ///
    /// # Cost
    /// One pass; the blocks are held twice until it is done.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, QUOTIENT_FILTER)?;
        let hash_id = decoder.hash_id()?;
        let (lg_quotients, remainder_bits) = (decoder.u32()?, decoder.u32()?);
        let Ok(shape) = Shape::new(lg_quotients, remainder_bits) else {
            let found = format!("{lg_quotients} and {remainder_bits}");
            return Err(decoder.corrupt(
                "quotient and remainder bits",
                "at least 6 and 1, at most 64",
                found,
            ));
        };
        let (len, keys_max, grows) = (decoder.u64()?, decoder.u64()?, decoder.u8()?);
        decoder.zeros(7)?;
        let most = shape.capacity().min(keys_max);
        if len > most {
            return Err(decoder.corrupt("the number of fingerprints", format!("at most {most}"), len));
        }
        if grows > 1 {
            return Err(decoder.corrupt("whether the filter grows", "0 or 1", grows));
        }
        let blocks = decode_blocks(&mut decoder, shape, len)?;
        Ok(Self { shape, hash_id, len, keys_max, grows: grows == 1, blocks })
    }
}

fn decode_blocks(decoder: &mut Decoder<'_>, shape: Shape, len: u64) -> Result<Blocks> {
    let block_bytes = (METADATA_WORDS + shape.remainder_bits as usize) * 8;
    let (blocks, left) = (shape.slots() / BLOCK_SLOTS, decoder.left());
    if !left.is_multiple_of(block_bytes) || left / block_bytes < blocks {
        let expected = format!("whole blocks of {block_bytes} bytes, at least {blocks}");
        return Err(decoder.corrupt("the number of bytes that follow", expected, left));
    }
    let stored = Blocks::of_words(words_from_le_bytes(decoder.take(left)?), shape.remainder_bits);
    let mut found = Blocks::new(blocks, shape.remainder_bits);
    let (mut count, mut last) = (0u64, 0);
    let ascending = Fingerprints::new(shape, &stored, len).take_while(|&fingerprint| {
        let ascends = fingerprint >= last;
        (last, count) = (fingerprint, count + u64::from(ascends));
        ascends
    });
    Sweep::new(shape, &mut found).merge(ascending);
    if count != len {
        return Err(decoder.corrupt("the number of fingerprints in the slots", len, count));
    }
    if found.words() != stored.words() {
        return Err(decoder.corrupt("the slots", "as inserts fill them", "others"));
    }
    Ok(found)
}
