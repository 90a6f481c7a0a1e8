//! Progress on standard error: rate, bytes and time left, when it is a terminal; nothing otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A line on standard error that shows how far the reading is.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows a bar of `total_bytes`, or a spinner where the total is not known; hidden when `quiet` or when standard
    /// error is not a terminal.
    pub(crate) fn start(total_bytes: Option<u64>, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let (bar, template) = match total_bytes {
            Some(total) => (
                ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8)),
                "{bar:24} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left",
            ),
            None => (
                ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8)),
                "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {elapsed}",
            ),
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are well formed"));
        // A bar starts a thread, and panics where there can be none; without, it moves when there is news.
        if !bar.is_hidden() && std::thread::Builder::new().spawn(|| ()).is_ok() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar }
    }

    /// Reports the bytes consumed so far.
    pub(crate) fn update(&self, bytes: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_position(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
