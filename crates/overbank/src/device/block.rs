//! The seal on every stored block: a checksum that also knows where the block belongs.
//!
//! ```text
//!   0                                              4080   4084   4088        4096
//!   ├──────────────── body ─────────────────────────┼ crc32c ┼ tag ┼ sequence ┤
//!                                                     u32     u32     u64        little-endian
//! ```
//!
//! Invariants:
//! 1. The checksum covers store id, file id, block number, tag, sequence and body, so a block that was written
//!    whole but to the wrong place, or that is left over from another file or store, does not pass.
//! 2. A block that fails is never sealed again from its own bytes: writers seal only what they composed.
//!
//! | | CPU | block reads | block writes | RAM |
//! |---|---|---|---|---|
//! | `seal`, `check` | one CRC32C of 4128 bytes | 0 | 0 | 0 |

use super::BLOCK_BYTES;
use crate::{Error, Result};
use std::path::Path;

/// Bytes of a block that belong to the caller; the trailer takes the rest.
pub const BODY_BYTES: usize = BLOCK_BYTES - TRAILER_BYTES;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 16;

const CRC_AT: usize = BODY_BYTES;
const TAG_AT: usize = CRC_AT + size_of::<u32>();
const SEQUENCE_AT: usize = TAG_AT + size_of::<u32>();
const _: () = assert!(SEQUENCE_AT + size_of::<u64>() == BLOCK_BYTES);

/// The file that a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockOwner {
    /// The store's random 128-bit id.
    pub store_id: u128,
    /// The file's number in the store; 0 is the superblock.
    pub file_id: u64,
}

/// What a seal says about its block, besides vouching for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// The structure's own tag or flags.
    pub tag: u32,
    /// A number that grows with time: the commit, or the apply sequence.
    pub sequence: u64,
}

/// Writes the trailer of block `number` (0-based, in blocks) of `owner` over the last 16 bytes of `block`.
///
/// # Panics
/// If `block` is not [`BLOCK_BYTES`] long.
pub fn seal(block: &mut [u8], owner: BlockOwner, number: u64, seal: Seal) {
    assert_eq!(block.len(), BLOCK_BYTES, "a block has 4096 bytes");
    block[TAG_AT..SEQUENCE_AT].copy_from_slice(&seal.tag.to_le_bytes());
    block[SEQUENCE_AT..].copy_from_slice(&seal.sequence.to_le_bytes());
    let crc = checksum(block, owner, number);
    block[CRC_AT..TAG_AT].copy_from_slice(&crc.to_le_bytes());
}

/// Verifies block `number` of `owner`; `path` is the file's name for the message.
///
/// # Errors
/// `Corrupt` at the block's byte offset if the checksum does not match.
///
/// # Panics
/// If `block` is not [`BLOCK_BYTES`] long.
pub fn check(block: &[u8], owner: BlockOwner, number: u64, path: &Path) -> Result<Seal> {
    peek(block, owner, number).map_err(|(expected, found)| Error::Corrupt {
        path: path.to_path_buf(),
        at: number.saturating_mul(BLOCK_BYTES as u64),
        what: "block checksum",
        expected: format!("{expected:#010x}"),
        found: format!("{found:#010x}"),
    })
}

/// Like [`check`] where a failing block is expected (a log's tail, a shadow slot): `None`, and no message is built.
///
/// # Panics
/// If `block` is not [`BLOCK_BYTES`] long.
pub fn valid(block: &[u8], owner: BlockOwner, number: u64) -> Option<Seal> {
    peek(block, owner, number).ok()
}

fn peek(block: &[u8], owner: BlockOwner, number: u64) -> std::result::Result<Seal, (u32, u32)> {
    assert_eq!(block.len(), BLOCK_BYTES, "a block has 4096 bytes");
    let expected = checksum(block, owner, number);
    let (_, trailer) = block.split_at(CRC_AT);
    let (crc, rest) = trailer.split_at(size_of::<u32>());
    let (tag, sequence) = rest.split_at(size_of::<u32>());
    let found = crc.try_into().map_or(0, u32::from_le_bytes);
    if expected != found {
        return Err((expected, found));
    }
    Ok(Seal {
        tag: tag.try_into().map_or(0, u32::from_le_bytes),
        sequence: sequence.try_into().map_or(0, u64::from_le_bytes),
    })
}

fn checksum(block: &[u8], owner: BlockOwner, number: u64) -> u32 {
    let mut place = [0u8; 32];
    place[..16].copy_from_slice(&owner.store_id.to_le_bytes());
    place[16..24].copy_from_slice(&owner.file_id.to_le_bytes());
    place[24..].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c(&place);
    let crc = crc32c::crc32c_append(crc, &block[TAG_AT..]);
    crc32c::crc32c_append(crc, &block[..BODY_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: BlockOwner = BlockOwner { store_id: 7, file_id: 3 };

    fn sealed() -> Vec<u8> {
        let mut block: Vec<u8> = (0..BLOCK_BYTES).map(|i| (i * 31) as u8).collect();
        seal(&mut block, OWNER, 9, Seal { tag: 0xabcd, sequence: 1 << 40 });
        block
    }

    #[test]
    fn a_sealed_block_gives_back_its_tag_and_sequence() {
        let seal = check(&sealed(), OWNER, 9, Path::new("f")).unwrap();
        assert_eq!(seal, Seal { tag: 0xabcd, sequence: 1 << 40 });
    }

    #[test]
    fn every_single_bit_flip_is_found() {
        let mut block = sealed();
        for bit in 0..BLOCK_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(valid(&block, OWNER, 9), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_block_in_the_wrong_place_is_found() {
        let block = sealed();
        assert!(valid(&block, OWNER, 8).is_none());
        assert!(valid(&block, BlockOwner { file_id: 4, ..OWNER }, 9).is_none());
        assert!(valid(&block, BlockOwner { store_id: 8, ..OWNER }, 9).is_none());
        let error = check(&block, OWNER, 8, Path::new("000004.seg")).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: 32768, .. }), "{error}");
    }

    #[test]
    fn zeros_do_not_pass() {
        assert!(valid(&[0; BLOCK_BYTES], OWNER, 0).is_none());
    }
}
