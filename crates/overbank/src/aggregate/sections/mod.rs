//! What parts keep that is not of a fixed size, each as the bytes of a section of the tail.
//!
//! | section | bytes | at most |
//! |---|---|---|
//! | `list` | an item and a byte or more for its place | `most` of them |
//! | `distinct` | an item | `most` of them |
//! | `frequent` | an item, its count, 4 for a row of the sample | `tracked` of them |
//! | `registers` | 2 or 3 a register in use | 2^lg_m + 1 |
//! | `bins` | 2 a bin in use | 2048 bins of 15 |
//! | `bitmap` | 1 or more a number | `below` / 8 + 2 |
//!
//! 1. A section is a function of the multiset of rows: not of their order, or of how states were merged.
//! 2. An empty section is that of no items.
//! 3. Sections may come from a file: `None` is the answer for bytes that no section has.

pub(super) mod bins;
pub(super) mod bitmap;
pub(super) mod distinct;
pub(super) mod frequent;
pub(super) mod list;
pub(super) mod registers;
