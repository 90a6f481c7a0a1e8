//! The pace at which a capture is read: as fast as it goes, or so many times as fast as its packets came.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When packets are due.
pub(super) struct Pace {
    /// How many times as fast; `None` as fast as it goes.
    times: Option<f64>,
    call: Option<OwnedFd>,
    begun: Option<Begun>,
    input: Option<PathBuf>,
}

/// The time of a packet, by the capture and by the clock.
#[derive(Clone, Copy, Debug)]
struct Begun {
    time_ns: u64,
    at: Instant,
}

impl Pace {
    pub(super) fn new(times: Option<f64>, interrupt: &Interrupt) -> Result<Self, Failure> {
        Ok(Self { times, call: interrupt.call()?, begun: None, input: None })
    }

    /// What comes next is of this input: the time between the last packet of one and the first of the next is not waited for.
    pub(super) fn enter(&mut self, input: Option<&Path>) {
        if self.input.as_deref() != input {
            self.input = input.map(Path::to_path_buf);
            self.begun = None;
        }
    }

    /// How long it is until a packet of this time is due; `None` if it is.
    pub(super) fn until(&mut self, time_ns: u64, now: Instant) -> Option<Duration> {
        let times = self.times?;
        let begun = *self.begun.get_or_insert(Begun { time_ns, at: now });
        let after = Duration::from_nanos(time_ns.saturating_sub(begun.time_ns)).as_secs_f64() / times;
        let after = Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX);
        after.checked_sub(now.saturating_duration_since(begun.at)).filter(|left| !left.is_zero())
    }

    /// Waits so long, or until a signal arrives.
    pub(super) fn wait(&self, left: Duration) {
        let timeout = Timespec::try_from(left.min(Duration::from_secs(3600))).ok();
        let mut called = self.call.as_ref().map(|call| PollFd::new(call, PollFlags::IN));
        // Whatever wakes it, who waits looks again.
        let _ = poll(called.as_mut_slice(), timeout.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_by_their_own_times() {
        let now = Instant::now();
        let mut pace = Pace { times: Some(10.0), call: None, begun: None, input: None };
        pace.enter(Some(Path::new("a")));
        assert_eq!(pace.until(1_000_000_000, now), None, "the first sets the pace");
        assert_eq!(pace.until(3_000_000_000, now), Some(Duration::from_millis(200)));
        assert_eq!(
            pace.until(3_000_000_000, now + Duration::from_millis(150)),
            Some(Duration::from_millis(50))
        );
        assert_eq!(pace.until(3_000_000_000, now + Duration::from_millis(200)), None);
        assert_eq!(pace.until(5, now), None, "one that is out of order is late");
        assert!(pace.until(u64::MAX, now).is_some());
        pace.enter(Some(Path::new("b")));
        assert_eq!(pace.until(u64::MAX, now), None, "another input begins anew");
        let mut free = Pace { times: None, call: None, begun: None, input: None };
        assert_eq!(free.until(0, now).or(free.until(u64::MAX, now)), None);
    }
}
