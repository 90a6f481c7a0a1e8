//! What a dictionary holds and costs.

use super::Dictionary;
use super::options::DictionaryOptions;
use super::saved::longest_item_bytes;
use crate::lock::lock;
use crate::segment::BODY_BYTES;

/// What a dictionary holds and costs at this moment, from [`Dictionary::report`].
#[derive(Clone, PartialEq, Debug)]
pub struct DictionaryReport {
    /// Its options.
    pub options: DictionaryOptions,
    /// Items in all runs on flash: keys that are in two of them twice, and deletions, too. Of one run, the number of keys.
    pub items: u64,
    /// Items that are in RAM alone.
    pub items_in_memory: u64,
    /// Deletions in the runs that wait for a merge with what they delete.
    pub deletions: u64,
    /// Bytes of the keys, and of the values, in the runs on flash.
    pub key_bytes: u64,
    /// As that.
    pub value_bytes: u64,
    /// Bytes of the longest key with its value, of all runs: a merge takes some times as much.
    pub longest_item_bytes: usize,
    /// Bytes of the runs on flash.
    pub flash_bytes: u64,
    /// RAM of the memtable and the runs in RAM, in bytes.
    pub memtable_bytes: usize,
    /// RAM of the indexes that say where a hash's page is, in bytes.
    pub index_bytes: usize,
    /// RAM of the fronts of runs, in bytes.
    pub front_bytes: usize,
    /// RAM of ranks, in bytes.
    pub rank_bytes: usize,
    /// The runs on flash, the oldest first.
    pub runs: Vec<DictionaryRun>,
    /// Merges that wait because the disk was full, and where.
    pub stalled: Option<String>,
}

/// A run of a [`DictionaryReport`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DictionaryRun {
    /// Items, deletions among them.
    pub items: u64,
    /// Deletions.
    pub deletions: u64,
    /// Files.
    pub pieces: usize,
    /// Bytes on flash.
    pub bytes: u64,
    /// Bytes of its keys and values, as a share of its pages' bytes; above 1 where pages are compressed.
    pub fill: f64,
}

impl DictionaryReport {
    /// Bits of RAM an item of everything that lookups need of the runs on flash.
    pub fn bits_an_item(&self) -> f64 {
        (self.index_bytes + self.front_bytes + self.rank_bytes) as f64 * 8.0 / self.items.max(1) as f64
    }
}

impl Dictionary {
    /// What the dictionary holds and costs now.
    pub fn report(&self) -> DictionaryReport {
        let shared = self.shared();
        let memtable = lock(&shared.memtable);
        let (in_memtable, memtable_bytes) = (memtable.len() as u64, memtable.memory_bytes());
        let state = shared.state();
        drop(memtable);
        let version = state.version();
        let mut report = DictionaryReport {
            options: shared.options,
            items: 0,
            items_in_memory: in_memtable + version.frozen.iter().map(|one| one.size().entries).sum::<u64>(),
            deletions: 0,
            key_bytes: 0,
            value_bytes: 0,
            longest_item_bytes: longest_item_bytes(version),
            flash_bytes: version.flash_bytes(),
            memtable_bytes: memtable_bytes + version.frozen_bytes,
            index_bytes: 0,
            front_bytes: 0,
            rank_bytes: 0,
            runs: Vec::with_capacity(version.runs.len()),
            stalled: state.no_space.as_ref().map(|full| full.path.display().to_string()),
        };
        for (run, size) in version.counted() {
            let (mut filled, mut room) = (0, 0);
            for piece in &run.pieces {
                let counts = piece.counts();
                report.key_bytes += counts.key_bytes;
                report.value_bytes += counts.value_bytes;
                filled += counts.key_bytes + counts.value_bytes;
                room += piece.written_blocks() * BODY_BYTES as u64;
            }
            report.items += size.entries;
            report.deletions += size.tombstones;
            report.runs.push(DictionaryRun {
                items: size.entries,
                deletions: size.tombstones,
                pieces: run.pieces.len(),
                bytes: size.bytes,
                fill: if room == 0 { 0.0 } else { filled as f64 / room as f64 },
            });
        }
        for piece in version.runs.iter().flat_map(|run| &run.pieces) {
            let memory = piece.memory();
            report.index_bytes += memory.index_bytes;
            report.front_bytes += memory.front_bytes;
            report.rank_bytes += memory.rank_bytes;
        }
        report
    }
}
