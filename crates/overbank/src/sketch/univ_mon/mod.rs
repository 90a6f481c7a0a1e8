//! UnivMon: one sketch for every sum of a function over the keys' counts: number of keys, L2, entropy; and heavy keys and changes.
//!
//! ```text
//!   low(), from bit 16 ─ trailing zeros ─▶ a key's stratum: 0 with 1/2, 1 with 1/4, … the last takes the rest
//!
//!   stratum   a count sketch of its keys, and the heaviest of them (a space-saving that asks the sketch)
//!   level j   the strata from j on: 2^-j of the keys, those that hash functions 1 to j of the paper all let pass
//!
//!   sum of g over the keys of level j   =   sum over its heavy keys   +   2 * (that of level j + 1 less those heavy keys in it)
//! ```
//!
//! 1. An update touches one stratum. The count sketch of a level of the paper is the sum of its strata's, since sketches are linear and
//!    all use the same columns; a key's estimate comes from its own stratum, which has fewer others.
//! 2. The heavy keys of a level are the heaviest of those of its strata: who is among the `top` heaviest of a level is so in its
//!    stratum.
//! 3. While a stratum has at most `top` keys, all of them are kept with their exact counts; but of one whose cells a
//!    [`monitor`](crate::monitor) kept, those that it knows, and the stratum says whether there may be others.
//! 4. A stratum's total weight is that of its keys; both stop at `u64::MAX`, and beyond `i64::MAX` no bound is known.
//!
//! | operation          | CPU                           | memory touched                    |
//! |--------------------|-------------------------------|-----------------------------------|
//! | `update`           | O(depth)                      | `depth` cells, one or two slots   |
//! | sums               | O(levels · top · log)         | the slots                         |
//! | `top`              | O(levels · top · log + cells) | the slots; cells, once            |
//! | `bounds`           | O(cells + top) of a stratum   | a stratum's cells and slots       |
//! | `merge`, `changes` | O(cells + slots)              | all                               |
//! | the sketch         | –                             | levels · (8 bytes a cell + slots) |
//!
//! Source: Liu, Manousis, Vorsanger, Sekar, Braverman, "One sketch to rule them all: rethinking network flow monitoring with UnivMon"
//! (SIGCOMM 2016), Algorithms 1 and 2; the recursive sum: Braverman and Ostrovsky, "Zero-one frequency laws" (STOC 2010).
//!
//! Deviations: the paper updates the sketches of all levels that a key passes; by invariant 1 the deepest is enough, and errs less. The
//! count of a heavy key is what the sketch said when it got its slot, and exactly what came since. The interval of a sum is not
//! in the paper.

use super::depth::DEPTH_MAX;
use super::format::{self, Decoder, Encoder};
use super::hash_id::{HashId, require_equal};
use super::space_saving::HeavyKey;
use super::{CountBounds, CountSketch, HeavyChange, SpaceSaving};
use crate::error::invalid;
use crate::{KeyHash, Result};
use std::cmp::Reverse;

/// More levels than this would be for more keys than there can be.
const LEVELS_MAX: u32 = 32;
/// The bits of `low()` that choose levels lie between those of the signs and those of the homes of up to 2^15 heavy keys.
const _: () = assert!(DEPTH_MAX + LEVELS_MAX - 1 <= u64::BITS - 17);

/// Counts keys so that any sum of a function of their counts can be asked for.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::UnivMon};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut flows = UnivMon::new(6, 1024, 5, 64, 8, &hasher)?;
/// for flow in ["a", "b", "a", "c"] {
///     flows.update(hasher.hash(flow.as_bytes()), flow.as_bytes(), 1);
/// }
/// assert_eq!(flows.cardinality().estimate, 3.0);
/// assert_eq!(flows.entropy().estimate, 1.5);
/// assert_eq!(flows.top(1, 0.99)[0].key, b"a");
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnivMon {
    hash_id: HashId,
    pub(crate) strata: Vec<Stratum>,
}

/// The keys whose deepest level is the same.
#[derive(Clone, Debug)]
pub(crate) struct Stratum {
    pub(crate) counts: CountSketch,
    pub(crate) heavy: SpaceSaving,
}

/// How far what a stratum says of its keys may be off.
#[derive(Clone, Copy, Debug)]
enum StratumError {
    /// Not at all: each key has a slot since it came.
    Exact,
    /// What its count sketch says of a key may be off by this, either way.
    Within(u64),
    /// No bound is known.
    Unknown,
}

/// A sum over all keys, and how far off it may be.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct KeySum {
    /// The estimate.
    pub estimate: f64,
    /// Its standard error, as far as it comes from the keys that are not kept: each stands for others with the hash's choice. 0 where
    /// all keys are kept.
    pub standard_error: f64,
}

impl UnivMon {
    /// An empty sketch of `levels` levels (the log of the number of keys over `top`, or more), each with a count sketch of `depth` rows of
    /// `columns` cells, `top` heavy keys, and up to `key_bytes_max` bytes of each.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `1 <= levels <= 32`, and those of [`CountSketch::new`] and
    /// [`SpaceSaving::new`].
    pub fn new(
        levels: u32,
        columns: u32,
        depth: u32,
        top: usize,
        key_bytes_max: usize,
        hash_id: impl Into<HashId>,
    ) -> Result<Self> {
        let hash_id = hash_id.into();
        if levels == 0 || levels > LEVELS_MAX {
            return invalid("levels", levels, format!("choose 1 to {LEVELS_MAX}"));
        }
        let stratum = || -> Result<Stratum> {
            let counts = CountSketch::new(columns, depth, hash_id)?;
            Ok(Stratum { counts, heavy: SpaceSaving::new(top, key_bytes_max, hash_id)? })
        };
        let strata = (0..levels).map(|_| stratum()).collect::<Result<_>>()?;
        Ok(Self { hash_id, strata })
    }

    /// An empty sketch's shape with these strata, each by its weight and its count sketch's cells, and the heaviest of these keys. Where
    /// the cells are those of the keys' estimates, and of nothing else, the estimates are taken to be exact.
    ///
    /// # Accuracy
    /// They are exact but with probability [`UNSEEN`] over the choice of the seed: another key would have to meet one of them in all rows,
    /// with the same sign relative to it in each.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another number of strata or cells.
    pub(crate) fn of_cells(&self, strata: Vec<(u64, Vec<i64>)>, keys: &[(KeyHash, Vec<u8>)]) -> Result<Self> {
        require_equal("the number of levels", self.strata.len(), strata.len())?;
        let stratum = |(at, (weight, cells)): (usize, (u64, Vec<i64>))| -> Result<Stratum> {
            let sizes = cells.chunks_exact(self.columns() as usize);
            let sizes =
                sizes.map(|row| row.iter().fold(0u64, |sum, cell| sum.saturating_add(cell.unsigned_abs())));
            // Cells that were read while others were added may be ahead of the weight.
            let weight = sizes.fold(weight, u64::max);
            let counts = CountSketch::from_cells(self.columns(), self.depth(), self.hash_id, weight, cells)?;
            let own = keys.iter().filter(|key| self.stratum_of(key.0) == at);
            let mut known: Vec<(KeyHash, &[u8], u64)> =
                own.map(|(hash, key)| (*hash, &key[..], past(&counts, *hash))).collect();
            known.retain(|key| key.2 > 0);
            let is_exact = are_all(&counts, &known);
            known.sort_unstable_by_key(|&(hash, _, count)| (Reverse(count), hash));
            known.truncate(self.heavy_max());
            let claims = known.into_iter().map(|(hash, key, count)| {
                let key = HeavyKey { hash, key, truncated: false, count: CountBounds::default() };
                if is_exact { (key, count, 0) } else { (key, 0, count) }
            });
            let missed = if is_exact { 0 } else { u64::MAX };
            let heavy = self.strata[at].heavy.of_admitted(&claims.collect::<Vec<_>>(), missed)?;
            Ok(Stratum { counts, heavy })
        };
        let strata = strata.into_iter().enumerate().map(stratum).collect::<Result<_>>()?;
        Ok(Self { hash_id: self.hash_id, strata })
    }

    /// Adds `weight` to the key of this hash, of whose bytes the first are kept if it is heavy.
    ///
    /// # Cost
    /// O(depth); for a key that is not kept, what [`SpaceSaving::admit`] costs. Never allocates.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, key: &[u8], weight: u64) {
        let at = self.stratum_of(hash);
        let Stratum { counts, heavy } = &mut self.strata[at];
        if weight == 0 {
            return;
        }
        let is_new = keeps_every_key(heavy);
        heavy.admit(hash, weight, || if is_new { 0 } else { past(counts, hash) }, || key);
        let mut rest = weight;
        while rest > 0 {
            let step = rest.min(i64::MAX as u64);
            counts.update(hash, step as i64);
            rest -= step;
        }
    }

    /// How often a key occurred: what a slot of it counts, else what its stratum's sketch says, but not less than 0.
    ///
    /// # Accuracy
    /// See [`bounds`](Self::bounds).
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        self.strata[self.stratum_of(hash)].estimate(hash)
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`: those of its stratum's
    /// [`CountSketch`](CountSketch::bounds), and what came since the key got a slot, which is certain. `u64::MAX` says that no bound is
    /// known.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        let stratum = &self.strata[self.stratum_of(hash)];
        stratum.bounds(hash, stratum.error(confidence))
    }

    /// The sum of `g` over the counts of all keys: the paper's Algorithm 2. `g(0)` must be 0, and `g` must not fall.
    ///
    /// # Accuracy
    /// Right on average as far as the counts of heavy keys are right. What is not kept at a level counts twice what of it passes to
    /// the next: its variance is the sum of the squares of what is not kept, at most the greatest of them times their sum, and
    /// [`KeySum::standard_error`] is the root of those, each level's doubled as often as it is. A level whose keys are all kept adds
    /// nothing.
    pub fn sum(&self, g: impl Fn(u64) -> f64) -> KeySum {
        // From the last level up: the sum of the level's keys, and its variance.
        let (mut sum, mut variance) = (0.0, 0.0);
        let top = self.strata[0].heavy.capacity();
        let mut heavy: Vec<(u64, usize)> = Vec::new();
        let mut all_are_kept = true;
        for (level, stratum) in self.strata.iter().enumerate().rev() {
            let slots = stratum.heavy.top(top).into_iter().map(|slot| (slot.count.estimate, level));
            let first_new = heavy.len();
            heavy.extend(slots);
            all_are_kept &= stratum.keeps_all();
            if all_are_kept {
                sum += heavy[first_new..].iter().map(|&(count, _)| g(count)).sum::<f64>();
                continue;
            }
            heavy.sort_unstable_by(|a, b| b.cmp(a));
            heavy.truncate(top);
            let heavy_sum: f64 = heavy.iter().map(|&(count, _)| g(count)).sum();
            if level + 1 == self.strata.len() {
                sum = heavy_sum;
                continue;
            }
            let passed: f64 = heavy.iter().filter(|&&(_, of)| of > level).map(|&(count, _)| g(count)).sum();
            let rest = (2.0 * (sum - passed)).max(0.0);
            let most = heavy.last().map_or(0.0, |&(count, _)| g(count));
            (sum, variance) = (heavy_sum + rest, 4.0 * variance + most * rest);
        }
        KeySum { estimate: sum, standard_error: variance.sqrt() }
    }

    /// How many distinct keys there were.
    ///
    /// # Accuracy
    /// See [`sum`](Self::sum); with `levels` too few, at most the keys that the last level keeps times two to the power of the levels.
    pub fn cardinality(&self) -> KeySum {
        self.sum(|count| f64::from(u8::from(count > 0)))
    }

    /// The L2 norm of the keys' counts: the root of the sum of their squares.
    pub fn l2(&self) -> KeySum {
        let squares = self.sum(|count| (count as f64).powi(2));
        let estimate = squares.estimate.sqrt();
        // The derivative of the root.
        let standard_error = if estimate > 0.0 { squares.standard_error / (2.0 * estimate) } else { 0.0 };
        KeySum { estimate, standard_error }
    }

    /// The entropy of the keys' shares of the weight in bits: the sum of `-f/n log2(f/n)` over keys that weigh `f` of `n`.
    pub fn entropy(&self) -> KeySum {
        let total = self.total_weight() as f64;
        if total == 0.0 {
            return KeySum::default();
        }
        let sum = self.sum(|count| if count == 0 { 0.0 } else { count as f64 * (count as f64).log2() });
        // log2 n - (sum of f log2 f) / n.
        let estimate = (total.log2() - sum.estimate / total).max(0.0);
        KeySum { estimate, standard_error: sum.standard_error / total }
    }

    /// The `k` heaviest keys, heaviest first, with [`bounds`](Self::bounds); equal ones in the order of their bytes.
    ///
    /// # Cost
    /// One pass over the cells and the slots of each stratum that has one of these keys, and the sorting of all slots.
    pub fn top(&self, k: usize, confidence: f64) -> Vec<HeavyKey<'_>> {
        self.top_within(k, |stratum| stratum.error(confidence))
    }

    /// [`top`](Self::top), with bounds by the error of each stratum, which `error_of` is asked for once at most.
    fn top_within(&self, k: usize, mut error_of: impl FnMut(&Stratum) -> StratumError) -> Vec<HeavyKey<'_>> {
        let mut top: Vec<HeavyKey<'_>> =
            self.strata.iter().flat_map(|stratum| stratum.heavy.top(k)).collect();
        top.sort_unstable_by(|a, b| {
            b.count.estimate.cmp(&a.count.estimate).then_with(|| (a.key, a.hash).cmp(&(b.key, b.hash)))
        });
        top.truncate(k);
        let mut errors = vec![None; self.strata.len()];
        for heavy in &mut top {
            let at = self.stratum_of(heavy.hash);
            let stratum = &self.strata[at];
            let error = *errors[at].get_or_insert_with(|| error_of(stratum));
            heavy.count = stratum.bounds(heavy.hash, error);
        }
        top
    }

    /// The keys that are kept here or in `earlier` whose estimates differ by `least` or more, the greatest change first; equal ones in the
    /// order of their hashes. A key that one side does not keep is taken for what its sketch says of it.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ.
    pub fn changes<'a>(&'a self, earlier: &'a Self, least: u64) -> Result<Vec<HeavyChange<'a>>> {
        self.require_equal_shape(earlier)?;
        let count = |sketch: &Self, hash| i64::try_from(sketch.estimate(hash)).unwrap_or(i64::MAX);
        let strata = self.strata.iter().chain(&earlier.strata);
        let heavy = strata.flat_map(|stratum| stratum.heavy.top(stratum.heavy.capacity()));
        let changes = heavy.map(|HeavyKey { hash, key, truncated, .. }| {
            let (before, after) = (count(earlier, hash), count(self, hash));
            HeavyChange { hash, key, truncated, before, after }
        });
        Ok(super::heavy_changes(changes.collect(), least))
    }

    /// The weight of all updates; stops at `u64::MAX`.
    pub fn total_weight(&self) -> u64 {
        self.strata.iter().fold(0, |sum: u64, stratum| sum.saturating_add(stratum.counts.total_weight()))
    }

    /// Whether a stratum is saturated, so that no bound is known of its keys.
    pub fn saturated(&self) -> bool {
        self.strata.iter().any(|stratum| stratum.counts.saturated())
    }

    /// Takes in the stream of another sketch. The cells are then those of one sketch that saw both; the heavy keys are the heaviest of
    /// both, by what their slots held and, where they had none, by what that side's sketch says.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.require_equal_shape(other)?;
        for (here, there) in self.strata.iter_mut().zip(&other.strata) {
            let keys = here.heavy.top(here.heavy.capacity()).into_iter();
            let others = there.heavy.top(there.heavy.capacity()).into_iter();
            let mut claims: Vec<(HeavyKey<'_>, u64, u64)> = keys
                .chain(others.filter(|key| here.heavy.present(key.hash).is_none()))
                .map(|key| {
                    let (held_here, past_here) = here.parts(key.hash);
                    let (held_there, past_there) = there.parts(key.hash);
                    (key, held_here.saturating_add(held_there), past_here.saturating_add(past_there))
                })
                .collect();
            claims.sort_unstable_by_key(|(key, held, past)| (Reverse(held.saturating_add(*past)), key.hash));
            claims.truncate(here.heavy.capacity());
            let heavy = here.heavy.of_admitted(&claims, here.heavy.missed().max(there.heavy.missed()))?;
            here.counts.merge(&there.counts)?;
            here.heavy = heavy;
        }
        Ok(())
    }

    /// The sketch as bytes: header, levels u32, zero u32; of each stratum: bytes of its count sketch u64, bytes of its heavy keys u64, both
    /// as [`CountSketch::to_bytes`] and [`SpaceSaving::to_bytes`] have them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(format::UNIV_MON, Some(self.hash_id), 0);
        encoder.u32(self.strata.len() as u32);
        encoder.u32(0);
        for Stratum { counts, heavy } in &self.strata {
            let (counts, heavy) = (counts.to_bytes(), heavy.to_bytes());
            encoder.u64(counts.len() as u64);
            encoder.u64(heavy.len() as u64);
            encoder.raw(&counts);
            encoder.raw(&heavy);
        }
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::UNIV_MON)?;
        let hash_id = decoder.hash_id()?;
        let levels = decoder.u32()?;
        decoder.zeros(4)?;
        if levels == 0 || levels > LEVELS_MAX {
            return Err(decoder.corrupt("the number of levels", format!("1 to {LEVELS_MAX}"), levels));
        }
        let mut strata: Vec<Stratum> = Vec::new();
        for _ in 0..levels {
            let (counts, heavy) = (decoder.u64()?, decoder.u64()?);
            let counts = decoder.counted("the bytes of a count sketch", counts, 1)?;
            let counts = CountSketch::from_bytes(decoder.take(counts)?)?;
            let heavy = decoder.counted("the bytes of the heavy keys", heavy, 1)?;
            let heavy = SpaceSaving::from_bytes(decoder.take(heavy)?)?;
            let stratum = Stratum { counts, heavy };
            hash_id.require(stratum.counts.hash_id())?;
            hash_id.require(stratum.heavy.hash_id())?;
            strata.first().unwrap_or(&stratum).require_equal_shape(&stratum)?;
            strata.push(stratum);
        }
        decoder.require_left(Some(0))?;
        let sketch = Self { hash_id, strata };
        for (at, stratum) in sketch.strata.iter().enumerate() {
            let foreign = stratum
                .heavy
                .top(stratum.heavy.len())
                .into_iter()
                .find(|key| sketch.stratum_of(key.hash) != at);
            if let Some(key) = foreign {
                let own = sketch.stratum_of(key.hash);
                return Err(decoder.corrupt("the stratum of a heavy key", own, at));
            }
        }
        Ok(sketch)
    }

    /// Levels.
    pub fn levels(&self) -> usize {
        self.strata.len()
    }

    /// Columns of a level's count sketch.
    pub fn columns(&self) -> u32 {
        self.strata[0].counts.columns()
    }

    /// Rows of a level's count sketch.
    pub fn depth(&self) -> u32 {
        self.strata[0].counts.depth()
    }

    /// How many heavy keys a level keeps.
    pub fn heavy_max(&self) -> usize {
        self.strata[0].heavy.capacity()
    }

    /// How many bytes of a key are kept.
    pub fn key_bytes_max(&self) -> usize {
        self.strata[0].heavy.key_bytes_max()
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        let stratum = |stratum: &Stratum| stratum.counts.memory_bytes() + stratum.heavy.memory_bytes();
        size_of::<Self>() + self.strata.iter().map(stratum).sum::<usize>()
    }

    #[inline]
    fn stratum_of(&self, hash: KeyHash) -> usize {
        stratum_of(hash, self.strata.len())
    }

    fn require_equal_shape(&self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of levels", self.strata.len(), other.strata.len())?;
        self.strata[0].require_equal_shape(&other.strata[0])
    }
}

impl Stratum {
    /// Whether every key of the stratum has a slot since it came: then the slots' exact counts are all the weight there is.
    fn keeps_all(&self) -> bool {
        !self.counts.saturated() && self.heavy.held_weight() == u128::from(self.counts.total_weight())
    }

    /// The error that no fixed key's bounds exceed with probability `confidence`. One pass over the cells and the slots.
    fn error(&self, confidence: f64) -> StratumError {
        if self.keeps_all() {
            return StratumError::Exact;
        }
        match self.counts.error_bound(confidence) {
            u64::MAX => StratumError::Unknown,
            error => StratumError::Within(error),
        }
    }

    fn estimate(&self, hash: KeyHash) -> u64 {
        let (held, past) = self.parts(hash);
        held.saturating_add(past)
    }

    /// A key's bounds, given the stratum's [`error`](Self::error).
    fn bounds(&self, hash: KeyHash, error: StratumError) -> CountBounds {
        let (held, past) = self.parts(hash);
        let estimate = held.saturating_add(past);
        match error {
            // A key without a slot has weighed nothing, whatever the sketch says of it.
            StratumError::Exact => CountBounds { lower: held, estimate, upper: estimate },
            StratumError::Unknown => CountBounds { lower: held, estimate, upper: u64::MAX },
            StratumError::Within(error) => {
                let said = self.counts.estimate(hash);
                let at_least = |bound: i64| u64::try_from(bound).unwrap_or(0).max(held);
                CountBounds {
                    lower: at_least(said.saturating_sub_unsigned(error)).min(estimate),
                    estimate,
                    upper: at_least(said.saturating_add_unsigned(error)).max(estimate),
                }
            }
        }
    }

    /// What a key's slot holds since the key got it, and what the sketch said of it before; without a slot, 0 and what the sketch says.
    fn parts(&self, hash: KeyHash) -> (u64, u64) {
        match self.heavy.present(hash) {
            Some(count) => (count.lower, count.upper - count.lower),
            None if keeps_every_key(&self.heavy) => (0, 0),
            None => (0, past(&self.counts, hash)),
        }
    }

    fn require_equal_shape(&self, other: &Self) -> Result<()> {
        self.counts.require_equal_shape(&other.counts)?;
        require_equal("the number of heavy keys", self.heavy.capacity(), other.heavy.capacity())?;
        require_equal(
            "the number of bytes kept of a key",
            self.heavy.key_bytes_max(),
            other.heavy.key_bytes_max(),
        )
    }
}

/// The probability that [`UnivMon::of_cells`] takes a stratum's estimates for exact, though there is a key that it was not given.
const UNSEEN: f64 = 1e-9;

/// Whether these keys of a stratum, each with its estimate, are all there are.
fn are_all(counts: &CountSketch, keys: &[(KeyHash, &[u8], u64)]) -> bool {
    let sum = keys.iter().map(|key| u128::from(key.2)).sum::<u128>();
    if counts.saturated() || sum != u128::from(counts.total_weight()) {
        return false;
    }
    let pair = (2.0 * f64::from(counts.columns())).powi(-(counts.depth() as i32));
    if keys.len() as f64 * pair > UNSEEN {
        return false;
    }
    let mut rest = counts.clone();
    keys.iter().for_each(|&(hash, _, count)| rest.update(hash, -(count as i64)));
    rest.cells.iter().all(|&cell| cell == 0)
}

/// Whether no key ever was without a slot: one that has none did not come.
fn keeps_every_key(heavy: &SpaceSaving) -> bool {
    heavy.len() < heavy.capacity() && heavy.missed() == 0
}

/// The stratum of a key in a sketch of so many.
#[inline]
pub(crate) fn stratum_of(hash: KeyHash, strata: usize) -> usize {
    deepest_level(hash).min(strata - 1)
}

/// The deepest level that a key would pass to if there were no last one.
///
/// It is independent of what the stratum's sketches take from the hash: of the columns, which come from the fold; of the signs, the lowest
/// bits of `low()`; and of the home in the index of the heavy keys, its top bits. Levels chosen by those would leave the keys of
/// stratum `j` only `2^-(j+1)` of the homes: from stratum 3 on, a miss would look at most of 64 keys.
#[inline]
fn deepest_level(hash: KeyHash) -> usize {
    (hash.low() >> DEPTH_MAX).trailing_zeros() as usize
}

/// What a count sketch says of a key, but not less than 0.
fn past(counts: &CountSketch, hash: KeyHash) -> u64 {
    u64::try_from(counts.estimate(hash)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
