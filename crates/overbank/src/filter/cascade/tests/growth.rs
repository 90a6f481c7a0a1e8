//! More keys than expected, windows, and streams longer than the memory.

use super::*;
use crate::filter::cascade::Arrivals;

/// The most false positives among `asked` keys, each with probability `rate`, but for one run in 10^9: Chernoff's bound,
/// `exp(-mean ((1 + d) ln(1 + d) - d)) <= 1e-9`.
pub(super) fn most_false(asked: u64, rate: f64) -> u64 {
    let mean = asked as f64 * rate;
    let exceeds = |most: u64| {
        let d = most as f64 / mean - 1.0;
        d > 0.0 && mean * ((1.0 + d) * (1.0 + d).ln() - d) >= 9.0 * 10f64.ln()
    };
    (mean as u64..).find(|&most| exceeds(most)).unwrap()
}

#[test]
fn more_keys_than_expected_keep_the_rate() {
    let (_, store) = simulated(0);
    let options = FilterOptions { keys: 300, false_positive_rate: 0.01, ..small() };
    let filter = store.filter("f", options).unwrap();
    let mut inserted = 0;
    for size in [200, 300, 2_000, 20_000, 50_000] {
        filter.insert(&keys(&store, inserted..inserted + size)).unwrap();
        inserted += size;
        filter.flush().unwrap();
    }
    assert!(filter.contains_many(&keys(&store, 0..inserted)).unwrap().iter().all(|&there| there));
    let report = filter.report();
    assert!(report.generation >= 2 && report.fullness > 200.0, "{report:?}");
    assert!(report.false_positive_rate <= 0.01, "{report:?}");
    let asked = 200_000;
    let others = keys(&store, 1 << 40..(1 << 40) + asked);
    let wrong = filter.contains_many(&others).unwrap().iter().filter(|&&there| there).count() as u64;
    assert!(wrong <= most_false(asked, report.false_positive_rate), "{wrong} of {asked}, {report:?}");
    // What was inserted before, with shorter fingerprints, is not inserted again.
    let mask = filter.insert_if_absent(&keys(&store, 0..inserted)).unwrap();
    assert!(mask.iter().all(|&is_new| !is_new));
}

#[test]
fn a_window_forgets_what_is_older_than_its_panes() {
    let (device, mut store) = simulated(0);
    let options = FilterOptions { panes: 3, keys: 1 << 30, false_positive_rate: 1e-6, ..small() };
    let mut filter = store.filter("f", options).unwrap();
    for pane in 0u64..7 {
        for part in 0..3 {
            filter.insert(&keys(&store, pane * 300 + part * 100..pane * 300 + (part + 1) * 100)).unwrap();
            filter.flush().unwrap();
        }
        if pane % 2 == 0 {
            store.commit(b"").unwrap();
            drop((filter, store));
            store = Store::open_on(device.clone(), store_options(0)).unwrap();
            filter = store.filter("f", options).unwrap();
        }
        let seen = filter.contains_many(&keys(&store, 0..2_100)).unwrap();
        let expected: Vec<bool> = (0..2_100).map(|key| key / 300 <= pane && key / 300 + 3 > pane).collect();
        assert_eq!(seen, expected, "in pane {pane}");
        filter.advance().unwrap();
        filter.settle().unwrap();
        let runs = filter.report().runs;
        assert!(runs.iter().all(|run| run.pane + 3 > pane + 1), "{runs:?}");
        // A pane that gets no more entries is one run.
        assert!(runs.len() <= 2, "{runs:?}");
    }
    let refused = filter.remove(&keys(&store, 0..1));
    assert!(matches!(refused, Err(crate::Error::InvalidOption { name: "remove", .. })));
}

#[test]
fn a_stream_longer_than_the_memory_is_seen_whole() {
    for (threads, policy) in [(0, Policy::Tiered { fan_out: 3 }), (2, Policy::LazyLevelled { fan_out: 3 })] {
        let store = Store::in_memory(store_options(threads)).unwrap();
        let options = FilterOptions { policy, keys: 1 << 30, false_positive_rate: 1e-9, ..small() };
        let filter = store.filter("f", options).unwrap();
        let mut arrivals = Arrivals::new(9 << 20).unwrap();
        let mut new = 0;
        let total = 12_000_000u64;
        for from in (0..total).step_by(100_000) {
            // Each key comes twice: at once, or long after.
            let hashes = keys(&store, (from..from + 100_000).map(|i| if i % 4 < 2 { i / 2 } else { i / 3 }));
            let mut rest = &hashes[..];
            while !rest.is_empty() {
                let taken = arrivals.push(rest);
                rest = &rest[taken..];
                if arrivals.is_full() || from + 100_000 == total {
                    let mask = arrivals.insert_if_absent(&filter).unwrap();
                    new += mask.iter().filter(|&&is_new| is_new).count();
                }
            }
        }
        let expected: std::collections::HashSet<u64> =
            (0..total).map(|i| if i % 4 < 2 { i / 2 } else { i / 3 }).collect();
        let report = filter.report();
        // At 1e-9 and 10^7 keys, one wrong answer has a probability of 1 %, two of less than 1e-4; the seed is fixed.
        assert!(expected.len() - new <= 1, "{} of {}", new, expected.len());
        // All went to flash; whether rest between two rounds made one run of it, the machine decides.
        assert!(report.runs.iter().map(|run| run.fingerprints).sum::<u64>() > 4_000_000, "{report:?}");
        assert!(report.memory_bytes <= options.memory_bytes, "{report:?}");
    }
}
