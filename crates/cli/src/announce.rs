//! Points of a run that the process announces to a test, and where it waits: a test ends it exactly there, however fast the
//! machine is.
//!
//! `OVERBANK_ANNOUNCE` names a Unix socket on which a test listens. At each point the process writes a line and reads one byte.
//! Without the variable, and once nobody listens any more, it goes on at once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock, PoisonError};

static LISTENER: OnceLock<Option<Mutex<UnixStream>>> = OnceLock::new();

/// Announces `point`, and goes on once it may.
pub(crate) fn at(point: &str) {
    let listener = LISTENER.get_or_init(|| {
        let socket = std::env::var_os("OVERBANK_ANNOUNCE")?;
        UnixStream::connect(socket).ok().map(Mutex::new)
    });
    let Some(listener) = listener else { return };
    let mut stream = listener.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever does not listen any more wants no answer.
    let _ = stream.write_all(format!("{point}\n").as_bytes()).and_then(|()| stream.read_exact(&mut [0]));
}
