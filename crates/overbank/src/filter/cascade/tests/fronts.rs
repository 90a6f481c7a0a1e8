//! Fronts: blocks counted with them, and what becomes of them when runs come and go and memory is short.

use super::*;

/// A filter of `runs` runs of 30,000 keys, whose fronts have `front_bytes` at most; one key was looked up, so fronts are there.
fn with_fronts(runs: u64, front_bytes: usize, threads: usize) -> (Arc<SimDevice>, Store, Filter) {
    let (device, store, filter) = of_equal_runs(runs, front_bytes, threads);
    assert!(filter.report().runs.iter().all(|run| run.front_bits == 0.0), "nobody asked");
    filter.contains_many(&keys(&store, [1 << 40])).unwrap();
    filter.settle().unwrap();
    (device, store, filter)
}

/// Blocks read a key, asked for one by one.
fn blocks(device: &SimDevice, store: &Store, filter: &Filter, from: u64, asked: u64) -> f64 {
    let before = device.io_counts().blocks_read;
    for key in from..from + asked {
        filter.contains_many(&keys(store, [key])).unwrap();
    }
    (device.io_counts().blocks_read - before) as f64 / asked as f64
}

#[test]
fn five_bits_a_key_leave_three_tenths_of_a_block_a_miss() {
    // An eighth of the memory is for merges that fill fronts, and the fences take 4.5 bytes a block.
    let front_bytes = (3 * 30_000 * 5 / 8 + 2000) * 8 / 7;
    let (device, store, filter) = with_fronts(3, front_bytes, 0);
    let report = filter.report();
    assert!(
        report.runs.len() == 3 && report.runs.iter().all(|run| (4.9..=5.2).contains(&run.front_bits)),
        "{report:?}"
    );
    let miss = blocks(&device, &store, &filter, 1 << 41, 30_000);
    // 90,000 questions to a front pass with 0.0929: 0.279 blocks a miss, and 0.3 with a probability of 4e-12 (Chernoff, in its exact form).
    assert!(miss <= 0.3, "{miss} blocks a miss");
    // One run, and the rate of the others.
    let hit = blocks(&device, &store, &filter, 0, 3000);
    assert!((1.0..=1.24).contains(&hit), "{hit} blocks a hit");
    // A compacted filter has one run, with a front that the merge filled or a scan made.
    filter.compact().unwrap();
    let [run] = filter.report().runs[..] else { panic!("one run") };
    assert!((4.9..=5.3).contains(&run.front_bits), "{run:?}");
    let miss = blocks(&device, &store, &filter, 1 << 42, 3000);
    assert!(miss <= 0.13, "{miss} blocks a miss");
    let seen = filter.contains_many(&keys(&store, 0..90_000)).unwrap();
    assert!(seen.iter().all(|&there| there));
}

#[test]
fn a_sweep_reads_fewer_blocks() {
    let asked = |front_bytes: usize| {
        let (device, store, filter) = with_fronts(2, front_bytes, 0);
        let hashes = keys(&store, (1 << 41)..(1 << 41) + 12);
        let before = device.io_counts().blocks_read;
        let new = filter.insert_if_absent(&hashes).unwrap();
        assert!(new.iter().all(|&is_new| is_new));
        device.io_counts().blocks_read - before
    };
    let (without, with) = (asked(0), asked(1 << 20));
    assert!(without >= 12 && with * 2 <= without, "{with} of {without}");
}

#[test]
fn fronts_are_made_by_lookups_or_the_background_and_never_beyond_their_memory() {
    for threads in [0, 2] {
        let budget = 60_000;
        let (_, store, filter) = with_fronts(2, budget, threads);
        for turn in 2..12u64 {
            filter.insert(&keys(&store, turn * 30_000..(turn + 1) * 30_000)).unwrap();
            filter.flush().unwrap();
            for key in 0..50 {
                filter.contains_many(&keys(&store, [key << 30])).unwrap();
            }
            filter.settle().unwrap();
            let report = filter.report();
            let bits: f64 = report.runs.iter().map(|run| run.front_bits * run.fingerprints as f64).sum();
            assert!(bits / 8.0 <= budget as f64 + 64.0 * report.runs.len() as f64, "{bits} bits, {report:?}");
            assert!(bits > 0.0, "{report:?}");
            let seen = filter.contains_many(&keys(&store, 0..(turn + 1) * 30_000)).unwrap();
            assert!(seen.iter().all(|&there| there));
        }
        let version = Arc::clone(filter.shared().state().version());
        let all: usize =
            version.runs.iter().flat_map(|run| &run.pieces).map(|piece| piece.front_bytes()).sum();
        assert!(all <= budget + 64 * version.runs.len());
    }
}

#[test]
fn a_filter_that_is_opened_makes_fronts_with_the_memory_that_it_has() {
    let (device, store, filter) = with_fronts(2, 0, 0);
    store.commit(b"").unwrap();
    drop((filter, store));
    let store = Store::open_read_only_on(device.clone(), store_options(0)).unwrap();
    let filter = store.filter("f", small()).unwrap();
    // Each lookup scans a part.
    let first = blocks(&device, &store, &filter, 1 << 41, 100);
    let report = filter.report();
    assert!(report.runs.iter().all(|run| run.front_bits > 9.0), "{report:?} after {first} blocks a lookup");
    let miss = blocks(&device, &store, &filter, 1 << 42, 3000);
    // 6,000 questions pass with 0.0096: 57 expected, and 2.2 times as many with a probability of 1e-9.
    assert!(miss <= 0.042, "{miss} blocks a miss");
}

#[test]
fn removals_behind_a_front_are_seldom_read() {
    let (device, store, filter) = with_fronts(2, 1 << 20, 0);
    filter.remove(&keys(&store, 0..5000)).unwrap();
    filter.flush().unwrap();
    filter.settle().unwrap();
    assert!(filter.report().runs.iter().all(|run| run.front_bits > 9.0));
    let hit = blocks(&device, &store, &filter, 30_000, 2000);
    assert!(hit <= 1.06, "{hit} blocks a hit");
    let seen = filter.contains_many(&keys(&store, 0..60_000)).unwrap();
    assert!((0..60_000).all(|key| seen[key] == (key >= 5000)));
}
