//! Threads parked in the middle of the device: nobody else waits for them who need not. No test here looks at a clock: what would wait
//! hangs.

use super::*;
use crate::device::sim::parked::{Lot, Operation};
use crate::frequency::intake::begin_with_slot;

/// A sketch of 40 groups with something in pages, logs and buffers, and what it counts.
struct Busy {
    lot: Lot,
    store: Store,
    sketch: Frequency,
    model: Model,
    probes: Vec<KeyHash>,
}

impl Busy {
    fn new(writers: usize, pending: usize) -> Self {
        let lot = Lot::new();
        let options = StoreOptions::new().threads(0).seed(Seed(7)).manifest_bytes(1 << 20);
        let store = Store::create_on(Arc::new(lot.clone()), options).unwrap();
        let shape = FrequencyOptions::new().shape(204 * 160, 5).group_pages(4).writers(writers);
        let shape = shape.memory_bytes(2_700_000 * writers + (1 << 20)).pending(pending);
        let sketch = store.frequency("f", shape).unwrap();
        let probes = keys(&store, 0..300);
        let mut busy = Busy { lot, store, sketch, model: Model::default(), probes };
        busy.add(0, 20_000);
        busy.sketch.apply().unwrap();
        if pending > 0 {
            busy.add(0, 500);
            busy.sketch.sketch.flush().unwrap();
        }
        busy.add(0, 300);
        busy
    }

    /// Adds these keys once.
    fn add(&mut self, first: u64, end: u64) {
        for part in keys(&self.store, first..end).chunks(700) {
            self.sketch.update(part, None).unwrap();
            part.iter().for_each(|&hash| self.model.add(hash, 1));
        }
    }

    /// Whether estimates are those of the model.
    fn check(&self, when: &str) {
        let expected = self.model.estimates(&self.sketch, &self.store.hasher(), &self.probes);
        assert_eq!(self.sketch.estimate(&self.probes).unwrap(), expected, "{when}");
        assert_eq!(self.sketch.total_weight(), self.model.counts.values().sum::<u64>(), "{when}");
        assert!(self.sketch.bounds(&self.probes[..1], 0.9).unwrap()[0].upper >= 1);
    }

    /// Runs `work` on a thread until it is parked in `operation`, then `beside`, then the rest of `work`.
    fn beside<T: Send>(
        &mut self,
        operation: Operation,
        work: impl FnOnce(&Store, &Frequency) -> T + Send,
        beside: impl FnOnce(&mut Self),
    ) -> T {
        let is_parked = self.lot.park(operation);
        let (store, sketch) = (self.store.clone(), self.sketch.clone());
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                begin_with_slot(0);
                work(&store, &sketch)
            });
            is_parked.recv().unwrap();
            begin_with_slot(1);
            beside(self);
            self.lot.let_go();
            worker.join().unwrap()
        })
    }
}

#[test]
fn beside_a_reader_in_the_device_writers_log_pass_and_commit() {
    for keys_asked in [1, 300] {
        let mut busy = Busy::new(1, 2);
        let probes = busy.probes[..keys_asked].to_vec();
        let before = busy.model.estimates(&busy.sketch, &busy.store.hasher(), &probes);
        let answers = busy.beside(
            Operation::Read,
            move |_, sketch| sketch.estimate(&probes).unwrap(),
            |busy| {
                let first = busy.sketch.sketch.sequence.load(Ordering::Relaxed);
                // Several buffers, so several logs, and passes that write every group more than once.
                let updates = 8 * busy.sketch.buffer_updates() as u64;
                busy.add(100_000, 100_000 + updates);
                busy.check("full buffers");
                busy.sketch.apply().unwrap();
                busy.check("a pass");
                busy.store.commit(b"beside").unwrap();
                busy.add(0, 300);
                busy.sketch.apply().unwrap();
                busy.store.commit(b"again").unwrap();
                busy.sketch.decay().unwrap();
                assert!(busy.sketch.sketch.sequence.load(Ordering::Relaxed) > first + 6);
            },
        );
        // One round saw the state before everything; of two, the second found that the whole was replaced, and all are asked anew.
        let now = busy.sketch.estimate(&busy.probes[..keys_asked]).unwrap();
        assert_eq!(answers, if keys_asked == 1 { before } else { now });
    }
}

#[test]
fn beside_a_pass_in_the_device_estimates_answer_and_writers_with_room_go_on() {
    for operation in [Operation::Write, Operation::Read] {
        let mut busy = Busy::new(2, 3);
        busy.beside(
            operation,
            |_, sketch| sketch.apply().unwrap(),
            |busy| {
                busy.check("in a pass");
                // The log of what waits is parked with all turns held, the pass itself with none.
                if operation == Operation::Read {
                    busy.add(0, 200);
                    busy.check("in a pass, with more");
                }
            },
        );
        busy.check("behind the pass");
        busy.store.commit(b"x").unwrap();
        busy.check("behind the commit");
    }
}

#[test]
fn beside_a_pass_that_writes_its_groups_estimates_answer_and_writers_go_on() {
    let mut busy = Busy::new(2, 3);
    // Nothing waits in the buffers, so the first write is that of a group.
    busy.sketch.sketch.flush().unwrap();
    busy.beside(
        Operation::Write,
        |_, sketch| sketch.apply().unwrap(),
        |busy| {
            busy.check("in a pass");
            busy.add(0, 300);
            busy.check("in a pass, with more");
        },
    );
    busy.check("behind the pass");
}

#[test]
fn beside_a_commit_in_the_device_estimates_answer_and_writers_go_on() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut busy = Busy::new(2, 3);
        let committed = busy.model.clone();
        busy.beside(
            operation,
            |store, _| store.commit(b"1").unwrap(),
            |busy| {
                busy.check("in a commit");
                if operation == Operation::Sync {
                    // A log of its own among it.
                    let updates = busy.sketch.buffer_updates() as u64;
                    busy.add(200_000, 200_000 + updates + 1_000);
                    busy.check("in a commit, with more");
                }
            },
        );
        busy.check("behind the commit");
        // What came while it synced is not in it; nor is it lost.
        let Busy { lot, store, sketch, model, probes } = busy;
        drop((sketch, store));
        let store = Store::open_on(Arc::new(lot.clone()), StoreOptions::new()).unwrap();
        let sketch = store.frequency("f", FrequencyOptions::new()).unwrap();
        assert_eq!(sketch.total_weight(), committed.counts.values().sum::<u64>());
        assert_eq!(sketch.estimate(&probes).unwrap(), committed.estimates(&sketch, &store.hasher(), &probes));
        drop(model);
        assert!(store.verify().unwrap().is_whole());
    }
}

#[test]
fn beside_a_writer_that_logs_estimates_answer_and_other_threads_add() {
    let mut busy = Busy::new(2, 4);
    let updates = busy.sketch.buffer_updates() as u64;
    let hashes = keys(&busy.store, 300_000..300_000 + updates + 500);
    let more = hashes.clone();
    busy.beside(
        Operation::Write,
        move |_, sketch| more.chunks(500).for_each(|part| sketch.update(part, None).unwrap()),
        |busy| {
            let expected = busy.model.estimates(&busy.sketch, &busy.store.hasher(), &busy.probes);
            let now = busy.sketch.estimate(&busy.probes).unwrap();
            assert!(now.iter().zip(&expected).all(|(now, expected)| now >= expected));
            // This thread's own slot is the one that is being logged: it takes another.
            begin_with_slot(0);
            busy.add(0, 300);
            let later = busy.sketch.estimate(&busy.probes).unwrap();
            assert!(later.iter().zip(&now).all(|(later, now)| *later > *now));
        },
    );
    hashes.iter().for_each(|&hash| busy.model.add(hash, 1));
    busy.check("at the end");
}

#[test]
fn merges_of_two_sketches_into_each_other_end() {
    let store =
        Store::in_memory(StoreOptions::new().threads(0).seed(Seed(7)).manifest_bytes(1 << 20)).unwrap();
    let options = || small().bytes(64 << 12, 5).cell_bits(64);
    let (one, other) = (store.frequency("a", options()).unwrap(), store.frequency("b", options()).unwrap());
    let hashes = keys(&store, 0..50);
    one.update(&hashes, None).unwrap();
    other.update(&hashes, Some(&[2; 50])).unwrap();
    std::thread::scope(|scope| {
        for turn in 0..2 {
            let (mine, theirs) = if turn == 0 { (&one, &other) } else { (&other, &one) };
            scope.spawn(move || (0..8).for_each(|_| mine.merge(theirs).unwrap()));
        }
    });
    // Every merge added one state of a sketch, the same for all keys, so all keys have one count, and the weight says it too.
    for sketch in [&one, &other] {
        let counts = sketch.estimate(&hashes).unwrap();
        assert!(counts.iter().all(|&count| count == counts[0] && count > 8), "{counts:?}");
        assert_eq!(sketch.total_weight(), 50 * counts[0]);
    }
    let before = one.estimate(&hashes).unwrap()[0];
    one.merge(&one.clone()).unwrap();
    assert_eq!(one.estimate(&hashes).unwrap(), [2 * before; 50]);
    assert_eq!(one.total_weight(), 100 * before);
}
