//! Flash that merging takes beside the filter, counted on a device that has no more; and merges that go on after a restart.

use super::*;

fn long() -> FilterOptions {
    FilterOptions {
        keys: 1 << 30,
        false_positive_rate: 1e-6,
        policy: Policy::Tiered { fan_out: 4 },
        ..small()
    }
}

/// A filter of six runs on two levels, on a device that holds a seventh more.
fn of_two_levels(commits: bool) -> (Arc<SimDevice>, Store, Filter, u64) {
    let (device, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    let keys_a_run = filter.shared().tree.limits.flush_entries;
    for run in 0..15 {
        for from in (run * keys_a_run..(run + 1) * keys_a_run).step_by(1 << 16) {
            let to = (from + (1 << 16)).min((run + 1) * keys_a_run);
            filter.insert(&keys(&store, from..to)).unwrap();
        }
        filter.flush().unwrap();
        filter.settle().unwrap();
        if commits {
            store.commit(&run.to_le_bytes()).unwrap();
        }
    }
    (device, store, filter, 15 * keys_a_run)
}

#[test]
fn merging_all_takes_a_seventh_of_the_flash_beside() {
    for commits in [false, true] {
        let (device, store, filter, taken) = of_two_levels(commits);
        let runs = filter.report().runs.len();
        assert!((4..=8).contains(&runs), "{runs} runs");
        let used = device.used_bytes();
        device.set_capacity_bytes(used / 100 * 115);
        filter.compact().unwrap();
        let report = filter.report();
        assert!(
            report.runs.len() == 1 && report.stalled.is_none() && report.occurrences == taken,
            "{report:?}"
        );
        let published = filter.shared().tree.published();
        assert_eq!(published > 10, commits, "{published} records");
        let plan = long().plan(taken, 0).unwrap();
        assert!(
            used / 100 * 115 <= plan.flash_peak_bytes && plan.flash_peak_bytes < 2 * used,
            "{used} {plan:?}"
        );
        let there = keys(&store, (0..taken).step_by(10_007));
        assert!(filter.contains_many(&there).unwrap().iter().all(|&there| there));
        store.commit(b"end").unwrap();
        assert!(device.used_bytes() <= used / 50 * 51);
    }
}

#[test]
fn a_merge_that_was_cut_off_goes_on_after_a_restart() {
    let (device, store) = simulated(0);
    let filter = store.filter("f", long()).unwrap();
    for run in 0..3u64 {
        filter.insert(&keys(&store, run * 500_000..(run + 1) * 500_000)).unwrap();
        filter.flush().unwrap();
    }
    filter.settle().unwrap();
    store.commit(b"whole").unwrap();
    let all = device.used_bytes() / 4096;
    let before = device.io_counts().blocks_read;
    // Three quarters of a merge of everything.
    filter.shared().tree.begin_all();
    while device.io_counts().blocks_read - before < all * 3 / 4 {
        assert!(filter.shared().tree.step(true).unwrap());
    }
    store.commit(b"half").unwrap();
    let report = filter.report();
    assert_eq!(report.occurrences, 1_500_000);
    let there = keys(&store, (0..1_500_000).step_by(997));
    for is_crash in [false, true] {
        let image = Arc::new(match is_crash {
            false => device.fork(),
            true => device.crash(crate::device::sim::Plan::Nothing, 1),
        });
        let store = Store::open_on(image.clone(), store_options(0)).unwrap();
        let filter = store.filter("f", small()).unwrap();
        // Lookups would have fronts made, by a scan of all.
        filter.shared().tree.table.fronts.limit(0);
        assert_eq!(filter.report().occurrences, 1_500_000);
        assert_eq!(filter.count_many(&there).unwrap(), vec![1; there.len()]);
        // One at a time, of each run one piece is asked, on either side of the border.
        assert!(there.iter().all(|&hash| filter.count(hash).unwrap() == 1));
        let before = image.io_counts().blocks_read;
        filter.settle().unwrap();
        let read = image.io_counts().blocks_read - before;
        assert!(read < all * 2 / 5, "{read} of {all} blocks are read again");
        let report = filter.report();
        assert!(report.runs.len() == 1 && report.occurrences == 1_500_000, "{report:?}");
        assert_eq!(filter.count_many(&there).unwrap(), vec![1; there.len()]);
        store.commit(b"one").unwrap();
    }
}

#[test]
fn a_filter_whose_writers_rest_comes_to_two_runs_by_itself() {
    let (device, store) = simulated(2);
    let options = FilterOptions { policy: Policy::Tiered { fan_out: 64 }, ..long() };
    let filter = store.filter("f", options).unwrap();
    for run in 0..8u64 {
        filter.insert(&keys(&store, run * 50_000..(run + 1) * 50_000)).unwrap();
        filter.flush().unwrap();
    }
    while filter.report().runs.len() > 2 {
        std::thread::yield_now();
    }
    let there = keys(&store, (0..400_000).step_by(997));
    assert_eq!(filter.count_many(&there).unwrap(), vec![1; there.len()]);
    store.commit(b"").unwrap();
    drop((filter, store));
    // Who may not write merges nothing.
    let store = Store::open_read_only_on(device, store_options(2)).unwrap();
    let filter = store.filter("f", small()).unwrap();
    assert!(!filter.shared().tree.is_served());
}
