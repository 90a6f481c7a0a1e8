//! Whose turn it is with a profile: that of a pass, for as many chunks as nobody waits for, or that of who waits.
//!
//! ```text
//!   pass A   ▒▒▒ chunks ▒▒▒│          │▒▒▒▒▒▒▒▒│     │▒▒▒▒▒▒
//!   pass B               arrives ─────▶▒▒▒▒▒▒▒▒▒     ▶
//!   question                            arrives ─────▶
//! ```
//!
//! 1. A pass that somebody waits for takes no further chunk, once it has taken one, and goes on when all have had their turn that waited
//!    when it stopped. So nobody waits for a stream's end, and a pass stops for no stream of questions.
//! 2. Whoever waits while it is called by a pass would wait for itself: it is refused ([`Caller`](crate::store::Caller)).

use crate::lock::{lock, wait_while};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

/// The turns of one profile.
#[derive(Debug, Default)]
pub(super) struct Turns {
    line: Mutex<Line>,
    served: Condvar,
    /// Somebody has arrived and has not been served.
    is_wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Line {
    arrived: u64,
    served: u64,
}

impl Turns {
    /// Waits in line for what `take` takes.
    pub(super) fn wait_for<T>(&self, take: impl FnOnce() -> T) -> T {
        let mut line = lock(&self.line);
        line.arrived += 1;
        self.is_wanted.store(true, Ordering::Relaxed);
        drop(line);
        let taken = take();
        let mut line = lock(&self.line);
        line.served += 1;
        self.is_wanted.store(line.served < line.arrived, Ordering::Relaxed);
        drop(line);
        self.served.notify_all();
        taken
    }

    /// Waits until as many have been served as have arrived by now.
    pub(super) fn let_others(&self) {
        let line = lock(&self.line);
        let arrived = line.arrived;
        drop(wait_while(&self.served, line, |line| line.served < arrived));
    }

    /// Whether somebody waits.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }
}
