//! Pages as streams: of a page's bytes only what a decoder looks back on is in memory, never the page.
//!
//! | codec | memory |
//! |---|---|
//! | none | a buffer |
//! | snappy, lz4, lz4_raw | 128 KiB; a page up to 1 MiB whole |
//! | gzip | 32 KiB and tables |
//! | zstd, brotli | the window that the page asks for, at most the page |

use super::header::invalid;
use super::lz::{self, Blocks, Kind};
use super::memory::{Memory, Permit};
use super::{Fault, MIN_BUFFER_BYTES};
use ::parquet::basic::Compression;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::sync::Arc;

/// Bytes read at a time.
const BUFFER_BYTES: u64 = 64 << 10;
/// What a gzip decoder takes.
const GZIP_BYTES: u64 = 64 << 10;
/// What a zstd decoder takes beside its window: its tables, and two blocks of 128 KiB.
#[cfg(feature = "zstd")]
const ZSTD_BYTES: u64 = 448 << 10;
/// What a brotli decoder takes beside its window, for tables.
const BROTLI_BYTES: u64 = 256 << 10;
/// The four bytes before a zstd frame.
#[cfg(feature = "zstd")]
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A page's bytes as they are without compression.
pub(super) struct PageBytes {
    bytes: BufReader<Take<Box<dyn Read + Send>>>,
    _permit: Permit,
}

impl PageBytes {
    /// How many bytes are left.
    pub(super) fn left(&self) -> u64 {
        self.bytes.get_ref().limit() + self.bytes.buffer().len() as u64
    }

    /// Passes over `count` bytes.
    pub(super) fn pass(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.bytes.by_ref().take(count), &mut io::sink())? {
            passed if passed == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Read for PageBytes {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(into)
    }

    #[inline]
    fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact(into)
    }
}

/// Some bytes of a file, checked at their end if they have a checksum.
pub(super) struct Part {
    file: Arc<File>,
    at: u64,
    left: u64,
    checksum: Option<(crc32fast::Hasher, u32)>,
}

impl Part {
    pub(super) fn new(file: &Arc<File>, at: u64, bytes: u64, crc: Option<u32>) -> Self {
        let checksum = crc.map(|crc| (crc32fast::Hasher::new(), crc));
        Self { file: Arc::clone(file), at, left: bytes, checksum }
    }
}

impl Read for Part {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = crate::system::read_at(&self.file, &mut into[..wanted], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        if let Some((hasher, _)) = &mut self.checksum {
            hasher.update(&into[..count]);
        }
        if self.left == 0
            && let Some((hasher, expected)) = self.checksum.take()
            && hasher.finalize() != expected
        {
            return Err(invalid("a page's checksum is wrong"));
        }
        Ok(count)
    }
}

/// The buffer before a page of so many bytes in the file.
pub(super) fn buffered(part: Part) -> BufReader<Part> {
    let capacity = part.left.clamp(MIN_BUFFER_BYTES, BUFFER_BYTES) as usize;
    BufReader::with_capacity(capacity, part)
}

/// Decompresses `input`, of which `compressed` bytes are left, to `uncompressed` bytes.
pub(super) fn open(
    codec: Compression,
    mut input: BufReader<Part>,
    compressed: u64,
    uncompressed: u64,
    memory: &Memory,
) -> Result<PageBytes, Fault> {
    let out_bytes = uncompressed.clamp(MIN_BUFFER_BYTES, BUFFER_BYTES);
    let mut permit = memory.take("page", input.capacity() as u64 + out_bytes)?;
    let stream: Box<dyn Read + Send> = match codec {
        Compression::UNCOMPRESSED => Box::new(input),
        Compression::SNAPPY | Compression::LZ4 | Compression::LZ4_RAW => {
            let kind = match codec {
                Compression::SNAPPY => Kind::Snappy,
                Compression::LZ4 if is_hadoop(&mut input, compressed, uncompressed)? => Kind::Hadoop,
                _ => Kind::Lz4,
            };
            permit.grow("page", lz::memory_bytes(uncompressed))?;
            Box::new(Blocks::new(input, kind, uncompressed))
        }
        Compression::GZIP(_) => {
            permit.grow("page", GZIP_BYTES)?;
            Box::new(flate2::bufread::MultiGzDecoder::new(input))
        }
        #[cfg(not(feature = "zstd"))]
        Compression::ZSTD(_) => {
            return Err(Fault::Unsupported("zstd in a build without the feature `zstd`".into()));
        }
        #[cfg(feature = "zstd")]
        Compression::ZSTD(_) => {
            let window = zstd_window(input.fill_buf()?);
            permit.grow("zstd window", window + ZSTD_BYTES)?;
            let mut decoder = zstd::Decoder::with_buffer(input)?;
            // Later frames of the page may not ask for more.
            decoder.window_log_max(window.max(1 << 10).next_power_of_two().ilog2().min(31))?;
            Box::new(decoder)
        }
        Compression::BROTLI(_) => {
            let window = brotli_window(input.fill_buf()?).min(uncompressed.next_power_of_two());
            permit.grow("brotli window", window + BROTLI_BYTES)?;
            Box::new(brotli_decompressor::Decompressor::new(input, MIN_BUFFER_BYTES as usize))
        }
        Compression::LZO => return Err(Fault::Unsupported("LZO compression".into())),
    };
    let bytes = BufReader::with_capacity(out_bytes as usize, stream.take(uncompressed));
    Ok(PageBytes { bytes, _permit: permit })
}

/// Whether what is called LZ4 is in Hadoop's form, as most is, or a block as LZ4_RAW has it.
fn is_hadoop(input: &mut impl BufRead, compressed: u64, uncompressed: u64) -> io::Result<bool> {
    let head = input.fill_buf()?;
    let [a, b, c, d, e, f, g, h, ..] = *head else { return Ok(false) };
    let (whole, block) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    Ok(u64::from(whole) <= uncompressed && u64::from(block) <= compressed.saturating_sub(8))
}

/// The window of the zstd frame that starts so, by its header; source: RFC 8878, 3.1.1.1.
#[cfg(feature = "zstd")]
fn zstd_window(head: &[u8]) -> u64 {
    let Some([descriptor, rest @ ..]) = head.strip_prefix(&ZSTD_MAGIC) else { return 0 };
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let Some(window) = rest.first() else { return 0 };
        let base = 1u64 << (10 + (window >> 3));
        return base + base / 8 * u64::from(window & 7);
    }
    let id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let Some(size) = rest.get(id_bytes..id_bytes + size_bytes) else { return 0 };
    let size = size.iter().rev().fold(0, |size: u64, &byte| size << 8 | u64::from(byte));
    if size_bytes == 2 { size + 256 } else { size }
}

/// The window of a brotli stream that starts so; source: RFC 7932, 9.1.
fn brotli_window(head: &[u8]) -> u64 {
    let Some(&first) = head.first() else { return 0 };
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        // Large windows, which are no part of the format.
        (_, 0, 1) => 24,
        (_, 0, bits) => 8 + bits,
        (_, bits, _) => 17 + bits,
    };
    1 << bits
}
