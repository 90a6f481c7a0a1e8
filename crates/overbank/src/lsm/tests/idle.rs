//! Merges that go on while writers rest: to two runs at most, at a bounded cost, stopped by the first insert, and resumed.

use super::Random;
use super::kv::{Kv, key, limits, simulated, store_options};
use crate::device::sim::SimDevice;
use crate::lsm::picker::{Shape, restful};
use crate::lsm::run::Span;
use crate::lsm::{Limits, Order, Policy};
use crate::store::Store;
use std::sync::Arc;

/// Runs that are merged only while writers rest.
const POLICY: Policy = Policy::Tiered { fan_out: 64 };

fn small() -> Limits {
    Limits { frozen_bytes: 256 << 10, lane_entries_min: 16, piece_bytes_min: 64 << 10, ..limits() }
}

/// A table of so many runs of 80 keys.
fn of_runs(store: &Store, runs: u64) -> Arc<Kv> {
    let kv = Kv::open_with(store, POLICY, small()).unwrap();
    for run in 0..runs {
        put_run(&kv, run);
    }
    kv
}

fn put_run(kv: &Kv, run: u64) {
    for number in 0..80 {
        kv.put(key(80 * run + number), Some(run)).unwrap();
    }
    kv.flush().unwrap();
}

fn runs(kv: &Kv) -> usize {
    kv.tree.version().runs.len()
}

fn check(kv: &Kv, runs: u64) {
    kv.check();
    let found = kv.scan(0..=u64::MAX).unwrap();
    assert_eq!(found.len() as u64, 80 * runs);
    assert!((0..80 * runs).step_by(7).all(|number| kv.get(key(number)).unwrap() == Some(number / 80)));
}

/// Looks until nothing is left to do, as the store's threads do; returns how often.
fn rest(kv: &Kv) -> usize {
    let mut looks = 1;
    while kv.tree.rest() {
        while kv.tree.step(true).unwrap() {}
        looks += 1;
    }
    looks
}

#[test]
fn while_writers_rest_all_becomes_two_runs_at_most() {
    let (_device, store) = simulated(0);
    let kv = of_runs(&store, 12);
    assert_eq!(runs(&kv), 12);
    rest(&kv);
    assert_eq!(runs(&kv), 1);
    check(&kv, 12);
    // One that is short beside the other stays, and with a third one it becomes one.
    put_run(&kv, 12);
    rest(&kv);
    assert_eq!(runs(&kv), 2);
    check(&kv, 13);
}

#[test]
fn the_first_insert_stops_a_merge_that_is_not_due_and_what_it_published_stays() {
    let (_device, store) = simulated(0);
    let kv = of_runs(&store, 12);
    kv.tree.rest();
    assert!(kv.tree.rest(), "there is something to do");
    let mut steps = 0;
    // A first run gives nothing back before all is merged, so a commit publishes what is done.
    while kv.tree.version().merges.is_empty() {
        assert!(kv.tree.step(true).unwrap(), "all is merged");
        steps += 1;
        store.commit(&[steps]).unwrap();
    }
    kv.put(key(5), Some(0)).unwrap();
    assert!(!kv.tree.step(true).unwrap(), "a step began though a writer inserts");
    let border = kv.tree.version().merges[0].border;
    assert!(border > 0);
    check(&kv, 12);
    // A look sees the insert, the next that there was none since.
    assert!(kv.tree.rest());
    assert!(!kv.tree.step(true).unwrap());
    assert!(kv.tree.rest());
    assert!(kv.tree.step(true).unwrap());
    assert!(kv.tree.version().merges[0].border >= border);
    rest(&kv);
    assert_eq!(runs(&kv), 1);
    check(&kv, 12);
}

#[test]
fn what_a_restart_cut_off_goes_on_while_writers_rest() {
    let (device, store) = simulated(0);
    let kv = of_runs(&store, 12);
    kv.tree.rest();
    kv.tree.rest();
    while kv.tree.version().merges.is_empty() {
        assert!(kv.tree.step(true).unwrap());
        store.commit(b"").unwrap();
    }
    drop((kv, store));
    let store = Store::open_on(device, store_options(0)).unwrap();
    let kv = Kv::open_with(&store, POLICY, small()).unwrap();
    assert_eq!(kv.tree.version().merges.len(), 1);
    rest(&kv);
    assert_eq!((runs(&kv), kv.tree.version().merges.len()), (1, 0));
    check(&kv, 12);
}

#[test]
fn a_merge_that_is_due_goes_before_one_that_is_not() {
    let (_device, store) = simulated(0);
    let policy = Policy::Tiered { fan_out: 4 };
    let kv = Kv::open_with(&store, policy, small()).unwrap();
    (0..3).for_each(|run| put_run(&kv, run));
    kv.tree.rest();
    kv.tree.rest();
    assert!(kv.tree.step(true).unwrap());
    for run in 3..12 {
        put_run(&kv, run);
        check(&kv, run + 1);
    }
    kv.compact().unwrap();
    assert_eq!(runs(&kv), 1);
    check(&kv, 12);
}

#[test]
fn a_full_disk_ends_the_merges_that_are_not_due_and_nothing_else() {
    let (device, store) = simulated(0);
    let kv = of_runs(&store, 12);
    device.set_capacity_bytes(device.used_bytes() + (8 << 10));
    kv.tree.rest();
    assert!(kv.tree.rest());
    while kv.tree.step(true).is_ok_and(|did| did) {}
    let waits = kv.tree.state().waits_for_space();
    assert!(waits && !kv.tree.rest(), "it is tried again and again");
    assert_eq!(runs(&kv), 12);
    check(&kv, 12);
    device.set_capacity_bytes(u64::MAX);
    put_run(&kv, 12);
    rest(&kv);
    assert_eq!(runs(&kv), 1);
    check(&kv, 13);
}

fn written(device: &SimDevice) -> u64 {
    device.io_counts().blocks_written
}

#[test]
fn bursts_with_pauses_between_them_are_rewritten_a_bounded_number_of_times() {
    let (device, store) = simulated(0);
    let kv = Kv::open_with(&store, POLICY, small()).unwrap();
    let before = written(&device);
    for run in 0..160 {
        put_run(&kv, run);
        // A pause of some looks.
        kv.tree.rest();
        for _ in 0..4 {
            kv.tree.rest();
            while kv.tree.step(true).unwrap() {}
        }
    }
    let blocks = kv.tree.version().flash_bytes() / 4096;
    let times = (written(&device) - before) / blocks;
    println!("each block was written {times} times");
    // Eight times for each factor of eight, of which there are less than three, and as much for flushes and short pieces.
    assert!(times <= 30, "{times} times");
    assert!(runs(&kv) <= 4, "{} runs", runs(&kv));
    rest(&kv);
    assert!(runs(&kv) <= 2);
    check(&kv, 160);
}

#[test]
fn each_run_is_an_eighth_of_the_one_before_in_the_end_and_there_are_two_for_who_is_patient() {
    for seed in 0..5_000 {
        let mut random = Random(seed);
        let mut runs: Vec<Shape<u64>> = (0..1 + random.below(12))
            .map(|id| {
                let most = 1 << random.below(30);
                let bytes = 1 + random.below(most);
                let span = Span { oldest: id, newest: id };
                Shape {
                    id,
                    class: 0,
                    span,
                    level: 0,
                    entries: bytes,
                    bytes,
                    longest_piece: bytes,
                    is_busy: false,
                }
            })
            .collect();
        let order = if seed % 2 == 0 { Order::Sums } else { Order::NewestWins };
        let is_patient = seed % 3 == 0;
        let mut merges = 0;
        while let Some(choice) = restful(order, &runs, |class| class, is_patient) {
            let (inputs, others): (Vec<Shape<u64>>, Vec<Shape<u64>>) =
                runs.iter().partition(|run| choice.inputs.contains(&run.id));
            assert!(inputs.len() > 1);
            let span = Span::joined(inputs.iter().map(|run| run.span)).unwrap();
            if order == Order::NewestWins {
                assert!(others.iter().all(|other| !span.overlaps(other.span)), "seed {seed}: {choice:?}");
            }
            let bytes = inputs.iter().map(|run| run.bytes).sum();
            runs = others;
            runs.push(Shape { span, bytes, ..inputs[0] });
            runs.sort_by_key(|run| run.span.newest);
            merges += 1;
            assert!(merges < 20);
        }
        let mut sizes: Vec<u64> = runs.iter().map(|run| run.bytes).collect();
        if order == Order::Sums {
            sizes.sort_unstable_by_key(|&bytes| std::cmp::Reverse(bytes));
        }
        assert!(sizes.windows(2).all(|pair| pair[1] < pair[0].div_ceil(8)), "seed {seed}: {sizes:?}");
        assert!(!is_patient || sizes.len() <= 2, "seed {seed}: {sizes:?}");
    }
}
