//! How far the newest pane of a window is: a window is forgotten pane by pane.

use crate::arguments::{PANES, WindowLength};
use crate::run_state::{Window, WindowKind};
use std::time::Instant;

impl From<WindowLength> for Window {
    fn from(length: WindowLength) -> Self {
        match length {
            WindowLength::Rows(rows) => Window { kind: WindowKind::Rows, length: rows, passed: 0 },
            WindowLength::Time(time) => {
                let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                Window { kind: WindowKind::Nanoseconds, length: nanoseconds, passed: 0 }
            }
        }
    }
}

/// A window's clock: it counts rows, or the time for which the command runs.
pub(super) struct Panes {
    window: Window,
    looked_at: Instant,
}

impl Panes {
    pub(super) fn new(window: Window) -> Self {
        Self { window, looked_at: Instant::now() }
    }

    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// How many rows the newest pane still takes.
    pub(super) fn room(&self) -> usize {
        match self.window.kind {
            WindowKind::Rows => {
                usize::try_from(self.pane().saturating_sub(self.window.passed)).unwrap_or(usize::MAX).max(1)
            }
            _ => usize::MAX,
        }
    }

    /// Notes that rows were taken; whether the pane is full.
    pub(super) fn pass_rows(&mut self, rows: usize) -> bool {
        self.window.kind == WindowKind::Rows && self.pass(rows as u64) > 0
    }

    /// Notes that time went by; how many panes have ended, of those that are not all forgotten.
    pub(super) fn pass_time(&mut self) -> u64 {
        if self.window.kind != WindowKind::Nanoseconds {
            return 0;
        }
        let now = Instant::now();
        let passed = u64::try_from((now - self.looked_at).as_nanos()).unwrap_or(u64::MAX);
        self.looked_at = now;
        self.pass(passed).min(u64::from(PANES) + 1)
    }

    /// How many panes end as the clock moves on by `more`.
    fn pass(&mut self, more: u64) -> u64 {
        let passed = self.window.passed.saturating_add(more);
        self.window.passed = passed % self.pane();
        passed / self.pane()
    }

    fn pane(&self) -> u64 {
        self.window.length.div_ceil(u64::from(PANES)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_are_an_eighth_of_the_window() {
        let mut panes = Panes::new(WindowLength::Rows(80).into());
        assert_eq!((panes.room(), panes.pass_time()), (10, 0));
        assert!(!panes.pass_rows(9));
        assert_eq!(panes.room(), 1);
        assert!(panes.pass_rows(1));
        assert_eq!(panes.room(), 10);
        let none = Panes::new(Window::default());
        assert_eq!(none.room(), usize::MAX);
    }
}
