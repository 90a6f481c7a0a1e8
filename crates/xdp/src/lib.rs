//! A count-min sketch of an interface's packets, counted inside the kernel by XDP: `bpf/count_min.bpf.c`.
//!
//! ```text
//!   kernel: a packet ─▶ counters of its processor ── τ reached: row, key, value ──▶ ring
//!                              │ read, where nothing is under way                     │ poll
//!                              ▼                                                      ▼
//!   Counters = what the counters hold  +  what came by the ring                    applied
//! ```
//!
//! 1. Every packet passes. A packet is counted once: in a counter, or in a message.
//! 2. A ring that is full loses nothing and wraps nothing: its counter stays, and is sent when there is room.
//! 3. The kernel takes the program off when the process ends, however it ends: the link is a file of the process's.
//!
//! | | |
//! |---|---|
//! | a packet of IPv4, beside an empty program | some 31 ns; 80 where the ring is full |
//! | … of IPv6 | some 55 ns |
//! | memory in the kernel | 96 KiB a processor, and a ring of 1 MiB |
//!
//! The program is loaded by aya, which is Rust alone: libbpf-rs would bring libelf and zlib, and a C compiler at each build of the command.
//!
//! Source: OctoSketch, sections 6 and 7.3. Deviations: counters have 64 bits, not 8, so that none wraps however long the ring is full; all
//! of them can be read at any time, so an answer lacks nothing that was not sent.

#[cfg(target_os = "linux")]
mod monitor;

#[cfg(target_os = "linux")]
pub use monitor::{Counters, Mode, Tally, XdpMonitor};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The crate was built where clang or libbpf's headers were missing.
    #[error("this build has no kernel program; install clang and libbpf-dev, and build it again")]
    NoProgram,

    /// The kernel refused the program, or one of its maps.
    #[error(
        "the kernel does not take the XDP program: {why}; it needs CAP_BPF and CAP_NET_ADMIN (root), and Linux 5.9 or newer"
    )]
    Refused {
        /// What it said.
        why: String,
    },

    /// The interface cannot have it.
    #[error(
        "cannot attach to {interface}: native: {native}; generic: {generic}; see that it is there, up, and has no other XDP program"
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
    #[error("cannot read what the program counted: {why}")]
    Map {
        /// What the kernel said.
        why: String,
    },

    /// Packets came all the while.
    #[error("the counters were never still in {tries} tries; τ is too low for this traffic: raise it")]
    Restless {
        /// How often it was tried.
        tries: usize,
    },
}

/// The result of what can fail.
pub type Result<T> = std::result::Result<T, Error>;
