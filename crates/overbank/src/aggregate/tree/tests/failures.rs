//! What fails in a thread reaches whoever calls.

use super::*;
use crate::Error;
use crate::device::thread::refusal;
use std::sync::atomic::AtomicI64;

/// Gives back something else after a number of calls.
#[derive(Debug)]
struct Forgets(AtomicI64);

impl Codec for Forgets {
    fn compress(&self, _raw: &[u8], _into: &mut Vec<u8>) -> bool {
        true
    }

    fn decompress(&self, _packed: &[u8], into: &mut [u8]) -> bool {
        into.fill(b'x');
        self.0.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

/// A user's mistake: the law says that nothing panics.
struct Panics;

impl Aggregate for Panics {
    fn row_words(&self) -> usize {
        0
    }

    fn state_words(&self) -> usize {
        1
    }

    fn update(&self, _state: StateMut<'_>, _row: Row<'_>) {}

    fn merge(&self, _state: StateMut<'_>, _other: State<'_>) {
        panic!("this aggregate cannot merge");
    }
}

fn keys(from: u32) -> Vec<String> {
    (from..from + 100).map(|i| format!("key {i}")).collect()
}

fn fails<A: Aggregate>(tree: &BufferTree<A>, expected: &str) {
    let found = (0..1000).try_for_each(|i| tree.insert_many(&keys(i * 100), &[]));
    for error in [found.unwrap_err(), tree.finalize().unwrap_err(), tree.count().unwrap_err()] {
        assert!(matches!(error, Error::WorkerFailed { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(tree.insert_many(&["a"], &[]).is_err());
    assert!(tree.memory_bytes() > 0 && tree.stats().rows > 0);
}

#[test]
fn a_codec_that_forgets_is_an_error() {
    for workers in 0..3 {
        for good in [0, 1, 7] {
            let codec = Forgets(AtomicI64::new(good));
            let tree = masked(Count, small().codec(codec).workers(workers).root_buffers(1), u128::MAX);
            fails(&tree, "fragment");
        }
    }
}

/// Objects that were invented are refused, too, or the answer is that of the codec.
#[test]
fn a_codec_that_invents_is_an_error() {
    let codec = Forgets(AtomicI64::new(i64::MAX));
    let tree = masked(Count, small().codec(codec).workers(1), u128::MAX);
    tree.insert_many(&keys(0), &[]).unwrap();
    tree.insert_many(&keys(0), &[]).unwrap();
    let error = tree.scan().map(|mut scan| while scan.next_group().unwrap().is_some() {}).unwrap_err();
    assert!(error.to_string().contains("an aggregation object in a buffer"), "{error}");
}

#[test]
fn a_panic_is_an_error_for_all() {
    for workers in 1..3 {
        let tree = masked(Panics, small().workers(workers), u128::MAX);
        let clone = tree.clone();
        let rows = (0..1000).try_for_each(|_| tree.insert_many(&keys(0), &[]));
        assert!(rows.unwrap_err().to_string().contains("panicked"));
        assert!(clone.finalize().unwrap_err().to_string().contains("panicked"));
    }
}

#[test]
fn refused_threads_leave_fewer_workers() {
    for granted in 0..3 {
        let tree = refusal::after(granted, || masked(Count, small().workers(4), u128::MAX));
        for i in 0..10 {
            tree.insert_many(&keys(i * 50), &[]).unwrap();
        }
        assert_eq!(tree.count().unwrap(), 550);
        check_shape(&tree);
    }
}
