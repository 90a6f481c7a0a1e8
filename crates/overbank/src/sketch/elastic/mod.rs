//! Elastic sketch: heavy keys exactly, light ones in a count-min sketch; from both the distribution of weights, its entropy, and how many
//! keys there were.
//!
//! ```text
//!   heavy part   high() ─▶ a bucket of seven slots: hash, votes, flag │ votes against │ first bytes of the keys
//!   light part   a count-min sketch of one page
//!
//!   present:         its votes += weight
//!   a slot is free:  the key gets it
//!   else:            votes against += weight; if they reach 8 times the least votes, that key's votes go to the light part and the
//!                    slot is the new key's, with its flag raised if it has weight in the light part; else the weight goes there
//! ```
//!
//! 1. Each update's weight is in one place: the votes and the light part's weights sum to the total weight.
//! 2. A key in a slot whose flag is down has no weight in the light part: its votes are its count, exactly. With the flag up, and for a
//!    key in no slot, the light part bounds what it holds of the key from both sides; no estimate is below the true count.
//! 3. A slot keeps its flag while it has its key; merges raise flags and never lower them. A flag is raised only where
//!    the light part that may have weight of the key estimates it above 0.
//! 4. The state is a function of the sequence of updates.
//! 5. The total weight stops at `u64::MAX`. Until then nothing is full; from then on no bound is known.
//!
//! | operation                     | CPU                    | memory touched                             |
//! |-------------------------------|------------------------|--------------------------------------------|
//! | `update`, present             | O(1)                   | 3 cache lines                              |
//! | `update`, else                | O(depth)               | these, and one cell a row, of two keys at most |
//! | `estimate`, `bounds`          | O(depth); O(columns)   | likewise; row 0 of the light part          |
//! | `merge`, `to_bytes`, `distribution` | O(slots + cells) | all                                        |
//! | the sketch                    | –                      | 192 bytes and 7 keys a bucket, 4 a cell    |
//!
//! Source: Yang, Jiang, Liu, Huang, Gong, Zhou, Miao, Li, Uhlig, "Elastic sketch: adaptive and fast network-wide measurements"
//! (SIGCOMM 2018), sections 3 and 4.
//!
//! Deviations: cells of the light part are those of [`CountMin`], which count to 64 bits, where the paper's have 8 and stop. A
//! key that takes a slot does not raise its flag if the light part shows that it has no weight there.

mod bucket;
mod distribution;

pub(crate) use bucket::{Bucket, SLOTS, Vote};

use super::format::{self, Decoder, Encoder};
use super::hash_id::{HashId, require_equal};
use super::keys::{KEY_BYTES_MAX, KeyStore};
use super::space_saving::HeavyKey;
use super::{CountBounds, CountMin, HeavyChange};
use crate::error::invalid;
use crate::{KeyHash, Result};
use keyhash::range_of;
use std::collections::BTreeMap;

/// The shape's fields in the payload.
const SHAPE_BYTES: usize = 4 * size_of::<u32>() + 2 * size_of::<u64>();
/// A bucket's own fields, and a slot without its key.
const BUCKET_BYTES: usize = 2 * size_of::<u64>();
const SLOT_BYTES: usize = size_of::<u128>() + size_of::<u64>();
const _: () = assert!(SHAPE_BYTES == 32 && BUCKET_BYTES == 16 && SLOT_BYTES == 24);

/// Keeps heavy keys apart from light ones.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::Elastic};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut flows = Elastic::new(16, 1024, 1, 8, &hasher)?;
/// for flow in ["a", "b", "a", "c", "a"] {
///     flows.update(hasher.hash(flow.as_bytes()), flow.as_bytes(), 1);
/// }
/// let top = flows.top(1, 0.99);
/// assert_eq!((top[0].key, top[0].count.lower, top[0].count.upper), (&b"a"[..], 3, 3));
/// assert_eq!(flows.cardinality(), 3.0);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elastic {
    hash_id: HashId,
    total_weight: u64,
    pub(crate) buckets: Vec<Bucket>,
    /// Of each slot of each bucket.
    keys: KeyStore,
    pub(crate) light: CountMin<u32>,
}

impl Elastic {
    /// An empty sketch of `buckets` buckets of seven slots, with up to `key_bytes_max` bytes of each key, and a light part of `depth` rows
    /// (the paper has 1) of `columns` cells.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `buckets >= 1`, `columns >= 2`, `1 <= depth <= 16`,
    /// `key_bytes_max < 2^15`, and memory can hold it.
    pub fn new(
        buckets: u32,
        columns: u32,
        depth: u32,
        key_bytes_max: usize,
        hash_id: impl Into<HashId>,
    ) -> Result<Self> {
        let hash_id = hash_id.into();
        if columns < 2 {
            return invalid("columns", columns, "the light part needs at least two, which count in pairs");
        }
        let light = CountMin::with_shape(1, columns, depth, hash_id)?;
        let slots = KeyStore::places(SLOTS, buckets, size_of::<Bucket>(), key_bytes_max);
        let Some(slots) = slots.filter(|&slots| slots > 0) else {
            return invalid("buckets", buckets, "there must be at least one, and memory must hold them");
        };
        let keys = KeyStore::new(slots, key_bytes_max)?;
        let buckets = vec![Bucket::default(); buckets as usize];
        Ok(Self { hash_id, total_weight: 0, buckets, keys, light })
    }

    /// The sketch of what others counted: keys with the bytes that are kept of them, their votes, heaviest first, and whether each may
    /// have weight in the light part too. What has no slot goes to the light part. Nobody has voted against anybody yet.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), with a light part of one row.
    pub(crate) fn of_counts(
        buckets: u32,
        key_bytes_max: usize,
        light: CountMin<u32>,
        keys: impl Iterator<Item = (KeyHash, Vec<u8>, u64, bool)>,
    ) -> Result<Self> {
        let mut sketch = Self::new(buckets, light.layout().columns(), 1, key_bytes_max, light.hash_id())?;
        sketch.light = light;
        let mut total = sketch.light.total_weight();
        for (hash, key, votes, flag) in keys {
            total += u128::from(votes);
            let at = range_of(hash.high(), sketch.buckets.len() as u64) as usize;
            let bucket = &mut sketch.buckets[at];
            match bucket.free().filter(|_| votes > 0) {
                Some(slot) => {
                    bucket.set(slot, hash, votes, flag);
                    sketch.keys.keep(at * SLOTS + slot, &key);
                }
                None => sketch.light.update(hash, votes),
            }
        }
        sketch.total_weight = total.try_into().unwrap_or(u64::MAX);
        Ok(sketch)
    }

    /// Adds `weight` to the key of this hash, of whose bytes the first are kept.
    ///
    /// # Cost
    /// O(1) for a key that has a slot, else O(depth). Never allocates.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, key: &[u8], weight: u64) {
        self.total_weight = self.total_weight.saturating_add(weight);
        if weight == 0 {
            return;
        }
        let at = range_of(hash.high(), self.buckets.len() as u64) as usize;
        let vote = self.buckets[at].vote(hash, weight);
        if !matches!(vote, Vote::Own(_)) {
            self.update_absent(at, vote, hash, key, weight);
        }
    }

    /// How often a key occurred, never too low: its votes, and what the light part has of it; `u64::MAX` where no bound is known.
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        let bucket = self.bucket(hash);
        match bucket.find(hash) {
            Some(slot) if !bucket.flag(slot) => bucket.votes[slot],
            Some(slot) => bucket.votes[slot].saturating_add(self.light.estimate(hash)),
            None => self.light.estimate(hash),
        }
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`.
    ///
    /// # Accuracy
    /// `upper` is certain, and `u64::MAX` where none is known. `lower` is certain for a key in a slot whose flag is down, and then both are
    /// the true count; else it has the light part's share from [`CountMin::bounds`].
    ///
    /// # Cost
    /// One pass over a row of the light part, unless the key has a slot and its flag is down.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        let bucket = self.bucket(hash);
        let slot = bucket.find(hash);
        let votes = slot.map_or(0, |slot| bucket.votes[slot]);
        if self.saturated() {
            let estimate = self.estimate(hash);
            return CountBounds { lower: votes.min(estimate), estimate, upper: u64::MAX };
        }
        let light = match slot {
            Some(slot) if !bucket.flag(slot) => CountBounds::default(),
            _ => self.light.bounds(hash, confidence),
        };
        CountBounds {
            lower: votes.saturating_add(light.lower),
            estimate: votes.saturating_add(light.estimate),
            upper: votes.saturating_add(light.upper),
        }
    }

    /// The `k` keys with a slot of the highest estimates, highest first, with [`bounds`](Self::bounds); equal ones in the order of their
    /// bytes.
    pub fn top(&self, k: usize, confidence: f64) -> Vec<HeavyKey<'_>> {
        let key_of = |place: usize| (self.keys.get(place).0, self.hash_at(place));
        let mut top: Vec<(u64, usize)> =
            self.in_use().map(|place| (self.estimate(self.hash_at(place)), place)).collect();
        top.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| key_of(a.1).cmp(&key_of(b.1))));
        top.truncate(k);
        let heavy = |(_, place): (u64, usize)| {
            let (hash, (key, truncated)) = (self.hash_at(place), self.keys.get(place));
            HeavyKey { hash, key, truncated, count: self.bounds(hash, confidence) }
        };
        top.into_iter().map(heavy).collect()
    }

    /// The keys with a slot here or in `earlier` whose estimates differ by `least` or more, the greatest change first; equal ones in the
    /// order of their hashes.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ.
    pub fn changes<'a>(&'a self, earlier: &'a Self, least: u64) -> Result<Vec<HeavyChange<'a>>> {
        self.require_equal_shape(earlier)?;
        let mut changes = Vec::new();
        for sketch in [self, earlier] {
            for place in sketch.in_use() {
                let (hash, (key, truncated)) = (sketch.hash_at(place), sketch.keys.get(place));
                let (before, after) = (signed(earlier.estimate(hash)), signed(self.estimate(hash)));
                changes.push(HeavyChange { hash, key, truncated, before, after });
            }
        }
        Ok(super::heavy_changes(changes, least))
    }

    /// How many distinct keys there were: those with a slot, and those in the light part by the share of its cells that are zero.
    ///
    /// # Accuracy
    /// Of the light part the error is that of linear counting, `sqrt((e^t - t - 1) / columns) / t` at `t` keys a cell; when no cell
    /// of it is zero, the number is too low. A key with a slot whose flag is up is taken to be in the light part too; where only others are
    /// in its cells, it is missed.
    pub fn cardinality(&self) -> f64 {
        let apart = self.in_use().filter(|&place| !self.buckets[place / SLOTS].flag(place % SLOTS)).count();
        let row = self.light.row_counts(0);
        let (cells, zeros) = (row.len() as f64, row.iter().filter(|&&count| count == 0).count());
        apart as f64 + cells * (cells / zeros.max(1) as f64).ln()
    }

    /// How many keys there were of each weight: those with a slot by their votes, the others as the light part's first row is best
    /// explained (see the source of the `distribution` module: Kumar et al., 2004).
    ///
    /// # Accuracy
    /// Within some percent while there are at most half as many light keys as columns, and a tenth too few keys at 0.7 of them; a key with
    /// its flag up is also in the light part, as another key.
    ///
    /// # Cost
    /// O(columns), and 30 rounds over the distinct values of up to 1024 that counters have: a millisecond of a skewed stream in 65,536
    /// columns; where counters have every such value, 16 million steps, some 40 ms.
    pub fn distribution(&self) -> BTreeMap<u64, f64> {
        let mut keys = distribution::of_counters(&self.light.row_counts(0));
        for place in self.in_use() {
            *keys.entry(self.buckets[place / SLOTS].votes[place % SLOTS]).or_default() += 1.0;
        }
        keys
    }

    /// The entropy of the keys' shares of the weight in bits: the sum of `-f/n log2(f/n)` over keys that weigh `f` of `n`, by
    /// [`distribution`](Self::distribution).
    pub fn entropy(&self) -> f64 {
        let keys = self.distribution();
        let total: f64 = keys.iter().map(|(&weight, &count)| weight as f64 * count).sum();
        let term = |(&weight, &count): (&u64, &f64)| {
            let share = weight as f64 / total;
            -count * share * share.log2()
        };
        keys.iter().map(term).sum::<f64>().max(0.0)
    }

    /// The weight of all updates; stops at `u64::MAX`.
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// Whether the total weight is full, so that no bound is known.
    pub fn saturated(&self) -> bool {
        self.total_weight == u64::MAX
    }

    /// Takes in the stream of another sketch: of both buckets in one place the seven keys of the most votes stay, the others' votes go to
    /// the light part; light parts and votes against add up. The flag of a key that only one side had goes up only if it may have come to
    /// the other: that had no free slot in the bucket, and its light part estimates the key above 0.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.require_equal_shape(other)?;
        self.total_weight = self.total_weight.saturating_add(other.total_weight);
        let mut keys = KeyStore::new(self.buckets.len() * SLOTS, self.keys.bytes_max())?;
        // They go to the light part at the end: until then it says what each key has there.
        let mut evicted: Vec<(KeyHash, u64)> = Vec::new();
        for (at, there) in other.buckets.iter().enumerate() {
            let here = self.buckets[at];
            let mut claims: Vec<Claim<'_>> = Vec::with_capacity(2 * SLOTS);
            let sides = [(&here, &self.keys, there, &other.light), (there, &other.keys, &here, &self.light)];
            for (own, own_keys, foreign, foreign_light) in sides {
                for slot in (0..SLOTS).filter(|&slot| own.votes[slot] > 0) {
                    let hash = own.hash(slot);
                    if let Some(claim) = claims.iter_mut().find(|claim| claim.hash == hash) {
                        claim.votes = claim.votes.saturating_add(own.votes[slot]);
                        claim.flag |= own.flag(slot);
                        continue;
                    }
                    let may_be_there = foreign.find(hash).is_none() && foreign.free().is_none();
                    let flag = own.flag(slot) || may_be_there && foreign_light.estimate(hash) > 0;
                    let key = own_keys.get(at * SLOTS + slot);
                    claims.push(Claim { hash, votes: own.votes[slot], flag, key });
                }
            }
            claims.sort_unstable_by_key(|claim| (std::cmp::Reverse(claim.votes), claim.hash));
            let mut bucket = Bucket::with_against(here.against.saturating_add(there.against));
            for (slot, claim) in claims.into_iter().enumerate() {
                if slot < SLOTS {
                    bucket.set(slot, claim.hash, claim.votes, claim.flag);
                    keys.keep_kept(at * SLOTS + slot, claim.key.0, claim.key.1);
                } else {
                    evicted.push((claim.hash, claim.votes));
                }
            }
            self.buckets[at] = bucket;
        }
        self.keys = keys;
        self.light.merge(&other.light)?;
        evicted.into_iter().for_each(|(hash, votes)| self.light.update(hash, votes));
        Ok(())
    }

    /// The sketch as bytes: header, buckets u32, key_bytes_max u32, 8 zeros, total weight u64, bytes of the light part u64; the light
    /// part as [`CountMin::to_bytes`] has it; then buckets: flags u64, votes against u64, and of each slot hash u128, votes u64, key
    /// length u16 (bit 15: truncated), key bytes padded with zeros. Free slots are zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let light = self.light.to_bytes();
        let slot_bytes = SLOT_BYTES + KeyStore::encoded_bytes(self.keys.bytes_max());
        let bucket_bytes = BUCKET_BYTES + SLOTS * slot_bytes;
        let payload_bytes = SHAPE_BYTES + light.len() + self.buckets.len() * bucket_bytes;
        let mut encoder = Encoder::new(format::ELASTIC, Some(self.hash_id), payload_bytes);
        encoder.u32(self.buckets.len() as u32);
        encoder.u32(self.keys.bytes_max() as u32);
        encoder.zeros(8);
        encoder.u64(self.total_weight);
        encoder.u64(light.len() as u64);
        encoder.raw(&light);
        for (at, bucket) in self.buckets.iter().enumerate() {
            encoder.u64(bucket.flags);
            encoder.u64(bucket.against);
            for slot in 0..SLOTS {
                encoder.u128(bucket.hash(slot).0);
                encoder.u64(bucket.votes[slot]);
                self.keys.put(at * SLOTS + slot, &mut encoder);
            }
        }
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::ELASTIC)?;
        let hash_id = decoder.hash_id()?;
        let (buckets, key_bytes_max) = (decoder.u32()?, decoder.u32()? as usize);
        decoder.zeros(8)?;
        let (total_weight, light_bytes) = (decoder.u64()?, decoder.u64()?);
        let light_bytes = decoder.counted("the bytes of the light part", light_bytes, 1)?;
        let light = CountMin::<u32>::from_bytes(decoder.take(light_bytes)?)?;
        light.hash_id().require(hash_id)?;
        let (pages, columns, depth) =
            (light.layout().pages(), light.layout().columns(), light.layout().depth());
        if pages != 1 || columns < 2 {
            let found = format!("{pages} of {columns}");
            return Err(decoder.corrupt("the light part's pages and columns", "1 of at least 2", found));
        }
        let slot_bytes = SLOT_BYTES.saturating_add(KeyStore::encoded_bytes(key_bytes_max));
        let bucket_bytes = slot_bytes.saturating_mul(SLOTS).saturating_add(BUCKET_BYTES);
        let whole =
            decoder.counted("the number of buckets", buckets, bucket_bytes)?.saturating_mul(bucket_bytes);
        if buckets == 0 || key_bytes_max > KEY_BYTES_MAX || whole != decoder.left() {
            let expected = format!("one of {} bytes of buckets", decoder.left());
            let found = format!("{buckets} buckets with keys of up to {key_bytes_max} bytes");
            return Err(decoder.corrupt("the shape", expected, found));
        }
        let mut sketch = Self::new(buckets, columns, depth, key_bytes_max, hash_id)?;
        (sketch.total_weight, sketch.light) = (total_weight, light);
        let mut sum = sketch.light.total_weight();
        for at in 0..buckets as usize {
            sum += sketch.read_bucket(at, &mut decoder)?;
        }
        if total_weight != u64::MAX && sum != u128::from(total_weight) {
            return Err(decoder.corrupt("the sum of votes and light weights", total_weight, sum));
        }
        Ok(sketch)
    }

    /// Reads a bucket; returns the sum of its votes.
    fn read_bucket(&mut self, at: usize, decoder: &mut Decoder<'_>) -> Result<u128> {
        let (flags, against) = (decoder.u64()?, decoder.u64()?);
        let mut bucket = Bucket::with_against(against);
        let mut sum = 0;
        for slot in 0..SLOTS {
            let (hash, votes) = (KeyHash(decoder.u128()?), decoder.u64()?);
            self.keys.read(at * SLOTS + slot, decoder)?;
            let is_zero = hash == KeyHash(0) && self.keys.get(at * SLOTS + slot) == (&[], false);
            let own = range_of(hash.high(), self.buckets.len() as u64) as usize == at;
            let follows = slot == 0 || bucket.votes[slot - 1] > 0;
            let is_valid = match votes {
                0 => is_zero && flags >> slot & 1 == 0,
                _ => own && follows && bucket.find(hash).is_none(),
            };
            if !is_valid {
                let found = format!("{votes} votes of {hash:?} in slot {slot} of bucket {at}");
                return Err(decoder.corrupt("a slot", "zero, or a key in one slot of its bucket", found));
            }
            bucket.set(slot, hash, votes, flags >> slot & 1 == 1);
            sum += u128::from(votes);
        }
        if flags >> SLOTS != 0 {
            return Err(decoder.corrupt("the flags", "seven bits", flags));
        }
        self.buckets[at] = bucket;
        Ok(sum)
    }

    /// Buckets of the heavy part, of seven slots each.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The light part.
    pub fn light(&self) -> &CountMin<u32> {
        &self.light
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
        let buckets = self.buckets.capacity() * size_of::<Bucket>();
        size_of::<Self>() + buckets + self.keys.memory_bytes() + self.light.memory_bytes()
    }

    /// Counts a key that had no slot when it voted.
    fn update_absent(&mut self, at: usize, vote: Vote, hash: KeyHash, key: &[u8], weight: u64) {
        let bucket = &mut self.buckets[at];
        let slot = match vote {
            Vote::Own(_) => return,
            Vote::Against => return self.light.update(hash, weight),
            Vote::Free(slot) => {
                bucket.set(slot, hash, weight, false);
                slot
            }
            Vote::Wins(slot) => {
                // What the new key has in the light part is known before the old one's votes come on top.
                let flag = self.light.estimate(hash) > 0;
                self.light.update(bucket.hash(slot), bucket.votes[slot]);
                bucket.replace(slot, hash, weight, flag);
                slot
            }
        };
        self.keys.keep(at * SLOTS + slot, key);
    }

    fn bucket(&self, hash: KeyHash) -> &Bucket {
        &self.buckets[range_of(hash.high(), self.buckets.len() as u64) as usize]
    }

    /// The slots in use, counted through all buckets.
    fn in_use(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.buckets.len() * SLOTS).filter(|place| self.buckets[place / SLOTS].votes[place % SLOTS] > 0)
    }

    fn hash_at(&self, place: usize) -> KeyHash {
        self.buckets[place / SLOTS].hash(place % SLOTS)
    }

    fn require_equal_shape(&self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of buckets", self.buckets.len(), other.buckets.len())?;
        require_equal("the number of bytes kept of a key", self.keys.bytes_max(), other.keys.bytes_max())?;
        let (here, there) = (self.light.layout(), other.light.layout());
        require_equal("the light part's columns", here.columns(), there.columns())?;
        require_equal("the light part's depth", here.depth(), there.depth())
    }
}

/// A key that a merged bucket may keep.
struct Claim<'a> {
    hash: KeyHash,
    votes: u64,
    flag: bool,
    key: (&'a [u8], bool),
}

/// A count as one that may be negative.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
