//! Cuts a decompressed stream into chunks of whole records.
//!
//! 1. Where a chunk ends depends on the stream's bytes from the chunk's start on and on the options, on nothing
//!    else: so a resumed stream is cut as the first one was. With a pause it also depends on when they came, but rows do not.
//! 2. Never more than the record limit is held, however long a record is.

use crate::boundary::Boundary;
use crate::chunk::{Body, Buffer, Pool};
use crate::position::Identity;
use crate::stream::Stream;
use crate::{Options, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct TextInput {
    stream: Stream,
    boundary: Boundary,
    /// Bytes read and not yet cut.
    carry: Vec<u8>,
    ended: bool,
    /// Decompressed bytes before the carry.
    pub(crate) offset: u64,
    /// Newlines before the carry.
    pub(crate) line: u64,
    /// Whether the last cut was made because nothing more came, and nothing has come since.
    resting: bool,
}

/// What was cut off the stream.
pub(crate) struct Cut {
    pub(crate) body: Body,
    pub(crate) consumed: u64,
    /// Whether it was made because nothing more came.
    pub(crate) paused: bool,
}

const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// How long a stream is waited for that has paused already.
const RESTING: Duration = Duration::from_secs(1);

impl TextInput {
    /// Starts to read `stream`, leaving out a byte order mark.
    pub(crate) fn new(stream: Stream, boundary: Boundary) -> Result<Self> {
        let mut input =
            Self { stream, boundary, carry: Vec::new(), ended: false, offset: 0, line: 0, resting: false };
        // A pipe that has three other bytes to say need not say them all before its first line is passed on.
        while BYTE_ORDER_MARK.starts_with(&input.carry) && input.carry != BYTE_ORDER_MARK && !input.ended {
            input.read_carry(BYTE_ORDER_MARK.len())?;
        }
        if input.carry.starts_with(BYTE_ORDER_MARK) {
            input.drain(BYTE_ORDER_MARK.len());
        }
        Ok(input)
    }

    /// The first record, without the empty lines before it: a header. `None` if there is none within `limit` bytes.
    pub(crate) fn take_record(&mut self, limit: usize) -> Result<Option<Vec<u8>>> {
        loop {
            let mut search = self.boundary.search();
            let mut searched = 0;
            let end = loop {
                if let Some(end) = search.feed(&self.carry[searched..]) {
                    break searched + end;
                }
                searched = self.carry.len();
                if self.ended || searched >= limit {
                    break searched;
                }
                self.read_carry((searched * 2).clamp(4096, limit.max(4096)))?;
            };
            if end == 0 || end > limit {
                return Ok(None);
            }
            let record = self.drain(end);
            if !matches!(record.as_slice(), b"\n" | b"\r\n") {
                return Ok(Some(record));
            }
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended && self.carry.is_empty()
    }

    /// Goes on to byte `offset` of the decompressed stream, where `line` newlines have passed.
    pub(crate) fn skip_to(&mut self, offset: u64, line: u64) -> Result<()> {
        let ahead = offset.saturating_sub(self.offset);
        if ahead <= self.carry.len() as u64 {
            self.drain(ahead as usize);
        } else {
            self.stream.skip(self.offset + self.carry.len() as u64, offset)?;
            self.carry.clear();
        }
        (self.offset, self.line) = (offset, line);
        Ok(())
    }

    /// See [`Stream::identity_at_end`].
    pub(crate) fn identity_at_end(&self, opened: &Identity) -> Result<Option<Identity>> {
        self.stream.identity_at_end(opened)
    }

    /// Cuts off the next chunk: the whole records within `chunk_bytes` and `chunk_lines`, or one record that is longer.
    pub(crate) fn next(&mut self, pool: &Arc<Pool>, options: &Options) -> Result<Option<Cut>> {
        let (chunk_bytes, limit) = (options.chunk_bytes, options.record_limit());
        let mut buffer = pool.take();
        buffer.extend(&self.carry);
        self.carry.clear();
        let started = Instant::now();
        while buffer.len() < chunk_bytes && !self.ended {
            if !self.read_unless_paused(&mut buffer, chunk_bytes, options)? {
                return Ok(Some(self.cut_at_pause(buffer)));
            }
            // A stream that trickles without a pause would hold its first records back until the chunk is full.
            if options.pause.is_some_and(|pause| started.elapsed() >= pause)
                && buffer.len() < chunk_bytes
                && let Some(end) = self.boundary.last(buffer.filled())
            {
                return Ok(Some(self.cut(buffer, end)));
            }
        }
        if buffer.len() == 0 {
            return Ok(None);
        }
        let within = &buffer.filled()[..chunk_bytes.min(buffer.len())];
        if let Some(end) =
            after_line(within, options.chunk_lines).and_then(|end| self.boundary.last(&within[..end]))
        {
            return Ok(Some(self.cut(buffer, end)));
        }
        if buffer.len() < chunk_bytes {
            let end = buffer.len();
            return Ok(Some(self.cut(buffer, end)));
        }
        match self.boundary.last(&buffer.filled()[..chunk_bytes]) {
            Some(end) => Ok(Some(self.cut(buffer, end))),
            None => self.cut_long(buffer, limit).map(Some),
        }
    }

    /// Cuts off one record that is longer than a chunk.
    fn cut_long(&mut self, mut buffer: Buffer, limit: usize) -> Result<Cut> {
        let mut search = self.boundary.search();
        let mut searched = 0;
        loop {
            let end = search.feed(&buffer.filled()[searched..]).map(|end| searched + end);
            searched = buffer.len();
            let end = end.or(self.ended.then_some(searched));
            match end {
                Some(end) if end <= limit => return Ok(self.cut(buffer, end)),
                Some(end) => {
                    let consumed = self.cut(buffer, end).consumed;
                    return Ok(Cut { body: Body::TooLong { limit_bytes: limit }, consumed, paused: false });
                }
                None if searched > limit => break,
                // One byte past the limit tells a record that ends there from one that goes on.
                None => self.read(&mut buffer, (2 * searched).min(limit + 1))?,
            }
        }
        let mut consumed = 0;
        loop {
            consumed += self.pass(buffer.filled());
            buffer.truncate(0);
            if self.ended {
                break;
            }
            self.read(&mut buffer, limit.min(64 << 10))?;
            if let Some(end) = search.feed(buffer.filled()) {
                consumed += self.cut(buffer, end).consumed;
                break;
            }
        }
        Ok(Cut { body: Body::TooLong { limit_bytes: limit }, consumed, paused: false })
    }

    fn cut(&mut self, mut buffer: Buffer, end: usize) -> Cut {
        self.carry.extend_from_slice(&buffer.filled()[end..]);
        buffer.truncate(end);
        let consumed = self.pass(buffer.filled());
        Cut { body: Body::Text(buffer), consumed, paused: false }
    }

    /// The whole records that came, if any, while the stream has nothing more.
    fn cut_at_pause(&mut self, buffer: Buffer) -> Cut {
        self.resting = true;
        let end = self.boundary.last(buffer.filled()).unwrap_or(0);
        Cut { paused: true, ..self.cut(buffer, end) }
    }

    /// Reads as [`TextInput::read`]; false if nothing came for as long as the options wait.
    fn read_unless_paused(&mut self, buffer: &mut Buffer, target: usize, options: &Options) -> Result<bool> {
        let patience = options.pause.map(|pause| if self.resting { pause.max(RESTING) } else { pause });
        let Some(count) = self.stream.read_within(buffer.spare(target), patience)? else { return Ok(false) };
        buffer.advance(count);
        (self.ended, self.resting) = (count == 0, false);
        Ok(true)
    }

    /// Notes that `bytes` are behind us.
    fn pass(&mut self, bytes: &[u8]) -> u64 {
        self.offset += bytes.len() as u64;
        self.line += newlines(bytes);
        bytes.len() as u64
    }

    fn read(&mut self, buffer: &mut Buffer, target: usize) -> Result<()> {
        let count = self.stream.read(buffer.spare(target))?;
        buffer.advance(count);
        self.ended = count == 0;
        Ok(())
    }

    fn read_carry(&mut self, target: usize) -> Result<()> {
        let filled = self.carry.len();
        self.carry.resize(target.max(filled + 1), 0);
        let count = self.stream.read(&mut self.carry[filled..])?;
        self.carry.truncate(filled + count);
        self.ended = count == 0;
        Ok(())
    }

    fn drain(&mut self, count: usize) -> Vec<u8> {
        let rest = self.carry.split_off(count);
        let drained = std::mem::replace(&mut self.carry, rest);
        self.pass(&drained);
        drained
    }
}

/// The end of line `lines` where more lines follow.
fn after_line(bytes: &[u8], lines: usize) -> Option<usize> {
    if newlines(bytes) <= lines as u64 {
        return None;
    }
    memchr::memchr_iter(b'\n', bytes).nth(lines - 1).map(|newline| newline + 1)
}

pub(crate) fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
