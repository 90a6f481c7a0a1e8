//! The bytes of a sketch piece by piece, so that neither writing nor reading holds a second copy of it.
//!
//! ```text
//!   write:  pieces ─▶ checksum          read:  header ─▶ lengths ─▶ pieces ─▶ checksum
//!           header, pieces ─▶ sink
//! ```
//!
//! 1. What is written is what `to_bytes` returns; what is read is what `from_bytes` accepts.
//! 2. The header, and the shape against the number of bytes, are validated before a sketch is allocated. The checksum
//!    can only be compared at the end: until then, damage may show as another error than a wrong checksum.
//!
//! Cost: writing makes the pieces twice; a piece is some kilobytes.

use super::HashId;
use super::format::{self, Decoder, Encoder, HEADER_BYTES, Header, Identity, corrupt};
use crate::Result;

/// Takes bytes, in order.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;
/// Fills a buffer with the bytes that follow.
pub(crate) type Source<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<()>;

/// Writes header and payload: `pieces` pieces, of which `put` appends the given one.
pub(crate) fn write(
    identity: Identity,
    hash: Option<HashId>,
    pieces: usize,
    put: &dyn Fn(usize, &mut Encoder),
    sink: Sink<'_>,
) -> Result<()> {
    let mut encoder = Encoder::new(identity, hash, 0);
    let header = encoder.take();
    let (mut payload_bytes, mut checksum) = (0, 0);
    for piece in 0..pieces {
        put(piece, &mut encoder);
        payload_bytes += encoder.bytes().len();
        checksum = format::append(checksum, encoder.bytes());
        encoder.clear();
    }
    sink(&format::seal_header(header, payload_bytes, checksum))?;
    for piece in 0..pieces {
        put(piece, &mut encoder);
        sink(encoder.bytes())?;
        encoder.clear();
    }
    Ok(())
}

/// All that `write` gives to its sink.
pub(crate) fn collect(bytes: usize, write: impl FnOnce(Sink<'_>) -> Result<()>) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes);
    let written = write(&mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    });
    written.expect("a vector takes every piece");
    all
}

/// A source of these bytes.
pub(crate) fn source_of(mut bytes: &[u8]) -> impl FnMut(&mut [u8]) -> Result<()> {
    move |into| {
        let left = bytes.len();
        let parts = bytes.split_at_checked(into.len());
        let (part, rest) =
            parts.ok_or_else(|| corrupt(0, "the number of bytes that follow", into.len(), left))?;
        into.copy_from_slice(part);
        bytes = rest;
        Ok(())
    }
}

/// Reads a payload piece by piece.
pub(crate) struct Reader<'s> {
    source: Source<'s>,
    header: [u8; HEADER_BYTES],
    hash: Option<HashId>,
    piece: Vec<u8>,
    at: usize,
    left: usize,
    payload_checksum: u32,
}

impl<'s> Reader<'s> {
    /// Reads and validates the header of `total_bytes` bytes.
    pub(crate) fn open(total_bytes: usize, source: Source<'s>, identity: Identity) -> Result<Self> {
        let Some(left) = total_bytes.checked_sub(HEADER_BYTES) else {
            return Err(corrupt(total_bytes, "the length of the header", HEADER_BYTES, total_bytes));
        };
        let mut bytes = [0; HEADER_BYTES];
        source(&mut bytes)?;
        let header = Header::parse(&bytes)?;
        header.require_payload(left)?;
        let hash = header.require(identity)?;
        let piece = Vec::new();
        Ok(Self { source, header: bytes, hash, piece, at: HEADER_BYTES, left, payload_checksum: 0 })
    }

    /// How many bytes of the payload are not yet read.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The next `len` bytes.
    pub(crate) fn piece(&mut self, len: usize) -> Result<Decoder<'_>> {
        if len > self.left {
            return Err(corrupt(self.at, "the number of bytes that follow", len, self.left));
        }
        self.piece.resize(len, 0);
        (self.source)(&mut self.piece)?;
        self.payload_checksum = format::append(self.payload_checksum, &self.piece);
        let decoder = Decoder::of_piece(&self.piece, self.at, self.hash);
        (self.at, self.left) = (self.at + len, self.left - len);
        Ok(decoder)
    }

    /// Verifies that zeros are left, and the checksum of everything.
    pub(crate) fn finish(mut self) -> Result<()> {
        const PIECE_BYTES: usize = 4096;
        while self.left > 0 {
            let bytes = PIECE_BYTES.min(self.left);
            self.piece(bytes)?.only_zeros_left()?;
        }
        let payload_bytes = self.at - HEADER_BYTES;
        Header::parse(&self.header)?.require_checksum(&self.header, self.payload_checksum, payload_bytes)
    }
}
