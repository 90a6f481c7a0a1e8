//! Blocks, counted on the simulated device.

use super::*;
use crate::device::sim::IoCounts;

fn counted(device: &SimDevice, work: impl FnOnce()) -> IoCounts {
    device.reset_counts();
    work();
    device.io_counts()
}

fn filled(pending: usize) -> (Arc<SimDevice>, Store, Frequency) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch =
        store.frequency("f", small().shape(204 * 64, 5).pending(pending).memory_bytes(6 << 20)).unwrap();
    for part in 0..6 {
        let hashes = keys(&store, part * 2000..(part + 1) * 2000);
        sketch.update(&hashes, None).unwrap();
        sketch.sketch.flush().unwrap();
    }
    (device, store, sketch)
}

#[test]
fn an_estimate_reads_one_block_without_pending_chunks() {
    let (device, store, sketch) = filled(0);
    for number in 0..500 {
        let io = counted(&device, || {
            sketch.estimate(&keys(&store, [number * 37])).unwrap();
        });
        assert_eq!((io.blocks_read, io.blocks_written), (1, 0));
    }
    // What waits in RAM costs no block.
    sketch.update(&keys(&store, 0..100), None).unwrap();
    let io = counted(&device, || {
        sketch.estimate(&keys(&store, [5])).unwrap();
    });
    assert_eq!((io.blocks_read, io.blocks_written), (1, 0));
}

#[test]
fn a_pending_chunk_costs_an_estimate_one_block_or_two_where_a_page_straddles() {
    let (device, store, sketch) = filled(1);
    sketch.apply().unwrap();
    sketch.update(&keys(&store, 0..1900), None).unwrap();
    sketch.sketch.flush().unwrap();
    assert_eq!(sketch.pending_chunks(), 1);
    let blocks = sketch.sketch.logs()[0].blocks();
    let (mut sum, mut most) = (0, 0);
    for number in 0..500 {
        let io = counted(&device, || {
            sketch.estimate(&keys(&store, [number * 37])).unwrap();
        });
        sum += io.blocks_read;
        most = most.max(io.blocks_read);
        assert_eq!(io.blocks_written, 0);
    }
    assert!(blocks == 2 && most <= 3, "{blocks} blocks of log, {most} read");
    // One page in 64 straddles the border of the two blocks.
    assert!((1000..=1000 + 500 / 8).contains(&sum), "{sum} blocks for 500 estimates");
}

#[test]
fn a_batch_reads_each_page_once_and_a_large_one_sweeps() {
    let (device, store, sketch) = filled(0);
    let hashes = keys(&store, 0..20_000);
    let io = counted(&device, || {
        sketch.estimate(&hashes).unwrap();
    });
    assert_eq!((io.blocks_read, io.blocks_written), (64, 0));
    assert!(io.reads <= 16, "{} requests for 64 pages in groups of 4", io.reads);
}

#[test]
fn updates_cost_far_less_than_a_block_each() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", small().shape(204 * 64, 5).pending(3)).unwrap();
    let (buffers, updates) = (16u64, 2000u64);
    let io = counted(&device, || {
        for part in 0..buffers {
            sketch.update(&keys(&store, part * updates..(part + 1) * updates), None).unwrap();
            sketch.sketch.flush().unwrap();
        }
    });
    // Four passes of 64 pages, the first without reading; for each of them four logs of two blocks and their fences.
    let passes = buffers / 4;
    assert_eq!(io.blocks_written, passes * 64 + passes * 4 * 3);
    assert_eq!(io.blocks_read, (passes - 1) * 64 + passes * 4 * 2);
}

#[test]
fn equal_keys_are_joined_before_they_are_logged() {
    let (_, store, sketch) = filled(8);
    let hashes = keys(&store, (0..2000).map(|i| i % 10));
    sketch.sketch.flush().unwrap();
    sketch.update(&hashes, None).unwrap();
    sketch.sketch.flush().unwrap();
    assert_eq!(sketch.sketch.logs().last().unwrap().blocks(), 1);
}

#[test]
fn a_stream_of_few_keys_never_leaves_the_buffer() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", small()).unwrap();
    let hashes = keys(&store, 0..500);
    let mut model = Model::default();
    let io = counted(&device, || {
        for turn in 0..300 {
            let weights = vec![turn; 500];
            sketch.update(&hashes, (turn % 3 == 0).then_some(&weights[..])).unwrap();
            hashes.iter().for_each(|&hash| model.add(hash, if turn % 3 == 0 { turn } else { 1 }));
        }
    });
    assert!(sketch.buffer_updates() < 150_000 / 4);
    assert_eq!(io, IoCounts::default());
    compare(&store, &sketch, &model, &hashes);
}

#[test]
fn many_small_commits_do_not_pass_over_the_pages() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let options = small().shape(204 * 120, 5).group_pages(128).pending(3).memory_bytes(4 << 20);
    let sketch = store.frequency("f", options).unwrap();
    let mut model = Model::default();
    for turn in 0..40u8 {
        let hashes = keys(&store, (0..20).map(|i| u64::from(turn) * 13 + i));
        sketch.update(&hashes, None).unwrap();
        hashes.iter().for_each(|&hash| model.add(hash, 1));
        store.commit(&[turn]).unwrap();
        assert!(sketch.pending_chunks() <= 3);
        compare(&store, &sketch, &model, &keys(&store, 0..600));
    }
    assert_eq!(sketch.sketch.extents(), 0);
    drop((sketch, store));
    let store = Store::open_on(device, store_options()).unwrap();
    compare(&store, &store.frequency("f", FrequencyOptions::new()).unwrap(), &model, &keys(&store, 0..600));
}

#[test]
fn an_unchanged_sketch_costs_a_commit_nothing() {
    let (device, store, _sketch) = filled(2);
    store.commit(b"a").unwrap();
    let io = counted(&device, || {
        store.commit(b"a").unwrap();
    });
    assert_eq!(io, IoCounts::default());
}

#[test]
fn the_plan_is_what_updates_cost() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let options = small().shape(204 * 64, 5).memory_bytes(2_620_000);
    let plan = options.plan().unwrap();
    let sketch = store.frequency("f", options).unwrap();
    assert_eq!(plan.buffer_updates, sketch.buffer_updates());
    let cycle = 3 * plan.buffer_updates as u64;
    let mut next = 0;
    let mut cycles = |count: u64| {
        let end = next + count * cycle;
        while next < end {
            sketch.update(&keys(&store, next..next + 64), None).unwrap();
            next += 64;
        }
    };
    // The first pass reads nothing.
    cycles(2);
    let io = counted(&device, || cycles(6));
    let updates = (6 * cycle) as f64;
    let (written, read) = (io.blocks_written as f64 / updates, io.blocks_read as f64 / updates);
    assert!((written / plan.blocks_written - 1.0).abs() < 0.2, "{written} written, {plan:?}");
    assert!((read / plan.blocks_read - 1.0).abs() < 0.2, "{read} read, {plan:?}");
    assert!(device.used_bytes() <= plan.flash_bytes_max + (256 << 10));
}
