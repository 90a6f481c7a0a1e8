//! zstd: frames one after another, with windows as large as the options allow.

use super::{Decompress, ZSTD_MAGIC};
use std::io::{self, BufReader, Read};

/// The decompressed bytes of zstd frames.
pub(super) struct ZstdDecoder<R: Read>(zstd::Decoder<'static, BufReader<R>>);

impl<R: Read> ZstdDecoder<R> {
    pub(super) fn new(source: BufReader<R>, window_bytes_max: usize) -> io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(source)?;
        decoder.window_log_max(window_bytes_max.max(1 << 10).ilog2().min(31))?;
        Ok(Self(decoder))
    }
}

impl<R: Read> Read for ZstdDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<R: Read> Decompress<R> for ZstdDecoder<R> {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn source(&self) -> &R {
        self.0.get_ref().get_ref()
    }

    fn source_mut(&mut self) -> &mut R {
        self.0.get_mut().get_mut()
    }

    fn window_too_large(&self, error: &io::Error, head: &[u8]) -> Option<Option<u64>> {
        error.to_string().contains("too much memory").then(|| zstd_window(head))
    }
}

/// The window that the first frame of zstd asks for (RFC 8878, 3.1.1.1).
fn zstd_window(head: &[u8]) -> Option<u64> {
    let (descriptor, rest) = head.strip_prefix(ZSTD_MAGIC)?.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary_bytes..)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    Some(match descriptor >> 6 {
        0 => number(size.get(..1)?),
        1 => number(size.get(..2)?) + 256,
        2 => number(size.get(..4)?),
        _ => number(size.get(..8)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_from_the_frame() {
        let frame = |rest: &[u8]| zstd_window(&[ZSTD_MAGIC, rest].concat());
        assert_eq!(frame(&[0x00, 17 << 3]), Some(1 << 27));
        assert_eq!(frame(&[0x04, 10 << 3 | 4]), Some((1 << 20) + (1 << 19)));
        assert_eq!(frame(&[0x20, 9]), Some(9));
        assert_eq!(frame(&[0x61, 7, 1, 0]), Some(257));
        assert_eq!(frame(&[0xe0, 0, 0, 0, 0, 2, 0, 0, 0]), Some(2 << 32));
        assert_eq!(frame(&[]), None);
    }
}
