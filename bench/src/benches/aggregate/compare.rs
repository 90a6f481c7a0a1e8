//! Figure 6 and table 4: all engines over all workloads. Their bars are the figures `ops_per_s` and `peak_rss_bytes`.

use super::bed::{Bed, Spot};
use super::engine::Engine;
use super::process::Rival;
use super::workload::{Law, Workload};
use crate::{Result, Run};

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let mut engines = Engine::IN_PROCESS.to_vec();
    engines.push(Engine::Sort);
    engines.extend(Rival::installed(run).into_iter().map(Engine::Rival));
    for workload in workloads(run) {
        let Some(bed) = Bed::new(run, workload)? else { continue };
        let with_papers = [&engines[..3], &Engine::papers(workload), &engines[3..]].concat();
        bed.contest(run, &with_papers, &Spot::default())?;
    }
    Ok(())
}

/// The workloads of the comparison.
pub(super) fn workloads(run: &Run<'_>) -> Vec<Workload> {
    let records = run.pick([4_000, 1_000_000, 100_000_000]);
    let of = |name, law, groups| Workload { name, law, records, groups };
    vec![
        of("uniform", Law::Same(10), records / 10),
        of("binomial", Law::Binomial, records / 10),
        of("zipf", Law::Zipf, records / 10),
        of("2gram", Law::Bigrams, records / 4),
        of("ecoli_copies", Law::Kmers, records / 10),
    ]
}
