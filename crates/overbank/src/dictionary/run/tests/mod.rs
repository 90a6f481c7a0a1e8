//! Runs against an ordered map.

mod checks;
mod queries;
mod writes;

use super::super::item::{Item, Value};
use super::super::page::Page;
use super::*;
use crate::device::Device;
use crate::device::memory::MemoryDevice;
use crate::dictionary::item::ItemHasher;
use crate::store::{Files, Store, StoreOptions};
use crate::{HashKind, KeyHash, KeyHasher, Result, Seed};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const SHAPE: RunShape =
    RunShape { page_blocks: 1, compression: Compression::None, front_bits: None, has_ranks: false };
const READS: PageReads = PageReads { depth: 8, in_flight_bytes: 1 << 20 };
const PIECE_BYTES: usize = 1 << 16;

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

    fn of(value: Value<'_>) -> Owned {
        match value {
            Value::Put(bytes) => Owned::Put(bytes.to_vec()),
            Value::IfAbsent(bytes) => Owned::IfAbsent(bytes.to_vec()),
            Value::Operand(bytes) => Owned::Operand(bytes.to_vec()),
            Value::Deleted => Owned::Deleted,
        }
    }
}

/// The obvious run: in the order of hashes and keys, what is known of each.
type Model = BTreeMap<(KeyHash, Vec<u8>), Owned>;

/// A run's items in order.
type Listed = Vec<((KeyHash, Vec<u8>), Owned)>;

fn hasher() -> ItemHasher {
    ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(1)))
}

fn store_on(device: Arc<dyn Device>) -> Store {
    Store::create_on(device, StoreOptions::new().seed(Seed(1)).threads(1).reserve_bytes(0)).unwrap()
}

fn store() -> Store {
    store_on(Arc::new(MemoryDevice::new()))
}

fn model_of(items: impl IntoIterator<Item = (Vec<u8>, Owned)>) -> Model {
    items.into_iter().map(|(key, value)| ((hasher().hash(&key), key), value)).collect()
}

/// `n` items with keys and values of these lengths.
fn plain(n: u64, key_bytes: usize, value_bytes: usize) -> Model {
    model_of((0..n).map(|i| {
        let bytes = |seed: u64, length: usize| -> Vec<u8> {
            let words = (0..length.div_ceil(8) as u64)
                .map(|word| Seed(u128::from(i) << 64 | u128::from(word << 8 | seed)).fingerprint());
            words.flat_map(u64::to_le_bytes).take(length).collect()
        };
        (bytes(1, key_bytes), Owned::Put(bytes(2, value_bytes)))
    }))
}

fn expected(model: &Model) -> Expected {
    let bytes = model.iter().map(|((_, key), value)| {
        let (Value::Put(bytes) | Value::IfAbsent(bytes) | Value::Operand(bytes)) = value.lent() else {
            return key.len();
        };
        key.len() + bytes.len()
    });
    Expected { items: model.len() as u64, bytes: bytes.sum::<usize>() as u64 }
}

fn write(files: &Files, shape: RunShape, expected: Expected, model: &Model) -> Result<Option<RunSegment>> {
    let mut writer = RunWriter::create(files, hasher(), shape, 0..=u64::MAX, expected, false)?;
    for ((hash, key), value) in model {
        writer.push(Item { hash: *hash, key, value: value.lent() })?;
    }
    writer.finish()
}

fn run_of(files: &Files, shape: RunShape, model: &Model) -> RunSegment {
    write(files, shape, expected(model), model).unwrap().unwrap()
}

/// Everything that a scan finds.
fn scanned(mut scan: RunScan) -> Result<Listed> {
    let mut found = Vec::new();
    while let Some(item) = scan.next()? {
        found.push(((item.hash, item.key.to_vec()), Owned::of(item.value)));
    }
    Ok(found)
}

fn listed(model: &Model, range: std::ops::RangeInclusive<u64>) -> Listed {
    model
        .iter()
        .filter(|((hash, _), _)| range.contains(&hash.high()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What runs say of keys, each asked of each run.
fn found(
    files: &Files,
    runs: &[&RunSegment],
    keys: &[&[u8]],
    how: PageReads,
) -> Result<Vec<Vec<Option<Owned>>>> {
    let mut asked: Vec<(usize, &[u8], std::ops::Range<u64>)> = Vec::new();
    for (run, segment) in runs.iter().enumerate() {
        let own = asked.len();
        asked.extend(keys.iter().map(|key| (run, *key, segment.find(hasher().hash(key)))));
        asked[own..].sort_by_key(|(_, _, blocks)| blocks.start);
    }
    let wanted: Vec<_> = asked.iter().map(|(run, _, blocks)| (runs[*run], blocks.clone())).collect();
    let mut answers = vec![vec![None; runs.len()]; keys.len()];
    read_pages(files, &wanted, how, &mut |i, page: &Page<'_>| {
        let (run, key, _) = &asked[i];
        let place = keys.iter().position(|other| other == key).unwrap();
        answers[place][*run] = page.find(hasher().hash(key), key)?.map(Owned::of);
        Ok(())
    })?;
    Ok(answers)
}

/// Those that this build has, most often none.
fn compressions() -> impl Strategy<Value = Compression> {
    let all = [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd];
    prop::sample::select(
        all.into_iter().filter(|compression| compression.check().is_ok()).collect::<Vec<_>>(),
    )
}

fn bytes_of(length: impl Strategy<Value = usize> + 'static) -> BoxedStrategy<Vec<u8>> {
    length.prop_flat_map(|length| prop::collection::vec(0u8..4, length)).boxed()
}

/// Items of several shapes: of one length, of many, some much longer than a page.
fn models() -> impl Strategy<Value = Model> {
    let value_bytes = prop_oneof![Just(0usize..1), Just(4..5), Just(0..90), Just(900..1200), Just(0..9000)];
    let kinds = prop_oneof![
        Just(vec![0u8]),
        Just(vec![3]),
        Just(vec![1, 2]),
        Just(vec![0, 0, 0, 0, 0, 3]),
        Just(vec![0, 1, 2, 3])
    ];
    (prop_oneof![Just(12usize..13), Just(0..60)], value_bytes, kinds).prop_flat_map(
        |(keys, values, kinds)| {
            let value = (values, any::<u8>(), prop::sample::select(kinds)).prop_map(
                |(length, byte, kind)| match kind {
                    0 => Owned::Put(vec![byte; length]),
                    1 => Owned::IfAbsent(vec![byte; length]),
                    2 => Owned::Operand(vec![byte; length]),
                    _ => Owned::Deleted,
                },
            );
            prop::collection::vec((bytes_of(keys), value), 1..900).prop_map(model_of)
        },
    )
}
