//! Line charts as SVG: panels over one another that share the x axis, one colour a line.
//!
//! Small enough to write ourselves: two kinds of axis and one of mark.

use std::fmt::Write as _;

/// Sizes in pixels.
const WIDTH: f64 = 960.0;
const PANEL_HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 160.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Told apart by colour-blind readers too (Okabe and Ito).
const COLOURS: [&str; 7] = ["#d55e00", "#0072b2", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#000000"];

/// A whole picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Over the panels.
    pub title: String,
    /// Under the last panel.
    pub x_label: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Beside its axis.
    pub y_label: String,
    /// A logarithmic y axis, whose values are above 0; else one that starts at 0.
    pub is_log: bool,
    /// Lines that have the same place in two panels have the same colour.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// The picture as text.
    pub fn to_svg(&self) -> String {
        let height = TOP + self.panels.len() as f64 * (PANEL_HEIGHT + BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, (WIDTH / 2.0, 24.0), "middle", &self.title);
        let points = self.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let x = Axis::linear(points.map(|point| point.0), (LEFT, WIDTH - RIGHT));
        for (i, panel) in self.panels.iter().enumerate() {
            let top = TOP + i as f64 * (PANEL_HEIGHT + BOTTOM);
            panel.draw(&mut svg, &x, (top + PANEL_HEIGHT, top));
        }
        text(&mut svg, ((LEFT + WIDTH - RIGHT) / 2.0, height - 12.0), "middle", &self.x_label);
        svg.push_str("</svg>\n");
        svg
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, x: &Axis, (bottom, top): (f64, f64)) {
        let values = self.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let y =
            if self.is_log { Axis::log(values, (bottom, top)) } else { Axis::linear(values, (bottom, top)) };
        for (value, at) in y.ticks() {
            stroke(svg, "#ddd", 1.0, &[(LEFT, at), (WIDTH - RIGHT, at)]);
            text(svg, (LEFT - 6.0, at + 4.0), "end", &label(value));
        }
        for (value, at) in x.ticks() {
            stroke(svg, "#ddd", 1.0, &[(at, top), (at, bottom)]);
            text(svg, (at, bottom + 16.0), "middle", &label(value));
        }
        for (i, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let points: Vec<_> =
                line.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
            stroke(svg, colour, 1.5, &thinned(&points));
            let at = top + 16.0 + i as f64 * 18.0;
            stroke(svg, colour, 3.0, &[(WIDTH - RIGHT + 10.0, at - 4.0), (WIDTH - RIGHT + 30.0, at - 4.0)]);
            text(svg, (WIDTH - RIGHT + 36.0, at), "start", &line.name);
        }
        stroke(svg, "#000", 1.0, &[(LEFT, top), (LEFT, bottom), (WIDTH - RIGHT, bottom)]);
        let middle = (top + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&self.y_label)
        );
    }
}

/// Values to places along one edge.
struct Axis {
    is_log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn linear(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let high = values.fold(0.0, f64::max);
        Self { is_log: false, low: 0.0, high: if high > 0.0 { high } else { 1.0 }, from, to }
    }

    /// From one power of ten to another.
    fn log(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
        let low = low.min(high).log10().floor();
        Self { is_log: true, low, high: high.log10().ceil().max(low + 1.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.log10() } else { value };
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Powers of ten, or from 4 to 10 round values; each with its place.
    fn ticks(&self) -> Vec<(f64, f64)> {
        let step = if self.is_log { 1.0 } else { round_step(self.high / 8.0) };
        let count = ((self.high - self.low) / step + 1e-9) as usize;
        let value = |i: usize| {
            let value = self.low + i as f64 * step;
            if self.is_log { 10f64.powf(value) } else { value }
        };
        (0..=count).map(|i| (value(i), self.place(value(i)))).collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `at_least`.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|&step| step >= at_least)
        .unwrap_or(power)
}

/// At most some points a pixel: of those of one pixel the first, the highest, the lowest and the last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for pixel in points.chunk_by(|one, next| one.0.floor() == next.0.floor()) {
        let by_y = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        kept.push(pixel[0]);
        kept.extend(pixel.iter().min_by(by_y));
        kept.extend(pixel.iter().max_by(by_y));
        kept.push(pixel[pixel.len() - 1]);
    }
    kept.dedup();
    kept
}

fn stroke(svg: &mut String, colour: &str, width: f64, points: &[(f64, f64)]) {
    let _ = write!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"");
    for (x, y) in points {
        let _ = write!(svg, "{x:.1},{y:.1} ");
    }
    svg.push_str("\"/>\n");
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A value as short as it is exact enough.
fn label(value: f64) -> String {
    let rounded = format!("{value:.3}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks_that_stay_inside() {
        let axis = Axis::linear([0.0, 37.0].into_iter(), (100.0, 0.0));
        let values: Vec<f64> = axis.ticks().iter().map(|tick| tick.0).collect();
        assert_eq!(values, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]);
        assert_eq!((axis.place(0.0), axis.place(37.0)), (100.0, 0.0));
        let axis = Axis::log([0.05, 3.0].into_iter(), (0.0, 300.0));
        let labels: Vec<String> = axis.ticks().iter().map(|tick| label(tick.0)).collect();
        assert_eq!(labels, ["0.01", "0.1", "1", "10"]);
        assert_eq!(axis.place(1.0).round(), 200.0);
        assert!(Axis::linear(std::iter::empty(), (0.0, 1.0)).place(0.5).is_finite());
        assert!(Axis::log(std::iter::empty(), (0.0, 1.0)).place(0.5).is_finite());
    }

    #[test]
    fn a_peak_survives_thinning() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i) / 1000.0, if i == 4_321 { 9.0 } else { 1.0 })).collect();
        let kept = thinned(&points);
        assert!(kept.len() < 50 && kept.iter().any(|point| point.1 == 9.0));
    }

    #[test]
    fn a_picture_names_its_axes_and_lines() {
        let line = Line { name: "a<b".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let panel = Panel { y_label: "keys".into(), is_log: false, lines: vec![line] };
        let chart = Chart { title: "t".into(), x_label: "seconds".into(), panels: vec![panel] };
        let svg = chart.to_svg();
        for part in ["<svg", "a&lt;b", "keys", "seconds", "</svg>"] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
