//! Every registered bench. One file a bench; the name on the command line is the file's.

use crate::Bench;

mod device;
mod hash;

/// All benches, in the order in which `all` runs them.
pub const ALL: &[&Bench] = &[&device::BENCH, &hash::BENCH];

/// The bench of that name.
pub fn find(name: &str) -> Option<&'static Bench> {
    ALL.iter().copied().find(|bench| bench.name == name)
}
