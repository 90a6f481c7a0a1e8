//! The rows of a stream, each answered by the filter: is its key new?
//!
//! ```text
//!   chunk ─┬─ hashes ─▶ arrivals ─ full, paused or overdue: one sweep ─┐
//!          └─ rows ──▶ spool ──────────── read back in order ─────────┴▶ standard output
//! ```
//!
//! Invariants:
//! 1. Rows come out in the order in which they came; the answers do not depend on chunks, threads or memory.
//! 2. Keys that are asked for together cost less, in RAM and far less on flash. Rows wait no longer than [`Patience`] says. What a slow
//!    reader of the output takes is not counted.
//! 3. Rows without a key are no repeats: they come out in their place, and never of the inverted command.
//! 4. A commit is made when no row waits, behind the chunk that it names: what it remembers was printed before, or is owed.

use super::output::Output;
use super::owed;
use super::pass::Take;
use super::patience::Patience;
use super::scratch::Scratch;
use super::session::{Session, spool_bytes, waiting_bytes};
use super::spool::Spool;
use super::window::Panes;
use crate::announce;
use crate::commands::input::ParsedRows;
use crate::commands::losses::shown_input;
use crate::failure::Failure;
use crate::picture::RowCounts;
use crate::run_state::{FilterState, RunState};
use overbank::filter::cascade::Arrivals;
use overbank::pipeline::Rows as _;
use overbank::profile::KeyedRows as _;
use overbank_ingest::{Chunk, Position, Reader, Waiter};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    pace: Pace,
    /// Where the reader stood, until the first chunk comes: a run that fails before has changed nothing.
    starts_at: Option<Position>,
    pub(super) counts: RowCounts,
    committed_at: Instant,
    /// Whether something came that is not committed.
    has_news: bool,
    patience: Patience,
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
    /// A sieve with the shares of `memory_bytes` that its session left to it, which prints to `output`.
    pub(super) fn new(
        session: &'s Session,
        scratch: &'s Scratch,
        memory_bytes: u64,
        keeps_new: bool,
        numbers: bool,
        output: Output,
        pace: Pace,
    ) -> Result<Self, Failure> {
        let (now, patience) = (pace.clock.now(), Patience::new(Arc::clone(&pace.clock)));
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
            numbers,
            rows_before: resumed.map_or(0, |state| state.run.position.rows()),
            header,
            panes: Panes::new(session.window),
            keeps_new,
            pace,
            starts_at: None,
            counts: RowCounts::default(),
            committed_at: now,
            has_news: false,
            patience,
        })
    }

    /// Gets ready to print, and remembers where the output starts: what is printed before the next commit is cut off too.
    fn start(&mut self) -> Result<(), Failure> {
        let Some(position) = self.starts_at.take() else { return Ok(()) };
        self.output.start()?;
        if !self.output.is_parquet() {
            owed::pay(&self.session.store, |bytes| self.output.part(bytes))?;
        }
        if self.may_commit() { self.commit(&position, None) } else { Ok(()) }
    }

    /// The line that stands for row `ordinal` of the chunk at hand.
    fn number(&self, ordinal: u64) -> Vec<u8> {
        format!("{}\n", self.rows_before + ordinal + 1).into_bytes()
    }

    /// Passes a row without a key on, behind the rows that wait.
    fn keep(&mut self, row: &[u8]) -> Result<(), Failure> {
        match (self.keeps_new, self.arrivals.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => self.output.row(row),
            (true, false) => self.spool.push_certain(row, self.scratch),
        }
    }

    /// Asks for rows, pane by pane.
    fn take_rows(&mut self, rows: &ParsedRows, mut range: Range<usize>) -> Result<(), Failure> {
        while !range.is_empty() {
            let end = range.end.min(range.start.saturating_add(self.panes.room()));
            self.take_range(rows, range.start..end)?;
            if self.panes.pass_rows(end - range.start) {
                self.answer()?;
                self.session.filter().advance()?;
            }
            range.start = end;
        }
        Ok(())
    }

    /// Asks for rows of one pane.
    fn take_range(&mut self, rows: &ParsedRows, mut range: Range<usize>) -> Result<(), Failure> {
        while !range.is_empty() {
            if self.arrivals.is_empty() {
                self.patience.begin(rows.chunk().since());
            }
            let taken = self.arrivals.push(&rows.hashes()[range.clone()]);
            for row in range.start..range.start + taken {
                if self.numbers {
                    self.spool.push(&self.number(rows.ordinal(row)), self.scratch)?;
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
        let (arrivals, filter) = (&mut self.arrivals, self.session.filter());
        let answers = self.patience.time(|| arrivals.insert_if_absent(filter))?;
        let (keeps_new, counts, output) = (self.keeps_new, &mut self.counts, &mut self.output);
        counts.new += answers.iter().filter(|&&new| new).count() as u64;
        self.spool.replay(answers.iter().map(|&new| new == keeps_new), self.scratch, |row, is_certain| {
            counts.kept += u64::from(!is_certain);
            output.row(row)
        })?;
        self.output.flush()
    }

    fn is_overdue(&self) -> bool {
        !self.arrivals.is_empty() && self.patience.is_over()
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

    /// Whether a commit may come before the end: once rows are owed, the end is near and takes all of them; and Parquet is nothing
    /// before its end.
    fn may_commit(&self) -> bool {
        self.session.kept && !self.output.has_left() && !self.output.is_parquet()
    }

    /// Commits what stands behind `position`; `complete` says of a run that has ended whether its stream has too.
    fn commit(&mut self, position: &Position, complete: Option<bool>) -> Result<(), Failure> {
        self.output.flush()?;
        let is_all_out = !self.output.has_left();
        let output = self.output.mark(complete.is_some() && is_all_out)?;
        let owed = self.output.take_owed();
        let complete = complete == Some(true) && owed.is_none();
        if let Some(owed) = owed {
            owed::keep(&self.session.store, owed)?;
        }
        let run = RunState { complete, position: position.clone() };
        let state = FilterState { run, job: self.session.job, window: self.panes.window(), output };
        announce::at("committing");
        self.session.store.commit(&state.to_bytes())?;
        announce::at("committed");
        (self.committed_at, self.has_news) = (self.pace.clock.now(), false);
        Ok(())
    }

    fn tally(&mut self, rows: &ParsedRows, chunk: &Chunk) -> Result<(), Failure> {
        self.counts.rows += rows.hashes().len() as u64;
        let (malformed, missing) = rows.lost();
        (self.counts.malformed, self.counts.missing) =
            (self.counts.malformed + malformed, self.counts.missing + missing);
        self.counts.bytes += rows.bytes();
        self.pass_header(chunk.header(), &shown_input(chunk.input()))
    }
}

impl Take for Sieve<'_> {
    fn begin(&mut self, reader: &Reader) -> Result<(), Failure> {
        self.starts_at = Some(reader.position().clone().with_rows(self.rows_before));
        self.output.check(reader.inputs())?;
        // If a signal calls the output away from what is owed, no chunk may come behind it.
        if owed::is_owed(&self.session.store) { self.start() } else { Ok(()) }
    }

    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure> {
        let chunk = rows.chunk();
        let has_rows = !rows.hashes().is_empty() || rows.keyless().len() > 0;
        // A run that ends because it finds no row at all has changed nothing.
        if has_rows || chunk.header().is_some() {
            self.start()?;
        }
        if !self.numbers && !chunk.is_empty() && chunk.is_parquet() != self.output.is_parquet() {
            return Err(Failure::Usage(format!(
                "{} is {}Parquet, unlike the input before it, and one output cannot hold both; run it by itself, or ask for \
                 --row-numbers",
                shown_input(chunk.input()),
                if chunk.is_parquet() { "" } else { "not " }
            )));
        }
        self.tally(rows, chunk)?;
        for _ in 0..self.panes.pass_time() {
            self.answer()?;
            self.session.filter().advance()?;
        }
        let mut start = 0;
        for (before, ordinal, row) in rows.keyless() {
            self.take_rows(rows, start..before)?;
            if self.numbers {
                self.keep(&self.number(ordinal))?;
            } else {
                self.keep(row)?;
            }
            start = before;
        }
        self.take_rows(rows, start..rows.hashes().len())?;
        self.rows_before += rows.total();
        let is_nearly_full = self.arrivals.capacity() - self.arrivals.len() < rows.hashes().len();
        if chunk.is_before_pause() || is_nearly_full || self.is_overdue() {
            self.answer()?;
        }
        if self.arrivals.is_empty() {
            // A header has no answer to wait for.
            self.output.flush()?;
        }
        self.has_news |= has_rows;
        let since_commit = self.pace.clock.now().duration_since(self.committed_at);
        let is_due = self.may_commit() && self.has_news && since_commit >= self.pace.commit_every;
        if is_due && self.arrivals.is_empty() {
            self.commit(&rows.position()?.with_rows(self.rows_before), None)
        } else {
            Ok(())
        }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        if self.output.is_parquet() || self.starts_at.is_some() {
            return Ok(());
        }
        self.answer()?;
        self.output.flush()
    }

    fn end(&mut self, position: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        self.start()?;
        self.answer()?;
        if matches!(self.header, Header::Due) {
            // Tables without rows have no chunk that brings their header.
            self.pass_header(header, "the input")?;
        }
        if self.output.is_parquet() && !complete {
            return Ok(());
        }
        if complete {
            self.output.finish()?;
        } else {
            self.output.flush()?;
        }
        let position = position.clone().with_rows(self.rows_before);
        if self.session.kept { self.commit(&position, Some(complete)) } else { Ok(()) }
    }
}
