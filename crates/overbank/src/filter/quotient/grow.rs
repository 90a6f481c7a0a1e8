//! Other sizes of the same fingerprints: growth, doubling and halving, merge.
//!
//! ```text
//!   p bits   │ quotient q │   remainder r    │        double: the border moves right, q + 1, r - 1
//!   p bits   │ quotient q + 1 │ remainder    │        halve: it moves back
//! ```
//!
//! 1. No size change loses or makes a fingerprint: filters of equal p merge, whatever their q.
//! 2. The false-positive rate depends on the number of fingerprints and on p alone, so a growing filter that stops at its
//!    `keys_max` keeps its rate at every size.
//!
//! Source: the cascade filter's paper, section 2 (merging two filters as two sorted arrays; doubling and halving without
//! rehashing).

use super::blocks::{BLOCK_SLOTS, Blocks};
use super::shape::{self, LG_QUOTIENTS_MIN, REMAINDER_BITS_MAX, Shape};
use super::sweep::Sweep;
use super::{Error, HashId, QuotientFilter, Result};
use crate::sketch::hash_id::require_equal;

const NAME: &str = "the quotient filter";

impl QuotientFilter {
    /// An empty filter that begins with some hundred bytes and doubles when it is full, up to `keys_max` keys.
    ///
    /// It needs no guess of the number of keys, only of a number that they will not exceed. The price of a high one is
    /// `log2(keys_max / len)` bits a key: the remainder bits that later doublings will use up.
    ///
    /// # Accuracy
    /// The false-positive rate is at most `false_positive_rate` at `keys_max` keys, and in proportion less before.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the rate is above 0, at most 0.25, and within the reach of 64 bits. An insert beyond
    /// `keys_max` is [`Error::CapacityExceeded`].
    pub fn growing(keys_max: u64, false_positive_rate: f64, hash_id: impl Into<HashId>) -> Result<Self> {
        let bits = shape::fingerprint_bits_for(keys_max, false_positive_rate)?;
        let bits = Shape::for_keys(keys_max, bits)?.fingerprint_bits();
        let lg_quotients = LG_QUOTIENTS_MIN.max(bits.saturating_sub(REMAINDER_BITS_MAX));
        let shape = Shape::new(lg_quotients, bits - lg_quotients)?;
        Ok(Self::of_shape(shape, hash_id.into(), keys_max.max(1), true))
    }

    /// Twice the slots: a remainder bit becomes a quotient bit.
    ///
    /// # Cost
    /// One pass; the old slots and the new ones are held together until it is done.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where only one remainder bit is left, or at 2^40 slots; then nothing changed.
    pub fn double(&mut self) -> Result<()> {
        self.reshape(self.shape.doubled()?);
        Ok(())
    }

    /// Half the slots: a quotient bit becomes a remainder bit.
    ///
    /// # Cost
    /// As [`QuotientFilter::double`].
    ///
    /// # Errors
    /// [`Error::CapacityExceeded`] where half the slots would be more than 95 % full, [`Error::InvalidOption`] at 64 slots or
    /// at remainders of 57 bits; then nothing changed.
    pub fn halve(&mut self) -> Result<()> {
        let shape = self.shape.halved()?;
        if self.len > shape.capacity() {
            let remedy = "halve a filter that is at most 47 % full";
            let (held, capacity) = (0, shape.capacity());
            let what = "half the quotient filter";
            return Err(Error::CapacityExceeded { what, held, wanted: self.len, capacity, remedy });
        }
        self.reshape(shape);
        Ok(())
    }

    /// Takes in the fingerprints of another filter, as two sorted arrays are merged. Their sizes may differ, if quotient and
    /// remainder together have as many bits.
    ///
    /// # Cost
    /// One pass over the blocks that change.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where hash, seed or the bits of a fingerprint differ, [`Error::CapacityExceeded`]; then nothing
    /// changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        let bits = self.shape.fingerprint_bits();
        require_equal("the number of bits of a fingerprint", bits, other.shape.fingerprint_bits())?;
        self.make_room(other.len)?;
        self.insert_sorted(other.iter());
        Ok(())
    }

    /// Grows, or fails, unless so many more fingerprints fit.
    #[inline]
    pub(super) fn make_room(&mut self, more: u64) -> Result<()> {
        if self.len.saturating_add(more) <= self.shape.capacity().min(self.keys_max) {
            return Ok(());
        }
        self.grow_or_refuse(more)
    }

    #[cold]
    fn grow_or_refuse(&mut self, more: u64) -> Result<()> {
        let wanted = self.len.saturating_add(more);
        let remedy = if wanted > self.keys_max {
            "more would exceed the false-positive rate that it was made for: make one for more keys"
        } else if self.grows {
            let mut shape = self.shape;
            while shape.capacity() < wanted {
                shape = shape.doubled()?;
            }
            self.reshape(shape);
            return Ok(());
        } else {
            "double it, make a larger one, or make one that grows"
        };
        let (held, capacity) = (self.len, self.capacity());
        Err(Error::CapacityExceeded { what: NAME, held, wanted: more, capacity, remedy })
    }

    fn reshape(&mut self, shape: Shape) {
        let mut blocks = Blocks::new(shape.slots() / BLOCK_SLOTS, shape.remainder_bits);
        Sweep::new(shape, &mut blocks).merge(self.iter());
        (self.shape, self.blocks) = (shape, blocks);
    }
}
