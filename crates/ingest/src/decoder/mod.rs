//! The compressions that an input may have, told by its first bytes and never by its name: gzip, bzip2 and xz of any number of
//! members, zstd and lz4 of any number of frames. Other compressions and archives are refused by name.
//!
//! Every decoder goes on after a read that failed because a pipe has nothing for now.

#[cfg(feature = "bzip2")]
mod bzip2;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zstd")]
mod zstd;

use crate::{Error, Format, Options, Result};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Compressed bytes per read, as `gzip` and `zstd` take them; larger gains nothing.
const COMPRESSED_BYTES: usize = 128 << 10;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// With the one method that there is.
const GZIP_DEFLATED: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
const LZ4_MAGIC: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
/// Behind "BZh" and a digit: the start of a block, or the end of a stream that has none.
const BZIP2_BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
const BZIP2_END: &[u8] = &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90];
/// The last three of the four bytes that start a frame which zstd and lz4 skip.
const SKIPPABLE_FRAME: &[u8] = &[0x2a, 0x4d, 0x18];
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// What is refused by name, by its first bytes.
const REFUSED: [(&[u8], &str); 14] = [
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PK\x07\x08", "a zip archive in parts"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x1f\x9d", "compressed by compress (.Z)"),
    (b"\x1f\xa0", "compressed by compress -H (.Z)"),
    (b"\x1f\x1e", "compressed by pack (.z)"),
    (b"LZIP\x01", "compressed by lzip"),
    (b"\x89LZO\x00\x0d\x0a\x1a\x0a", "compressed by lzop"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed by snappy"),
    (b"\x02\x21\x4c\x18", "compressed by lz4 in its legacy format"),
    (b"\x5d\x00\x00\x80\x00", "compressed by lzma, the format before xz"),
    (b"MSCF\0\0\0\0", "a cabinet archive"),
];

/// The decompressed bytes of `R`.
pub(crate) enum Decoder<R: Read> {
    Plain(R),
    Compressed(Box<dyn Decompress<R> + Send>),
}

/// The decompressed bytes of one compression.
pub(crate) trait Decompress<R>: Read {
    /// The compression's name.
    fn name(&self) -> &'static str;

    /// The source of the compressed bytes.
    fn source(&self) -> &R;

    /// See [`Decompress::source`].
    fn source_mut(&mut self) -> &mut R;

    /// As [`Decoder::window_too_large`].
    fn window_too_large(&self, _error: &io::Error, _head: &[u8]) -> Option<Option<u64>> {
        None
    }
}

/// The compressions that are told by their first bytes.
#[derive(Clone, Copy)]
enum Compression {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Lz4,
}

/// Whether the first bytes of a stream tell what it holds, as far as a pipe can hold it.
pub(crate) fn is_told(head: &[u8]) -> bool {
    let may_be_skippable =
        matches!(head, [first, rest @ ..] if first & 0xf0 == 0x50 && SKIPPABLE_FRAME.starts_with(rest));
    let may_be = |magic: &[u8]| magic.len() > head.len() && magic.starts_with(head);
    let known = [GZIP_MAGIC, ZSTD_MAGIC, XZ_MAGIC, LZ4_MAGIC, PARQUET_MAGIC];
    let is_open = known.into_iter().chain(REFUSED.map(|(magic, _)| magic)).any(may_be) || may_be_bzip2(head);
    !is_open && (!may_be_skippable || head.len() > SKIPPABLE_FRAME.len())
}

fn may_be_bzip2(head: &[u8]) -> bool {
    match head.split_at_checked(4) {
        None => b"BZh".starts_with(head),
        Some((_, rest)) => {
            is_bzip2_start(head)
                && rest.len() < BZIP2_BLOCK.len()
                && (BZIP2_BLOCK.starts_with(rest) || BZIP2_END.starts_with(rest))
        }
    }
}

fn is_bzip2_start(head: &[u8]) -> bool {
    head.starts_with(b"BZh") && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
}

impl Compression {
    /// That of a stream which starts with `head`; `None` where it has none.
    fn of(head: &[u8]) -> Option<Self> {
        let skippable_frame = head.get(1..4) == Some(SKIPPABLE_FRAME) && head[0] & 0xf0 == 0x50;
        let bzip2 =
            is_bzip2_start(head) && (head[4..].starts_with(BZIP2_BLOCK) || head[4..].starts_with(BZIP2_END));
        Some(if head.starts_with(GZIP_MAGIC) {
            Self::Gzip
        } else if head.starts_with(LZ4_MAGIC) || skippable_frame && !zstd_follows(head) {
            Self::Lz4
        } else if head.starts_with(ZSTD_MAGIC) || skippable_frame {
            Self::Zstd
        } else if bzip2 {
            Self::Bzip2
        } else if head.starts_with(XZ_MAGIC) {
            Self::Xz
        } else {
            return None;
        })
    }

    /// Its decoder; `NotBuilt` where that was left out.
    fn open<R: Read + Send + 'static>(
        self,
        source: BufReader<R>,
        path: &Path,
        options: &Options,
    ) -> Result<Box<dyn Decompress<R> + Send>> {
        // What is left out or in decides which of these are used.
        let _ = (&source, options, path);
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => Ok(Box::new(gzip::MembersDecoder::new(source))),
            #[cfg(feature = "zstd")]
            Self::Zstd => {
                let failed = |source| Error::Read { path: path.to_path_buf(), at: 0, source };
                Ok(Box::new(zstd::ZstdDecoder::new(source, options.window_bytes_max).map_err(failed)?))
            }
            #[cfg(feature = "bzip2")]
            Self::Bzip2 => Ok(Box::new(bzip2::Bzip2Decoder::new(source))),
            #[cfg(feature = "xz")]
            Self::Xz => Ok(Box::new(xz::XzDecoder::new(source, options.window_bytes_max))),
            #[cfg(feature = "lz4")]
            Self::Lz4 => Ok(Box::new(lz4::Lz4Decoder::new(source))),
            #[cfg(not(feature = "gzip"))]
            Self::Gzip => absent(path, "compressed by gzip", "gzip"),
            #[cfg(not(feature = "zstd"))]
            Self::Zstd => absent(path, "compressed by zstd", "zstd"),
            #[cfg(not(feature = "bzip2"))]
            Self::Bzip2 => absent(path, "compressed by bzip2", "bzip2"),
            #[cfg(not(feature = "xz"))]
            Self::Xz => absent(path, "compressed by xz", "xz"),
            #[cfg(not(feature = "lz4"))]
            Self::Lz4 => absent(path, "compressed by lz4", "lz4"),
        }
    }
}

impl<R: Read + Send + 'static> Decoder<R> {
    /// The decoder for a source that starts with `head`.
    pub(crate) fn new(source: R, head: &[u8], path: &Path, options: &Options) -> Result<Self> {
        // The first bytes of raw records are a length: no short magic is to be seen in it.
        let is_raw = options.format == Format::Raw;
        let refused = REFUSED.iter().find(|(magic, _)| head.starts_with(magic));
        if let Some((_, what)) = refused.filter(|_| !is_raw) {
            return Err(Error::Refused { path: path.to_path_buf(), what });
        }
        let is_gzip = |compression: &Compression| {
            !matches!(compression, Compression::Gzip) || head.starts_with(GZIP_DEFLATED)
        };
        Ok(match Compression::of(head).filter(|compression| !is_raw || is_gzip(compression)) {
            Some(compression) => {
                let source = BufReader::with_capacity(COMPRESSED_BYTES, source);
                Self::Compressed(compression.open(source, path, options)?)
            }
            None => Self::Plain(source),
        })
    }

    /// The compression's name, empty for none.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plain(_) => "",
            Self::Compressed(decoder) => decoder.name(),
        }
    }

    /// The source of the compressed bytes.
    pub(crate) fn source(&self) -> &R {
        match self {
            Self::Plain(source) => source,
            Self::Compressed(decoder) => decoder.source(),
        }
    }

    /// See [`Decoder::source`].
    pub(crate) fn source_mut(&mut self) -> &mut R {
        match self {
            Self::Plain(source) => source,
            Self::Compressed(decoder) => decoder.source_mut(),
        }
    }

    /// Whether `error`, which a read brought, says that the window is too large for the options; then how large it is, where
    /// `head` tells.
    pub(crate) fn window_too_large(&self, error: &io::Error, head: &[u8]) -> Option<Option<u64>> {
        match self {
            Self::Plain(_) => None,
            Self::Compressed(decoder) => decoder.window_too_large(error, head),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(into),
            Self::Compressed(decoder) => decoder.read(into),
        }
    }
}

/// The refusal of what this build was made without.
#[allow(dead_code, reason = "not with all features on")]
fn absent<T>(path: &Path, what: &'static str, feature: &'static str) -> Result<T> {
    Err(Error::NotBuilt { path: path.to_path_buf(), what, feature })
}

/// Whether the frame behind the skippable ones that `head` starts with is one of zstd. Both formats skip the same frames; where the
/// first bytes do not reach beyond them it is taken for zstd, whose tools write them.
fn zstd_follows(head: &[u8]) -> bool {
    let mut rest = head;
    while let Some((start, behind)) = rest.split_at_checked(8)
        && start[1..4] == *SKIPPABLE_FRAME
    {
        let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
        match behind.get(length..) {
            Some(behind) => rest = behind,
            None => return true,
        }
    }
    !rest.starts_with(LZ4_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_need_not_say_more_than_its_first_line() {
        for told in ["a\n", "P\n", "BZ\n", "BZh\n", "BZh9\n", "BZh91\n", "7z\n", "\n"] {
            assert!(is_told(told.as_bytes()), "{told:?}");
        }
        for open in [&b""[..], b"P", b"PK", b"B", b"BZh", b"BZh9", b"BZh91AY&S", b"\xfd7z", b"\x1f", b"P\x2a"]
        {
            assert!(!is_told(open), "{open:?}");
        }
    }
}
