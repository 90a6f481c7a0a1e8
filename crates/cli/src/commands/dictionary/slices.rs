//! Keys that are looked up together, and their values in order: as many at a time as there is room for.
//!
//! Values come in any order, and how long they are is not known before. Those that find no room are forgotten and asked for again behind
//! the ones before them, in shorter slices.

use super::open::Opened;
use crate::failure::Failure;
use overbank::dictionary::DictionaryReport;

/// The dictionary goes through the pages of so many in order; more would take too much memory beside the values.
const KEYS_MAX: usize = 256 << 10;
/// What a key and a value take beside the value's bytes.
const VALUE_BYTES: usize = 64;

/// Slices of keys.
pub(super) struct Slices {
    keys: usize,
    room_bytes: usize,
    values: Values,
}

/// The values of a slice, as far as there was room.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// What is known of a key's value.
#[derive(Clone, Copy)]
enum Place {
    Unknown,
    Absent,
    At { start: usize, end: usize },
}

impl Values {
    fn reset(&mut self, keys: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(keys, Place::Unknown);
    }

    /// Keeps a value where there is room, and that of the first key in any case: so there is no end without progress.
    fn keep(&mut self, key: usize, value: Option<&[u8]>, room_bytes: usize) {
        self.places[key] = match value {
            None => Place::Absent,
            Some(value) if key > 0 && self.bytes.len() + value.len() > room_bytes => return,
            Some(value) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(value);
                Place::At { start, end: self.bytes.len() }
            }
        };
    }

    /// Calls `take` with the values of the first keys, up to one that is not known; how many these are.
    fn take(
        &self,
        mut take: impl FnMut(usize, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        for (key, place) in self.places.iter().enumerate() {
            match *place {
                Place::Unknown => return Ok(key),
                Place::Absent => take(key, None)?,
                Place::At { start, end } => take(key, Some(&self.bytes[start..end]))?,
            }
        }
        Ok(self.places.len())
    }
}

impl Slices {
    /// For a dictionary that says `report` of itself, with so much room for values.
    pub(super) fn new(report: &DictionaryReport, room_bytes: u64) -> Self {
        let mean_bytes = report.value_bytes / report.items.max(1) + VALUE_BYTES as u64;
        let keys = (room_bytes / mean_bytes).clamp(1, KEYS_MAX as u64) as usize;
        let room_bytes = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        Self { keys, room_bytes, values: Values::default() }
    }

    /// Calls `take` with the place of each of `keys` and its value, in order.
    pub(super) fn each(
        &mut self,
        opened: &mut Opened,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < keys.len() {
            let slice = &keys[at..keys.len().min(at + self.keys)];
            let (values, room_bytes) = (&mut self.values, self.room_bytes);
            opened.ask(|dictionary| {
                values.reset(slice.len());
                dictionary.get_many_with(slice, |key, value| values.keep(key, value, room_bytes))
            })?;
            let taken = self.values.take(|key, value| take(at + key, value))?;
            at += taken;
            self.adapt(taken < slice.len());
        }
        Ok(())
    }

    /// Long values make the next slice shorter, and short ones longer again.
    fn adapt(&mut self, is_full: bool) {
        if is_full {
            self.keys = (self.keys / 2).max(1);
        } else if self.values.bytes.len() < self.room_bytes / 4 {
            self.keys = (self.keys * 2).min(KEYS_MAX);
        }
        // A value beyond the room would keep its memory for ever.
        self.values.bytes.shrink_to(self.room_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::DICTIONARY;
    use overbank::dictionary::DictionaryOptions;
    use overbank::store::{Store, StoreOptions};

    #[test]
    fn values_come_in_order_whatever_the_room() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store");
        let keys: Vec<String> = (0..3_000).map(|i| format!("key {i}")).collect();
        let length = |i: usize| if (1_000..1_100).contains(&i) { 20_000 } else { i % 7 };
        let value = |i: usize| vec![i as u8; length(i)];
        {
            let store = Store::create(&path, StoreOptions::new()).unwrap();
            let dictionary = store.dictionary(DICTIONARY, DictionaryOptions::new()).unwrap();
            let values: Vec<Vec<u8>> = (0..keys.len()).map(value).collect();
            dictionary.insert_many(&keys, &values).unwrap();
            store.commit(b"").unwrap();
        }
        let mut opened = Opened::open(&path, 64 << 20, 32 << 20).unwrap();
        let mut asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        asked.insert(1_050, b"absent");
        for room_bytes in [1, 1_000, 30_000, 1 << 20] {
            let mut slices = Slices::new(&opened.dictionary.report(), room_bytes);
            let mut next = 0;
            let take = |at: usize, found: Option<&[u8]>| {
                assert_eq!(at, next);
                let expected = (at != 1_050).then(|| value(at - usize::from(at > 1_050)));
                assert_eq!(found, expected.as_deref(), "key {at}");
                next += 1;
                Ok(())
            };
            slices.each(&mut opened, &asked, take).unwrap();
            assert_eq!(next, asked.len());
            assert!(slices.values.bytes.capacity() <= 2 * (room_bytes as usize).max(20_000));
        }
    }
}
