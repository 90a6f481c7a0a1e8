//! Figure 7: what it costs to finalize again and again. The maps are up to date always; so are ours for `get`, without it.

use super::bed::{Bed, Spot};
use super::compare::workloads;
use super::engine::Engine;
use super::points;
use crate::{Result, Run};

pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    for workload in
        workloads(run).into_iter().filter(|workload| ["binomial", "2gram"].contains(&workload.name))
    {
        let Some(mut bed) = Bed::new(run, workload)? else { continue };
        let [paper, raw] = Engine::papers(workload);
        let engines = [Engine::Overbank { threads: 1 }, paper, raw, Engine::Arena];
        let figure = format!("aggregate_interval_{}", workload.name);
        for finalizations in [1, 2, 5, 10, 20, 50] {
            bed.job.interval = if finalizations == 1 { 0 } else { workload.records / finalizations };
            let spot = Spot::over(&figure, "finalizations", finalizations);
            bed.contest(run, &engines, &spot)?;
        }
        let title = format!("{} records ({}), finalized again and again", workload.records, workload.name);
        points::draw(run, &figure, &title, "finalizations", &engines.map(Engine::name))?;
    }
    Ok(())
}
