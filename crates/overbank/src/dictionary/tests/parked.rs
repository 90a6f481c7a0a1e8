//! Threads parked in the middle of the device: nobody else waits for them who need not. What would wait hangs.

use super::*;
use crate::device::sim::parked::{Lot, Operation};

/// A dictionary with something on flash, in RAM and in the memtable.
struct Busy {
    lot: Lot,
    store: Store,
    dictionary: Dictionary,
    model: Model,
}

impl Busy {
    fn new() -> Self {
        let lot = Lot::new();
        let store = Store::create_on(Arc::new(lot.clone()), store_options(0)).unwrap();
        let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
        let mut busy = Busy { lot, store, dictionary, model: Model::new() };
        busy.insert(0..300, 1);
        busy.dictionary.flush().unwrap();
        busy.insert(300..320, 2);
        busy
    }

    fn insert(&mut self, numbers: std::ops::Range<u64>, written: u64) {
        let (keys, values) = pairs(numbers, written, true);
        self.dictionary.insert_many(&keys, &values).unwrap();
        self.model.extend(keys.into_iter().zip(values));
    }

    fn check(&self, when: &str) {
        let keys: Vec<&Vec<u8>> = self.model.keys().collect();
        let found = self.dictionary.get_many(&keys).unwrap();
        assert!(found.into_iter().eq(self.model.values().cloned().map(Some)), "{when}");
        assert!(scanned(&self.dictionary) == self.model, "a scan {when}");
    }

    /// Runs `work` on a thread until it is parked in `operation`, then `beside`, then the rest of `work`.
    fn beside<T: Send>(
        &mut self,
        operation: Operation,
        work: impl FnOnce(&Store, &Dictionary) -> T + Send,
        beside: impl FnOnce(&mut Self),
    ) -> T {
        let is_parked = self.lot.park(operation);
        let (store, dictionary) = (self.store.clone(), self.dictionary.clone());
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || work(&store, &dictionary));
            is_parked.recv().unwrap();
            beside(self);
            self.lot.let_go();
            worker.join().unwrap()
        })
    }
}

#[test]
fn beside_a_reader_in_the_device_writers_flush_merge_and_commit() {
    let mut busy = Busy::new();
    let before = busy.model.clone();
    let (keys, _) = pairs(0..320, 0, true);
    let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| before.get(key).cloned()).collect();
    type Ask = fn(&Dictionary, &[Vec<u8>]) -> Vec<Option<Vec<u8>>>;
    let asks: [Ask; 3] = [
        |dictionary, keys| dictionary.get_many(keys).unwrap(),
        |dictionary, keys| vec![dictionary.get(&keys[0]).unwrap()],
        |dictionary, keys| {
            let all = scanned(dictionary);
            keys.iter().map(|key| all.get(key).cloned()).collect()
        },
    ];
    for (turn, ask) in (3..).zip(asks) {
        let expected_now: Vec<Option<Vec<u8>>> =
            keys.iter().map(|key| busy.model.get(key).cloned()).collect();
        let asked = keys.clone();
        let answers = busy.beside(
            Operation::Read,
            move |_, dictionary| ask(dictionary, &asked),
            |busy| {
                // Several memtables of each key anew.
                busy.insert(0..2_000, turn);
                busy.check("beside a reader");
                busy.dictionary.compact().unwrap();
                busy.store.commit(b"beside").unwrap();
                busy.check("behind a commit");
            },
        );
        // All of it is of the moment at which it was asked.
        assert!(answers == expected_now[..answers.len()], "the way number {turn}");
        assert!(turn > 3 || expected_now == expected);
    }
}

#[test]
fn beside_a_flush_in_the_device_lookups_answer_and_writers_with_room_go_on() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut busy = Busy::new();
        busy.beside(
            operation,
            |_, dictionary| dictionary.flush().unwrap(),
            |busy| {
                busy.check("in a flush");
                busy.insert(100..140, 5);
                busy.check("in a flush, with more");
                let snapshot = busy.dictionary.snapshot().unwrap();
                assert_eq!(snapshot.scan(0..=u64::MAX).unwrap().count(), busy.model.len());
            },
        );
        busy.check("behind the flush");
        busy.store.commit(b"x").unwrap();
    }
}

#[test]
fn beside_a_merge_in_the_device_lookups_answer_and_writers_with_room_go_on() {
    for operation in [Operation::Read, Operation::Write, Operation::Sync] {
        let mut busy = Busy::new();
        busy.dictionary.flush().unwrap();
        busy.beside(
            operation,
            |_, dictionary| dictionary.compact().unwrap(),
            |busy| {
                busy.check("in a merge");
                busy.insert(100..140, 5);
                busy.check("in a merge, with more");
            },
        );
        busy.check("behind the merge");
        busy.dictionary.verify().unwrap();
    }
}

#[test]
fn what_comes_while_a_commit_syncs_is_in_the_next() {
    let mut busy = Busy::new();
    let committed = busy.model.clone();
    busy.beside(
        Operation::Sync,
        |store, _| store.commit(b"1").unwrap(),
        |busy| {
            busy.insert(5_000..5_040, 7);
            busy.check("in a commit");
        },
    );
    busy.check("behind the commit");
    let Busy { lot, store, dictionary, .. } = busy;
    drop((dictionary, store));
    let store = Store::open_on(Arc::new(lot), store_options(0)).unwrap();
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    assert!(scanned(&dictionary) == committed);
}
