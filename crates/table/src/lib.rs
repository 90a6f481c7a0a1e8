//! Group-by over record batches of Arrow, in compressed memory: SQL's GROUP BY on `overbank::aggregate`.
//!
//! ```text
//!   RecordBatch ─▶ key columns ─▶ one key of bytes ─┐
//!                  value columns ─▶ items of rows ──┴─▶ Groups<Columns> ─▶ values ─▶ RecordBatch in hash order, sorted, or the first n
//! ```
//!
//! * [`TableGroups`]: batches in, batches out; [`Call`]: functions as people write them; [`TableOptions`]: memory, sums, batches.
//! * `key`: keys of several columns as bytes; `cell`: single values out of arrays and into them; `plan`: which functions of the library
//!   compute a call, and the type of its results; `results`: batches in an order.
//!
//! As in SQL, NULL is a group of its own, −0.0 is 0.0, all NaNs are one group, and NULLs take part in no function but a count of rows.
//! Results are the same for any order of batches and any number of threads, sums of floats too; only `first`, `last` and `list` ask for an
//! order of rows, which [`TableGroups::insert_at`] is told.
#![forbid(unsafe_code)]

mod call;
mod cell;
mod error;
mod groups;
mod key;
mod options;
mod plan;
mod results;
mod table;

pub use call::{Call, CallFunction};
pub use error::{Error, Result};
pub use groups::TableGroups;
pub use options::TableOptions;
pub use plan::SumOverflow;
pub use results::{Order, TableBatches};
