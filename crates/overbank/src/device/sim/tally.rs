//! How many crash states a test explores: as many as its own workloads have, or more where a long run asks for more.
//!
//! `OVERBANK_CRASH_STATES` is the least number of states that each exploration is to see: beyond its own workloads it then goes on with
//! further ones. `cargo xtask crash` sets it, reads the line that each exploration prints, and adds up.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The states that an exploration has seen.
#[derive(Default, Debug)]
pub struct Tally {
    states: AtomicU64,
    least: u64,
}

impl Tally {
    /// None yet.
    pub fn new() -> Self {
        let least = std::env::var("OVERBANK_CRASH_STATES").ok().and_then(|least| least.parse().ok());
        Tally { states: AtomicU64::new(0), least: least.unwrap_or(0) }
    }

    /// Adds states that were seen.
    pub fn add(&self, states: u64) {
        self.states.fetch_add(states, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn states(&self) -> u64 {
        self.states.load(Ordering::Relaxed)
    }

    /// The workloads of the test, and then further ones while there are fewer states than a long run asks for.
    pub fn workloads(&self, own: Range<u64>) -> impl Iterator<Item = u64> {
        let end = own.end;
        own.chain((end..).take_while(|_| self.states() < self.least))
    }

    /// Says how many there were, for whoever adds them up; returns the number.
    pub fn tell(&self) -> u64 {
        let thread = std::thread::current();
        println!("crash states: {} in {}", self.states(), thread.name().unwrap_or("a test"));
        self.states()
    }
}
