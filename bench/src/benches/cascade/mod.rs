//! The cascade filter on flash beside the filters of the paper's evaluation (section 3), at a false-positive rate of 0.04 %.
//!
//! ```text
//!   mmap_bloom         a Bloom filter of 11 functions in a memory map, MADV_RANDOM
//!   elevator           the same bits, written in sorted sweeps: all RAM is a buffer of positions
//!   paper              the cascade of three-bit quotient filters; paper_tombstones: with the fourth bit, for removals
//!   overbank           crates/overbank/src/filter/cascade, one thread inserts; overbank_2: two threads with a writer each
//! ```
//!
//! * **Inserts** run in a fresh process in a memory cgroup, page cache counted, from an empty filter until everything is on
//!   flash and synced. The Bloom filters' files are written with zeros before, so that their first access to a block costs
//!   what every other does. Rivals stop when their time is up: their rate is that of the keys on flash by then. Of the limit,
//!   24 MiB are left for program, stack, the windows of sweeps and merges, and the latencies; the rest is the filter's.
//! * **Curves** (figure 3) are drawn of the same samples: keys inserted over time, the longest batch of each tenth of a second,
//!   and as figures the latencies of batches of 4096 keys.
//! * **Look-ups** ask filters that the parent process built, in such a cgroup, with dropped caches, beside fio at the same
//!   depth. The paper's has all its levels full: its six reads. Ours is asked as the load left it, and (overbank_rested) a copy of it
//!   after its writers have rested.
//! * **Tombstones** are insert rates with a tenth of the operations removals of older keys, and with none.
//! * **One key at a time**, in RAM: new, known and unknown keys, beside the same in batches (overbank_single, overbank).
//! * **Samples** are real keys, in their order: what of them had been seen before, by one pass of insert-if-absent.
//!
//! The paper's has 11 bits of remainder at its largest level, as there. The rates of its levels add up, to 0.07 % when all are full:
//! in that it is let off lightly.
//!
//! Keys are made and hashed inside the clock, as in the paper.

mod curve;
mod elevator;
mod engine;
mod filter;
mod insert;
mod keys;
mod mapped;
mod ours;
mod paper;
mod query;
mod removal;
mod sample;
mod single;

use crate::{Bench, Result, Run, Size, bloom_bytes};
use keyhash::{HashKind, KeyHasher, Seed};
use overbank::device::BLOCK_BYTES;
use std::time::Duration;

/// The registered bench of changes.
pub(super) const BENCH: Bench = Bench {
    name: "cascade",
    about: "membership on flash: inserts, stalls, removals, one by one, beside the paper's and Bloom filters",
    engines: &[
        "overbank",
        "overbank_2",
        "overbank_single",
        "paper",
        "paper_tombstones",
        "elevator",
        "mmap_bloom",
        "hash_set",
        "fio",
    ],
    run: changes,
};

/// The registered bench of look-ups.
pub(super) const QUERIES: Bench = Bench {
    name: "cascade_query",
    about: "membership on flash: look-ups one at a time and in batches, beside the paper's and Bloom filters",
    engines: &["overbank", "overbank_rested", "paper", "mmap_bloom", "fio"],
    run: queries,
};

/// The false-positive rate of the evaluation.
const RATE: f64 = 4e-4;

/// The least share that ours accepts, for two writers, in whole MiB.
const LEAST_MEMORY_BYTES: usize = 20 << 20;

/// What a process may hold besides a filter's share.
const PROGRAM_BYTES: u64 = 24 << 20;

/// One point of the evaluation.
#[derive(Clone, Copy, Debug)]
struct Shape {
    keys: u64,
    /// A filter's share of the RAM.
    memory_bytes: usize,
    /// The cgroup's limit.
    ram_bytes: u64,
    /// How long a rival may insert or be asked.
    patience: Duration,
}

impl Shape {
    /// Bytes of a Bloom filter's file, whole blocks.
    fn bloom_bytes(&self) -> Result<u64> {
        Ok(bloom_bytes(self.keys, RATE, BLOCK_BYTES as u64)? as u64)
    }
}

fn changes(run: &mut Run<'_>) -> Result<()> {
    // Keys and the cgroup's limit in MiB.
    let points: &[(u64, u64)] =
        run.pick([&[(50_000, 64)], &[(48_000_000, 44)], &[(600_000_000, 64), (2_500_000_000, 256)]]);
    for &(keys, ram_mib) in points {
        let shape = shape(run, keys, ram_mib);
        insert::contest(run, shape)?;
    }
    let changed = shape(run, run.pick([30_000, 24_000_000, 200_000_000]), ram_mib(run));
    removal::contests(run, changed)?;
    sample::contests(run)?;
    single::contests(run)
}

fn queries(run: &mut Run<'_>) -> Result<()> {
    let asked = shape(run, run.pick([40_000, 12_000_000, 600_000_000]), ram_mib(run));
    query::contests(run, asked)
}

/// The cgroup's limit of what is not a point of the inserts, in MiB.
fn ram_mib(run: &Run<'_>) -> u64 {
    run.pick([64, 44, 64])
}

fn shape(run: &Run<'_>, keys: u64, ram_mib: u64) -> Shape {
    let ram_bytes = ram_mib << 20;
    Shape {
        keys,
        // A smoke run's filters outgrow their share as a full one's do.
        memory_bytes: if run.size() == Size::Smoke { 64 << 10 } else { (ram_bytes - PROGRAM_BYTES) as usize },
        ram_bytes,
        patience: run.pick([100, 2_000, 60_000].map(Duration::from_millis)),
    }
}

/// The hash of every engine's keys.
fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}
