//! Profiles built apart, put together: the result says of all their streams what one profile of all of them could say.
//!
//! ```text
//!   source, a store that is only read          target
//!   totals, registers, values ────────────────▶ sums, maxima, sums
//!   pages, one at a time ─────────────────────▶ sums
//!   sketch on flash, group by group ──────────▶ sums
//!   heavy keys, shard by shard ───────────────▶ the heaviest of both; of any other, what its slot held goes to pages and flash
//! ```
//!
//! 1. Bounds hold for all streams together. A key that only one of two profiles had among its heavy ones is in the pages of the
//!    other, so the merged pages bound what its slot does not know.
//! 2. A key that neither had may weigh as much as both thresholds together: the slots remember that.
//! 3. While all keys fit the slots, counts stay exact.
//!
//! Cost: reads the source once, and the target's sketch on flash; RAM beside the target's own: a page, a shard's heavy keys, the
//! registers and values of the source, and two groups of a sketch on flash.

use super::SHARDS;
use super::flash::Flash;
use super::format;
use super::record::{Saved, each_part};
use super::sketches::Sketches;
use crate::Result;
use crate::frequency::FrequencyOptions;
use crate::sketch::hash_id::require_equal;
use crate::sketch::{DdSketch, HashId, HyperLogLog, SpaceSaving};
use crate::store::Store;

impl Sketches {
    /// Adds what the profile `name` in `source` counted, at its last commit. An error after which this one is of no use is noted.
    pub(super) fn merge_from(&mut self, source: &Store, name: &str) -> Result<()> {
        // All parts of one commit.
        let _stay = source.stay();
        let saved = Saved::of(source, name)?;
        self.require_compatible(source, name, &saved)?;
        // The first part that changes anything, and the one that may refuse.
        if let Some(flash) = &self.flash {
            flash.check()?;
            flash.merge(&Flash::open(source, name, FrequencyOptions::new())?)?;
        }
        let merged = self.merge_parts(source, &saved);
        self.failure = merged.as_ref().err().map(ToString::to_string);
        merged
    }

    /// Fails unless the profile in `source` is one of this plan and measure, under this hash.
    fn require_compatible(&self, source: &Store, name: &str, saved: &Saved) -> Result<()> {
        self.counts.hash_id().require(HashId::from(source.hasher()))?;
        let has_flash =
            |is_there| if is_there { "with a sketch on flash" } else { "without a sketch on flash" };
        let (ours, theirs) = (self.flash.is_some(), Flash::is_in(source, name));
        require_equal("the kind of profile", has_flash(ours), has_flash(theirs))?;
        require_equal("the memory", self.plan.memory_bytes, saved.inline.memory_bytes)?;
        require_equal("the measure", self.totals.measure.name(), saved.inline.totals.measure.name())
    }

    fn merge_parts(&mut self, source: &Store, saved: &Saved) -> Result<()> {
        let [distinct, counts, values, heavy] = &saved.files;
        let files = source.files();
        self.distinct.merge(&HyperLogLog::from_bytes(&files.read_blob(distinct)?)?)?;
        self.values.merge(&files.read_blob_with(values, DdSketch::read_from)?)?;
        files.read_blob_with(counts, |bytes, source| self.counts.merge_from(bytes, source))?;
        let mut shards = 0;
        files.read_blob_with(heavy, |bytes, source| {
            each_part(bytes, source, &mut |part| {
                shards += 1;
                self.merge_shard(shards - 1, &part)
            })
        })?;
        if shards != SHARDS {
            return Err(format::corrupt(0, "number of shards", SHARDS, shards));
        }
        self.totals.add(&saved.inline.totals);
        Ok(())
    }

    /// The heavy keys of one shard, of both; the pages have been merged.
    fn merge_shard(&mut self, shard: usize, theirs: &SpaceSaving) -> Result<()> {
        let Some(ours) = self.heavy.get_mut(shard) else {
            return Err(format::corrupt(0, "number of shards", SHARDS, shard + 1));
        };
        let mut displaced = Vec::new();
        ours.merge_admitted(
            theirs,
            |hash| self.counts.estimate(hash),
            |hash, held| displaced.push((hash, held)),
        )?;
        displaced.iter().for_each(|&(hash, held)| self.counts.update(hash, held));
        match &self.flash {
            Some(flash) => flash.add(&displaced),
            None => Ok(()),
        }
    }
}
