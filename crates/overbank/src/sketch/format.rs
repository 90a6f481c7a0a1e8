//! The bytes of every sketch: one header, then the sketch's own payload.
//!
//! ```text
//! byte 0     4      6       8     9      16            24         32     36    40
//!      ┌─────┬──────┬───────┬─────┬──────┬─────────────┬──────────┬──────┬─────┬───────────┐
//!      │magic│ id   │version│kind │ zero │ seed        │ payload  │crc32c│zero │ payload … │
//!      │OBsk │ u16  │ u16   │ u8  │ 7 B  │ fingerprint │ len u64  │ u32  │ 4 B │           │
//!      └─────┴──────┴───────┴─────┴──────┴─────────────┴──────────┴──────┴─────┴───────────┘
//! ```
//!
//! 1. Little-endian, fixed widths; padding is zero and verified.
//! 2. The checksum covers every byte but itself.
//! 3. `kind` 0 says that the sketch does not hash (then the fingerprint is 0).
//! 4. A decoder validates a declared length against the bytes that are there before it allocates.

use super::HashId;
use crate::{Error, HashKind, Result};
use std::path::PathBuf;

/// Which sketch the bytes hold, and in which version of its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) id: u16,
    pub(crate) version: u16,
    pub(crate) name: &'static str,
}

pub(crate) const COUNT_MIN: Identity = Identity { id: 1, version: 1, name: "count-min sketch" };
pub(crate) const HYPERLOGLOG: Identity = Identity { id: 2, version: 1, name: "HyperLogLog sketch" };
pub(crate) const SPACE_SAVING: Identity = Identity { id: 3, version: 1, name: "space-saving sketch" };
pub(crate) const DDSKETCH: Identity = Identity { id: 4, version: 1, name: "DDSketch" };

const MAGIC: [u8; 4] = *b"OBsk";
const ID: usize = 4;
const VERSION: usize = ID + size_of::<u16>();
const KIND: usize = VERSION + size_of::<u16>();
const SEED: usize = 16;
const PAYLOAD_LEN: usize = SEED + size_of::<u64>();
const CHECKSUM: usize = PAYLOAD_LEN + size_of::<u64>();
const CHECKSUM_END: usize = CHECKSUM + size_of::<u32>();
pub(crate) const HEADER_BYTES: usize = CHECKSUM_END + 4;
const _: () = assert!(HEADER_BYTES == 40);

/// Collects a payload and puts the header before it.
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(identity: Identity, hash: Option<HashId>, payload_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload_bytes);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&identity.id.to_le_bytes());
        bytes.extend_from_slice(&identity.version.to_le_bytes());
        bytes.push(hash.map_or(0, |hash| hash.kind as u8));
        bytes.resize(SEED, 0);
        bytes.extend_from_slice(&hash.map_or(0, |hash| hash.seed_fingerprint).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, len: usize) {
        self.bytes.resize(self.bytes.len() + len, 0);
    }

    /// Fills in length and checksum.
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let payload_len = (self.bytes.len() - HEADER_BYTES) as u64;
        self.bytes[PAYLOAD_LEN..CHECKSUM].copy_from_slice(&payload_len.to_le_bytes());
        let checksum = checksum_of(&self.bytes);
        self.bytes[CHECKSUM..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// Reads a payload whose header was verified. Every read is checked against the bytes that are left.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    hash: Option<HashId>,
}

impl<'a> Decoder<'a> {
    /// Verifies the header of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another sketch's bytes.
    pub(crate) fn open(bytes: &'a [u8], identity: Identity) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(corrupt(bytes.len(), "the length of the header", HEADER_BYTES, bytes.len()));
        }
        let mut header = Decoder { bytes, at: 0, hash: None };
        let magic = header.raw(4)?;
        if magic != MAGIC {
            return Err(corrupt(0, "the magic", format!("{MAGIC:02x?}"), format!("{magic:02x?}")));
        }
        let (id, version) = (header.u16()?, header.u16()?);
        let kind = header.u8()?;
        header.zeros(SEED - KIND - 1)?;
        let seed_fingerprint = header.u64()?;
        let payload_len = header.u64()?;
        let checksum = header.u32()?;
        header.zeros(HEADER_BYTES - CHECKSUM_END)?;

        let actual_len = (bytes.len() - HEADER_BYTES) as u64;
        if payload_len != actual_len {
            return Err(corrupt(PAYLOAD_LEN, "the payload's length", actual_len, payload_len));
        }
        let expected = checksum_of(bytes);
        if checksum != expected {
            return Err(corrupt(
                CHECKSUM,
                "the checksum",
                format!("{expected:08x}"),
                format!("{checksum:08x}"),
            ));
        }
        super::hash_id::require_equal("the structure's id", identity.id, id)?;
        if version != identity.version {
            return Err(Error::UnsupportedVersion {
                what: identity.name.into(),
                found: version.into(),
                supported: identity.version.into(),
            });
        }
        header.hash = match kind {
            0 if seed_fingerprint == 0 => None,
            1 => Some(HashId { kind: HashKind::Xxh3, seed_fingerprint }),
            2 => Some(HashId { kind: HashKind::SipHash13, seed_fingerprint }),
            _ => return Err(corrupt(KIND, "the hash kind", "0 without a seed, 1 or 2", kind)),
        };
        Ok(header)
    }

    /// The hash of a sketch that hashes.
    pub(crate) fn hash_id(&self) -> Result<HashId> {
        self.hash.ok_or_else(|| corrupt(KIND, "the hash kind", "1 or 2", 0))
    }

    /// Fails unless the sketch is one that does not hash.
    pub(crate) fn require_no_hash(&self) -> Result<()> {
        match self.hash {
            None => Ok(()),
            Some(hash) => Err(corrupt(KIND, "the hash kind", 0, hash.kind as u8)),
        }
    }

    /// How many bytes of the payload are not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let slice = end.and_then(|end| self.bytes.get(self.at..end));
        let slice =
            slice.ok_or_else(|| corrupt(self.at, "the number of bytes that follow", len, self.left()))?;
        self.at += len;
        Ok(slice)
    }

    pub(crate) fn zeros(&mut self, len: usize) -> Result<()> {
        let at = self.at;
        match self.raw(len)?.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(offset) => Err(corrupt(at + offset, "a padding byte", 0, self.bytes[at + offset])),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// Fails unless exactly `expected` bytes are left: call it before allocating.
    pub(crate) fn require_left(&self, expected: Option<usize>) -> Result<()> {
        match expected {
            Some(expected) if expected == self.left() => Ok(()),
            Some(expected) => Err(corrupt(self.at, "the number of bytes that follow", expected, self.left())),
            None => Err(corrupt(self.at, "the shape", "one that memory can hold", "a larger one")),
        }
    }

    /// Says that the value just read is impossible.
    pub(crate) fn impossible(
        &self,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Error {
        corrupt(self.at, what, expected, found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }
}

fn checksum_of(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(&bytes[..CHECKSUM]);
    crc32c::crc32c_append(before, &bytes[CHECKSUM_END..])
}

fn corrupt(at: usize, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
    Error::Corrupt {
        path: PathBuf::from("<bytes>"),
        at: at as u64,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

/// Overwrites one byte of a payload and seals again: hostile bytes that get past the checksum.
#[cfg(test)]
pub(crate) fn forge(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[HEADER_BYTES + at] = value;
    let checksum = checksum_of(&bytes);
    bytes[CHECKSUM..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut encoder =
            Encoder::new(HYPERLOGLOG, Some(HashId { kind: HashKind::Xxh3, seed_fingerprint: 7 }), 8);
        encoder.u64(42);
        encoder.seal()
    }

    #[test]
    fn a_header_comes_back() {
        let bytes = sample();
        let mut decoder = Decoder::open(&bytes, HYPERLOGLOG).unwrap();
        assert_eq!(decoder.hash_id().unwrap().seed_fingerprint, 7);
        assert_eq!((decoder.left(), decoder.u64().unwrap(), decoder.left()), (8, 42, 0));
        assert!(decoder.u8().is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert!(Decoder::open(&bytes[..len], HYPERLOGLOG).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Decoder::open(&damaged, HYPERLOGLOG), Err(Error::Corrupt { .. })), "bit {bit}");
        }
    }

    #[test]
    fn another_sketch_is_incompatible_and_another_version_unsupported() {
        let bytes = sample();
        assert!(matches!(Decoder::open(&bytes, COUNT_MIN), Err(Error::Incompatible { .. })));
        let newer = Identity { version: 2, ..HYPERLOGLOG };
        assert!(matches!(
            Decoder::open(&bytes, newer),
            Err(Error::UnsupportedVersion { found: 1, supported: 2, .. })
        ));
    }
}
