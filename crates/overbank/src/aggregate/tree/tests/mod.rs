//! The tree against a map.

mod failures;
mod hostile;
mod law;
mod shape;

use super::super::tests::inserts::{Insert, inserts, key};
use super::super::tests::law::row_of_numbers;
use super::super::tests::{Collect, Model, ModelRow};
use super::super::{ColumnType, Columns, Count, Function, KeyState};
use super::*;

/// Masks of hashes: all bits, 8 bits, of which trees take the first or all see none, and one hash for all keys.
const MASKS: [u128; 4] = [u128::MAX, 0xff << 120, 0xff << 96, 0];

/// A tree whose hashes are what `mask` leaves of them.
fn masked<A: Aggregate>(aggregate: A, options: BufferTreeOptions, mask: u128) -> BufferTree<A> {
    let hasher = GroupHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(7)), 0);
    BufferTree::with_hasher(aggregate, options, GroupHasher { mask, ..hasher }).unwrap()
}

fn small() -> BufferTreeOptions {
    BufferTreeOptions::new().buffer_bytes(1000).fan_out(2, 4).workers(2)
}

fn all<A: Aggregate>(tree: &BufferTree<A>) -> Vec<KeyState> {
    let (mut scan, mut found) = (tree.scan().unwrap(), Vec::new());
    while let Some(group) = scan.next_group().unwrap() {
        found.push(group.clone());
    }
    found
}

/// Looks at the trees when nothing is under way. Returns how many nodes each level of each tree has.
fn check_shape<A: Aggregate>(tree: &BufferTree<A>) -> Vec<Vec<usize>> {
    let shared = &tree.workers.shared;
    let schedule = shared.wait_until(lock(&shared.schedule), Schedule::is_at_rest).unwrap();
    schedule.trees().map(|tree| tree.check(shared.knobs.children_min)).collect()
}

/// All that must be true of a tree that has the model's rows.
fn check<A: Aggregate>(tree: &BufferTree<A>, model: &Model) {
    check_shape(tree);
    let found = all(tree);
    check_shape(tree);
    let shared = &tree.workers.shared;
    let hash = |key: &[u8]| shared.hasher.hash(key).high() >> 32;
    let order = |group: &KeyState| (hash(&group.key), group.key.clone());
    assert!(found.is_sorted_by(|a, b| order(a) < order(b)), "in the order of hashes and keys, each once");
    assert_eq!(found.len(), model.rows.len());
    for group in &found {
        assert_eq!(Some(group), model.group(tree.aggregate(), &group.key).as_ref());
    }
    assert_eq!(tree.count().unwrap(), model.rows.len() as u64);
    let rows: usize = model.rows.values().map(Vec::len).sum();
    assert_eq!(tree.stats().rows, rows as u64);
}
