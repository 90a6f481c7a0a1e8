//! The rows of a stream, each answered by the filter: is its key new?
//!
//! ```text
//!   chunk ─┬─ hashes ─▶ arrivals ─ full, paused or overdue: one sweep ─┐
//!          └─ rows ──▶ spool ──────────── read back in order ─────────┴▶ standard output
//! ```
//!
//! Invariants:
//! 1. Rows come out in the order in which they came; the answers do not depend on chunks, threads or memory.
//! 2. Keys that are asked for together cost less, in RAM and far less on flash. Rows wait no longer than ten times what the last
//!    answer took, so that waiting costs at most a tenth more than asking.
//! 3. A commit is made when no row waits, behind the chunk that it names: what it remembers was printed before.

use super::output::Output;
use super::parquet::ParquetWanted;
use super::pass::Take;
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
use overbank_ingest::{Chunk, Position};
use std::ops::Range;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// How many times as long as an answer takes its rows may wait for it.
const PATIENCE: u32 = 10;
/// A shorter wait is not noticed.
const WAIT_LEAST: Duration = Duration::from_millis(100);

/// Prints the rows of a stream whose keys are new, or the others.
pub(super) struct Sieve<'s> {
    session: &'s Session,
    scratch: &'s Scratch,
    arrivals: Arrivals,
    spool: Spool,
    output: Output,
    /// Whether rows are printed by their numbers, and how many came before the chunk at hand.
    numbers: bool,
    rows_before: u64,
    header: Header,
    panes: Panes,
    keeps_new: bool,
    commit_every: Duration,
    pub(super) counts: RowCounts,
    committed_at: Instant,
    waiting_since: Instant,
    last_answer: Duration,
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
        commit_every: Duration,
        numbers: bool,
        parquet: Option<ParquetWanted>,
    ) -> Result<Self, Failure> {
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
            output: Output::open(resumed.map(|state| state.output), parquet)?,
            numbers,
            rows_before: resumed.map_or(0, |state| state.run.position.rows()),
            header,
            panes: Panes::new(session.window),
            keeps_new,
            commit_every,
            counts: RowCounts::default(),
            committed_at: Instant::now(),
            waiting_since: Instant::now(),
            last_answer: Duration::ZERO,
        })
    }

    /// Asks for rows of one pane.
    fn take_range(&mut self, rows: &ParsedRows, mut range: Range<usize>) -> Result<(), Failure> {
        while !range.is_empty() {
            if self.arrivals.is_empty() {
                self.waiting_since = Instant::now();
            }
            let taken = self.arrivals.push(&rows.hashes()[range.clone()]);
            for row in range.start..range.start + taken {
                if self.numbers {
                    let number = format!("{}\n", self.rows_before + rows.ordinal(row) + 1);
                    self.spool.push(number.as_bytes(), self.scratch)?;
                } else {
                    self.spool.push(rows.row(row), self.scratch)?;
                }
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
        let started = Instant::now();
        let mut filter: MutexGuard<'_, CascadeFilter> = self.session.filter();
        let answers = self.arrivals.insert_if_absent(&mut filter)?;
        let (keeps_new, counts, output) = (self.keeps_new, &mut self.counts, &mut self.output);
        counts.new += answers.iter().filter(|&&new| new).count() as u64;
        self.spool.replay(answers.iter().map(|&new| new == keeps_new), self.scratch, |row| {
            counts.kept += 1;
            output.row(row)
        })?;
        self.last_answer = started.elapsed();
        Ok(())
    }

    fn is_overdue(&self) -> bool {
        !self.arrivals.is_empty()
            && self.waiting_since.elapsed() > WAIT_LEAST.max(PATIENCE * self.last_answer)
    }

    /// Passes on the header of the first table; one output has one header.
    fn pass_header(&mut self, header: Option<&[u8]>, input: &str) -> Result<(), Failure> {
        let Some(header) = header.filter(|_| !self.numbers) else { return Ok(()) };
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

    fn commit(&mut self, position: &Position, complete: bool) -> Result<(), Failure> {
        let run = RunState { complete, position: position.clone().with_counts(self.rows_before, 0) };
        let state = FilterState { run, window: self.panes.window(), output: self.output.mark()? };
        self.session.store.commit(&state.to_bytes())?;
        self.committed_at = Instant::now();
        Ok(())
    }

    /// Whether the store is committed while rows come.
    fn commits(&self) -> bool {
        self.session.kept && !self.output.is_parquet()
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
        if self.commits() { self.commit(position, false) } else { Ok(()) }
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
        self.rows_before += rows.total();
        let is_nearly_full = self.arrivals.capacity() - self.arrivals.len() < rows.hashes().len();
        if chunk.is_before_pause() || is_nearly_full || self.is_overdue() {
            self.answer()?;
        }
        if chunk.is_before_pause() {
            self.output.flush()?;
        }
        let is_due =
            self.commits() && self.committed_at.elapsed() >= self.commit_every && !rows.hashes().is_empty();
        if is_due && self.arrivals.is_empty() { self.commit(chunk.position(), false) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        if self.output.is_parquet() {
            return Ok(());
        }
        self.answer()?;
        self.output.flush()
    }

    fn end(&mut self, position: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        self.answer()?;
        if matches!(self.header, Header::Due) {
            // Tables without rows have no chunk that brings their header.
            self.pass_header(header, "the input")?;
        }
        if self.output.is_parquet() && !complete {
            return Ok(());
        }
        self.output.finish()?;
        if self.session.kept { self.commit(position, complete) } else { Ok(()) }
    }
}
