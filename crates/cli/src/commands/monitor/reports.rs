//! Reports as they fall due: of each epoch that is over, at an interval, and for each frame of the view.

use super::crew::Crew;
use super::display::Display;
use super::keep::Keeper;
use super::survey::{self, About, Held};
use crate::failure::Failure;
use crate::report::{Ended, Report, Span};
use overbank_ingest::capture::FlowKey;
use std::time::{Duration, Instant};

/// Makes reports, has them kept, and shows them.
pub(super) struct Reports<'a> {
    pub(super) crew: &'a Crew,
    pub(super) keeper: Option<&'a mut Keeper>,
    pub(super) display: Display,
    pub(super) top: usize,
    /// Packets of the epochs that are over.
    pub(super) packets: u64,
    /// Flows of the last of them that are known by name.
    pub(super) known: Vec<FlowKey>,
    /// Packets that the kernel had dropped when it ended.
    pub(super) dropped: u64,
}

/// When the next report at an interval is due.
pub(super) struct Alarm {
    every: Option<Duration>,
    pub(super) due: Option<Instant>,
}

impl Alarm {
    pub(super) fn new(every: Option<Duration>) -> Self {
        let mut alarm = Self { every, due: None };
        alarm.set();
        alarm
    }

    /// Whether a report is due; the next one is then due later.
    pub(super) fn has_rung(&mut self) -> bool {
        let has_rung = self.due.is_some_and(|due| due <= Instant::now());
        if has_rung {
            self.set();
        }
        has_rung
    }

    fn set(&mut self) {
        self.due = self.every.and_then(|every| Instant::now().checked_add(every));
    }
}

impl Reports<'_> {
    /// An epoch is over. `about` has all packets that the kernel dropped in this run.
    pub(super) fn close(&mut self, about: About) -> Result<(), Failure> {
        let tally = self.crew.take_ended();
        self.packets += tally.packets.packets;
        let Some(held) = Held::of(self.crew, about.epoch, tally) else {
            return Err(Failure::Usage(format!(
                "epoch {} is not kept by the threads any more; run again",
                about.epoch
            )));
        };
        let about = self.of_epoch(about);
        let report = survey::report(self.crew, about, &held, &self.known, self.top);
        self.dropped += about.dropped.unwrap_or(0);
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(self.crew, &report, &held)?;
        }
        self.known = held.known;
        self.display.show(report)
    }

    /// Heeds keys, and reports of the current epoch as far as it has come, if that is due.
    pub(super) fn look(
        &mut self,
        alarm: &mut Alarm,
        dropped: Option<u64>,
        span: Option<Span>,
    ) -> Result<(), Failure> {
        let has_rung = alarm.has_rung();
        let is_frame = self.display.heed()?;
        if (is_frame || has_rung)
            && let Some(report) = self.interim(dropped, span)
        {
            if is_frame {
                self.display.draw(&report)?;
            }
            if has_rung {
                self.display.show(report)?;
            }
        }
        Ok(())
    }

    /// The report of the current epoch as far as it has come; `None` if it ends just now.
    fn interim(&self, dropped: Option<u64>, span: Option<Span>) -> Option<Report> {
        let epoch = self.crew.epoch();
        let held = Held::of(self.crew, epoch, self.crew.tally(epoch))?;
        let about = self.of_epoch(About { epoch, span, ended: Ended::NotYet, dropped });
        let report = survey::report(self.crew, about, &held, &self.known, self.top);
        Some(report).filter(|_| self.crew.epoch() == epoch)
    }

    /// With the packets that were dropped in the epoch, of all in the run.
    fn of_epoch(&self, about: About) -> About {
        About { dropped: about.dropped.map(|all| all.saturating_sub(self.dropped)), ..about }
    }
}
