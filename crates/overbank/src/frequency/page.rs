//! The pages of a block buffer: adding sorted updates, and taking the least.
//!
//! 1. Additions commute, so the order of updates does not matter; removals commute where no prefix goes below zero. (Of
//!    small cells, that goes for the counts that they stand for; which of them are merged is a matter of the sums that were.)
//!    Conservative updates do not commute: after any order, a cell is between the true counts and the plain cell.
//!
//! Cost: `depth` cells of one block an update; see [`Cells`] for where they lie.

use super::cells::{Cells, Plain, Small};
use super::shape::{EntryLayout, Shape};
use crate::Result;
use crate::batch::gallop;
use crate::device::BLOCK_BYTES;

/// Calls `$call::<A>` with the kind of cells as a constant.
macro_rules! with_cells {
    ($shape:expr, $call:ident $arguments:tt) => {
        match $shape.cell_bits {
            4 => with_cells!(@call $call, Small<2>, $arguments),
            8 => with_cells!(@call $call, Small<3>, $arguments),
            32 => with_cells!(@call $call, Plain<u32>, $arguments),
            _ => with_cells!(@call $call, Plain<u64>, $arguments),
        }
    };
    (@call $call:ident, $cells:ty, ($($argument:expr),*)) => { $call::<$cells>($($argument),*) };
}

/// Calls `$call::<A, D>` with the kind of cells and the depth as constants.
macro_rules! with_shape {
    ($shape:expr, $call:ident $arguments:tt) => {
        match $shape.cell_bits {
            4 => with_shape!(@ Small<2>, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            8 => with_shape!(@ Small<3>, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            32 => with_shape!(@ Plain<u32>, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            _ => with_shape!(@ Plain<u64>, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        }
    };
    (@ $cells:ty, $shape:expr, $call:ident $arguments:tt, $($d:literal)*) => {
        match $shape.layout.depth() {
            $($d => with_shape!(@call $call, $cells, $d, $arguments),)*
            _ => with_shape!(@call $call, $cells, 16, $arguments),
        }
    };
    (@call $call:ident, $cells:ty, $d:literal, ($($argument:expr),*)) => {
        $call::<$cells, $d>($($argument),*)
    };
}

/// An entry and its weight, as the word of a signed number.
pub(super) type Weighted = [u64; 2];

/// Updates in hash order: those of weight 1, and the others with their weights. Both are sorted by entry.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Updates<'a> {
    pub(super) units: &'a [u64],
    pub(super) weighted: &'a [Weighted],
}

impl<'a> Updates<'a> {
    /// Those of the pages `first..end`.
    pub(super) fn of_pages(self, entries: EntryLayout, first: u64, end: u64) -> Self {
        let units = self.units;
        let from = units.partition_point(|&entry| entries.page(entry) < first);
        let units = &units[from..];
        let units = &units[..units.partition_point(|&entry| entries.page(entry) < end)];
        let weighted = self.weighted;
        let from = weighted.partition_point(|&[entry, _]| entries.page(entry) < first);
        let weighted = &weighted[from..];
        let weighted = &weighted[..weighted.partition_point(|&[entry, _]| entries.page(entry) < end)];
        Updates { units, weighted }
    }

    /// Those of the pages below `end`, and the others; quick where the border is near the front.
    pub(super) fn split_below(self, entries: EntryLayout, end: u64) -> (Self, Self) {
        let units = self.units.split_at(gallop(self.units, |&entry| entries.page(entry) < end));
        let below = |&[entry, _]: &Weighted| entries.page(entry) < end;
        let weighted = self.weighted.split_at(gallop(self.weighted, below));
        (Updates { units: units.0, weighted: weighted.0 }, Updates { units: units.1, weighted: weighted.1 })
    }

    pub(super) fn is_empty(self) -> bool {
        self.units.is_empty() && self.weighted.is_empty()
    }

    /// As [`Updates::joined`], for what cannot fail.
    pub(super) fn joined_all(self, mut each: impl FnMut(u64, i64)) {
        let joined = self.joined(|entry, weight| {
            each(entry, weight);
            Ok(())
        });
        debug_assert!(joined.is_ok(), "nothing here fails");
    }

    /// Every entry once, in order, with the sum of its weights; sums of 0 are left out. An entry comes again where a sum
    /// would overflow.
    pub(super) fn joined(self, mut each: impl FnMut(u64, i64) -> Result<()>) -> Result<()> {
        let Updates { mut units, mut weighted } = self;
        while let Some(entry) = units.first().copied().into_iter().chain(weighted.first().map(|w| w[0])).min()
        {
            let same = units.iter().take_while(|&&unit| unit == entry).count();
            units = &units[same..];
            let mut sum = same as i64;
            while let Some((&[_, weight], rest)) =
                weighted.split_first().filter(|(first, _)| first[0] == entry)
            {
                let weight = weight.cast_signed();
                weighted = rest;
                let Some(more) = sum.checked_add(weight) else {
                    each(entry, sum)?;
                    sum = weight;
                    continue;
                };
                sum = more;
            }
            if sum != 0 {
                each(entry, sum)?;
            }
        }
        Ok(())
    }
}

/// Adds updates to `blocks`, the blocks of the pages from `first_page` on. Returns whether a cell came to stand at its
/// maximum.
///
/// # Panics
/// If an update is of another page.
pub(super) fn add(blocks: &mut [u8], shape: Shape, first_page: u64, updates: Updates<'_>) -> bool {
    if shape.is_conservative {
        return with_shape!(shape, raise_updates(blocks, shape, first_page, updates));
    }
    with_shape!(shape, add_updates(blocks, shape, first_page, updates))
}

/// The least cell of an entry in its block.
pub(super) fn least(block: &[u8], shape: Shape, entry: u64) -> u64 {
    with_shape!(shape, least_cell(block, shape, shape.entry_layout().fold(entry)))
}

/// The weight of a page, or more: the sum of its row 0; `u64::MAX` where a cell has stopped counting. A conservative update
/// raises at least one of its cells by all of its weight, so there the sum of all rows is at least the weight; cells that
/// merge then keep the larger count, which has to stand for all their columns.
pub(super) fn weight(block: &[u8], shape: Shape) -> u64 {
    let rows = if shape.is_conservative { shape.layout.depth() } else { 1 };
    with_cells!(shape, sum_rows(block, shape, rows))
}

/// An entry's cell in one row: its count, and how many columns share it.
pub(super) fn cell_of(block: &[u8], shape: Shape, entry: u64, row: u32) -> (u64, u32) {
    let columns = shape.layout.columns();
    let column = keyhash::column(shape.entry_layout().fold(entry), row, u64::from(columns));
    with_cells!(shape, count_and_span(block, shape, row as usize * columns as usize + column as usize))
}

/// The value that says "at least this".
pub(super) fn cell_max(shape: Shape) -> u64 {
    if shape.cell_bits == 32 { u32::MAX.into() } else { u64::MAX }
}

/// Adds the cells of `from` to those of `into`, block by block. Returns whether one came to stand at its maximum.
pub(super) fn add_blocks(into: &mut [u8], from: &[u8], shape: Shape) -> bool {
    with_cells!(shape, merge_blocks(into, from, shape))
}

/// Halves every cell that is not at its maximum, rounding down.
pub(super) fn halve_blocks(blocks: &mut [u8], shape: Shape) {
    with_cells!(shape, halve_cells(blocks, shape));
}

fn sum_rows<A: Cells>(block: &[u8], shape: Shape, rows: u32) -> u64 {
    let cells = rows as usize * shape.layout.columns() as usize;
    A::of(shape).sum(block, cells, shape.is_conservative)
}

fn count_and_span<A: Cells>(block: &[u8], shape: Shape, cell: usize) -> (u64, u32) {
    let cells = A::of(shape);
    (cells.get(block, cell), cells.span(block, cell))
}

fn merge_blocks<A: Cells>(into: &mut [u8], from: &[u8], shape: Shape) -> bool {
    let pairs = into.chunks_exact_mut(BLOCK_BYTES).zip(from.chunks_exact(BLOCK_BYTES));
    pairs.fold(false, |saturated, (into, from)| saturated | A::of(shape).merge(into, from))
}

fn halve_cells<A: Cells>(blocks: &mut [u8], shape: Shape) {
    blocks.chunks_exact_mut(BLOCK_BYTES).for_each(|block| A::of(shape).halve(block));
}

fn add_updates<A: Cells, const D: usize>(
    blocks: &mut [u8],
    shape: Shape,
    first_page: u64,
    updates: Updates<'_>,
) -> bool {
    let (cells, entries, columns) = (A::of(shape), shape.entry_layout(), shape.layout.columns());
    let mut saturated = false;
    for &entry in updates.units {
        let block = block_of(blocks, entries, first_page, entry);
        for cell in cells_of::<D>(columns, entries.fold(entry)) {
            saturated |= cells.add(block, cell, 1);
        }
    }
    for &[entry, weight] in updates.weighted {
        let weight = weight.cast_signed();
        let block = block_of(blocks, entries, first_page, entry);
        for cell in cells_of::<D>(columns, entries.fold(entry)) {
            if weight >= 0 {
                saturated |= cells.add(block, cell, weight.unsigned_abs());
            } else {
                cells.subtract(block, cell, weight.unsigned_abs());
            }
        }
    }
    saturated
}

/// Conservative updates: no cell rises above what the key's estimate comes to be.
fn raise_updates<A: Cells, const D: usize>(
    blocks: &mut [u8],
    shape: Shape,
    first_page: u64,
    updates: Updates<'_>,
) -> bool {
    let (cells, entries, columns) = (A::of(shape), shape.entry_layout(), shape.layout.columns());
    let mut saturated = false;
    let mut raise = |entry: u64, weight: u64| {
        let block = block_of(blocks, entries, first_page, entry);
        let fold = entries.fold(entry);
        let target = least_cell::<A, D>(block, shape, fold).saturating_add(weight);
        for cell in cells_of::<D>(columns, fold) {
            saturated |= cells.raise(block, cell, target);
        }
    };
    updates.units.iter().for_each(|&entry| raise(entry, 1));
    // A log has only what was added: removals are refused.
    updates.weighted.iter().for_each(|&[entry, weight]| raise(entry, weight.cast_signed().unsigned_abs()));
    saturated
}

#[inline(always)]
fn block_of(blocks: &mut [u8], entries: EntryLayout, first_page: u64, entry: u64) -> &mut [u8] {
    let at = entries.page(entry).wrapping_sub(first_page) as usize;
    &mut blocks[at.wrapping_mul(BLOCK_BYTES)..][..BLOCK_BYTES]
}

/// The numbers of a key's cells, row by row.
#[inline(always)]
fn cells_of<const D: usize>(columns: u32, fold: u64) -> [usize; D] {
    let mut row_start = 0usize;
    keyhash::columns::<D>(fold, u64::from(columns)).map(|column| {
        let cell = row_start.wrapping_add(column as usize);
        row_start = row_start.wrapping_add(columns as usize);
        cell
    })
}

fn least_cell<A: Cells, const D: usize>(block: &[u8], shape: Shape, fold: u64) -> u64 {
    let cells = A::of(shape);
    let counts = cells_of::<D>(shape.layout.columns(), fold).map(|cell| cells.get(block, cell));
    counts.into_iter().fold(A::MAX, u64::min)
}
