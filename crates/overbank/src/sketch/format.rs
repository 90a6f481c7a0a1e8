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
use crate::bytes::ByteReader;
pub(crate) use crate::error::corrupt_bytes as corrupt;
use crate::{Error, HashKind, Result};
use std::ops::{Deref, DerefMut};

/// Which sketch the bytes hold, and in which version of its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) id: u16,
    pub(crate) version: u16,
    pub(crate) name: &'static str,
}

pub(crate) const COUNT_MIN: Identity = Identity { id: 1, version: 2, name: "count-min sketch" };
pub(crate) const HYPERLOGLOG: Identity = Identity { id: 2, version: 1, name: "HyperLogLog sketch" };
pub(crate) const SPACE_SAVING: Identity = Identity { id: 3, version: 2, name: "space-saving sketch" };
pub(crate) const DDSKETCH: Identity = Identity { id: 4, version: 2, name: "DDSketch" };
// 5 is the quotient filter, 6 the rank function.
pub(crate) const COUNT_SKETCH: Identity = Identity { id: 7, version: 1, name: "count sketch" };
pub(crate) const COCO: Identity = Identity { id: 8, version: 1, name: "CocoSketch" };
pub(crate) const LOG_LOG: Identity = Identity { id: 9, version: 1, name: "LogLog sketch" };
pub(crate) const LOCHER: Identity = Identity { id: 10, version: 1, name: "Locher sketch" };
pub(crate) const ELASTIC: Identity = Identity { id: 11, version: 1, name: "Elastic sketch" };
pub(crate) const UNIV_MON: Identity = Identity { id: 12, version: 1, name: "UnivMon sketch" };

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

    /// Where to append.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was collected.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what was collected away.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Drops what was collected.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Fills in length and checksum.
    pub(crate) fn seal(self) -> Vec<u8> {
        let (payload_bytes, payload_checksum) =
            (self.bytes.len() - HEADER_BYTES, append(0, &self.bytes[HEADER_BYTES..]));
        seal_header(self.bytes, payload_bytes, payload_checksum)
    }
}

/// Puts length and checksum into the header that `bytes` begin with.
pub(crate) fn seal_header(mut bytes: Vec<u8>, payload_bytes: usize, payload_checksum: u32) -> Vec<u8> {
    bytes[PAYLOAD_LEN..CHECKSUM].copy_from_slice(&(payload_bytes as u64).to_le_bytes());
    let checksum = checksum_of(&bytes, payload_checksum, payload_bytes);
    bytes[CHECKSUM..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The fields of a header whose magic and padding are right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    id: u16,
    version: u16,
    kind: u8,
    seed_fingerprint: u64,
    payload_len: u64,
    checksum: u32,
}

impl Header {
    /// The header that `bytes` begin with.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(corrupt(bytes.len(), "the length of the header", HEADER_BYTES, bytes.len()));
        }
        let mut header = ByteReader::new(bytes);
        header.magic("the magic", MAGIC)?;
        let (id, version) = (header.u16()?, header.u16()?);
        let kind = header.u8()?;
        header.zeros(SEED - KIND - 1)?;
        let (seed_fingerprint, payload_len, checksum) = (header.u64()?, header.u64()?, header.u32()?);
        header.zeros(HEADER_BYTES - CHECKSUM_END)?;
        Ok(Self { id, version, kind, seed_fingerprint, payload_len, checksum })
    }

    /// Fails unless so many bytes of payload are declared.
    pub(crate) fn require_payload(&self, payload_bytes: usize) -> Result<()> {
        if self.payload_len == payload_bytes as u64 {
            return Ok(());
        }
        Err(corrupt(PAYLOAD_LEN, "the payload's length", payload_bytes, self.payload_len))
    }

    /// Fails unless this is the checksum of the header that `bytes` begin with and of this payload.
    pub(crate) fn require_checksum(
        &self,
        bytes: &[u8],
        payload_checksum: u32,
        payload_bytes: usize,
    ) -> Result<()> {
        let expected = checksum_of(bytes, payload_checksum, payload_bytes);
        if self.checksum == expected {
            return Ok(());
        }
        let (expected, found) = (format!("{expected:08x}"), format!("{:08x}", self.checksum));
        Err(corrupt(CHECKSUM, "the checksum", expected, found))
    }

    /// Fails unless this is a sketch of this identity; gives its hash, if it hashes.
    pub(crate) fn require(&self, identity: Identity) -> Result<Option<HashId>> {
        super::hash_id::require_equal("the structure's id", identity.id, self.id)?;
        if self.version != identity.version {
            return Err(Error::UnsupportedVersion {
                what: identity.name.into(),
                found: self.version.into(),
                supported: identity.version.into(),
            });
        }
        let seed_fingerprint = self.seed_fingerprint;
        match self.kind {
            0 if seed_fingerprint == 0 => Ok(None),
            1 => Ok(Some(HashId { kind: HashKind::Xxh3, seed_fingerprint })),
            2 => Ok(Some(HashId { kind: HashKind::SipHash13, seed_fingerprint })),
            kind => Err(corrupt(KIND, "the hash kind", "0 without a seed, 1 or 2", kind)),
        }
    }
}

/// Reads a payload whose header was verified.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    reader: ByteReader<'a>,
    hash: Option<HashId>,
}

impl<'a> Deref for Decoder<'a> {
    type Target = ByteReader<'a>;

    fn deref(&self) -> &Self::Target {
        &self.reader
    }
}

impl DerefMut for Decoder<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.reader
    }
}

impl<'a> Decoder<'a> {
    /// Verifies the header of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another sketch's bytes.
    pub(crate) fn open(bytes: &'a [u8], identity: Identity) -> Result<Self> {
        let header = Header::parse(bytes)?;
        let payload = bytes.get(HEADER_BYTES..).unwrap_or(&[]);
        header.require_payload(payload.len())?;
        header.require_checksum(bytes, append(0, payload), payload.len())?;
        Ok(Self::of_piece(payload, HEADER_BYTES, header.require(identity)?))
    }

    /// Reads a piece that begins at `origin`.
    pub(crate) fn of_piece(bytes: &'a [u8], origin: usize, hash: Option<HashId>) -> Self {
        Self { reader: ByteReader::from_offset(bytes, origin), hash }
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
}

/// The checksum of all bytes but itself, from the header and the checksum of the payload.
fn checksum_of(bytes: &[u8], payload_checksum: u32, payload_bytes: usize) -> u32 {
    let header = append(append(0, &bytes[..CHECKSUM]), &bytes[CHECKSUM_END..HEADER_BYTES]);
    crc32c::crc32c_combine(header, payload_checksum, payload_bytes)
}

/// The checksum of more bytes.
pub(crate) fn append(checksum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum, bytes)
}

/// Overwrites one byte of a payload and seals again: hostile bytes that get past the checksum.
#[cfg(test)]
pub(crate) fn forge(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[HEADER_BYTES + at] = value;
    let (payload_bytes, payload_checksum) = (bytes.len() - HEADER_BYTES, append(0, &bytes[HEADER_BYTES..]));
    seal_header(bytes, payload_bytes, payload_checksum)
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
