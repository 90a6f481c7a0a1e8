//! The runs on flash, and which of them are due to be merged.
//!
//! ```text
//!   flush ─▶ level 0   ▯ ▯ ▯ ▯ ▯ ▯ ▯      `fan_out` runs of a level, and what is below it, become one
//!                      └──────┬──────┘
//!            level 1   ▭      ▼     ▭
//!            level 2   ▭▭▭▭▭▭▭▭▭▭▭▭        a level's runs are `fan_out` times as long as those of the one before
//! ```
//!
//! Levels are by length, so that the short runs of frequent commits (levels below 0) grow to be runs of level 0, and a merge that
//! leaves little, of repeated keys perhaps, does not make a run of a high level.
//!
//! Only runs of one family, of the same length of fingerprints and the same pane, are merged.

use super::options::Policy;
use crate::filter::run::FingerprintSegment;
use std::sync::Arc;

/// A sorted run: one file, or several that follow each other in hash order.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) pieces: Vec<Arc<FingerprintSegment>>,
    pub(super) level: i32,
    pub(super) bits: u32,
    pub(super) pane: u64,
    /// The logs that it came from.
    pub(super) age: Age,
    /// A merge reads it.
    pub(super) is_busy: bool,
}

/// The first and last number of the logs that entries came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Age {
    pub(super) oldest: u64,
    pub(super) newest: u64,
}

impl Age {
    pub(super) fn joined(ages: impl Iterator<Item = Age>) -> Option<Age> {
        ages.reduce(|a, b| Age { oldest: a.oldest.min(b.oldest), newest: a.newest.max(b.newest) })
    }
}

impl Run {
    pub(super) fn fingerprints(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.fingerprints()).sum()
    }

    pub(super) fn tombstones(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.tombstones()).sum()
    }

    pub(super) fn occurrences(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.occurrences()).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.file_ref().bytes).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.memory_bytes()).sum()
    }

    fn family(&self) -> (u32, u64) {
        (self.bits, self.pane)
    }
}

/// The level of a run of that many keys, where `flush_keys` are a run of level 0.
pub(super) fn level_of(keys: u64, flush_keys: u64, policy: Policy) -> i32 {
    let ratio = keys.max(1) as f64 / flush_keys.max(1) as f64;
    (ratio.ln() / f64::from(policy.fan_out()).ln()).round() as i32
}

/// Several runs of one family that `is_wanted`, none of which is being merged, by id.
pub(super) fn idle_family(runs: &[Run], is_wanted: impl Fn(&Run) -> bool) -> Option<Vec<u64>> {
    runs.iter().filter(|run| is_wanted(run)).find_map(|run| {
        let of_it = || runs.iter().filter(|other| other.family() == run.family());
        (of_it().count() > 1 && of_it().all(|run| !run.is_busy)).then(|| of_it().map(|run| run.id).collect())
    })
}

/// The runs of a merge that is due, by id, the merges of short runs first; `flush_keys` are a run of level 0. Panes before `pane` get
/// no more entries: each becomes one run.
pub(super) fn due(runs: &[Run], pane: u64, flush_keys: u64, policy: Policy) -> Option<Vec<u64>> {
    let closed = idle_family(runs, |run| run.pane < pane);
    if closed.is_some() {
        return closed;
    }
    let fan_out = policy.fan_out() as usize;
    let mut candidates: Vec<(u32, u64, i32)> =
        runs.iter().filter(|run| !run.is_busy).map(|run| (run.bits, run.pane, run.level)).collect();
    candidates.sort_by_key(|&(_, _, level)| level);
    for group in candidates.chunk_by(|a, b| a.2 == b.2) {
        let mut group = group.to_vec();
        group.sort_unstable();
        let Some(&(bits, pane, level)) =
            group.chunk_by(|a, b| a == b).find(|same| same.len() >= fan_out).and_then(|same| same.first())
        else {
            continue;
        };
        let idle = || runs.iter().filter(|run| !run.is_busy && run.family() == (bits, pane));
        let mut inputs: Vec<&Run> = idle().filter(|run| run.level <= level).collect();
        if let Policy::LazyLevelled { .. } = policy {
            let keys = inputs.iter().map(|run| run.fingerprints()).sum();
            // The last level is one run: what would stand beside it goes into it.
            let last = idle().max_by_key(|run| run.level);
            inputs.extend(
                last.filter(|last| last.level > level && last.level <= level_of(keys, flush_keys, policy)),
            );
        }
        return Some(inputs.iter().map(|run| run.id).collect());
    }
    None
}
