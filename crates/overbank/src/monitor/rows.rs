//! Where a key's counters lie: one in each of `D` rows, row after row.

use super::message::CELLS_MAX;
use crate::Result;
use crate::error::invalid;

/// Fails unless there are 1 to 16 rows of `columns_min` columns or more, and a message can name `each` counters of each of their cells.
pub(super) fn require(columns: u32, columns_min: u32, depth: usize, each: usize) -> Result<()> {
    let most = CELLS_MAX / 2 / each.saturating_mul(depth.clamp(1, 16)).max(1);
    if !(1..=16).contains(&depth) || columns < columns_min || columns as usize > most {
        let why = format!(
            "choose 1 to 16 rows of {columns_min} columns or more, and of {depth} rows at most {most}"
        );
        return invalid("columns", columns, why);
    }
    Ok(())
}

/// The counters of a fold, of a table of `columns` a row that begins with counter `first`.
#[inline]
pub(super) fn places<const D: usize>(fold: u64, columns: u32, mut first: u32) -> [u32; D] {
    keyhash::columns::<D>(fold, columns.into()).map(|column| {
        let place = first.wrapping_add(column as u32);
        first = first.wrapping_add(columns);
        place
    })
}
