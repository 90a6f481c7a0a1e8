//! Two filters made one: everything of another one added.

use super::Filter;
use super::class::RunClass;
use super::fingerprints::{lengths, of_length};
use crate::error::invalid;
use crate::filter::run::{Merge, MergeOptions, RunKind};
use crate::lsm::level_of;
use crate::{Error, Result};

impl Filter {
    /// Adds everything that is in `other`, of the same seed, in this store or another: counts add up. If `other` has longer
    /// fingerprints, new entries of this filter have such from now on.
    ///
    /// # Cost
    /// Reads the other filter once and writes it once; the runs then merge with this one's as any.
    ///
    /// # Errors
    /// `Incompatible` for another seed, hash or length of values; `InvalidOption` if the false-positive rate of both together is
    /// above this filter's bound, or for windows; as [`Filter::insert`]. What was added before an error stays.
    pub fn merge_from(&self, other: &Filter) -> Result<()> {
        self.shared().writable()?;
        self.check_other(other)?;
        let view = other.view()?;
        let lengths = lengths(&view);
        for &bits in &lengths {
            let kind = RunKind { fingerprint_bits: bits, ..self.shared().kind };
            // With a single length, all that a tombstone can take from is here.
            let options = MergeOptions { is_oldest: lengths.len() == 1, ..MergeOptions::default() };
            let merge =
                Merge::new(&self.shared().files, kind, &of_length(&view, bits), 0..=u64::MAX, options)?;
            let Some(run) = merge.finish_run(&self.shared().files)? else { continue };
            let flush_keys = self.shared().tree.limits.flush_entries;
            let level = level_of(run.fingerprints(), flush_keys, self.shared().options.policy);
            let mut state = self.shared().state();
            let pane = state.writes.pane;
            state.push_run([run], RunClass { bits, pane, sign: kind.sign }, level);
            state.reach_longest(&self.shared().options);
            self.shared().note_class(&state);
            self.shared().tree.schedule(&mut state);
        }
        Ok(())
    }

    fn check_other(&self, other: &Filter) -> Result<()> {
        let shape = |filter: &Filter| {
            let RunKind { seed_fingerprint, hash_kind, .. } = filter.shared().kind;
            (seed_fingerprint, hash_kind, filter.shared().options.value_bits)
        };
        if shape(self) != shape(other) {
            let [expected, found] = [self, other].map(|filter| {
                let (seed, hash, value_bits) = shape(filter);
                format!("{hash:?} with the seed of fingerprint {seed:#x}, {value_bits} bits of value")
            });
            return Err(Error::Incompatible { what: "the hash of a filter's keys", expected, found });
        }
        if self.shared().options.panes > 0 || other.shared().options.panes > 0 {
            return invalid("panes", "of a window", "only filters that forget nothing are merged");
        }
        let rate = self.report().false_positive_rate + other.report().false_positive_rate;
        let bound = self.shared().options.false_positive_rate;
        if rate > bound {
            let why = format!(
                "both together would answer wrongly at a rate of {rate:.3e}; build them with more expected keys, or merge into a \
                 filter with a higher bound"
            );
            return invalid("false_positive_rate", format!("{bound:.3e}"), why);
        }
        Ok(())
    }
}
