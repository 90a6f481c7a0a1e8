//! Membership: have I seen this key? Fingerprints in little space; "no" is certain, "yes" errs at a rate that is known.
//!
//! ```text
//!   KeyHash.high()   │ quotient, q bits │ remainder, r bits │ not stored │      a fingerprint is the top p = q + r bits
//! ```
//!
//! Quotient order is hash order, so filters merge as sorted arrays do, and their sizes double and halve by moving the border.
//!
//! [`quotient`]: a filter in RAM. [`run`]: the levels on flash, immutable sorted files of packed fingerprints that answer with
//! one block read.

pub mod cascade;
pub mod quotient;
#[cfg(not(feature = "internals"))]
pub(crate) mod run;
#[cfg(feature = "internals")]
pub mod run;

pub use quotient::QuotientFilter;
