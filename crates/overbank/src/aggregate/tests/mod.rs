//! Groups against a map.

mod backlog;
mod crash;
mod functions;
pub(super) mod inserts;
pub(super) mod law;
mod snapshot;
mod spill;
mod stored;
mod threads;

use super::group::GroupHasher;
use super::options::Shares;
use super::*;
use std::collections::BTreeMap;

/// Words and bytes.
pub(super) type ModelRow = (Vec<u64>, Vec<u8>);

/// What groups should be, the obvious way: all rows of each key, in the order in which they came.
#[derive(Default, Debug)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<Vec<u8>, Vec<ModelRow>>,
}

impl Model {
    pub(super) fn insert(&mut self, key: &[u8], row: Row<'_>) {
        self.rows.entry(key.to_vec()).or_default().push((row.words.to_vec(), row.bytes.to_vec()));
    }

    pub(super) fn group<A: Aggregate>(&self, aggregate: &A, key: &[u8]) -> Option<KeyState> {
        let rows = self.rows.get(key)?;
        let mut group =
            KeyState { key: key.to_vec(), words: vec![0; aggregate.state_words()], tail: Vec::new() };
        aggregate.start(StateMut { words: &mut group.words, tail: &mut group.tail });
        for (words, bytes) in rows {
            let state = StateMut { words: &mut group.words, tail: &mut group.tail };
            aggregate.update(state, Row { words, bytes });
        }
        Some(group)
    }

    fn check<A: Aggregate>(&self, groups: &Groups<A>) {
        let found = all(groups);
        let order =
            |group: &KeyState| (groups.shared().leaves.ground.hasher.hash(&group.key), group.key.clone());
        assert!(found.is_sorted_by(|a, b| order(a) < order(b)), "in the order of hashes and keys, each once");
        assert_eq!(found.len(), self.rows.len());
        for group in &found {
            assert_eq!(Some(group), self.group(groups.aggregate(), &group.key).as_ref());
        }
        assert_eq!(groups.count().unwrap(), self.rows.len() as u64);
    }
}

fn all<A: Aggregate>(groups: &Groups<A>) -> Vec<KeyState> {
    let (mut scan, mut found) = (groups.scan().unwrap(), Vec::new());
    while let Some(group) = scan.next_group().unwrap() {
        found.push(group.clone());
    }
    found
}

/// Groups of few leaves, which look at what waits as early as can be, and of hashes of which `mask` is left.
fn small<A: Aggregate>(aggregate: A, lg_leaves: u32, mask: u128) -> Groups<A> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let options = GroupsOptions::new().hasher(hasher).threads(3);
    let shares = small_shares(&options, lg_leaves);
    let hasher = GroupHasher { mask, ..GroupHasher::new(hasher, lg_leaves) };
    let ground = Ground::new(Arc::new(aggregate), hasher, &shares).unwrap();
    Groups { shared: Shared::new(ground, &options, shares, None), handle: None }
}

fn small_shares(options: &GroupsOptions, lg_leaves: u32) -> Shares {
    let lg_sections = lg_leaves.min(2);
    // Where states are kept before the leaves, few rows are recorded: half of the tests do without.
    let front_bytes = if lg_leaves.is_multiple_of(2) { 0 } else { 1 << 12 };
    Shares {
        lg_leaves,
        lg_sections,
        front_bytes,
        pending_blocks: 1,
        pending_blocks_roomy: 1,
        missing_blocks: 1,
        missing_blocks_roomy: 1,
        ..options.shares().unwrap()
    }
}

/// The rows' bytes in order, each once, with zeros between: a set, whose states have tails.
pub(super) struct Collect;

impl Aggregate for Collect {
    fn row_words(&self) -> usize {
        1
    }

    fn state_words(&self) -> usize {
        1
    }

    fn has_tail(&self) -> bool {
        true
    }

    fn update(&self, state: StateMut<'_>, row: Row<'_>) {
        self.merge(state, State { words: row.words, tail: &[row.bytes, &[0]].concat() });
    }

    fn merge(&self, state: StateMut<'_>, other: State<'_>) {
        state.words[0] |= other.words[0];
        let both = [&state.tail[..], other.tail].concat();
        let mut parts: Vec<&[u8]> = both.split_inclusive(|&byte| byte == 0).collect();
        parts.sort_unstable();
        parts.dedup();
        *state.tail = parts.concat();
    }
}

#[test]
fn without_rows_there_are_no_groups() {
    let groups = Groups::new(Count, GroupsOptions::new()).unwrap();
    Model::default().check(&groups);
    assert!(groups.get(b"").unwrap().is_none());
    groups.insert_many(&[""], &[]).unwrap();
    assert_eq!(groups.get(b"").unwrap().unwrap().words, [1]);
    assert_eq!(groups.top(3, |state| state.words[0]).unwrap().len(), 1);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    assert!(Groups::new(Count, GroupsOptions::new().memory_bytes(1 << 20)).is_err());
    assert!(Groups::new(Count, GroupsOptions::new().threads(0)).is_err());
    let groups = Groups::new(Count, GroupsOptions::new()).unwrap();
    assert!(groups.insert_many(&["a"], &[1]).is_err());
    let error = groups.insert_many(&[vec![0; 2 << 20]], &[]).unwrap_err().to_string();
    assert!(error.contains("1048576"), "{error}");
    assert!(groups.insert_rows(&["a"], &[]).is_err());
    assert_eq!(groups.count().unwrap(), 0);
}

/// The state of the rows that are in stays whole and can be asked where no more fit.
#[test]
fn a_full_memory_is_an_error_that_loses_nothing() {
    let groups = Groups::new(Count, GroupsOptions::new().memory_bytes(2 << 20).threads(1)).unwrap();
    let mut inserted = 0u64;
    let error = loop {
        let keys: Vec<String> = (inserted..inserted + 1000).map(|i| format!("key number {i}")).collect();
        match groups.insert_many(&keys, &[]) {
            Ok(()) => inserted += 1000,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, crate::Error::BudgetExceeded { .. }), "{error}");
    assert!(inserted > 100_000, "{inserted} keys of some 7 bytes in 2 MiB");
    assert!(groups.memory_bytes() <= 2 << 20, "{} bytes", groups.memory_bytes());
    assert_eq!(groups.count().unwrap(), inserted);
    assert!(all(&groups).iter().all(|group| group.words == [1]));
}

/// Text whose parts come again takes half of its bytes or less in pages, with all that stands beside the keys.
#[test]
fn addresses_are_kept_by_symbols() {
    let groups = small(Count, 1, u128::MAX);
    let keys: Vec<String> = (0..30_000u32)
        .map(|i| {
            format!(
                "https://www.example.com/articles/{}/comments?page={}",
                i % 97,
                i.wrapping_mul(0x9e37_79b1)
            )
        })
        .collect();
    groups.insert_many(&keys, &[]).unwrap();
    groups.insert_many(&keys[..7000], &[]).unwrap();
    groups.finalize().unwrap();
    let page_bytes: usize = groups.shared().leaves.all.iter().map(|leaf| lock(leaf).page_bytes()).sum();
    let key_bytes: usize = keys.iter().map(String::len).sum();
    assert!(page_bytes * 2 < key_bytes, "{page_bytes} for {key_bytes}");
    for (i, key) in keys.iter().enumerate().step_by(501) {
        let expected = 1 + u64::from(i < 7000);
        assert_eq!(groups.get(key.as_bytes()).unwrap().map(|group| group.words), Some(vec![expected]));
    }
    let found = all(&groups);
    assert_eq!(found.len(), keys.len());
    assert_eq!(found.iter().map(|group| group.words[0]).sum::<u64>(), 37_000);
}
