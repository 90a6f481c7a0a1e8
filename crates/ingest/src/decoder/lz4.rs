//! lz4: the frame format around the blocks that the `lz4_flex` crate decodes.
//!
//! ```text
//! frame:  magic u32 │ flags u8 │ block size u8 │ content size u64? │ dictionary u32? │ checksum of these u8 │
//!         block … │ 0 u32 │ checksum of the content u32?
//! block:  length u32, its top bit set where the bytes are not compressed │ bytes │ checksum u32?
//! skipped frame:  magic u32, its lowest 4 bits any │ length u32 │ bytes
//! ```
//!
//! The crate has a frame decoder too. It loses what it has read where a pipe has nothing for now, and takes a frame that is cut
//! short between two blocks for a whole one; so frames are read here, piece by piece, each of which is complete before it counts.

use super::Decompress;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use xxhash_rust::xxh32::{Xxh32, xxh32};

const MAGIC: u32 = 0x184d_2204;
const SKIPPED_MAGIC: u32 = 0x184d_2a50;
/// What a linked block may refer to.
const WINDOW_BYTES: usize = 64 << 10;

/// The decompressed bytes of lz4 frames, one after another.
pub(crate) struct Lz4Decoder<R> {
    source: R,
    next: Piece,
    /// The piece that is being read, as far as it came.
    piece: Vec<u8>,
    frame: Frame,
    /// The window before the present block, and the block itself.
    output: Vec<u8>,
    /// What of it was not yet given out.
    unread: std::ops::Range<usize>,
}

/// What comes next in the source.
#[derive(Clone, Copy)]
enum Piece {
    /// A frame's first bytes, or the end.
    Magic,
    SkippedLength,
    Skipped {
        left: u64,
    },
    /// Flags and block size.
    Flags,
    /// What the flags announce, and the checksum of the header.
    Header {
        bytes: usize,
    },
    BlockLength,
    Block {
        bytes: usize,
        is_plain: bool,
    },
    ContentChecksum,
}

/// What a frame says of itself.
#[derive(Default)]
struct Frame {
    flags: u8,
    descriptor: u8,
    block_bytes_max: usize,
    content_bytes: Option<u64>,
    bytes: u64,
    content: Option<Xxh32>,
}

impl Frame {
    fn is_linked(&self) -> bool {
        self.flags & 0x20 == 0
    }

    fn has_block_checksums(&self) -> bool {
        self.flags & 0x10 != 0
    }
}

impl<R: BufRead> Lz4Decoder<R> {
    pub(super) fn new(source: R) -> Self {
        let (piece, output) = (Vec::new(), Vec::new());
        Self { source, next: Piece::Magic, piece, frame: Frame::default(), output, unread: 0..0 }
    }

    fn buffered(&self) -> &R {
        &self.source
    }

    fn buffered_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// Takes up the next piece; false at the end of the source.
    fn step(&mut self) -> io::Result<bool> {
        self.next = match self.next {
            Piece::Magic => {
                if self.piece.is_empty() && self.source.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                match self.u32()? {
                    MAGIC => Piece::Flags,
                    magic if magic & !0xf == SKIPPED_MAGIC => Piece::SkippedLength,
                    _ => return Err(damaged("something else follows a frame")),
                }
            }
            Piece::SkippedLength => Piece::Skipped { left: self.u32()?.into() },
            Piece::Skipped { left: 0 } => Piece::Magic,
            Piece::Skipped { left } => {
                let available = self.source.fill_buf()?.len();
                if available == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(available);
                self.source.consume(skipped);
                Piece::Skipped { left: left - skipped as u64 }
            }
            Piece::Flags => {
                self.fill(2)?;
                let [flags, descriptor] = [self.piece[0], self.piece[1]];
                self.piece.clear();
                self.begin_frame(flags, descriptor)?
            }
            Piece::Header { bytes } => {
                self.fill(bytes)?;
                let header = std::mem::take(&mut self.piece);
                self.end_header(&header)?;
                Piece::BlockLength
            }
            Piece::BlockLength => match self.u32()? {
                0 => self.end_frame()?,
                length => {
                    let (bytes, is_plain) = ((length & 0x7fff_ffff) as usize, length & 0x8000_0000 != 0);
                    if bytes > self.frame.block_bytes_max {
                        return Err(damaged("a block is longer than its frame allows"));
                    }
                    Piece::Block { bytes, is_plain }
                }
            },
            Piece::Block { bytes, is_plain } => {
                self.fill(bytes + if self.frame.has_block_checksums() { 4 } else { 0 })?;
                self.decode(bytes, is_plain)?;
                self.piece.clear();
                Piece::BlockLength
            }
            Piece::ContentChecksum => {
                let stored = self.u32()?;
                if self.frame.content.take().is_some_and(|content| content.digest() != stored) {
                    return Err(damaged("the content does not match its checksum"));
                }
                Piece::Magic
            }
        };
        Ok(true)
    }

    fn begin_frame(&mut self, flags: u8, descriptor: u8) -> io::Result<Piece> {
        if flags >> 6 != 1 || flags & 2 != 0 || descriptor & 0x8f != 0 || descriptor >> 4 < 4 {
            return Err(damaged("the frame is of an unknown version"));
        }
        if flags & 1 != 0 {
            return Err(damaged("the frame needs a dictionary"));
        }
        self.frame = Frame {
            flags,
            descriptor,
            block_bytes_max: 1 << (8 + 2 * (descriptor >> 4)),
            content: (flags & 4 != 0).then(|| Xxh32::new(0)),
            ..Frame::default()
        };
        self.output.clear();
        Ok(Piece::Header { bytes: if flags & 8 != 0 { 9 } else { 1 } })
    }

    fn end_header(&mut self, header: &[u8]) -> io::Result<()> {
        let [announced @ .., checksum] = header else { return Err(damaged("the header is empty")) };
        let described = [&[self.frame.flags, self.frame.descriptor], announced].concat();
        if (xxh32(&described, 0) >> 8) as u8 != *checksum {
            return Err(damaged("the header does not match its checksum"));
        }
        self.frame.content_bytes = announced.try_into().ok().map(u64::from_le_bytes);
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<Piece> {
        if self.frame.content_bytes.is_some_and(|bytes| bytes != self.frame.bytes) {
            return Err(damaged("the content has another length than its frame says"));
        }
        Ok(if self.frame.content.is_some() { Piece::ContentChecksum } else { Piece::Magic })
    }

    /// Decodes the block in `piece`.
    fn decode(&mut self, bytes: usize, is_plain: bool) -> io::Result<()> {
        let (block, checksum) = self.piece.split_at(bytes);
        if !checksum.is_empty() && checksum != xxh32(block, 0).to_le_bytes() {
            return Err(damaged("a block does not match its checksum"));
        }
        let window = if self.frame.is_linked() { self.output.len().min(WINDOW_BYTES) } else { 0 };
        self.output.drain(..self.output.len() - window);
        let length = if is_plain {
            self.output.extend_from_slice(block);
            bytes
        } else {
            self.output.resize(window + self.frame.block_bytes_max, 0);
            let (dictionary, output) = self.output.split_at_mut(window);
            lz4_flex::block::decompress_into_with_dict(block, output, dictionary)
                .map_err(|error| damaged(&error.to_string()))?
        };
        self.output.truncate(window + length);
        self.unread = window..window + length;
        let content = &self.output[self.unread.clone()];
        self.frame.bytes += length as u64;
        if let Some(checksum) = &mut self.frame.content {
            checksum.update(content);
        }
        Ok(())
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.fill(4)?;
        let number = self.piece.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        self.piece.clear();
        Ok(number)
    }

    /// Reads on until the piece has so many bytes; what came stays there if a read fails.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.piece.len() < bytes {
            let available = self.source.fill_buf()?;
            if available.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = available.len().min(bytes - self.piece.len());
            self.piece.extend_from_slice(&available[..taken]);
            self.source.consume(taken);
        }
        Ok(())
    }
}

impl<R: Read> Decompress<R> for Lz4Decoder<BufReader<R>> {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn source(&self) -> &R {
        self.buffered().get_ref()
    }

    fn source_mut(&mut self) -> &mut R {
        self.buffered_mut().get_mut()
    }
}

impl<R: BufRead> Read for Lz4Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.unread.is_empty() {
            if into.is_empty() || !self.step()? {
                return Ok(0);
            }
        }
        let count = self.unread.len().min(into.len());
        into[..count].copy_from_slice(&self.output[self.unread.start..self.unread.start + count]);
        self.unread.start += count;
        Ok(count)
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}
