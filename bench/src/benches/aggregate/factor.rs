//! Figures 10, 11 and 12: what each feature of the tree is worth, and each of ours after them; the map of buffers and fan-outs; workers and
//! trees. And what our groups and the tree make of more memory or less, beside what the library's model of costs predicts of their CPU
//! time (`predicted_ns`).
//!
//! The features come one after another, each with those before it. What cannot be turned off is in the first step: objects one after
//! another in buffers, and the radix sort of the root's.

use super::bed::{Bed, Spot};
use super::engine::Engine;
use super::paper::{Compression, Knobs};
use super::points;
use super::workload::{Law, Workload};
use crate::{Case, Metric, Params, Result, Run};
use overbank::aggregate::GroupingPlan;
use serde_json::Value;

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let records = run.pick([4_000, 1_000_000, 100_000_000]);
    // The keys of the paper's factor analysis.
    let workload = Workload { name: "binomial", law: Law::Binomial, records, groups: records / 10 };
    let Some(mut bed) = Bed::new(run, workload)? else { return Ok(()) };
    features(run, &bed)?;
    map(run, &bed)?;
    scaling(run, &bed)?;
    memory(run, &mut bed)
}

/// A key of the workload, on average, and its count.
const ROW_BYTES: usize = 15;

fn features(run: &mut Run<'_>, bed: &Bed) -> Result<()> {
    let whole = Knobs::of(bed.job.workload, Compression::Columns);
    let base = Knobs { compression: Compression::None, workers: 0, root_buffers: 1, ..whole };
    let general = Knobs { compression: Compression::General, ..base };
    let columns = Knobs { compression: Compression::Columns, ..base };
    let steps = [
        ("1 buffer tree, one thread", Engine::Paper(base)),
        ("2 compression", Engine::Paper(general)),
        ("3 columns", Engine::Paper(columns)),
        ("3 the same, Zstandard for LZ4", Engine::Paper(Knobs { compression: Compression::Zstd, ..base })),
        ("4 pipeline of 2 workers", Engine::Paper(Knobs { workers: 2, ..columns })),
        ("5 4 root buffers", Engine::Paper(whole)),
        ("6 4 trees", Engine::Paper(Knobs { trees: 4, ..whole })),
        ("7 leaves of pages, changed in place", Engine::Overbank { threads: 1 }),
        ("8 2 threads", Engine::Overbank { threads: 2 }),
    ];
    for (feature, engine) in steps {
        let spot = Spot { params: vec![("feature", feature.into())], ..Spot::default() };
        bed.contest(run, &[engine], &spot)?;
    }
    Ok(())
}

fn map(run: &mut Run<'_>, bed: &Bed) -> Result<()> {
    const FIGURE: &str = "aggregate_buffers";
    let whole = Knobs::of(bed.job.workload, Compression::Columns);
    let fan_outs: &[usize] = run.pick([&[4], &[4, 64], &[4, 8, 16, 64]]);
    let eighths: &[usize] = run.pick([&[8], &[2, 8], &[1, 2, 4, 8, 16]]);
    let lines: Vec<String> = fan_outs.iter().map(|fan_out| format!("fan-out {fan_out}")).collect();
    for (&fan_out, line) in fan_outs.iter().zip(&lines) {
        for &eighths in eighths {
            let buffer_bytes = whole.buffer_bytes * eighths / 8;
            let knobs = Knobs { buffer_bytes, fan_out, ..whole };
            let spot = Spot {
                at: Some((FIGURE, buffer_bytes as f64 / 1e6)),
                line: Some(line),
                params: vec![
                    ("fan_out", Value::from(fan_out)),
                    ("buffer_kb", Value::from(buffer_bytes / 1000)),
                ],
            };
            bed.contest(run, &[Engine::Paper(knobs)], &spot)?;
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    points::draw(run, FIGURE, "the paper's tree", "MB a buffer", &lines)
}

fn scaling(run: &mut Run<'_>, bed: &Bed) -> Result<()> {
    let whole = Knobs::of(bed.job.workload, Compression::Columns);
    let counts: &[u64] = run.pick([&[2], &[1, 2, 4], &[1, 2, 4, 8]]);
    for &workers in counts {
        let knobs = Knobs { workers: workers as usize, ..whole };
        let spot = Spot::over("aggregate_workers", "workers", workers);
        bed.contest(run, &[Engine::Paper(knobs)], &spot)?;
    }
    for &trees in counts {
        let knobs = Knobs { trees: trees as usize, ..whole };
        let spot = Spot::over("aggregate_trees", "trees", trees);
        bed.contest(run, &[Engine::Paper(knobs)], &spot)?;
    }
    points::draw(run, "aggregate_workers", "the paper's tree", "workers", &["paper"])?;
    points::draw(run, "aggregate_trees", "the paper's tree, 2 workers", "trees", &["paper"])
}

fn memory(run: &mut Run<'_>, bed: &mut Bed) -> Result<()> {
    const FIGURE: &str = "aggregate_memory";
    let ours = [Engine::Overbank { threads: 1 }, Engine::Overbank { threads: 2 }, Engine::OverbankFlash];
    let (workload, whole) = (bed.job.workload, bed.job.memory_bytes);
    let buffers = Knobs::of(workload, Compression::Columns);
    let quarters: &[usize] = run.pick([&[4], &[4, 8, 16], &[3, 4, 6, 8, 16]]);
    for quarter in quarters {
        bed.job.memory_bytes = whole / 4 * quarter;
        let mib = (bed.job.memory_bytes >> 20) as u64;
        let plan = GroupingPlan::new(bed.job.memory_bytes, workload.groups, workload.records, ROW_BYTES);
        let tree = Engine::Paper(Knobs { buffer_bytes: plan.tree_buffer_bytes, ..buffers });
        let engines = [&ours[..], &[tree]].concat();
        bed.contest(run, &engines, &Spot { at: Some((FIGURE, mib as f64)), ..Spot::default() })?;
        for (engine, cost) in [(ours[0], plan.leaves), (tree, plan.tree)] {
            // Where the memory is too small for a shape, the model has no figure.
            if cost.ns_per_row.is_finite() && run.wants(engine.name()) {
                let params = Params::from_iter([("memory_mib".to_owned(), mib.into())]);
                run.figure(Case::Group, engine.name(), Metric::PredictedNs, cost.ns_per_row, params)?;
            }
        }
    }
    bed.job.memory_bytes = whole;
    let lines = ["overbank", "overbank_2", "overbank_flash", "paper"];
    points::draw(run, FIGURE, "groups in compressed memory", "MiB that they are told", &lines)
}
