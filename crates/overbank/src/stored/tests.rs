//! Sketches that come back, from commits, crashes and other threads.

use super::*;
use crate::device::Device;
use crate::device::memory::MemoryDevice;
use crate::device::sim::SimDevice;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::filter::QuotientFilter;
use crate::sketch::{
    CocoSketch, CountMin, CountSketch, DdSketch, Elastic, HyperLogLog, Locher, LogLog, SpaceSaving, UnivMon,
};
use crate::store::{StoreOptions, registry};
use crate::{HashKind, KeyHash, KeyHasher, Seed};
use std::sync::Arc;

fn options() -> StoreOptions {
    StoreOptions::new().memory_bytes(16 << 20).threads(1).seed(Seed(7)).hash_kind(HashKind::Xxh3)
}

fn keys(store: &Store, keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(|key| store.hasher().hash_u64(key)).collect()
}

/// All kinds of sketches of one store, with the same names each time.
struct All {
    narrow: Stored<CountMin<u32>>,
    wide: Stored<CountMin<u64>>,
    distinct: Stored<HyperLogLog>,
    heavy: Stored<SpaceSaving>,
    values: Stored<DdSketch>,
    members: Stored<QuotientFilter>,
    signed: Stored<CountSketch>,
    parts: Stored<CocoSketch>,
    ranks: Stored<LogLog>,
    spreaders: Stored<Locher>,
    elastic: Stored<Elastic>,
    universal: Stored<UnivMon>,
}

impl All {
    fn open(store: &Store) -> Result<Self> {
        let hasher = store.hasher();
        Ok(Self {
            narrow: store.sketch("narrow", || CountMin::with_shape(4, 16, 3, hasher))?,
            wide: store.sketch("wide", || CountMin::with_shape(4, 16, 3, hasher))?,
            distinct: store.sketch("distinct", || HyperLogLog::new(8, hasher))?,
            heavy: store.sketch("heavy", || SpaceSaving::new(8, 12, hasher))?,
            values: store.sketch("values", || DdSketch::new(0.01))?,
            members: store.sketch("members", || QuotientFilter::growing(10_000, 1e-3, hasher))?,
            signed: store.sketch("signed", || CountSketch::new(16, 3, hasher))?,
            parts: store.sketch("parts", || CocoSketch::new(16, 2, 8, hasher))?,
            ranks: store.sketch("ranks", || LogLog::new(8, hasher))?,
            spreaders: store.sketch("spreaders", || Locher::new(16, 3, 4, 8, hasher))?,
            elastic: store.sketch("elastic", || Elastic::new(4, 16, 1, 8, hasher))?,
            universal: store.sketch("universal", || UnivMon::new(3, 16, 3, 4, 8, hasher))?,
        })
    }

    fn update(&self, store: &Store, range: std::ops::Range<u64>) -> Result<()> {
        let hashes = keys(store, range.clone());
        self.narrow.update(|sketch| sketch.update_batch(&hashes, None))?;
        self.wide.update(|sketch| sketch.update_batch(&hashes, None))?;
        self.distinct.update(|sketch| sketch.update_batch(&hashes))?;
        self.heavy.update(|sketch| {
            hashes
                .iter()
                .zip(range.clone())
                .for_each(|(&hash, key)| sketch.update(hash, &key.to_le_bytes(), key % 5));
        })?;
        self.signed.update(|sketch| sketch.update_batch(&hashes, None))?;
        self.ranks.update(|sketch| sketch.update_batch(&hashes))?;
        for (&hash, key) in hashes.iter().zip(range.clone()) {
            let bytes = key.to_le_bytes();
            self.parts.update(|sketch| sketch.update(hash, &bytes, key % 5))?;
            self.spreaders.update(|sketch| sketch.update(hashes[0], &bytes, hash))?;
            self.elastic.update(|sketch| sketch.update(hash, &bytes, key % 5))?;
            self.universal.update(|sketch| sketch.update(hash, &bytes, key % 5))?;
        }
        self.values.update(|sketch| range.for_each(|key| sketch.update(key as f64, 1)))?;
        self.members.update(|filter| filter.insert_many(&hashes))??;
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![
            self.narrow.with(CountMin::to_bytes)?,
            self.wide.with(CountMin::to_bytes)?,
            self.distinct.with(HyperLogLog::to_bytes)?,
            self.heavy.with(SpaceSaving::to_bytes)?,
            self.values.with(DdSketch::to_bytes)?,
            self.members.with(QuotientFilter::to_bytes)?,
            self.signed.with(CountSketch::to_bytes)?,
            self.parts.with(CocoSketch::to_bytes)?,
            self.ranks.with(LogLog::to_bytes)?,
            self.spreaders.with(Locher::to_bytes)?,
            self.elastic.with(Elastic::to_bytes)?,
            self.universal.with(UnivMon::to_bytes)?,
        ])
    }
}

#[test]
fn every_kind_is_kept_across_commits_and_opens() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let all = All::open(&store).unwrap();
    let mut expected = Vec::new();
    for round in 0..3 {
        all.update(&store, 100 * round..100 * round + 150).unwrap();
        expected = all.bytes().unwrap();
        store.commit(&[round as u8]).unwrap();
    }
    all.update(&store, 0..9).unwrap();
    // What came after the last commit is gone with its handles, the store and the process.
    drop((all, store));
    for open in [Store::open_on, Store::open_read_only_on] {
        let store = open(device.clone(), options()).unwrap();
        let all = All::open(&store).unwrap();
        assert_eq!(all.bytes().unwrap(), expected);
        let stored: Vec<_> = expected.iter().map(|bytes| (bytes[4], bytes[6])).collect();
        let kinds = [
            registry::COUNT_MIN,
            registry::COUNT_MIN,
            registry::HYPERLOGLOG,
            registry::SPACE_SAVING,
            registry::DDSKETCH,
            registry::QUOTIENT_FILTER,
            registry::COUNT_SKETCH,
            registry::COCO,
            registry::LOG_LOG,
            registry::LOCHER,
            registry::ELASTIC,
            registry::UNIV_MON,
        ];
        assert_eq!(
            stored,
            kinds.map(|kind| (kind.id as u8, kind.version as u8)),
            "headers and manifest agree"
        );
    }
}

#[test]
fn two_opens_give_the_same_and_threads_share_it() {
    let store = Store::in_memory(options()).unwrap();
    let make = || HyperLogLog::new(10, store.hasher());
    let first = store.sketch("a", make).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, second) = (store.clone(), store.open_sketch::<HyperLogLog>("a").unwrap());
            scope.spawn(move || {
                for batch in 0..20 {
                    let hashes = keys(&store, 1000 * thread + 50 * batch..1000 * thread + 50 * (batch + 1));
                    second.update(|sketch| sketch.update_batch(&hashes)).unwrap();
                    if batch % 8 == thread {
                        store.commit(b"").unwrap();
                    }
                }
            });
        }
    });
    let mut model = make().unwrap();
    model.update_batch(&keys(&store, 0..4000));
    assert_eq!(first.snapshot().unwrap(), model);
    let mut more = make().unwrap();
    more.update_batch(&keys(&store, 4000..9000));
    first.merge(&more).unwrap();
    model.merge(&more).unwrap();
    assert_eq!(store.sketch("a", make).unwrap().snapshot().unwrap(), model);
}

#[test]
fn another_kind_shape_type_or_seed_is_refused() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let hasher = store.hasher();
    let open_ones = All::open(&store).unwrap();
    for is_open in [true, false] {
        // Open, and then only stored.
        let wrong_kind = store.sketch("distinct", || SpaceSaving::new(8, 12, hasher)).unwrap_err();
        assert!(matches!(wrong_kind, Error::WrongKind { .. }), "{wrong_kind}");
        let text = wrong_kind.to_string();
        assert!(text.contains("\"distinct\" is a HyperLogLog sketch, not a space-saving sketch"), "{text}");
        let shape = store.sketch("distinct", || HyperLogLog::new(9, hasher)).unwrap_err();
        assert!(matches!(shape, Error::Incompatible { what: "lg_m", .. }), "{shape}");
        let other = KeyHasher::new(HashKind::Xxh3, Seed(8));
        let seed = store.sketch("distinct", || HyperLogLog::new(8, other)).unwrap_err();
        assert!(matches!(seed, Error::Incompatible { what: "the seed's fingerprint", .. }), "{seed}");
        let cells = store.open_sketch::<CountMin<u32>>("wide").unwrap_err();
        assert!(matches!(cells, Error::Incompatible { .. }), "{cells}");
        assert!(matches!(store.open_sketch::<DdSketch>("none"), Err(Error::NotFound { .. })));
        store.sketch("members", || QuotientFilter::growing(10_000, 1e-3, hasher)).unwrap();
        if is_open {
            open_ones.update(&store, 0..2000).unwrap();
            store.commit(b"").unwrap();
            for name in ["narrow", "wide", "distinct", "heavy", "values", "members"] {
                store.close(name).unwrap();
            }
        }
    }
    assert!(matches!(open_ones.values.with(DdSketch::count), Err(Error::Closed { .. })));
    assert!(matches!(open_ones.values.update(DdSketch::clear), Err(Error::Closed { .. })));
    drop(store);
    let store = Store::open_read_only_on(device, options()).unwrap();
    let values = store.open_sketch::<DdSketch>("values").unwrap();
    assert!(matches!(values.update(DdSketch::clear), Err(Error::ReadOnly { .. })));
    assert!(matches!(store.sketch("new", || DdSketch::new(0.01)), Err(Error::NotFound { .. })));
}

#[test]
fn the_budget_is_charged_and_given_back() {
    let store = Store::in_memory(options()).unwrap();
    let free = store.budget().available_bytes();
    let hasher = store.hasher();
    let large = |mib: u64| move || CountMin::<u32>::with_shape(mib << 8, 256, 4, hasher);
    let sketch = store.sketch("a", large(4)).unwrap();
    assert!(store.budget().available_bytes() <= free - (4 << 20));
    assert!(matches!(store.sketch("b", large(14)), Err(Error::BudgetExceeded { .. })));
    drop(sketch);
    // It holds nothing that was ever committed, and stays until it is.
    assert!(store.budget().available_bytes() < free);
    store.commit(b"").unwrap();
    assert_eq!(store.budget().available_bytes(), free);

    // What grows beyond the budget takes no more.
    let values = store.sketch("values", || DdSketch::new(0.01)).unwrap();
    let rest = store.budget().available_bytes();
    let rest = store.budget().reserve("the test", rest, rest).unwrap();
    values.update(|sketch| (0..200).for_each(|power| sketch.update(2f64.powi(power), 1))).unwrap();
    let refused = values.update(|sketch| sketch.update(1.0, 1));
    assert!(matches!(refused, Err(Error::BudgetExceeded { .. })));
    assert_eq!(values.with(DdSketch::count).unwrap(), 200);
    drop(rest);
    values.update(|sketch| sketch.update(1.0, 1)).unwrap();
}

#[test]
fn a_panic_in_a_change_is_neither_answered_from_nor_committed() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let sketch = store.sketch("a", || DdSketch::new(0.01)).unwrap();
    sketch.update(|sketch| sketch.update(1.0, 1)).unwrap();
    store.commit(b"one").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = sketch.update(|sketch| {
            sketch.update(2.0, 1);
            panic!("planted");
        });
    }));
    assert!(panicked.is_err());
    assert!(matches!(sketch.with(DdSketch::count), Err(Error::Poisoned { .. })));
    assert!(matches!(store.commit(b"two"), Err(Error::Poisoned { .. })));
    drop((sketch, store));
    let store = Store::open_on(device, options()).unwrap();
    assert_eq!(store.position(), b"one");
    assert_eq!(store.open_sketch::<DdSketch>("a").unwrap().with(DdSketch::count).unwrap(), 1);
}

#[test]
fn what_did_not_change_costs_a_commit_nothing() {
    let device = Arc::new(SimDevice::new(3));
    let store = Store::create_on(device.clone(), options()).unwrap();
    let all = All::open(&store).unwrap();
    all.update(&store, 0..10).unwrap();
    store.commit(b"a").unwrap();
    let changes = device.changes();
    all.bytes().unwrap();
    store.commit(b"a").unwrap();
    assert_eq!(device.changes(), changes);
}

/// A store with all kinds, and its commits.
struct Kinds {
    commits: u64,
}

impl Subject for Kinds {
    type Answers = Vec<Vec<u8>>;

    fn work(
        &self,
        device: Arc<dyn Device>,
        seed: u64,
        history: &mut History<'_, Vec<Vec<u8>>>,
    ) -> crate::Result<()> {
        let store = Store::create_on(device, options())?;
        history.created();
        let all = All::open(&store)?;
        for number in 0..self.commits {
            let from = 31 * seed + 17 * number;
            all.update(&store, from..from + 3 * (seed + number) + 1)?;
            history.commit(all.bytes()?, || store.commit(&number.to_le_bytes()).map(drop))?;
        }
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> std::result::Result<Found<Vec<Vec<u8>>>, String> {
        let store = match Store::open_on(Arc::new(image.clone()), options()) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        if store.record("members").is_none() {
            return Ok(Found::Empty);
        }
        let answers = All::open(&store).and_then(|all| all.bytes());
        Ok(Found::Answers(answers.map_err(|error| format!("cannot open a sketch: {error}"))?))
    }

    fn go_on(&self, image: &SimDevice) -> std::result::Result<Vec<Vec<u8>>, String> {
        let work = || -> Result<Vec<Vec<u8>>> {
            let store = Store::open_on(Arc::new(image.clone()), options())?;
            let all = All::open(&store)?;
            all.update(&store, 0..9)?;
            store.commit(b"after")?;
            all.bytes()
        };
        work().map_err(|error| format!("after recovery: {error}"))
    }
}

#[test]
fn what_a_sketch_calls_is_refused_instead_of_waiting_for_itself() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let all = All::open(&store).unwrap();
    let refused = |error: Error| assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    let waits = || {
        refused(store.commit(b"inside").unwrap_err());
        refused(store.close("distinct").unwrap_err());
        refused(store.verify().unwrap_err());
        refused(all.distinct.update(|_| ()).unwrap_err());
        refused(all.distinct.with(|_| ()).unwrap_err());
        all.values.update(|values| values.update(1.0, 1)).unwrap();
    };
    all.distinct.update(|_| waits()).unwrap();
    all.distinct.with(|_| waits()).unwrap();
    // Another store is no concern of this one's.
    let other = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    all.distinct.update(|_| other.commit(b"beside")).unwrap().unwrap();
    store.commit(b"outside").unwrap();
    assert_eq!(all.values.with(DdSketch::count).unwrap(), 2);
}

#[test]
fn a_crash_anywhere_leaves_the_sketches_of_one_commit() {
    let states = explore::crash_everywhere(&Kinds { commits: 3 }, 0..2, 2);
    assert!(states >= 500, "only {states} crash states");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&Kinds { commits: 3 }, 0..2));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    explore::fail_everywhere(&Kinds { commits: 2 }, [1].into_iter());
}
