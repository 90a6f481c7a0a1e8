//! Goes through all keys of a moment, in hash order.

use super::Dictionary;
use super::DictionaryOptions;
use super::frozen::FrozenScan;
use super::merger::{Merger, ScanOptions, Source};
use super::query::{View, piece_of};
use super::run::Expected;
use super::shared::Shared;
use super::table::expected_of;
use crate::error::invalid;
use crate::lock::lock;
use crate::{KeyHash, KeyHasher, Result};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What is read at a time of each run.
const SCAN_BYTES: usize = 1 << 20;
/// What is read at a time of one page.
const SEEK_BYTES: usize = 4 << 10;

/// A dictionary as it was at a moment, whatever is written and merged since. It holds the files and the RAM of what was there.
#[derive(Debug)]
pub struct Snapshot {
    shared: Arc<Shared>,
    view: View,
}

/// Keys and values of a [`Snapshot`] in hash order.
#[derive(Debug)]
pub struct Records {
    merger: Merger,
}

/// A key, its hash and its value, lent until the next step of a [`Records`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyValue<'a> {
    /// The key's hash.
    pub hash: KeyHash,
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl Dictionary {
    /// The dictionary as it is now, to be asked and scanned while others write and merge.
    ///
    /// # Cost
    /// What is in the memtable is sorted.
    ///
    /// # Errors
    /// `Closed`, `Forked`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let shared = self.shared();
        shared.gate.usable()?;
        let mut memtable = lock(&shared.memtable);
        shared.freeze(&mut memtable);
        let version = shared.tree.version();
        drop(memtable);
        if !shared.gate.is_read_only() {
            // Many snapshots of few items each would leave many short runs in RAM.
            shared.tree.join_frozen()?;
        }
        Ok(Snapshot { shared: Arc::clone(shared), view: View { version } })
    }

    /// All keys and values, in hash order, as they are now.
    ///
    /// # Errors
    /// As [`Snapshot::scan`].
    pub fn scan(&self) -> Result<Records> {
        self.snapshot()?.scan(0..=u64::MAX)
    }

    /// How many keys are less than this one in hash order: a number of its own for each key, from 0 without a gap, the paper's minimal
    /// perfect hash. `None` for a key that is not in.
    ///
    /// # Cost
    /// One page read, to see that the key is in.
    ///
    /// # Errors
    /// `InvalidOption` unless the dictionary keeps ranks and is one run: [`Dictionary::compact`] makes it one.
    pub fn rank(&self, key: &[u8]) -> Result<Option<u64>> {
        let shared = self.shared();
        if !shared.options.shape.has_ranks {
            return invalid("rank", "a key", "open the dictionary with ranks(true), and compact it");
        }
        let memtable = lock(&shared.memtable);
        let is_whole = memtable.is_empty();
        let version = shared.tree.version();
        drop(memtable);
        let is_one_run = is_whole && version.frozen.is_empty() && version.runs.len() <= 1;
        let why = "ranks are known of a dictionary that is one run with ranks: compact it first";
        if !is_one_run {
            let runs = version.frozen.len() + version.runs.len() + usize::from(!is_whole);
            return invalid("rank", format!("a key of {runs} runs"), why);
        }
        let hash = shared.hasher.hash(key);
        let Some((run, piece)) = version.runs.first().and_then(|run| Some((run, piece_of(run, hash)?)))
        else {
            return Ok(None);
        };
        let Some(first_rank) = piece.rank(hash) else {
            return invalid("rank", "a key of a run without ranks", why);
        };
        // The rank is that of the first key of this hash: the page says which keys have it.
        let mut scan = piece.scan(hash.high()..=hash.high(), SEEK_BYTES, false)?;
        let mut rank = first_rank;
        while let Some(item) = scan.next()? {
            if item.hash == hash {
                if item.key == key {
                    let before = run.pieces.iter().take_while(|other| other.file_ref() != piece.file_ref());
                    return Ok(Some(rank + before.map(|piece| piece.counts().items).sum::<u64>()));
                }
                rank += 1;
            }
        }
        Ok(None)
    }
}

impl Snapshot {
    /// How many items, of how many bytes, are in a range of hashes at most, about.
    pub(super) fn expected(&self, range: &RangeInclusive<u64>) -> Expected {
        let version = &self.view.version;
        let flash = version.runs.iter().flat_map(|run| &run.pieces).map(|piece| expected_of(piece, range));
        let memory = version.frozen.iter().map(|one| one.entries.expected(range));
        flash.chain(memory).fold(Expected::default(), |sum, one| sum + one)
    }

    /// How its keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.shared.hasher.key_hasher()
    }

    /// The dictionary's options.
    pub fn options(&self) -> DictionaryOptions {
        self.shared.options
    }

    /// The value of a key, if it had one.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    /// The value of each key, if it had one.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.gate.usable()?;
        let mut found = vec![None; keys.len()];
        let mut answer = |at: usize, value: Option<&[u8]>| found[at] = value.map(<[u8]>::to_vec);
        self.shared.plan(keys, &mut |questions| self.view.answer(&self.shared, questions, &mut answer))?;
        Ok(found)
    }

    /// As [`Snapshot::get`], without the indexes: the pages of each run are searched as a sorted array is, by where the hash stands in its
    /// range. It says the same, for those who want to see that.
    ///
    /// # Cost
    /// Some lg lg n page reads of each run of n pages.
    ///
    /// # Errors
    /// As [`Dictionary::get`].
    pub fn search(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.gate.usable()?;
        self.view.search(&self.shared, key)
    }

    /// The keys whose hashes, by their first 64 bits, are in a range: with their values, in hash order. Equal parts of all hashes have
    /// about equally many keys.
    ///
    /// # Cost
    /// Each page of the range once, in order; a mebibyte of RAM a run.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn scan(&self, range: RangeInclusive<u64>) -> Result<Records> {
        let shared = &self.shared;
        shared.gate.usable()?;
        let how = ScanOptions { piece_bytes: SCAN_BYTES, is_ahead: shared.tree.threads() > 0, pool: None };
        let version = &self.view.version;
        let flash =
            version.runs.iter().map(|run| Source::pieces(run.pieces.iter().cloned(), &range, how.clone()));
        let memory = version.frozen.iter().map(|one| Source::Frozen(FrozenScan::new(&one.entries, &range)));
        let sources = flash.chain(memory).collect();
        let merger = Merger::new(sources, &shared.tree.table.rules, true)?;
        Ok(Records { merger })
    }
}

impl Records {
    /// The next key; `None` behind the last one.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn next_record(&mut self) -> Result<Option<KeyValue<'_>>> {
        let item = self.merger.next_item()?;
        Ok(item.map(|item| KeyValue { hash: item.hash, key: item.key, value: item.value.bytes() }))
    }
}

impl Iterator for Records {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next_record().transpose()?;
        Some(record.map(|record| (record.key.to_vec(), record.value.to_vec())))
    }
}
