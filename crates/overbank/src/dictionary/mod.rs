//! The record of a key: exact keys and values beyond RAM, in hash order on flash.
//!
//! ```text
//!   items ─▶ memtable ─full─▶ runs in RAM ─flush: sort─▶ runs on flash ─merge─▶ one run
//!              └──────── a lookup asks all of them, the newest first: one page read of flash, in most cases ────┘
//!
//!   hash ─▶ index, 5 bits a page ─▶ page: keys and values in hash order
//! ```
//!
//! * `item`: a key and what is known of it; `operator`: what several items of a key come to; `rules`: what all threads know of both.
//!   `arena`: items in RAM. `memtable`: the newest ones; `frozen`: runs in RAM; `window`: a part of them, sorted. `page`: items on flash;
//!   `run`: files of pages. `merger`: several sorted sources as one; `table`: the runs that the room `lsm` merges, and when.
//! * `intake`: items in; `load`: many at once; `query`: lookups, in the `lookup_memory` that they share; `scan`: snapshots, all keys in
//!   hash order, ranks. `rank`: where hashes stand among others, without the keys. `saved`, `format`: commits. `options`, `plan`, `report`:
//!   what it costs.
//!
//! Locks, in the order in which they are taken: the memtable's, the tree's; behind them the one of who sorts for a reader. None is held
//! while flash is read or written.
//!
//! Invariants:
//! 1. The answers are those of a map from keys to values, whatever the batches, flushes, merges, commits and threads; also for
//!    different keys whose hashes are equal in all 128 bits.
//! 2. A snapshot is of one moment: all that was written before it, nothing of what comes later.
//! 3. An insert waits for no merge: it does a share of the work that is due, a few milliseconds at a time. Nothing is sorted for
//!    it: that is done by a flush, or for a reader, who waits for some milliseconds at most.
//! 4. Merges that find the disk full, or are cut off, keep what they published, leave the rest as it was, and go on later.
//! 5. Indexes never have more than half of the memory: what would make them longer is refused.
//! 6. What operands come to is kept whole, however long; while a value is longer than any that is taken, no more operands are taken.
//!
//! | n items, m in RAM, B items a page | CPU | page reads | page writes | RAM |
//! |---|---|---|---|---|
//! | insert, remove, merge an operand | a hash, a copy, O(lg m + lg (n / m)) | lg_4 (n / m) / B, sequential | as many | 5 bytes and the item, 16 together at least, until it is flushed |
//! | load n | as that | n / B if m < n, sequential | 2 n / B, or 1 if m ≥ n | the memory |
//! | get | a hash, some cache misses | 1, and 0.01 for each run but the oldest | 0 | 5 bits a page |
//! | scan | O(lg runs) an item | n / B, sequential | 0 | a mebibyte a run |
//!
//! | index | bits of RAM an item | answers | for |
//! |---|---|---|---|
//! | quantised Elias-Fano, in every run | 5 a page: 0.02 of 16 bytes, 0.14 of 100 bytes, 1.1 of 1.1 KB | the page | all lookups |
//! | [`HashRank`], by [`DictionaryOptions::ranks`] or alone | 2.5 | the rank | arrays beside, of one entry a key |
//! | [`SparseTries`], alone | 0.17, 0.54, 1.67 with 256, 40, 4 items a block | the block | files of items of one size that others wrote in hash order |
//!
//! Source: Lim, Andersen, Kaminsky, Practical Batch-Updatable External Hashing with Sorting, ALENEX 2013. Deviations: the load is a merge
//! sort whose runs are the dictionary's own, not a sort before it; several runs, so that a small batch rewrites no more than it is worth;
//! pages end at borders of equal hash ranges, so that 5 bits a page find the one page of a hash, whatever the items' lengths, and the tries
//! are kept for ranks.

mod arena;
mod format;
mod frozen;
mod intake;
mod item;
mod load;
mod lookup_memory;
mod memtable;
mod merger;
mod operator;
mod options;
mod page;
mod plan;
mod query;
mod rank;
mod report;
mod rules;
mod run;
mod saved;
mod scan;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod window;

pub use load::{Duplicates, Load, LoadReport};
pub(crate) use load::{HashedItem, SortedItems};
pub use operator::{MergeOperator, Numbers};
pub use options::DictionaryOptions;
pub use plan::DictionaryPlan;
pub use rank::{HashRank, HashRankBuilder, HashRankOptions};
pub use report::{DictionaryReport, DictionaryRun};
pub use run::Compression;
pub use scan::{KeyValue, Records, Snapshot};

pub use crate::trie::{SparseOptions, SparseTries, SparseTriesBuilder};

use crate::store::Handle;
use crate::{KeyHasher, Result};
use saved::Core;
use shared::Shared;
use std::sync::Arc;

/// A dictionary in a store: a handle, whose clones are the same dictionary. It maps keys to values, both of any bytes.
///
/// Any number of threads write and ask at once; writers take turns for the moment of a copy, and a question sees all that was written
/// before it. Calls block on the device: asynchronous code wraps them in `spawn_blocking`.
///
/// ```
/// use overbank::dictionary::DictionaryOptions;
/// use overbank::store::{Store, StoreOptions};
///
/// let store = Store::in_memory(StoreOptions::new())?;
/// let capitals = store.dictionary("capitals", DictionaryOptions::new())?;
/// capitals.insert_many(&["France", "Japan"], &["Paris", "Tokyo"])?;
/// assert_eq!(capitals.get(b"Japan")?.as_deref(), Some(&b"Tokyo"[..]));
/// let before = capitals.snapshot()?;
/// capitals.remove(b"France")?;
/// assert_eq!(capitals.get_many(&["France", "Peru"])?, [None, None]);
/// assert!(before.get(b"France")?.is_some());
/// store.commit(b"")?;
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dictionary {
    core: Handle<Core>,
}

impl Dictionary {
    fn shared(&self) -> &Arc<Shared> {
        &self.core.shared
    }

    /// Writes all that is in RAM to flash.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn flush(&self) -> Result<()> {
        self.shared().flush()
    }

    /// Works until no merge is due, those tried again that found the disk full.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn settle(&self) -> Result<()> {
        self.shared().finish_merges()
    }

    /// Merges everything to one run: each key once, the fewest bytes and reads, and ranks if the dictionary keeps them.
    ///
    /// # Cost
    /// Reads and writes the whole dictionary once; its space comes back while the merge goes on.
    ///
    /// # Errors
    /// As [`Dictionary::insert_many`].
    pub fn compact(&self) -> Result<()> {
        self.shared().compact()
    }

    /// Reads everything on flash and checks it: the order, each key's page, the indexes, the counts.
    ///
    /// # Cost
    /// Each page once, in order.
    ///
    /// # Errors
    /// `Corrupt` at the first damage; what the device says.
    pub fn verify(&self) -> Result<()> {
        let shared = self.shared();
        shared.gate.usable()?;
        let version = shared.tree.version();
        version.runs.iter().flat_map(|run| &run.pieces).try_for_each(|piece| piece.verify())
    }

    /// How the dictionary's keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.shared().hasher.key_hasher()
    }

    /// The options that it has, those of a stored one included.
    pub fn options(&self) -> DictionaryOptions {
        self.shared().options
    }
}
