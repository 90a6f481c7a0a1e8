//! The quotient filter in RAM: fingerprints of keys in hash order, at `r + 2.125` bits a slot.
//!
//! ```text
//!   KeyHash.high()   │ quotient q │ remainder r │ …               fingerprint = the top p = q + r bits
//!
//!   slots 0 … 2^q    a fingerprint's remainder lies in slot `quotient`, or as near behind it as order allows:
//!                    │ 0:a 0:b │ 0:c 2:d │ free │ 5:e │ …        0, 2, 5: quotients    a … e: remainders
//!                      └── run of 0 ──┘ └ run of 2, shifted      one cluster, then a free slot
//! ```
//!
//! 1. *No* is certain: a key that was inserted, and not removed, is found.
//! 2. The filter is a multiset of fingerprints, and its blocks depend on that multiset alone ([`blocks`]): whatever the order
//!    and the batches, equal multisets are equal filters with equal bytes.
//! 3. Runs do not wrap: past the last quotient follow spill blocks, which exist only while runs reach them.
//! 4. An insert that does not fit, at 95 % load or at the rate's bound, changes nothing and says what would help.
//!
//! | cost of                      | CPU                                        | memory                              |
//! |------------------------------|--------------------------------------------|-------------------------------------|
//! | `contains`, `count`          | two lines of one block, a byte of offsets  | –                                   |
//! | `insert`, `remove`           | the same, and shifting O(1 / (1 - load)^2) | –                                   |
//! | `insert_many`, `merge`       | a sort, and one pass over what changes     | 16 B a key of the batch             |
//! | `double`, `halve`, a growth  | one pass                                   | a second filter, until it is done   |
//! | the filter                   | –                                          | `(r + 2.125) / load` bits a key     |
//!
//! Source: Bender, Farach-Colton, Johnson, Kuszmaul, Medjedovic, Montes, Shetty, Spillane, Zadok, "Don't Thrash: How to Cache
//! Your Hash on Flash" (HotStorage 2011), section 2.
//!
//! Deviations. *Rank and select in the place of the three bits a slot*: `is_shifted` and `is_continuation` are decoded from a
//! cluster's start, slot by slot, and clusters grow with the load; two words and an offset find any run by one rank and one
//! select, and cost 2.125 bits a slot in the place of 3, at a load of 95 % in the place of 75 %; the table is the
//! measurement. *No wrapping*: a scan, a merge and a sweep begin at the first block and never look back. *No doubling by 2
//! alone*: a growing filter begins with long remainders, and each doubling makes a remainder bit a quotient bit, so its
//! fingerprints, and with them its rate, never change ([`QuotientFilter::growing`]).
//!
//! Three bits a slot : rank and select, in ns a key, 2^24 slots, r = 12 (`bench filter`). Half full, three bits are the faster,
//! and take 30 bits a key; we fill to 95 %, and in bulk insert a key in 35 to 44 ns at any load.
//!
//! | load                    | 0.5      | 0.75      | 0.9       |
//! |-------------------------|----------|-----------|-----------|
//! | one insert              | 56 : 131 | 115 : 156 | 173 : 162 |
//! | a look-up that finds    | 54 : 92  | 148 : 96  | 735 : 96  |
//! | one that does not       | 44 : 49  | 93 : 58   | 482 : 78  |

mod blocks;
mod format;
mod grow;
mod insert;
#[cfg(test)]
mod model;
mod query;
mod shape;
mod sweep;
#[cfg(test)]
mod tests;

pub use sweep::Fingerprints;

use crate::batch::Sorter;
use crate::sketch::HashId;
use crate::{Error, KeyHash, Result};
use blocks::{BLOCK_SLOTS, Blocks};
use query::WAVE;
use shape::Shape;
use sweep::Sweep;

/// A batch with at least one key for so many slots is merged in one pass; a smaller one goes in key by key, in hash order.
/// Measured while 3.8 M keys filled 2^22 slots: swept by quarters 42 ns a key, key by key by eighths and less 45 ns.
const SLOTS_A_SWEPT_KEY: usize = 4;

/// Has a key been seen? *No* is certain; *yes* is wrong at [`QuotientFilter::false_positive_rate`].
///
/// A multiset: a key inserted twice must be removed twice.
///
/// **Remove only what was inserted.** Another key may have the same fingerprint, and removing a key that was never inserted
/// takes that one's away: then it is reported absent although it is there. The probability is the false-positive rate.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, filter::QuotientFilter};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut seen = QuotientFilter::with_capacity(1000, 0.01, &hasher)?;
/// seen.insert(hasher.hash(b"swan"))?;
/// assert!(seen.contains(hasher.hash(b"swan")));
/// assert!(!seen.contains(hasher.hash(b"goose")));
/// let batch = [b"swan", b"duck", b"duck"].map(|key| hasher.hash(key));
/// assert_eq!(seen.insert_if_absent(&batch)?, [false, true, false]);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotientFilter {
    shape: Shape,
    hash_id: HashId,
    len: u64,
    /// The fingerprints with which the rate that was asked for is reached.
    keys_max: u64,
    grows: bool,
    blocks: Blocks,
}

impl QuotientFilter {
    /// An empty filter of `2^lg_quotients` slots with remainders of `remainder_bits`, for keys hashed under `hash_id`.
    ///
    /// # Accuracy
    /// At a load of `alpha` the false-positive rate is `1 - exp(-alpha / 2^remainder_bits)`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `6 <= lg_quotients <= 40`, `1 <= remainder_bits <= 57` and both make at most 64.
    pub fn new(lg_quotients: u32, remainder_bits: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        let shape = Shape::new(lg_quotients, remainder_bits)?;
        Ok(Self::of_shape(shape, hash_id.into(), u64::MAX, false))
    }

    /// An empty filter for at least `keys` keys, whose false-positive rate never exceeds `false_positive_rate`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the rate is above 0, at most 0.25, and within the reach of 64 bits.
    pub fn with_capacity(keys: u64, false_positive_rate: f64, hash_id: impl Into<HashId>) -> Result<Self> {
        let bits = shape::fingerprint_bits_for(keys, false_positive_rate)?;
        let shape = Shape::for_keys(keys, bits)?;
        let keys_max = shape::keys_max(shape.fingerprint_bits(), false_positive_rate).max(keys);
        Ok(Self::of_shape(shape, hash_id.into(), keys_max, false))
    }

    /// How many fingerprints it holds, repeats counted.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many fingerprints it takes at most: 95 % of its slots, or what its false-positive rate allows.
    pub fn capacity(&self) -> u64 {
        if self.grows { self.keys_max } else { self.shape.capacity().min(self.keys_max) }
    }

    /// The share of its slots that are taken, 0 to 0.95.
    pub fn fullness(&self) -> f64 {
        self.len as f64 / self.shape.slots() as f64
    }

    /// The present probability that a key which was never inserted is found: `1 - exp(-alpha / 2^r)`.
    ///
    /// # Accuracy
    /// Exact on average over hash functions where no fingerprint repeats; repeats lower it.
    pub fn false_positive_rate(&self) -> f64 {
        shape::rate(self.len, self.shape.fingerprint_bits())
    }

    /// log₂ of the number of quotients.
    pub fn lg_quotients(&self) -> u32 {
        self.shape.lg_quotients
    }

    /// How many bits of a fingerprint a slot holds.
    pub fn remainder_bits(&self) -> u32 {
        self.shape.remainder_bits
    }

    /// The hash that this filter's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the filter holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.blocks.memory_bytes()
    }

    /// Whether the key may have been inserted; certain where not.
    #[inline]
    pub fn contains(&self, hash: KeyHash) -> bool {
        let (quotient, remainder) = self.shape.split(self.shape.fingerprint(hash));
        self.blocks.contains(quotient, remainder)
    }

    /// [`QuotientFilter::contains`] for each key.
    ///
    /// # Cost
    /// The lines of 32 keys are on their way at once.
    pub fn contains_many(&self, hashes: &[KeyHash]) -> Vec<bool> {
        let mut found = Vec::with_capacity(hashes.len());
        for wave in hashes.chunks(WAVE) {
            let split = |&hash: &KeyHash| self.shape.split(self.shape.fingerprint(hash));
            wave.iter().for_each(|hash| self.blocks.prefetch(split(hash).0));
            found.extend(
                wave.iter().map(split).map(|(quotient, remainder)| self.blocks.contains(quotient, remainder)),
            );
        }
        found
    }

    /// How often the key's fingerprint was inserted: never less than the key itself was, and more at the false-positive rate.
    pub fn count(&self, hash: KeyHash) -> u64 {
        let (quotient, remainder) = self.shape.split(self.shape.fingerprint(hash));
        self.blocks.count(quotient, remainder)
    }

    /// Takes one key in, once more if it was there.
    ///
    /// # Errors
    /// [`Error::CapacityExceeded`]; then nothing changed.
    pub fn insert(&mut self, hash: KeyHash) -> Result<()> {
        self.make_room(1)?;
        let (quotient, remainder) = self.shape.split(self.shape.fingerprint(hash));
        self.blocks.insert(quotient, remainder);
        self.len += 1;
        Ok(())
    }

    /// Takes a batch in: all of it, or nothing.
    ///
    /// # Cost
    /// The keys are sorted, in 16 bytes each. A batch of at least a fourth of the slots then goes in by one pass over the blocks
    /// that change, in place; a smaller one key by key, neighbours after each other.
    ///
    /// # Errors
    /// [`Error::CapacityExceeded`]; then nothing changed.
    pub fn insert_many(&mut self, hashes: &[KeyHash]) -> Result<()> {
        self.make_room(hashes.len() as u64)?;
        let mut prefixes: Vec<u64> = hashes.iter().map(|hash| hash.high()).collect();
        Sorter::new().sort(&mut prefixes, &mut Vec::new());
        let spare_bits = 64 - self.shape.fingerprint_bits();
        self.insert_sorted(prefixes.iter().map(|prefix| prefix >> spare_bits));
        Ok(())
    }

    /// Takes those keys of a batch in that are not there, and says for each whether it was new.
    ///
    /// Of keys with equal fingerprints the first is new, so the answers do not depend on how a stream is cut into batches.
    /// A key that is new but reported old has met a fingerprint of another; that happens at the false-positive rate.
    ///
    /// # Cost
    /// As [`QuotientFilter::insert_many`], with 32 bytes a key.
    ///
    /// # Errors
    /// [`Error::CapacityExceeded`]; then nothing changed.
    pub fn insert_if_absent(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let spare_bits = 64 - self.shape.fingerprint_bits();
        let prefix = |hash: &KeyHash| hash.high() >> spare_bits << spare_bits;
        let mut records: Vec<(u64, usize)> =
            hashes.iter().enumerate().map(|(index, hash)| (prefix(hash), index)).collect();
        Sorter::new().sort(&mut records, &mut Vec::new());
        let mut absent = vec![false; hashes.len()];
        // In hash order, so that neighbours share their lines; equal ones stand in order of arrival.
        records.dedup_by_key(|record| record.0);
        records.retain(|&(prefix, index)| {
            let (quotient, remainder) = self.shape.split(prefix >> spare_bits);
            absent[index] = !self.blocks.contains(quotient, remainder);
            absent[index]
        });
        self.make_room(records.len() as u64)?;
        self.insert_sorted(records.iter().map(|record| record.0 >> spare_bits));
        Ok(absent)
    }

    /// Takes one occurrence of a key out; false where its fingerprint is not there.
    ///
    /// A key that was never inserted may have the fingerprint of one that was, and takes that one's away: see the type.
    pub fn remove(&mut self, hash: KeyHash) -> bool {
        let (quotient, remainder) = self.shape.split(self.shape.fingerprint(hash));
        let removed = self.blocks.remove(quotient, remainder);
        if removed {
            self.len -= 1;
            self.blocks.trim();
        }
        removed
    }

    /// All fingerprints in ascending order, which is hash order, repeats included.
    pub fn iter(&self) -> Fingerprints<'_> {
        Fingerprints::new(self.shape, &self.blocks, self.len)
    }

    fn of_shape(shape: Shape, hash_id: HashId, keys_max: u64, grows: bool) -> Self {
        let blocks = Blocks::new(shape.slots() / BLOCK_SLOTS, shape.remainder_bits);
        Self { shape, hash_id, len: 0, keys_max, grows, blocks }
    }

    /// Puts fingerprints in that are in ascending order, and for which there is room.
    fn insert_sorted(&mut self, sorted: impl ExactSizeIterator<Item = u64>) {
        let keys = sorted.len();
        if keys >= self.shape.slots() / SLOTS_A_SWEPT_KEY {
            Sweep::new(self.shape, &mut self.blocks).merge(sorted);
        } else {
            for fingerprint in sorted {
                let (quotient, remainder) = self.shape.split(fingerprint);
                self.blocks.insert(quotient, remainder);
            }
        }
        self.len += keys as u64;
    }
}

impl<'f> IntoIterator for &'f QuotientFilter {
    type Item = u64;
    type IntoIter = Fingerprints<'f>;

    fn into_iter(self) -> Fingerprints<'f> {
        self.iter()
    }
}
