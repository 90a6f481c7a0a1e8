//! Records that wait on flash and cannot be read: what is told, and what goes on.

use super::spill::{setup, simulated};
use super::*;
use crate::Error;
use crate::aggregate::backlog::Backlog;
use crate::aggregate::options::FlashShares;
use crate::aggregate::saved::{open, spilling};
use crate::device::sim::SimDevice;
use crate::store::Store;

fn keys() -> Vec<String> {
    (0..40_000).map(|i| format!("key number {}", i % 20_000)).collect()
}

/// Groups of [`keys`], twice each, most of which wait on flash.
fn waiting(store: &Store, is_kept: bool) -> Groups<Count> {
    let (options, mut setup) = setup(store, 3, 36, u128::MAX);
    setup.flash = FlashShares { backlog_bytes: 1 << 20, pieces_bytes: 1 << 20, ..setup.flash };
    let groups = if is_kept {
        open(store, "g", Count, &options, setup).unwrap()
    } else {
        spilling(store, Count, &options, setup).unwrap()
    };
    groups.insert_many(&keys(), &[]).unwrap();
    assert!(backlog_bytes(&groups) > 300_000, "{} bytes wait", backlog_bytes(&groups));
    groups
}

fn backlog_bytes(groups: &Groups<Count>) -> u64 {
    groups.shared().spill.as_ref().unwrap().backlog_bytes()
}

fn number_of(groups: &Groups<Count>, key: &str) -> usize {
    let hasher = groups.shared().leaves.ground.hasher;
    hasher.leaf(hasher.hash(key.as_bytes()))
}

/// A leaf whose records wait on flash, and where its third piece is there.
struct Damage<'d> {
    device: &'d SimDevice,
    leaf: usize,
    file: String,
    at: u64,
}

impl<'d> Damage<'d> {
    fn new(device: &'d SimDevice, groups: &Groups<Count>) -> Self {
        let all = &groups.shared().leaves.all;
        let long = |leaf: usize| lock(&all[leaf]).backlog().filter(|one| one.pieces().len() > 3).cloned();
        let (leaf, backlog): (usize, Backlog) =
            (0..all.len()).rev().find_map(|leaf| Some((leaf, long(leaf)?))).unwrap();
        let (path, at) = backlog.place(2);
        let damage =
            Damage { device, leaf, file: path.file_name().unwrap().to_str().unwrap().to_owned(), at };
        damage.flip();
        damage
    }

    /// Damages the piece, or mends it.
    fn flip(&self) {
        assert!(self.device.flip_bit(&self.file, 8 * (self.at + 11) + 3));
    }

    /// An error that names what is damaged.
    fn check<T: std::fmt::Debug>(&self, told: crate::Result<T>) {
        match told {
            Err(Error::Corrupt { path, at, .. }) => assert!(path.ends_with(&self.file) && at == self.at),
            other => panic!("{other:?}"),
        }
    }
}

/// Records of leaves whose pages went to flash are verified with the runs, wherever they are.
#[test]
fn damaged_records_that_wait_are_found() {
    for is_kept in [false, true] {
        let (device, store) = simulated(0);
        let groups = waiting(&store, is_kept);
        groups.verify().unwrap();
        let damage = Damage::new(&device, &groups);
        damage.check(groups.verify());
        damage.flip();
        groups.verify().unwrap();
    }
}

/// One piece that cannot be read takes the answers of its leaf alone, and only as long as that is so: nothing is lost by it, rows come in,
/// and the other leaves' records become runs, when they are asked often and when they are many.
#[test]
fn a_damaged_piece_is_a_matter_of_its_leaf() {
    for threads in [0, 2] {
        let (device, store) = simulated(threads);
        let groups = waiting(&store, false);
        let damage = Damage::new(&device, &groups);
        let keys = keys();
        let ask = |each: u64| {
            for key in keys[..20_000].iter().step_by(37) {
                let told = groups.get(key.as_bytes());
                if number_of(&groups, key) == damage.leaf {
                    damage.check(told);
                } else {
                    assert_eq!(told.unwrap().unwrap().words, [each]);
                }
            }
        };
        let before = backlog_bytes(&groups);
        ask(2);
        assert!(backlog_bytes(&groups) < before / 4, "what can be read is a run");
        assert!(backlog_bytes(&groups) > 0, "and what cannot is not lost");
        damage.check(groups.count());
        damage.check(groups.snapshot().map(drop));
        for round in 3..6 {
            groups.insert_many(&keys[..20_000], &[]).unwrap();
            ask(round);
        }
        damage.check(groups.verify());
        damage.check(groups.snapshot().map(drop));
        store.commit(b"what is no part of a commit is not asked for").unwrap();
        groups.insert_many(&keys[..20_000], &[]).unwrap();
        damage.flip();
        groups.verify().unwrap();
        let counted = groups.snapshot().unwrap();
        assert_eq!(counted.count().unwrap(), 20_000);
        assert!(all(&groups).iter().all(|group| group.words == [6]));
        assert_eq!(backlog_bytes(&groups), 0);
    }
}

/// A commit has all rows or is none.
#[test]
fn what_cannot_be_read_is_not_committed_in_part() {
    for (threads, is_asked) in [(0, false), (0, true), (2, false)] {
        let (device, store) = simulated(threads);
        let groups = waiting(&store, true);
        let damage = Damage::new(&device, &groups);
        if is_asked {
            (0..2).for_each(|_| damage.check(groups.count()));
        }
        damage.check(store.commit(b"half"));
        let known = keys();
        let other = known.iter().find(|key| number_of(&groups, key) != damage.leaf).unwrap();
        assert_eq!(groups.get(other.as_bytes()).unwrap().unwrap().words, [2]);
        assert!(store.position().is_empty());
    }
}

/// Rows are taken as long as there is room for what cannot be made a run, and then refused by the name of the damage.
#[test]
fn what_cannot_be_read_does_not_grow_for_ever() {
    let (device, store) = simulated(0);
    let groups = waiting(&store, false);
    let damage = Damage::new(&device, &groups);
    let known = keys();
    let (mut rounds, mut taken) = (0, 2);
    let refused = loop {
        match groups.insert_many(&known[..20_000], &[]) {
            Ok(()) => taken += 1,
            refused => break refused,
        }
        rounds += 1;
        assert!(rounds < 200, "{} bytes wait", backlog_bytes(&groups));
    };
    damage.check(refused);
    assert!(rounds > 3, "{rounds}");
    damage.check(groups.insert_many(&known[..1], &[]));
    damage.flip();
    groups.insert_many(&known[..1], &[]).unwrap();
    let found = all(&groups);
    assert!(found.len() == 20_000 && found.iter().all(|group| (taken..=taken + 2).contains(&group.words[0])));
}

/// What questions have read of records that a commit took away does not count for those that come later.
#[test]
fn a_commit_forgets_what_was_asked() {
    let (_, store) = simulated(0);
    let groups = waiting(&store, true);
    let keys = keys();
    assert_eq!(groups.count().unwrap(), 20_000);
    assert!(backlog_bytes(&groups) > 0, "a scan leaves it");
    store.commit(b"").unwrap();
    assert_eq!(backlog_bytes(&groups), 0);
    groups.insert_many(&keys, &[]).unwrap();
    let waits = backlog_bytes(&groups);
    assert!(waits > 0);
    assert_eq!(groups.get(keys[0].as_bytes()).unwrap().unwrap().words, [4]);
    assert_eq!(backlog_bytes(&groups), waits, "one key is no reason to write a run");
}
