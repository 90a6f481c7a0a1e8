//! Locher's sketch on the framework.

use super::law::{HEAVY_KEYS, Ideal, failures_at_most, moves, obey};
use super::*;
use crate::sketch::Locher;

const DEPTH: usize = 3;
type Sources = Spreaders<u64, DEPTH>;

fn contact(source: u64, item: u64) -> Contact<u64> {
    Contact { source: hash(source), key: source, item: hash(!item) }
}

fn shape(columns: u32) -> Sources {
    Sources::new(columns, hasher()).expect("valid")
}

fn ideal(columns: u32) -> Locher {
    Locher::new(columns, DEPTH as u32, HEAVY_KEYS, 8, hasher()).expect("valid")
}

impl Ideal<Sources> for Locher {
    fn update(&mut self, contact: Contact<u64>) {
        self.update(contact.source, &contact.key.to_le_bytes(), contact.item);
    }

    fn merge(&mut self, next: &Self) {
        self.merge(next).expect("of one shape");
    }

    fn compare(&self, reader: &Reader<Sources>, first: u64, last: u64) {
        let seen = reader.spreaders(first, last).expect("kept");
        assert_eq!(seen.cells, self.cells);
        // With the ideal sketch's cells and the sources that are known, all else follows.
        let known: Vec<_> =
            seen.top(usize::MAX).iter().map(|source| (source.hash, source.key.to_vec())).collect();
        for (key_hash, key) in &known {
            let source = u64::from_le_bytes(key[..].try_into().expect("eight bytes"));
            assert_eq!(hash(source), *key_hash);
        }
        let (id, cells, kept) = (self.hash_id(), self.cells.clone(), HEAVY_KEYS);
        let same =
            Locher::from_cells(self.columns(), self.depth(), id, cells, kept, 8, &known).expect("valid");
        assert_eq!(seen.to_bytes(), same.to_bytes());
        assert_eq!(seen.bounds(hash(1), 0.9), self.bounds(hash(1), 0.9));
        (0..60).for_each(|source| assert_eq!(seen.estimate(hash(source)), self.estimate(hash(source))));
        assert_eq!(seen.pairs(), self.pairs());
        let top = reader.top_spreaders(first, last, 5).expect("kept");
        for ((key, items), source) in top.iter().zip(seen.top(5)) {
            assert_eq!(
                (key.hash, &key.key.to_le_bytes()[..], *items),
                (source.hash, source.key, source.items)
            );
        }
    }
}

fn contacts() -> impl Strategy<Value = Contact<u64>> {
    let source = prop_oneof![2 => 0u64..3, 1 => 0u64..60];
    (source, 0u64..2000).prop_map(|(source, item)| contact(source, item))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn spreaders_are_those_of_one_sketch(
        moves in moves(contacts(), 500),
        workers in 1usize..=16,
        lg_ring in 1u32..5,
    ) {
        obey(shape(8), workers, lg_ring, moves, &ideal(8));
    }
}

#[test]
fn one_row_and_sixteen_answer_as_their_sketches() {
    fn check<const D: usize>() {
        let shape = Spreaders::<u64, D>::new(4, hasher()).expect("valid");
        let Monitor { mut workers, reader, .. } =
            MonitorOptions::new(2).lg_ring(3).start(shape).expect("valid");
        let mut ideal = Locher::new(4, D as u32, 8, 8, hasher()).expect("valid");
        for i in 0..400u64 {
            let contact = contact(i % 7, i * i % 90);
            workers[i as usize % 2].insert(contact);
            ideal.update(contact.source, &[], contact.item);
        }
        let seen = reader.spreaders(0, 0).expect("live");
        assert_eq!(seen.cells, ideal.cells);
        (0..9).for_each(|source| assert_eq!(seen.estimate(hash(source)), ideal.estimate(hash(source))));
    }
    check::<1>();
    check::<2>();
    check::<16>();
    assert!(
        Spreaders::<u64, 0>::new(8, hasher()).is_err() && Spreaders::<u64, 17>::new(8, hasher()).is_err()
    );
    assert!(Sources::new(1, hasher()).is_err() && Sources::new(1 << 20, hasher()).is_err());
    assert!(Spreaders::<[u8; 1 << 15], 1>::new(8, hasher()).is_err());
}

/// The trap of a sum over a row that begins with 0, while each empty cell says 11: what absent sources seem to have would be far from 0.
/// The sum of what workers and aggregator hold together is meant, not of what was sent.
#[test]
fn absent_sources_have_no_items() {
    let Monitor { mut workers, reader, .. } = MonitorOptions::new(16).start(shape(64)).expect("valid");
    assert_eq!(reader.spreaders(0, 0).expect("live").pairs(), 0.0);
    assert_eq!(reader.spreaders(0, 0).expect("live").estimate(hash(1)), 0.0);
    for source in 0..40 {
        (0..=source).for_each(|item| workers[(source + item) as usize % 16].insert(contact(source, item)));
    }
    let sketch = reader.spreaders(0, 0).expect("live");
    // 820 pairs; a row that began with the wrong empty sum is off by 690.
    assert!((sketch.pairs() / 820.0 - 1.0).abs() < 0.3, "{}", sketch.pairs());
    let absent: f64 = (1000..1400).map(|source| sketch.estimate(hash(source))).sum::<f64>() / 400.0;
    assert!(absent < 8.0, "{absent}");
}

/// The trap of a heap that does not admit while it has room.
#[test]
fn while_there_is_room_every_spreader_is_known() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(16).heavy_keys(20).start(shape(1 << 10)).expect("valid");
    // The greatest first: all others are less than the least so far.
    for source in 0..20u64 {
        for item in 0..2000 / (source + 1) {
            workers[(source + item) as usize % 16].insert(contact(source, item));
        }
        workers.iter_mut().for_each(Worker::publish);
        aggregator.poll(|| 0);
    }
    while aggregator.poll(|| 0).applied > 0 {}
    let mut shown: Vec<u64> =
        reader.top_spreaders(0, 0, 100).expect("live").iter().map(|shown| shown.0.key).collect();
    assert_eq!(shown.first(), Some(&0));
    shown.sort_unstable();
    assert_eq!(shown, (0..20).collect::<Vec<_>>());
}

/// A rank is never above 15, whatever the least source that is known weighs.
#[test]
fn a_greater_spreader_takes_the_place_of_a_lesser() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).heavy_keys(1).start(shape(256)).expect("valid");
    for (source, items) in [(1, 200), (2, 2000)] {
        let contacts: Vec<_> = (0..items).map(|item| contact(source, item)).collect();
        workers[0].insert_batch(&contacts);
        while aggregator.poll(|| 0).applied > 0 {}
        let shown = reader.top_spreaders(0, 0, 9).expect("live");
        assert_eq!(shown.iter().map(|shown| shown.0.key).collect::<Vec<_>>(), [source]);
    }
}

/// Contacts dealt out in turn to 16 workers, the hard case that a partition by hash hides, among 2000 sources of one item.
#[test]
fn round_robin_finds_the_spreaders() {
    for count in [1, 2, 16] {
        let Monitor { mut workers, mut aggregator, reader } =
            MonitorOptions::new(count).heavy_keys(16).start(shape(1 << 12)).expect("valid");
        let clock = Clock::default();
        for i in 0..10_000u64 {
            // Sources 0 to 3 have 2000 items each, the others one.
            let contact = if i % 5 < 4 { contact(i % 5, i / 5) } else { contact(10 + i / 5, 443) };
            workers[i as usize % count].insert(contact);
            if i % 100 == 0 {
                clock.pass_ns(100_000);
                aggregator.poll(clock.now());
            }
        }
        let top = reader.top_spreaders(0, 0, 4).expect("live");
        let mut shown: Vec<u64> = top.iter().map(|shown| shown.0.key).collect();
        shown.sort_unstable();
        assert_eq!(shown, [0, 1, 2, 3], "{count} workers");
        assert!(top.iter().all(|shown| (800.0..5000.0).contains(&shown.1)), "{top:?}");
    }
}

/// The trap of a full ring: ranks that could not be sent are sent when there is room, and with the source that most of them are of.
#[test]
fn a_spreader_is_known_though_the_ring_was_full_and_it_has_ended() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).lg_ring(1).heavy_keys(1).start(shape(256)).expect("valid");
    // The ring's one place is taken, and nobody polls.
    workers[0].insert_batch(&(0..40).map(|item| contact(1, item)).collect::<Vec<_>>());
    (0..5000).for_each(|item| workers[0].insert(contact(2, item)));
    (3..200).for_each(|source| workers[0].insert(contact(source, 443)));
    let is_shown = || reader.top_spreaders(0, 0, 1).expect("live").iter().any(|shown| shown.0.key == 2);
    assert!(!is_shown());
    assert!(reader.spreaders(0, 0).expect("live").estimate(hash(2)) > 2000.0);
    for _ in 0..1000 {
        aggregator.poll(|| 0);
        workers[0].publish();
    }
    assert!(is_shown());
    let key = Hashed { hash: hash(2), key: 2 };
    assert!(reader.applied_estimate(key) >= Some(2000));
    assert_eq!(reader.applied_estimate(key), reader.estimate(0, 0, key));
}

/// τ may rise as far as its policy lets it: a source of 400 items is sent all the same.
#[test]
fn no_threshold_hides_a_spreader() {
    let options =
        MonitorOptions::new(1).lg_ring(12).policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 });
    let Monitor { mut workers, mut aggregator, reader } = options.start(shape(256)).expect("valid");
    let clock = Clock::default();
    (0..200).for_each(|_| workers[0].insert(contact(0, 0)));
    for _ in 0..2 {
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    }
    assert_eq!(aggregator.tau(), 64);
    (0..400).for_each(|item| workers[0].insert(contact(5, item)));
    workers[0].publish();
    aggregator.poll(clock.now());
    assert_eq!(reader.top_spreaders(0, 0, 1).expect("live")[0].0.key, 5);
}

#[test]
fn spreaders_are_kept_by_bytes_and_merged() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(2).heavy_keys(4).start(shape(64)).expect("valid");
    for item in 0..900u64 {
        workers[item as usize % 2].insert(contact(item % 3, item));
    }
    workers.iter_mut().for_each(Worker::publish);
    while aggregator.poll(|| 0).applied > 0 {}
    let sketch = reader.spreaders(0, 0).expect("live");
    assert_eq!((sketch.sources_max(), sketch.key_bytes_max()), (4, 8));
    let mut back = Locher::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    assert_eq!(back, sketch);
    back.merge(&sketch).expect("of one shape");
    assert_eq!(back, sketch, "the same pairs again");
    assert_eq!(sketch.top(9).len(), 3);
    assert!(reader.spreaders(1, 1).is_none() && reader.top_spreaders(1, 0, 1).is_none());
}

/// Bounds of 90 % on a source of 100 items among 300 of 1 to 10, read through 4 workers: 150 seeds, and more failures than the limit
/// have a probability below 1e-9.
#[test]
fn bounds_fail_no_more_often_than_they_say() {
    let trials = 150;
    let mut failures = 0;
    for seed in 0..u128::from(trials) {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(seed));
        let shape = Sources::new(64, hasher).expect("valid");
        let Monitor { mut workers, reader, .. } = MonitorOptions::new(4).start(shape).expect("valid");
        for source in 0..300u64 {
            for item in 0..if source == 0 { 100 } else { 1 + source % 10 } {
                let (from, to) = (hasher.hash_u64(source), hasher.hash_u64(!item));
                workers[item as usize % 4].insert(Contact { source: from, key: source, item: to });
            }
        }
        let bounds = reader.spreaders(0, 0).expect("live").bounds(hasher.hash_u64(0), 0.9);
        failures += u32::from(bounds.lower > 100.0 || bounds.upper < 100.0);
    }
    let limit = failures_at_most(trials, 0.1);
    assert!(failures <= limit, "{failures} of {trials}, not {limit}");
}
