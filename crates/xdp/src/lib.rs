//! Sketches of an interface's packets, counted inside the kernel by XDP: the programs of `bpf/`, loaded, attached, polled, read.
//!
//! ```text
//!   kernel: a packet ─▶ counters of its processor ── τ reached: place, key, value ──▶ ring
//!                              │ read and cleared, once the round is over             │ poll
//!                              ▼                                                      ▼
//!   Epoch  =  what the counters held at the end of each round  +  what came by the ring
//! ```
//!
//! 1. Every packet passes. A packet is counted once: in a counter, or in a message, of one epoch.
//! 2. A ring that is full loses nothing and wraps nothing: what it has no room for stays in a counter of 64 bits.
//! 3. A round ends with a word to the kernel's programs, and the kernel's own answer that none runs any more that has not heard it: an
//!    epoch has all packets that came before its end, and no other.
//! 4. The kernel takes the program off when the process ends, however it ends: the link is a file of the process's.
//!
//! | sketch      | counters of a processor, twice                | an epoch answers                          |
//! |-------------|-----------------------------------------------|-------------------------------------------|
//! | count-min   | 3 rows of 16,384 of 8 bits, as many of 64     | [`Epoch::sizes`], [`Epoch::names`]        |
//! | count       | the same, signed                              | [`Epoch::signed_sizes`], [`Epoch::names`] |
//! | Coco        | 2 rows of 2,048 keys and counts, 48 bytes     | [`Epoch::parts`]                          |
//! | HyperLogLog | 16,384 registers                              | [`Epoch::distinct`]                       |
//! | flows       | those of count-min and of HyperLogLog         | what both do                              |
//!
//! | ns a packet beside an empty program, τ 20 | of IPv4 | of IPv6 |
//! |--------------------------------------------|---------|---------|
//! | count-min                                  | 37      | 58      |
//! | count                                      | 38      | 57      |
//! | Coco                                       | 31      | 43      |
//! | HyperLogLog                                | 26      | 45      |
//! | flows                                      | 47      | 69      |
//!
//! These are medians of `cargo run -p overbank-xdp --example cost` on a busy 2.5 GHz Xeon, one flow, its counters near. With τ of 1,
//! three messages a packet, count-min takes some 140.
//!
//! The programs are loaded by aya, which is Rust alone: libbpf-rs would bring libelf and zlib, and a C compiler at each build of the
//! command.
//!
//! Source: OctoSketch, sections 4, 6 and 7.3. Deviations: a counter of 64 bits beside each of 8, so that none wraps however long the
//! ring is full; counters are read at the end of each round, so an answer lacks nothing that was not sent.

#[cfg(target_os = "linux")]
mod epoch;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod threshold;
#[cfg(target_os = "linux")]
mod worker;

#[cfg(target_os = "linux")]
pub use epoch::{Epoch, Packets};
#[cfg(target_os = "linux")]
pub use kernel::Ran;
#[cfg(target_os = "linux")]
pub use program::{FlowFields, Mode, Options, Sketch};
#[cfg(target_os = "linux")]
pub use threshold::{TAU_MAX, Threshold};
#[cfg(target_os = "linux")]
pub use worker::XdpWorker;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The crate was built where clang or libbpf's headers were missing.
    #[error("this build has no kernel program; install clang and libbpf-dev, and build it again")]
    NoProgram,

    /// The kernel refused the program, or one of its maps.
    #[error(
        "the kernel does not take the XDP program: {why}; it needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON) and Linux 5.9 or newer, \
         and before 5.11 memory that may be locked (ulimit -l unlimited)"
    )]
    Refused {
        /// What it said.
        why: String,
    },

    /// The interface cannot have it.
    #[error(
        "cannot attach to {interface}: by its driver: {native}; before it: {generic}; see that it is there, up, and has no other XDP \
         program (ip link show {interface})"
    )]
    Attach {
        /// Its name.
        interface: String,
        /// Why not by its driver.
        native: String,
        /// Why not before it.
        generic: String,
    },

    /// A map of the program could not be read or written.
    #[error("cannot read what the program counted: {why}; run again, and if it stays so, count without XDP")]
    Map {
        /// What the kernel said.
        why: String,
    },

    /// The kernel does not wait for its programs.
    #[error(
        "the kernel does not say when a round is over: {why}; processors without ticks (nohz_full) and kernels without membarrier cannot; \
         count without XDP"
    )]
    Round {
        /// What it said.
        why: String,
    },

    /// A packet cannot be given to the program.
    #[error("cannot run the program on {bytes} bytes: {why}; give 14 to some 3,500")]
    Run {
        /// Its length.
        bytes: usize,
        /// What the kernel said.
        why: String,
    },
}

/// The result of what can fail.
pub type Result<T> = std::result::Result<T, Error>;
