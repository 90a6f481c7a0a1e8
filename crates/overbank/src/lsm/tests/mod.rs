//! What the room promises to any table: a small one where the newest entry wins, beside a map.

mod crash;
mod idle;
mod kv;
mod model;
mod picker;
mod table;

use crate::device::Device;
use crate::store::Store;
use std::collections::BTreeSet;

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

/// Whether the segments on the device are those that the last record of the table `name` names, its only user.
pub(crate) fn no_file_is_left(store: &Store, name: &str, device: &dyn Device) -> Result<(), String> {
    let files = store.record(name).map(|entry| entry.record.files).unwrap_or_default();
    let named: BTreeSet<String> = (files.iter())
        .map(|file| store.files().path(file.id).file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let names = device.list().map_err(|error| error.to_string())?;
    let there: BTreeSet<String> = names.into_iter().filter(|name| name.ends_with(".seg")).collect();
    if named == there { Ok(()) } else { Err(format!("{there:?} are there, {named:?} are needed")) }
}
