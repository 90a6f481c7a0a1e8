//! The general compressor of fragments, which the user may replace.
//!
//! A codec gets whole columns: some hundred kilobytes at a time, where buffers are as large as the paper has them. It need not
//! guard its bytes: fragments have a checksum.
//!
//! Source: Amur et al., section 4.2, Column-Specialized Compression. The paper has Snappy; LZ4 is of its kind and as quick.

use std::fmt::Debug;

/// Makes bytes fewer, and the same again.
///
/// ```
/// use overbank::aggregate::{BufferTree, BufferTreeOptions, Codec, Count};
///
/// /// Keys that end as the one before them: leaves out the zeros at the end.
/// #[derive(Debug)]
/// struct Trailing;
///
/// impl Codec for Trailing {
///     fn compress(&self, raw: &[u8], into: &mut Vec<u8>) -> bool {
///         let used = raw.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
///         into.extend_from_slice(&raw[..used]);
///         true
///     }
///     fn decompress(&self, packed: &[u8], into: &mut [u8]) -> bool {
///         let Some((used, rest)) = into.split_at_mut_checked(packed.len()) else { return false };
///         used.copy_from_slice(packed);
///         rest.fill(0);
///         true
///     }
/// }
///
/// let tree = BufferTree::new(Count, BufferTreeOptions::new().codec(Trailing))?;
/// tree.insert_many(&["ada", "grace", "ada"], &[])?;
/// assert_eq!(tree.count()?, 2);
/// # Ok::<(), overbank::Error>(())
/// ```
pub trait Codec: Debug + Send + Sync + 'static {
    /// Appends `raw` in fewer bytes to `into`; or says no, and then what it appended is not looked at, as where it is not fewer.
    fn compress(&self, raw: &[u8], into: &mut Vec<u8>) -> bool;

    /// Fills `into`, which is as long as what was compressed; says no where `packed` is not what [`Codec::compress`] makes.
    fn decompress(&self, packed: &[u8], into: &mut [u8]) -> bool;
}

/// LZ4: some 1 byte a nanosecond packed, several unpacked.
#[cfg(feature = "lz4")]
#[derive(Clone, Copy, Default, Debug)]
pub struct Lz4Codec;

#[cfg(feature = "lz4")]
impl Codec for Lz4Codec {
    fn compress(&self, raw: &[u8], into: &mut Vec<u8>) -> bool {
        let start = into.len();
        into.resize(start + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
        match lz4_flex::block::compress_into(raw, &mut into[start..]) {
            Ok(packed) => {
                into.truncate(start + packed);
                true
            }
            Err(_) => false,
        }
    }

    fn decompress(&self, packed: &[u8], into: &mut [u8]) -> bool {
        lz4_flex::block::decompress_into(packed, into).is_ok_and(|bytes| bytes == into.len())
    }
}

/// Zstandard at level 1: fewer bytes than LZ4, for three times its time.
#[cfg(feature = "zstd")]
#[derive(Default)]
pub struct ZstdCodec {
    /// What no thread uses just now.
    packers: std::sync::Mutex<Vec<zstd::zstd_safe::CCtx<'static>>>,
    unpackers: std::sync::Mutex<Vec<zstd::zstd_safe::DCtx<'static>>>,
}

#[cfg(feature = "zstd")]
impl Debug for ZstdCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdCodec").finish_non_exhaustive()
    }
}

#[cfg(feature = "zstd")]
impl Codec for ZstdCodec {
    fn compress(&self, raw: &[u8], into: &mut Vec<u8>) -> bool {
        let free = crate::lock::lock(&self.packers).pop();
        let Some(mut packer) = free.or_else(zstd::zstd_safe::CCtx::try_create) else { return false };
        let start = into.len();
        into.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
        let packed = packer.compress(&mut into[start..], raw, 1);
        crate::lock::lock(&self.packers).push(packer);
        into.truncate(start + packed.unwrap_or(0));
        packed.is_ok()
    }

    fn decompress(&self, packed: &[u8], into: &mut [u8]) -> bool {
        let free = crate::lock::lock(&self.unpackers).pop();
        let Some(mut unpacker) = free.or_else(zstd::zstd_safe::DCtx::try_create) else { return false };
        let found = unpacker.decompress(into, packed);
        crate::lock::lock(&self.unpackers).push(unpacker);
        found == Ok(into.len())
    }
}
