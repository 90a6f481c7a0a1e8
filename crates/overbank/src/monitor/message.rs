//! The first word of a message: which counter, what it held, and whether a key follows.
//!
//! ```text
//!   63            40 39     38                       0
//!   ├──── cell ─────┤keyed ├───────── value ──────────┤
//! ```

/// Bits of a value: 2^39 bytes are minutes of the fastest link. What is more waits with the worker for a message of its own, and queries
/// count it there.
pub(super) const VALUE_BITS: u32 = 39;
const KEYED: u64 = 1 << VALUE_BITS;
const CELL_SHIFT: u32 = VALUE_BITS + 1;
/// How many counters a message can name.
pub(super) const CELLS_MAX: usize = 1 << (u64::BITS - CELL_SHIFT);

/// Packs a message's first word. `value` has at most [`VALUE_BITS`] bits, `cell` is below [`CELLS_MAX`].
#[inline]
pub(super) fn header(cell: usize, is_keyed: bool, value: u64) -> u64 {
    (cell as u64) << CELL_SHIFT | if is_keyed { KEYED } else { 0 } | value
}

/// The counter that the message is about.
#[inline]
pub(super) fn cell(header: u64) -> usize {
    (header >> CELL_SHIFT) as usize
}

/// What it held, as [`Rule::pack`](super::rule::Rule::pack) made it.
#[inline]
pub(super) fn value(header: u64) -> u64 {
    header & (KEYED - 1)
}

/// Whether the words of a key follow.
#[inline]
pub(super) fn is_keyed(header: u64) -> bool {
    header & KEYED != 0
}
