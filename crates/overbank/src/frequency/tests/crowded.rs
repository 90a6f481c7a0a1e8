//! Many writers in as little memory as there may be, and options at their ends: everything ends, and nothing is lost. No test here looks
//! at a clock: what would wait for room that never comes hangs.

use super::*;
use crate::device::memory::MemoryDevice;
use crate::frequency::intake::begin_with_slot;
use crate::frequency::saved::least_bytes;
use crate::lock::{lock, read};

const THREADS: u64 = 16;

/// A store, and a sketch of `options` with the least memory that so many writers and logs need.
fn crowded(options: FrequencyOptions, writers: usize, pending: usize) -> (Store, Frequency) {
    let least = least_bytes(options.to_shape().unwrap(), pending, writers);
    let room = StoreOptions::new().threads(2).seed(Seed(7)).manifest_bytes(1 << 20).memory_bytes(least);
    let store = Store::create_on(Arc::new(MemoryDevice::new()), room).unwrap();
    let options = options.writers(writers).pending(pending);
    assert!(store.frequency("f", options.clone().memory_bytes(least - 1)).is_err());
    let sketch = store.frequency("f", options.memory_bytes(least)).unwrap();
    (store, sketch)
}

/// Runs `work` in all threads at the same time.
fn together(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn sixteen_writers_with_the_least_memory_end_and_lose_nothing() {
    let shape = || FrequencyOptions::new().shape(204 * 60, 5).group_pages(4);
    for (writers, pending) in [(16, 0), (16, 1), (16, 40), (5, 0), (1, 0), (1, 1)] {
        let (store, sketch) = crowded(shape(), writers, pending);
        // Longer than any buffer holds, of units and of weighted updates.
        let count = 2 * sketch.buffer_updates() as u64 + 7;
        let of_thread = |thread: u64| keys(&store, (0..count).map(|i| thread * 1_000_000 + i));
        let weights: Vec<u64> = (0..count).map(|i| i % 3).collect();
        together(|thread| {
            let hashes = of_thread(thread);
            sketch.update(&hashes, None).unwrap();
            sketch.update(&hashes, Some(&weights)).unwrap();
            let probes = &hashes[..5];
            assert!(
                sketch.estimate(probes).unwrap().iter().zip(&weights).all(|(count, weight)| *count > *weight)
            );
            match thread % 4 {
                0 => drop(store.commit(&thread.to_le_bytes()).unwrap()),
                1 => sketch.apply().unwrap(),
                2 => sketch.sketch.flush().unwrap(),
                _ => {}
            }
            sketch.remove(&hashes, Some(&weights)).unwrap();
            assert!(sketch.estimate(probes).unwrap().iter().all(|count| *count >= 1));
        });
        assert_eq!(sketch.total_weight(), THREADS * count);
        let mut model = Model::default();
        (0..THREADS).flat_map(of_thread).for_each(|hash| model.add(hash, 1));
        let estimates = sketch.estimate(&of_thread(3)).unwrap();
        assert_eq!(
            estimates,
            model.estimates(&sketch, &store.hasher(), &of_thread(3)),
            "{writers} writers, {pending} pending"
        );
        store.commit(b"end").unwrap();
        assert!(sketch.pending_chunks() <= pending && store.verify().unwrap().is_whole());
    }
}

#[test]
fn weights_of_nothing_and_of_all_that_a_number_holds_end_in_every_buffer() {
    for (bits, writers, pending, is_conservative) in
        [(64, 16, 0, false), (8, 16, 2, false), (4, 3, 0, true), (32, 1, 1, true)]
    {
        let options = FrequencyOptions::new()
            .cell_bits(bits)
            .bytes(8 << 12, 2)
            .group_pages(1)
            .conservative(is_conservative);
        let (store, sketch) = crowded(options, writers, pending);
        // One of u64::MAX is three records: more than a buffer holds.
        let count = sketch.buffer_updates() as u64;
        let weights: Vec<u64> = (0..count).map(|i| [0, u64::MAX, 1][i as usize % 3]).collect();
        let most = if bits == 32 { u64::from(u32::MAX) } else { u64::MAX };
        together(|thread| {
            let hashes = keys(&store, (0..count).map(|i| thread * 1_000_000 + i));
            sketch.update(&[], Some(&[])).unwrap();
            sketch.update(&hashes, Some(&vec![0; hashes.len()])).unwrap();
            sketch.update(&hashes, Some(&weights)).unwrap();
            let estimates = sketch.estimate(&hashes[..3]).unwrap();
            assert!(estimates[1] >= most && estimates[2] >= 1, "{estimates:?}");
        });
        assert_eq!(sketch.total_weight(), u64::MAX);
        sketch.apply().unwrap();
        assert!(sketch.saturated());
        store.commit(b"end").unwrap();
    }
}

#[test]
fn one_pass_makes_room_for_all_who_wait_for_it() {
    let (store, sketch) = crowded(FrequencyOptions::new().bytes(60 << 12, 5).group_pages(4), 16, 0);
    let inner = &sketch.sketch;
    let is_full = || inner.slots.iter().all(|slot| read(&slot.waiting).buffer.room(false) == 0);
    let count = sketch.buffer_updates() as u64;
    std::thread::scope(|scope| {
        let upkeep = lock(&inner.upkeep);
        for thread in 0..THREADS {
            let hashes = keys(&store, (0..count + 1).map(|i| thread * 1_000_000 + i));
            let sketch = &sketch;
            scope.spawn(move || {
                begin_with_slot(thread as usize);
                sketch.update(&hashes, None).unwrap();
            });
        }
        while !is_full() {
            std::thread::yield_now();
        }
        drop(upkeep);
    });
    // A log of each buffer, and the pass.
    assert_eq!(inner.sequence.load(Ordering::Relaxed), THREADS + 1);
    assert_eq!(sketch.total_weight(), THREADS * (count + 1));
}

#[test]
fn nothing_at_all_ends() {
    let (store, sketch) = crowded(FrequencyOptions::new().bytes(1 << 12, 1).group_pages(1), 16, 0);
    together(|_| {
        sketch.update(&[], None).unwrap();
        sketch.remove(&[], None).unwrap();
        sketch.apply().unwrap();
        assert_eq!(sketch.estimate(&[]).unwrap(), [0; 0]);
        assert_eq!(sketch.estimate(&keys(&store, 0..9)).unwrap(), [0; 9]);
        sketch.clear().unwrap();
    });
    assert_eq!((sketch.total_weight(), sketch.pending_chunks()), (0, 0));
}

#[test]
fn a_large_batch_ends_beside_one_who_clears_again_and_again() {
    let store =
        Store::in_memory(StoreOptions::new().threads(1).seed(Seed(7)).manifest_bytes(1 << 20)).unwrap();
    let sketch = store
        .frequency("f", FrequencyOptions::new().shape(204 * 600, 5).group_pages(4).memory_bytes(6 << 20))
        .unwrap();
    let hashes = keys(&store, 0..20_000);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                sketch.clear().unwrap();
            }
        });
        let answers: Vec<_> = (0..5).map(|_| sketch.estimate(&hashes)).collect();
        is_done.store(true, Ordering::Relaxed);
        answers.into_iter().for_each(|answer| assert_eq!(answer.unwrap(), vec![0; hashes.len()]));
    });
}
