//! Pages: items that decode alone, some 4 or 16 KiB of them, or one item as long as it is.
//!
//! ```text
//!   items in hash order ─▶ PageBuilder ─▶ bytes of one block or several ─▶ Page ─▶ find, one key │ items, in order
//! ```
//!
//! Invariants:
//! 1. Equal items make equal bytes.
//! 2. A page says nothing of a key that it does not have: keys are compared whole.
//! 3. Bytes that no writer made are `Corrupt`, or a key is not found: they lead nowhere outside the page.
//!
//! | a page of n items | CPU | RAM |
//! |---|---|---|
//! | build | O(n), some 20 ns an item | the page |
//! | find | O(n), below half a nanosecond an item | 0 |
//! | next item | O(1) | 0 |

mod builder;
mod format;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use builder::PageBuilder;
pub(crate) use format::Sizes;
pub(crate) use reader::{Page, PageCursor, Place};
