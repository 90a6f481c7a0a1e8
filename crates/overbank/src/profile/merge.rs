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

use super::flash::Flash;
use super::format;
use super::saved::{Saved, each_part};
use super::{Measure, Profile, SHARDS};
use crate::Result;
use crate::sketch::hash_id::require_equal;
use crate::sketch::{DdSketch, HashId, HyperLogLog, SpaceSaving};
use crate::store::Store;

impl Profile {
    /// An empty profile for `target` that the one in `source` can be merged into: of the same plan, measure and, if there is
    /// one, sketch on flash.
    ///
    /// # Errors
    /// `Incompatible` if the stores' hashes or seeds differ; `AlreadyExists` if `target` has such a sketch; as
    /// [`Profile::load`] and [`Profile::add_flash`].
    pub fn new_like(source: &Store, target: &Store) -> Result<Self> {
        HashId::from(target.hasher()).require(HashId::from(source.hasher()))?;
        let saved = Saved::of(source)?;
        let mut profile = Self::new(saved.plan(source)?, target.hasher(), saved.inline.totals.measure)?;
        if Flash::is_in(source) {
            profile.add_flash(target, &Flash::options_in(source)?, 1)?;
        }
        Ok(profile)
    }

    /// Adds what the profile in `source` counted, at its last commit. The target's store commits it when it commits next.
    ///
    /// # Errors
    /// `Incompatible` where hash, seed, memory, measure or the sketch on flash differ; `InvalidOption` for conservative
    /// sketches, which do not add up: then nothing changed. As [`Profile::load`], and what the devices say: then this profile is
    /// of no use any more, and its store holds the last commit.
    pub fn merge_from(&mut self, source: &Store) -> Result<()> {
        let saved = Saved::of(source)?;
        self.require_compatible(source, &saved)?;
        // The first part that changes anything, and the one that may refuse.
        if let Some(flash) = &self.flash {
            flash.check()?;
            flash.merge(&Flash::open(source, 1)?)?;
        }
        let merged = self.merge_parts(source, &saved);
        if let (Err(error), Some(flash)) = (&merged, &mut self.flash) {
            flash.fail(error);
        }
        merged
    }

    /// Fails unless the profile in `source` is one of this plan and measure, under this hash.
    fn require_compatible(&self, source: &Store, saved: &Saved) -> Result<()> {
        self.counts.hash_id().require(HashId::from(source.hasher()))?;
        let has_flash =
            |is_there| if is_there { "with a sketch on flash" } else { "without a sketch on flash" };
        let (ours, theirs) = (self.flash.is_some(), Flash::is_in(source));
        require_equal("the kind of profile", has_flash(ours), has_flash(theirs))?;
        require_equal("the memory", self.plan.memory_bytes, saved.inline.memory_bytes)?;
        let name = |measure| match measure {
            Measure::KeyLength => "key lengths",
            Measure::Value => "values",
        };
        require_equal("the measure", name(self.totals.measure), name(saved.inline.totals.measure))
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
