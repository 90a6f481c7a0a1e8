//! Group-by in compressed memory beside hash maps, the paper's tree, and the programs that people use.
//!
//! ```text
//!   overbank, overbank_2                crates/overbank/src/aggregate: 1 and 2 threads, in the memory that the figure names
//!   overbank_flash                      in a quarter of that memory, or 2 MiB; the rest on flash
//!   paper, paper_raw                    the published tree, and without compression: 2 workers             …/aggregate/tree
//!   sparse, sparse_pointer              a sparse hash map; keys in place, and in the heap               map/
//!   arena, arena_fixed                  hashbrown; keys in one arena, and in place
//!   dashmap_2, dashmap_pointer_2        a concurrent map, 2 threads
//!   sort                                `sort | uniq -c` in the C locale, by its default memory
//!   duckdb, polars, datafusion          as they come, and (…_limited, …_streaming) told to make do     bench/rivals/aggregate.py
//!   kmc, jellyfish                      of k-mers alone; both strands as they stand                    apt-get install kmc jellyfish
//! ```
//!
//! Every sample runs in a process of its own. What counts in that process reads the parsed records into memory first; the clock runs from
//! the first record to the last group, finalized and walked through. Programs read a file that is in the page cache. CPU is of all
//! threads, by the kernel's account; the peak of resident memory is that beyond what the process held before the first record: beyond
//! the parsed input, and for Python beyond the interpreter and its libraries.
//!
//! All must agree on the number of groups, of records, and the sum of the squares of counts; those that show their groups, on each of them.
//!
//! | bench | of the paper | what |
//! |---|---|---|
//! | `aggregate` | figure 6, table 4 | all engines, all workloads; `cents_per_g_ops`: the paper's cost model, for a billion records |
//! | | figure 8 | of the tree, CPU time by kind of work: `sort_ns` and `merge_ns`, which aggregate, `compress_ns`, … `rest_ns`; of the |
//! | | | sparse map, by samples: `find_ns`, which hashes, probes, compares and adds, `key_ns`, `place_ns`, which allocates, `resize_ns` |
//! | `aggregate_refresh` | figure 7 | throughput over the number of finalizations |
//! | `aggregate_factors` | figures 10, 11, 12 | the tree feature by feature, then ours; its buffers, fan-out, workers, trees; our memory |
//! | `aggregate_shapes` | figures 9, 13 | throughput and memory over groups, repeats, lengths of keys |
//!
//! ```text
//!   cargo run --release -p overbank-bench -- aggregate --quick
//!   cargo run --release -p overbank-bench -- aggregate --engines overbank,arena,duckdb --rounds 1
//!   cargo run --release -p overbank-bench -- aggregate_shapes --output pictures
//! ```
//!
//! At full size 100 M records of 10 M groups: 4 GB of memory for the parsed ones, 5 GB of disk for the files of a workload.

mod answer;
mod bed;
mod compare;
mod cost;
mod engine;
mod factor;
mod input;
mod interval;
mod job;
mod map;
mod ours;
mod paper;
mod points;
mod process;
mod shape;
mod workload;

use crate::Bench;

/// The registered bench of everybody.
pub(super) const BENCH: Bench = Bench {
    name: "aggregate",
    about: "counts of keys: groups in compressed memory, hash maps, the paper's tree, databases",
    engines: ENGINES,
    run: compare::run,
};

/// The registered bench of finalizations.
pub(super) const INTERVALS: Bench = Bench {
    name: "aggregate_refresh",
    about: "groups that are finalized again and again",
    engines: ENGINES,
    run: interval::run,
};

/// The registered bench of features and knobs.
pub(super) const FACTORS: Bench = Bench {
    name: "aggregate_factors",
    about: "the paper's tree feature by feature and knob by knob, and ours after it",
    engines: ENGINES,
    run: factor::run,
};

/// The registered bench of workloads' properties.
pub(super) const SHAPES: Bench = Bench {
    name: "aggregate_shapes",
    about: "counts of keys over the number of groups, of repeats, and the length of keys",
    engines: ENGINES,
    run: shape::run,
};

const ENGINES: &[&str] = &[
    "overbank",
    "overbank_2",
    "overbank_flash",
    "paper",
    "paper_raw",
    "sparse",
    "sparse_pointer",
    "arena",
    "arena_fixed",
    "dashmap_2",
    "dashmap_pointer_2",
    "sort",
    "duckdb",
    "duckdb_limited",
    "polars",
    "polars_streaming",
    "datafusion",
    "datafusion_limit",
    "kmc",
    "jellyfish",
];
