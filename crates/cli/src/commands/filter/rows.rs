//! The rows of a stream, each answered by the filter: is its key new?
//!
//! ```text
//!   chunk ─┬─ hashes ─▶ arrivals ─ full, paused or overdue: one sweep ─┐
//!          └─ rows ──▶ spool ──────────── read back in order ─────────┴▶ standard output
//! ```
//!
//! Invariants:
//! 1. Rows come out in the order in which they came; the answers do not depend on chunks, threads or memory.
//! 2. Keys that are asked for together cost less, in RAM and far less on flash. Rows wait no longer than a pause or ten times what the last
//!    answer took, so that waiting costs at most a tenth more than asking. What a slow reader of the output takes is not counted.
//! 3. A commit is made when no row waits, behind the chunk that it names: what it remembers was printed before, or is owed.

use super::output::Output;
use super::owed;
use super::pass::{PAUSE, Take};
use super::scratch::Scratch;
use super::session::{Session, spool_bytes, waiting_bytes};
use super::spool::Spool;
use super::window::Panes;
use crate::commands::input::{ParsedRows, shown_input};
use crate::failure::Failure;
use crate::picture::RowCounts;
use crate::run_state::{FilterState, RunState};
use overbank::filter::cascade::{Arrivals, CascadeFilter};
use overbank::profile::{KeyedRows as _, Rows as _};
use overbank_ingest::{Chunk, Position, Waiter};
use std::ops::Range;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// How many times as long as an answer takes its rows may wait for it.
const PATIENCE: u32 = 10;
/// A shorter wait is not noticed.
const WAIT_LEAST: Duration = PAUSE;
/// An answer comes so long before its rows would have waited too long: twice the time until the next chunk of a live stream.
const AHEAD: Duration = PAUSE.checked_div(2).expect("two is not zero");

/// Prints the rows of a stream whose keys are new, or the others.
pub(super) struct Sieve<'s> {
    session: &'s Session,
    scratch: &'s Scratch,
    arrivals: Arrivals,
    spool: Spool,
    output: Output,
    header: Header,
    panes: Panes,
    keeps_new: bool,
    pace: Pace,
    pub(super) counts: RowCounts,
    committed_at: Instant,
    /// Whether something came that is not committed.
    has_news: bool,
    waiting_since: Instant,
    last_answer: Duration,
}

/// What a sieve does by time.
pub(super) struct Pace {
    pub(super) commit_every: Duration,
    pub(super) clock: Arc<dyn Waiter>,
}

/// The header row of tables.
enum Header {
    /// The first one is still to come.
    Due,
    /// It was printed by the run that this one goes on with.
    Printed,
    /// This one stands for all.
    Is(Vec<u8>),
}

impl<'s> Sieve<'s> {
    /// A sieve with the shares of `memory_bytes` that its session left to it.
    pub(super) fn new(
        session: &'s Session,
        scratch: &'s Scratch,
        memory_bytes: u64,
        keeps_new: bool,
        output: Output,
        pace: Pace,
    ) -> Result<Self, Failure> {
        let now = pace.clock.now();
        let resumed = session.resumed.as_ref();
        let header = if resumed.is_some_and(|state| state.run.position.chunks() > 0) {
            Header::Printed
        } else {
            Header::Due
        };
        Ok(Self {
            session,
            scratch,
            arrivals: Arrivals::new(waiting_bytes(memory_bytes))?,
            spool: Spool::new(spool_bytes(memory_bytes)),
            output,
            header,
            panes: Panes::new(session.window),
            keeps_new,
            pace,
            counts: RowCounts::default(),
            committed_at: now,
            has_news: false,
            waiting_since: now,
            last_answer: Duration::ZERO,
        })
    }

    /// Asks for rows of one pane.
    fn take_range(&mut self, rows: &ParsedRows, mut range: Range<usize>) -> Result<(), Failure> {
        while !range.is_empty() {
            if self.arrivals.is_empty() {
                self.waiting_since = rows.chunk().since();
            }
            let taken = self.arrivals.push(&rows.hashes()[range.clone()]);
            for row in range.start..range.start + taken {
                self.spool.push(rows.row(row), self.scratch)?;
            }
            range.start += taken;
            if self.arrivals.is_full() {
                self.answer()?;
            }
        }
        Ok(())
    }

    /// Prints those of the rows that wait.
    fn answer(&mut self) -> Result<(), Failure> {
        if self.arrivals.is_empty() {
            return Ok(());
        }
        let started = self.pace.clock.now();
        let mut filter: MutexGuard<'_, CascadeFilter> = self.session.filter();
        let answers = self.arrivals.insert_if_absent(&mut filter)?;
        self.last_answer = self.pace.clock.now().duration_since(started);
        let (keeps_new, counts, output) = (self.keeps_new, &mut self.counts, &mut self.output);
        counts.new += answers.iter().filter(|&&new| new).count() as u64;
        self.spool.replay(answers.iter().map(|&new| new == keeps_new), self.scratch, |row| {
            counts.kept += 1;
            output.row(row)
        })?;
        self.output.flush()
    }

    fn is_overdue(&self) -> bool {
        !self.arrivals.is_empty()
            && self.pace.clock.now() + AHEAD
                >= self.waiting_since + WAIT_LEAST.max(PATIENCE * self.last_answer)
    }

    /// Passes on the header of the first table; one output has one header.
    fn pass_header(&mut self, header: Option<&[u8]>, input: &str) -> Result<(), Failure> {
        let Some(header) = header else { return Ok(()) };
        match &self.header {
            Header::Is(first) if first.trim_ascii_end() == header.trim_ascii_end() => return Ok(()),
            Header::Is(_) => {
                return Err(Failure::Usage(format!(
                    "{input} has another header row than the input before it, and one output cannot have both; run it by itself"
                )));
            }
            Header::Due => self.output.row(header)?,
            Header::Printed => {}
        }
        self.header = Header::Is(header.to_owned());
        Ok(())
    }

    /// Whether a commit may come before the end: once rows are owed, the end is near and takes all of them.
    fn may_commit(&self) -> bool {
        self.session.kept && !self.output.has_left()
    }

    fn commit(&mut self, position: &Position, complete: bool) -> Result<(), Failure> {
        let output = self.output.mark()?;
        let owed = self.output.take_owed();
        let run = RunState { complete: complete && owed.is_none(), position: position.clone() };
        if let Some(owed) = owed {
            owed::keep(&self.session.store, owed)?;
        }
        let state = FilterState { run, window: self.panes.window(), output };
        self.session.store.commit(&state.to_bytes())?;
        (self.committed_at, self.has_news) = (self.pace.clock.now(), false);
        Ok(())
    }

    fn tally(&mut self, rows: &ParsedRows, chunk: &Chunk) -> Result<(), Failure> {
        self.counts.rows += rows.hashes().len() as u64;
        self.counts.skipped += rows.skipped();
        self.counts.bytes += rows.bytes();
        self.pass_header(chunk.header(), &shown_input(chunk.input()))
    }
}

impl Take for Sieve<'_> {
    /// Remembers where the output starts: what is printed before the first commit is cut off too.
    fn begin(&mut self, position: &Position) -> Result<(), Failure> {
        owed::pay(&self.session.store, |bytes| self.output.part(bytes))?;
        if self.may_commit() { self.commit(position, false) } else { Ok(()) }
    }

    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure> {
        let chunk = rows.chunk();
        self.tally(rows, chunk)?;
        for _ in 0..self.panes.pass_time() {
            self.answer()?;
            self.session.filter().advance()?;
        }
        let mut range = 0..rows.hashes().len();
        while !range.is_empty() {
            let end = range.end.min(range.start + self.panes.room());
            self.take_range(rows, range.start..end)?;
            if self.panes.pass_rows(end - range.start) {
                self.answer()?;
                self.session.filter().advance()?;
            }
            range.start = end;
        }
        let is_nearly_full = self.arrivals.capacity() - self.arrivals.len() < rows.hashes().len();
        if chunk.is_before_pause() || is_nearly_full || self.is_overdue() {
            self.answer()?;
        }
        if self.arrivals.is_empty() {
            // A header has no answer to wait for.
            self.output.flush()?;
        }
        self.has_news |= !rows.hashes().is_empty();
        let since_commit = self.pace.clock.now().duration_since(self.committed_at);
        let is_due = self.may_commit() && self.has_news && since_commit >= self.pace.commit_every;
        if is_due && self.arrivals.is_empty() { self.commit(chunk.position(), false) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        self.answer()?;
        self.output.flush()
    }

    fn end(&mut self, position: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        self.answer()?;
        if matches!(self.header, Header::Due) {
            // Tables without rows have no chunk that brings their header.
            self.pass_header(header, "the input")?;
        }
        self.output.flush()?;
        if self.session.kept { self.commit(position, complete) } else { Ok(()) }
    }
}
