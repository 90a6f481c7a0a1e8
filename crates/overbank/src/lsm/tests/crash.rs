//! Power cuts at every operation, disks that are full or fail at every operation, merges that panic: with merges half published, and
//! publishes in flight.

use super::kv::{Kv, key, limits, simulated, store_options};
use super::{Random, no_file_is_left};
use crate::device::Device;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::device::sim::planted::{Instead, WithoutDataSync};
use crate::device::sim::{Plan, SimDevice};
use crate::lsm::{Limits, Policy};
use crate::store::Store;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 160;

type Checked<T> = std::result::Result<T, String>;

#[derive(Default)]
struct Table {
    commits: u64,
    is_tidy: bool,
    /// Commits while a merge was half published.
    half_done: AtomicU64,
    /// Records between two commits.
    published: AtomicU64,
}

/// Pieces of a block or two, and every one is worth a record.
fn small() -> Limits {
    Limits { lane_entries_min: 16, piece_bytes_min: 4 << 10, ..limits() }
}

fn open(store: &Store, workload: u64) -> Result<Arc<Kv>> {
    let policy = match workload % 2 {
        0 => Policy::Tiered { fan_out: 2 },
        _ => Policy::LazyLevelled { fan_out: 3 },
    };
    let kv = Kv::open_with(store, policy, small())?;
    kv.tree.publish_always();
    Ok(kv)
}

fn answers(kv: &Kv) -> Result<Vec<(u64, u64)>> {
    kv.scan(0..=u64::MAX)
}

impl Table {
    fn act(
        &self,
        kv: &Kv,
        model: &mut BTreeMap<u64, u64>,
        random: &mut Random,
        history: &mut History<'_, Vec<(u64, u64)>>,
    ) -> Result<()> {
        match random.below(9) {
            0 => kv.freeze(),
            1 => drop(history.survive(kv.flush())?),
            2 if random.below(3) == 0 => drop(history.survive(kv.compact())?),
            2..5 => drop(history.survive(kv.tree.step(true).map(drop))?),
            _ => {
                for _ in 0..random.below(50) {
                    let (number, value) = (key(random.below(KEYS)), random.next());
                    let value = (value % 4 > 0).then_some(value);
                    if history.survive(kv.put(number, value))? {
                        match value {
                            Some(value) => drop(model.insert(number, value)),
                            None => drop(model.remove(&number)),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Subject for Table {
    type Answers = Vec<(u64, u64)>;

    fn work(
        &self,
        device: Arc<dyn Device>,
        workload: u64,
        history: &mut History<'_, Self::Answers>,
    ) -> Result<()> {
        let store = Store::create_on(device.clone(), store_options(0))?;
        history.created();
        let kv = open(&store, workload)?;
        let (mut model, mut random) = (BTreeMap::new(), Random(workload));
        for number in 0..self.commits {
            for _ in 0..random.below(8) {
                self.act(&kv, &mut model, &mut random, history)?;
            }
            kv.check();
            let expected: Self::Answers = model.iter().map(|(key, value)| (*key, *value)).collect();
            // Whatever failed before, the table has what it took.
            assert_eq!(answers(&kv)?, expected);
            history.commit(expected, || store.commit(&number.to_le_bytes()).map(drop))?;
            self.half_done.fetch_add(u64::from(!kv.tree.version().merges.is_empty()), Ordering::Relaxed);
        }
        if self.is_tidy {
            kv.compact()?;
            let expected = answers(&kv)?;
            history.commit(expected, || store.commit(b"end").map(drop))?;
            no_file_is_left(&store, "kv", &*device).unwrap();
        }
        self.published.fetch_add(kv.tree.published(), Ordering::Relaxed);
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> Checked<Found<Self::Answers>> {
        let store = match Store::open_on(Arc::new(image.clone()), store_options(0)) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        no_file_is_left(&store, "kv", image)?;
        if store.record("kv").is_none() {
            return Ok(Found::Empty);
        }
        let kv = open(&store, 0).map_err(|error| format!("cannot open the table: {error}"))?;
        kv.check();
        Ok(Found::Answers(answers(&kv).map_err(|error| format!("cannot ask it: {error}"))?))
    }

    fn go_on(&self, image: &SimDevice) -> Checked<Self::Answers> {
        let store = Store::open_on(Arc::new(image.clone()), store_options(0)).map_err(|e| e.to_string())?;
        let kv = open(&store, 1).map_err(|e| e.to_string())?;
        let work = || {
            let mut expected: BTreeMap<u64, u64> = answers(&kv)?.into_iter().collect();
            for number in 0..60 {
                kv.put(key(number), Some(number))?;
                expected.insert(key(number), number);
            }
            kv.compact()?;
            Result::Ok(expected.into_iter().collect::<Vec<_>>())
        };
        let expected = work().map_err(|error| format!("after recovery: {error}"))?;
        store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
        no_file_is_left(&store, "kv", image)?;
        Ok(expected)
    }
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let table = Table { commits: 6, is_tidy: true, ..Table::default() };
    let states = explore::crash_everywhere(&table, 0..4, 1);
    let (half_done, published) = (table.half_done.into_inner(), table.published.into_inner());
    println!("{half_done} commits with a merge half published, {published} records between commits");
    assert!(states >= 1_000, "only {states} crash states");
    assert!(half_done >= 1 && published >= 1, "{half_done} half done, {published} published");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&Table { commits: 10, ..Table::default() }, 0..6));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    explore::fail_everywhere(&Table { commits: 5, ..Table::default() }, 0..3);
}

#[test]
fn a_merge_that_panics_leaves_what_was_published_and_nobody_waiting() {
    for threads in [0, 2] {
        let syncs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&syncs);
        let instead = Instead::new(move || {
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 12, "a planted panic");
        });
        let device = Arc::new(WithoutDataSync(SimDevice::new(1), instead));
        let store = Store::create_on(device, store_options(threads)).unwrap();
        let kv = open(&store, 0).unwrap();
        let (mut model, mut last) = (BTreeMap::new(), 0);
        let panicked = std::thread::scope(|scope| {
            let (kv, model, last) = (&kv, &mut model, &mut last);
            let writing = scope.spawn(move || {
                for number in 0..4_000u64 {
                    model.insert(key(number % KEYS), number);
                    *last = key(number % KEYS);
                    if kv.put(*last, Some(number)).is_err() {
                        return;
                    }
                }
            });
            writing.join().is_err()
        });
        assert!(panicked || threads > 0);
        // Whether the last one was taken is open.
        let mut found: BTreeMap<u64, u64> = answers(&kv).unwrap().into_iter().collect();
        found.remove(&last);
        model.remove(&last);
        assert_eq!(found, model);
        kv.check();
    }
}

/// Runs are long, and two become one.
const LONG: Policy = Policy::Tiered { fan_out: 2 };

fn long() -> Limits {
    Limits { flush_entries: 4_000, frozen_bytes: 256 << 10, piece_bytes_min: 128 << 10, ..small() }
}

/// A table of 8,000 keys that is committed while most of it is merged, and how many blocks it had.
fn half_merged(device: &SimDevice, store: &Store) -> (Arc<Kv>, u64) {
    let kv = Kv::open_with(store, LONG, long()).unwrap();
    for turn in 0..2 {
        for number in 0..4_000 {
            kv.put(key(2 * number + turn), Some(turn)).unwrap();
        }
        kv.flush().unwrap();
    }
    let runs = kv.tree.version().runs.len();
    assert!(runs >= 2, "{runs} runs");
    let blocks = kv.tree.version().flash_bytes() / 4096;
    store.commit(b"before").unwrap();
    // Three quarters of the merge.
    let reads_at = device.io_counts().blocks_read;
    while device.io_counts().blocks_read - reads_at < blocks * 3 / 4 {
        assert!(kv.tree.step(true).unwrap());
    }
    store.commit(b"half").unwrap();
    assert!(!kv.tree.version().merges.is_empty(), "nothing is half published");
    (kv, blocks)
}

#[test]
fn a_merge_that_was_cut_off_goes_on_where_it_stands() {
    for is_crash in [false, true] {
        let (device, store) = simulated(0);
        let (kv, blocks) = half_merged(&device, &store);
        let merges = kv.tree.version().merges.clone();
        let image = if is_crash { device.crash(Plan::Nothing, 1) } else { device.fork() };
        drop((kv, store));
        let image = Arc::new(image);
        let store = Store::open_on(image.clone(), store_options(0)).unwrap();
        let kv = Kv::open_with(&store, LONG, long()).unwrap();
        assert_eq!(kv.tree.version().merges.len(), merges.len());
        let reads_at = image.io_counts().blocks_read;
        kv.tree.finish_merges(0).unwrap();
        let read = image.io_counts().blocks_read - reads_at;
        assert!(kv.tree.version().merges.is_empty());
        // What is left is a quarter, and of the lanes that were open a part each.
        assert!(read < blocks / 2, "{read} of {blocks} blocks are read again");
        assert_eq!(kv.scan(0..=u64::MAX).unwrap().len(), 8_000);
    }
}

#[test]
fn a_merge_that_ends_while_a_commit_is_under_way_is_in_the_next_record_once() {
    let (device, store) = simulated(0);
    let (kv, _) = half_merged(&device, &store);
    kv.tree.prepare();
    kv.tree.finish_merges(0).unwrap();
    kv.tree.committed();
    let (record, _) = kv.tree.state().to_publish().unwrap();
    let is_under_way = |id| record.merges.iter().any(|merging| merging.has(id));
    let spans: Vec<_> = record.runs.iter().filter(|run| !is_under_way(run.id)).map(|run| run.span).collect();
    for (at, one) in spans.iter().enumerate() {
        assert!(spans[..at].iter().all(|other| !one.overlaps(*other)), "{record:?}");
    }
    assert!(record.merges.is_empty(), "{record:?}");
}
