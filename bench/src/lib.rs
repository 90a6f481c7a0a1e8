//! One harness for every figure that the project publishes.
//!
//! ```text
//!   main ──▶ Bench::run(&mut Run) ──▶ Contest: engines side by side, alternating rounds
//!                 │                        │ each sample: a closure given a Clock
//!                 │                        ├── in this process, or
//!                 │                        └── in a fresh child (peak RSS, memory cgroup)
//!                 └── Workload: named keys, fixed seeds          ▼
//!                                                     Report: table at 80 columns, JSON lines
//! ```
//!
//! To add a bench: write `benches/<name>.rs` with a `pub(super) const BENCH: Bench` and put it into
//! [`benches::ALL`]; `benches/hash.rs` is the pattern. The smoke test then runs it, so it cannot rot.
//!
//! Invariants:
//! 1. Cases and metrics are enums, units follow from metrics, engines are declared by their bench: a
//!    misspelt name does not compile or does not run.
//! 2. Exact engines of one contest must return the same digest in every round; a mismatch ends the run
//!    with an error.
//! 3. A value is the median of its rounds; rounds alternate the order of the engines, so a drifting
//!    machine favours nobody.
//! 4. `--quick` and `--smoke` print the same figures as a full run, on smaller inputs.
//! 5. An engine whose own process dies, of a memory limit perhaps, has no figure; the others go on, and the run fails at
//!    its end.
#![deny(unsafe_code)]

pub mod benches;
mod block_count;
mod bloom;
mod cgroup;
mod chart;
mod child;
mod clock;
mod cold;
mod contest;
mod digest;
mod direct;
mod figure;
mod fio;
mod line_file;
mod machine;
#[allow(unsafe_code, reason = "a rival that is defined by its memory map needs one")]
mod mapping;
mod random;
mod report;
mod run;
pub mod three_bit;
mod workload;
mod zipf;

pub use block_count::BlockCount;
pub use bloom::{bloom_bits_a_key, bloom_bytes, bloom_contains, bloom_insert, bloom_positions};
pub use cgroup::MemoryGroup;
pub use chart::{Chart, Line, Panel};
pub use child::{Holdings, ProcessTree, peak_rss_bytes};
pub use clock::{Clock, Sample, thread_cpu_ns};
pub use cold::{Dropped, drop_caches, forget_file};
pub use contest::Contest;
pub use digest::{digest_bytes, digest_u64s, digest_unordered};
pub use direct::{folder_bytes, largest_file, open_direct, write_zeros};
pub use figure::{Case, Figure, Metric, Params};
pub use fio::Fio;
pub use line_file::LineFile;
pub use machine::machine;
pub use mapping::{Mapping, Readahead};
pub use random::Random;
pub use report::Report;
pub use run::{Bench, ChildTask, Run, Size};
pub use workload::Workload;
pub use zipf::Zipf;

/// The result of a bench. Benches are programs, so the error is any error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
