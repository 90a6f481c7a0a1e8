//! Partition of 64-bit hashes by their leading bits: ours against the textbook's counting scatter.

use crate::{Bench, Case, Clock, Result, Run, Workload, digest_u64s};
use overbank::batch::Partitioner;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "partition",
    about: "hashes partitioned a second, one thread, by number of partitions",
    engines: &["overbank", "counting_scatter"],
    run,
};

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([10_000, 4 << 20, 16 << 20]);
    for workload in [Workload::Uniform, Workload::Zipf(1.0), Workload::Crowded] {
        let input = workload.keys(keys, 1);
        let lg_all: &[u32] = if workload == Workload::Uniform { &[8, 9, 10, 11] } else { &[8] };
        for &lg_partitions in lg_all {
            // Memory is touched before the clock runs, for a buffer is kept from flush to flush.
            let (mut ours, mut plain) = (vec![1; keys], vec![1; keys]);
            let mut partitioner = Partitioner::new();
            let input = &input[..];
            run.contest(Case::Partition)
                .workload(workload)
                .param("keys", keys)
                .param("partitions", 1u64 << lg_partitions)
                .ops(keys)
                .exact("overbank", move |clock: &mut Clock| {
                    clock.time(|| partitioner.by_prefix(input, lg_partitions, &mut ours).len());
                    Ok(digest_u64s(ours.iter().copied()))
                })
                .exact("counting_scatter", move |clock: &mut Clock| {
                    clock.time(|| counting_scatter(input, lg_partitions, &mut plain));
                    Ok(digest_u64s(plain.iter().copied()))
                })
                .finish()?;
        }
    }
    Ok(())
}

/// Counts, then writes each key straight to its place.
fn counting_scatter(input: &[u64], lg_partitions: u32, into: &mut [u64]) {
    let index = |key: u64| (key >> (64 - lg_partitions)) as usize;
    let mut places = vec![0usize; 1 << lg_partitions];
    for key in input {
        places[index(*key)] += 1;
    }
    let mut start = 0;
    for place in &mut places {
        start += std::mem::replace(place, start);
    }
    for key in input {
        let place = &mut places[index(*key)];
        into[*place] = *key;
        *place += 1;
    }
}
