//! gzip: members one after another, and zeros between and behind them, which tapes and block devices leave there.

use super::Decompress;
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// What a member begins with.
const FIRST_BYTE: u8 = 0x1f;

/// The decompressed bytes of gzip members.
pub(crate) struct MembersDecoder<R> {
    /// The member at hand; none only while the next one is made.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> MembersDecoder<R> {
    pub(super) fn new(source: R) -> Self {
        Self { member: Some(GzDecoder::new(source)) }
    }

    fn member(&mut self) -> &mut GzDecoder<R> {
        self.member.as_mut().expect("a decoder has a member")
    }

    fn buffered(&self) -> &R {
        self.member.as_ref().expect("a decoder has a member").get_ref()
    }

    fn buffered_mut(&mut self) -> &mut R {
        self.member().get_mut()
    }
}

impl<R: Read> Decompress<R> for MembersDecoder<BufReader<R>> {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn source(&self) -> &R {
        self.buffered().get_ref()
    }

    fn source_mut(&mut self) -> &mut R {
        self.buffered_mut().get_mut()
    }
}

impl<R: BufRead> Read for MembersDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.member().read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let source = self.buffered_mut();
            loop {
                let ahead = source.fill_buf()?;
                if ahead.is_empty() {
                    return Ok(0);
                }
                match ahead.iter().take_while(|&&byte| byte == 0).count() {
                    0 if ahead[0] != FIRST_BYTE => {
                        let why = "what follows a member is neither another nor padding";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                    }
                    0 => break,
                    zeros => source.consume(zeros),
                }
            }
            self.member = self.member.take().map(|member| GzDecoder::new(member.into_inner()));
        }
    }
}
