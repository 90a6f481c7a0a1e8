//! A filter as a whole: everything of another one added to it, and all fingerprints in order.

use super::CascadeFilter;
use super::board::Board;
use super::levels::{Age, LevelRun, level_of};
use super::query::View;
use crate::error::invalid;
use crate::filter::run::{Entries, Merge, MergeOptions, MergedCursor, Run, RunKind, Source};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All fingerprints of a filter at a moment, in hash order; from [`CascadeFilter::fingerprints`].
#[derive(Debug)]
pub struct Fingerprints {
    view: View,
    /// Lengths of fingerprints that are still to come.
    lengths: Vec<RunKind>,
    scan: Option<(RunKind, MergedCursor)>,
    window: Entries,
}

impl Fingerprints {
    /// The next fingerprints with their counts, and how many bits they have, values among them; `None` at the end. Those of one length
    /// come in order. Where there are several lengths, removals of a key that came with another one show as counts below 0.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn next_window(&mut self) -> Result<Option<(u32, &Entries)>> {
        loop {
            if let Some((kind, scan)) = &mut self.scan {
                self.window.clear();
                if scan.next_window(&mut self.window)? {
                    return Ok(Some((kind.fingerprint_bits, &self.window)));
                }
            }
            let Some(kind) = self.lengths.pop() else { return Ok(None) };
            self.scan = Some((kind, MergedCursor::new(kind, &of_length(&self.view, kind.fingerprint_bits))?));
        }
    }
}

impl CascadeFilter {
    /// Goes through all fingerprints, as they are at this moment.
    ///
    /// # Cost
    /// Reads all runs once.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn fingerprints(&self) -> Result<Fingerprints> {
        let view = self.view()?;
        let kind = self.shared.kind;
        let lengths =
            lengths(&view).into_iter().map(|bits| RunKind { fingerprint_bits: bits, ..kind }).collect();
        Ok(Fingerprints { view, lengths, scan: None, window: Entries::default() })
    }

    /// Adds everything that is in `other`, of the same seed, in this store or another: counts add up. If `other` has longer
    /// fingerprints, new entries of this filter have such from now on.
    ///
    /// # Cost
    /// Reads the other filter once and writes it once; the runs then merge with this one's as any.
    ///
    /// # Errors
    /// `Incompatible` for another seed, hash or length of values; `InvalidOption` if the false-positive rate of both together is
    /// above this filter's bound, or for windows; as [`CascadeFilter::insert`]. What was added before an error stays.
    pub fn merge_from(&mut self, other: &CascadeFilter) -> Result<()> {
        self.shared.writable()?;
        self.check_other(other)?;
        let view = other.view()?;
        let lengths = lengths(&view);
        for &bits in &lengths {
            let kind = RunKind { fingerprint_bits: bits, ..self.shared.kind };
            // With a single length, all that a tombstone can take from is here.
            let options = MergeOptions { is_last_level: lengths.len() == 1, ..MergeOptions::default() };
            let merge = Merge::new(&self.shared.files, kind, &of_length(&view, bits), 0..=u64::MAX, options)?;
            let info = merge.finish()?;
            if info.fingerprints == 0 {
                self.shared.discard(vec![info.file.id])?;
                continue;
            }
            let run = Run::open(&self.shared.files, &info.file, kind)?;
            let mut board = self.shared.board();
            add_run(
                &mut board,
                run,
                level_of(info.fingerprints, self.shared.shares.flush_keys, self.shared.options.policy),
            );
            board.reach_longest(&self.shared.options);
            self.shared.note_era(&board);
            self.shared.schedule(&mut board);
        }
        Ok(())
    }

    fn check_other(&self, other: &CascadeFilter) -> Result<()> {
        let shape = |filter: &CascadeFilter| {
            let RunKind { seed_fingerprint, hash_kind, .. } = filter.shared.kind;
            (seed_fingerprint, hash_kind, filter.shared.options.value_bits)
        };
        if shape(self) != shape(other) {
            let [expected, found] = [self, other].map(|filter| {
                let (seed, hash, value_bits) = shape(filter);
                format!("{hash:?} with the seed of fingerprint {seed:#x}, {value_bits} bits of value")
            });
            return Err(Error::Incompatible { what: "the hash of a filter's keys", expected, found });
        }
        if self.shared.options.panes > 0 || other.shared.options.panes > 0 {
            return invalid("panes", "of a window", "only filters that forget nothing are merged");
        }
        let rate = self.report().false_positive_rate + other.report().false_positive_rate;
        let bound = self.shared.options.false_positive_rate;
        if rate > bound {
            let why = format!(
                "both together would answer wrongly at a rate of {rate:.3e}; build them with more expected keys, or merge into a \
                 filter with a higher bound"
            );
            return invalid("false_positive_rate", format!("{bound:.3e}"), why);
        }
        Ok(())
    }

    /// Everything, logs included.
    fn view(&self) -> Result<View> {
        self.shared.seal_all()?;
        Ok(View::of(&self.shared.board()))
    }
}

fn lengths(view: &View) -> BTreeSet<u32> {
    view.sources().iter().map(|source| source.kind().fingerprint_bits).collect()
}

fn of_length(view: &View, bits: u32) -> Vec<Source<'_>> {
    view.sources().into_iter().filter(|source| source.kind().fingerprint_bits == bits).collect()
}

fn add_run(board: &mut Board, run: Run, level: i32) {
    let number = board.logs;
    board.logs += 1;
    board.is_changed = true;
    let (id, bits, pane) = (board.new_id(), run.kind().fingerprint_bits, board.era.pane);
    let age = Age { oldest: number, newest: number };
    board.runs.push(LevelRun { id, pieces: vec![Arc::new(run)], level, bits, pane, age, is_busy: false });
}
