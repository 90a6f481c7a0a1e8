//! Cells in the bytes of blocks: adding sorted updates, and taking the least.
//!
//! ```text
//!   block   0            columns * cell                            4080      4096
//!           ├── row 0 ───┼── row 1 ───┼ … ┼── row depth-1 ──┼ zeros ┼ trailer ┤
//! ```
//!
//! 1. A cell at its maximum stays there: "at least this".
//! 2. Additions commute, so the order of updates does not matter; removals commute where no prefix goes below zero.

use super::place::{Place, Shape};
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

    pub(super) fn is_empty(self) -> bool {
        self.units.is_empty() && self.weighted.is_empty()
    }
}

/// Adds updates to `blocks`, the blocks of the pages from `first_page` on. Returns whether a cell came to stand at its
/// maximum.
///
/// # Panics
/// If an update is of another page.
pub(super) fn add(blocks: &mut [u8], shape: Shape, first_page: u64, updates: Updates<'_>) -> bool {
    let place = shape.place();
    with_shape!(shape, add_updates(blocks, shape.layout.columns(), place, first_page, updates))
}

/// The least cell of an entry in its block.
pub(super) fn least(block: &[u8], shape: Shape, entry: u64) -> u64 {
    let fold = shape.place().fold(entry);
    with_shape!(shape, least_cell(block, shape.layout.columns(), fold))
}

/// The weight of a page: the sum of its row 0.
pub(super) fn weight(block: &[u8], shape: Shape) -> u64 {
    let row = &block[..shape.layout.columns() as usize * shape.cell_bytes as usize];
    match shape.cell_bytes {
        4 => sum::<u32>(row),
        _ => sum::<u64>(row),
    }
}

/// The value that says "at least this".
pub(super) fn cell_max(shape: Shape) -> u64 {
    if shape.cell_bytes == 4 { u32::MAX.into() } else { u64::MAX }
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
