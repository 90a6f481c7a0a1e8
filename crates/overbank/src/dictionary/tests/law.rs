//! Random operations beside the model.

use super::*;
use crate::dictionary::{Compression, Duplicates, Snapshot};
use proptest::prelude::*;

const OPERAND_BYTES_MAX: usize = 40;

#[derive(Clone, Debug)]
enum Step {
    Insert(Batch),
    InsertIfAbsent(Batch),
    Merge(Batch),
    Remove(Batch),
    Load(Batch, bool),
    Snapshot,
    /// Copies a range of the last snapshot into the dictionary: its values come back.
    Copy(u64, u64),
    Flush,
    Settle,
    Compact,
    Commit,
    Reopen,
    Ask(Batch),
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    seed: u64,
    count: usize,
    range: u64,
}

impl Batch {
    fn numbers(self) -> impl Iterator<Item = u64> {
        let mut state = self.seed;
        (0..self.count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % self.range
        })
    }
}

fn batch() -> impl Strategy<Value = Batch> {
    let range = prop_oneof![Just(3u64), Just(100), Just(2000)];
    (any::<u64>(), prop_oneof![4 => 0usize..100, 1 => Just(1200)], range)
        .prop_map(|(seed, count, range)| Batch { seed, count, range })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => batch().prop_map(Step::Insert),
        2 => batch().prop_map(Step::InsertIfAbsent),
        3 => batch().prop_map(Step::Merge),
        3 => batch().prop_map(Step::Remove),
        1 => (batch(), any::<bool>()).prop_map(|(batch, is_first)| Step::Load(batch, is_first)),
        2 => Just(Step::Snapshot),
        1 => any::<(u64, u64)>().prop_map(|(a, b)| Step::Copy(a.min(b), a.max(b))),
        3 => Just(Step::Flush),
        1 => Just(Step::Settle),
        1 => Just(Step::Compact),
        1 => Just(Step::Commit),
        1 => Just(Step::Reopen),
        2 => batch().prop_map(Step::Ask),
    ]
}

fn options() -> impl Strategy<Value = DictionaryOptions> {
    (any::<bool>(), any::<bool>(), 0u8..3, any::<bool>()).prop_map(
        |(has_operator, is_long, code, has_ranks)| {
            let mut options = DictionaryOptions::new().ranks(has_ranks);
            options.shape.compression = Compression::of_code(code).unwrap();
            if has_operator {
                options = options.merge_operator(MergeOperator::Append);
            }
            if is_long { options.page_bytes(16 << 10) } else { options }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_a_map(
        steps in prop::collection::vec(step(), 1..25),
        options in options(),
        threads in prop_oneof![3 => Just(0usize), 1 => Just(1)],
        is_even: bool,
        mask in prop_oneof![3 => Just(u128::MAX), 1 => Just(0xff << 120), 1 => Just(u128::from(u64::MAX) << 64 | 3)],
    ) {
        Run::new(options, threads, is_even, mask).go(&steps);
    }
}

struct Run {
    device: Arc<SimDevice>,
    store: Option<Store>,
    dictionary: Option<Dictionary>,
    options: DictionaryOptions,
    threads: usize,
    is_even: bool,
    mask: u128,
    model: Model,
    committed: Model,
    snapshot: Option<(Snapshot, Model)>,
    written: u64,
}

impl Run {
    fn new(options: DictionaryOptions, threads: usize, is_even: bool, mask: u128) -> Self {
        let (device, store) = simulated(threads);
        let dictionary = small(&store, options, mask).unwrap();
        store.commit(b"").unwrap();
        Run {
            device,
            store: Some(store),
            dictionary: Some(dictionary),
            options,
            threads,
            is_even,
            mask,
            model: Model::new(),
            committed: Model::new(),
            snapshot: None,
            written: 0,
        }
    }

    fn dictionary(&self) -> Dictionary {
        self.dictionary.clone().unwrap()
    }

    fn pairs(&mut self, batch: Batch) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let pair = |number: u64| {
            self.written += 1;
            (key(number, self.is_even), value(number, self.written, self.is_even))
        };
        batch.numbers().map(pair).unzip()
    }

    fn go(mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
        self.check_all();
        self.dictionary().compact().unwrap();
        self.check_all();
        let report = self.dictionary().report();
        assert_eq!((report.items, report.deletions), (self.model.len() as u64, 0));
        assert!(report.runs.len() <= 1, "{report:?}");
        self.check_ranks();
        self.dictionary().verify().unwrap();
        self.store.as_ref().unwrap().commit(b"end").unwrap();
        assert!(self.store.as_ref().unwrap().verify().unwrap().damaged.is_empty());
    }

    fn step(&mut self, step: &Step) {
        let dictionary = self.dictionary();
        let operator = self.options.shape.operator;
        match *step {
            Step::Insert(batch) => {
                let (keys, values) = self.pairs(batch);
                dictionary.insert_many(&keys, &values).unwrap();
                self.model.extend(keys.into_iter().zip(values));
            }
            Step::InsertIfAbsent(batch) => {
                let (keys, values) = self.pairs(batch);
                let done = dictionary.insert_many_if_absent(&keys, &values);
                assert_eq!(done.is_ok(), operator.is_none());
                if done.is_ok() {
                    keys.into_iter().zip(values).for_each(|(key, value)| {
                        self.model.entry(key).or_insert(value);
                    });
                }
            }
            Step::Merge(batch) => {
                let (keys, mut values) = self.pairs(batch);
                // As many as there are in a test come to less than an item may have.
                values.iter_mut().for_each(|operand| operand.truncate(OPERAND_BYTES_MAX));
                let done = dictionary.merge_many(&keys, &values);
                assert_eq!(done.is_ok(), operator.is_some());
                if done.is_ok() {
                    keys.iter()
                        .zip(&values)
                        .for_each(|(key, value)| apply(&mut self.model, operator, key, value));
                }
            }
            Step::Remove(batch) => {
                let (keys, _) = self.pairs(batch);
                dictionary.remove_many(&keys).unwrap();
                keys.iter().for_each(|key| drop(self.model.remove(key)));
            }
            Step::Load(batch, is_first) => {
                let is_first = is_first && operator.is_none();
                let (keys, values) = self.pairs(batch);
                let how = if is_first { Duplicates::First } else { Duplicates::Last };
                let mut load = dictionary.load(how).unwrap();
                for (keys, values) in keys.chunks(100).zip(values.chunks(100)) {
                    load.insert_many(keys, values).unwrap();
                }
                assert_eq!(load.finish().unwrap().items, keys.len() as u64);
                for (key, value) in keys.into_iter().zip(values) {
                    if is_first {
                        self.model.entry(key).or_insert(value);
                    } else {
                        self.model.insert(key, value);
                    }
                }
            }
            Step::Snapshot => self.snapshot = Some((dictionary.snapshot().unwrap(), self.model.clone())),
            Step::Copy(first, last) => {
                let Some((snapshot, then)) = &self.snapshot else { return };
                let hasher = ItemHasher::masked(dictionary.hasher(), self.mask);
                let in_range = |key: &[u8]| (first..=last).contains(&hasher.hash(key).high());
                let copied: Vec<_> = then.iter().filter(|(key, _)| in_range(key)).collect();
                assert_eq!(dictionary.copy_from(snapshot, first..=last).unwrap(), copied.len() as u64);
                self.model.extend(copied.into_iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Step::Flush => dictionary.flush().unwrap(),
            Step::Settle => dictionary.settle().unwrap(),
            Step::Compact => dictionary.compact().unwrap(),
            Step::Commit => {
                self.store.as_ref().unwrap().commit(b"").unwrap();
                self.committed = self.model.clone();
            }
            Step::Reopen => {
                self.check_snapshot();
                drop(dictionary);
                (self.snapshot, self.dictionary, self.store) = (None, None, None);
                let store = Store::open_on(self.device.clone(), store_options(self.threads)).unwrap();
                self.dictionary = Some(small(&store, self.options, self.mask).unwrap());
                self.store = Some(store);
                self.model = self.committed.clone();
            }
            Step::Ask(batch) => {
                let keys: Vec<Vec<u8>> = batch.numbers().map(|number| key(number, self.is_even)).collect();
                self.ask(&keys);
            }
        }
    }

    fn ask(&self, keys: &[Vec<u8>]) {
        let dictionary = self.dictionary();
        let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        assert_eq!(dictionary.get_many(keys).unwrap(), expected);
        for (key, value) in keys.iter().zip(&expected).step_by(7) {
            assert_eq!(&dictionary.get(key).unwrap(), value);
        }
        if self.written.is_multiple_of(4) {
            let snapshot = dictionary.snapshot().unwrap();
            for (key, value) in keys.iter().zip(&expected).step_by(13) {
                assert_eq!(&snapshot.search(key).unwrap(), value);
            }
        }
    }

    fn check_all(&self) {
        let keys: Vec<Vec<u8>> = (0..2000).map(|number| key(number, self.is_even)).collect();
        self.ask(&keys);
        let all: Model = self.dictionary().scan().unwrap().map(Result::unwrap).collect();
        assert!(all == self.model, "{} keys instead of {}", all.len(), self.model.len());
        self.check_order(&self.dictionary().snapshot().unwrap());
        self.check_snapshot();
    }

    /// A scan is in hash order, and its parts are the whole.
    fn check_order(&self, snapshot: &Snapshot) {
        let mut last = None;
        let mut keys = 0;
        for part in 0..4u64 {
            let range = part << 62..=(part << 62 | (u64::MAX >> 2));
            let mut scan = snapshot.scan(range.clone()).unwrap();
            while let Some(record) = scan.next_record().unwrap() {
                assert!(range.contains(&record.hash.high()));
                let this = (record.hash, record.key.to_vec());
                assert!(last.is_none_or(|last| last < this));
                (last, keys) = (Some(this), keys + 1);
            }
        }
        assert_eq!(keys, self.model.len());
    }

    fn check_snapshot(&self) {
        let Some((snapshot, model)) = &self.snapshot else { return };
        let all: Model = snapshot.scan(0..=u64::MAX).unwrap().map(Result::unwrap).collect();
        assert!(all == *model);
        let keys: Vec<&Vec<u8>> = model.keys().collect();
        let expected: Vec<Option<Vec<u8>>> = model.values().cloned().map(Some).collect();
        assert_eq!(snapshot.get_many(&keys).unwrap(), expected);
    }

    /// Of a dictionary that is one run, ranks are the places of a scan.
    fn check_ranks(&self) {
        let dictionary = self.dictionary();
        if !self.options.has_ranks() {
            assert!(dictionary.rank(b"any").is_err());
            return;
        }
        for (place, item) in dictionary.scan().unwrap().enumerate().step_by(5) {
            assert_eq!(dictionary.rank(&item.unwrap().0).unwrap(), Some(place as u64));
        }
        assert_eq!(dictionary.rank(b"no such key").unwrap(), None);
    }
}
