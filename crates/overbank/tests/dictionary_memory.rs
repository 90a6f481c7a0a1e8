//! The dictionary's memory is a promise: what it allocates never exceeds `memory_bytes`, whatever the items' lengths, the number of threads
//! and of runs. A counting allocator looks on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

mod counting;

use overbank::dictionary::{Dictionary, DictionaryOptions, Duplicates, MergeOperator};
use overbank::store::{Store, StoreOptions};
use overbank::{KeyHash, Seed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The store's own: its manifest, its queue of jobs, names of files.
const STORE_BYTES: usize = 1 << 20;
/// Items of a call.
const BATCH: u64 = 256;

/// A dictionary in a fresh store on disk.
struct Trial {
    _turn: MutexGuard<'static, ()>,
    _place: tempfile::TempDir,
    store: Store,
    dictionary: Dictionary,
    memory_bytes: usize,
    before: usize,
}

impl Trial {
    fn new(threads: usize, memory_bytes: usize) -> Self {
        Self::with_options(threads, memory_bytes, DictionaryOptions::new())
    }

    fn with_options(threads: usize, memory_bytes: usize, options: DictionaryOptions) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tempfile::tempdir().unwrap();
        let store_options = StoreOptions::new().memory_bytes(256 << 20).threads(threads).seed(Seed(5));
        let store = Store::create(place.path(), store_options).unwrap();
        let before = counting::restart();
        let dictionary = store.dictionary("d", options.memory_bytes(memory_bytes)).unwrap();
        Self { _turn: turn, _place: place, store, dictionary, memory_bytes, before }
    }

    /// The most that was held beside what there was before, `extra_bytes` of it not the dictionary's.
    fn check(&self, what: &str, extra_bytes: usize) {
        let peak = counting::peak_bytes() - self.before;
        let allowed = self.memory_bytes + STORE_BYTES + extra_bytes;
        println!("{what}: {:.2} of {:.2} MiB", mib(peak), mib(allowed));
        assert!(peak <= allowed, "{what}: {:.2} MiB live, {:.2} are allowed", mib(peak), mib(allowed));
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs `work` on so many threads, each with its number.
fn on_threads(threads: u64, work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let work = &work;
        for thread in 0..threads {
            scope.spawn(move || work(thread));
        }
    });
}

/// A call's keys and values, which are the test's: one value serves all of them.
fn batch(numbers: std::ops::Range<u64>, value: &[u8]) -> (Vec<[u8; 8]>, Vec<&[u8]>) {
    (numbers.clone().map(u64::to_be_bytes).collect(), numbers.map(|_| value).collect())
}

fn batches_bytes(threads: u64, value_bytes: usize) -> usize {
    threads as usize
        * (BATCH as usize * (8 + size_of::<&[u8]>() + size_of::<KeyHash>()) + value_bytes + (16 << 10))
}

/// Loads so many items by all threads at once, asks them all, and makes them one run.
fn load_and_ask(threads: u64, workers: usize, memory_bytes: usize, items: u64, value_bytes: usize) {
    let trial = Trial::new(workers, memory_bytes);
    let what = format!("{threads} threads, {workers} workers, {items} of {value_bytes} bytes");
    let extra = batches_bytes(threads, value_bytes);
    let share = items / threads;
    let load = trial.dictionary.load(Duplicates::Last).unwrap();
    on_threads(threads, |thread| {
        let value = vec![thread as u8; value_bytes];
        let step = BATCH.min((256 << 10) / value_bytes as u64 + 1);
        for from in (thread * share..(thread + 1) * share).step_by(step as usize) {
            let (keys, values) = batch(from..(from + step).min((thread + 1) * share), &value);
            trial.dictionary.insert_many(&keys, &values).unwrap();
        }
    });
    trial.check(&format!("load by {what}"), extra);
    load.finish().unwrap();
    trial.check(&format!("end of the load by {what}"), extra);
    on_threads(threads, |thread| {
        for from in (thread * share..(thread + 1) * share).step_by(BATCH as usize) {
            let (keys, _) = batch(from..(from + BATCH).min((thread + 1) * share), &[]);
            let mut found = 0;
            trial
                .dictionary
                .get_many_with(&keys, |_, value| {
                    found += usize::from(value.is_some_and(|v| v.len() == value_bytes))
                })
                .unwrap();
            assert_eq!(found, keys.len());
        }
    });
    trial.check(&format!("lookups by {what}"), extra);
    // All keys at once: they are put into order some at a time.
    let keys: Vec<[u8; 8]> = (0..share * threads).map(u64::to_be_bytes).collect();
    let mut found = 0;
    trial.dictionary.get_many_with(&keys, |_, value| found += usize::from(value.is_some())).unwrap();
    assert_eq!(found, keys.len());
    trial.check(&format!("a lookup of all of {what}"), extra + size_of_val(&keys[..]));
    drop(keys);
    trial.dictionary.compact().unwrap();
    trial.store.commit(b"").unwrap();
    trial.check(&format!("compaction and commit of {what}"), extra);
    let mut scan = trial.dictionary.scan().unwrap();
    let mut count = 0;
    while scan.next_record().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, share * threads);
    trial.check(&format!("scan of {what}"), extra + (4 << 20));
}

#[test]
fn a_load_of_ten_times_the_memory_holds_the_budget() {
    for (threads, workers) in [(1, 0), (2, 2), (8, 1), (16, 2)] {
        load_and_ask(threads, workers, 16 << 20, 170_000, 1_000);
    }
}

#[test]
fn small_items_hold_the_budget() {
    load_and_ask(2, 1, 16 << 20, 1_500_000, 8);
}

#[test]
fn more_memory_is_held_as_well_as_the_least() {
    load_and_ask(2, 8, 64 << 20, 200_000, 1_000);
}

#[test]
fn items_of_a_hundred_kilobytes_hold_the_budget() {
    load_and_ask(2, 1, 16 << 20, 1_600, 100_000);
}
#[test]
fn items_of_the_greatest_length_hold_the_budget() {
    for (threads, workers) in [(1, 0), (2, 2), (8, 1)] {
        let most = DictionaryOptions::new().memory_bytes(16 << 20).item_bytes_max();
        load_and_ask(threads, workers, 16 << 20, 80, most - 8);
    }
}

/// Values that operands make longer than items may be are beside the memory: five times their length at most, and they stop growing.
#[test]
fn appended_values_take_five_times_their_length_beside_the_memory() {
    for (operand_bytes, others, workers) in [(100, 20, 0), (100, 0, 1), (200_000, 0, 0)] {
        let memory_bytes = 16 << 20;
        let options = DictionaryOptions::new().merge_operator(MergeOperator::Append);
        let trial = Trial::with_options(workers, memory_bytes, options);
        let operand = vec![1; operand_bytes];
        let step = BATCH.min((256 << 10) / operand_bytes as u64 + 1);
        let mut appended = 0;
        for from in (0..2_000_000).step_by(step as usize) {
            let keys: Vec<u64> = (from..from + step)
                .map(|number| if number % (others + 1) == 0 { 0 } else { number })
                .collect();
            let keys: Vec<[u8; 8]> = keys.into_iter().map(u64::to_be_bytes).collect();
            let operands = vec![&operand[..]; keys.len()];
            if trial.dictionary.merge_many(&keys, &operands).is_err() {
                break;
            }
            appended += keys.iter().filter(|key| **key == [0; 8]).count() * operand_bytes;
        }
        trial.dictionary.flush().unwrap();
        let longest = trial.dictionary.report().longest_item_bytes;
        // What a memtable may have.
        assert!((256 << 10..memory_bytes / 4).contains(&longest), "{longest} bytes");
        let what = format!("operands of {operand_bytes} bytes, {others} others for each, {workers} workers");
        trial.check(&format!("growth by {what}"), 5 * longest + batches_bytes(1, 256 << 10));
        trial.dictionary.compact().unwrap();
        trial.store.commit(b"").unwrap();
        let found = trial.dictionary.get(&[0; 8]).unwrap().unwrap().len();
        assert_eq!(found, appended, "{what}");
        trial.check(&format!("compaction of {what}"), 5 * found + batches_bytes(1, 256 << 10));
    }
}
