//! Our dictionary in a store.

use super::Shape;
use super::asking::{Asking, Looked, by_threads, check};
use crate::{BlockCount, Clock, Metric, Result};
use overbank::Seed;
use overbank::dictionary::{Dictionary, DictionaryOptions, Duplicates};
use overbank::store::{Store, StoreOptions};
use std::cell::Cell;
use std::ops::Range;
use std::path::Path;

/// The dictionary's name in its store.
const NAME: &str = "items";

/// What the store's budget holds besides the dictionary.
const STORE_BYTES: usize = 1 << 20;

/// The least that a dictionary accepts.
const LEAST_BYTES: usize = 16 << 20;

/// Bytes of items that are given at once.
const BATCH_BYTES: usize = 256 << 10;

fn options(shape: Shape) -> DictionaryOptions {
    DictionaryOptions::new().memory_bytes(shape.memory_bytes.max(LEAST_BYTES))
}

fn store_options(shape: Shape) -> StoreOptions {
    StoreOptions::new().memory_bytes(shape.memory_bytes.max(LEAST_BYTES) + STORE_BYTES).seed(Seed(7))
}

/// Loads these items as one batch into the dictionary in a folder, until everything is merged, committed and synced.
pub(super) fn insert(clock: &mut Clock, shape: Shape, folder: &Path, numbers: Range<u64>) -> Result<()> {
    let store = match numbers.start {
        0 => Store::create(folder, store_options(shape))?,
        _ => Store::open(folder, store_options(shape))?,
    };
    let dictionary = store.dictionary(NAME, options(shape))?;
    let (io, count) = (BlockCount::start(), numbers.end - numbers.start);
    clock.time(|| load(&store, &dictionary, shape, numbers))?;
    io.note_bytes(clock, count);
    let report = dictionary.report();
    clock.note(Metric::BitsPerKey, report.bits_an_item());
    clock.note(Metric::FlashBytes, report.flash_bytes as f64);
    Ok(())
}

fn load(store: &Store, dictionary: &Dictionary, shape: Shape, numbers: Range<u64>) -> Result<()> {
    let (items, item_bytes) = (shape.items, shape.items.item_bytes());
    let mut load = dictionary.load(Duplicates::Last)?;
    let mut batch = vec![0; (BATCH_BYTES / item_bytes).max(1) * item_bytes];
    let mut next = numbers.start;
    while next < numbers.end {
        let end = numbers.end.min(next + (batch.len() / item_bytes) as u64);
        let places = batch.chunks_exact_mut(item_bytes);
        (next..end).zip(places).for_each(|(number, place)| items.fill(number, place));
        let given = batch[..(end - next) as usize * item_bytes].chunks_exact(item_bytes);
        let (keys, values): (Vec<_>, Vec<_>) = given.map(|item| item.split_at(items.key_bytes())).unzip();
        load.insert_many(&keys, &values)?;
        next = end;
    }
    load.finish()?;
    store.commit(b"")?;
    Ok(())
}

/// Looks up random items, one a call or many.
pub(super) fn get(clock: &mut Clock, shape: Shape, folder: &Path, asking: Asking) -> Result<()> {
    let store = Store::open_read_only(folder, store_options(shape))?;
    let dictionary = store.dictionary(NAME, options(shape))?;
    clock.note(Metric::BitsPerKey, dictionary.report().bits_an_item());
    let io = BlockCount::start();
    clock.time(|| {
        by_threads(shape, asking, |draw| {
            let mut looked = Looked::new(shape.items, asking.batch as usize);
            for _ in 0..asking.lookups / asking.threads / asking.batch {
                looked.draw(draw);
                let right = Cell::new(0);
                dictionary.get_many_with(&looked.keys(), |at, value| {
                    right.set(right.get() + u64::from(value == Some(looked.pair(at).1)));
                })?;
                check(right.get() == asking.batch)?;
            }
            Ok(())
        })
    })?;
    io.note_bytes(clock, asking.lookups);
    Ok(())
}
