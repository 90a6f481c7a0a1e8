//! Time, for threads that pace themselves.

use std::time::{Duration, Instant};

/// What a thread reads the time from, and rests by. The tests have one that passes when told.
pub(crate) trait Clock {
    /// Nanoseconds that do not go back.
    fn now_ns(&self) -> u64;

    /// For how long this thread has worked, in nanoseconds of a core; `None` where the system does not say.
    fn busy_ns(&self) -> Option<u64>;

    /// Lets so many nanoseconds pass, or fewer if somebody unparks this thread.
    fn rest(&self, ns: u64);
}

/// The system's.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }

    #[cfg(target_os = "linux")]
    fn busy_ns(&self) -> Option<u64> {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()?.as_nanos().try_into().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn busy_ns(&self) -> Option<u64> {
        None
    }

    fn rest(&self, ns: u64) {
        std::thread::park_timeout(Duration::from_nanos(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let clock = SystemClock::new();
        let (now_ns, busy_ns) = (clock.now_ns(), clock.busy_ns());
        clock.rest(1);
        assert!(clock.now_ns() >= now_ns && clock.busy_ns() >= busy_ns);
        assert_eq!(busy_ns.is_some(), cfg!(target_os = "linux"));
    }
}
