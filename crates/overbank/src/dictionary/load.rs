//! Many items at once: an external merge sort whose every state is a dictionary.
//!
//! ```text
//!   items ─▶ memtables ─▶ runs, side by side by hash range ─▶ at the end one merge of all of them
//! ```
//!
//! The runs of a load are the dictionary's own: they can be asked meanwhile, and committed, and a load that was cut off goes on behind its
//! last commit.

use super::Dictionary;
use super::item::{Item, Value, shown};
use super::run::{Expected, RunSegment, RunWriter};
use super::scan::{KeyValue, Snapshot};
use crate::error::invalid;
use crate::lsm::level_of;
use crate::{Error, KeyHash, Result};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

/// What a load does with a key that comes twice.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Duplicates {
    /// The last value stays.
    #[default]
    Last,
    /// The first value stays, also one that was in before.
    First,
    /// The load fails, and the dictionary, which was empty, is empty again.
    Refuse,
}

/// A load under way: merges wait for its end. Dropped before [`Load::finish`], what came in stays in.
#[derive(Debug)]
pub struct Load {
    dictionary: Dictionary,
    duplicates: Duplicates,
    items: u64,
    is_over: bool,
}

/// A key's hash, the key, and its value.
pub(crate) type HashedItem<'a> = (KeyHash, &'a [u8], &'a [u8]);

/// Keys and values in the order of the keys' hashes, each key once.
pub(crate) trait SortedItems {
    /// The next key with its hash and its value; `None` at the end.
    ///
    /// # Errors
    /// Those of whoever has them.
    fn next_item(&mut self) -> Result<Option<HashedItem<'_>>>;
}

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadReport {
    /// Items that were given, those of keys that came again among them.
    pub items: u64,
}

/// Bytes of items of a piece that a copy writes.
const COPY_PIECE_BYTES: u64 = 256 << 20;

impl Dictionary {
    /// Begins to load many items.
    ///
    /// # Errors
    /// `ReadOnly`; `InvalidOption` for [`Duplicates::Refuse`] unless the dictionary is empty, and for [`Duplicates::First`] where it has an
    /// operator.
    pub fn load(&self, duplicates: Duplicates) -> Result<Load> {
        let shared = self.shared();
        shared.gate.writable()?;
        let report = self.report();
        let is_empty = report.items == 0 && report.items_in_memory == 0;
        if duplicates == Duplicates::Refuse {
            if !is_empty {
                let why = "keys can be refused only where there are none yet: load into a new dictionary";
                return invalid("duplicates", "refuse", why);
            }
            shared.tree.table.rules.count_repeats();
        }
        let mut state = shared.state();
        state.writes.loads += 1;
        if is_empty {
            shared.tree.table.is_first_load.store(true, Ordering::Relaxed);
        }
        drop(state);
        Ok(Load { dictionary: self.clone(), duplicates, items: 0, is_over: false })
    }

    /// Writes the items of `from` whose hashes, by their first 64 bits, are in a range into this dictionary, as the newest ones: a part
    /// of a dictionary for a shard, or a shard's into the whole. Returns how many.
    ///
    /// # Cost
    /// Reads the range once, in order, and writes it once.
    ///
    /// # Errors
    /// `Incompatible` for another seed, hash function or operator; as [`Dictionary::insert_many`]. What was copied before an error is not
    /// in.
    pub fn copy_from(&self, from: &Snapshot, range: RangeInclusive<u64>) -> Result<u64> {
        let shared = self.shared();
        shared.gate.writable()?;
        let (here, there) = (shared.hasher.key_hasher(), from.hasher());
        crate::sketch::HashId::from(here).require(there.into())?;
        let (operator, other) = (shared.options.shape.operator, from.options().shape.operator);
        if operator != other {
            let (expected, found) = (format!("{operator:?}"), format!("{other:?}"));
            return Err(Error::Incompatible { what: "the merge operator", expected, found });
        }
        let _change = shared.gate.change();
        shared.tree.table.note_item_bytes(shared.options.item_bytes_max());
        shared.flush()?;
        let mut pieces: Vec<RunSegment> = Vec::new();
        let is_empty = shared.tree.version().runs.is_empty();
        let copied = self.copy_pieces(from, range, is_empty, &mut pieces);
        if copied.is_err() {
            shared.tree.retire(pieces.iter().map(|piece| piece.file_ref().id).collect());
            return copied;
        }
        self.push_pieces(pieces);
        copied
    }

    /// Writes items that come in the order of their hashes, as the newest ones: about so many, of so many bytes with their keys. Returns
    /// how many came.
    ///
    /// # Cost
    /// Writes them once, in order; nothing is sorted.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`], and those of `items`. What was written before an error is not in.
    pub(crate) fn load_sorted(&self, count: u64, bytes: u64, items: &mut dyn SortedItems) -> Result<u64> {
        let shared = self.shared();
        shared.gate.writable()?;
        let _change = shared.gate.change();
        shared.tree.table.note_item_bytes(shared.options.item_bytes_max());
        shared.flush()?;
        let mut pieces = Vec::new();
        let loaded = self.write_sorted(Expected { items: count, bytes }, items, &mut pieces);
        if loaded.is_err() {
            shared.tree.retire(pieces.iter().map(|piece: &RunSegment| piece.file_ref().id).collect());
            return loaded;
        }
        self.push_pieces(pieces);
        loaded
    }

    fn write_sorted(
        &self,
        expected: Expected,
        items: &mut dyn SortedItems,
        pieces: &mut Vec<RunSegment>,
    ) -> Result<u64> {
        let shared = self.shared();
        let table = &shared.tree.table;
        let shape = table.run_shape(shared.tree.version().runs.is_empty());
        let parts = expected.bytes.div_ceil(COPY_PIECE_BYTES).max(1);
        let part = Expected { items: expected.items / parts, bytes: expected.bytes / parts };
        let width = u64::try_from((1u128 << 64) / u128::from(parts)).unwrap_or(u64::MAX);
        let (mut loaded, mut open) = (0, None);
        while let Some((hash, key, value)) = items.next_item()? {
            shared.check_item(key, value)?;
            let is_behind_it = |(last, _): &(u64, RunWriter)| hash.high() > *last;
            if open.as_ref().is_none_or(is_behind_it) {
                if let Some((_, writer)) = open.take() {
                    pieces.extend(writer.finish()?);
                }
                let first = hash.high() / width * width;
                let last = first.saturating_add(width - 1);
                let is_behind = shared.tree.threads() > 0;
                let range = first..=last;
                let writer =
                    RunWriter::create(&shared.files, table.rules.hasher, shape, range, part, is_behind)?;
                open = Some((last, writer));
            }
            if let Some((_, writer)) = &mut open {
                writer.push(Item { hash, key, value: Value::Put(value) })?;
                loaded += 1;
            }
        }
        if let Some((_, writer)) = open {
            pieces.extend(writer.finish()?);
        }
        Ok(loaded)
    }

    /// Makes pieces that follow each other in hash order the newest run.
    fn push_pieces(&self, pieces: Vec<RunSegment>) {
        let shared = self.shared();
        let entries = pieces.iter().map(|piece| piece.counts().items).sum();
        if entries > 0 {
            let level =
                level_of(entries, shared.shares.limits.flush_entries, super::DictionaryOptions::policy());
            let mut state = shared.state();
            state.push_run(pieces, (), level);
            shared.tree.schedule(&mut state);
        }
    }

    fn copy_pieces(
        &self,
        from: &Snapshot,
        range: RangeInclusive<u64>,
        is_oldest: bool,
        pieces: &mut Vec<RunSegment>,
    ) -> Result<u64> {
        let shared = self.shared();
        let table = &shared.tree.table;
        let expected = from.expected(&range);
        let parts = expected.bytes.div_ceil(COPY_PIECE_BYTES).max(1);
        let part = Expected { items: expected.items / parts, bytes: expected.bytes / parts };
        let width = ((u128::from(range.end() - range.start()) + 1) / u128::from(parts)).max(1);
        let (mut copied, mut first) = (0, *range.start());
        // Pieces part where a hash ends, so that all keys of one hash are in one.
        loop {
            let last = u64::try_from(u128::from(first) + width - 1).unwrap_or(u64::MAX);
            // What division leaves over goes with the last one.
            let last =
                if u128::from(range.end() - last.min(*range.end())) < width { *range.end() } else { last };
            let is_behind = shared.tree.threads() > 0;
            let shape = table.run_shape(is_oldest);
            let mut writer =
                RunWriter::create(&shared.files, table.rules.hasher, shape, first..=last, part, is_behind)?;
            let mut scan = from.scan(first..=last)?;
            while let Some(KeyValue { hash, key, value }) = scan.next_record()? {
                writer.push(Item { hash, key, value: Value::Put(value) })?;
                copied += 1;
            }
            pieces.extend(writer.finish()?);
            if last == *range.end() {
                return Ok(copied);
            }
            first = last + 1;
        }
    }
}

impl Load {
    /// Takes items in.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        match self.duplicates {
            Duplicates::First => self.dictionary.insert_many_if_absent(keys, values)?,
            Duplicates::Last | Duplicates::Refuse => self.dictionary.insert_many(keys, values)?,
        }
        self.items += keys.len() as u64;
        Ok(())
    }

    /// Takes operands in: as [`Dictionary::merge_many`].
    ///
    /// # Errors
    /// As there.
    pub fn merge_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, keys: &[K], operands: &[V]) -> Result<()> {
        self.dictionary.merge_many(keys, operands)?;
        self.items += keys.len() as u64;
        Ok(())
    }

    /// Merges what was loaded.
    ///
    /// # Cost
    /// Reads and writes what was loaded once, if it did not fit the memory; what was in before too, if what was loaded is a fifth of it.
    ///
    /// # Errors
    /// `InvalidOption` for [`Duplicates::Refuse`] where a key came twice, with an example; as [`Dictionary::insert_many`].
    pub fn finish(mut self) -> Result<LoadReport> {
        let shared = std::sync::Arc::clone(self.dictionary.shared());
        shared.flush()?;
        let is_first = shared.tree.table.is_first_load.load(Ordering::Relaxed);
        self.end();
        let mut state = shared.state();
        shared.tree.table.lend(&state);
        shared.tree.schedule(&mut state);
        drop(state);
        let mut merged = shared.finish_merges();
        if merged.is_ok() && is_first {
            // Runs of a first load have no fronts: a short one that stays beside the oldest would cost each lookup a read.
            merged = shared.compact();
        }
        shared.tree.table.take_back();
        merged?;
        if self.duplicates == Duplicates::Refuse {
            let repeats = shared.tree.table.rules.take_repeats().unwrap_or_default();
            if let Some(example) = repeats.example {
                let mut state = shared.state();
                let dead = state.drop_classes(|()| true);
                drop(state);
                shared.tree.frozen_gone();
                shared.tree.retire(dead);
                let why = format!(
                    "{} of {} items have a key that came before, and nothing was loaded; let the first or the last stay, or remove them",
                    repeats.count, self.items
                );
                return invalid("a key", format!("{} twice", shown(&example)), why);
            }
        }
        Ok(LoadReport { items: self.items })
    }

    /// Lets merges go on.
    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let shared = self.dictionary.shared();
        let mut state = shared.state();
        state.writes.loads -= 1;
        if state.writes.loads == 0 {
            shared.tree.table.is_first_load.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
        if self.duplicates == Duplicates::Refuse {
            drop(self.dictionary.shared().tree.table.rules.take_repeats());
        }
    }
}
