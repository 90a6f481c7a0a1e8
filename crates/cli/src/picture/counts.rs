//! How exact the counts are: the sketch on flash, and by how much estimates are off.

use super::{Cost, Skipped, bound_json, cost_section, heavy_section, stream_lines};
use crate::failure::Failure;
use crate::page::Page;
use crate::units;
use overbank::profile::{EstimateError, FlashReport, Profile, ProfileReport};
use serde_json::{Value, json};

/// From this average error on, a profile without flash says that there is a remedy.
const WORTH_A_REMARK: f64 = 0.5;

/// What there is to say about the counts of keys that are not heavy.
pub(crate) struct Counts {
    flash: Option<FlashReport>,
    error: EstimateError,
}

impl Counts {
    /// Asks the profile.
    pub(crate) fn of(profile: &Profile) -> Result<Self, Failure> {
        // Estimates first: they see what cells are full.
        let error = profile.estimate_error()?;
        Ok(Self { flash: profile.flash()?, error })
    }

    /// The line of a profile, whose subject is another: nothing where there is nothing to improve.
    pub(super) fn line(&self, page: &mut Page) {
        let remark = match &self.flash {
            Some(_) => "on average, with a sketch on flash",
            None if self.error.average >= WORTH_A_REMARK => "on average; a --store with --flash helps",
            None => return,
        };
        page.fact("counts are off by", &units::small(self.error.average), remark);
    }

    /// The section of `count`.
    fn section(&self, page: &mut Page) {
        let Some(flash) = &self.flash else { return };
        page.heading("Counts on flash", "of keys that are not heavy");
        flash_lines(page, flash);
        let p99 = format!("99 % of keys by {} at most", units::bound(self.error.p99));
        page.fact("off on average", &units::small(self.error.average), &p99);
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "error_average": self.error.average,
            "error_p99": bound_json(self.error.p99),
            "flash": self.flash.as_ref().map(flash_json),
        })
    }
}

/// The report of `count` as text.
pub(crate) fn count_page(
    title: &str,
    report: &ProfileReport,
    counts: &Counts,
    skipped: &[Skipped],
    cost: &Cost,
) -> Page {
    let mut page = Page::new();
    page.heading(&format!("Counts of {title}"), "");
    stream_lines(&mut page, report, skipped);
    counts.section(&mut page);
    heavy_section(&mut page, report);
    cost_section(&mut page, cost);
    page
}

/// A sketch on flash as lines.
pub(crate) fn flash_lines(page: &mut Page, flash: &FlashReport) {
    let layout = &flash.layout;
    let width = units::count(layout.width());
    let shape = format!("{width} columns, {} rows of {} bits", layout.depth(), flash.cell_bits);
    page.fact("sketch", &units::bytes(flash.bytes()), &shape);
    let delta = format!("of the weight, except with delta {}", units::small(flash.delta()));
    page.fact("epsilon", &units::small(flash.epsilon()), &delta);
    page.fact("weight counted", &units::count(flash.weight), "");
    let theorem = format!("for {} of keys, by Theorem 1", units::percent(1.0 - flash.theorem_1_failure()));
    page.fact("off at most", &units::count(flash.theorem_1_error.floor() as u64), &theorem);
    if flash.cell_bits < 32 {
        page.line("  epsilon and Theorem 1 hold where counters have not grown into their neighbours");
    }
    if flash.pending_chunks > 0 {
        let remark = "an estimate reads a block of each";
        page.fact("logs to be applied", &units::count(flash.pending_chunks as u64), remark);
    }
    if flash.saturated {
        page.line("  a cell is full: --cell-bits 64 counts further; here bounds are those of RAM");
    }
}

/// A sketch on flash as JSON.
pub(crate) fn flash_json(flash: &FlashReport) -> Value {
    json!({
        "width": flash.layout.width(),
        "depth": flash.layout.depth(),
        "pages": flash.layout.pages(),
        "cell_bits": flash.cell_bits,
        "bytes": flash.bytes(),
        "epsilon": flash.epsilon(),
        "delta": flash.delta(),
        "weight": flash.weight,
        "theorem_1_error": flash.theorem_1_error,
        "theorem_1_failure": flash.theorem_1_failure(),
        "pending_chunks": flash.pending_chunks,
        "saturated": flash.saturated,
    })
}
