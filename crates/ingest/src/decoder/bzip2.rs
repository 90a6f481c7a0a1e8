//! bzip2: streams one after another.

use super::Decompress;
use bzip2::bufread::MultiBzDecoder;
use std::io::{self, BufReader, Read};

/// The decompressed bytes of bzip2 streams.
pub(super) struct Bzip2Decoder<R>(MultiBzDecoder<BufReader<R>>);

impl<R: Read> Bzip2Decoder<R> {
    pub(super) fn new(source: BufReader<R>) -> Self {
        Self(MultiBzDecoder::new(source))
    }
}

impl<R: Read> Read for Bzip2Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<R: Read> Decompress<R> for Bzip2Decoder<R> {
    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn source(&self) -> &R {
        self.0.get_ref().get_ref()
    }

    fn source_mut(&mut self) -> &mut R {
        self.0.get_mut().get_mut()
    }
}
