//! CocoSketch: how often each key occurred, so that the counts of any part of the keys may be asked for afterwards.
//!
//! ```text
//!   KeyHash ─ fold() ─▶ one slot in each of `depth` rows          slot: hash, count │ first bytes of the key
//!
//!   one of them has the key:   its count += weight
//!   none has:                  the least count of them, c, becomes c + weight, and the slot the key's with probability
//!                              weight / (c + weight)
//! ```
//!
//! 1. Each update adds its weight to one count: the counts sum to the total weight, and a key's slots together count at least the
//!    key. Both hold after merges.
//! 2. A key's estimate, the sum of the counts of its slots, is right on average; so is that of any set of keys chosen by what they
//!    are. Slots of one key, which only merges leave, are summed.
//! 3. A key is only in slots of its own. A count is 0 iff its slot is free.
//! 4. The state is a function of the sequence of updates: what is random comes from a generator in the sketch (SplitMix64, its
//!    state xored with the key's hash), so equal streams into equal sketches are equal sketches.
//! 5. The total weight stops at `u64::MAX`. Until then no count is full; from then on no bound is known.
//!
//! | operation              | CPU                  | memory touched                       |
//! |------------------------|----------------------|--------------------------------------|
//! | `update`, `estimate`   | O(depth)             | `depth` slots; a key where one is new |
//! | `by_part`, `top`       | O(slots log slots)   | all                                  |
//! | `merge`, `to_bytes`    | O(slots)             | all                                  |
//! | the sketch             | –                    | 34 bytes and the key's a slot        |
//!
//! Source: Zhang, Liu, Wang, Yang, Li, Miao, Zhang, Wang, Yang, Jiang, "CocoSketch: high-performance sketch-based measurement over
//! arbitrary partial key query" (SIGCOMM 2021), section 4, the basic form: among the key's slots the least count is the one to
//! change, which adds the least variance.
//!
//! Deviations: the probability is exact to 2^-64, not that of a 32-bit division. A key is its 128-bit hash; its bytes are kept up to a
//! limit, and queries by part see what was kept.

use super::CountBounds;
use super::depth::{DEPTH_MAX, require_depth, with_depth};
use super::format::{self, Decoder, Encoder};
use super::hash_id::{HashId, require_equal};
use super::keys::{KEY_BYTES_MAX, KeyStore};
use super::space_saving::HeavyKey;
use crate::error::invalid;
use crate::{KeyHash, Result};
use keyhash::range_of;
use std::collections::BTreeMap;

/// The shape's fields in the payload.
const SHAPE_BYTES: usize = 4 * size_of::<u32>() + 2 * size_of::<u64>();
/// A slot without its key.
const SLOT_BYTES: usize = size_of::<u128>() + size_of::<u64>();
const _: () = assert!(SHAPE_BYTES == 32 && SLOT_BYTES == 24);

/// Counts keys so that any part of them can be asked for.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::CocoSketch};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut flows = CocoSketch::new(1024, 2, 8, &hasher)?;
/// for (flow, bytes) in [("a-x", 10), ("a-y", 20), ("b-x", 5), ("a-x", 1)] {
///     flows.update(hasher.hash(flow.as_bytes()), flow.as_bytes(), bytes);
/// }
/// assert_eq!(flows.estimate(hasher.hash(b"a-x")), 11);
/// let by_source = flows.by_part(|flow| flow[0]);
/// assert_eq!(by_source[&b'a'], 31);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CocoSketch {
    columns: u32,
    depth: u32,
    hash_id: HashId,
    total_weight: u64,
    /// The state of the generator.
    random: u64,
    /// Row after row.
    pub(crate) slots: Vec<Slot>,
    keys: KeyStore,
}

/// A key and its count; free where that is 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Slot {
    pub(crate) hash: KeyHash,
    pub(crate) count: u64,
}

impl CocoSketch {
    /// An empty sketch of `depth` rows (the paper has 2) of `columns` slots, which keeps up to `key_bytes_max` bytes of each key.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) where rows or columns are 0, `depth` is above 16, `key_bytes_max` is
    /// 2^15 or more, or memory cannot hold it.
    pub fn new(columns: u32, depth: u32, key_bytes_max: usize, hash_id: impl Into<HashId>) -> Result<Self> {
        require_depth(depth)?;
        let slots = KeyStore::places(depth as usize, columns, size_of::<Slot>(), key_bytes_max);
        let Some(slots) = slots.filter(|&slots| slots > 0) else {
            return invalid("columns", columns, "each row needs at least one, and memory must hold them");
        };
        let keys = KeyStore::new(slots, key_bytes_max)?;
        let slots = vec![Slot::default(); slots];
        Ok(Self { columns, depth, hash_id: hash_id.into(), total_weight: 0, random: 0, slots, keys })
    }

    /// The same with other random numbers: sketches that will be merged err independently if each has a number of its own.
    pub fn with_random(mut self, number: u64) -> Self {
        self.random = mix(number);
        self
    }

    /// Adds `weight` to the key of this hash, of whose bytes the first are kept.
    ///
    /// # Cost
    /// O(depth). Never allocates.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, key: &[u8], weight: u64) {
        if weight == 0 {
            return;
        }
        self.total_weight = self.total_weight.saturating_add(weight);
        let place = with_depth!(self.depth, place_of(&mut self.slots, self.columns, hash, weight));
        let Err(place) = place else { return };
        let slot = &mut self.slots[place];
        slot.count = slot.count.saturating_add(weight);
        if takes(&mut self.random, hash.low(), slot.count, weight) {
            slot.hash = hash;
            self.keys.keep(place, key);
        }
    }

    /// What the slots of a key count: 0 for one that has none.
    ///
    /// # Accuracy
    /// Right on average over the generator's numbers; see [`bounds`](Self::bounds).
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        self.own_slots(hash)
            .fold(0, |sum, slot| if slot.hash == hash { sum.saturating_add(slot.count) } else { sum })
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`.
    ///
    /// # Accuracy
    /// The variance of the estimate of a key that weighs `f` is at most `f * total_weight / columns` (an update that finds the count
    /// `c` in a slot of another key adds `c * weight`; of each unit of the key's weight, what came before it is on average at most
    /// `1 / columns` of itself in its slot, and so is what comes after it). `lower` and `upper` are Chebyshev's inequality for
    /// that; a set of keys that weighs `f` has the same. `upper` is not above what the key's slots count together, which is
    /// certain; `u64::MAX` says that no bound is known.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        let estimate = self.estimate(hash);
        if self.saturated() {
            return CountBounds { lower: 0, estimate, upper: u64::MAX };
        }
        let slots = self.own_slots(hash).map(|slot| u128::from(slot.count)).sum::<u128>() as u64;
        let (lower, upper) = self.interval(estimate, confidence);
        CountBounds { lower, estimate, upper: upper.min(slots) }
    }

    /// How much the keys weigh that have the same part, by that part: the sums of the estimates of the keys that are present.
    ///
    /// # Accuracy
    /// For a part chosen without looking at the sketch, as [`bounds`](Self::bounds) says of a key; parts that are absent are 0. Use
    /// [`part_bounds`](Self::part_bounds) for the interval.
    ///
    /// # Cost
    /// One pass over the slots; `part` is asked once for each in use, and sees the bytes that were kept.
    pub fn by_part<K: Ord>(&self, mut part: impl FnMut(&[u8]) -> K) -> BTreeMap<K, u64> {
        let mut sums = BTreeMap::new();
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.count > 0) {
            let sum: &mut u64 = sums.entry(part(self.keys.get(place).0)).or_default();
            *sum = sum.saturating_add(slot.count);
        }
        sums
    }

    /// The interval around an estimate of [`by_part`](Self::by_part), as [`bounds`](Self::bounds) has it around that of a key.
    pub fn part_bounds(&self, estimate: u64, confidence: f64) -> CountBounds {
        if self.saturated() {
            return CountBounds { lower: 0, estimate, upper: u64::MAX };
        }
        let (lower, upper) = self.interval(estimate, confidence);
        CountBounds { lower, estimate, upper: upper.min(self.total_weight) }
    }

    /// The `k` keys of the highest estimates, highest first, with [`bounds`](Self::bounds); equal ones in the order of their bytes.
    pub fn top(&self, k: usize, confidence: f64) -> Vec<HeavyKey<'_>> {
        let mut places: Vec<usize> =
            (0..self.slots.len()).filter(|&place| self.slots[place].count > 0).collect();
        places.sort_unstable_by_key(|&place| (self.slots[place].hash, place));
        places.dedup_by_key(|place| self.slots[*place].hash);
        let key_of = |place: usize| (self.keys.get(place).0, self.slots[place].hash);
        let mut top: Vec<(u64, usize)> =
            places.into_iter().map(|place| (self.estimate(self.slots[place].hash), place)).collect();
        top.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| key_of(a.1).cmp(&key_of(b.1))));
        top.truncate(k);
        let heavy = |(_, place): (u64, usize)| {
            let (hash, (key, truncated)) = (self.slots[place].hash, self.keys.get(place));
            HeavyKey { hash, key, truncated, count: self.bounds(hash, confidence) }
        };
        top.into_iter().map(heavy).collect()
    }

    /// The weight of all updates; stops at `u64::MAX`.
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// Whether the total weight is full, so that no bound is known.
    pub fn saturated(&self) -> bool {
        self.total_weight == u64::MAX
    }

    /// Takes in the stream of another sketch: slots of one key add up; of two keys in one place, the sum goes to either with the
    /// probability of its share.
    ///
    /// # Accuracy
    /// What [`bounds`](Self::bounds) says, of both streams together, if the sketches have [numbers](Self::with_random) of their own.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of columns", self.columns, other.columns)?;
        require_equal("the depth", self.depth, other.depth)?;
        require_equal("the number of bytes kept of a key", self.keys.bytes_max(), other.keys.bytes_max())?;
        self.total_weight = self.total_weight.saturating_add(other.total_weight);
        for (place, there) in other.slots.iter().enumerate().filter(|(_, there)| there.count > 0) {
            let slot = &mut self.slots[place];
            slot.count = slot.count.saturating_add(there.count);
            if slot.hash == there.hash && slot.count > there.count {
                continue;
            }
            if takes(&mut self.random, there.hash.low(), slot.count, there.count) {
                slot.hash = there.hash;
                let (key, truncated) = other.keys.get(place);
                self.keys.keep_kept(place, key, truncated);
            }
        }
        Ok(())
    }

    /// The sketch as bytes: header, columns u32, depth u32, key_bytes_max u32, zero u32, total weight u64, the generator's state u64;
    /// then slots, row after row: hash u128, count u64, key length u16 (bit 15: truncated), key bytes padded with zeros. Free
    /// slots are zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let slot_bytes = SLOT_BYTES + KeyStore::encoded_bytes(self.keys.bytes_max());
        let mut encoder =
            Encoder::new(format::COCO, Some(self.hash_id), SHAPE_BYTES + self.slots.len() * slot_bytes);
        for value in [self.columns, self.depth, self.keys.bytes_max() as u32, 0] {
            encoder.u32(value);
        }
        encoder.u64(self.total_weight);
        encoder.u64(self.random);
        for (place, slot) in self.slots.iter().enumerate() {
            encoder.u128(slot.hash.0);
            encoder.u64(slot.count);
            self.keys.put(place, &mut encoder);
        }
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::COCO)?;
        let hash_id = decoder.hash_id()?;
        let (columns, depth, key_bytes_max) = (decoder.u32()?, decoder.u32()?, decoder.u32()? as usize);
        decoder.zeros(4)?;
        let (total_weight, random) = (decoder.u64()?, decoder.u64()?);
        let slots = KeyStore::places(depth as usize, columns, size_of::<Slot>(), key_bytes_max)
            .filter(|_| depth <= DEPTH_MAX && key_bytes_max <= KEY_BYTES_MAX);
        let bytes =
            slots.and_then(|slots| slots.checked_mul(SLOT_BYTES + KeyStore::encoded_bytes(key_bytes_max)));
        if bytes != Some(decoder.left()) || slots == Some(0) {
            let expected = format!("one of {} bytes of slots", decoder.left());
            let found = format!("{depth} rows of {columns} slots with keys of up to {key_bytes_max} bytes");
            return Err(decoder.corrupt("the shape", expected, found));
        }
        let mut sketch = Self::new(columns, depth, key_bytes_max, hash_id)?;
        (sketch.total_weight, sketch.random) = (total_weight, random);
        let mut sum = 0u128;
        for place in 0..sketch.slots.len() {
            let slot = Slot { hash: KeyHash(decoder.u128()?), count: decoder.u64()? };
            sketch.keys.read(place, &mut decoder)?;
            if slot.count == 0 && (slot.hash != KeyHash(0) || sketch.keys.get(place) != (&[], false)) {
                return Err(decoder.corrupt("a free slot", "zero", format!("{:?}", slot.hash)));
            }
            let own = place_in_row(columns, (place / columns as usize) as u32, slot.hash);
            if slot.count > 0 && own != place {
                return Err(decoder.corrupt("the place of a slot's key", own, place));
            }
            sum += u128::from(slot.count);
            sketch.slots[place] = slot;
        }
        if total_weight != u64::MAX && sum != u128::from(total_weight) {
            return Err(decoder.corrupt("the sum of the counts", total_weight, sum));
        }
        Ok(sketch)
    }

    /// Slots of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How many bytes of a key are kept.
    pub fn key_bytes_max(&self) -> usize {
        self.keys.bytes_max()
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.slots.capacity() * size_of::<Slot>() + self.keys.memory_bytes()
    }

    fn own_slots(&self, hash: KeyHash) -> impl Iterator<Item = &Slot> {
        (0..self.depth).map(move |row| &self.slots[place_in_row(self.columns, row, hash)])
    }

    fn interval(&self, estimate: u64, confidence: f64) -> (u64, u64) {
        interval(self.total_weight as f64 / f64::from(self.columns), estimate, confidence)
    }
}

/// The values of `f` for which the estimate is within Chebyshev's deviation of `f`, where its variance is `f * variance`.
pub(crate) fn interval(variance: f64, estimate: u64, confidence: f64) -> (u64, u64) {
    let failure = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0);
    let deviation = (variance / failure).sqrt();
    // |estimate - f| = deviation * sqrt(f), solved for the root of f.
    let root = (deviation * deviation + 4.0 * estimate as f64).sqrt();
    let square = |root: f64| (root / 2.0).powi(2);
    let (lower, upper) = (square(root - deviation), square(root + deviation));
    ((lower.floor() as u64).min(estimate), (upper.ceil() as u64).max(estimate))
}

/// Whether a key whose hash has these low bits takes the slot of another, which counts `count` with the key's `weight`: with probability
/// `weight / count`.
#[inline(always)]
pub(crate) fn takes(random: &mut u64, low: u64, count: u64, weight: u64) -> bool {
    *random = random.wrapping_add(GAMMA);
    range_of(mix(*random ^ low), count) < weight
}

/// The increment of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output of SplitMix64 from a state.
#[inline(always)]
pub(crate) fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[inline]
fn place_in_row(columns: u32, row: u32, hash: KeyHash) -> usize {
    let column = keyhash::column(hash.fold(), row, u64::from(columns)) as usize;
    row as usize * columns as usize + column
}

/// Counts a key that is present; else gives the place of the least count of its slots.
#[inline(always)]
fn place_of<const D: usize>(
    slots: &mut [Slot],
    columns: u32,
    hash: KeyHash,
    weight: u64,
) -> std::result::Result<(), usize> {
    let (mut least, mut least_place) = (u64::MAX, 0);
    for (row, column) in keyhash::columns::<D>(hash.fold(), u64::from(columns)).into_iter().enumerate() {
        let place = row * columns as usize + column as usize;
        let slot = &mut slots[place];
        if slot.hash == hash && slot.count > 0 {
            slot.count = slot.count.saturating_add(weight);
            return Ok(());
        }
        if slot.count < least || row == 0 {
            (least, least_place) = (slot.count, place);
        }
    }
    Err(least_place)
}

#[cfg(test)]
mod tests;
