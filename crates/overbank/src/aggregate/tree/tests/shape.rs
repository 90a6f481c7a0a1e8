//! The shape that the tree gets, and what it counts.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn numbers(from: u32, to: u32) -> Vec<String> {
    (from..to).map(|i| format!("{:08}", i.wrapping_mul(0x9e37_79b1) % 100_000_000)).collect()
}

#[test]
fn without_rows_there_are_no_groups() {
    let tree = BufferTree::new(Count, BufferTreeOptions::new()).unwrap();
    assert_eq!((tree.count().unwrap(), all(&tree).len()), (0, 0));
    assert_eq!((tree.stats().height, tree.stats().nodes), (1, 1));
    tree.insert_many(&[""], &[]).unwrap();
    assert_eq!(all(&tree), [KeyState { words: vec![1], ..KeyState::default() }]);
    check_shape(&tree);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |options: BufferTreeOptions| BufferTree::new(Count, options).unwrap_err().to_string();
    let options = BufferTreeOptions::new;
    assert!(
        refused(options().buffer_bytes(255)).contains("buffer_bytes cannot be 255: choose 256 to 1073741824")
    );
    assert!(refused(options().buffer_bytes((1 << 30) + 1)).contains("buffer_bytes"));
    assert!(refused(options().fan_out(1, 1)).contains("the most children of a node cannot be 1"));
    assert!(
        refused(options().fan_out(5, 8)).contains("the least children of a node cannot be 5: choose 1 to 4")
    );
    assert!(refused(options().root_buffers(0)).contains("root_buffers"));
    assert!(refused(options().trees(257)).contains("trees"));
    assert!(refused(options().workers(1025)).contains("workers"));
    let tree = BufferTree::new(Count, options()).unwrap();
    assert!(tree.insert_many(&["a"], &[1]).is_err());
    assert!(tree.insert_rows(&["a"], &[]).is_err());
    assert!(tree.insert_states(&["a"], &[State { words: &[1], tail: &[1] }]).is_err());
    assert!(tree.insert_states(&["a"], &[State { words: &[], tail: &[] }]).is_err());
    assert_eq!(tree.stats().rows, 0);
}

/// Nodes have as many children as the knobs say, at any height.
#[test]
fn the_tree_grows_as_its_fan_out_says() {
    for (least, most, height_min) in [(1, 2, 7), (2, 3, 5), (2, 4, 4), (4, 8, 4), (8, 16, 3)] {
        let options = small().fan_out(least, most).buffer_bytes(500).workers(0);
        let tree = masked(Count, options, u128::MAX);
        for i in 0..60 {
            tree.insert_many(&numbers(i * 100, i * 100 + 150), &[]).unwrap();
            check_shape(&tree);
        }
        tree.finalize().unwrap();
        let levels = check_shape(&tree).remove(0);
        let stats = tree.stats();
        assert_eq!(stats.height as usize, levels.len() + 1);
        assert!(levels.len() + 1 >= height_min, "{most}: {levels:?}");
        assert_eq!(levels.len() as u64, stats.root_splits + 1);
        assert_eq!(stats.leaf_splits as usize, levels[levels.len() - 1] - 1);
        let inner: usize = levels[..levels.len() - 1].iter().sum();
        assert_eq!((stats.inner_splits + stats.root_splits) as usize, inner);
        assert_eq!(stats.nodes as usize, levels.iter().sum::<usize>() + 1);
    }
}

/// What goes in comes to the leaves, once, and what is finalized is not rewritten.
#[test]
fn counters_say_what_was_done() {
    let tree = masked(Count, small().buffer_bytes(4000).workers(1), u128::MAX);
    for i in 0..30 {
        tree.insert_many(&numbers(i % 5 * 300, i % 5 * 300 + 300), &[]).unwrap();
    }
    assert_eq!(tree.count().unwrap(), 1500);
    let stats = tree.stats();
    assert_eq!((stats.rows, stats.objects_sorted), (9000, 9000));
    assert!(
        stats.objects_merged >= 9000
            && stats.objects_aggregated < stats.objects_sorted + stats.objects_merged
    );
    assert!(stats.spills > 10 && stats.leaf_splits > 2);
    assert!(stats.compressed_to_bytes < stats.compressed_from_bytes);
    assert!(stats.decompressed_from_bytes < stats.decompressed_to_bytes);
    assert!(stats.decompressed_to_bytes < stats.compressed_from_bytes, "leaves are not decompressed again");
    tree.finalize().unwrap();
    assert_eq!(tree.stats(), stats);
}

/// Of a clock that goes on by one whenever it is read, a task takes one at least; without a clock nothing is counted.
#[test]
fn a_clock_says_what_tasks_took() {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    let clock = || TICKS.fetch_add(1, Ordering::Relaxed);
    let times = |stats: BufferTreeStats| {
        [stats.sort_time, stats.decompress_time, stats.merge_time, stats.divide_time, stats.compress_time]
    };
    for workers in [0, 2] {
        let options = || small().buffer_bytes(4000).workers(workers);
        for (options, is_timed) in [(options().clock(clock), true), (options(), false)] {
            let tree = masked(Count, options, u128::MAX);
            for i in 0..30 {
                tree.insert_many(&numbers(i % 5 * 300, i % 5 * 300 + 300), &[]).unwrap();
            }
            tree.finalize().unwrap();
            let stats = tree.stats();
            assert!(times(stats).iter().all(|&time| (time > 0) == is_timed), "{stats:?}");
            assert!(!is_timed || stats.compress_time >= stats.fragments_compressed);
        }
    }
}

/// Columns that are coded take less than plain ones, and these less than nothing at all.
#[cfg(feature = "lz4")]
#[test]
fn compression_takes_less_memory() {
    let bytes = |options: BufferTreeOptions| {
        let tree = masked(Count, options.buffer_bytes(100_000).workers(1), u128::MAX);
        for i in 0..10 {
            let keys: Vec<String> =
                (i * 2000..i * 2000 + 2000).map(|i| format!("key number {i:09}")).collect();
            tree.insert_many(&keys, &[]).unwrap();
        }
        tree.finalize().unwrap();
        let fragments = lock(&tree.workers.shared.schedule).leaf_fragments();
        let held: usize = fragments.iter().map(|fragment| fragment.bytes.len()).sum();
        assert!(tree.memory_bytes() > held);
        held
    };
    let options = BufferTreeOptions::new;
    let bt = bytes(options().without_codec().column_codes(false));
    let (plain, coded) = (bytes(options().column_codes(false)), bytes(options()));
    assert!(bt > 20_000 * 29 && plain < bt && coded < plain, "{bt} {plain} {coded}");
}

/// Keys that come again and again are aggregated in the root, and do not split leaves.
#[test]
fn few_keys_make_a_small_tree() {
    let tree = masked(Count, small(), u128::MAX);
    for _ in 0..300 {
        tree.insert_many(&["to", "be", "or", "not", "to", "be"], &[]).unwrap();
    }
    assert_eq!(tree.count().unwrap(), 4);
    assert_eq!((tree.stats().nodes, tree.stats().height), (2, 2));
}

/// A leaf of one hash cannot be split; it is then emptied less and less often.
#[test]
fn one_hash_does_not_make_it_quadratic() {
    let tree = masked(Count, small().workers(0), 0);
    for i in 0..100 {
        tree.insert_many(&numbers(i * 100, i * 100 + 100), &[]).unwrap();
    }
    assert_eq!(tree.count().unwrap(), 10_000);
    assert_eq!(tree.stats().nodes, 2);
    assert!(tree.stats().objects_merged < 50_000, "{}", tree.stats().objects_merged);
}
