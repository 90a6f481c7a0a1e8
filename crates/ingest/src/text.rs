//! Cuts a decompressed stream into chunks of whole records.
//!
//! 1. Where a chunk ends depends on the stream's bytes from the chunk's start on and on the options, on nothing
//!    else: so a resumed stream is cut as the first one was. That of a live stream also depends on when they came, but rows do not.
//! 2. Never more than the record limit is held, however long a record is: a longer one is an error.

use crate::boundary::{Boundary, Search};
use crate::chunk::{Buffer, Pool};
use crate::options::BYTES_MAX;
use crate::piece::Place;
use crate::position::Identity;
use crate::stream::Stream;
use crate::{Error, Options, Result};
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
    /// Newlines before the carry, or raw records.
    pub(crate) line: u64,
    pieces: Option<Pieces>,
    clock: Clock,
}

/// Where the carry starts, of sequences that come in pieces.
struct Pieces {
    overlap: usize,
    place: Arc<Place>,
}

/// What a live stream's cuts depend on beside its bytes.
struct Clock {
    /// When the last chunk was given out, and when bytes came last.
    given_at: Instant,
    moved_at: Instant,
    /// Whether the last cut was made because nothing more came, and nothing has come since.
    resting: bool,
    /// Whether it was said that a record longer than a chunk has begun.
    announced: bool,
}

/// What was cut off the stream.
pub(crate) struct Cut {
    pub(crate) body: Buffer,
    pub(crate) consumed: u64,
    /// See [`crate::Chunk::is_before_pause`].
    pub(crate) paused: bool,
    /// See [`crate::Chunk::since`].
    pub(crate) since: Instant,
}

const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// How long a stream is waited for that has paused already.
const RESTING: Duration = Duration::from_secs(1);
/// Chunks of a live stream that come in the time of a pause, at least. A row that must be out within a pause may then wait in the reader
/// for a quarter of it, and as long again for the next chunk, which leaves half to whoever collects rows.
const CHUNKS_A_PAUSE: u32 = 4;

impl TextInput {
    /// Starts to read `stream`, leaving out a byte order mark of text.
    pub(crate) fn new(stream: Stream, boundary: Boundary) -> Result<Self> {
        let now = stream.waiter().now();
        let clock = Clock { given_at: now, moved_at: now, resting: false, announced: false };
        let mut input = Self {
            stream,
            boundary,
            carry: Vec::new(),
            ended: false,
            offset: 0,
            line: 0,
            pieces: None,
            clock,
        };
        // A pipe that has three other bytes to say need not say them all before its first line is passed on.
        while boundary.is_text()
            && BYTE_ORDER_MARK.starts_with(&input.carry)
            && input.carry != BYTE_ORDER_MARK
            && !input.ended
        {
            input.read_carry(BYTE_ORDER_MARK.len())?;
        }
        if boundary.is_text() && input.carry.starts_with(BYTE_ORDER_MARK) {
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
                    // What was cut off is no header.
                    if let Some(failure) = self.stream.take_failure() {
                        return Err(failure);
                    }
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

    /// Cuts what follows into pieces of sequences from `place` on, where it stands.
    pub(crate) fn cut_pieces(&mut self, overlap: usize, place: Arc<Place>) {
        self.boundary = Boundary::Piece(place.at_line_start);
        self.pieces = Some(Pieces { overlap, place });
    }

    /// Where the next chunk starts, if it is of pieces of sequences.
    pub(crate) fn place(&self) -> Option<&Arc<Place>> {
        self.pieces.as_ref().map(|pieces| &pieces.place)
    }

    /// See [`Stream::identity_at_end`].
    pub(crate) fn identity_at_end(&self, opened: &Identity) -> Result<Option<Identity>> {
        self.stream.identity_at_end(opened)
    }

    /// Cuts off the next chunk: the whole records within `chunk_bytes` and `chunk_lines`, or one record that is longer.
    pub(crate) fn next(&mut self, pool: &Arc<Pool>, options: &Options) -> Result<Option<Cut>> {
        let cut = self.next_by_clock(pool, options)?;
        self.clock.given_at = match &cut {
            // Records that a full chunk left behind have waited as long as it has.
            Some(cut) if self.boundary.ends_in(&self.carry) => cut.since,
            _ => self.stream.waiter().now(),
        };
        Ok(cut)
    }

    fn next_by_clock(&mut self, pool: &Arc<Pool>, options: &Options) -> Result<Option<Cut>> {
        let (chunk_bytes, limit) = (options.chunk_bytes, options.record_limit());
        let pause = options.pause.filter(|_| self.stream.is_live());
        let mut buffer = pool.take();
        buffer.extend(&self.carry);
        self.carry.clear();
        let mut since = self.clock.given_at;
        let mut until = pause.map(|pause| {
            self.stream.waiter().now()
                + if self.clock.resting { pause.max(RESTING) } else { pause / CHUNKS_A_PAUSE }
        });
        while buffer.len() < chunk_bytes && !self.ended {
            match self.stream.read_until(buffer.spare(chunk_bytes), until) {
                Ok(Some(count)) => {
                    buffer.advance(count);
                    self.ended = count == 0;
                }
                Ok(None) => return Ok(Some(self.cut_by_time(buffer, pause, since))),
                // What came is passed on first: the next call fails as this one did.
                Err(Error::Interrupted { .. }) if self.boundary.last(buffer.filled()).is_some() => {
                    return Ok(Some(self.cut_by_time(buffer, pause, since)));
                }
                Err(error) => {
                    self.carry.extend_from_slice(buffer.filled());
                    return Err(error);
                }
            }
            let Some(pause) = pause else { continue };
            let now = self.stream.waiter().now();
            self.clock.moved_at = now;
            if self.clock.resting {
                self.clock.resting = false;
                (since, until) = (now, Some(now + pause / CHUNKS_A_PAUSE));
            }
            // A stream that trickles without a pause would hold its first records back until the chunk is full.
            if until.is_some_and(|until| now >= until) && buffer.len() < chunk_bytes && !self.ended {
                return Ok(Some(self.cut_by_time(buffer, Some(pause), since)));
            }
        }
        if buffer.len() == 0 {
            return Ok(None);
        }
        let within = &buffer.filled()[..chunk_bytes.min(buffer.len())];
        if let Some(end) = self
            .boundary
            .after_lines(within, options.chunk_lines)
            .and_then(|end| self.boundary.last(&within[..end]))
        {
            return Ok(Some(self.cut(buffer, end, since)));
        }
        if buffer.len() < chunk_bytes && self.boundary.is_text() {
            self.in_header()?;
            let end = buffer.len();
            return Ok(Some(self.cut(buffer, end, since)));
        }
        if let Some(end) = self.boundary.last(within) {
            return Ok(Some(self.cut(buffer, end, since)));
        }
        if pause.is_some() && !std::mem::replace(&mut self.clock.announced, true) {
            return Ok(Some(Cut { paused: true, ..self.cut(buffer, 0, since) }));
        }
        self.clock.announced = false;
        self.cut_long(buffer, limit, since).map(Some)
    }

    /// Cuts off one record that is longer than a chunk.
    fn cut_long(&mut self, mut buffer: Buffer, limit: usize, since: Instant) -> Result<Cut> {
        let mut search = self.boundary.search();
        let mut searched = 0;
        loop {
            let end = search.feed(&buffer.filled()[searched..]).map(|end| searched + end);
            searched = buffer.len();
            let is_at_end = self.ended && self.boundary.is_text();
            if is_at_end && end.is_none() {
                self.in_header()?;
            }
            match end.or(is_at_end.then_some(searched)) {
                Some(end) if end <= limit => return Ok(self.cut(buffer, end, since)),
                Some(end) => return Err(self.too_long(end as u64, true, limit)),
                None => {}
            }
            // What a record says of itself is believed before memory is asked for.
            if let Some(bytes) = search.least_bytes().filter(|bytes| *bytes > limit as u64) {
                return Err(self.too_long(bytes, false, limit));
            }
            if searched > limit {
                break;
            }
            if self.ended {
                return Err(self.cut_off(&buffer, &search));
            }
            // One byte past the limit tells a record that ends there from one that goes on.
            self.read(&mut buffer, (2 * searched).min(limit + 1))?;
        }
        // How long it is says how much memory it takes, up to where none would do.
        let mut bytes = searched;
        while !self.ended && bytes <= BYTES_MAX {
            buffer.truncate(0);
            self.read(&mut buffer, limit.min(64 << 10))?;
            if let Some(end) = search.feed(buffer.filled()) {
                return Err(self.too_long((bytes + end) as u64, true, limit));
            }
            bytes += buffer.len();
        }
        Err(self.too_long(bytes as u64, self.ended, limit))
    }

    /// What is wrong with a stream that ends within a record: what it failed by, if it did.
    fn cut_off(&mut self, buffer: &Buffer, search: &Search) -> Error {
        self.stream.take_failure().unwrap_or_else(|| Error::RecordCutOff {
            path: self.stream.path().to_path_buf(),
            record: self.line + 1,
            at: self.offset,
            bytes: buffer.len() as u64,
            needed_bytes: search.least_bytes().unwrap_or_default(),
        })
    }

    /// Of sequences in pieces only a header has no end in what came. One that was cut off is no header, and what follows it in the file,
    /// were it whole, no sequence.
    fn in_header(&mut self) -> Result<()> {
        match self.pieces {
            Some(_) => self.stream.take_failure().map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// What is wrong with an input whose header is longer than `limit_bytes`.
    pub(crate) fn header_too_long(&self, limit_bytes: usize) -> Error {
        self.too_long(self.carry.len() as u64, false, limit_bytes)
    }

    fn too_long(&self, bytes: u64, is_whole: bool, limit_bytes: usize) -> Error {
        Error::RowTooLong {
            path: self.stream.path().to_path_buf(),
            line: self.line + 1,
            at: self.offset,
            bytes,
            is_whole,
            is_quoted: matches!(self.boundary, Boundary::Unquoted(_)),
            limit_bytes,
        }
    }

    /// At the end of a stream that failed: a row that was cut off is none, and the failure follows the rows before it.
    pub(crate) fn settle(&mut self, mut cut: Option<Cut>) -> Result<Option<Cut>> {
        // Pieces before that place are whole, and the failure follows them as well.
        if !self.is_empty() || !self.stream.has_failure() || self.pieces.is_some() && cut.is_some() {
            return Ok(cut);
        }
        if let Some(Cut { body: buffer, .. }) = &mut cut {
            let end = self.boundary.last(buffer.filled()).unwrap_or(0);
            buffer.truncate(end);
            if end > 0 {
                return Ok(cut);
            }
        }
        self.stream.take_failure().map_or(Ok(None), Err)
    }

    fn cut(&mut self, mut buffer: Buffer, end: usize, since: Instant) -> Cut {
        self.carry.extend_from_slice(&buffer.filled()[end..]);
        buffer.truncate(end);
        let consumed = self.pass(buffer.filled());
        if let Some(Pieces { overlap, place }) = &mut self.pieces {
            *place = Arc::new(place.after(buffer.filled(), *overlap));
            self.boundary = Boundary::Piece(place.at_line_start);
        }
        Cut { body: buffer, consumed, paused: false, since }
    }

    /// The whole records that came, if any. The stream pauses if nothing came for long enough.
    fn cut_by_time(&mut self, buffer: Buffer, pause: Option<Duration>, since: Instant) -> Cut {
        let quiet = self.stream.waiter().now().duration_since(self.clock.moved_at);
        self.clock.resting = pause.is_some_and(|pause| quiet >= pause);
        let end = self.boundary.last(buffer.filled()).unwrap_or(0);
        Cut { paused: self.clock.resting, ..self.cut(buffer, end, since) }
    }

    /// Notes that `bytes` are behind us.
    fn pass(&mut self, bytes: &[u8]) -> u64 {
        self.offset += bytes.len() as u64;
        self.line += self.boundary.lines(bytes);
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
