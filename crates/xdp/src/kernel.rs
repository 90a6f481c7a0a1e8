//! Two calls to the kernel that nobody else makes for us: to run a program on a packet, and to wait for programs that run.

use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `BPF_PROG_TEST_RUN`.
const TEST_RUN: libc::c_int = 10;
/// What a packet may grow to; none does.
const ROOM: usize = 64;

/// What a program did with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Whether the packet passes.
    pub passes: bool,
    /// The packet as it was left.
    pub packet: Vec<u8>,
    /// Nanoseconds a run, the mean.
    pub nanoseconds: u32,
}

/// The part of `union bpf_attr` that is for such a run, as `linux/bpf.h` has it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    program: u32,
    verdict: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    nanoseconds: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

/// Runs a program so often on a packet, each time on what the time before left.
pub(crate) fn run(program: BorrowedFd<'_>, packet: &[u8], repeat: u32) -> Result<Ran> {
    let mut out = vec![0; packet.len() + ROOM];
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        bytes_in: packet.len() as u32,
        bytes_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads and writes `attributes`, whose size it is told, reads `bytes_in` bytes at `data_in`, which `packet` has, and
    // writes `bytes_out` at `data_out` at most, which `out` has; all of them outlive the call.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut attributes, size_of::<Attributes>() as libc::c_uint)
    };
    if done != 0 {
        return Err(Error::Run { bytes: packet.len(), why: io::Error::last_os_error().to_string() });
    }
    out.truncate(attributes.bytes_out as usize);
    /// `XDP_PASS`.
    const PASS: u32 = 2;
    Ok(Ran { passes: attributes.verdict == PASS, packet: out, nanoseconds: attributes.nanoseconds })
}

/// Waits until every program that runs now has ended: they run within the kernel's read-side sections, for whose end this call waits
/// (`membarrier(2)`, which is `synchronize_rcu`). Some 10 ms.
pub(crate) fn wait_for_programs() -> Result<()> {
    // SAFETY: it takes no pointer, and touches no memory of this process.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    match done {
        0 => Ok(()),
        _ => Err(Error::Round { why: io::Error::last_os_error().to_string() }),
    }
}
