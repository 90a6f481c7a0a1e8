//! Sort of 64-bit hashes: ours against the standard library's and the `rdst` crate, all on one thread.

use crate::{Bench, Case, Clock, Result, Run, Workload, digest_u64s};
use overbank::batch::Sorter;
use rdst::RadixSort;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "sort",
    about: "hashes sorted a second, one thread",
    engines: &["overbank", "rdst", "sort_unstable"],
    run,
};

type SortInPlace = Box<dyn FnMut(&mut Vec<u64>)>;

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([10_000, 4 << 20, 16 << 20]);
    let workloads =
        [Workload::Uniform, Workload::Zipf(1.0), Workload::Crowded, Workload::Descending, Workload::Constant];
    for workload in workloads {
        let input = workload.keys(keys, 1);
        // The scratch is touched before the clock runs, for a buffer is kept from flush to flush; `rdst`
        // takes its own each time.
        let mut scratch = vec![1; keys];
        let mut sorter = Sorter::new();
        let input = &input;
        let copy_and = |mut sort: SortInPlace| {
            move |clock: &mut Clock| {
                let mut sorted = input.clone();
                clock.time(|| sort(&mut sorted));
                Ok(digest_u64s(sorted))
            }
        };
        run.contest(Case::Sort)
            .workload(workload)
            .param("keys", keys)
            .ops(keys)
            .exact("overbank", copy_and(Box::new(move |keys| sorter.sort(keys, &mut scratch))))
            .exact(
                "rdst",
                copy_and(Box::new(|keys| {
                    keys.radix_sort_builder().with_single_threaded_tuner().with_parallel(false).sort();
                })),
            )
            .exact("sort_unstable", copy_and(Box::new(|keys| keys.sort_unstable())))
            .finish()?;
    }
    Ok(())
}
