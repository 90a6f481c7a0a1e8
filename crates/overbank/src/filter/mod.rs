//! Filters: have I seen this key? "No" is certain, "yes" errs at a rate that is known.
//!
//! ```text
//!   KeyHash.high()   │ quotient, q bits │ remainder, r bits │ not stored │      a fingerprint is the top p = q + r bits
//! ```
//!
//! Quotient order is hash order, so filters merge as sorted arrays do, and their sizes double and halve by moving the border.

pub mod quotient;

pub use quotient::QuotientFilter;
