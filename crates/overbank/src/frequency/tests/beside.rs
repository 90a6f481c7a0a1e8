//! Threads that add, take off, ask, pass and commit at the same time: every estimate lies between what had been counted when it began and
//! what had begun to be counted when it ended.

use super::*;
use crate::device::memory::MemoryDevice;
use crate::frequency::intake::begin_with_slot;
use crate::frequency::table::AT_ONCE;
use std::sync::atomic::{AtomicBool, AtomicU64};

const KEYS: usize = 40;

/// What has begun to be added to each key, or taken off it, and what is done.
struct Tally {
    begun: [AtomicU64; KEYS],
    done: [AtomicU64; KEYS],
}

impl Default for Tallies {
    fn default() -> Self {
        Tallies {
            added: Tally { begun: zeros(), done: zeros() },
            removed: Tally { begun: zeros(), done: zeros() },
        }
    }
}

struct Tallies {
    added: Tally,
    removed: Tally,
}

fn zeros() -> [AtomicU64; KEYS] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn sums(of: &[AtomicU64; KEYS]) -> [u64; KEYS] {
    std::array::from_fn(|key| of[key].load(Ordering::SeqCst))
}

fn note(of: &[AtomicU64; KEYS], batch: &[usize], weights: &[u64]) {
    batch.iter().zip(weights).for_each(|(&key, &weight)| {
        of[key].fetch_add(weight, Ordering::SeqCst);
    });
}

/// One thread's stream: batches of keys with weights, a part of which it takes off again.
fn stream(sketch: &Frequency, hashes: &[KeyHash], tallies: &Tallies, seed: u64, batches: u64) {
    let mut random = Random(seed);
    begin_with_slot(seed as usize);
    for _ in 0..batches {
        let batch: Vec<usize> =
            (0..1 + random.below(300)).map(|_| random.below(KEYS as u64) as usize).collect();
        let these: Vec<KeyHash> = batch.iter().map(|&key| hashes[key]).collect();
        let is_weighted = random.below(2) == 0;
        let weights: Vec<u64> = batch.iter().map(|_| if is_weighted { random.below(5) } else { 1 }).collect();
        note(&tallies.added.begun, &batch, &weights);
        sketch.update(&these, is_weighted.then_some(&weights[..])).unwrap();
        note(&tallies.added.done, &batch, &weights);
        if random.below(4) == 0 {
            note(&tallies.removed.begun, &batch, &weights);
            sketch.remove(&these, Some(&weights)).unwrap();
            note(&tallies.removed.done, &batch, &weights);
        }
    }
}

/// Asks once, and compares.
fn ask(estimate: impl FnOnce() -> Vec<u64>, tallies: &Tallies) {
    let (added, removed) = (sums(&tallies.added.done), sums(&tallies.removed.done));
    let estimates = estimate();
    let (more, less) = (sums(&tallies.added.begun), sums(&tallies.removed.begun));
    for (key, &estimate) in estimates.iter().enumerate() {
        let (least, most) = (added[key].saturating_sub(less[key]), more[key] - removed[key]);
        assert!((least..=most).contains(&estimate), "key {key}: {estimate}, not {least} to {most}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_estimate_is_of_a_moment_of_its_call(
        seed: u64, writers in 1usize..4, threads in 1u64..4, pending in 0usize..4, cell_bits in prop::sample::select(vec![8u32, 32]),
        store_threads in 0usize..2, is_at_once: bool,
    ) {
        let device = Arc::new(MemoryDevice::new());
        let options = StoreOptions::new().threads(store_threads).seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::create_on(device, options).unwrap();
        let shape = FrequencyOptions::new().cell_bits(cell_bits).bytes(160 << 12, 5).group_pages(4).writers(writers);
        let sketch = store.frequency("f", shape.memory_bytes(2_700_000 * writers + (1 << 20)).pending(pending)).unwrap();
        let hashes = keys(&store, 0..KEYS as u64);
        let (tallies, is_done) = (Tallies::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                AT_ONCE.set(is_at_once);
                while !is_done.load(Ordering::SeqCst) {
                    ask(|| sketch.estimate(&hashes).unwrap(), &tallies);
                }
            });
            let keeping = scope.spawn(|| {
                let mut number = 0u64;
                while !is_done.load(Ordering::SeqCst) {
                    match number % 3 {
                        0 => sketch.apply().unwrap(),
                        1 => sketch.sketch.flush().unwrap(),
                        _ => drop(store.commit(&number.to_le_bytes()).unwrap()),
                    }
                    number += 1;
                }
            });
            let work = |thread: u64| stream(&sketch, &hashes, &tallies, seed.wrapping_add(thread), 120);
            let adding: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            let ended = adding.into_iter().map(|thread| thread.join()).collect::<Vec<_>>();
            is_done.store(true, Ordering::SeqCst);
            asking.join().unwrap();
            keeping.join().unwrap();
            ended.into_iter().for_each(|thread| thread.unwrap());
        });
        // Nothing moves now, and forty keys do not meet in every row: the bounds are one number.
        ask(|| sketch.estimate(&hashes).unwrap(), &tallies);
        let left = sums(&tallies.added.done).iter().sum::<u64>() - sums(&tallies.removed.done).iter().sum::<u64>();
        prop_assert_eq!(sketch.total_weight(), left);
        store.commit(b"end").unwrap();
        prop_assert!(store.verify().unwrap().is_whole());
    }
}

#[test]
fn a_window_loses_nothing_while_it_moves_on_beside_writers_and_readers() {
    const PANES: usize = 12;
    let store =
        Store::in_memory(StoreOptions::new().threads(1).seed(Seed(7)).manifest_bytes(1 << 20)).unwrap();
    let shape = FrequencyOptions::new().bytes(64 << 12, 5).group_pages(4).memory_bytes(9 << 20).writers(2);
    let window = store.frequency_window("w", PANES, shape).unwrap();
    let hashes = keys(&store, 0..KEYS as u64);
    let (tallies, is_done, turns) = (Tallies::default(), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                ask(|| window.estimate(&hashes).unwrap(), &tallies);
            }
        });
        let work = |thread: usize| {
            begin_with_slot(thread);
            let batch: Vec<usize> = (0..KEYS).collect();
            for batch_number in 0..400 {
                // No thread runs away from the window: in pane `p` there are at most `80 + 20 p` of the 800, so at least three have some.
                while turns.load(Ordering::SeqCst) < batch_number / 40 {
                    std::thread::yield_now();
                }
                note(&tallies.added.begun, &batch, &[1; KEYS]);
                window.update(&hashes, None).unwrap();
                note(&tallies.added.done, &batch, &[1; KEYS]);
            }
        };
        let adding: Vec<_> = (0..2).map(|thread| scope.spawn(move || work(thread))).collect();
        // Not so often that a pane with counts is forgotten.
        for turn in 1..PANES as u64 {
            while tallies.added.done[0].load(Ordering::SeqCst) < turn * 60 {
                std::thread::yield_now();
            }
            window.advance().unwrap();
            turns.fetch_add(1, Ordering::SeqCst);
        }
        adding.into_iter().for_each(|thread| thread.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        asking.join().unwrap();
    });
    assert_eq!(window.estimate(&hashes).unwrap(), [800; KEYS]);
    let of_panes: Vec<u64> =
        window.panes.iter().map(|pane| pane.estimate(&hashes[..1]).unwrap()[0]).collect();
    assert!(of_panes.iter().filter(|&&count| count > 0).count() >= 3, "{of_panes:?}");
}
