//! Count-min on flash: ours beside the baselines of the paper, at the sizes of its evaluation (section 5).
//!
//! ```text
//!   classic            cells in a memory map, MADV_RANDOM: `depth` random pages an update or estimate
//!   classic_readahead  the same with the kernel's default advice
//!   paper              sub-buffers in RAM, one a page; a full one costs a page read and a page write
//!   overbank           crates/overbank/src/frequency, one thread; overbank_2: two threads with a writer each
//! ```
//!
//! * **Inserts** (figure 3, table 1) run in a fresh process in a memory cgroup, page cache counted, from an empty sketch
//!   until everything is applied and synced. The rivals' files are written with zeros before, so that their first access
//!   to a page costs what every other does; ours begins with no file. Rivals stop when their time is up: their rate is that
//!   of the updates that have reached the sketch by then. Of the limit, 24 MiB are left for program, stack and what else a
//!   process holds (one with no buffer peaks at 7 MB resident); the rest is the buffer of ours
//!   and of the paper's.
//! * **Queries** (figure 4) ask sketches that the parent process built, in the same cgroup, with dropped caches, for random
//!   keys: one a call beside fio at depth 1, as many a call as fio keeps reads in flight, and 4096 a call.
//! * **Errors** (figure 5) are over the distinct keys that were inserted, at equal bytes.
//!
//! Elements follow from the size as in section 5.2; table 1 implies cells of 8 bytes. Keys are made inside the clock, as in
//! the paper; for the laws whose keys cost something, `keys_alone` is that and their hashes, and no sketch.

mod classic;
mod error;
mod insert;
mod ours;
mod paper;
mod query;
mod rival;
mod stream;

use crate::{Bench, Result, Run, Size};
use keyhash::{HashKind, KeyHasher, Seed};
use rival::Cell;
use std::time::Duration;
use stream::Law;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "frequency",
    about: "count-min on flash: inserts, estimates, errors, beside the paper's and the classic",
    engines: &[
        "overbank",
        "overbank_2",
        "overbank_wide",
        "overbank_conserve",
        "overbank_small",
        "overbank_small_4",
        "paper",
        "classic",
        "classic_readahead",
        "keys_alone",
        "fio",
    ],
    run,
};

/// Rows: `ceil(ln(1 / 0.01))`.
const DEPTH: usize = 5;

/// The overestimate that the sketches are sized for: the paper's `O`.
const OVERESTIMATE: f64 = 8.0;

/// What a process may hold besides a sketch's buffer.
const PROGRAM_BYTES: u64 = 24 << 20;

/// The trace, unpacked, in the run's scratch folder.
const TRACE_FILE: &str = "trace";

/// One point of the evaluation.
#[derive(Clone, Copy, Debug)]
struct Shape {
    sketch_bytes: u64,
    cell: Cell,
    /// The cgroup's limit.
    ram_bytes: u64,
    /// How long a rival may take.
    patience: Duration,
}

impl Shape {
    /// How many updates of weight 1 fill it: `n = C * O / (D * e)`.
    fn elements(&self) -> u64 {
        let cells = self.sketch_bytes as f64 / self.cell.bytes() as f64;
        (cells * OVERESTIMATE / (DEPTH as f64 * std::f64::consts::E)) as u64
    }

    /// Chunks pending for each of our writers. Nothing is asked before everything is applied, so the knob stands at throughput,
    /// as far as the memory has readers; two writers fill buffers of half the size.
    fn pending(&self) -> usize {
        if self.buffer_bytes() < 32 << 20 { 16 } else { 64 }
    }

    /// RAM for a buffer of updates.
    fn buffer_bytes(&self) -> usize {
        (self.ram_bytes - PROGRAM_BYTES) as usize
    }
}

fn run(run: &mut Run<'_>) -> Result<()> {
    let scratch = run.scratch()?;
    if !run.is_child() {
        stream::unpack_trace(&run.testdata(), &scratch.join(TRACE_FILE))?;
    }
    let sizes_mib: &[u64] = run.pick([&[1], &[64], &[128, 256, 512, 1024]]);
    let cells: &[Cell] = run.pick([&[Cell::Four], &[Cell::Eight], &[Cell::Eight, Cell::Four]]);
    let shape = |run: &Run<'_>, sketch_mib: u64, cell| Shape {
        sketch_bytes: sketch_mib << 20,
        cell,
        ram_bytes: run.pick([32, 32, 64]) << 20,
        patience: run.pick([50, 600, 5_000].map(Duration::from_millis)),
    };
    for &sketch_mib in sizes_mib {
        for &cell in cells {
            let shape = shape(run, sketch_mib, cell);
            insert::contest(run, shape, Law::Uniform)?;
        }
    }
    let largest = shape(run, sizes_mib[sizes_mib.len() - 1], cells[0]);
    for law in [Law::Zipf(1.1), Law::Trace] {
        insert::contest(run, largest, law)?;
    }
    for &sketch_mib in sizes_mib {
        let shape = shape(run, sketch_mib, cells[0]);
        query::contests(run, shape, shape.sketch_bytes == largest.sketch_bytes)?;
    }
    // Without a contest, so a child process never comes here.
    let elements = run.pick([5_000, 500_000, 10_000_000]);
    for law in [Law::Uniform, Law::Zipf(1.1), Law::Trace] {
        error::table(run, law, elements)?;
    }
    Ok(())
}

/// The hash of every engine's keys.
fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

/// Caches are the machine's: a smoke run, which measures nothing, leaves them alone.
fn drops_caches(run: &Run<'_>) -> bool {
    run.size() != Size::Smoke
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_table_1() {
        for (sketch_mib, elements) in
            [(128, 9_875_188), (256, 19_750_377), (512, 39_500_754), (1024, 79_001_508)]
        {
            let shape = Shape {
                sketch_bytes: sketch_mib << 20,
                cell: Cell::Eight,
                ram_bytes: 64 << 20,
                patience: Duration::ZERO,
            };
            assert_eq!(shape.elements(), elements);
        }
    }
}
