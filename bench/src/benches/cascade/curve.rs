//! How a filter fills over time: keys at each tenth of a second, and how long each batch took.
//!
//! A sample's process writes its curve into the run's scratch folder; the parent draws the last one of each engine.

use crate::{Chart, Clock, Line, Panel, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two points.
const TICK: Duration = Duration::from_millis(100);

/// One point: what had been inserted when it began, and the longest batch that ended or ran in it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Tick {
    keys: u64,
    longest_ms: f64,
}

/// A curve being recorded. Several writers share one behind a lock.
pub(super) struct Curve {
    started: Instant,
    keys: u64,
    ticks: Vec<Tick>,
    latencies_ns: Vec<u64>,
    longest: Duration,
}

impl Curve {
    /// Starts now; `batches` are expected.
    pub(super) fn start(batches: u64) -> Self {
        Self {
            started: Instant::now(),
            keys: 0,
            ticks: vec![Tick::default()],
            latencies_ns: Vec::with_capacity(batches as usize),
            longest: Duration::ZERO,
        }
    }

    /// A batch of so many keys took so long, and ends now.
    pub(super) fn batch(&mut self, keys: u64, took: Duration) {
        self.batch_at(self.started.elapsed(), keys, took);
    }

    fn batch_at(&mut self, ended: Duration, keys: u64, took: Duration) {
        self.longest = self.longest.max(took);
        self.extend_to(ended);
        self.keys += keys;
        self.latencies_ns.push(took.as_nanos() as u64);
    }

    /// A tick for each tenth of a second that has passed: in a stall, keys stay where they were.
    fn extend_to(&mut self, ended: Duration) {
        while TICK * self.ticks.len() as u32 <= ended {
            let longest_ms = self.longest.as_secs_f64() * 1e3;
            self.ticks.push(Tick { keys: self.keys, longest_ms });
            if TICK * self.ticks.len() as u32 > ended {
                self.longest = Duration::ZERO;
            }
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Ends it: latencies go to the clock, the points into `file`.
    pub(super) fn finish(mut self, clock: &mut Clock, file: &Path) -> Result<()> {
        self.extend_to(self.started.elapsed());
        let mut text = String::new();
        for tick in &self.ticks {
            writeln!(text, "{} {}", tick.keys, tick.longest_ms)?;
        }
        std::fs::write(file, text)?;
        clock.latencies(self.latencies_ns);
        Ok(())
    }
}

/// Reads what [`Curve::finish`] wrote.
fn read(file: &Path) -> Result<Vec<Tick>> {
    let text = std::fs::read_to_string(file)?;
    let ticks = text.lines().map(|line| {
        let (keys, longest_ms) = line.split_once(' ').ok_or("a point of a curve lacks a number")?;
        Ok(Tick { keys: keys.parse()?, longest_ms: longest_ms.parse()? })
    });
    ticks.collect()
}

/// Draws the curves of these engines, whose files are where `file_of` says; an engine without one is left out.
pub(super) fn draw(
    title: &str,
    engines: &[&str],
    file_of: impl Fn(&str) -> std::path::PathBuf,
    to: &Path,
) -> Result<()> {
    let (mut keys, mut stalls) = (Vec::new(), Vec::new());
    for engine in engines {
        let file = file_of(engine);
        if !file.exists() {
            continue;
        }
        let ticks = read(&file)?;
        let seconds = |i: usize| i as f64 * TICK.as_secs_f64();
        let points = |value: fn(&Tick) -> f64| {
            ticks.iter().enumerate().map(|(i, tick)| (seconds(i), value(tick))).collect::<Vec<_>>()
        };
        keys.push(Line { name: (*engine).to_owned(), points: points(|tick| tick.keys as f64 / 1e6) });
        stalls.push(Line { name: (*engine).to_owned(), points: points(|tick| tick.longest_ms.max(0.01)) });
    }
    let chart = Chart {
        title: title.to_owned(),
        x_label: "seconds".to_owned(),
        panels: vec![
            Panel { y_label: "million keys inserted".to_owned(), is_log: false, lines: keys },
            Panel { y_label: "longest batch of 4096 keys, ms".to_owned(), is_log: true, lines: stalls },
        ],
    };
    Ok(std::fs::write(to, chart.to_svg())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_flat_and_as_long_as_it_was() {
        let mut curve = Curve::start(3);
        let ms = Duration::from_millis;
        curve.batch_at(ms(50), 10, ms(50));
        curve.batch_at(ms(450), 10, ms(400));
        curve.batch_at(ms(560), 10, ms(5));
        let keys: Vec<u64> = curve.ticks.iter().map(|tick| tick.keys).collect();
        assert_eq!(keys, [0, 10, 10, 10, 10, 20]);
        let longest: Vec<f64> = curve.ticks.iter().map(|tick| tick.longest_ms).collect();
        assert_eq!(longest, [0.0, 400.0, 400.0, 400.0, 400.0, 5.0]);
        assert_eq!(curve.keys(), 30);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, svg) = (folder.path().join("points"), folder.path().join("svg"));
        curve.finish(&mut Clock::default(), &file).expect("written");
        assert_eq!(read(&file).expect("read")[5], Tick { keys: 20, longest_ms: 5.0 });
        draw(
            "title",
            &["ours", "none"],
            |engine| folder.path().join(if engine == "ours" { "points" } else { "no" }),
            &svg,
        )
        .expect("drawn");
        assert!(std::fs::read_to_string(&svg).expect("read").contains("ours"));
    }
}
