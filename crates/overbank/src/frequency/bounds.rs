//! How far an estimate may be from the truth, by what the page of its key knows.
//!
//! ```text
//!   true count  =  a row's cell  -  keys that share its columns  -  keys of the page with the same residue
//!                  (known)          (Markov, of the page's weight)   (Markov)
//! ```
//!
//! 1. The upper bound is the least cell: certain. Where that is full it is the total weight.
//! 2. The lower bound fails with probability at most `1 - confidence`. Each of the two errors takes half of that. In a row of
//!    plain cells other keys weigh `b W / columns` or more with probability at most `1 / b`, so in all rows with `b^-depth`;
//!    keys with the same residue weigh `t W / 2^residue_bits` or more with probability at most `1 / t`.
//! 3. Small cells: let `A_j` be the mean weight of others in the columns of the block of `2^j` columns around the key's own,
//!    which is uniform over the row. From the largest block to the smallest these means are a martingale whose last has the
//!    expectation `W / columns`, so by Doob's inequality *any* of them is `b W / columns` or more with probability at most
//!    `1 / b`. The key's cell is one of these blocks, whichever the stream has made it, so the error in a row of span `s` is
//!    below `s b W / columns` with the same probability as that of a plain cell is below `b W / columns`. At least one row
//!    keeps that; the lower bound is the least that a row gives.

use super::page;
use super::shape::Shape;
use crate::sketch::CountBounds;
use std::cell::OnceCell;

/// What a page says of a key.
pub(super) struct Reading<'a> {
    pub(super) shape: Shape,
    /// The page with everything that waits for it.
    pub(super) block: &'a [u8],
    pub(super) entry: u64,
    /// The page's weight, or more, once a key of the page has asked for bounds.
    pub(super) weight: &'a OnceCell<u64>,
    /// That of the sketch; `u64::MAX` stands for that and more.
    pub(super) total_weight: u64,
}

impl Reading<'_> {
    #[inline]
    pub(super) fn estimate(&self) -> u64 {
        let least = page::least(self.block, self.shape, self.entry);
        if least == page::cell_max(self.shape) { self.total_weight } else { least }
    }

    /// Whether this estimate is one of full cells.
    #[inline]
    pub(super) fn is_full(&self, estimate: u64) -> bool {
        estimate >= page::cell_max(self.shape)
    }

    pub(super) fn bounds(&self, confidence: f64) -> CountBounds {
        let estimate = self.estimate();
        CountBounds { lower: self.lower(confidence).min(estimate), estimate, upper: estimate }
    }

    fn lower(&self, confidence: f64) -> u64 {
        let weight = *self.weight.get_or_init(|| page::weight(self.block, self.shape));
        if weight == u64::MAX {
            // A cell has stopped counting, and with it the page's weight.
            return 0;
        }
        let layout = self.shape.layout;
        let half = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0) / 2.0;
        let weight = weight as f64;
        let column = half.powf(-1.0 / f64::from(layout.depth())) * weight / f64::from(layout.columns());
        let twins = weight / 2f64.powi(self.shape.residue_bits() as i32) / half;
        let lower = |row| {
            let (count, span) = page::cell_of(self.block, self.shape, self.entry, row);
            // Errors are whole: one above the floor is above the bound.
            count.saturating_sub((column * f64::from(span) + twins).floor() as u64)
        };
        (0..layout.depth()).map(lower).min().unwrap_or(0)
    }
}
