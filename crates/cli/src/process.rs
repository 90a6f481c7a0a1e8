//! What the kernel tells of this process and this machine; 0 or nothing where it does not.

use crate::failure::Failure;
use crate::units;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The high-water mark of resident memory.
pub(crate) fn peak_memory_bytes() -> u64 {
    figure("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// Bytes that this process had the devices write so far.
pub(crate) fn written_bytes() -> u64 {
    figure("/proc/self/io", "write_bytes:").unwrap_or(0)
}

/// Whether the process was started to ignore a signal, as `nohup` and shells without job control have it.
pub(crate) fn ignores(signal: i32) -> bool {
    let mask = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"))?.trim().to_owned();
        u64::from_str_radix(&mask, 16).ok()
    });
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Lets this process have as many files open as it may ask for: a store has each of its own.
pub(crate) fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, whoever opens too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What a process holds beside its budget: the program itself, stacks, the allocator's slack.
const ALLOWANCE_BYTES: u64 = 24 << 20;

/// Refuses a budget that the machine or a limit of the process does not have: the allocation would end the process without a word.
pub(crate) fn check_memory(budget_bytes: u64) -> Result<(), Failure> {
    let needed_bytes = budget_bytes.saturating_add(ALLOWANCE_BYTES);
    if let Some(limit_bytes) = getrlimit(Resource::As).current.filter(|limit| *limit < needed_bytes) {
        return Err(Failure::Usage(format!(
            "--memory {} needs an address space of {} with the program itself, and this process may have {}; give less, or raise \
             the limit (ulimit -v)",
            units::bytes(budget_bytes),
            units::bytes(needed_bytes),
            units::bytes(limit_bytes)
        )));
    }
    let Some(machine_bytes) = figure("/proc/meminfo", "MemTotal:") else { return Ok(()) };
    if budget_bytes <= machine_bytes {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--memory {} is more than the {} that this machine has; give less",
        units::bytes(budget_bytes),
        units::bytes(machine_bytes)
    )))
}

/// A figure, in bytes where the kernel gives it in kB.
fn figure(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?.trim();
    match rest.strip_suffix(" kB") {
        Some(kib) => Some(kib.trim().parse::<u64>().ok()? * 1024),
        None => rest.parse().ok(),
    }
}
