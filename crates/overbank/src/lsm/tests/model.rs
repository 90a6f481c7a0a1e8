//! The law: whatever is frozen, flushed, merged, committed and reopened, and when, the table is the map of its newest entries.

use super::Random;
use super::kv::{Kv, key, simulated, store_options};
use crate::lock::lock;
use crate::lsm::Policy;
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 600;

fn policy(seed: u64) -> Policy {
    match seed % 3 {
        0 => Policy::Tiered { fan_out: 2 },
        1 => Policy::Tiered { fan_out: 4 },
        _ => Policy::LazyLevelled { fan_out: 3 },
    }
}

#[test]
fn any_operations_leave_the_map_of_the_newest_entries() {
    let mut half_done = 0;
    for seed in 0..40 {
        let (device, mut store) = simulated(0);
        let mut kv = Kv::open(&store, policy(seed)).unwrap();
        let (mut model, mut random) = (BTreeMap::new(), Random(seed));
        let mut committed: BTreeMap<u64, u64> = model.clone();
        for turn in 0..1_200 {
            let number = random.below(KEYS);
            match random.below(200) {
                0 => kv.freeze(),
                1 => kv.flush().unwrap(),
                2 if random.below(4) == 0 => kv.compact().unwrap(),
                3..12 => drop(kv.tree.step(true).unwrap()),
                12 => kv.tree.join_frozen().unwrap(),
                13 => {
                    store.commit(&[turn as u8]).unwrap();
                    committed.clone_from(&model);
                }
                14 if random.below(2) == 0 => {
                    drop((kv, store));
                    store = Store::open_on(device.clone(), store_options(0)).unwrap();
                    kv = Kv::open(&store, policy(seed)).unwrap();
                    model.clone_from(&committed);
                }
                15..40 => {
                    assert_eq!(kv.get(key(number)).unwrap(), model.get(&key(number)).copied(), "seed {seed}")
                }
                40..43 => {
                    let from = key(random.below(KEYS));
                    let to = from.saturating_add(1 << 60);
                    let expected: Vec<(u64, u64)> = model.range(from..=to).map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(kv.scan(from..=to).unwrap(), expected, "seed {seed}");
                }
                43..80 => {
                    kv.put(key(number), None).unwrap();
                    model.remove(&key(number));
                }
                _ => {
                    kv.put(key(number), Some(turn)).unwrap();
                    model.insert(key(number), turn);
                }
            }
            kv.check();
            half_done += usize::from(!kv.tree.version().merges.is_empty());
        }
        let all: Vec<(u64, u64)> = model.iter().map(|(key, value)| (*key, *value)).collect();
        assert_eq!(kv.scan(0..=u64::MAX).unwrap(), all, "seed {seed}");
        kv.compact().unwrap();
        assert_eq!(kv.scan(0..=u64::MAX).unwrap(), all, "seed {seed}");
        let version = kv.tree.version();
        // All is in one run, and what was deleted is in none.
        assert!(version.runs.len() <= 1 && version.frozen.is_empty());
        let entries: u64 = version.runs.iter().map(|run| run.entries()).sum();
        assert_eq!(entries, all.len() as u64, "seed {seed}");
    }
    println!("{half_done} looks at merges that are half published");
    assert!(half_done > 500, "{half_done}");
}

#[test]
fn readers_beside_a_writer_see_each_key_as_it_was_last_put() {
    for threads in [0, 1, 3] {
        let (_device, store) = simulated(threads);
        let kv = Kv::open(&store, policy(threads as u64)).unwrap();
        let model: Mutex<BTreeMap<u64, u64>> = Mutex::default();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading: Vec<_> = (0..2)
                .map(|seed| {
                    let (kv, model, is_over) = (&kv, &model, &is_over);
                    scope.spawn(move || {
                        let mut random = Random(seed);
                        let mut seen = 0;
                        while !is_over.load(Ordering::Acquire) {
                            let number = key(random.below(KEYS));
                            // Values of a key only grow: an answer is none older than what was there before it was asked for.
                            let before = lock(model).get(&number).copied();
                            let found = kv.get(number).unwrap();
                            let after = lock(model).get(&number).copied();
                            assert!(
                                before <= found && found <= after.max(before),
                                "{before:?} {found:?} {after:?}"
                            );
                            seen += 1;
                        }
                        seen
                    })
                })
                .collect();
            let mut random = Random(99);
            for turn in 1..12_000 {
                let number = key(random.below(KEYS));
                let mut model = lock(&model);
                kv.put(number, Some(turn)).unwrap();
                model.insert(number, turn);
                drop(model);
                if turn % 1_500 == 0 {
                    store.commit(&turn.to_le_bytes()).unwrap();
                }
            }
            is_over.store(true, Ordering::Release);
            let seen: Vec<u64> = reading.into_iter().map(|reader| reader.join().unwrap()).collect();
            assert!(seen.iter().all(|&seen| seen > 0), "{seen:?}");
        });
        let expected: Vec<(u64, u64)> = lock(&model).iter().map(|(key, value)| (*key, *value)).collect();
        assert_eq!(kv.scan(0..=u64::MAX).unwrap(), expected);
        kv.compact().unwrap();
        assert_eq!(kv.scan(0..=u64::MAX).unwrap(), expected);
    }
}
