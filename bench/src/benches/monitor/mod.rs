//! Continuous monitoring by many cores, as the paper evaluates it (section 7 and appendix D).
//!
//! ```text
//!   ideal          one sketch sees all packets                                             sketch/
//!   overbank       workers and an aggregator; a reader's answer, with what workers hold     monitor/
//!   paper          the same, by the aggregator's counters alone: the paper's answer
//!   sketch_merge   a sketch a worker, two of them in turn, merged all the time              crew/merging.rs
//!   iceberg        local heavy flows, of which all workers are asked, round after round     crew/asking.rs
//! ```
//!
//! | bench | of the paper | what |
//! |---|---|---|
//! | `monitor_accuracy` | figures 10, 11, 12, 20, 21 | F1, recall, precision, errors at many times: over workers and skew |
//! | `monitor_speed` | figures 4, 13 | inserts a second of a worker, by CPU time and wall; messages and merges of the aggregator |
//! | `monitor_queue` | figures 17, 18 | τ and the queue over time; latencies of batches of 32 packets |
//! | `monitor_cases` | figures 19, 22 | imbalance of a load balancer, hit ratio of a cache, on a real trace too |
//!
//! ```text
//!   cargo run --release -p overbank-bench -- monitor --quick          all of them
//!   cargo run --release -p overbank-bench -- monitor_accuracy --output pictures
//! ```
//!
//! Source: Zhang, Chen, Liu, "OctoSketch: enabling real-time, continuous network monitoring over multiple cores" (NSDI 2024). Its traces
//! are not free: packets follow Zipf's law, the cache's requests a real trace, too.

mod accuracy;
mod cases;
mod crew;
mod draw;
mod heaviest;
mod queue;
mod score;
mod single;
mod speed;
mod stream;
mod subject;
mod team;

use crate::Bench;

/// The registered bench of online accuracy.
pub(super) const ACCURACY: Bench = Bench {
    name: "monitor_accuracy",
    about: "sketches of a stream that many cores receive: how right they are at any time",
    engines: ENGINES,
    run: accuracy::run,
};

/// The registered bench of speed.
pub(super) const SPEED: Bench = Bench {
    name: "monitor_speed",
    about: "what a packet costs a worker, and a message the aggregator",
    engines: ENGINES,
    run: speed::run,
};

/// The registered bench of thresholds and latencies.
pub(super) const QUEUES: Bench = Bench {
    name: "monitor_queue",
    about: "how the threshold follows what comes, and how long a batch of 32 packets takes",
    engines: ENGINES,
    run: queue::run,
};

/// The registered bench of what heavy flows are wanted for.
pub(super) const CASES: Bench = Bench {
    name: "monitor_cases",
    about: "a load balancer and a key-value cache that go by the heavy flows found so far",
    engines: ENGINES,
    run: cases::run,
};

const ENGINES: &[&str] = &[
    "ideal",
    "overbank",
    "overbank_wide",
    "overbank_hashed",
    "paper",
    "sketch_merge",
    "iceberg",
    "octosketch",
    "octosketch_merge",
    "octosketch_ideal",
    "asap_sketchlib",
    "asap_worker",
];
