//! Ctrl-C, termination and hang-up: the first asks for a clean stop wherever the command waits, the second ends at once.

use crate::{process, screen};
use overbank_ingest::SystemWaiter;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a command that keeps nothing may take for its clean stop.
const GRACE: Duration = Duration::from_secs(1);
/// The exit code after an interrupt, as a shell expects it.
const EXIT_CODE: i32 = 130;

/// A flag that the signal handlers raise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    /// Its other end, `caller`, is closed when the first signal comes, which ends every wait for it.
    call: Option<Arc<UnixStream>>,
    caller: Arc<Mutex<Option<UnixStream>>>,
    keeps_nothing: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs the handlers of SIGINT, SIGTERM and SIGHUP, but none for what the process was started to ignore, as `nohup` does. A second
    /// signal exits with 130 at once: the store then holds the last commit, as after any crash.
    pub(crate) fn install() -> io::Result<Self> {
        let (caller, call) = UnixStream::pair()?;
        let (call, caller) = (Some(Arc::new(call)), Arc::new(Mutex::new(Some(caller))));
        let interrupt = Self { call, caller, ..Self::default() };
        // A handler may do little; it wakes a thread that may do all.
        let (bell, ear) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !process::ignores(signal)) {
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

    /// What can be read, or is closed at its other end, once a signal has arrived; for those that wait for something else too.
    pub(crate) fn call(&self) -> io::Result<Option<OwnedFd>> {
        self.call.as_ref().map(|call| Ok(call.try_clone()?.into())).transpose()
    }

    /// The clock and the wait of a reader that a signal calls away.
    pub(crate) fn waiter(&self) -> io::Result<SystemWaiter> {
        Ok(self.call()?.map_or_else(SystemWaiter::default, SystemWaiter::with_call))
    }

    /// The command keeps nothing: a signal that it does not heed soon ends it without a second one.
    pub(crate) fn keeps_nothing(&self) {
        self.keeps_nothing.store(true, Ordering::Relaxed);
    }

    /// Asks for a clean stop as a signal does.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
        self.caller.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn watch(&self, mut ear: UnixStream) {
        let mut rung = [0];
        if ear.read_exact(&mut rung).is_err() {
            return;
        }
        self.raise();
        let keeps_nothing = self.keeps_nothing.load(Ordering::Relaxed);
        // A pipe between two ends of one process cannot refuse a timeout.
        let _ = ear.set_read_timeout(keeps_nothing.then_some(GRACE));
        let second = ear.read_exact(&mut rung);
        if second.is_err() {
            let _ = writeln!(io::stderr(), "overbank: interrupted; nothing is kept without --store");
        }
        screen::restore();
        std::process::exit(EXIT_CODE);
    }
}
