//! Where the cells of a page lie in its block, and what changes one: plain cells of 32 or 64 bits, or words of small ones.
//!
//! ```text
//!   block   0                                                            4080      4096
//!   32, 64  ├── row 0 ───┼── row 1 ───┼ … ┼── row depth-1 ──┼ zeros ──────┼ trailer ┤
//!   4, 8    ├── row 0 ───┼── row 1 ───┼ … ┼── row depth-1 ──┼ marks ┼ zeros ┼ trailer ┤
//! ```
//!
//! 1. A cell is named by `row * columns + column`. A row is whole words, so the word of a small cell follows from its number.
//! 2. The marks of the words are behind the words, in their order: a byte for a word of 8 cells, two (little-endian) for one
//!    of 16. What they mean is in `sketch::count_min::small`.
//! 3. A cell at its maximum stays there: "at least this".
//!
//! | bits of a cell | columns of a block at depth 5 | bytes a column and row |
//! |---|---|---|
//! | 4 | 1296 | 0.625 |
//! | 8 | 720 | 1.125 |
//! | 32 | 204 | 4 |
//! | 64 | 102 | 8 |

use super::shape::Shape;
use crate::sketch::count_min::Cell;
use crate::sketch::count_min::small::Word;
use std::marker::PhantomData;

const WORD_BYTES: usize = size_of::<u64>();

/// The cells of one block.
pub(super) trait Cells: Copy {
    /// The count that says "at least this".
    const MAX: u64;

    fn of(shape: Shape) -> Self;
    fn get(self, block: &[u8], cell: usize) -> u64;
    /// How many columns share a cell.
    fn span(self, block: &[u8], cell: usize) -> u32;
    /// Adds; whether the cell stands at its maximum now.
    fn add(self, block: &mut [u8], cell: usize, weight: u64) -> bool;
    /// Takes off, but not of a cell at its maximum.
    fn subtract(self, block: &mut [u8], cell: usize, weight: u64);
    /// Makes a cell at least `target`; whether it stands at its maximum now.
    fn raise(self, block: &mut [u8], cell: usize, target: u64) -> bool;
    /// The sum of the first `cells` cells, or `u64::MAX` where one of them stands at its maximum. With `each_column`, a cell
    /// that columns share counts once for each.
    fn sum(self, block: &[u8], cells: usize, each_column: bool) -> u64;
    /// Adds a page; whether a cell stands at its maximum now.
    fn merge(self, into: &mut [u8], from: &[u8]) -> bool;
    /// Halves every cell that is not at its maximum, rounding down.
    fn halve(self, block: &mut [u8]);
}

/// Cells that are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<C> {
    cells: usize,
    cell: PhantomData<C>,
}

impl<C: Cell> Plain<C> {
    #[inline]
    fn change(block: &mut [u8], cell: usize, to: impl Fn(C) -> C) -> C {
        let bytes = &mut block[cell * C::BYTES..][..C::BYTES];
        let changed = to(C::get(bytes));
        bytes.copy_from_slice(&changed.count().to_le_bytes()[..C::BYTES]);
        changed
    }
}

impl<C: Cell> Cells for Plain<C> {
    const MAX: u64 = u64::MAX >> (64 - 8 * C::BYTES);

    fn of(shape: Shape) -> Self {
        Self { cells: shape.layout.page_cells(), cell: PhantomData }
    }

    #[inline]
    fn get(self, block: &[u8], cell: usize) -> u64 {
        C::get(&block[cell * C::BYTES..][..C::BYTES]).count()
    }

    fn span(self, _: &[u8], _: usize) -> u32 {
        1
    }

    #[inline]
    fn add(self, block: &mut [u8], cell: usize, weight: u64) -> bool {
        Self::change(block, cell, |cell| cell.plus(weight)) == C::MAX
    }

    #[inline]
    fn subtract(self, block: &mut [u8], cell: usize, weight: u64) {
        let less = |cell: C| C::ZERO.plus(cell.count().saturating_sub(weight));
        Self::change(block, cell, |cell| if cell == C::MAX { cell } else { less(cell) });
    }

    #[inline]
    fn raise(self, block: &mut [u8], cell: usize, target: u64) -> bool {
        let target = C::ZERO.plus(target);
        Self::change(block, cell, |cell| cell.max(target)) == C::MAX
    }

    fn sum(self, block: &[u8], cells: usize, _: bool) -> u64 {
        let cells = block[..cells * C::BYTES].chunks_exact(C::BYTES).map(C::get);
        let sum = |(sum, most): (u64, C), cell: C| (sum.saturating_add(cell.count()), most.max(cell));
        let (sum, most) = cells.fold((0, C::ZERO), sum);
        if most == C::MAX { u64::MAX } else { sum }
    }

    fn merge(self, into: &mut [u8], from: &[u8]) -> bool {
        let bytes = self.cells * C::BYTES;
        let mut most = C::ZERO;
        let pairs = into[..bytes].chunks_exact_mut(C::BYTES).zip(from[..bytes].chunks_exact(C::BYTES));
        for (into, from) in pairs {
            let more = C::get(from);
            // What one of them could not count, the sum cannot either.
            let sum = if more == C::MAX { more } else { C::get(into).plus(more.count()) };
            into.copy_from_slice(&sum.count().to_le_bytes()[..C::BYTES]);
            most = most.max(sum);
        }
        most == C::MAX
    }

    fn halve(self, block: &mut [u8]) {
        for bytes in block[..self.cells * C::BYTES].chunks_exact_mut(C::BYTES) {
            let cell = C::get(bytes);
            let half = if cell == C::MAX { cell } else { C::ZERO.plus(cell.count() / 2) };
            bytes.copy_from_slice(&half.count().to_le_bytes()[..C::BYTES]);
        }
    }
}

/// Words of cells that merge where a count outgrows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Small<const LG_BITS: u32> {
    words: usize,
}

impl<const LG_BITS: u32> Small<LG_BITS> {
    const CELLS: usize = Word::<LG_BITS>::COLUMNS as usize;
    const MARK_BYTES: usize = Self::CELLS / 8;

    #[inline]
    fn word_and_column(cell: usize) -> (usize, u32) {
        (cell / Self::CELLS, (cell % Self::CELLS) as u32)
    }

    #[inline]
    fn load(self, block: &[u8], word: usize) -> Word<LG_BITS> {
        let marks = &block[self.marks_at(word)..][..Self::MARK_BYTES];
        let high = if Self::MARK_BYTES == 2 { marks[1] } else { 0 };
        let merged = u16::from_le_bytes([marks[0], high]);
        Word { cells: <u64 as Cell>::get(&block[word.wrapping_mul(WORD_BYTES)..][..WORD_BYTES]), merged }
    }

    #[inline]
    fn marks_at(self, word: usize) -> usize {
        self.words.wrapping_mul(WORD_BYTES).wrapping_add(word.wrapping_mul(Self::MARK_BYTES))
    }

    #[inline]
    fn change<T>(self, block: &mut [u8], word: usize, change: impl FnOnce(&mut Word<LG_BITS>) -> T) -> T {
        let before = self.load(block, word);
        let mut after = before;
        let result = change(&mut after);
        block[word.wrapping_mul(WORD_BYTES)..][..WORD_BYTES].copy_from_slice(&after.cells.to_le_bytes());
        if after.merged != before.merged {
            let marks = &after.merged.to_le_bytes()[..Self::MARK_BYTES];
            block[self.marks_at(word)..][..Self::MARK_BYTES].copy_from_slice(marks);
        }
        result
    }
}

impl<const LG_BITS: u32> Cells for Small<LG_BITS> {
    const MAX: u64 = u64::MAX;

    fn of(shape: Shape) -> Self {
        Self { words: shape.layout.page_cells() / Self::CELLS }
    }

    #[inline]
    fn get(self, block: &[u8], cell: usize) -> u64 {
        let (word, column) = Self::word_and_column(cell);
        self.load(block, word).get(column)
    }

    fn span(self, block: &[u8], cell: usize) -> u32 {
        let (word, column) = Self::word_and_column(cell);
        self.load(block, word).span(column)
    }

    #[inline]
    fn add(self, block: &mut [u8], cell: usize, weight: u64) -> bool {
        let (word, column) = Self::word_and_column(cell);
        self.change(block, word, |word| word.add(column, weight))
    }

    #[inline]
    fn subtract(self, block: &mut [u8], cell: usize, weight: u64) {
        let (word, column) = Self::word_and_column(cell);
        self.change(block, word, |word| word.subtract(column, weight));
    }

    #[inline]
    fn raise(self, block: &mut [u8], cell: usize, target: u64) -> bool {
        let (word, column) = Self::word_and_column(cell);
        self.change(block, word, |word| word.raise(column, target))
    }

    fn sum(self, block: &[u8], cells: usize, each_column: bool) -> u64 {
        let words = (0..cells / Self::CELLS).map(|word| self.load(block, word));
        let sums = words.map(|word| if each_column { word.sum_of_columns() } else { word.sum() });
        sums.fold(0, u64::saturating_add)
    }

    fn merge(self, into: &mut [u8], from: &[u8]) -> bool {
        let mut is_full = false;
        for word in 0..self.words {
            let more = self.load(from, word);
            is_full |= self.change(into, word, |word| word.merge(more));
        }
        is_full
    }

    fn halve(self, block: &mut [u8]) {
        (0..self.words).for_each(|word| self.change(block, word, Word::halve));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BLOCK_BYTES;
    use crate::device::block::BODY_BYTES;
    use crate::sketch::count_min::Layout;

    /// Every cell of a full page: none is another's, none is left out, and none lies in the trailer.
    fn every_cell<A: Cells>(cell_bits: u32, depth: u32) {
        let columns = crate::frequency::shape::columns_of_a_block(cell_bits, depth).unwrap();
        let shape = Shape::new(Layout::with_shape(1, columns, depth).unwrap(), cell_bits, 4, 1).unwrap();
        let (page, cells) = (A::of(shape), shape.layout.page_cells());
        let count = |cell: usize| 2 + (cell as u64 * 7 + cell as u64 / 13) % 6;
        let mut block = vec![0; BLOCK_BYTES];
        (0..cells).for_each(|cell| assert!(!page.add(&mut block, cell, count(cell))));
        let check = |block: &[u8], expected: &dyn Fn(u64) -> u64| {
            (0..cells).for_each(|cell| assert_eq!(page.get(block, cell), expected(count(cell)), "{cell}"));
            assert_eq!(page.sum(block, cells, false), (0..cells).map(|cell| expected(count(cell))).sum());
            assert!(block[BODY_BYTES..].iter().all(|&byte| byte == 0));
        };
        check(&block, &|count| count);
        let once = block.clone();
        assert!(!page.merge(&mut block, &once));
        check(&block, &|count| 2 * count);
        page.halve(&mut block);
        page.halve(&mut block);
        check(&block, &|count| count / 2);
        // The last word, with its marks, is a cell of the page too.
        page.add(&mut block, cells - 1, 1 << 20);
        let outgrown = page.get(&block, cells - 1);
        assert!(outgrown >= 1 << 20 && page.get(&block, 0) == count(0) / 2);
        page.halve(&mut block);
        assert_eq!(page.get(&block, cells - 1), outgrown / 2);
        assert!(block[BODY_BYTES..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn every_cell_of_a_page_has_a_place_of_its_own() {
        for depth in 1..=16 {
            every_cell::<Small<2>>(4, depth);
            every_cell::<Small<3>>(8, depth);
            every_cell::<Plain<u32>>(32, depth);
            every_cell::<Plain<u64>>(64, depth);
        }
    }
}
