//! What one sample costs: wall time, CPU time of all threads, latencies of single operations.
//!
//! Only what runs inside [`Clock::time`] or [`Clock::lap`] counts; a sample prepares its input and digests
//! its answer outside.

use crate::Metric;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::time::Instant;

/// Measures the sections of one sample.
#[derive(Debug, Default)]
pub struct Clock {
    wall_ns: u64,
    cpu_ns: u64,
    laps_ns: Vec<u64>,
    notes: Vec<(Metric, f64)>,
    ops: Option<u64>,
}

/// What a finished sample measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The engine's digest of its answer.
    pub digest: u64,
    /// Wall time inside the timed sections.
    pub wall_ns: u64,
    /// CPU time of all threads inside the timed sections; 0 when only laps were timed.
    pub cpu_ns: u64,
    /// Figures besides time: latencies, block counts, sizes, errors.
    pub notes: Vec<(Metric, f64)>,
    /// How many operations it did, where it says so itself; else the contest knows.
    pub ops: Option<u64>,
}

impl Clock {
    /// Runs `section` and adds its wall and CPU time to the sample. Reading the clocks costs about 1 µs, so
    /// a section should last milliseconds.
    pub fn time<T>(&mut self, section: impl FnOnce() -> T) -> T {
        let cpu_before = process_cpu_ns();
        let wall = Instant::now();
        let result = std::hint::black_box(section());
        self.wall_ns += elapsed_ns(wall);
        self.cpu_ns += process_cpu_ns() - cpu_before;
        result
    }

    /// Runs one operation inside a [`Clock::time`] section's place: adds its wall time and records it as a
    /// latency, from which `p50_ns`, `p99_ns`, `p999_ns` and `max_ns` are made. Costs about 50 ns a lap.
    pub fn lap<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let wall = Instant::now();
        let result = std::hint::black_box(operation());
        let ns = elapsed_ns(wall);
        self.wall_ns += ns;
        self.laps_ns.push(ns);
        result
    }

    /// Records latencies that were measured inside a [`Clock::time`] section: they become figures, and add no time.
    pub fn latencies(&mut self, laps_ns: Vec<u64>) {
        self.laps_ns.extend(laps_ns);
    }

    /// Adds time that was measured elsewhere (in a child, by a device).
    pub fn add(&mut self, wall_ns: u64, cpu_ns: u64) {
        self.wall_ns += wall_ns;
        self.cpu_ns += cpu_ns;
    }

    /// Wall and CPU time so far, in nanoseconds.
    pub fn spent_ns(&self) -> (u64, u64) {
        (self.wall_ns, self.cpu_ns)
    }

    /// Records a figure of this sample besides its time; the median over rounds is reported.
    pub fn note(&mut self, metric: Metric, value: f64) {
        self.notes.push((metric, value));
    }

    /// The figure that was recorded first under this name.
    pub fn noted(&self, metric: Metric) -> Option<f64> {
        self.notes.iter().find(|note| note.0 == metric).map(|note| note.1)
    }

    /// Says that this sample did `ops` operations, for an engine that stops when its time is up. Rates are those of
    /// what was done, and the figures say `time_boxed` where that is less than the contest's operations.
    pub fn did(&mut self, ops: u64) {
        self.ops = Some(ops);
    }

    /// Ends the sample.
    pub(crate) fn finish(mut self, digest: u64) -> Sample {
        if !self.laps_ns.is_empty() {
            self.laps_ns.sort_unstable();
            let quantiles =
                [(Metric::P50Ns, 0.5), (Metric::P99Ns, 0.99), (Metric::P999Ns, 0.999), (Metric::MaxNs, 1.0)];
            for (metric, quantile) in quantiles {
                self.notes.push((metric, at_quantile(&self.laps_ns, quantile) as f64));
            }
        }
        Sample { digest, wall_ns: self.wall_ns, cpu_ns: self.cpu_ns, notes: self.notes, ops: self.ops }
    }
}

impl Sample {
    /// For the way out of a child process.
    pub(crate) fn to_json(&self) -> Value {
        let notes: Vec<_> = self.notes.iter().map(|note| json!([note.0.name(), note.1])).collect();
        json!({
            "digest": self.digest, "wall_ns": self.wall_ns, "cpu_ns": self.cpu_ns, "notes": notes, "ops": self.ops,
        })
    }

    /// Reads the last line of a child's output.
    pub(crate) fn from_json(stdout: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(stdout).ok()?;
        let value: Value = serde_json::from_str(text.lines().last()?).ok()?;
        let notes = value["notes"]
            .as_array()?
            .iter()
            .map(|note| Some((Metric::from_name(note[0].as_str()?)?, note[1].as_f64()?)));
        Some(Self {
            digest: value["digest"].as_u64()?,
            wall_ns: value["wall_ns"].as_u64()?,
            cpu_ns: value["cpu_ns"].as_u64()?,
            notes: notes.collect::<Option<_>>()?,
            ops: value["ops"].as_u64(),
        })
    }
}

/// The smallest value that at least `quantile` of the sorted values do not exceed.
fn at_quantile(sorted: &[u64], quantile: f64) -> u64 {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// CPU time of this thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// CPU time of this process, all threads, in nanoseconds.
fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work_and_counts_other_threads() {
        let mut clock = Clock::default();
        clock.time(|| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let before = clock_gettime(ClockId::ThreadCPUTime);
                        // Burn 20 ms of this thread's own CPU, however slow the machine is.
                        loop {
                            let now = clock_gettime(ClockId::ThreadCPUTime);
                            let ns =
                                (now.tv_sec - before.tv_sec) * 1_000_000_000 + now.tv_nsec - before.tv_nsec;
                            if ns > 20_000_000 {
                                break;
                            }
                        }
                    });
                }
            });
        });
        let sample = clock.finish(0);
        assert!(sample.cpu_ns >= 40_000_000, "two threads burnt 20 ms each, counted {}", sample.cpu_ns);
        assert!(sample.wall_ns > 0);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let laps: Vec<u64> = (1..=1000).collect();
        assert_eq!(at_quantile(&laps, 0.99), 990);
        assert_eq!(at_quantile(&laps, 0.999), 999);
        assert_eq!(at_quantile(&laps, 1.0), 1000);
        assert_eq!(at_quantile(&[7], 0.99), 7);
    }

    #[test]
    fn a_sample_survives_the_way_out_of_a_child() {
        let notes = vec![(Metric::PeakRssBytes, 4096.0), (Metric::P99Ns, 12.0)];
        let mut sample = Sample { digest: u64::MAX, wall_ns: 5, cpu_ns: 6, notes, ops: None };
        for ops in [None, Some(7)] {
            sample.ops = ops;
            let printed = format!("noise\n{}\n", sample.to_json());
            assert_eq!(Sample::from_json(printed.as_bytes()).as_ref(), Some(&sample));
        }
        assert_eq!(Sample::from_json(b"no json\n"), None);
    }

    #[test]
    fn laps_become_four_latency_figures() {
        let mut clock = Clock::default();
        for _ in 0..10 {
            clock.lap(|| ());
        }
        let metrics: Vec<_> = clock.finish(0).notes.iter().map(|note| note.0).collect();
        assert_eq!(metrics, [Metric::P50Ns, Metric::P99Ns, Metric::P999Ns, Metric::MaxNs]);
    }
}
