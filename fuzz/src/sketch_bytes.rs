//! What all sketch decoders have in common: one header, and a checksum that stops blind mutations.
//!
//! ```text
//!   0        24            32     36   40
//!   │ identity │ payload len │crc32c│zero│ payload …
//! ```

use crate::Verdict;
use overbank::Result;

const PAYLOAD_LEN: usize = 24;
const CHECKSUM: usize = 32;
const CHECKSUM_END: usize = 36;
const HEADER_BYTES: usize = 40;

/// One sketch's decoder and what to do with what it accepts.
pub(crate) struct Codec<S> {
    pub(crate) from_bytes: fn(&[u8]) -> Result<S>,
    pub(crate) to_bytes: fn(&S) -> Vec<u8>,
    /// Queries, updates and merges that must work on whatever was accepted.
    pub(crate) exercise: fn(S),
}

impl<S> Codec<S> {
    /// Decodes `data` as it is, and once more under the header of `seed` with length and checksum mended.
    pub(crate) fn run(&self, data: &[u8], seed: &[u8]) -> Verdict {
        let plain = self.decode(data);
        match mended(data, seed) {
            Some(bytes) if self.decode(&bytes) => Verdict::Accepted,
            _ if plain => Verdict::Accepted,
            _ => Verdict::Refused,
        }
    }

    fn decode(&self, bytes: &[u8]) -> bool {
        let Ok(sketch) = (self.from_bytes)(bytes) else { return false };
        assert!(
            (self.to_bytes)(&sketch) == bytes,
            "bytes that were accepted are not those that would be written"
        );
        (self.exercise)(sketch);
        true
    }
}

fn mended(data: &[u8], seed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = data.to_vec();
    bytes.get_mut(..PAYLOAD_LEN)?.copy_from_slice(seed.get(..PAYLOAD_LEN)?);
    let payload = bytes.len().checked_sub(HEADER_BYTES)? as u64;
    bytes[PAYLOAD_LEN..CHECKSUM].copy_from_slice(&payload.to_le_bytes());
    bytes[CHECKSUM_END..HEADER_BYTES].fill(0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM]), &bytes[CHECKSUM_END..]);
    bytes[CHECKSUM..CHECKSUM_END].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were this not so, the mended tries would all be refused and prove nothing.
    #[test]
    fn mending_leaves_a_good_sketch_as_it_is() {
        for target in crate::targets::SKETCHES {
            let seed = (target.seeds)().swap_remove(0);
            assert_eq!(mended(&seed, &seed).as_deref(), Some(&seed[..]), "{}", target.name);
        }
    }
}
