//! `overbank filter plan --keys N`: what a filter will cost, before it is filled.

use super::session;
use crate::arguments::FilterPlanArguments;
use crate::commands::stream::default_threads;
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::units;
use overbank::filter::cascade::{FilterOptions, FilterPlan};
use serde_json::json;

pub(super) fn run(arguments: &FilterPlanArguments) -> CommandResult {
    let options = session::options(&arguments.filter, arguments.memory, None)?;
    let plan = options.plan(options.expected_keys(), default_threads())?;
    if arguments.json {
        print_json(&json!({
            "keys": options.expected_keys(),
            "error": options.rate(),
            "memory_bytes": arguments.memory,
            "filter_memory_bytes": options.chosen_memory_bytes(),
            "memory_keys": plan.memory_keys,
            "fingerprint_bits": plan.fingerprint_bits,
            "levels": plan.levels,
            "runs": plan.runs,
            "reads_a_lookup": plan.reads_a_lookup,
            "front_bits_a_key": plan.front_bits_a_key,
            "bytes_written_a_key": plan.writes_a_key,
            "flash_bytes": plan.flash_bytes,
            "flash_bytes_max": plan.flash_peak_bytes,
        }))?;
    } else {
        as_page(&options, arguments.memory, &plan).print()?;
    }
    Ok(Outcome::Found)
}

fn as_page(options: &FilterOptions, memory_bytes: u64, plan: &FilterPlan) -> Page {
    let mut page = Page::new();
    let title = format!("A filter of {} keys", units::count(options.expected_keys()));
    page.heading(&title, "all different");
    let certain = "the share of new keys taken for seen";
    page.fact("error", &units::percent(options.rate()), certain);
    page.fact("fingerprint", &format!("{} bits", plan.fingerprint_bits), "of a key's hash");

    page.heading("RAM", "");
    let share = format!("the filter's part of {}", units::bytes(memory_bytes));
    page.fact("filter", &units::bytes(options.chosen_memory_bytes() as u64), &share);
    page.fact("buffered", &units::count(plan.memory_keys), "keys between two writes");

    let fronts = format!("{} bits a key", units::small(plan.front_bits_a_key));
    page.fact("fronts", &fronts, "before the runs, once keys are looked up");

    page.heading("Flash", "");
    let bits =
        format!("{:.1} bits a key", plan.flash_bytes as f64 * 8.0 / options.expected_keys().max(1) as f64);
    page.fact("filter", &units::bytes(plan.flash_bytes), &bits);
    page.fact("at most", &units::bytes(plan.flash_peak_bytes), "while levels are merged");
    page.fact("levels", &plan.levels.to_string(), &format!("{} runs at most", plan.runs));

    page.heading("I/O", "");
    page.fact("a lookup reads", &units::small(plan.reads_a_lookup), "blocks of 4 KiB; in bulk far fewer");
    page.fact("a key writes", &units::small(plan.writes_a_key), "bytes, merges included");
    page
}
