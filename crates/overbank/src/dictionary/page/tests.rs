//! Pages against a list of items, golden bytes, and damage of every byte.

use super::super::item::{Item, Value};
use super::*;
use crate::dictionary::item::ItemHasher;
use crate::{Error, HashKind, KeyHasher, Result, Seed};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn hasher() -> ItemHasher {
    ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(7)))
}

/// What is known of a key, with bytes of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Owned {
    Put(Vec<u8>),
    IfAbsent(Vec<u8>),
    Operand(Vec<u8>),
    Deleted,
}

impl Owned {
    fn lent(&self) -> Value<'_> {
        match self {
            Owned::Put(bytes) => Value::Put(bytes),
            Owned::IfAbsent(bytes) => Value::IfAbsent(bytes),
            Owned::Operand(bytes) => Value::Operand(bytes),
            Owned::Deleted => Value::Deleted,
        }
    }
}

/// The obvious page: its items in order.
type Model = Vec<(Vec<u8>, Owned)>;

fn in_order(items: BTreeMap<Vec<u8>, Owned>) -> Model {
    let mut items: Model = items.into_iter().collect();
    items.sort_by_key(|(key, _)| (hasher().hash(key), key.clone()));
    items
}

fn builder_of(items: &Model) -> PageBuilder {
    let mut builder = PageBuilder::default();
    for (key, value) in items {
        builder.push(&Item { hash: hasher().hash(key), key, value: value.lent() });
        assert_eq!(builder.last_key(), key);
    }
    builder
}

fn sizes_of(builder: &PageBuilder) -> Sizes {
    builder.grown().last().map_or(Sizes::default(), |(_, sizes)| sizes)
}

fn encoded(items: &Model) -> Vec<u8> {
    let builder = builder_of(items);
    let mut bytes = Vec::new();
    builder.encode(&sizes_of(&builder), &mut bytes);
    assert_eq!(bytes.len() as u64, sizes_of(&builder).bytes());
    bytes
}

fn listed(page: &Page<'_>) -> Result<Vec<(Vec<u8>, Value<'static>)>> {
    let mut items = page.items(hasher());
    let mut list = Vec::new();
    while let Some(item) = items.next()? {
        assert_eq!(item.hash, hasher().hash(item.key));
        // Only to compare lists: what a test leaks ends with it.
        let leaked = |bytes: &[u8]| &*Box::leak(bytes.to_vec().into_boxed_slice());
        let value = match item.value {
            Value::Put(bytes) => Value::Put(leaked(bytes)),
            Value::IfAbsent(bytes) => Value::IfAbsent(leaked(bytes)),
            Value::Operand(bytes) => Value::Operand(leaked(bytes)),
            Value::Deleted => Value::Deleted,
        };
        list.push((item.key.to_vec(), value));
    }
    Ok(list)
}

fn bytes_of(length: impl Strategy<Value = usize> + 'static) -> BoxedStrategy<Vec<u8>> {
    length.prop_flat_map(|length| prop::collection::vec(0u8..4, length)).boxed()
}

/// Items of one shape: lengths of keys and values fixed or not, kinds of all sorts.
fn models() -> impl Strategy<Value = Model> {
    let lengths = || {
        prop_oneof![(0usize..40).prop_map(|n| (n, n)), (0usize..20).prop_map(|n| (n, n + 30)), Just((0, 700))]
    };
    let kinds = prop_oneof![
        Just(vec![0u8]),
        Just(vec![3]),
        Just(vec![1, 2]),
        Just(vec![0, 0, 0, 3]),
        Just(vec![0, 1, 2, 3])
    ];
    (lengths(), lengths(), kinds).prop_flat_map(|(keys, values, kinds)| {
        let value =
            (bytes_of(values.0..=values.1), prop::sample::select(kinds)).prop_map(
                |(bytes, kind)| match kind {
                    0 => Owned::Put(bytes),
                    1 => Owned::IfAbsent(bytes),
                    2 => Owned::Operand(bytes),
                    _ => Owned::Deleted,
                },
            );
        prop::collection::btree_map(bytes_of(keys.0..=keys.1), value, 1..60).prop_map(in_order)
    })
}

proptest! {
    #[test]
    fn a_page_answers_as_a_list(items in models(), absent in prop::collection::vec(bytes_of(0usize..45), 20)) {
        let mut bytes = encoded(&items);
        let end = bytes.len();
        bytes.resize(end + 13, 0);
        let page = Page::of(&bytes).unwrap();
        prop_assert_eq!((page.bytes(), page.items_count()), (end, items.len()));
        let list: Vec<_> = items.iter().map(|(key, value)| (key.clone(), value.lent())).collect();
        prop_assert_eq!(listed(&page).unwrap(), list);
        for (key, value) in &items {
            prop_assert_eq!(page.find(hasher().hash(key), key).unwrap(), Some(value.lent()));
        }
        for key in &absent {
            let there = items.iter().find(|(found, _)| found == key).map(|(_, value)| value.lent());
            prop_assert_eq!(page.find(hasher().hash(key), key).unwrap(), there);
        }
    }

    #[test]
    fn what_is_dropped_leaves_the_page_of_the_rest(items in models(), first in any::<prop::sample::Index>()) {
        let first = first.index(items.len());
        let mut builder = builder_of(&items);
        builder.drop_first(first);
        let mut bytes = Vec::new();
        builder.encode(&sizes_of(&builder), &mut bytes);
        prop_assert_eq!(bytes, encoded(&items[first..].to_vec()));
        builder.drop_first(items.len() - first);
        prop_assert!(builder.is_empty());
    }

    #[test]
    fn damage_is_corrupt_or_leads_nowhere(
        items in models(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(),
    ) {
        let good = encoded(&items);
        let mut bad = good.clone();
        for (at, byte) in damage {
            bad[at.index(good.len())] = byte;
        }
        for bytes in [&bad[..], &good[..cut.index(good.len())]] {
            let Ok(page) = Page::of(bytes) else { continue };
            let _ = listed(&page);
            for (key, _) in &items {
                let _ = page.find(hasher().hash(key), key);
            }
        }
    }
}

#[test]
fn small_items_of_one_size_take_no_byte_more() {
    let items: BTreeMap<Vec<u8>, Owned> = (0..254u32)
        .map(|i| ([&i.to_be_bytes()[..], b"the key."].concat(), Owned::Put(i.to_le_bytes().to_vec())))
        .collect();
    let mut items = in_order(items);
    assert_eq!(encoded(&items).len(), crate::segment::BODY_BYTES);
    // One that is deleted costs two bits an item, and has no value.
    items[17].1 = Owned::Deleted;
    assert_eq!(encoded(&items).len(), crate::segment::BODY_BYTES - 4 + 64);
    let bytes = encoded(&items);
    let page = Page::of(&bytes).unwrap();
    for (key, value) in &items {
        assert_eq!(page.find(hasher().hash(key), key).unwrap(), Some(value.lent()));
    }
}

#[test]
fn pages_are_these_bytes() {
    let item = |key: &[u8], value: Owned| (key.to_vec(), value);
    let plain = vec![item(b"abcd", Owned::Put(vec![1, 2])), item(b"efgh", Owned::Put(vec![3, 4]))];
    let header = |shape: u8, items: u8, keys: u8, values: u8| {
        [1, shape, 0, 0, items, 0, 0, 0, keys, 0, 0, 0, values, 0, 0, 0]
    };
    assert_eq!(encoded(&plain), [&header(0, 2, 4, 2)[..], b"abcdefgh", &[1, 2, 3, 4]].concat());
    let mixed = vec![
        item(b"a", Owned::Put(vec![1; 300])),
        item(b"bc", Owned::Deleted),
        item(b"", Owned::Operand(vec![2])),
        item(b"d", Owned::IfAbsent(vec![])),
        item(b"e", Owned::Put(vec![4])),
    ];
    let tags: Vec<u8> = mixed.iter().map(|(key, _)| hasher().hash(key).low() as u8).collect();
    let mut expected = header(4 | 1 << 3 | 2 << 5, 5, 5, 0).to_vec();
    expected[12..14].copy_from_slice(&302u16.to_le_bytes());
    expected.extend_from_slice(&tags);
    expected.extend_from_slice(&[1, 2, 0, 1, 1]);
    expected.extend_from_slice(&[44, 1, 0, 0, 1, 0, 0, 0, 1, 0]);
    expected.extend_from_slice(&[0b01_10_11_00, 0]);
    expected.extend_from_slice(b"abcde");
    expected.extend_from_slice(&[1; 300]);
    expected.extend_from_slice(&[2, 4]);
    assert_eq!(encoded(&mixed), expected);
}

#[test]
fn what_no_writer_writes_is_refused() {
    let good = encoded(&vec![
        (b"abcd".to_vec(), Owned::Put(vec![1, 2])),
        (b"efgh".to_vec(), Owned::Put(vec![3, 4])),
    ]);
    // Form, kinds beyond five, the spare bit, zeros, no item, more than there are, keys and values that are too long, kinds of their own.
    for (at, byte) in [
        (0, 0),
        (0, 2),
        (1, 5),
        (1, 0x80),
        (2, 1),
        (3, 9),
        (4, 0),
        (4, 3),
        (7, 0xff),
        (8, 5),
        (12, 3),
        (15, 0xff),
        (1, 4),
        (1, 3),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(matches!(Page::of(&bad), Err(Error::Corrupt { .. })), "byte {at} as {byte}");
    }
    assert!((0..good.len()).all(|cut| Page::of(&good[..cut]).is_err()));
    // Lengths that are not what the header says they are together.
    let good =
        encoded(&vec![(b"abcd".to_vec(), Owned::Put(vec![1, 2])), (b"efg".to_vec(), Owned::Put(vec![3]))]);
    for at in [18, 19, 20, 21] {
        for less in [1, 0xff] {
            let mut bad = good.clone();
            bad[at] = bad[at].wrapping_sub(less);
            assert!(
                matches!(Page::of(&bad).and_then(|page| listed(&page)), Err(Error::Corrupt { .. })),
                "byte {at}"
            );
        }
    }
}
