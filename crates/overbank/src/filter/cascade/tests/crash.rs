//! Power cuts at every operation of a workload, and devices that fail: the reopened filter is that of the last commit, or of the one
//! in flight, with no file left that it does not need; a filter that goes on after a full disk is that of all keys it took.

use super::*;
use crate::Error;
use crate::device::Device;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::lsm::tests::no_file_is_left;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that come again and again; beside them, of some workloads, there are many that make merges of several steps.
const HOT: u64 = 60;
const MANY: std::ops::Range<u64> = 1_000..61_000;

#[derive(Default)]
struct Work {
    commits: u64,
    /// Whether no file may be left at the end.
    is_tidy: bool,
    /// Commits while a merge was half done.
    half_done: AtomicU64,
}

/// What is in, by pane, the newest last; one pane where nothing is forgotten.
struct Counts {
    panes: Vec<BTreeMap<u64, u64>>,
    panes_max: usize,
}

impl Counts {
    fn count(&self, key: u64) -> u64 {
        self.panes.iter().filter_map(|pane| pane.get(&key)).sum()
    }

    fn insert(&mut self, key: u64) {
        let newest = self.panes.last_mut().unwrap();
        *newest.entry(key).or_default() += 1;
    }

    fn insert_if_absent(&mut self, key: u64) -> bool {
        let is_new = self.count(key) == 0;
        if is_new {
            self.insert(key);
        }
        is_new
    }

    fn remove_if_present(&mut self, key: u64) -> bool {
        let is_there = self.count(key) > 0;
        if is_there {
            *self.panes.last_mut().unwrap().get_mut(&key).unwrap() -= 1;
        }
        is_there
    }

    fn advance(&mut self) {
        self.panes.push(BTreeMap::new());
        let old = self.panes.len().saturating_sub(self.panes_max);
        self.panes.drain(..old);
    }

    fn answers(&self) -> Vec<u64> {
        probes().map(|key| self.count(key)).collect()
    }
}

/// Fingerprints of 61 bits, which no two of the keys share. Every third workload is a window, every fourth has many keys.
fn options(workload: u64) -> FilterOptions {
    let policy = match workload % 2 {
        0 => Policy::Tiered { fan_out: 2 },
        _ => Policy::LazyLevelled { fan_out: 3 },
    };
    let panes = if workload % 3 == 2 { 2 } else { 0 };
    FilterOptions { policy, panes, keys: 1 << 30, false_positive_rate: 1e-9, ..small() }
}

fn probes() -> impl Iterator<Item = u64> {
    (0..HOT).chain(MANY.step_by(3_001))
}

impl Work {
    fn act(
        &self,
        store: &Store,
        filter: &Filter,
        counts: &mut Counts,
        random: &mut Random,
        history: &mut History<'_, Vec<u64>>,
        has_many: bool,
    ) -> crate::Result<()> {
        let hot: Vec<u64> = (0..1 + random.below(40)).map(|_| random.below(HOT)).collect();
        let hashes = keys(store, hot.iter().copied());
        let is_window = counts.panes_max > 1;
        match random.below(10) {
            3 | 4 => {
                let mask = filter.insert_if_absent(&hashes)?;
                let expected: Vec<bool> = hot.iter().map(|&key| counts.insert_if_absent(key)).collect();
                assert_eq!(mask, expected);
            }
            5 if is_window => {
                filter.advance()?;
                counts.advance();
            }
            5 | 6 if !is_window => {
                let mask = filter.remove_if_present(&hashes)?;
                let expected: Vec<bool> = hot.iter().map(|&key| counts.remove_if_present(key)).collect();
                assert_eq!(mask, expected);
            }
            7 | 8 => drop(history.survive(filter.flush())?),
            9 if random.below(3) == 0 => drop(history.survive(filter.compact())?),
            9 => drop(history.survive(filter.settle())?),
            0 | 1 => drop(history.survive(filter.shared().tree.step(true).map(drop))?),
            2 if has_many => {
                let some = MANY.start + random.below(10_000)..MANY.end - random.below(10_000);
                filter.insert(&keys(store, some.clone()))?;
                some.for_each(|key| counts.insert(key));
            }
            _ => {
                filter.insert(&hashes)?;
                hot.iter().for_each(|&key| counts.insert(key));
            }
        }
        Ok(())
    }
}

impl Subject for Work {
    type Answers = Vec<u64>;

    fn work(
        &self,
        device: Arc<dyn Device>,
        workload: u64,
        history: &mut History<'_, Vec<u64>>,
    ) -> crate::Result<()> {
        let store = Store::create_on(device.clone(), store_options(0))?;
        history.created();
        let options = options(workload);
        let filter = store.filter("f", options)?;
        let mut counts = Counts { panes: vec![BTreeMap::new()], panes_max: options.panes.max(1) as usize };
        let mut random = Random(workload);
        for number in 0..self.commits {
            for _ in 0..random.below(8) {
                self.act(&store, &filter, &mut counts, &mut random, history, workload % 4 == 3)?;
            }
            // Whatever failed before, the filter has what it took.
            let expected = counts.answers();
            assert_eq!(filter.count_many(&keys(&store, probes()))?, expected);
            history.commit(expected, || store.commit(&number.to_le_bytes()).map(drop))?;
            let is_half_done = filter.shared().tree.has_begun_job();
            self.half_done.fetch_add(u64::from(is_half_done), Ordering::Relaxed);
        }
        if self.is_tidy {
            filter.settle()?;
            history.commit(counts.answers(), || store.commit(b"end").map(drop))?;
            no_file_is_left(&store, "f", &*device).unwrap();
        }
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> Result<Found<Vec<u64>>, String> {
        let store = match Store::open_on(Arc::new(image.clone()), store_options(0)) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        no_file_is_left(&store, "f", image)?;
        if store.record("f").is_none() {
            return Ok(Found::Empty);
        }
        let filter = store.filter("f", small()).map_err(|e| format!("cannot open the filter: {e}"))?;
        let counts = filter.count_many(&keys(&store, probes()));
        Ok(Found::Answers(counts.map_err(|error| format!("cannot ask it: {error}"))?))
    }

    fn go_on(&self, image: &SimDevice) -> Result<Vec<u64>, String> {
        let store = Store::open_on(Arc::new(image.clone()), store_options(0)).map_err(|e| e.to_string())?;
        let filter = store.filter("f", small()).map_err(|e| e.to_string())?;
        let probes = keys(&store, probes());
        let work = || {
            let mut expected = filter.count_many(&probes)?;
            for _ in 0..2 {
                filter.insert(&probes)?;
                filter.flush()?;
                expected.iter_mut().for_each(|count| *count += 1);
            }
            filter.compact()?;
            crate::Result::Ok(expected)
        };
        let expected = work().map_err(|error| format!("after recovery: {error}"))?;
        store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
        no_file_is_left(&store, "f", image)?;
        Ok(expected)
    }
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let work = Work { commits: 12, is_tidy: true, ..Work::default() };
    let states = explore::crash_everywhere(&work, 0..8, 3);
    let half_done = work.half_done.into_inner();
    println!("{half_done} commits with half a merge");
    assert!(states >= 10_000, "only {states} crash states");
    assert!(half_done >= 5, "only {half_done} commits with half a merge");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&Work { commits: 12, ..Work::default() }, 0..6));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    // One with many keys, a window, and one of the other policy.
    explore::fail_everywhere(&Work { commits: 5, ..Work::default() }, [3, 5, 0].into_iter());
}
