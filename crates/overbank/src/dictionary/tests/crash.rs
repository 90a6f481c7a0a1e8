//! Power cuts at every operation of loads, of upserts, deletions and operands, of merges that publish by range and of commits beside an
//! open snapshot; and devices that fail: the reopened dictionary is that of a commit, whole, with no file left that it does not need.

use super::*;
use crate::device::Device;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::dictionary::{Duplicates, Snapshot};
use crate::lsm::tests::no_file_is_left;
use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Keys that come again and again.
const HOT: u64 = 90;
/// Keys of a load.
const MANY: u64 = 330;
/// Items that are taken together, whatever their lengths.
const TOGETHER: usize = 3;

#[derive(Default)]
struct Work {
    commits: u64,
    /// Whether no file may be left at the end.
    is_tidy: bool,
    /// Commits while a merge was half published.
    half_done: AtomicU64,
    /// Records between two commits.
    published: AtomicU64,
}

fn put(model: &mut Model, key: &[u8], value: &[u8]) {
    model.insert(key.to_vec(), value.to_vec());
}

/// Digests of keys and values, in the order of keys.
type Answers = Vec<(u64, u64)>;

fn answers_of(model: &Model) -> Answers {
    model.iter().map(|(key, value)| (xxh3_64(key), xxh3_64(value))).collect()
}

/// Every second workload has operands, every third long pages; every fourth begins with a load.
fn options(workload: u64) -> DictionaryOptions {
    let mut options = DictionaryOptions::new();
    if workload % 2 == 1 {
        options = options.merge_operator(MergeOperator::Append);
    }
    if workload % 3 == 2 { options.page_bytes(16 << 10) } else { options }
}

fn open(store: &Store, options: DictionaryOptions) -> Result<Dictionary> {
    let dictionary = small(store, options, u128::MAX)?;
    dictionary.shared().tree.publish_always();
    Ok(dictionary)
}

/// What a workload has in hand.
struct Run<'h, 'a> {
    dictionary: Dictionary,
    model: Model,
    random: Random,
    written: u64,
    is_even: bool,
    snapshot: Option<(Snapshot, Model)>,
    history: &'h mut History<'a, Answers>,
}

impl Run<'_, '_> {
    fn hot(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let numbers: Vec<u64> = (0..1 + self.random.below(40)).map(|_| self.random.below(HOT)).collect();
        self.written += 1;
        pairs(numbers, self.written, self.is_even)
    }

    /// Writes some items, few enough to be taken together: of those that a full disk refuses, none is in.
    fn write(
        &mut self,
        items: (Vec<Vec<u8>>, Vec<Vec<u8>>),
        write: impl Fn(&Dictionary, &[Vec<u8>], &[Vec<u8>]) -> Result<()>,
        note: impl Fn(&mut Model, &[u8], &[u8]),
    ) -> Result<()> {
        for (keys, values) in items.0.chunks(TOGETHER).zip(items.1.chunks(TOGETHER)) {
            if self.history.survive(write(&self.dictionary, keys, values))? {
                keys.iter().zip(values).for_each(|(key, value)| note(&mut self.model, key, value));
            }
        }
        Ok(())
    }

    fn act(&mut self) -> Result<()> {
        let dictionary = self.dictionary.clone();
        let operator = dictionary.options().chosen_operator();
        match self.random.below(14) {
            0 | 1 => {
                let items = self.hot();
                let note = |model: &mut Model, key: &[u8], _: &[u8]| drop(model.remove(key));
                self.write(items, |to, keys, _| to.remove_many(keys), note)?;
            }
            2 | 3 if operator.is_some() => {
                let items = self.hot();
                let note =
                    |model: &mut Model, key: &[u8], operand: &[u8]| apply(model, operator, key, operand);
                self.write(items, |to, keys, operands| to.merge_many(keys, operands), note)?;
            }
            2 | 3 => {
                let items = self.hot();
                let note = |model: &mut Model, key: &[u8], value: &[u8]| {
                    model.entry(key.to_vec()).or_insert_with(|| value.to_vec());
                };
                self.write(items, |to, keys, values| to.insert_many_if_absent(keys, values), note)?;
            }
            4 | 5 => drop(self.history.survive(dictionary.flush())?),
            6 if self.random.below(3) == 0 => drop(self.history.survive(dictionary.compact())?),
            6 => drop(self.history.survive(dictionary.settle())?),
            7 | 8 => drop(self.history.survive(dictionary.shared().tree.step(true).map(drop))?),
            9 => self.snapshot = Some((dictionary.snapshot()?, self.model.clone())),
            10 => self.copy()?,
            11 if self.random.below(3) == 0 => self.load(Duplicates::Last)?,
            _ => {
                let items = self.hot();
                self.write(items, |to, keys, values| to.insert_many(keys, values), put)?;
            }
        }
        Ok(())
    }

    /// Brings the values of half the snapshot's hashes back.
    fn copy(&mut self) -> Result<()> {
        let Some((snapshot, then)) = &self.snapshot else { return Ok(()) };
        let (first, hasher) = (self.random.below(1 << 63), self.dictionary.hasher());
        let range = first..=first + (1 << 63);
        let copied = self.dictionary.copy_from(snapshot, range.clone()).map(drop);
        if self.history.survive(copied)? {
            let in_range = |key: &[u8]| range.contains(&hasher.hash(key).high());
            let found = then.iter().filter(|(key, _)| in_range(key));
            self.model.extend(found.map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok(())
    }

    /// Loads many keys, of which some come twice.
    fn load(&mut self, duplicates: Duplicates) -> Result<()> {
        self.written += 1;
        let load = self.dictionary.load(duplicates)?;
        let items = pairs(0..MANY, self.written, self.is_even);
        self.write(items, |to, keys, values| to.insert_many(keys, values), put)?;
        let is_twice = duplicates == Duplicates::Refuse && self.random.below(2) == 0;
        if is_twice {
            let items = pairs(7..9, self.written, self.is_even);
            self.write(items, |to, keys, values| to.insert_many(keys, values), put)?;
        }
        match load.finish() {
            Err(Error::InvalidOption { .. }) if is_twice => self.model.clear(),
            finished => drop(self.history.survive(finished.map(drop))?),
        }
        Ok(())
    }

    /// Whatever failed before, the dictionary has what it took, and the snapshot what it had.
    fn check(&mut self) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..MANY).map(|number| key(number, self.is_even)).collect();
        let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        assert!(self.dictionary.get_many(&keys)? == expected);
        if let Some((snapshot, then)) = &self.snapshot {
            let found = snapshot.scan(0..=u64::MAX)?.collect::<Result<Model>>()?;
            assert!(found == *then, "{} keys in a snapshot of {}", found.len(), then.len());
        }
        Ok(())
    }
}

impl Subject for Work {
    type Answers = Answers;

    fn work(&self, device: Arc<dyn Device>, workload: u64, history: &mut History<'_, Answers>) -> Result<()> {
        let store = Store::create_on(device.clone(), store_options(0))?;
        history.created();
        let dictionary = open(&store, options(workload))?;
        let mut run = Run {
            dictionary,
            model: Model::new(),
            random: Random(workload),
            written: 0,
            is_even: workload % 5 < 2,
            snapshot: None,
            history,
        };
        if workload % 4 == 1 {
            run.load(Duplicates::Refuse)?;
        }
        for number in 0..self.commits {
            for _ in 0..run.random.below(8) {
                run.act()?;
            }
            run.check()?;
            let expected = answers_of(&run.model);
            run.history.commit(expected, || store.commit(&number.to_le_bytes()).map(drop))?;
            let tree = &run.dictionary.shared().tree;
            self.half_done.fetch_add(u64::from(!tree.version().merges.is_empty()), Ordering::Relaxed);
        }
        if self.is_tidy {
            run.snapshot = None;
            run.dictionary.settle()?;
            let expected = answers_of(&run.model);
            run.history.commit(expected, || store.commit(b"end").map(drop))?;
            no_file_is_left(&store, "d", &*device).unwrap();
        }
        self.published.fetch_add(run.dictionary.shared().tree.published(), Ordering::Relaxed);
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> std::result::Result<Found<Answers>, String> {
        let store = match Store::open_on(Arc::new(image.clone()), store_options(0)) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        no_file_is_left(&store, "d", image)?;
        if store.record("d").is_none() {
            return Ok(Found::Empty);
        }
        let ask = || {
            let dictionary = open(&store, DictionaryOptions::new())?;
            dictionary.verify()?;
            let found = dictionary.scan()?.collect::<Result<Model>>()?;
            let keys: Vec<&Vec<u8>> = found.keys().collect();
            assert!(dictionary.get_many(&keys)?.into_iter().eq(found.values().cloned().map(Some)));
            Result::Ok(answers_of(&found))
        };
        ask().map(Found::Answers).map_err(|error| format!("cannot ask the dictionary: {error}"))
    }

    fn go_on(&self, image: &SimDevice) -> std::result::Result<Answers, String> {
        let store = Store::open_on(Arc::new(image.clone()), store_options(0)).map_err(|e| e.to_string())?;
        let work = || {
            let dictionary = open(&store, DictionaryOptions::new())?;
            let mut model = dictionary.scan()?.collect::<Result<Model>>()?;
            let (keys, values) = pairs(0..60, 1_000, false);
            dictionary.insert_many(&keys, &values)?;
            model.extend(keys.into_iter().zip(values));
            let (removed, _) = pairs(40..80, 0, false);
            dictionary.remove_many(&removed)?;
            removed.iter().for_each(|key| drop(model.remove(key)));
            dictionary.compact()?;
            Result::Ok(answers_of(&model))
        };
        let expected = work().map_err(|error| format!("after recovery: {error}"))?;
        store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
        no_file_is_left(&store, "d", image)?;
        Ok(expected)
    }
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let work = Work { commits: 7, is_tidy: true, ..Work::default() };
    let states = explore::crash_everywhere(&work, 0..4, 1);
    let (half_done, published) = (work.half_done.into_inner(), work.published.into_inner());
    println!("{half_done} commits with a merge half published, {published} records between commits");
    assert!(states >= 2_000, "only {states} crash states");
    assert!(half_done >= 1 && published >= 1, "{half_done} half done, {published} published");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&Work { commits: 7, ..Work::default() }, 0..6));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    // One with operands, one that begins with a load of different keys.
    explore::fail_everywhere(&Work { commits: 3, ..Work::default() }, [3, 5].into_iter());
}
