//! Where reports are shown: lines of JSON, pages, or the full-screen view.

use crate::arguments::MonitorArguments;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::page::print_json;
use crate::picture::{monitor_json, monitor_page};
use crate::report::Report;
use crate::screen::{Asked, Screen, View};
use std::io::Write;
use std::time::{Duration, Instant};

/// The view is drawn so often.
const FRAME: Duration = Duration::from_millis(250);

/// Where reports go.
pub(super) struct Display {
    form: Form,
    source: String,
    interrupt: Interrupt,
    /// Whether q was pressed: the end is then no interrupt.
    pub(super) was_quit: bool,
    has_shown: bool,
    /// The last report of an epoch that is over, which is printed when the view is gone.
    last: Option<Report>,
    next_frame: Instant,
    /// Packets of the epoch when the last frame was drawn, and when that was.
    drawn: (u64, u64, Instant),
}

enum Form {
    Json,
    Pages,
    View(Box<Screen>),
}

impl Display {
    pub(super) fn open(arguments: &MonitorArguments, interrupt: &Interrupt) -> Self {
        let screen = if arguments.json || arguments.plain { None } else { Screen::open() };
        let form = match screen {
            Some(screen) => Form::View(Box::new(screen)),
            None if arguments.json => Form::Json,
            None => Form::Pages,
        };
        let source = match (arguments.iface.as_ref().or(arguments.xdp.as_ref()), &arguments.pcap[..]) {
            (Some(name), _) => name.clone(),
            (None, [one]) => one.display().to_string(),
            (None, many) => format!("{} captures", many.len()),
        };
        let now = Instant::now();
        let (was_quit, has_shown, last) = (false, false, None);
        Self {
            form,
            source,
            interrupt: interrupt.clone(),
            was_quit,
            has_shown,
            last,
            next_frame: now,
            drawn: (0, 0, now),
        }
    }

    /// When it wants to be looked at, or `due` if that is sooner.
    pub(super) fn wakes(&self, due: Option<Instant>) -> Option<Instant> {
        match self.form {
            Form::View(_) => Some(due.map_or(self.next_frame, |due| due.min(self.next_frame))),
            Form::Json | Form::Pages => due,
        }
    }

    /// Shows a report of an epoch, which is over or is reported at an interval.
    pub(super) fn show(&mut self, report: Report) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.has_shown, true);
        match &mut self.form {
            Form::Json => print_json(&monitor_json(&report)),
            Form::Pages => {
                if !is_first {
                    std::io::stdout().write_all(b"\n")?;
                }
                monitor_page(&report).print()
            }
            Form::View(_) => {
                self.last = Some(report);
                Ok(())
            }
        }
    }

    /// Heeds the keys that were pressed; whether it is time for a frame.
    pub(super) fn heed(&mut self) -> Result<bool, Failure> {
        let Form::View(screen) = &self.form else { return Ok(false) };
        match screen.asked()? {
            Some(Asked::Quit) => {
                self.was_quit = true;
                self.interrupt.raise();
            }
            Some(Asked::Interrupt) => self.interrupt.raise(),
            None => {}
        }
        Ok(Instant::now() >= self.next_frame)
    }

    /// Draws a frame.
    pub(super) fn draw(&mut self, report: &Report) -> Result<(), Failure> {
        let Form::View(screen) = &mut self.form else { return Ok(()) };
        let now = Instant::now();
        let (epoch, packets, at) = self.drawn;
        let before = if epoch == report.epoch { packets } else { 0 };
        let seconds = now.duration_since(at).as_secs_f64().max(1e-3);
        let rate = report.packets.packets.saturating_sub(before) as f64 / seconds;
        screen.show(&View { report, source: &self.source, rate })?;
        self.drawn = (report.epoch, report.packets.packets, now);
        self.next_frame = now + FRAME;
        Ok(())
    }

    /// Gives the terminal back, and prints the last report there.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        if let Form::View(_) = self.form {
            self.form = Form::Pages;
            if let Some(report) = self.last.take() {
                return monitor_page(&report).print();
            }
        }
        Ok(())
    }
}
