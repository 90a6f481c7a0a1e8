//! `overbank plan --rows N`: what counting will cost, before it starts.

use super::{sketch, stream};
use crate::arguments::PlanArguments;
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::units;
use overbank::frequency::FrequencyPlan;
use overbank::profile::{ProfilePlan, SHARDS};
use serde_json::json;

/// A block, in bytes.
const BLOCK_BYTES: f64 = 4096.0;

pub(crate) fn run(arguments: &PlanArguments) -> CommandResult {
    let plan = stream::plan(arguments.memory, true)?;
    let options = plan.fitted(&sketch::options(&arguments.sketch, &plan)?, 1)?;
    let cost = options.plan()?;
    if arguments.json {
        print_json(&as_json(arguments, &plan, &cost))?;
    } else {
        as_page(arguments.rows, &plan, &cost).print()?;
    }
    Ok(Outcome::Found)
}

fn as_page(rows: u64, plan: &ProfilePlan, cost: &FrequencyPlan) -> Page {
    let (layout, n) = (&cost.layout, rows as f64);
    let mut page = Page::new();
    page.heading(&format!("Counting {} rows", units::count(rows)), "if every key comes once");
    page.heading("Error of an estimate", "heavy keys are counted in RAM, nearly without");
    page.fact("on average", &units::small(layout.average_error(n)), "");
    let most = layout.theorem_1_error(n, 1.0).floor();
    let theorem = format!("for {} of keys, by Theorem 1", units::percent(1.0 - failure(cost)));
    page.fact("at most", &units::count(most as u64), &theorem);

    page.heading("RAM", "");
    page.fact("budget", &units::bytes(plan.memory_bytes), "");
    let buffer = format!("{} updates wait in it", units::count(cost.buffer_updates as u64));
    page.fact("sketch's part", &units::bytes(cost.memory_bytes as u64), &buffer);
    page.fact("heavy keys", &units::count((plan.heavy_capacity * SHARDS) as u64), "slots");

    page.heading("Flash", "");
    let shape = format!("{} columns, {} rows", units::count(layout.width()), layout.depth());
    page.fact("sketch", &units::bytes(cost.flash_bytes), &shape);
    page.fact("at most", &units::bytes(cost.flash_bytes_max), "while it is rewritten, with its logs");

    page.heading("I/O", "in blocks of 4 KiB");
    let amount = |a_row: f64, rows: f64| units::bytes((a_row * rows * BLOCK_BYTES) as u64);
    let mut line = |name: &str, a_row: f64| {
        let per_million = format!("a million rows, {} in all", amount(a_row, n));
        page.fact(name, &amount(a_row, 1e6), &per_million);
    };
    line("writes", cost.blocks_written);
    line("reads", cost.blocks_read);
    let waiting = "blocks at most; 1 where no log waits";
    page.fact("an estimate reads", &units::count(cost.estimate_blocks.ceil() as u64), waiting);
    page
}

fn as_json(arguments: &PlanArguments, plan: &ProfilePlan, cost: &FrequencyPlan) -> serde_json::Value {
    let (layout, n) = (&cost.layout, arguments.rows as f64);
    json!({
        "rows": arguments.rows,
        "cell_bits": arguments.sketch.cell_bits.unwrap_or(sketch::CELL_BITS),
        "width": layout.width(),
        "depth": layout.depth(),
        "pages": layout.pages(),
        "epsilon": std::f64::consts::E / layout.width() as f64,
        "delta": (-f64::from(layout.depth())).exp(),
        "error_average": layout.average_error(n),
        "theorem_1_error": layout.theorem_1_error(n, 1.0),
        "theorem_1_failure": failure(cost),
        "memory_bytes": plan.memory_bytes,
        "sketch_memory_bytes": cost.memory_bytes,
        "buffer_updates": cost.buffer_updates,
        "heavy_keys": plan.heavy_capacity * SHARDS,
        "flash_bytes": cost.flash_bytes,
        "flash_bytes_max": cost.flash_bytes_max,
        "blocks_written_per_million": cost.blocks_written * 1e6,
        "blocks_read_per_million": cost.blocks_read * 1e6,
        "estimate_blocks_max": cost.estimate_blocks,
    })
}

/// The share of keys that Theorem 1 leaves out.
fn failure(cost: &FrequencyPlan) -> f64 {
    ((-f64::from(cost.layout.depth())).exp() + 1.0 / cost.layout.pages() as f64).min(1.0)
}
