//! A long-lived reader beside a writer: it moves from commit to commit, and what it asks is of one commit each.
#![allow(clippy::unwrap_used)]

use overbank::dictionary::DictionaryOptions;
use overbank::profile::{KeyedRows, Parse};
use overbank::sketch::HyperLogLog;
use overbank::{
    Error, FilterOptions, FrequencyOptions, KeyHash, ProfileOptions, Result, Seed, Store, StoreOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that each commit inserts: at 4 bytes a key, a memtable of the filter is full every now and then.
const BATCH: u64 = 3000;

fn options() -> StoreOptions {
    StoreOptions::new().seed(Seed(7)).threads(1)
}

fn filter() -> FilterOptions {
    FilterOptions::new().keys(1 << 20).false_positive_rate(1e-9).memory_bytes(16 << 20)
}

/// So small that passes over the pages are frequent.
fn counts() -> FrequencyOptions {
    FrequencyOptions::new().bytes(256 << 10, 3).pending(1).memory_bytes(8 << 20)
}

fn batch(store: &Store, number: u64) -> Vec<KeyHash> {
    (number * BATCH..(number + 1) * BATCH).map(|key| store.hasher().hash_u64(key)).collect()
}

fn number(store: &Store) -> u64 {
    u64::from_le_bytes(store.position().try_into().unwrap())
}

/// The handles of one commit, and what they say of the batches.
struct Asked {
    number: u64,
    seen: overbank::Filter,
    counts: overbank::Frequency,
    window: overbank::FrequencyWindow,
    users: overbank::Stored<HyperLogLog>,
}

impl Asked {
    fn open(reader: &Store) -> Self {
        Asked {
            number: number(reader),
            seen: reader.filter("seen", FilterOptions::new().memory_bytes(16 << 20)).unwrap(),
            counts: reader.frequency("counts", FrequencyOptions::new()).unwrap(),
            window: reader.frequency_window("window", 3, FrequencyOptions::new()).unwrap(),
            users: reader.open_sketch("users").unwrap(),
        }
    }

    /// That all answers are of its commit; whether the writer has left what was on flash.
    fn check(&self, store: &Store) -> bool {
        let Asked { number, .. } = *self;
        for batch_number in [0, 1, number / 2, number.saturating_sub(1), number, number + 1, number + 2] {
            let is_in = batch_number < number;
            let answers = self.seen.contains_many(&batch(store, batch_number)).unwrap();
            assert!(answers.iter().all(|&answer| answer == is_in), "batch {batch_number} at {number}");
        }
        let exact = self.users.with(HyperLogLog::estimate).unwrap() / (number * BATCH) as f64;
        assert!(number == 0 || (exact - 1.0).abs() < 0.1, "{exact}");
        // One key that comes with each batch, and in the window with the last three of them.
        let key = [store.hasher().hash(b"each")];
        let on_flash = [self.counts.estimate(&key), self.window.estimate(&key)];
        // And another that came before all of them.
        assert_eq!((self.counts.total_weight(), self.window.total_weight()), (number + 1, number.min(3)));
        let expected = [number, number.min(3)];
        let is_left = on_flash.iter().any(|answer| matches!(answer, Err(Error::Outdated { .. })));
        for (answer, expected) in on_flash.into_iter().zip(expected) {
            match answer {
                Ok(answer) => assert_eq!(answer, [expected], "at {number}"),
                Err(Error::Outdated { held, newest, .. }) => assert!(held < newest),
                Err(error) => panic!("at {number}: {error}"),
            }
        }
        is_left
    }
}

fn write(path: &Path, commits: u64, written: &AtomicU64) {
    let writer = Store::open(path, options()).unwrap();
    let seen = writer.filter("seen", filter()).unwrap();
    let counts = writer.frequency("counts", counts()).unwrap();
    let window = writer.frequency_window("window", 3, self::counts()).unwrap();
    let users = writer.sketch("users", || HyperLogLog::new(12, writer.hasher())).unwrap();
    let key = [writer.hasher().hash(b"each")];
    for commit in 0..commits {
        let keys = batch(&writer, commit);
        seen.insert(&keys).unwrap();
        users.update(|users| users.update_batch(&keys)).unwrap();
        counts.update(&key, None).unwrap();
        window.advance().unwrap();
        window.update(&key, None).unwrap();
        if commit % 4 == 3 {
            // Merges, whose inputs go, and passes, which write over what an older commit had.
            seen.compact().unwrap();
            counts.apply().unwrap();
        }
        writer.commit(&(commit + 1).to_le_bytes()).unwrap();
        written.store(commit + 1, Ordering::Release);
    }
}

fn begin(path: &Path) {
    let writer = Store::create(path, options()).unwrap();
    writer.filter("seen", filter()).unwrap();
    let pages = writer.frequency("counts", counts()).unwrap();
    pages.update(&[writer.hasher().hash(b"other")], None).unwrap();
    pages.apply().unwrap();
    writer.frequency_window("window", 3, counts()).unwrap();
    writer.sketch("users", || HyperLogLog::new(12, writer.hasher())).unwrap();
    writer.commit(&0u64.to_le_bytes()).unwrap();
}

#[test]
fn a_reader_beside_a_writer_answers_of_one_commit_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    begin(&path);
    let reader = Store::open_read_only(&path, options()).unwrap();
    let (commits, written) = (40, AtomicU64::new(0));
    let mut first = Some(Asked::open(&reader));
    let mut moves = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&path, commits, &written));
        let mut last = Asked::open(&reader);
        while last.number < commits && !(writer.is_finished() && written.load(Ordering::Acquire) < commits) {
            let is_due = written.load(Ordering::Acquire);
            moves += u64::from(reader.refresh().unwrap());
            assert!(number(&reader) >= is_due, "a refresh finds what was committed before it");
            let next = Asked::open(&reader);
            next.check(&reader);
            // The one before is of its own commit still, and the first, whose runs were merged away meanwhile.
            last.check(&reader);
            if let Some(first) = &first {
                assert_eq!(first.number, 0);
                first.check(&reader);
            }
            last = next;
        }
        writer.join().unwrap();
    });
    assert!(moves > 0 && number(&reader) == commits);
    assert!(
        first.take().unwrap().check(&reader),
        "the writer has written over the pages of its first commit"
    );
    let last = Asked::open(&reader);
    assert!(!last.check(&reader), "nobody writes any more");
    assert!(!reader.refresh().unwrap() && reader.verify().unwrap().is_whole());
}

#[test]
fn what_has_not_changed_stays_open_and_what_has_takes_memory_until_its_handle_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    begin(&path);
    let reader = Store::open_read_only(&path, options()).unwrap();
    let all = reader.budget().available_bytes();
    let taken = || all - reader.budget().available_bytes();
    let seen = reader.filter("seen", FilterOptions::new().memory_bytes(16 << 20)).unwrap();
    let users = reader.open_sketch::<HyperLogLog>("users").unwrap();
    let before = taken();

    let writer = Store::open(&path, options()).unwrap();
    assert!(!writer.refresh().unwrap(), "it is at its newest commit");
    let key = [writer.hasher().hash(b"a")];
    writer.open_sketch::<HyperLogLog>("users").unwrap().update(|users| users.update(key[0])).unwrap();
    writer.commit(b"1").unwrap();
    assert!(reader.refresh().unwrap() && !reader.refresh().unwrap());
    assert_eq!(reader.position(), b"1");

    let same = reader.filter("seen", FilterOptions::new()).unwrap();
    assert_eq!(taken(), before, "opened anew without any memory");
    let newer = reader.open_sketch::<HyperLogLog>("users").unwrap();
    assert!(taken() > before);
    assert_eq!(users.with(HyperLogLog::estimate).unwrap(), 0.0);
    assert!(newer.with(HyperLogLog::estimate).unwrap() > 0.5);
    drop(users);
    assert_eq!(taken(), before);
    drop((seen, same));
    drop(newer);
    assert_eq!(taken(), 0);

    // Names come and go.
    writer.remove("users").unwrap();
    writer.sketch("others", || HyperLogLog::new(12, writer.hasher())).unwrap();
    writer.commit(b"2").unwrap();
    assert!(reader.open_sketch::<HyperLogLog>("others").is_err());
    assert!(reader.refresh().unwrap());
    assert!(reader.open_sketch::<HyperLogLog>("others").is_ok());
    assert!(matches!(reader.open_sketch::<HyperLogLog>("users"), Err(Error::NotFound { .. })));
    reader.close("others").unwrap_err();
}

/// Rows without keys of their own.
struct Hashes;

#[derive(Default)]
struct Rows(Vec<KeyHash>);

impl overbank::pipeline::Rows for Rows {
    fn hashes(&self) -> &[KeyHash] {
        &self.0
    }
}

impl KeyedRows for Rows {
    fn key(&self, _: usize) -> &[u8] {
        b"key"
    }

    fn weights(&self) -> Option<&[u64]> {
        None
    }

    fn values(&self) -> Option<&[f64]> {
        None
    }

    fn skipped(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        0
    }
}

impl Parse for Hashes {
    type Chunk = Vec<KeyHash>;
    type Rows = Rows;
    type Error = Error;

    fn parse(&self, chunk: Vec<KeyHash>, rows: &mut Rows) -> Result<()> {
        rows.0 = chunk;
        Ok(())
    }
}

#[test]
fn a_profile_moves_with_its_sketch_on_flash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::create(&path, options()).unwrap();
    let wanted =
        ProfileOptions::new().memory_bytes(16 << 20).flash(FrequencyOptions::new().bytes(1 << 20, 3));
    let profile = writer.profile("all", wanted).unwrap();
    let count = |number: u64| {
        let mut chunk = Some(batch(&writer, number));
        profile.update(2, &Hashes, || Ok(chunk.take())).unwrap();
        writer.commit(&(number + 1).to_le_bytes()).unwrap();
    };
    count(0);
    let reader = Store::open_read_only(&path, options()).unwrap();
    let before = reader.profile("all", ProfileOptions::new()).unwrap();
    count(1);
    assert!(reader.refresh().unwrap());
    let after = reader.profile("all", ProfileOptions::new()).unwrap();
    assert_eq!((before.rows().unwrap(), after.rows().unwrap()), (BATCH, 2 * BATCH));
    let key = [batch(&writer, 1)[7]];
    assert_eq!(after.estimates(&key).unwrap()[0].upper, 1);
    assert_eq!(before.estimates(&key).unwrap()[0].upper, 0);
    // What did not change is the same.
    writer.commit(b"only the position").unwrap();
    assert!(reader.refresh().unwrap());
    let taken = reader.budget().available_bytes();
    let same = reader.profile("all", ProfileOptions::new()).unwrap();
    assert_eq!((same.rows().unwrap(), reader.budget().available_bytes()), (2 * BATCH, taken));
}

#[test]
fn another_store_in_the_same_place_is_not_taken_for_a_newer_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    begin(&path);
    let reader = Store::open_read_only(&path, options()).unwrap();
    let asked = Asked::open(&reader);
    for entry in std::fs::read_dir(&path).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(reader.refresh().is_err());
    drop(Store::create(&path, options()).unwrap());
    assert!(matches!(reader.refresh(), Err(Error::NotAStore { .. })));
    assert!(!asked.check(&reader), "it answers of the files that it holds");
}

#[test]
fn a_dictionary_that_is_held_stays_of_its_commit_and_a_new_one_is_of_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let wanted = || DictionaryOptions::new().memory_bytes(16 << 20);
    let writer = Store::create(&path, options()).unwrap();
    let pages = writer.dictionary("pages", wanted()).unwrap();
    writer.commit(&0u64.to_le_bytes()).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let key = |number: u64| number.to_be_bytes();
    let open = || (number(&reader), reader.dictionary("pages", wanted()).unwrap());
    let check = |(commit, pages): &(u64, overbank::dictionary::Dictionary)| {
        // Each commit has a batch more, the commit's number as the first key's value, and without the batch before the last one.
        let numbers: Vec<u64> = (0..=commit + 1).map(|batch| batch * BATCH + 7).collect();
        let keys: Vec<[u8; 8]> = numbers.iter().map(|&number| key(number)).collect();
        let expected: Vec<bool> =
            (0..=commit + 1).map(|batch| batch < *commit && batch + 2 != *commit).collect();
        assert_eq!(pages.contains_many(&keys).unwrap(), expected, "at {commit}");
        let newest = pages.get(b"newest").unwrap();
        assert_eq!(newest, (*commit > 0).then(|| commit.to_le_bytes().to_vec()));
        let expected: u64 = if *commit < 2 { commit * BATCH } else { (commit - 1) * BATCH };
        assert_eq!(pages.scan().unwrap().count() as u64, expected + u64::from(*commit > 0));
        pages.verify().unwrap();
    };
    let mut held = vec![open()];
    for commit in 1..=8u64 {
        let keys: Vec<[u8; 8]> = ((commit - 1) * BATCH..commit * BATCH).map(key).collect();
        pages.insert_many(&keys, &vec!["value"; keys.len()]).unwrap();
        pages.insert(b"newest", &commit.to_le_bytes()).unwrap();
        if commit > 2 {
            // Back in.
            let keys: Vec<[u8; 8]> = ((commit - 3) * BATCH..(commit - 2) * BATCH).map(key).collect();
            pages.insert_many(&keys, &vec!["again"; keys.len()]).unwrap();
        }
        if commit > 1 {
            let keys: Vec<[u8; 8]> = ((commit - 2) * BATCH..(commit - 1) * BATCH).map(key).collect();
            pages.remove_many(&keys).unwrap();
        }
        if commit % 3 == 0 {
            // Its inputs go, which older commits had.
            pages.compact().unwrap();
        }
        writer.commit(&commit.to_le_bytes()).unwrap();
        assert!(reader.refresh().unwrap() && !reader.refresh().unwrap());
        held.push(open());
        held.iter().for_each(check);
    }
    assert_eq!(held.last().unwrap().0, 8);
    assert!(reader.verify().unwrap().is_whole());
}
