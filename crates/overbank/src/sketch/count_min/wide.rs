//! Wide pages: where a cell outgrows its type, the columns of its page count in pairs from then on.
//!
//! ```text
//!   narrow   row 0 │ c0 │ c1 │ c2 │ c3 │ c4 │    u32 each
//!   wide     row 0 │ c0 + c1 │ c2 + c3 + c4 │    u64 each, the lower half first; an odd cell is left, and is zero
//! ```
//!
//! 1. A wide cell is the sum of its columns' weights: of two of them, or of three at the end of an odd row.
//! 2. A page is wide iff the weight of one of its columns does not fit a narrow cell: where weights are only added, that
//!    depends neither on their order nor on batches.
//! 3. A wide cell stops at `u64::MAX`, which says "at least this", and so does a narrow one of a type or of a row that has
//!    no pairs.
//!
//! Cost: the memory stays the same; a page that is wide errs as one of half, or at the end of an odd row of a third, of the
//! columns does.

use super::cell::Cell;

/// Whether rows of so many cells can count in pairs.
pub(super) fn is_possible<C: Cell>(columns: u32) -> bool {
    C::PAIRS && columns >= 2
}

/// Makes the cells of a narrow page, rows of `columns` cells, wide.
pub(super) fn widen<C: Cell>(page: &mut [C], columns: u32) {
    for row in page.chunks_exact_mut(columns as usize) {
        let (pairs, odd) = row.as_chunks_mut::<2>();
        let odd = odd.iter_mut().map(|cell| std::mem::replace(cell, C::ZERO).count()).sum::<u64>();
        let last = pairs.len() - 1;
        for (i, pair) in pairs.iter_mut().enumerate() {
            let sum = pair[0].count() + pair[1].count() + if i == last { odd } else { 0 };
            *pair = C::split(sum);
        }
    }
}

/// The count of a column's cell in a wide row.
#[inline]
pub(super) fn get<C: Cell>(row: &[C], column: u32) -> u64 {
    let at = place(row.len() as u32, column);
    C::join([row[at], row[at + 1]])
}

/// Adds to a column's cell in a wide row; whether it stands at `u64::MAX` now.
pub(super) fn add<C: Cell>(row: &mut [C], column: u32, weight: u64) -> bool {
    let sum = get(row, column).saturating_add(weight);
    let at = place(row.len() as u32, column);
    row[at..at + 2].copy_from_slice(&C::split(sum));
    sum == u64::MAX
}

/// How many columns share a column's cell.
pub(super) fn span(columns: u32, column: u32) -> u32 {
    if columns % 2 == 1 && column + 3 >= columns { 3 } else { 2 }
}

/// The cells of a wide row.
pub(super) fn cells<C: Cell>(row: &[C]) -> impl Iterator<Item = u64> + '_ {
    row.as_chunks::<2>().0.iter().map(|&pair| C::join(pair))
}

/// Adds a wide page to a wide page, rows of `columns` cells; whether a cell stands at `u64::MAX` now.
pub(super) fn merge<C: Cell>(into: &mut [C], from: &[C], columns: u32) -> bool {
    let mut is_full = false;
    for (into, from) in into.chunks_exact_mut(columns as usize).zip(from.chunks_exact(columns as usize)) {
        for (pair, more) in into.as_chunks_mut::<2>().0.iter_mut().zip(cells(from)) {
            let sum = C::join(*pair).saturating_add(more);
            is_full |= sum == u64::MAX;
            *pair = C::split(sum);
        }
    }
    is_full
}

/// Whether a wide page is one that [`widen`] and [`add`] make: the odd cell of a row is zero.
pub(super) fn is_valid<C: Cell>(page: &[C], columns: u32) -> bool {
    page.chunks_exact(columns as usize).all(|row| row.as_chunks::<2>().1.iter().all(|&odd| odd == C::ZERO))
}

/// Where the pair of a column begins.
#[inline]
fn place(columns: u32, column: u32) -> usize {
    2 * (column / 2).min(columns / 2 - 1) as usize
}
