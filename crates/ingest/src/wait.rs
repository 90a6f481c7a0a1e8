//! What a reader waits by: the clock, and the wait for an input's next bytes.
//!
//! Everything that a reader does by time goes through [`Waiter`], so a test can put its own clock there and needs no sleep.

use crate::system::InputHandle;
#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(unix)]
use rustix::io::Errno;
use std::fmt::Debug;
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The time, and the wait for an input.
pub trait Waiter: Debug + Send + Sync {
    /// What time it is.
    fn now(&self) -> Instant;

    /// Waits until `input` can be read without waiting, the reader is called away, or it is `until`. Of several that are true,
    /// the call comes first and the time last.
    ///
    /// # Errors
    /// What the operating system says.
    fn wait(&self, input: InputHandle<'_>, until: Option<Instant>) -> io::Result<Wake>;
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The input has something, its end or an error.
    Input,
    /// It is time.
    Time,
    /// The reader is called away: it ends with [`crate::Error::Interrupted`].
    Call,
}

/// Waits by the system's clock, and may be called away. On Windows, which has no one call to wait for any input, it does not wait: a
/// read then takes as long as the input does, and pauses are not seen.
#[derive(Debug, Default)]
pub struct SystemWaiter {
    #[cfg(unix)]
    call: Option<OwnedFd>,
}

#[cfg(unix)]
impl SystemWaiter {
    /// A waiter that is called away for good once `call` can be read, or its other end is closed.
    pub fn with_call(call: OwnedFd) -> Self {
        Self { call: Some(call) }
    }
}

impl Waiter for SystemWaiter {
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[cfg(not(unix))]
    fn wait(&self, _: InputHandle<'_>, _: Option<Instant>) -> io::Result<Wake> {
        Ok(Wake::Input)
    }

    #[cfg(unix)]
    fn wait(&self, input: InputHandle<'_>, until: Option<Instant>) -> io::Result<Wake> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout =
                left.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
            // Without a call, the input is looked at twice.
            let call = self.call.as_ref().map_or(input, AsFd::as_fd);
            let mut looked_at = [
                PollFd::from_borrowed_fd(input, PollFlags::IN),
                PollFd::from_borrowed_fd(call, PollFlags::IN),
            ];
            match poll(&mut looked_at, timeout.as_ref()) {
                Ok(0) => return Ok(Wake::Time),
                Ok(_) if self.call.is_some() && !looked_at[1].revents().is_empty() => return Ok(Wake::Call),
                // What is wrong with the input, reading it will tell.
                Ok(_) => return Ok(Wake::Input),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
