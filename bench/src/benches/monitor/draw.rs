//! Curves, drawn into the run's output folder.

use crate::{Chart, Line, Panel, Result, Run};

/// Lines by their names, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    /// Adds a point to a line.
    pub(super) fn add(&mut self, name: &str, x: f64, y: f64) {
        let line = match self.0.iter().position(|line| line.name == name) {
            Some(line) => line,
            None => {
                self.0.push(Line { name: name.to_owned(), points: Vec::new() });
                self.0.len() - 1
            }
        };
        self.0[line].points.push((x, y));
    }

    /// A panel of them with an axis from 0.
    pub(super) fn linear(self, y_label: &str) -> Panel {
        Panel { y_label: y_label.to_owned(), is_log: false, lines: self.0 }
    }

    /// A panel of them with a logarithmic axis; what is less than `least` stands there.
    pub(super) fn log(mut self, y_label: &str, least: f64) -> Panel {
        for point in self.0.iter_mut().flat_map(|line| &mut line.points) {
            point.1 = point.1.max(least);
        }
        Panel { y_label: y_label.to_owned(), is_log: true, lines: self.0 }
    }
}

/// Draws panels over one another into `NAME.svg`.
///
/// # Errors
/// When it cannot be written.
pub(super) fn draw(
    run: &mut Run<'_>,
    name: &str,
    title: &str,
    x_label: &str,
    panels: Vec<Panel>,
) -> Result<()> {
    if run.is_child() {
        return Ok(());
    }
    let chart = Chart { title: title.to_owned(), x_label: x_label.to_owned(), panels };
    let file = run.output()?.join(format!("{name}.svg"));
    std::fs::write(&file, chart.to_svg())?;
    run.say(&format!("drawn: {}", file.display()));
    Ok(())
}
