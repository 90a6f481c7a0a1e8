//! Snappy and LZ4 blocks as streams: what a page holds comes out as it is asked for, and only as much of it is kept as later bytes
//! may repeat.
//!
//! ```text
//! Snappy: length varint │ (tag, literal bytes | a distance back)…      writers compress 64 KiB at a time
//! LZ4:    (lengths u4 u4, literal bytes, a distance back of 16 bits)…  in Hadoop's form: (length u32, compressed u32, block)…
//! ```
//! Sources: `format_description.txt` of Snappy, `lz4_Block_format.md` of LZ4, and Hadoop's `BlockCompressorStream`.

use super::header::invalid;
use std::io::{self, BufRead, Read};

/// How far back LZ4 reaches, and Snappy as all its writers use it.
const REACH_BYTES: usize = 64 << 10;
/// A page up to this size is kept whole, so that it may reach back as far as it likes.
const WHOLE_BYTES: u64 = 1 << 20;
/// Bytes decoded at a time.
const STEP_BYTES: usize = 64 << 10;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Snappy,
    Lz4,
    /// LZ4 blocks, each behind its lengths.
    Hadoop,
}

/// What is left of the token at hand.
enum Pending {
    Nothing,
    Literal(usize),
    /// An LZ4 literal, behind which comes a match whose length has this code.
    LiteralThenMatch(usize, u8),
    Copy {
        distance: usize,
        length: usize,
    },
}

/// The bytes of a page.
pub(super) struct Blocks<R> {
    input: R,
    kind: Kind,
    /// What was decoded last; `at` of it was read.
    window: Vec<u8>,
    at: usize,
    reach_bytes: usize,
    /// Bytes of the page that are still to be decoded, and of the block at hand.
    left: u64,
    block_left: u64,
    pending: Pending,
    is_started: bool,
}

/// What decoding a page of so many bytes takes.
pub(super) fn memory_bytes(page_bytes: u64) -> u64 {
    (reach_bytes(page_bytes) + STEP_BYTES) as u64
}

fn reach_bytes(page_bytes: u64) -> usize {
    if page_bytes <= WHOLE_BYTES { page_bytes as usize } else { REACH_BYTES }
}

impl<R: BufRead> Blocks<R> {
    /// A page of `page_bytes` bytes.
    pub(super) fn new(input: R, kind: Kind, page_bytes: u64) -> Self {
        let block_left = if kind == Kind::Hadoop { 0 } else { page_bytes };
        let reach_bytes = reach_bytes(page_bytes);
        let (window, pending) = (Vec::new(), Pending::Nothing);
        Self {
            input,
            kind,
            window,
            at: 0,
            reach_bytes,
            left: page_bytes,
            block_left,
            pending,
            is_started: false,
        }
    }

    /// Decodes on: at least one byte, unless the page is at its end.
    fn refill(&mut self) -> io::Result<()> {
        if !self.is_started {
            self.is_started = true;
            let capacity =
                (self.reach_bytes + STEP_BYTES).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.window.reserve_exact(capacity);
            if self.kind == Kind::Snappy {
                let claimed = self.varint()?;
                if claimed != self.left {
                    return Err(invalid(format!(
                        "a page of {} bytes is {claimed} bytes in Snappy",
                        self.left
                    )));
                }
            }
        }
        let passed = self.window.len().saturating_sub(self.reach_bytes);
        self.window.drain(..passed);
        self.at -= passed;
        let target = self.reach_bytes + STEP_BYTES;
        while self.window.len() < target && self.left > 0 {
            let room =
                (target - self.window.len()).min(usize::try_from(self.block_left).unwrap_or(usize::MAX));
            match self.pending {
                Pending::Nothing => {
                    self.pending = match self.kind {
                        Kind::Hadoop if self.block_left == 0 => {
                            self.start_block()?;
                            continue;
                        }
                        Kind::Snappy => self.snappy_token()?,
                        _ => self.lz4_token()?,
                    };
                    let length = match self.pending {
                        Pending::Literal(length) | Pending::LiteralThenMatch(length, _) => length,
                        Pending::Copy { length, .. } => length,
                        Pending::Nothing => 0,
                    };
                    if length as u64 > self.block_left {
                        return Err(invalid("a compressed page holds more than it claims"));
                    }
                }
                Pending::Literal(length) => {
                    let taken = length.min(room);
                    self.literal(taken)?;
                    let rest = length - taken;
                    self.pending = if rest == 0 { Pending::Nothing } else { Pending::Literal(rest) };
                }
                Pending::LiteralThenMatch(length, code) => {
                    let taken = length.min(room);
                    self.literal(taken)?;
                    self.pending = if taken < length {
                        Pending::LiteralThenMatch(length - taken, code)
                    } else if self.block_left == 0 {
                        Pending::Nothing
                    } else {
                        self.lz4_match(code)?
                    };
                }
                Pending::Copy { distance, length } => {
                    let taken = length.min(room);
                    self.copy(distance, taken)?;
                    let length = length - taken;
                    self.pending =
                        if length == 0 { Pending::Nothing } else { Pending::Copy { distance, length } };
                }
            }
        }
        Ok(())
    }

    fn snappy_token(&mut self) -> io::Result<Pending> {
        let tag = self.byte()?;
        let code = usize::from(tag >> 2);
        Ok(match tag & 3 {
            0 if code < 60 => Pending::Literal(code + 1),
            0 => Pending::Literal(self.little_endian(code - 59)? + 1),
            1 => {
                let low = usize::from(self.byte()?);
                Pending::Copy { distance: usize::from(tag >> 5) << 8 | low, length: 4 + (code & 7) }
            }
            kind => Pending::Copy {
                distance: self.little_endian(if kind == 2 { 2 } else { 4 })?,
                length: code + 1,
            },
        })
    }

    fn lz4_token(&mut self) -> io::Result<Pending> {
        let token = self.byte()?;
        let length = self.lz4_length(token >> 4)?;
        Ok(Pending::LiteralThenMatch(length, token & 15))
    }

    fn lz4_match(&mut self, code: u8) -> io::Result<Pending> {
        let distance = self.little_endian(2)?;
        let length = self.lz4_length(code)?.saturating_add(4);
        if length as u64 > self.block_left {
            return Err(invalid("a compressed page holds more than it claims"));
        }
        Ok(Pending::Copy { distance, length })
    }

    fn lz4_length(&mut self, code: u8) -> io::Result<usize> {
        let mut length = usize::from(code);
        if code == 15 {
            loop {
                let byte = self.byte()?;
                length = length.saturating_add(usize::from(byte));
                if byte < 255 {
                    break;
                }
            }
        }
        Ok(length)
    }

    /// Reads the lengths before one of Hadoop's blocks.
    fn start_block(&mut self) -> io::Result<()> {
        let mut lengths = [0; 8];
        self.input.read_exact(&mut lengths)?;
        let [a, b, c, d, ..] = lengths;
        self.block_left = u32::from_be_bytes([a, b, c, d]).into();
        if self.block_left > self.left {
            return Err(invalid("a compressed page holds more than it claims"));
        }
        Ok(())
    }

    fn literal(&mut self, mut length: usize) -> io::Result<()> {
        self.pass(length);
        while length > 0 {
            let ahead = self.input.fill_buf()?;
            if ahead.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = ahead.len().min(length);
            self.window.extend_from_slice(&ahead[..taken]);
            self.input.consume(taken);
            length -= taken;
        }
        Ok(())
    }

    fn copy(&mut self, distance: usize, mut length: usize) -> io::Result<()> {
        let start = self.window.len().checked_sub(distance).filter(|_| distance > 0).ok_or_else(|| {
            invalid(format!(
                "a compressed page repeats what lies {distance} bytes back, where {} are kept",
                self.window.len()
            ))
        })?;
        self.pass(length);
        // What is repeated may overlap what comes: each round doubles the period that is there.
        while length > 0 {
            let taken = length.min(self.window.len() - start);
            self.window.extend_from_within(start..start + taken);
            length -= taken;
        }
        Ok(())
    }

    fn pass(&mut self, length: usize) {
        self.left -= length as u64;
        self.block_left -= length as u64;
    }

    #[inline]
    fn byte(&mut self) -> io::Result<u8> {
        let ahead = self.input.fill_buf()?;
        let byte = *ahead.first().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.input.consume(1);
        Ok(byte)
    }

    fn little_endian(&mut self, bytes: usize) -> io::Result<usize> {
        let mut number = 0;
        for at in 0..bytes {
            number |= usize::from(self.byte()?) << (8 * at);
        }
        Ok(number)
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(invalid("a compressed page has no length"))
    }
}

impl<R: BufRead> Read for Blocks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            self.refill()?;
        }
        let ahead = &self.window[self.at..];
        let taken = ahead.len().min(into.len());
        into[..taken].copy_from_slice(&ahead[..taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the decoder makes of `compressed`, read in odd pieces.
    fn decoded(compressed: &[u8], kind: Kind, page_bytes: usize) -> io::Result<Vec<u8>> {
        let mut blocks = Blocks::new(compressed, kind, page_bytes as u64);
        let mut out = Vec::new();
        let mut piece = [0; 1013];
        loop {
            match blocks.read(&mut piece)? {
                0 => return Ok(out),
                count => out.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Literals long enough for every form of their length, and matches near, far and overlapping.
    fn lz4_block(pieces: &[(Vec<u8>, usize, usize)]) -> (Vec<u8>, Vec<u8>) {
        let (mut block, mut text) = (Vec::new(), Vec::new());
        let length = |block: &mut Vec<u8>, mut rest: usize| {
            while rest >= 255 {
                block.push(255);
                rest -= 255;
            }
            block.push(rest as u8);
        };
        for (at, (literal, distance, matched)) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            let (high, low) = (literal.len().min(15), if is_last { 0 } else { (matched - 4).min(15) });
            block.push((high << 4 | low) as u8);
            if high == 15 {
                length(&mut block, literal.len() - 15);
            }
            block.extend_from_slice(literal);
            text.extend_from_slice(literal);
            if is_last {
                break;
            }
            let distance = 1 + distance % text.len().min(65_535);
            block.extend((distance as u16).to_le_bytes());
            if low == 15 {
                length(&mut block, matched - 19);
            }
            for _ in 0..*matched {
                text.push(text[text.len() - distance]);
            }
        }
        (block, text)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn lz4_blocks_decode_to_what_they_say(
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..600), any::<usize>(), 4usize..90_000), 1..24),
        ) {
            let (block, text) = lz4_block(&pieces);
            prop_assert_eq!(&decoded(&block, Kind::Lz4, text.len()).expect("a block"), &text);
            let mut hadoop = Vec::new();
            for _ in 0..2 {
                hadoop.extend((text.len() as u32).to_be_bytes());
                hadoop.extend((block.len() as u32).to_be_bytes());
                hadoop.extend_from_slice(&block);
            }
            prop_assert_eq!(decoded(&hadoop, Kind::Hadoop, 2 * text.len()).expect("two blocks"), text.repeat(2));
        }

        #[test]
        fn damaged_blocks_end(bytes in prop::collection::vec(any::<u8>(), 0..300), page_bytes in 0usize..300_000) {
            for kind in [Kind::Snappy, Kind::Lz4, Kind::Hadoop] {
                if let Ok(text) = decoded(&bytes, kind, page_bytes) {
                    prop_assert_eq!(text.len(), page_bytes);
                }
            }
        }
    }
}
