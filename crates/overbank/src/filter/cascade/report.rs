//! What a filter holds.

use super::Filter;
use super::options::FilterOptions;
use super::table::FilterRun;
use crate::filter::run::Sign;
use crate::lock::lock;

/// What a filter holds and costs at this moment, from [`Filter::report`].
#[derive(Clone, PartialEq, Debug)]
pub struct FilterReport {
    /// Its options.
    pub options: FilterOptions,
    /// Fingerprints in all runs, those counted twice that are in two of them, tombstones not among them; and what waits in memtables, each
    /// insertion and each removal as one. How many keys that are, [`Filter::distinct`] tells.
    pub fingerprints: u64,
    /// Occurrences inserted, less those that merges saw removed.
    pub occurrences: u64,
    /// Fingerprints of removals that no merge has annihilated.
    pub tombstones: u64,
    /// Entries that are in RAM alone.
    pub in_memory: u64,
    /// Bytes of the runs on flash.
    pub flash_bytes: u64,
    /// RAM that logs, packed runs, fences and fronts take, in bytes.
    pub memory_bytes: usize,
    /// The false-positive rate that is to be expected now.
    pub false_positive_rate: f64,
    /// Fingerprints as a share of the expected keys; above 1, generations of longer fingerprints have begun.
    pub fullness: f64,
    /// Which generation new entries belong to, from 0.
    pub generation: u32,
    /// Which pane new entries belong to, from 0.
    pub pane: u64,
    /// The runs on flash, oldest first.
    pub runs: Vec<RunReport>,
    /// Merges that wait because the disk was full, and where.
    pub stalled: Option<String>,
}

/// A run of a [`FilterReport`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunReport {
    /// Its level: runs of level 0 are as long as a flush of full RAM.
    pub level: i32,
    /// Bits of its fingerprints, values among them.
    pub fingerprint_bits: u32,
    /// Different fingerprints.
    pub fingerprints: u64,
    /// Whether these were removed: they wait for a merge with what they take.
    pub is_removals: bool,
    /// Bits a fingerprint of its front in RAM; 0 where it has none.
    pub front_bits: f64,
    /// Bytes on flash.
    pub bytes: u64,
    /// Its pane.
    pub pane: u64,
}

impl Filter {
    /// What the filter holds and costs now.
    pub fn report(&self) -> FilterReport {
        let shared = self.shared();
        let shards = shared.tree.table.shards.lock_all();
        let slots: Vec<_> = shared.slots.iter().map(lock).collect();
        let state = shared.state();
        let version = state.version();
        let in_slots: usize = slots.iter().map(|slot| slot.memtable.len()).sum();
        let in_memtables = (in_slots + shards.iter().map(|shard| shard.cells.len()).sum::<usize>()) as u64;
        let packed = || version.frozen.iter().map(|packed| &*packed.entries);
        let runs = || version.runs.iter();
        // A key errs where one of the fingerprints is its own.
        let value_bits = shared.options.value_bits as i32;
        let share =
            |bits: u32, fingerprints: u64| fingerprints as f64 * f64::from(2).powi(value_bits - bits as i32);
        let sizes = (version.frozen.iter().map(|one| (one.class, one.size())))
            .chain(version.counted().map(|(run, size)| (run.class, size)));
        let (mut tombstones, mut inserted, mut occurrences, mut rate) = (0, 0, in_memtables, 0.0);
        for (class, size) in sizes {
            if class.sign == Sign::Removals {
                tombstones += size.entries;
                continue;
            }
            tombstones += size.tombstones;
            inserted += size.entries - size.tombstones;
            occurrences += size.occurrences;
            rate += share(class.bits, size.entries - size.tombstones);
        }
        let memtable_bits = shared.options.bits(state.writes.generation) + shared.options.value_bits;
        let false_positive_rate = share(memtable_bits, in_memtables) + rate;
        let fingerprints = in_memtables + inserted;
        let memtables_bytes = slots.len() * shared.options.memtable_bytes() + shared.tree.table.cells_bytes();
        FilterReport {
            options: shared.options,
            fingerprints,
            occurrences,
            tombstones,
            in_memory: in_memtables + packed().map(|run| run.fingerprints()).sum::<u64>(),
            flash_bytes: runs().map(|run| run.size().bytes).sum(),
            memory_bytes: memtables_bytes
                + version.frozen_bytes
                + runs().map(|run| run.size().memory_bytes).sum::<usize>(),
            false_positive_rate: false_positive_rate.min(1.0),
            fullness: fingerprints as f64 / shared.options.keys as f64,
            generation: state.writes.generation,
            pane: state.writes.pane,
            runs: runs()
                .map(|run: &FilterRun| RunReport {
                    level: run.level,
                    fingerprint_bits: run.class.bits,
                    fingerprints: run.size().entries,
                    is_removals: run.class.sign == Sign::Removals,
                    front_bits: run.pieces.iter().map(|piece| piece.front_bytes()).sum::<usize>() as f64
                        * 8.0
                        / run.size().entries.max(1) as f64,
                    bytes: run.size().bytes,
                    pane: run.class.pane,
                })
                .collect(),
            stalled: state.no_space.as_ref().map(|full| full.path.display().to_string()),
        }
    }
}
