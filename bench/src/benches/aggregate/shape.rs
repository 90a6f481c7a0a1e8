//! Figures 9 and 13: over groups, over how often each comes, over the length of keys and its law.

use super::bed::{Bed, Spot};
use super::engine::Engine;
use super::points;
use super::workload::{Law, Workload};
use crate::{Result, Run};

fn engines(workload: Workload) -> [Engine; 5] {
    let [paper, _] = Engine::papers(workload);
    [
        Engine::Overbank { threads: 1 },
        Engine::Overbank { threads: 2 },
        paper,
        Engine::SparsePointer,
        Engine::Arena,
    ]
}

/// A curve: a workload for each x.
struct Curve<'c> {
    figure: &'c str,
    title: &'c str,
    x_label: &'c str,
    param: &'c str,
    at: Vec<(u64, Workload)>,
}

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let groups: u64 = run.pick([400, 100_000, 10_000_000]);
    let uniform = |records, groups| Workload { name: "uniform", law: Law::Same(10), records, groups };
    let over = |steps: &[u64], workload: &dyn Fn(u64) -> Workload| {
        steps.iter().map(|&step| (step, workload(step))).collect::<Vec<_>>()
    };
    let sixteenths: &[u64] = run.pick([&[8, 16], &[1, 2, 4, 8, 16], &[1, 2, 4, 8, 16]]);
    let of_groups = |sixteenths: &u64| groups / 16 * sixteenths;
    let repeats: &[u64] = run.pick([&[2, 20], &[2, 5, 10, 20, 50], &[2, 5, 10, 20, 50, 100]]);
    let lengths: &[u64] = run.pick([&[8, 40], &[8, 16, 32, 63], &[8, 16, 32, 48, 63]]);
    let few = groups / 10;
    let curves = [
        Curve {
            figure: "aggregate_groups",
            title: "10 records a group",
            x_label: "groups",
            param: "groups",
            at: over(&sixteenths.iter().map(of_groups).collect::<Vec<_>>(), &|groups| {
                uniform(10 * groups, groups)
            }),
        },
        Curve {
            figure: "aggregate_repeats",
            title: "a tenth of the groups, more and more records",
            x_label: "records a group",
            param: "repeats",
            at: over(repeats, &|repeats| uniform(few * repeats, few)),
        },
        Curve {
            figure: "aggregate_lengths",
            title: "keys of random letters",
            x_label: "bytes a key",
            param: "key_bytes",
            at: over(lengths, &|length| Workload {
                law: Law::Same(length as u8),
                ..uniform(groups * 2, groups / 5)
            }),
        },
    ];
    for curve in curves {
        for (x, workload) in curve.at {
            let Some(bed) = Bed::new(run, workload)? else { continue };
            let spot = Spot::over(curve.figure, curve.param, x);
            bed.contest(run, &engines(workload), &spot)?;
        }
        points::draw(
            run,
            curve.figure,
            curve.title,
            curve.x_label,
            &engines(uniform(0, 0)).map(Engine::name),
        )?;
    }
    Ok(())
}
