//! Runs against the groups that they were written of; and bytes that nobody wrote.

use super::format::{PageBuilder, PageCursor};
use super::*;
use crate::aggregate::group::{GroupHasher, KeyState};
use crate::aggregate::state::Shape;
use crate::aggregate::tests::Collect;
use crate::aggregate::{Aggregate, Count};
use crate::device::sim::SimDevice;
use crate::error::Error;
use crate::segment::BODY_BYTES;
use crate::store::{Store, StoreOptions};
use crate::{HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::ops::RangeInclusive;
use std::sync::Arc;

fn rules(aggregate: Arc<dyn Aggregate>, mask: u128) -> RunRules {
    let hasher = GroupHasher { mask, ..GroupHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(7)), 0) };
    RunRules::new(aggregate, hasher)
}

fn store() -> Store {
    let options = StoreOptions::new().threads(0).seed(Seed(7));
    Store::create_on(Arc::new(SimDevice::new(1)), options).unwrap()
}

fn written(store: &Store, rules: &RunRules, groups: &[KeyState]) -> Option<RunSegment> {
    let mut writer = RunWriter::new(store.files(), rules, 8192);
    for group in groups {
        writer.push(rules.hasher.hash(&group.key), &group.key, group.as_state()).unwrap();
    }
    writer.finish().unwrap()
}

fn scanned(run: &RunSegment, range: RangeInclusive<u64>) -> Vec<KeyState> {
    let (mut scan, mut groups) = (run.scan(range, 8192).unwrap(), Vec::new());
    while scan.advance().unwrap() {
        groups.push(scan.group.clone());
    }
    groups
}

/// Groups in order, each key once; some of them longer than several blocks.
fn groups(rules: &RunRules, keys: Vec<(Vec<u8>, u64, usize)>) -> Vec<KeyState> {
    let tail = |bytes: usize| if rules.shape.has_tail { vec![7; bytes] } else { Vec::new() };
    let group =
        |(key, word, bytes): (Vec<u8>, u64, usize)| KeyState { key, words: vec![word], tail: tail(bytes) };
    let mut groups: Vec<KeyState> = keys.into_iter().map(group).collect();
    groups.sort_by_cached_key(|group| (rules.hasher.hash(&group.key), group.key.clone()));
    groups.dedup_by(|a, b| a.key == b.key);
    groups
}

fn keys() -> impl Strategy<Value = Vec<(Vec<u8>, u64, usize)>> {
    let key = prop_oneof![
        8 => prop::collection::vec(prop_oneof![Just(b'A'), Just(b'C'), Just(b'G'), Just(b'T')], 0..30),
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 4000usize..20_000).prop_map(|(byte, length)| vec![byte; length]),
    ];
    let word = (any::<u64>(), 0u32..64).prop_map(|(word, shift)| word >> shift);
    let tail = prop_oneof![8 => Just(0usize), 4 => 0usize..60, 1 => 4000usize..20_000];
    prop::collection::vec((key, word, tail), 0..300)
}

const MASKS: [u128; 4] = [u128::MAX, 0xff << 120, 0x3 << 90, 0];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn groups_come_back(
        keys in keys(), has_tail: bool, mask in prop::sample::select(&MASKS[..]), from: u64, to: u64, border: u64,
    ) {
        let aggregate: Arc<dyn Aggregate> = if has_tail { Arc::new(Collect) } else { Arc::new(Count) };
        let (store, rules) = (store(), rules(aggregate, mask));
        let groups = groups(&rules, keys);
        let Some(run) = written(&store, &rules, &groups) else {
            prop_assert!(groups.is_empty());
            return Ok(());
        };
        let run = RunSegment::open(store.files(), &run.file_ref(), &rules).unwrap();
        run.verify(4096).unwrap();
        prop_assert_eq!(run.groups(), groups.len() as u64);
        prop_assert_eq!(scanned(&run, 0..=u64::MAX), groups.clone());
        let high = |group: &KeyState| rules.hasher.hash(&group.key).high();
        let within = |range: RangeInclusive<u64>| -> Vec<KeyState> {
            groups.iter().filter(|group| range.contains(&high(group))).cloned().collect()
        };
        prop_assert_eq!(scanned(&run, from..=to), within(from..=to));
        for group in groups.iter().step_by(7) {
            prop_assert_eq!(scanned(&run, high(group)..=high(group)), within(high(group)..=high(group)));
            let mut found = KeyState::default();
            prop_assert!(run.get(rules.hasher.hash(&group.key), &group.key, &mut found).unwrap());
            prop_assert_eq!(&found, group);
            let mut other = group.key.clone();
            other.push(b'b');
            let is_there = groups.iter().any(|group| group.key == other);
            prop_assert_eq!(run.get(rules.hasher.hash(&other), &other, &mut found).unwrap(), is_there);
        }
        match run.clipped(border) {
            Some(clipped) => prop_assert_eq!(scanned(&clipped, 0..=u64::MAX), within(border..=u64::MAX)),
            None => prop_assert_eq!(within(border..=u64::MAX), vec![]),
        }
    }

    /// Whatever the bytes of a page are, reading it ends, with groups or an error, and takes no more memory than the page gives rise to.
    #[test]
    fn bytes_that_nobody_wrote_are_groups_or_an_error(
        keys in keys(), has_tail: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
    ) {
        let shape = Shape { row_words: 0, state_words: 1, has_tail };
        let mut builder = PageBuilder::new(shape);
        for (key, word, tail) in keys {
            let tail = vec![7; if has_tail { tail } else { 0 }];
            if !builder.push(&key, crate::aggregate::State { words: &[word], tail: &tail }) {
                break;
            }
        }
        if builder.is_empty() {
            return Ok(());
        }
        let mut page = vec![0; builder.bytes().max(BODY_BYTES)];
        builder.write(&mut page);
        for (at, byte, is_header) in changes {
            let at = if is_header { at.index(48) } else { at.index(page.len()) };
            page[at] = byte;
        }
        let mut group = KeyState::default();
        let read = PageCursor::new(&page, shape).and_then(|mut cursor| {
            let mut entries = 0;
            while cursor.next(&page, &mut group)? {
                entries += 1;
                assert!(group.key.len() <= page.len() * 8 && group.tail.len() <= page.len());
            }
            Ok(entries)
        });
        prop_assert!(matches!(read, Ok(_) | Err(Error::Corrupt { .. })), "{:?}", read);
    }
}

#[test]
fn runs_of_another_aggregate_are_refused_by_name() {
    let (store, rules_of_counts) = (store(), rules(Arc::new(Count), u128::MAX));
    let counts = groups(&rules_of_counts, vec![(b"a".to_vec(), 1, 0)]);
    let run = written(&store, &rules_of_counts, &counts).unwrap();
    let error =
        RunSegment::open(store.files(), &run.file_ref(), &rules(Arc::new(Collect), u128::MAX)).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }) && error.to_string().contains("count"), "{error}");
}

/// Ten bytes of 36 and a count take 9.5 bytes and the page's header.
#[test]
fn short_keys_are_packed() {
    let mut builder = PageBuilder::new(Shape { row_words: 0, state_words: 1, has_tail: false });
    let mut number = 1u64;
    let mut entries = 0;
    loop {
        let key: Vec<u8> = (0..10)
            .map(|_| {
                number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                b"abcdefghijklmnopqrstuvwxyz0123456789"[(number >> 33) as usize % 36]
            })
            .collect();
        if !builder.push(&key, crate::aggregate::State { words: &[3], tail: &[] }) {
            break;
        }
        entries += 1;
    }
    assert!(entries * 96 > BODY_BYTES * 10 - 600, "{entries} entries");
}

/// The bytes of version 1, which a program of another language made by the diagram.
#[test]
fn the_bytes_of_a_page_stay_as_they_are() {
    let golden = include_bytes!("golden/page_v1.bin");
    let shape = Shape { row_words: 0, state_words: 1, has_tail: true };
    let entries: [(&[u8], u64, &[u8]); 4] =
        [(b"", 0, b""), (b"GATTACA", 300, b"tail"), (b"CAT", u64::MAX, b"\0"), (b"GGGGG", 127, b"")];
    let mut builder = PageBuilder::new(shape);
    for (key, word, tail) in entries {
        assert!(builder.push(key, crate::aggregate::State { words: &[word], tail }));
    }
    let mut page = vec![0xee; BODY_BYTES];
    builder.write(&mut page);
    assert!(page == golden);
    let (mut cursor, mut group) = (PageCursor::new(golden, shape).unwrap(), KeyState::default());
    for (key, word, tail) in entries {
        assert!(cursor.next(golden, &mut group).unwrap());
        assert_eq!((&group.key[..], &group.words[..], &group.tail[..]), (key, &[word][..], tail));
    }
    assert!(!cursor.next(golden, &mut group).unwrap());
}
