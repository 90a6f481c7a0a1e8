//! Cells in the bytes of blocks: adding sorted updates, and taking the least.
//!
//! ```text
//!   block   0            columns * cell                            4080      4096
//!           ├── row 0 ───┼── row 1 ───┼ … ┼── row depth-1 ──┼ zeros ┼ trailer ┤
//! ```
//!
//! 1. A cell at its maximum stays there: "at least this".
//! 2. Additions commute, so the order of updates does not matter; removals commute where no prefix goes below zero.
//!    Conservative updates do not commute: after any order, a cell is between the true counts and the plain cell.

use super::place::{Place, Shape};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::sketch::count_min::Cell;

/// Calls `$call::<C, D>` with the cell and the depth as constants.
macro_rules! with_shape {
    ($shape:expr, $call:ident $arguments:tt) => {
        match $shape.cell_bytes {
            4 => with_shape!(@ u32, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            _ => with_shape!(@ u64, $shape, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        }
    };
    (@ $cell:ty, $shape:expr, $call:ident $arguments:tt, $($d:literal)*) => {
        match $shape.layout.depth() {
            $($d => with_shape!(@call $call, $cell, $d, $arguments),)*
            _ => with_shape!(@call $call, $cell, 16, $arguments),
        }
    };
    (@call $call:ident, $cell:ty, $d:literal, ($($argument:expr),*)) => { $call::<$cell, $d>($($argument),*) };
}

/// Updates in hash order: those of weight 1, and the others with their weights. Both are sorted by entry.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Updates<'a> {
    pub(super) units: &'a [u64],
    pub(super) weighted: &'a [(u64, i64)],
}

impl<'a> Updates<'a> {
    /// Those of the pages `first..end`.
    pub(super) fn of_pages(self, place: Place, first: u64, end: u64) -> Self {
        let units = self.units;
        let from = units.partition_point(|&entry| place.page(entry) < first);
        let units = &units[from..];
        let units = &units[..units.partition_point(|&entry| place.page(entry) < end)];
        let weighted = self.weighted;
        let from = weighted.partition_point(|&(entry, _)| place.page(entry) < first);
        let weighted = &weighted[from..];
        let weighted = &weighted[..weighted.partition_point(|&(entry, _)| place.page(entry) < end)];
        Updates { units, weighted }
    }

    /// Those of the pages below `end`, of updates that begin near it.
    pub(super) fn below(self, place: Place, end: u64) -> Self {
        let units = gallop(self.units, |&entry| place.page(entry) < end);
        let weighted = gallop(self.weighted, |&(entry, _)| place.page(entry) < end);
        Updates { units: &self.units[..units], weighted: &self.weighted[..weighted] }
    }

    pub(super) fn is_empty(self) -> bool {
        self.units.is_empty() && self.weighted.is_empty()
    }

    /// Every entry once, in order, with the sum of its weights; sums of 0 are left out. An entry comes again where a sum
    /// would overflow.
    pub(super) fn joined(self, mut each: impl FnMut(u64, i64) -> Result<()>) -> Result<()> {
        let Updates { mut units, mut weighted } = self;
        while let Some(entry) = units.first().copied().into_iter().chain(weighted.first().map(|w| w.0)).min()
        {
            let same = units.iter().take_while(|&&unit| unit == entry).count();
            units = &units[same..];
            let mut sum = same as i64;
            while let Some((&(_, weight), rest)) =
                weighted.split_first().filter(|(first, _)| first.0 == entry)
            {
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

/// The partition point of `sorted`, in time that depends on how near it is.
fn gallop<T>(sorted: &[T], is_below: impl Fn(&T) -> bool) -> usize {
    let mut reach = 16;
    while reach < sorted.len() && is_below(&sorted[reach]) {
        reach *= 4;
    }
    sorted[..sorted.len().min(reach)].partition_point(is_below)
}

/// Adds updates to `blocks`, the blocks of the pages from `first_page` on. Returns whether a cell came to stand at its
/// maximum.
///
/// # Panics
/// If an update is of another page.
pub(super) fn add(blocks: &mut [u8], shape: Shape, first_page: u64, updates: Updates<'_>) -> bool {
    let (place, columns) = (shape.place(), shape.layout.columns());
    if shape.is_conservative {
        return with_shape!(shape, raise_updates(blocks, columns, place, first_page, updates));
    }
    with_shape!(shape, add_updates(blocks, columns, place, first_page, updates))
}

/// The least cell of an entry in its block.
pub(super) fn least(block: &[u8], shape: Shape, entry: u64) -> u64 {
    let fold = shape.place().fold(entry);
    with_shape!(shape, least_cell(block, shape.layout.columns(), fold))
}

/// The weight of a page, or more: the sum of its row 0. A conservative update raises at least one of its cells by all of
/// its weight, so there the sum of all rows is at least the weight.
pub(super) fn weight(block: &[u8], shape: Shape) -> u64 {
    let rows = if shape.is_conservative { shape.layout.depth() } else { 1 };
    let row = &block[..(rows * shape.layout.columns() * shape.cell_bytes) as usize];
    match shape.cell_bytes {
        4 => sum::<u32>(row),
        _ => sum::<u64>(row),
    }
}

/// The value that says "at least this".
pub(super) fn cell_max(shape: Shape) -> u64 {
    if shape.cell_bytes == 4 { u32::MAX.into() } else { u64::MAX }
}

/// Adds the cells of `from` to those of `into`, block by block. Returns whether one came to stand at its maximum.
pub(super) fn add_blocks(into: &mut [u8], from: &[u8], shape: Shape) -> bool {
    let bytes = shape.layout.page_cells() * shape.cell_bytes as usize;
    let pairs = into.chunks_exact_mut(BLOCK_BYTES).zip(from.chunks_exact(BLOCK_BYTES));
    pairs.fold(false, |saturated, (into, from)| {
        let (into, from) = (&mut into[..bytes], &from[..bytes]);
        saturated
            | if shape.cell_bytes == 4 { add_cells::<u32>(into, from) } else { add_cells::<u64>(into, from) }
    })
}

/// Halves every cell that is not at its maximum, rounding down.
pub(super) fn halve_blocks(blocks: &mut [u8], shape: Shape) {
    let bytes = shape.layout.page_cells() * shape.cell_bytes as usize;
    for block in blocks.chunks_exact_mut(BLOCK_BYTES) {
        match shape.cell_bytes {
            4 => halve_cells::<u32>(&mut block[..bytes]),
            _ => halve_cells::<u64>(&mut block[..bytes]),
        }
    }
}

fn add_cells<C: Cell>(into: &mut [u8], from: &[u8]) -> bool {
    let mut most = C::ZERO;
    for (into, from) in into.chunks_exact_mut(C::BYTES).zip(from.chunks_exact(C::BYTES)) {
        let more = C::get(from);
        // What one of them could not count, the sum cannot either.
        let sum = if more == C::MAX { more } else { C::get(into).plus(more.count()) };
        into.copy_from_slice(&sum.count().to_le_bytes()[..C::BYTES]);
        most = most.max(sum);
    }
    most == C::MAX
}

fn halve_cells<C: Cell>(cells: &mut [u8]) {
    for bytes in cells.chunks_exact_mut(C::BYTES) {
        let cell = C::get(bytes);
        let half = if cell == C::MAX { cell } else { C::ZERO.plus(cell.count() / 2) };
        bytes.copy_from_slice(&half.count().to_le_bytes()[..C::BYTES]);
    }
}

fn sum<C: Cell>(row: &[u8]) -> u64 {
    row.chunks_exact(C::BYTES).fold(0, |total: u64, cell| total.saturating_add(C::get(cell).count()))
}

fn add_updates<C: Cell, const D: usize>(
    blocks: &mut [u8],
    columns: u32,
    place: Place,
    first_page: u64,
    updates: Updates<'_>,
) -> bool {
    let mut saturated = false;
    for &entry in updates.units {
        let at = place.page(entry).wrapping_sub(first_page) as usize;
        let block = &mut blocks[at.wrapping_mul(BLOCK_BYTES)..][..BLOCK_BYTES];
        saturated |= change::<C, D>(block, columns, place.fold(entry), |cell| cell.plus(1));
    }
    for &(entry, weight) in updates.weighted {
        let at = place.page(entry).wrapping_sub(first_page) as usize;
        let block = &mut blocks[at.wrapping_mul(BLOCK_BYTES)..][..BLOCK_BYTES];
        saturated |= change::<C, D>(block, columns, place.fold(entry), |cell| shifted(cell, weight));
    }
    saturated
}

/// Conservative updates: no cell rises above what the key's estimate comes to be.
fn raise_updates<C: Cell, const D: usize>(
    blocks: &mut [u8],
    columns: u32,
    place: Place,
    first_page: u64,
    updates: Updates<'_>,
) -> bool {
    let mut saturated = false;
    let mut raise = |entry: u64, weight: u64| {
        let at = place.page(entry).wrapping_sub(first_page) as usize;
        let block = &mut blocks[at.wrapping_mul(BLOCK_BYTES)..][..BLOCK_BYTES];
        let fold = place.fold(entry);
        let target = C::ZERO.plus(least_cell::<C, D>(block, columns, fold)).plus(weight);
        saturated |= change::<C, D>(block, columns, fold, |cell| cell.max(target));
    };
    updates.units.iter().for_each(|&entry| raise(entry, 1));
    // A log has only what was added: removals are refused.
    updates.weighted.iter().for_each(|&(entry, weight)| raise(entry, weight.unsigned_abs()));
    saturated
}

#[inline]
fn shifted<C: Cell>(cell: C, weight: i64) -> C {
    if weight >= 0 {
        return cell.plus(weight.unsigned_abs());
    }
    if cell == C::MAX {
        return cell;
    }
    C::ZERO.plus(cell.count().saturating_sub(weight.unsigned_abs()))
}

#[inline]
fn change<C: Cell, const D: usize>(block: &mut [u8], columns: u32, fold: u64, to: impl Fn(C) -> C) -> bool {
    let places = keyhash::columns::<D>(fold, u64::from(columns));
    let mut most = C::ZERO;
    for (row, &column) in places.iter().enumerate() {
        let at = (row * columns as usize + column as usize) * C::BYTES;
        let bytes = &mut block[at..at + C::BYTES];
        let cell = to(C::get(bytes));
        bytes.copy_from_slice(&cell.count().to_le_bytes()[..C::BYTES]);
        most = most.max(cell);
    }
    most == C::MAX
}

fn least_cell<C: Cell, const D: usize>(block: &[u8], columns: u32, fold: u64) -> u64 {
    let places = keyhash::columns::<D>(fold, u64::from(columns));
    let mut least = C::MAX;
    for (row, &column) in places.iter().enumerate() {
        let at = (row * columns as usize + column as usize) * C::BYTES;
        least = least.min(C::get(&block[at..at + C::BYTES]));
    }
    least.count()
}
