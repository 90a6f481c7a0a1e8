//! Fuzz targets, each a function of bytes, and two ways to feed them.
//!
//! ```text
//!   targets/x.rs   TARGET: seeds, and run(bytes)
//!        ├── tests/smoke.rs      on stable, in `make test`: seeds, then seeded random mutations of them
//!        └── fuzz_targets/x.rs   libFuzzer, in `make fuzz`: coverage-guided, for as long as you like
//! ```
//!
//! To add a target: `targets/x.rs` with a `TARGET`, its line in [`targets::ALL`], and for libFuzzer a copy of
//! `fuzz_targets/sealed_block.rs` with its `[[bin]]` in Cargo.toml. A test holds the three together.
//!
//! Invariants:
//! 1. A target panics exactly when the code under test is wrong; damaged input is an `Err`, never a panic.
//! 2. Every seed is accepted, so mutations start from inside the format.
//! 3. Where a checksum guards a format, the target tries each input twice: as it is, and with the checksum
//!    mended. Otherwise no mutation would ever get past it.
#![forbid(unsafe_code)]

mod image;
mod mutate;
mod sketch_bytes;
mod smoke;
pub mod targets;

pub use mutate::Mutator;
pub use smoke::{Crash, Tally, smoke};

/// What the code under test made of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was well formed.
    Accepted,
    /// It was refused with an error, as it should be.
    Refused,
}

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its file.
    pub name: &'static str,
    /// Well-formed inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds one input to the code under test; panics when that is wrong.
    pub run: fn(&[u8]) -> Verdict,
}

impl Target {
    /// Runs one input and forgets the verdict: libFuzzer asks for panics only.
    pub fn call(&self, data: &[u8]) {
        (self.run)(data);
    }
}
