//! Packs pages and unpacks them.
//!
//! ```text
//!   0      1       4           8              12
//!   ┼ form ┼ zeros ┼ raw bytes ┼ packed bytes ┼ packed │ zeros to the block's end
//!     u8             u32         u32
//!
//!   form    2: LZ4's block format     3: a frame of zstd, with the run's dictionary if it has one
//! ```
//!
//! A page that would not be shorter is not packed: its first byte says so, too.

use super::Compression;
#[cfg(any(feature = "lz4", feature = "zstd"))]
use crate::Error;
use crate::Result;
use crate::bytes::ByteReader;
use crate::error::{corrupt_bytes, invalid};

const HEADER_BYTES: usize = 12;
/// More than a page may have.
const RAW_BYTES_MAX: u64 = 1 << 30;
/// LZ4 makes no more of a byte.
#[cfg(feature = "lz4")]
const LZ4_EXPANSION_MAX: u64 = 255;
/// As fast as a device of today takes what it makes, or nearly; the next levels gain a few parts in a hundred.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;
/// Longer ones gain little, and each open run has it in RAM.
#[cfg(feature = "zstd")]
const DICTIONARY_BYTES: usize = 16 << 10;

/// The first byte of a packed page.
fn form_of(compression: Compression) -> u8 {
    1 + compression as u8
}

/// What packs the pages of a run.
pub(super) struct Packer {
    compression: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<(zstd::zstd_safe::CCtx<'static>, Option<zstd::dict::EncoderDictionary<'static>>)>,
}

/// What unpacks the pages of a run, for all who read it.
pub(super) struct Unpacker {
    compression: Compression,
    #[cfg(feature = "zstd")]
    dictionary: Option<zstd::dict::DecoderDictionary<'static>>,
    /// Contexts that nobody is using.
    #[cfg(feature = "zstd")]
    contexts: std::sync::Mutex<Vec<zstd::zstd_safe::DCtx<'static>>>,
}

/// A page's bytes, as it was before it was packed, and how many of the body's it took.
pub(super) struct Unpacked<'b> {
    pub(super) page: &'b [u8],
    /// `None` where it was not packed.
    pub(super) packed_bytes: Option<usize>,
}

impl Compression {
    /// Whether this build has it.
    ///
    /// # Errors
    /// `InvalidOption` if not.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Compression::Lz4 if cfg!(not(feature = "lz4")) => {
                invalid("compression", "lz4", "this build has no LZ4; build overbank with the feature lz4")
            }
            Compression::Zstd if cfg!(not(feature = "zstd")) => {
                invalid("compression", "zstd", "this build has no zstd; build overbank with the feature zstd")
            }
            _ => Ok(()),
        }
    }
}

/// A dictionary for pages like those of `samples`, which have these lengths; empty where there are too few to make one, or where the
/// compression takes none.
pub(super) fn train(compression: Compression, samples: &[u8], lengths: &[usize]) -> Vec<u8> {
    match compression {
        #[cfg(feature = "zstd")]
        Compression::Zstd => {
            zstd::dict::from_continuous(samples, lengths, DICTIONARY_BYTES).unwrap_or_default()
        }
        _ => {
            let _ = (samples, lengths);
            Vec::new()
        }
    }
}

impl Packer {
    /// # Errors
    /// `InvalidOption` for what is not built in; `OutOfMemory`.
    pub(super) fn new(compression: Compression, dictionary: &[u8]) -> Result<Packer> {
        compression.check()?;
        #[cfg(feature = "zstd")]
        let zstd = match compression {
            Compression::Zstd => {
                let context = zstd::zstd_safe::CCtx::try_create().ok_or_else(|| no_memory(0))?;
                let make = || zstd::dict::EncoderDictionary::try_copy(dictionary, ZSTD_LEVEL);
                let prepared = (!dictionary.is_empty()).then(make).transpose();
                Some((context, prepared.map_err(|_| no_memory(dictionary.len()))?))
            }
            _ => None,
        };
        #[cfg(not(feature = "zstd"))]
        let _ = dictionary;
        Ok(Packer {
            compression,
            #[cfg(feature = "zstd")]
            zstd,
        })
    }

    /// Makes `into` the bytes of a page on flash, which are `raw` or, if that is shorter, packed.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn pack(&mut self, raw: &[u8], into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        let packed: Option<usize> = match self.compression {
            Compression::None => None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => {
                into.resize(HEADER_BYTES + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                lz4_flex::block::compress_into(raw, &mut into[HEADER_BYTES..]).ok()
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                into.resize(HEADER_BYTES + zstd::zstd_safe::compress_bound(raw.len()), 0);
                let Some((context, dictionary)) = &mut self.zstd else { return Err(no_memory(0)) };
                let room = &mut into[HEADER_BYTES..];
                let packed = match dictionary {
                    Some(dictionary) => context.compress_using_cdict(room, raw, dictionary.as_cdict()),
                    None => context.compress(room, raw, ZSTD_LEVEL),
                };
                Some(packed.map_err(|_| no_memory(raw.len()))?)
            }
            #[cfg(not(all(feature = "lz4", feature = "zstd")))]
            _ => None,
        };
        into.truncate(packed.map_or(0, |packed| HEADER_BYTES + packed));
        match packed {
            Some(packed) if into.len() < raw.len() => {
                into[..4].copy_from_slice(&[form_of(self.compression), 0, 0, 0]);
                into[4..8].copy_from_slice(&(raw.len() as u32).to_le_bytes());
                into[8..HEADER_BYTES].copy_from_slice(&(packed as u32).to_le_bytes());
            }
            _ => {
                into.clear();
                into.extend_from_slice(raw);
            }
        }
        Ok(())
    }
}

impl Unpacker {
    /// # Errors
    /// `InvalidOption` for what is not built in; `Corrupt` for a dictionary that is none.
    pub(super) fn new(compression: Compression, dictionary: &[u8]) -> Result<Unpacker> {
        compression.check()?;
        let is_wanted = dictionary.is_empty() || compression == Compression::Zstd;
        let refused = || {
            corrupt_bytes(0, "the dictionary of a run", "one of zstd", format!("{} bytes", dictionary.len()))
        };
        #[cfg(feature = "zstd")]
        let prepared = (!dictionary.is_empty())
            .then(|| zstd::dict::DecoderDictionary::try_copy(dictionary).map_err(|_| refused()))
            .transpose()?;
        if !is_wanted {
            return Err(refused());
        }
        Ok(Unpacker {
            compression,
            #[cfg(feature = "zstd")]
            dictionary: prepared,
            #[cfg(feature = "zstd")]
            contexts: std::sync::Mutex::default(),
        })
    }

    /// The page that is in `body`, if it is packed in `into`.
    ///
    /// # Errors
    /// `Corrupt` for what no writer packed; `OutOfMemory`.
    pub(super) fn unpack<'b>(&self, body: &'b [u8], into: &'b mut Vec<u8>) -> Result<Unpacked<'b>> {
        if self.compression == Compression::None || body.first() != Some(&form_of(self.compression)) {
            return Ok(Unpacked { page: body, packed_bytes: None });
        }
        let mut fields = ByteReader::new(body);
        fields.u8()?;
        fields.zeros(3)?;
        let (raw_bytes, packed_bytes) = (fields.u32()?, fields.u32()?);
        if u64::from(raw_bytes) > RAW_BYTES_MAX {
            return Err(corrupt_bytes(
                4,
                "the length of a page",
                format!("at most {RAW_BYTES_MAX}"),
                raw_bytes,
            ));
        }
        let packed_bytes = fields.counted("the length of a packed page", packed_bytes, 1)?;
        let packed = fields.take(packed_bytes)?;
        let found = self.unpack_to(packed, raw_bytes as usize, into)?;
        if found != Some(raw_bytes as usize) {
            let found = found.map_or("no page".to_owned(), |bytes| format!("{bytes} bytes"));
            return Err(corrupt_bytes(HEADER_BYTES, "a packed page", format!("{raw_bytes} bytes"), found));
        }
        Ok(Unpacked { page: into, packed_bytes: Some(HEADER_BYTES + packed_bytes) })
    }

    /// Unpacks at most `raw_bytes`; how many there were, or `None` where that fails.
    fn unpack_to(&self, packed: &[u8], raw_bytes: usize, into: &mut Vec<u8>) -> Result<Option<usize>> {
        into.clear();
        match self.compression {
            #[cfg(feature = "lz4")]
            Compression::Lz4 => {
                if raw_bytes as u64 > packed.len() as u64 * LZ4_EXPANSION_MAX {
                    return Ok(None);
                }
                into.try_reserve_exact(raw_bytes).map_err(|_| no_memory(raw_bytes))?;
                into.resize(raw_bytes, 0);
                Ok(lz4_flex::block::decompress_into(packed, into).ok())
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                into.try_reserve_exact(raw_bytes).map_err(|_| no_memory(raw_bytes))?;
                let free = crate::lock::lock(&self.contexts).pop();
                let made = free.or_else(zstd::zstd_safe::DCtx::try_create);
                let mut context = made.ok_or_else(|| no_memory(0))?;
                let found = match &self.dictionary {
                    Some(dictionary) => context.decompress_using_ddict(into, packed, dictionary.as_ddict()),
                    None => context.decompress(into, packed),
                };
                crate::lock::lock(&self.contexts).push(context);
                Ok(found.ok())
            }
            _ => {
                let _ = (packed, raw_bytes);
                Ok(None)
            }
        }
    }
}

#[cfg(any(feature = "lz4", feature = "zstd"))]
fn no_memory(wanted_bytes: usize) -> Error {
    Error::OutOfMemory { what: "a page to compress or decompress".into(), wanted_bytes }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packer({:?})", self.compression)
    }
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unpacker({:?})", self.compression)
    }
}
