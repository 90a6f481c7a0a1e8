//! Small cells: 8 of 8 bits or 16 of 4 bits in a word, which merge with their neighbours where a count outgrows them.
//!
//! ```text
//!   cells    │ 17 │ 3 │ 0 │ 255 │ 9 │ 0 │ 1 │ 4 │      a word of 64 bits, column 0 lowest
//!   merged    (0,1) (2,3) (4,5) (6,7) (0-3) (4-7) (0-7)   one bit a block of 2, 4, 8 … columns
//!
//!   one more in column 3:   │ 17 │ 3 │   256   │ 9 │ 0 │ 1 │ 4 │     merged = bit of (2,3)
//! ```
//!
//! 1. A merged block of columns is one cell, the block's share of the word. If a block is marked, so are all the blocks in
//!    it: the number of marks above a column is its cell's level, and a cell has `2^LG_BITS * 2^level` bits.
//! 2. Where cells are only added to, a cell is the sum of its columns' counts, and a block is merged iff one of its halves,
//!    or of the halves of a block around it, has a sum that half of it cannot hold. So the word depends on its columns' sums
//!    alone, not on the order of what was added.
//! 3. A merge is never undone: after a subtraction or a halving, the marks are those of larger sums that were, and which
//!    sums those are may depend on the order. The cell is still the exact sum of its columns.
//! 4. With [`raise`](Word::raise) instead of sums, a cell is at least each of its columns' counts and at most their sum.
//! 5. A cell of 64 bits stops at `u64::MAX`, which means "at least this", and stays there. Nothing wraps.
//!
//! Cost: a cell that fits, in a word without marks, is a shift, a compare and an addition; where cells merge, a walk over a
//! part of the word. Words are added, halved and summed with all their cells at a time. The marks take 7 bits of a byte a word
//! of 8 cells, 15 bits of two bytes a word of 16.
//!
//! Source: Ben Basat, Einziger, Mitzenmacher, Vargaftik, "SALSA: self-adjusting lean sketch" (ICDE 2021). Deviation: where
//! nothing is taken off, a merged cell may keep the larger count, which errs less; but which count that is depends on the order,
//! so plain cells merge by sums, as the paper does for streams with removals.

/// A word of `64 / 2^LG_BITS` columns: `LG_BITS` is 2 or 3.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Word<const LG_BITS: u32> {
    pub(crate) cells: u64,
    /// The marks: blocks of 2 columns from bit 0 on, then blocks of 4, and so on.
    pub(crate) merged: u16,
}

impl<const LG_BITS: u32> Word<LG_BITS> {
    /// Columns in a word.
    pub(crate) const COLUMNS: u32 = 64 >> LG_BITS;
    /// The level of a cell that is the whole word.
    const TOP: u32 = 6 - LG_BITS;
    const BASE_MAX: u64 = Self::max(0);
    /// The marks of a word that is one cell.
    const ALL: u16 = ((1u32 << (Self::COLUMNS - 1)) - 1) as u16;

    /// The count of a column's cell.
    #[inline]
    pub(crate) fn get(self, column: u32) -> u64 {
        if self.merged == 0 {
            return self.cells.wrapping_shr(column << LG_BITS) & Self::BASE_MAX;
        }
        self.value(column, self.level(column))
    }

    /// How many columns share a column's cell.
    #[inline]
    pub(crate) fn span(self, column: u32) -> u32 {
        1 << self.level(column)
    }

    /// Adds to a column; whether its cell stands at `u64::MAX` now.
    #[inline]
    pub(crate) fn add(&mut self, column: u32, weight: u64) -> bool {
        let shift = column << LG_BITS;
        let room = Self::BASE_MAX - (self.cells.wrapping_shr(shift) & Self::BASE_MAX);
        if self.merged == 0 && weight <= room {
            self.cells = self.cells.wrapping_add(weight.wrapping_shl(shift));
            return false;
        }
        let level = self.level(column);
        let sum = self.value(column, level).saturating_add(weight);
        self.put_or_merge(column, level, sum, u64::saturating_add)
    }

    /// Takes off a column, which has as much.
    #[inline]
    pub(crate) fn subtract(&mut self, column: u32, weight: u64) {
        let level = self.level(column);
        let value = self.value(column, level);
        if value != u64::MAX {
            self.put(column, level, value.saturating_sub(weight));
        }
    }

    /// Makes a column's cell at least `target`; whether it stands at `u64::MAX` now.
    #[inline]
    pub(crate) fn raise(&mut self, column: u32, target: u64) -> bool {
        let level = self.level(column);
        let raised = self.value(column, level).max(target);
        self.put_or_merge(column, level, raised, u64::max)
    }

    /// Adds the columns of another word: what is merged in one of them is merged in the sum. Returns whether a cell stands at
    /// `u64::MAX` now.
    pub(crate) fn merge(&mut self, other: Self) -> bool {
        let marks = self.merged | other.merged;
        let (a, b, highs) = (self.coarsened(marks), other.coarsened(marks), Self::highs(marks));
        // The highest bits of the cells apart, no sum carries into the next cell.
        let sum = (a & !highs).wrapping_add(b & !highs) ^ ((a ^ b) & highs);
        let overflows = ((a & b) | ((a | b) & !sum)) & highs;
        (self.cells, self.merged) = (a, marks);
        if overflows == 0 {
            self.cells = sum;
            return marks & Self::ALL == Self::ALL && sum == u64::MAX;
        }
        let more = Self { cells: b, merged: marks };
        let mut is_full = false;
        for (column, level) in more.cells(0, Self::COLUMNS) {
            is_full |= self.add(column, more.value(column, level));
        }
        is_full
    }

    /// Halves every cell that is not at `u64::MAX`, rounding down.
    #[inline]
    pub(crate) fn halve(&mut self) {
        if self.merged & Self::ALL < Self::ALL || self.cells < u64::MAX {
            self.cells = (self.cells >> 1) & !Self::highs(self.merged);
        }
    }

    /// The sum of all cells.
    #[inline]
    pub(crate) fn sum(self) -> u64 {
        if self.merged == 0 {
            return (1..=Self::TOP).fold(self.cells, Self::pairs);
        }
        self.coarsened(Self::ALL)
    }

    /// The sum over all columns of their cells' counts, or `u64::MAX`: a merged cell counts as often as it has columns.
    #[inline]
    pub(crate) fn sum_of_columns(self) -> u64 {
        if self.merged == 0 {
            return self.sum();
        }
        (0..Self::COLUMNS).map(|column| self.get(column)).fold(0, u64::saturating_add)
    }

    /// The cells as they are with these marks more: the sums of what they join.
    #[inline]
    fn coarsened(self, marks: u16) -> u64 {
        let mut cells = self.cells;
        if self.merged == marks {
            return cells;
        }
        for level in 1..=Self::TOP {
            // Both halves of a block that is to be joined are one cell each: marks of blocks come with those in them.
            let joined = Self::blocks(marks & !self.merged, level);
            cells = (cells & !joined) | (Self::pairs(cells, level) & joined);
        }
        cells
    }

    /// The sum of its two halves in each block of `2^level` columns.
    #[inline]
    fn pairs(cells: u64, level: u32) -> u64 {
        let half = Self::max(level - 1);
        let halves = Self::ones(level).wrapping_mul(half);
        (cells & halves).wrapping_add((cells >> half.count_ones()) & halves)
    }

    /// The highest bit of each cell.
    #[inline]
    fn highs(marks: u16) -> u64 {
        let highs = |level| Self::ones(level) << (Self::max(level).count_ones() - 1);
        let merge = |cells, level| {
            let blocks = Self::blocks(marks, level);
            (cells & !blocks) | (highs(level) & blocks)
        };
        if marks == 0 { highs(0) } else { (1..=Self::TOP).fold(highs(0), merge) }
    }

    /// All bits of the blocks of `2^level` columns that are marked.
    #[inline]
    fn blocks(marks: u16, level: u32) -> u64 {
        let (ones, bits) = (Self::ones(level), Self::max(level).count_ones());
        let marks = u64::from(marks >> Self::marks_at(level)) & ((1 << (64 / bits)) - 1);
        // Bit i in block i, and nothing else: one in each block, times all of their bits.
        let one_each = ones.wrapping_mul(marks) & Self::diagonal(level);
        let nonzero = one_each.wrapping_add(ones.wrapping_mul(Self::max(level) >> 1)) >> (bits - 1) & ones;
        nonzero.wrapping_mul(Self::max(level))
    }

    /// Bit `i` of block `i`.
    const fn diagonal(level: u32) -> u64 {
        let bits = Self::max(level).count_ones();
        let (mut diagonal, mut block) = (0, 0);
        while block * bits < 64 {
            diagonal |= 1 << (block * bits + block);
            block += 1;
        }
        diagonal
    }

    /// A one in each block of `2^level` columns.
    const fn ones(level: u32) -> u64 {
        u64::MAX / Self::max(level)
    }

    /// What a cell of this level holds.
    const fn max(level: u32) -> u64 {
        u64::MAX.wrapping_shr(64u32.wrapping_sub(1u32.wrapping_shl(LG_BITS.wrapping_add(level))))
    }

    /// Where the marks of the blocks of `2^level` columns begin.
    const fn marks_at(level: u32) -> u32 {
        Self::COLUMNS - (Self::COLUMNS >> (level - 1))
    }

    #[inline]
    fn level(self, column: u32) -> u32 {
        let mark = |level| u32::from(self.merged.wrapping_shr(Self::marks_at(level) + (column >> level)) & 1);
        (1..=Self::TOP).fold(0, |marks: u32, level| marks.wrapping_add(mark(level)))
    }

    #[inline]
    fn value(self, column: u32, level: u32) -> u64 {
        self.cells.wrapping_shr(Self::shift(column, level)) & Self::max(level)
    }

    #[inline]
    fn put(&mut self, column: u32, level: u32, value: u64) {
        let shift = Self::shift(column, level);
        self.cells = self.cells & !Self::max(level).wrapping_shl(shift) | value.wrapping_shl(shift);
    }

    /// Where the cell of a column begins.
    #[inline]
    fn shift(column: u32, level: u32) -> u32 {
        column.wrapping_shr(level).wrapping_shl(level) << LG_BITS
    }

    /// The cells of the columns `from..end`, each as its first column and its level.
    fn cells(self, from: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut column = from;
        std::iter::from_fn(move || {
            let cell = (column < end).then(|| (column, self.level(column)));
            column += cell.map_or(0, |(_, level)| 1 << level);
            cell
        })
    }

    /// Stores `value` in a column's cell, which is of this level, or in as many cells as it takes, joining theirs with it.
    #[inline]
    fn put_or_merge(&mut self, column: u32, level: u32, value: u64, join: fn(u64, u64) -> u64) -> bool {
        if value > Self::max(level) {
            return self.merge_buddies(column, level, value, join);
        }
        self.put(column, level, value);
        value == u64::MAX
    }

    #[cold]
    fn merge_buddies(
        &mut self,
        column: u32,
        mut level: u32,
        mut value: u64,
        join: fn(u64, u64) -> u64,
    ) -> bool {
        while value > Self::max(level) {
            let buddy = (column >> level ^ 1) << level;
            let values = self.cells(buddy, buddy + (1 << level)).map(|(at, of)| self.value(at, of));
            value = values.fold(value, join);
            level += 1;
        }
        self.mark(column, level);
        self.put(column, level, value);
        value == u64::MAX
    }

    /// Marks the block of a column at `level`, and every block in it.
    fn mark(&mut self, column: u32, level: u32) {
        for inner in 1..=level {
            let blocks = 1 << (level - inner);
            let first = Self::marks_at(inner) + (column >> level << (level - inner));
            self.merged |= (((1u32 << blocks) - 1) << first) as u16;
        }
    }
}

#[cfg(test)]
mod tests;
