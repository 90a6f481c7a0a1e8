//! The keys of a stream, put into the filter or taken out of it; nothing is printed.

use super::pass::Take;
use super::session::{Session, waiting_bytes};
use crate::announce;
use crate::commands::input::ParsedRows;
use crate::failure::Failure;
use crate::picture::RowCounts;
use crate::run_state::{FilterState, Mark, RunState};
use overbank::KeyHash;
use overbank::pipeline::Rows as _;
use overbank::profile::KeyedRows as _;
use overbank_ingest::{Position, Reader, Waiter};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What becomes of the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Each goes in as often as it comes.
    Insert,
    /// Each that is there goes out.
    Remove,
}

/// Puts keys in or takes them out.
pub(super) struct Keys<'s> {
    session: &'s Session,
    act: Act,
    /// Keys that go out together: they are looked for first, which on flash is far cheaper in bulk.
    waiting: Vec<KeyHash>,
    waiting_max: usize,
    commit_every: Duration,
    committed_at: Instant,
    /// Whether something came that is not committed.
    has_news: bool,
    clock: Arc<dyn Waiter>,
    pub(super) counts: RowCounts,
    /// Keys that went in or out.
    pub(super) changed: u64,
}

impl<'s> Keys<'s> {
    pub(super) fn new(
        session: &'s Session,
        act: Act,
        memory_bytes: u64,
        commit_every: Duration,
        clock: Arc<dyn Waiter>,
    ) -> Self {
        // Half the share: looking keys up sorts a copy of them.
        let waiting_max = waiting_bytes(memory_bytes) / 2 / size_of::<KeyHash>();
        let (waiting, committed_at) = (Vec::new(), clock.now());
        Self {
            session,
            act,
            waiting,
            waiting_max,
            commit_every,
            committed_at,
            has_news: false,
            clock,
            counts: RowCounts::default(),
            changed: 0,
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if !self.waiting.is_empty() {
            let found = self.session.filter().remove_if_present(&self.waiting)?;
            self.changed += found.iter().filter(|&&found| found).count() as u64;
            self.waiting.clear();
        }
        Ok(())
    }

    fn commit(&mut self, position: &Position, complete: bool) -> Result<(), Failure> {
        self.settle()?;
        let run = RunState { complete, position: position.clone() };
        let (job, window) = (self.session.job, self.session.window);
        let state = FilterState { run, job, window, output: Mark::default() };
        announce::at("committing");
        self.session.store.commit(&state.to_bytes())?;
        announce::at("committed");
        (self.committed_at, self.has_news) = (self.clock.now(), false);
        Ok(())
    }
}

impl Take for Keys<'_> {
    fn begin(&mut self, _: &Reader) -> Result<(), Failure> {
        Ok(())
    }

    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure> {
        let hashes = rows.hashes();
        self.counts.rows += hashes.len() as u64;
        let (malformed, missing) = rows.lost();
        (self.counts.malformed, self.counts.missing) =
            (self.counts.malformed + malformed, self.counts.missing + missing);
        self.counts.bytes += rows.bytes();
        match self.act {
            Act::Insert => {
                self.session.filter().insert(hashes)?;
                self.changed += hashes.len() as u64;
            }
            Act::Remove => {
                if self.waiting.len() + hashes.len() > self.waiting_max {
                    self.settle()?;
                }
                self.waiting.extend_from_slice(hashes);
            }
        }
        self.has_news |= !hashes.is_empty();
        let is_due = self.has_news && self.clock.now().duration_since(self.committed_at) >= self.commit_every;
        if is_due { self.commit(&rows.position()?, false) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn end(&mut self, position: &Position, _: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        self.commit(position, complete)
    }
}
