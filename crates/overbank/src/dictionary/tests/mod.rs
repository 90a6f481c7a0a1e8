//! The law: for any batches, flushes, merges, loads, commits and reopenings, the answers are those of a map.

mod copies;
mod crash;
mod damage;
mod ends;
mod full_disk;
mod growth;
mod law;
mod opens;
mod parked;
mod reads;
mod space;
mod threads;

use super::item::ItemHasher;
use super::options::Shares;
use super::saved::{Setup, open};
use super::{Dictionary, DictionaryOptions, MergeOperator};
use crate::Seed;
use crate::device::sim::SimDevice;
use crate::lsm::Limits;
use crate::store::{Store, StoreOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The obvious dictionary.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables of some items, runs of few pages, pieces of a few blocks.
fn small_shares() -> Shares {
    let (lane_entries_min, piece_bytes_min) = (200, 16 << 10);
    let limits = Limits {
        frozen_bytes: 24 << 10,
        flush_entries: 200,
        lanes: 2,
        merges: 2,
        inputs_max: 6,
        lane_entries_min,
        piece_bytes_min,
    };
    Shares { limits, lane_bytes: 0, memtable_bytes: 8 << 10, lookup_bytes: 1 << 20, index_bytes_max: 1 << 20 }
}

fn store_options(threads: usize) -> StoreOptions {
    StoreOptions::new().threads(threads).seed(Seed(7)).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

fn simulated(threads: usize) -> (Arc<SimDevice>, Store) {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options(threads)).unwrap();
    (device, store)
}

/// With hashes of which only the bits of `mask` are left.
fn small(store: &Store, options: DictionaryOptions, mask: u128) -> crate::Result<Dictionary> {
    let hasher = ItemHasher::masked(store.hasher(), mask);
    open(store, "d", options, Setup { hasher, shares: small_shares() })
}

/// The `number`-th key: of one length, or of many.
fn key(number: u64, is_even: bool) -> Vec<u8> {
    if is_even {
        return number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
    }
    format!("{number}/{}", "x".repeat((number % 50) as usize)).into_bytes()
}

/// A value that tells when it was written.
fn value(number: u64, written: u64, is_even: bool) -> Vec<u8> {
    if is_even {
        return (written as u32).to_le_bytes().to_vec();
    }
    // Some are longer than a page, some empty.
    let length = match number % 97 {
        0 => 9_000,
        1 => 0,
        other => other * 3,
    };
    let word = written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.iter().copied().cycle().take(length as usize).collect()
}

fn apply(model: &mut Model, operator: Option<MergeOperator>, key: &[u8], operand: &[u8]) {
    assert_eq!(operator, Some(MergeOperator::Append));
    model.entry(key.to_vec()).or_default().extend_from_slice(operand);
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

/// Keys of these numbers, and values that were written as the `written`-th.
fn pairs(
    numbers: impl IntoIterator<Item = u64>,
    written: u64,
    is_even: bool,
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    numbers.into_iter().map(|number| (key(number, is_even), value(number, written, is_even))).unzip()
}

/// Whether these keys have the values that were written as the `written`-th.
fn all_there(
    dictionary: &Dictionary,
    numbers: impl IntoIterator<Item = u64>,
    written: u64,
    is_even: bool,
) -> bool {
    let (keys, values) = pairs(numbers, written, is_even);
    let found = dictionary.get_many(&keys).unwrap();
    found.into_iter().eq(values.into_iter().map(Some))
}

/// All keys and values, by a scan.
fn scanned(dictionary: &Dictionary) -> Model {
    dictionary.scan().unwrap().map(crate::Result::unwrap).collect()
}
