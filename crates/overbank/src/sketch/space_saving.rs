//! Space-saving: which keys are heavy, with a lower and an upper bound of each count.
//!
//! ```text
//!   hash ─▶ index (open addressing, linear probing) ─▶ slot: hash, count, error, first bytes of the key
//!                                                        │
//!   known key:    count += weight                        │  nothing else is touched
//!   unknown key:  the slot of the least count is given to it:  error = least, count = least + weight
//!                 front: the slots of the least counts, listed ahead; listed anew when they are used up
//! ```
//!
//! 1. `count - error <= true count <= count` for every key in a slot.
//! 2. A key in no slot has a true count of at most the least count (0 while a slot is free), or of `missed` where that is more:
//!    what keys may have weighed that two merged sketches both lacked.
//! 3. The counts sum to at most the total weight n, so the least count, every `error`, and the true count of
//!    every absent key are at most `n / capacity`: each key heavier than that is present.
//! 4. Of equal least counts the slot with the lowest number goes; slots are first filled in order of arrival.
//!    The state is a function of the sequence of updates.
//! 5. A count stops at `u64::MAX`, which as an upper bound says "not known"; the lower bound holds all the same.
//! 6. The index holds each slot in use once. Memory is allocated at construction and never grows.
//!
//! | operation           | CPU                                | RAM                                        |
//! |---------------------|------------------------------------|--------------------------------------------|
//! | `update`, known     | O(1)                               | –                                          |
//! | `update`, unknown   | amortised O(1) for weights of 1, else O(log capacity) | –                       |
//! | `estimate`          | O(1); O(capacity) for an absent key | –                                         |
//! | `top`               | O(capacity log capacity)           | a list of references                       |
//! | the sketch          | –                                  | [`SpaceSaving::memory_bytes_for`]          |
//!
//! Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams"
//! (ICDT 2005); merge: Agarwal et al., "Mergeable summaries" (PODS 2012), section 2, in the form of Cafaro,
//! Pulimeno, Tempesta, "A parallel space saving algorithm" (2016).
//!
//! Deviations: the paper's list of buckets of equal counts needs a walk for a weighted update, and a pointer chased
//! for each known key. Here a known key's update adds to one count. The least count is found by a pass over all
//! counts that lists many slots ahead: with weights of 1 most slots share the least count, so a pass serves many
//! evictions. A lazy 4-ary heap, tried against it in one process, had 650 instructions an update where this has 258 on
//! distinct keys and 242 where this has 116 on Zipf 1.1 (capacity 4096), and a third of the speed on distinct keys; with
//! weights spread over 1..1000 on distinct keys the heap has fewer instructions (641 to 1126), but they are the
//! slower ones (5.5 to 6.1 million updates a second). A key is its 128-bit hash; its bytes are kept up to a limit, for
//! people to read.

mod decay;
mod front;

use super::CountBounds;
use super::format::{self, Decoder, Encoder, HEADER_BYTES, corrupt};
use super::hash_id::{HashId, require_equal};
use super::index::{Index, Place};
use super::keys::{KEY_BYTES_MAX, KeyStore};
use super::stream::{self, Reader};
use crate::{Error, KeyHash, Result};
use front::Front;

/// The most slots: the index finds a home in 32 bits of the hash.
const CAPACITY_MAX: usize = 1 << 24;

/// Finds the heavy keys of a stream.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::SpaceSaving};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut heavy = SpaceSaving::new(16, 32, &hasher)?;
/// for key in ["a", "b", "a", "c", "a"] {
///     heavy.update(hasher.hash(key.as_bytes()), key.as_bytes(), 1);
/// }
/// let top = heavy.top(1);
/// assert_eq!((top[0].key, top[0].count.lower, top[0].count.upper), (&b"a"[..], 3, 3));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    hash_id: HashId,
    capacity: usize,
    total_weight: u64,
    /// What an absent key may have weighed where the least count is less, or a slot free: 0 unless sketches were merged.
    missed: u64,
    hashes: Vec<KeyHash>,
    counts: Vec<u64>,
    errors: Vec<u64>,
    keys: KeyStore,
    index: Index,
    front: Front,
    /// How often a key got a slot: what an earlier [`Probe`] found holds as long as this stands still.
    admissions: u64,
    /// While every slot is in use, no count is below this: counts only rise, and who takes a slot has more than who had it.
    floor: u64,
}

/// Where a key was found, or where it belongs, when [`SpaceSaving::probe`] looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    found: std::result::Result<usize, Place>,
    admissions: u64,
}

impl Default for Probe {
    /// Finds nothing, and holds for no sketch.
    fn default() -> Self {
        Self { found: Ok(0), admissions: u64::MAX }
    }
}

impl Probe {
    /// Whether the key was present.
    #[inline]
    pub(crate) fn is_present(&self) -> bool {
        self.found.is_ok()
    }
}

/// What became of a key in [`SpaceSaving::admit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It was present already.
    Present,
    /// It got a free slot.
    New,
    /// It got the slot of another key.
    Displaced {
        /// The key that is absent now.
        hash: KeyHash,
        /// What that key had weighed since it was admitted, exactly.
        held: u64,
    },
    /// It stays absent: its weight is the caller's to count.
    Absent,
}

/// One key that is present, as [`SpaceSaving::top`] lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeavyKey<'a> {
    /// Its hash: what identifies it.
    pub hash: KeyHash,
    /// Its first bytes.
    pub key: &'a [u8],
    /// Whether the key is longer than `key`.
    pub truncated: bool,
    /// Its count.
    pub count: CountBounds,
}

/// A key that a merge may keep.
struct Claim<'a> {
    key: HeavyKey<'a>,
    count: u64,
    error: u64,
}

impl SpaceSaving {
    /// An empty sketch of `capacity` slots that keeps up to `key_bytes_max` bytes of each key.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `1 <= capacity <= 2^24` and `key_bytes_max < 2^15`.
    pub fn new(capacity: usize, key_bytes_max: usize, hash_id: impl Into<HashId>) -> Result<Self> {
        if capacity == 0 || capacity > CAPACITY_MAX {
            let why = format!("choose 1 to {CAPACITY_MAX} slots");
            return Err(Error::InvalidOption { name: "capacity", value: capacity.to_string(), why });
        }
        Ok(Self {
            hash_id: hash_id.into(),
            capacity,
            total_weight: 0,
            missed: 0,
            hashes: Vec::with_capacity(capacity),
            counts: Vec::with_capacity(capacity),
            errors: Vec::with_capacity(capacity),
            keys: KeyStore::new(capacity, key_bytes_max)?,
            index: Index::new(capacity),
            front: Front::new(capacity),
            admissions: 0,
            floor: 0,
        })
    }

    /// What a sketch of this shape holds in memory, from the start to the end.
    pub fn memory_bytes_for(capacity: usize, key_bytes_max: usize) -> usize {
        let slot = size_of::<KeyHash>() + 2 * size_of::<u64>();
        size_of::<Self>()
            + capacity * slot
            + KeyStore::memory_bytes_for(capacity, key_bytes_max)
            + Front::memory_bytes_for(capacity)
            + Index::len_for(capacity) * size_of::<u64>()
    }

    /// Adds `weight` to the key of this hash; `key` are its bytes, for people to read.
    ///
    /// # Cost
    /// O(1) for a key that is present; for one that is not, amortised O(1) with weights of 1 and O(log capacity) with any.
    /// Never allocates.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, key: &[u8], weight: u64) {
        self.total_weight = self.total_weight.saturating_add(weight);
        match self.index.find(hash, &self.hashes) {
            Ok(slot) => self.counts[slot] = self.counts[slot].saturating_add(weight),
            Err(_) if weight == 0 => {}
            Err(place) if self.counts.len() < self.capacity => {
                self.total_weight = self.total_weight.saturating_add(self.missed);
                self.fill(place, hash, key, weight.saturating_add(self.missed), self.missed);
            }
            Err(place) => {
                let least = self.counts[self.front.settle(&self.counts)];
                let before = least.max(self.missed);
                self.total_weight = self.total_weight.saturating_add(before - least);
                self.replace_least(place, hash, key, before.saturating_add(weight), before);
            }
        }
    }

    /// As [`update`](Self::update), but an absent key must earn its slot: it is admitted only if what it may have weighed
    /// before, `estimate`, and `weight` together are more than the least count. That keeps keys that come once from
    /// displacing those that come often. The caller counts the rest: the weight of a key that stays
    /// [`Absent`](Admission::Absent), and what a displaced key had weighed. While a slot is free every key gets one, also with
    /// a weight of 0: what is present then are all keys that came.
    ///
    /// # Accuracy
    /// If `estimate` is never below what the caller has counted of the key, then `lower <= true count <= upper` holds for
    /// keys that are present, and every absent key weighs at most the least count.
    ///
    /// # Cost
    /// As [`update`](Self::update); the key's bytes are asked for only when they are to be kept.
    #[inline]
    pub fn admit<'k>(
        &mut self,
        hash: KeyHash,
        weight: u64,
        estimate: impl FnOnce() -> u64,
        key: impl FnOnce() -> &'k [u8],
    ) -> Admission {
        let probe = self.probe(hash);
        self.admit_probed(probe, hash, weight, estimate, key)
    }

    /// Asks for the memory that [`probe`](Self::probe) will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.index.prefetch(hash);
    }

    /// Looks where a key is, for [`admit_probed`](Self::admit_probed).
    #[inline]
    pub(crate) fn probe(&self, hash: KeyHash) -> Probe {
        Probe { found: self.index.find(hash, &self.hashes), admissions: self.admissions }
    }

    /// As [`admit`](Self::admit), of a key that was looked for before: perhaps before other keys, so that the cache misses of many
    /// overlap.
    #[inline]
    pub(crate) fn admit_probed<'k>(
        &mut self,
        probe: Probe,
        hash: KeyHash,
        weight: u64,
        estimate: impl FnOnce() -> u64,
        key: impl FnOnce() -> &'k [u8],
    ) -> Admission {
        let found = match probe.admissions == self.admissions {
            true => probe.found,
            false => self.index.find(hash, &self.hashes),
        };
        let place = match found {
            Ok(slot) => {
                self.total_weight = self.total_weight.saturating_add(weight);
                self.counts[slot] = self.counts[slot].saturating_add(weight);
                return Admission::Present;
            }
            Err(place) => place,
        };
        let is_full = self.counts.len() == self.capacity;
        if is_full && weight == 0 {
            return Admission::Absent;
        }
        let before = estimate();
        let count = before.saturating_add(weight);
        if is_full {
            if count <= self.floor {
                return Admission::Absent;
            }
            self.floor = self.counts[self.front.settle(&self.counts)];
            if count <= self.floor {
                return Admission::Absent;
            }
        }
        self.total_weight = self.total_weight.saturating_add(count);
        if !is_full {
            self.fill(place, hash, key(), count, before);
            return Admission::New;
        }
        let (displaced, held) = self.replace_least(place, hash, key(), count, before);
        Admission::Displaced { hash: displaced, held }
    }

    /// The bounds of a key's count: for a key that is absent, 0 and the least count.
    ///
    /// # Accuracy
    /// `lower <= true count <= upper`, always; `upper - lower <= total_weight / capacity`. The estimate of
    /// an absent key is 0, else it is `upper`.
    ///
    /// # Cost
    /// O(capacity) for an absent key: for many, take [`present`](Self::present) and, once,
    /// [`absent_upper_bound`](Self::absent_upper_bound).
    pub fn estimate(&self, hash: KeyHash) -> CountBounds {
        let absent = || CountBounds { lower: 0, estimate: 0, upper: self.absent_upper_bound() };
        self.present(hash).unwrap_or_else(absent)
    }

    /// The bounds of a key's count; `None` for a key that is absent. O(1).
    pub fn present(&self, hash: KeyHash) -> Option<CountBounds> {
        self.index.find(hash, &self.hashes).ok().map(|slot| self.bounds(slot))
    }

    /// What the true count of a key cannot be below.
    pub fn lower_bound(&self, hash: KeyHash) -> u64 {
        self.estimate(hash).lower
    }

    /// What the true count of a key cannot be above.
    pub fn upper_bound(&self, hash: KeyHash) -> u64 {
        self.estimate(hash).upper
    }

    /// What the true count of every absent key cannot be above: the least count or, after a merge, more; 0 while a slot is
    /// free. `u64::MAX` says that no bound is known.
    ///
    /// # Cost
    /// O(capacity).
    pub fn absent_upper_bound(&self) -> u64 {
        let least = if self.counts.len() < self.capacity { 0 } else { self.least() };
        least.max(self.missed)
    }

    fn least(&self) -> u64 {
        self.counts.iter().copied().min().unwrap_or(0)
    }

    /// The `k` keys of the highest counts (upper bounds), highest first; equal ones in the order of their bytes.
    pub fn top(&self, k: usize) -> Vec<HeavyKey<'_>> {
        let mut slots: Vec<usize> = (0..self.counts.len()).collect();
        slots.sort_unstable_by(|&a, &b| {
            let name = |slot: usize| (self.heavy_key(slot).key, self.hashes[slot]);
            self.counts[b].cmp(&self.counts[a]).then_with(|| name(a).cmp(&name(b)))
        });
        slots.truncate(k);
        slots.into_iter().map(|slot| self.heavy_key(slot)).collect()
    }

    /// The weight of all updates; with [`admit`](Self::admit), that of the keys while they were present and what they were
    /// estimated at before.
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// What the keys that are present have weighed since each got its slot, together.
    pub(super) fn held_weight(&self) -> u128 {
        self.counts.iter().zip(&self.errors).map(|(count, error)| u128::from(count - error)).sum()
    }

    /// How many keys are present.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether no key is present.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many keys can be present.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes of a key are kept.
    pub fn key_bytes_max(&self) -> usize {
        self.keys.bytes_max()
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds: [`memory_bytes_for`](Self::memory_bytes_for) its shape.
    pub fn memory_bytes(&self) -> usize {
        let words = (self.counts.capacity() + self.errors.capacity()) * size_of::<u64>();
        let keys = self.keys.memory_bytes();
        let hashes = self.hashes.capacity() * size_of::<KeyHash>();
        size_of::<Self>() + words + keys + hashes + self.index.memory_bytes() + self.front.memory_bytes()
    }

    /// Takes in the stream of another sketch.
    ///
    /// # Accuracy
    /// All bounds hold for both streams together, `n` being their total weight. A key of one side alone may
    /// have had up to the other's least count there: that is added to its count and error. Over that floor
    /// the counts of both sum to at most `n - capacity * floor`, so the `capacity`-th highest, which
    /// bounds what is dropped, is at most `n / capacity` (Agarwal et al., section 2).
    ///
    /// # Errors
    /// [`Error::Incompatible`] where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.require_equal_shape(other)?;
        let (floor_here, floor_there) = (self.absent_upper_bound(), other.absent_upper_bound());
        let mut union: Vec<Claim<'_>> = Vec::with_capacity(self.len() + other.len());
        for slot in 0..self.len() {
            let key = self.heavy_key(slot);
            let there = other.index.find(key.hash, &other.hashes);
            let (count, error) = there
                .map_or_else(|_| (floor_there, floor_there), |slot| (other.counts[slot], other.errors[slot]));
            let count = self.counts[slot].saturating_add(count);
            union.push(Claim { key, count, error: self.errors[slot].saturating_add(error) });
        }
        for slot in 0..other.len() {
            let key = other.heavy_key(slot);
            if self.index.find(key.hash, &self.hashes).is_err() {
                let count = other.counts[slot].saturating_add(floor_here);
                union.push(Claim { key, count, error: other.errors[slot].saturating_add(floor_here) });
            }
        }
        union.sort_unstable_by_key(|claim| (std::cmp::Reverse(claim.count), claim.key.hash));
        union.truncate(self.capacity);
        let total_weight = self.total_weight.saturating_add(other.total_weight);
        *self = self.with_claims(&union, total_weight, floor_here.saturating_add(floor_there))?;
        Ok(())
    }

    /// As [`merge`](Self::merge), for sketches whose keys were [`admitted`](Self::admit): `outside` is what the caller has
    /// counted of a key in both streams, at most; what a key had weighed that loses its slot is given to `displaced`, where
    /// `u64::MAX` says that it is not known.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub(crate) fn merge_admitted(
        &mut self,
        other: &Self,
        outside: impl Fn(KeyHash) -> u64,
        mut displaced: impl FnMut(KeyHash, u64),
    ) -> Result<()> {
        self.require_equal_shape(other)?;
        let (floor_here, floor_there) = (self.absent_upper_bound(), other.absent_upper_bound());
        let parts_of = |sketch: &Self, hash: KeyHash| {
            let slot = sketch.index.find(hash, &sketch.hashes).ok()?;
            Some((sketch.counts[slot], sketch.errors[slot]))
        };
        let claim = |key: HeavyKey<'_>| {
            let (here, there) = (parts_of(self, key.hash), parts_of(other, key.hash));
            let both = [(here, floor_here), (there, floor_there)];
            let parts = both.map(|(slot, floor)| slot.unwrap_or((floor, floor)));
            let held = parts.iter().fold(0u64, |held, (count, error)| held.saturating_add(count - error));
            let error = parts.iter().fold(0u64, |sum, (_, error)| sum.saturating_add(*error));
            // A full slot has lost some of what it held.
            let is_full = [here, there].into_iter().flatten().any(|(count, _)| count == u64::MAX);
            let count = if is_full { u64::MAX } else { held.saturating_add(error.min(outside(key.hash))) };
            (held, count)
        };
        let ours = (0..self.len()).map(|slot| self.heavy_key(slot));
        let theirs = (0..other.len()).map(|slot| other.heavy_key(slot));
        let theirs = theirs.filter(|key| self.index.find(key.hash, &self.hashes).is_err());
        let mut union: Vec<Claim<'_>> = ours
            .chain(theirs)
            .map(|key| {
                let (held, count) = claim(key);
                Claim { key, count, error: count - held }
            })
            .collect();
        union.sort_unstable_by_key(|claim| (std::cmp::Reverse(claim.count), claim.key.hash));
        let (kept, rest) = union.split_at(union.len().min(self.capacity));
        for claim in rest {
            let held = if claim.count == u64::MAX { u64::MAX } else { claim.count - claim.error };
            displaced(claim.key.hash, held);
        }
        let sum = kept.iter().fold(0u64, |sum, claim| sum.saturating_add(claim.count));
        let total_weight = self.total_weight.saturating_add(other.total_weight).max(sum);
        *self = self.with_claims(kept, total_weight, floor_here.saturating_add(floor_there))?;
        Ok(())
    }

    fn require_equal_shape(&self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the capacity", self.capacity, other.capacity)?;
        require_equal("the number of bytes kept of a key", self.key_bytes_max(), other.key_bytes_max())
    }

    /// A sketch of this shape of keys that were [`admitted`](Self::admit): of each, what it has weighed since, and what it was estimated
    /// at before. One that is absent has weighed at most the least count or `missed`.
    pub(super) fn of_admitted(&self, keys: &[(HeavyKey<'_>, u64, u64)], missed: u64) -> Result<Self> {
        let claims =
            keys.iter().map(|&(key, held, error)| Claim { key, count: held.saturating_add(error), error });
        let claims: Vec<Claim<'_>> = claims.collect();
        let total_weight = claims.iter().fold(0, |sum: u64, claim| sum.saturating_add(claim.count));
        self.with_claims(&claims, total_weight, missed)
    }

    /// What an absent key may have weighed where the least count is less, or a slot free.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// A sketch of this shape with these keys; one that is absent has weighed at most the least count or `missed`.
    fn with_claims(&self, claims: &[Claim<'_>], total_weight: u64, missed: u64) -> Result<Self> {
        let mut sketch = Self::new(self.capacity, self.key_bytes_max(), self.hash_id)?;
        sketch.total_weight = total_weight;
        for Claim { key, count, error } in claims {
            if let Err(place) = sketch.index.find(key.hash, &sketch.hashes) {
                sketch.fill(place, key.hash, key.key, *count, *error);
                sketch.keys.keep_kept(sketch.len() - 1, key.key, key.truncated);
            }
        }
        if sketch.len() < sketch.capacity || missed > sketch.least() {
            sketch.missed = missed;
        }
        Ok(sketch)
    }

    /// The sketch as bytes: header, capacity u32, key_bytes_max u32, slots in use u32, zero u32, total weight
    /// u64, missed u64; then `capacity` slots: hash u128, count u64, error u64, key length u16 (bit 15: truncated), key bytes
    /// padded with zeros. Slots are in their own order, so that a sketch read back goes on as this one would.
    pub fn to_bytes(&self) -> Vec<u8> {
        stream::collect(self.encoded_bytes(), |sink| self.write_to(sink))
    }

    /// How many bytes [`to_bytes`](Self::to_bytes) has.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + SLOTS_AT + self.capacity * (SLOT_BYTES + self.key_bytes_max())
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) piece by piece, without a second copy of the sketch.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write_to(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let put = |piece: usize, encoder: &mut Encoder| match piece.checked_sub(1) {
            None => {
                for value in [self.capacity, self.key_bytes_max(), self.len(), 0] {
                    encoder.u32(value as u32);
                }
                encoder.u64(self.total_weight);
                encoder.u64(self.missed);
            }
            Some(slot) if slot < self.len() => {
                encoder.u128(self.hashes[slot].0);
                encoder.u64(self.counts[slot]);
                encoder.u64(self.errors[slot]);
                self.keys.put(slot, encoder);
            }
            Some(_) => encoder.zeros(SLOT_BYTES + self.key_bytes_max()),
        };
        stream::write(format::SPACE_SAVING, Some(self.hash_id), 1 + self.capacity, &put, sink)
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Decoder::open(bytes, format::SPACE_SAVING)?;
        Self::read_from(bytes.len(), &mut stream::source_of(bytes))
    }

    /// The sketch back from `total_bytes` bytes that `source` gives in order, without a second copy of it.
    ///
    /// # Errors
    /// Those of `source`, and those of [`from_bytes`](Self::from_bytes). Memory is allocated only after the shape was
    /// found to fit `total_bytes`. The checksum is compared last, so damaged bytes may be another error than a wrong one.
    pub fn read_from(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self> {
        let mut reader = Reader::open(total_bytes, source, format::SPACE_SAVING)?;
        let slots_bytes = reader.left().saturating_sub(SLOTS_AT);
        let mut shape = reader.piece(SLOTS_AT)?;
        let hash_id = shape.hash_id()?;
        let (capacity, key_bytes_max) = (shape.u32()? as usize, shape.u32()? as usize);
        let used = shape.u32()? as usize;
        shape.zeros(4)?;
        let (total_weight, missed) = (shape.u64()?, shape.u64()?);
        let valid =
            capacity > 0 && capacity <= CAPACITY_MAX && key_bytes_max <= KEY_BYTES_MAX && used <= capacity;
        let slot_bytes = SLOT_BYTES + key_bytes_max;
        if !valid || slot_bytes.checked_mul(capacity) != Some(slots_bytes) {
            let found = format!("{used} of {capacity} slots with keys of up to {key_bytes_max} bytes");
            return Err(shape.corrupt("the shape", format!("one of {slots_bytes} bytes of slots"), found));
        }
        let mut sketch = Self::new(capacity, key_bytes_max, hash_id)?;
        (sketch.total_weight, sketch.missed) = (total_weight, missed);
        let mut sum = 0u128;
        for _ in 0..used {
            sum += u128::from(sketch.read_slot(reader.piece(slot_bytes)?)?);
        }
        if total_weight != u64::MAX && sum > u128::from(total_weight) {
            let at = HEADER_BYTES + SLOTS_AT;
            return Err(corrupt(at, "the sum of the counts", format!("at most {total_weight}"), sum));
        }
        reader.finish()?;
        Ok(sketch)
    }

    /// Fills the next slot from its bytes; returns its count.
    fn read_slot(&mut self, mut bytes: Decoder<'_>) -> Result<u64> {
        let hash = KeyHash(bytes.u128()?);
        let (count, error) = (bytes.u64()?, bytes.u64()?);
        if error > count {
            return Err(bytes.corrupt("a slot's error", format!("at most its count {count}"), error));
        }
        let Err(place) = self.index.find(hash, &self.hashes) else {
            let found = format!("{hash:?}");
            return Err(bytes.corrupt("the hash of a slot", "in one slot only", found));
        };
        self.fill(place, hash, &[], count, error);
        self.keys.read(self.len() - 1, &mut bytes)?;
        Ok(count)
    }

    /// Takes a free slot for a key that is absent.
    fn fill(&mut self, place: Place, hash: KeyHash, key: &[u8], count: u64, error: u64) {
        let slot = self.counts.len();
        self.admissions += 1;
        self.index.insert(place, hash, slot);
        self.hashes.push(hash);
        self.counts.push(count);
        self.errors.push(error);
        self.keys.keep(slot, key);
    }

    /// Gives the slot of the least count to a key that is absent; returns whose it was, and what that key had weighed
    /// since it was admitted.
    fn replace_least(
        &mut self,
        place: Place,
        hash: KeyHash,
        key: &[u8],
        count: u64,
        error: u64,
    ) -> (KeyHash, u64) {
        let slot = self.front.settle(&self.counts);
        let displaced = (self.hashes[slot], self.counts[slot] - self.errors[slot]);
        self.admissions += 1;
        // In this order, so that the place still holds; should both have one entry, either may go.
        self.index.insert(place, hash, slot);
        self.index.remove(self.hashes[slot], slot);
        self.hashes[slot] = hash;
        self.errors[slot] = error;
        self.counts[slot] = count;
        self.keys.keep(slot, key);
        displaced
    }

    fn heavy_key(&self, slot: usize) -> HeavyKey<'_> {
        let (key, truncated) = self.keys.get(slot);
        HeavyKey { hash: self.hashes[slot], key, truncated, count: self.bounds(slot) }
    }

    fn bounds(&self, slot: usize) -> CountBounds {
        let count = self.counts[slot];
        CountBounds { lower: count - self.errors[slot], estimate: count, upper: count }
    }
}

/// Where the slots begin in the payload.
const SLOTS_AT: usize = 4 * size_of::<u32>() + 2 * size_of::<u64>();
/// A slot without its key.
const SLOT_BYTES: usize = size_of::<u128>() + 2 * size_of::<u64>() + size_of::<u16>();
const _: () = assert!(SLOTS_AT == 32 && SLOT_BYTES == 34);

#[cfg(test)]
mod tests;
