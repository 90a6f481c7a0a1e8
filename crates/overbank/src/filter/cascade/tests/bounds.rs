//! What the paper promises of blocks, and what is refused.

use super::*;
use crate::Error;

/// A filter of `runs` runs of the same length, without fronts: those are counted in `fronts`.
fn of_runs(runs: u64) -> (Arc<SimDevice>, Store, Filter) {
    let (device, store, filter) = of_equal_runs(runs, 0, 0);
    store.commit(b"").unwrap();
    assert_eq!(filter.report().runs.len() as u64, runs);
    (device, store, filter)
}

#[test]
fn a_negative_lookup_reads_one_block_a_run() {
    for runs in [1, 2, 5] {
        let (device, store, filter) = of_runs(runs);
        for i in 0..200 {
            let before = device.io_counts().blocks_read;
            let seen = filter.contains_many(&keys(&store, [(1 << 40) + i])).unwrap();
            assert_eq!(seen, [false]);
            assert!(device.io_counts().blocks_read - before <= runs, "{runs} runs");
        }
    }
}

#[test]
fn a_sweep_reads_each_block_once() {
    let (device, store, filter) = of_runs(4);
    let blocks = filter.report().flash_bytes / 4096;
    let before = device.io_counts().blocks_read;
    let hashes = keys(&store, (1 << 40)..(1 << 40) + 100_000);
    filter.contains_many(&hashes).unwrap();
    let read = device.io_counts().blocks_read - before;
    // Rounds meet in a block of each run.
    let rounds = 100_000 / filter.shared().options.questions() as u64 + 1;
    assert!(read <= blocks + 4 * rounds, "{read} of {blocks}");
}

#[test]
fn options_out_of_range_are_refused_with_a_remedy() {
    let (_, store) = simulated(0);
    let wrong = [
        (FilterOptions { keys: 0, ..small() }, "keys"),
        (FilterOptions { false_positive_rate: 0.0, ..small() }, "false_positive_rate"),
        (FilterOptions { false_positive_rate: f64::NAN, ..small() }, "false_positive_rate"),
        (FilterOptions { false_positive_rate: 1e-18, keys: 1 << 40, ..small() }, "false_positive_rate"),
        (FilterOptions { policy: Policy::Tiered { fan_out: 1 }, ..small() }, "fan_out"),
        (FilterOptions { writers: 0, ..small() }, "writers"),
        (FilterOptions { memory_bytes: 1 << 20, ..small() }, "memory_bytes"),
    ];
    for (options, name) in wrong {
        let refused = store.filter("f", options).unwrap_err();
        assert!(matches!(refused, Error::InvalidOption { name: found, .. } if found == name), "{refused}");
    }
    let refused = store.maplet("f", small_maplet(17)).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { name: "value_bits", .. }), "{refused}");
    let filter = store.filter("f", small()).unwrap();
    assert!(matches!(filter.advance(), Err(Error::InvalidOption { name: "panes", .. })));
    store.commit(b"").unwrap();
    drop(filter);
}

#[test]
fn a_flush_and_merges_write_no_more_than_the_plan() {
    let (device, store) = simulated(0);
    let options = FilterOptions { policy: Policy::Tiered { fan_out: 4 }, keys: 1 << 30, ..small() };
    let filter = store.filter("f", options).unwrap();
    let before = device.io_counts().blocks_written;
    let total = 6_000_000u64;
    for from in (0..total).step_by(100_000) {
        filter.insert(&keys(&store, from..from + 100_000)).unwrap();
    }
    filter.flush().unwrap();
    filter.settle().unwrap();
    let written = (device.io_counts().blocks_written - before) as f64 * 4096.0 / total as f64;
    let plan = options.plan(total, 0).unwrap();
    assert!(written <= 1.1 * plan.writes_a_key, "{written} bytes a key, {plan:?}");
}
