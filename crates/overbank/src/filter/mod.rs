//! Have I seen this key? Fingerprints in little space, in RAM and on flash.
//!
//! [`run`]: the levels on flash, immutable sorted files of packed fingerprints that answer with one block read.

pub mod run;
