//! xz: a decoder that is given bytes as they come, over a buffered source.

use super::Decompress;
use lzma_rust2::{Action, Status, XzStream};
use std::io::{self, BufRead, BufReader, Read};

/// What the decoder counts for its own tables beside the dictionary.
const TABLES_KIB: u32 = 40;

/// The decompressed bytes of xz streams, one after another.
pub(crate) struct XzDecoder<R> {
    source: R,
    stream: XzStream,
    has_ended: bool,
    /// What the stream failed with after it had produced bytes: those are handed out first.
    failure: Option<io::Error>,
}

impl<R: BufRead> XzDecoder<R> {
    /// A decoder that refuses dictionaries of more than `window_bytes_max`.
    pub(super) fn new(source: R, window_bytes_max: usize) -> Self {
        let limit_kib = u32::try_from(window_bytes_max / 1024).unwrap_or(u32::MAX).saturating_add(TABLES_KIB);
        Self { source, stream: XzStream::new_mem_limit(true, limit_kib), has_ended: false, failure: None }
    }

    fn buffered(&self) -> &R {
        &self.source
    }

    fn buffered_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// The dictionary that the present block needs.
    fn window_bytes(&self) -> Option<u64> {
        self.stream.memory_usage().map(|kib| u64::from(kib.saturating_sub(TABLES_KIB)) * 1024)
    }
}

impl<R: Read> Decompress<R> for XzDecoder<BufReader<R>> {
    fn name(&self) -> &'static str {
        "xz"
    }

    fn source(&self) -> &R {
        self.buffered().get_ref()
    }

    fn source_mut(&mut self) -> &mut R {
        self.buffered_mut().get_mut()
    }

    fn window_too_large(&self, error: &io::Error, _: &[u8]) -> Option<Option<u64>> {
        (error.kind() == io::ErrorKind::OutOfMemory).then(|| self.window_bytes())
    }
}

impl<R: BufRead> Read for XzDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.has_ended {
            return Ok(0);
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        loop {
            let input = self.source.fill_buf()?;
            let action = if input.is_empty() { Action::Finish } else { Action::Run };
            let produced_before = self.stream.total_out();
            let step = match self.stream.process(input, into, action) {
                Ok(step) => step,
                Err(failure) => {
                    let produced = (self.stream.total_out() - produced_before) as usize;
                    if produced == 0 {
                        return Err(failure);
                    }
                    self.failure = Some(failure);
                    return Ok(produced);
                }
            };
            let is_stuck = input.is_empty() && step.bytes_produced == 0;
            self.source.consume(step.bytes_consumed);
            self.has_ended = step.status == Status::StreamEnd;
            if step.bytes_produced > 0 || self.has_ended {
                return Ok(step.bytes_produced);
            }
            if is_stuck {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
