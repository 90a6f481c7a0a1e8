//! Power cuts at every operation of insertions that go to flash, of merges and of commits; and devices that fail: the reopened groups are
//! those of a commit, whole, with no file left that they do not need.

use super::spill::{setup, store_options};
use super::*;
use crate::aggregate::saved::open;
use crate::device::Device;
use crate::device::sim::SimDevice;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::lsm::tests::no_file_is_left;
use crate::store::Store;
use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 900;
/// Rows that are taken together: of those that a full disk refuses, none is in.
const TOGETHER: u64 = 60;

struct Work {
    commits: u64,
    is_tidy: bool,
    /// Runs that there were at commits.
    runs: AtomicU64,
    published: AtomicU64,
}

type Counts = BTreeMap<Vec<u8>, u64>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(range)) >> 64) as u64
    }
}

fn key(number: u64) -> Vec<u8> {
    // One is longer than a block.
    let times = if number == 77 { 700 } else { 1 + number as usize % 5 };
    format!("{number}/").repeat(times).into_bytes()
}

fn opened(store: &Store) -> Result<Groups<Count>> {
    let (options, setup) = setup(store, 1, 10, u128::MAX);
    let groups = open(store, "g", Count, &options, setup)?;
    if let Some(spill) = &groups.shared().spill {
        spill.tree.publish_always();
    }
    Ok(groups)
}

fn answers_of(groups: &Groups<Count>) -> Result<Counts> {
    let (mut scan, mut counts) = (groups.scan()?, Counts::new());
    while let Some(group) = scan.next_group()? {
        counts.insert(group.key.clone(), group.words[0]);
    }
    Ok(counts)
}

impl Work {
    fn insert(groups: &Groups<Count>, first: u64, model: &mut Counts) -> Result<()> {
        let keys: Vec<Vec<u8>> = (first..first + TOGETHER).map(|number| key(number % KEYS)).collect();
        groups.insert_many(&keys, &[])?;
        keys.into_iter().for_each(|key| *model.entry(key).or_default() += 1);
        Ok(())
    }
}

impl Subject for Work {
    type Answers = Counts;

    fn work(&self, device: Arc<dyn Device>, workload: u64, history: &mut History<'_, Counts>) -> Result<()> {
        let store = Store::create_on(device.clone(), store_options(0))?;
        history.created();
        let groups = opened(&store)?;
        let (mut model, mut random) = (Counts::new(), Random(workload));
        for number in 0..self.commits {
            for _ in 0..random.below(9) {
                let inserted = Self::insert(&groups, random.below(KEYS), &mut model);
                history.survive(inserted)?;
            }
            let asked = key(random.below(KEYS));
            assert_eq!(groups.get(&asked)?.map(|group| group.words[0]), model.get(&asked).copied());
            assert_eq!(answers_of(&groups)?, model);
            history.commit(model.clone(), || store.commit(&number.to_le_bytes()).map(drop))?;
        }
        if self.is_tidy {
            history.commit(model.clone(), || store.commit(b"end").map(drop))?;
            no_file_is_left(&store, "g", &*device).unwrap();
        }
        if let Some(spill) = &groups.shared().spill {
            self.runs.fetch_max(spill.version().runs.len() as u64, Ordering::Relaxed);
            self.published.fetch_add(spill.tree.published(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> std::result::Result<Found<Counts>, String> {
        let store = match Store::open_on(Arc::new(image.clone()), store_options(0)) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        no_file_is_left(&store, "g", image)?;
        if store.record("g").is_none() {
            return Ok(Found::Empty);
        }
        let ask = || {
            let groups = opened(&store)?;
            groups.verify()?;
            let found = answers_of(&groups)?;
            for (key, count) in found.iter().step_by(97) {
                assert_eq!(groups.get(key)?.map(|group| group.words[0]), Some(*count));
            }
            Result::Ok(found)
        };
        ask().map(Found::Answers).map_err(|error| format!("cannot ask the groups: {error}"))
    }

    fn go_on(&self, image: &SimDevice) -> std::result::Result<Counts, String> {
        let store = Store::open_on(Arc::new(image.clone()), store_options(0)).map_err(|e| e.to_string())?;
        let work = || {
            let groups = opened(&store)?;
            let mut model = answers_of(&groups)?;
            for first in (0..KEYS).step_by(TOGETHER as usize) {
                Self::insert(&groups, first, &mut model)?;
            }
            Result::Ok(model)
        };
        let expected = work().map_err(|error| format!("after recovery: {error}"))?;
        store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
        no_file_is_left(&store, "g", image)?;
        Ok(expected)
    }
}

fn work(commits: u64, is_tidy: bool) -> Work {
    Work { commits, is_tidy, runs: AtomicU64::new(0), published: AtomicU64::new(0) }
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let work = work(7, true);
    let states = explore::crash_everywhere(&work, 0..4, 1);
    println!("{states} states, {:?} runs, {:?} records between commits", work.runs, work.published);
    assert!(states >= 1_000, "only {states} crash states");
    assert!(work.runs.into_inner() >= 4);
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&work(5, false), 0..6));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    explore::fail_everywhere(&work(3, false), [3, 5].into_iter());
}
