//! Writers side by side, and passes in lanes: what they count does not depend on how many there are.

use super::*;
use crate::device::memory::MemoryDevice;
use crate::device::sim::{Fault, FaultKind};
use crate::device::{Access, Device};
use crate::frequency::intake::begin_with_slot;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sketch of 40 groups that flushes every two thousand updates or so, in a store with threads.
fn threaded(writers: usize, pending: usize) -> FrequencyOptions {
    let memory = 2_700_000 * writers + (1 << 20);
    FrequencyOptions::new()
        .shape(204 * 160, 5)
        .group_pages(4)
        .memory_bytes(memory)
        .pending(pending)
        .writers(writers)
}

fn add(writer: &Frequency, store: &Store, thread: u64) {
    for batch in 0..150 {
        let hashes = keys(store, (0..700).map(|i| (thread * 7 + batch * 131 + i) % 40_000));
        if batch % 5 == 4 {
            let weights: Vec<u64> = (0..700).map(|i| i % 3).collect();
            writer.update(&hashes, Some(&weights)).unwrap();
        } else {
            writer.update(&hashes, None).unwrap();
        }
    }
}

fn model_of(store: &Store, threads: u64) -> Model {
    let mut model = Model::default();
    for thread in 0..threads {
        for batch in 0..150 {
            let hashes = keys(store, (0..700).map(|i| (thread * 7 + batch * 131 + i) % 40_000));
            let weight = |i: usize| if batch % 5 == 4 { i as u64 % 3 } else { 1 };
            hashes.iter().enumerate().for_each(|(i, &hash)| model.add(hash, weight(i)));
        }
    }
    model
}

#[test]
fn writers_side_by_side_count_what_one_would_while_others_ask_and_commit() {
    for (writers, threads, pending) in [(1, 1, 4), (2, 2, 3), (3, 3, 0), (2, 4, 1)] {
        let device = Arc::new(MemoryDevice::new());
        let options = || StoreOptions::new().threads(2).seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::create_on(device.clone(), options()).unwrap();
        let sketch = store.frequency("f", threaded(writers, pending)).unwrap();
        let (model, is_done) = (model_of(&store, threads), AtomicBool::new(false));
        let probes = keys(&store, 0..300);
        let most = model.estimates(&sketch, &store.hasher(), &probes);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut before = vec![0; probes.len()];
                let mut number = 0u64;
                while !is_done.load(Ordering::Relaxed) {
                    let now = sketch.estimate(&probes).unwrap();
                    // While a pass is under way, what the buffers held waits for it too.
                    assert!(sketch.pending_chunks() <= pending + writers);
                    let grows = before.iter().zip(&now).zip(&most).all(|((a, b), c)| a <= b && b <= c);
                    assert!(grows, "an estimate shrank, or is above the last one");
                    before = now;
                    number += 1;
                    store.commit(&number.to_le_bytes()).unwrap();
                }
            });
            let adding: Vec<_> = (0..threads)
                .map(|thread| {
                    let writer = sketch.clone();
                    let store = &store;
                    scope.spawn(move || add(&writer, store, thread))
                })
                .collect();
            adding.into_iter().for_each(|thread| thread.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
            asking.join().unwrap();
        });
        let all: Vec<KeyHash> = model.counts.keys().copied().collect();
        compare(&store, &sketch, &model, &all);
        assert_eq!(sketch.total_weight(), model.counts.values().sum::<u64>());
        store.commit(b"end").unwrap();
        drop((sketch, store));
        let store = Store::open_on(device, options()).unwrap();
        compare(&store, &store.frequency("f", FrequencyOptions::new()).unwrap(), &model, &all);
    }
}

#[test]
fn lanes_side_by_side_write_what_one_lane_would() {
    let answers = |threads: usize| {
        let options = StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::in_memory(options).unwrap();
        let sketch = store.frequency("f", threaded(1, 2)).unwrap();
        let hashes = keys(&store, 0..30_000);
        for _ in 0..3 {
            sketch.update(&hashes, None).unwrap();
            sketch.apply().unwrap();
        }
        store.commit(b"").unwrap();
        assert!(store.verify().unwrap().is_whole());
        let extents = sketch.sketch.extents();
        assert!(extents <= 2 * 40 + 8, "{extents} extents for 40 groups");
        sketch.estimate(&keys(&store, 0..40_000)).unwrap()
    };
    assert_eq!(answers(0), answers(3));
}

#[test]
fn a_lane_that_finds_the_disk_full_stops_the_pass_and_the_next_one_ends_it() {
    for lanes in [1, 2, 5] {
        let device = Arc::new(SimDevice::new(1));
        let store = Store::create_on(device.clone(), store_options()).unwrap();
        let sketch = store.frequency("f", threaded(1, 3)).unwrap();
        sketch.sketch.lanes_max.store(lanes, Ordering::Relaxed);
        let mut model = Model::default();
        let hashes = keys(&store, 0..30_000);
        for turn in 0..4 {
            sketch.update(&hashes, None).unwrap();
            hashes.iter().for_each(|&hash| model.add(hash, 1));
            sketch.sketch.flush().unwrap();
            let operation = device.changes() + 7 * (turn + 1);
            device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: true });
            assert!(matches!(sketch.apply(), Err(Error::Full { .. })), "{lanes} lanes, {turn}");
            compare(&store, &sketch, &model, &hashes);
            device.heal();
            sketch.apply().unwrap();
            compare(&store, &sketch, &model, &hashes);
            store.commit(&[turn as u8]).unwrap();
        }
        assert!(store.verify().unwrap().is_whole());
        drop((sketch, store));
        let store = Store::open_on(device, store_options()).unwrap();
        compare(&store, &store.frequency("f", FrequencyOptions::new()).unwrap(), &model, &hashes);
    }
}

#[test]
fn rounds_read_ahead_answer_what_rounds_read_in_turn_would() {
    for record_bytes in [4, 8] {
        let device = Arc::new(MemoryDevice::new());
        let options = |threads| StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::create_on(device.clone(), options(2)).unwrap();
        let wide = threaded(1, 3).shape(204 * 1000, 5).record_bytes(record_bytes);
        let sketch = store.frequency("f", wide).unwrap();
        // Keys come twice in the batch, and wait in pages, logs and the buffer.
        let mut hashes = keys(&store, 0..60_000);
        for turn in 0..3 {
            sketch.update(&hashes, None).unwrap();
            match turn {
                0 => sketch.apply().unwrap(),
                1 => sketch.sketch.flush().unwrap(),
                _ => {}
            }
        }
        hashes.extend(keys(&store, 50_000..70_000));
        let ahead = sketch.estimate(&hashes).unwrap();
        sketch.sketch.lanes_max.store(1, Ordering::Relaxed);
        assert_eq!(sketch.estimate(&hashes).unwrap(), ahead);
        let one_by_one: Vec<u64> =
            hashes.iter().step_by(997).map(|&h| sketch.estimate(&[h]).unwrap()[0]).collect();
        assert!(one_by_one.iter().eq(ahead.iter().step_by(997)));
        store.commit(b"").unwrap();
        drop((sketch, store));
        // A store that is only read has no workers, and reads ahead all the same where it may start threads.
        for threads in [0, 2] {
            let store = Store::open_read_only_on(device.clone(), options(threads)).unwrap();
            let sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
            assert_eq!(sketch.sketch.lanes_max.load(Ordering::Relaxed) > 1, threads > 0);
            assert_eq!(sketch.estimate(&hashes).unwrap(), ahead);
        }
        // An unreadable page ends the batch on either path.
        let name = device
            .list()
            .unwrap()
            .into_iter()
            .find(|name| {
                device.open(name, Access::Read).is_ok_and(|file| file.len_bytes().unwrap() >= 4000 << 10)
            })
            .unwrap();
        let file = device.open(&name, Access::Write).unwrap();
        file.write(2 << 20, &[0; 4096 * 64]).unwrap();
        for threads in [0, 2] {
            let store = Store::open_read_only_on(device.clone(), options(threads)).unwrap();
            let sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
            assert!(matches!(sketch.estimate(&hashes), Err(Error::Corrupt { .. })));
        }
    }
}

#[test]
fn logs_of_writers_side_by_side_are_in_the_order_of_their_sequences() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), StoreOptions::new().seed(Seed(7))).unwrap();
    let sketch = store.frequency("f", threaded(4, 100)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (writer, store) = (sketch.clone(), &store);
            // Keys that come once cannot be joined: every buffer becomes a log.
            scope.spawn(move || {
                for batch in 0..500 {
                    let first = (thread * 500 + batch) * 2_000;
                    writer.update(&keys(store, first..first + 2_000), None).unwrap();
                }
            });
        }
    });
    assert!(sketch.pending_chunks() >= 16, "{}", sketch.pending_chunks());
    store.commit(b"").unwrap();
    assert!(sketch.sketch.logs().is_sorted_by_key(|log| log.sequence));
    let probes = keys(&store, (0..4_000_000).step_by(1_999));
    let before = sketch.estimate(&probes).unwrap();
    drop((sketch, store));
    let store = Store::open_on(device, StoreOptions::new()).unwrap();
    let sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
    assert_eq!(sketch.estimate(&probes).unwrap(), before);
    assert_eq!(sketch.total_weight(), 4_000_000);
}

#[test]
fn a_fold_beside_writers_loses_nothing() {
    let store =
        Store::in_memory(StoreOptions::new().threads(2).seed(Seed(7)).manifest_bytes(1 << 20)).unwrap();
    let sketch = store.frequency("f", threaded(2, 3)).unwrap();
    let model = model_of(&store, 2);
    let total: u64 = model.counts.values().sum();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (writer, store) = (sketch.clone(), &store);
            scope.spawn(move || add(&writer, store, thread));
        }
        for fold in 1..=4 {
            // Behind an eighth of the weights, two eighths, and so on, however fast they come.
            while sketch.total_weight() < total / 8 * fold {
                std::thread::yield_now();
            }
            sketch.fold().unwrap();
        }
    });
    assert_eq!(sketch.layout().pages(), 160 / 16);
    let all: Vec<KeyHash> = model.counts.keys().copied().collect();
    let estimates = sketch.estimate(&all).unwrap();
    let low = all.iter().zip(&estimates).filter(|(hash, estimate)| **estimate < model.counts[*hash]).count();
    assert_eq!(low, 0, "a weight went to a page of the old shape");
}

#[test]
fn without_threads_passes_and_estimates_are_the_same() {
    for granted in [0, 1] {
        let store = Store::in_memory(store_options().threads(2)).unwrap();
        let sketch = store.frequency("f", small()).unwrap();
        let mut model = Model::default();
        let hashes = keys(&store, (0..20_000).map(|i| i % 9_000));
        crate::device::thread::refusal::after(granted, || {
            sketch.update(&hashes, None).unwrap();
            sketch.apply().unwrap();
        });
        hashes.iter().for_each(|&hash| model.add(hash, 1));
        let expected = model.estimates(&sketch, &store.hasher(), &hashes);
        assert_eq!(sketch.estimate(&hashes).unwrap(), expected);
    }
    // Wide enough that an estimate takes several rounds, of which a thread would read one ahead.
    let store = Store::in_memory(store_options().threads(2)).unwrap();
    let sketch = store.frequency("f", small().shape(204 * 600, 5)).unwrap();
    let hashes = keys(&store, 0..9_000);
    sketch.update(&hashes, None).unwrap();
    sketch.apply().unwrap();
    let with_threads = sketch.estimate(&hashes).unwrap();
    let without = crate::device::thread::refusal::after(0, || sketch.estimate(&hashes).unwrap());
    assert_eq!(without, with_threads);
}

#[test]
fn what_one_writer_added_another_takes_off_wherever_it_waits() {
    for (pending, bits) in [(0, 32), (2, 32), (100, 32), (2, 8)] {
        let device = Arc::new(MemoryDevice::new());
        let options = || StoreOptions::new().seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::create_on(device.clone(), options()).unwrap();
        let sketch = store.frequency("f", threaded(3, pending).cell_bits(bits)).unwrap();
        // The first slot's buffer is that of removals.
        let hashes = keys(&store, 0..30);
        let others = keys(&store, 100_000..160_000);
        let check = |sketch: &Frequency, left: u64, when: &str| {
            let bounds = sketch.bounds(&hashes, 0.95).unwrap();
            let wrong = bounds.iter().find(|bounds| bounds.upper < left || bounds.lower > left);
            assert!(wrong.is_none(), "{when}, {pending} pending, {bits} bits: {wrong:?}, {left} are in");
        };
        for turn in 0..4u64 {
            for slot in 1..3 {
                begin_with_slot(slot);
                sketch.update(&hashes, Some(&[50; 30])).unwrap();
            }
            sketch.remove(&hashes, Some(&[90; 30])).unwrap();
            check(&sketch, 10 * (turn + 1), "in buffers");
            if turn % 2 == 0 {
                // Keys that come once fill the first slot's buffer, so that the removals move on.
                begin_with_slot(0);
                others.chunks(5_000).for_each(|part| sketch.update(part, None).unwrap());
                check(&sketch, 10 * (turn + 1), "in a log");
            }
        }
        sketch.sketch.flush().unwrap();
        check(&sketch, 40, "in logs");
        sketch.apply().unwrap();
        check(&sketch, 40, "in pages");
        sketch.remove(&hashes, Some(&[40; 30])).unwrap();
        sketch.apply().unwrap();
        let alone = sketch.bounds(&hashes, 0.95).unwrap();
        assert!(alone.iter().all(|bounds| bounds.lower == 0), "{alone:?}");
    }
}

#[test]
fn a_commit_after_one_that_found_the_disk_full_holds_what_came_between() {
    for (pending, bits) in [(0, 32), (2, 32), (2, 8)] {
        let mut failed = 0;
        for operation in 0..40 {
            let device = Arc::new(SimDevice::new(1));
            let store = Store::create_on(device.clone(), store_options()).unwrap();
            let sketch = store.frequency("f", threaded(2, pending).cell_bits(bits)).unwrap();
            let mut model = Model::default();
            let hashes = keys(&store, 0..2_000);
            let mut add = |slot: usize| {
                begin_with_slot(slot);
                sketch.update(&hashes, None).unwrap();
                hashes.iter().for_each(|&hash| model.add(hash, 1));
            };
            // Logs wait, as many as may.
            for _ in 0..pending {
                add(0);
                sketch.sketch.flush().unwrap();
            }
            add(0);
            add(1);
            let operation = device.changes() + operation;
            device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: true });
            failed += usize::from(store.commit(b"1").is_err());
            device.heal();
            add(0);
            add(1);
            store.commit(b"2").unwrap();
            drop((sketch, store));
            let store = Store::open_on(device, store_options()).unwrap();
            compare(&store, &store.frequency("f", FrequencyOptions::new()).unwrap(), &model, &hashes);
        }
        assert!(failed > 5, "{failed} commits found the disk full");
    }
}
