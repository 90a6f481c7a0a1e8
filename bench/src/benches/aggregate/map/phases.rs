//! What parts of a map's work take, by samples: a clock around each of them in every row would take longer than most of them do.

use crate::Metric;
use std::time::{Duration, Instant};

/// Of so many rows one is timed.
const ROWS_A_SAMPLE: u32 = 64;
/// How often the clock is read to find out what that takes.
const CLOCK_READS: u32 = 1000;

/// Times of the parts. Each row may be in several.
pub(super) struct Phases {
    /// What reading the clock takes.
    clock: Duration,
    rows_left: u32,
    sampled: [(Metric, Duration); 3],
    /// Every time is in it.
    resize: Duration,
}

/// A part of which one row in some is timed.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    /// Hashing, probing and comparing of keys, and counting once more.
    Find,
    /// A key's copy.
    Key,
    /// Its place in the map.
    Place,
}

impl Phases {
    pub(super) fn new() -> Self {
        let began = Instant::now();
        let last = (0..CLOCK_READS).fold(began, |_, _| Instant::now());
        Self {
            clock: (last - began) / CLOCK_READS,
            rows_left: ROWS_A_SAMPLE,
            sampled: [Metric::FindNs, Metric::KeyNs, Metric::PlaceNs].map(|metric| (metric, Duration::ZERO)),
            resize: Duration::ZERO,
        }
    }

    /// Begins a row; whether it is timed.
    #[inline]
    pub(super) fn begin_row(&mut self) -> bool {
        self.rows_left -= 1;
        let is_timed = self.rows_left == 0;
        if is_timed {
            self.rows_left = ROWS_A_SAMPLE;
        }
        is_timed
    }

    /// Does a part of a row.
    #[inline(always)]
    pub(super) fn time<T>(&mut self, is_timed: bool, phase: Phase, work: impl FnOnce() -> T) -> T {
        if !is_timed {
            return work();
        }
        let began = Instant::now();
        let result = work();
        self.sampled[phase as usize].1 += began.elapsed().saturating_sub(self.clock);
        result
    }

    /// Makes the map larger.
    pub(super) fn time_resize<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.resize += began.elapsed();
        result
    }

    /// Each part with its nanoseconds, of all rows.
    pub(super) fn breakdown(&self) -> Vec<(Metric, u64)> {
        let rows = u64::from(ROWS_A_SAMPLE);
        let sampled =
            self.sampled.iter().map(|&(metric, time)| (metric, nanoseconds(time).saturating_mul(rows)));
        sampled.chain([(Metric::ResizeNs, nanoseconds(self.resize))]).collect()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_in_some_is_timed_and_stands_for_all() {
        let mut phases = Phases::new();
        let timed = (0..10 * ROWS_A_SAMPLE).filter(|_| phases.begin_row()).count();
        assert_eq!(timed, 10);
        phases.clock = Duration::ZERO;
        phases.sampled[Phase::Place as usize].1 = Duration::from_nanos(7);
        phases.resize = Duration::from_nanos(5);
        let parts = phases.breakdown();
        let of = |metric| parts.iter().find(|part| part.0 == metric).map(|part| part.1);
        assert_eq!((of(Metric::PlaceNs), of(Metric::FindNs)), (Some(7 * u64::from(ROWS_A_SAMPLE)), Some(0)));
        assert_eq!(of(Metric::ResizeNs), Some(5));
    }

    #[test]
    fn what_is_not_timed_is_done_all_the_same() {
        let mut phases = Phases::new();
        let mut done = 0;
        for is_timed in [false, true] {
            phases.time(is_timed, Phase::Find, || done += 1);
        }
        phases.time_resize(|| done += 1);
        assert_eq!(done, 3);
    }
}
