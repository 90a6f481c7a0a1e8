//! How long rows wait to be asked for together: no longer than a pause or ten times what the last answer took, so that waiting costs at
//! most a tenth more than asking.

use super::pass::PAUSE;
use overbank_ingest::Waiter;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many times as long as an answer takes its rows may wait for it.
const PATIENCE: u32 = 10;
/// A shorter wait is not noticed.
const WAIT_LEAST: Duration = PAUSE;
/// An answer comes so long before its rows would have waited too long: twice the time until the next chunk of a live stream.
const AHEAD: Duration = PAUSE.checked_div(2).expect("two is not zero");

/// How long the first of the rows has waited, and how long an answer takes.
pub(in crate::commands) struct Patience {
    clock: Arc<dyn Waiter>,
    waiting_since: Instant,
    last_answer: Duration,
}

impl Patience {
    pub(in crate::commands) fn new(clock: Arc<dyn Waiter>) -> Self {
        let waiting_since = clock.now();
        Self { clock, waiting_since, last_answer: Duration::ZERO }
    }

    /// The first row to wait came at `since` at the earliest.
    pub(in crate::commands) fn begin(&mut self, since: Instant) {
        self.waiting_since = since;
    }

    /// Notes how long an answer takes.
    pub(in crate::commands) fn time<T>(&mut self, answer: impl FnOnce() -> T) -> T {
        let started = self.clock.now();
        let answer = answer();
        self.last_answer = self.clock.now().duration_since(started);
        answer
    }

    /// Whether rows that wait are to be answered now.
    pub(in crate::commands) fn is_over(&self) -> bool {
        self.clock.now() + AHEAD >= self.waiting_since + WAIT_LEAST.max(PATIENCE * self.last_answer)
    }
}
