//! Ctrl-C and termination: the first asks for a clean stop at the next chunk, the second ends at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a command that keeps nothing may take for its clean stop.
const GRACE: Duration = Duration::from_secs(2);
/// The exit code after an interrupt, as a shell expects it.
const EXIT_CODE: i32 = 130;

/// A flag that the signal handlers raise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    keeps_nothing: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs the handlers of SIGINT and SIGTERM. A second signal exits with 130 at once: the store
    /// then holds the last commit, as after any crash.
    pub(crate) fn install() -> io::Result<Self> {
        let interrupt = Self::default();
        // A handler may do little; it wakes a thread that may do all.
        let (bell, ear) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.raised))?;
            signal_hook::low_level::pipe::register(signal, bell.try_clone()?)?;
        }
        let watched = interrupt.clone();
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || watched.watch(ear))?;
        Ok(interrupt)
    }

    /// Whether a signal has arrived.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The command keeps nothing: a signal that it does not heed soon ends it without a second one.
    pub(crate) fn keeps_nothing(&self) {
        self.keeps_nothing.store(true, Ordering::Relaxed);
    }

    fn watch(&self, mut ear: UnixStream) {
        let mut rung = [0];
        if ear.read_exact(&mut rung).is_err() {
            return;
        }
        let keeps_nothing = self.keeps_nothing.load(Ordering::Relaxed);
        // A pipe between two ends of one process cannot refuse a timeout.
        let _ = ear.set_read_timeout(keeps_nothing.then_some(GRACE));
        let second = ear.read_exact(&mut rung);
        if second.is_err() {
            let _ = writeln!(io::stderr(), "overbank: interrupted; nothing is kept without --store");
        }
        std::process::exit(EXIT_CODE);
    }
}
