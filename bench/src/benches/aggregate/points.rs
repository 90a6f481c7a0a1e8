//! Curves: each sample's process adds its point to a file of the run's scratch folder, and the parent draws them.

use crate::{Chart, Line, Panel, Result, Run};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One sample, of the figure of this name, at `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) records_per_s: f64,
    pub(super) bytes_per_key: f64,
}

fn file(scratch: &Path, figure: &str, line: &str) -> PathBuf {
    scratch.join(format!("points_{figure}_{line}"))
}

impl Point {
    pub(super) fn add(self, scratch: &Path, figure: &str, line: &str) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(file(scratch, figure, line))?;
        Ok(writeln!(file, "{} {} {}", self.x, self.records_per_s, self.bytes_per_key)?)
    }
}

/// The points of a line in the order of x, each with the median of its samples.
fn medians(text: &str) -> Result<Vec<Point>> {
    let mut samples: BTreeMap<u64, Vec<[f64; 3]>> = BTreeMap::new();
    for line in text.lines() {
        let numbers = line.split(' ').map(str::parse).collect::<std::result::Result<Vec<f64>, _>>()?;
        let point: [f64; 3] = numbers.try_into().map_err(|_| "a point lacks a number")?;
        // Of positive numbers the bits are in the numbers' order.
        samples.entry(point[0].to_bits()).or_default().push(point);
    }
    let median = |samples: &[[f64; 3]], of: usize| {
        let mut values: Vec<f64> = samples.iter().map(|sample| sample[of]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let point = |(x, samples): (&u64, &Vec<[f64; 3]>)| Point {
        x: f64::from_bits(*x),
        records_per_s: median(samples, 1),
        bytes_per_key: median(samples, 2),
    };
    Ok(samples.iter().map(point).collect())
}

/// Draws a figure into the run's output folder: these lines, each by its name in the legend; those without points are left out.
pub(super) fn draw(
    run: &mut Run<'_>,
    figure: &str,
    title: &str,
    x_label: &str,
    lines: &[&str],
) -> Result<()> {
    if run.is_child() {
        return Ok(());
    }
    let scratch = run.scratch()?;
    let (mut rates, mut sizes) = (Vec::new(), Vec::new());
    for line in lines {
        let file = file(&scratch, figure, line);
        if !file.exists() {
            continue;
        }
        let points = medians(&std::fs::read_to_string(file)?)?;
        let drawn = |value: fn(&Point) -> f64| Line {
            name: (*line).to_owned(),
            points: points.iter().map(|point| (point.x, value(point))).collect(),
        };
        rates.push(drawn(|point| point.records_per_s / 1e6));
        sizes.push(drawn(|point| point.bytes_per_key));
    }
    let chart = Chart {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        panels: vec![
            Panel { y_label: "million records a second".to_owned(), is_log: false, lines: rates },
            Panel { y_label: "peak memory, bytes a group".to_owned(), is_log: false, lines: sizes },
        ],
    };
    let file = run.output()?.join(format!("{figure}.svg"));
    std::fs::write(&file, chart.to_svg())?;
    run.say(&format!("drawn: {}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_of_its_samples() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (x, rate) in [(10.0, 3.0), (2.0, 7.0), (10.0, 1.0), (10.0, 2.0)] {
            let point = Point { x, records_per_s: rate, bytes_per_key: 8.0 };
            point.add(folder.path(), "figure", "ours").expect("written");
        }
        let text = std::fs::read_to_string(file(folder.path(), "figure", "ours")).expect("there");
        let points = medians(&text).expect("our own numbers");
        let found: Vec<_> = points.iter().map(|point| (point.x, point.records_per_s)).collect();
        assert_eq!(found, [(2.0, 7.0), (10.0, 2.0)]);
        assert!(medians("1 2\n").is_err());
    }
}
