//! The time while what was loaded becomes one run: how far that is, and a signal that need not wait for it.

use crate::announce;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::process;
use crate::progress::Progress;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is looked.
const PERIOD: Duration = Duration::from_millis(50);

/// Shows progress until it is ended, and ends the process at a signal: the store is then as at its last commit.
pub(super) struct Merging {
    is_over: Arc<Mutex<bool>>,
}

impl Merging {
    /// What is merged takes `bytes` on flash, and `is_kept` says whether a commit has it.
    pub(super) fn start(interrupt: &Interrupt, is_kept: bool, bytes: u64, quiet: bool) -> Self {
        let is_over = Arc::new(Mutex::new(false));
        let (watched, interrupt) = (Arc::clone(&is_over), interrupt.clone());
        let progress = Progress::start(Some(bytes), quiet);
        let before = process::written_bytes();
        let watch = move || {
            loop {
                // Held to the end of the process: nothing is committed any more.
                let is_over = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_over {
                    return;
                }
                if interrupt.is_raised() {
                    drop(progress);
                    give_up(is_kept);
                }
                drop(is_over);
                progress.update((process::written_bytes() - before).min(bytes));
                std::thread::sleep(PERIOD);
            }
        };
        // Where the system gives no thread, the second signal ends the process.
        let _ = std::thread::Builder::new().name("merging".to_owned()).spawn(watch);
        announce::at("merging");
        Self { is_over }
    }

    /// From here on, a signal comes too late.
    pub(super) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        self.end();
    }
}

fn give_up(is_kept: bool) -> ! {
    let failure = Failure::Interrupted(if is_kept {
        "interrupted; all rows are kept, and wait to be merged: run the same command with --resume to go on"
            .to_owned()
    } else {
        "interrupted; nothing is kept of a build with --duplicates error: run the same command again"
            .to_owned()
    });
    failure.say();
    std::process::exit(failure.exit_code().into());
}
