//! Memory and CPU of whole processes: our own peak, and a command with all its descendants.

use crate::Result;
use crate::machine::field;
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The peak resident set of this process since it started, in bytes (`VmHWM`); 0 where /proc is missing.
pub fn peak_rss_bytes() -> u64 {
    status_kib("self", "VmHWM").unwrap_or(0) << 10
}

/// What this process held when it asked: so much of its peak is not of the work that follows.
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    bytes: u64,
}

impl Holdings {
    /// Takes down what is held, and has the kernel forget the peak before.
    pub fn now() -> Self {
        // Refused by some sandboxes: the peak is then that since the process started.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { bytes: status_kib("self", "VmRSS").unwrap_or(0) << 10 }
    }

    /// How much more was held at the peak since.
    pub fn grown_bytes(self) -> u64 {
        peak_rss_bytes().saturating_sub(self.bytes)
    }
}

/// What a command and all its descendants used.
#[derive(Debug)]
pub struct ProcessTree {
    /// How the command ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// From start to end.
    pub wall_ns: u64,
    /// User and system time of every process that was waited for, to the kernel's clock tick (10 ms).
    pub cpu_ns: u64,
    /// The largest sum of resident sets over the tree: sampled every 2 ms, and never less than the largest
    /// peak of a single process. Shared pages count once a process, as `ps` does.
    pub peak_rss_bytes: u64,
}

impl ProcessTree {
    /// Runs `command` to its end in a process group of its own and measures it.
    ///
    /// # Errors
    /// When the command cannot be started. A failing command is not an error: see `status`.
    pub fn measure(command: &mut Command) -> Result<Self> {
        const SAMPLE_EVERY: Duration = Duration::from_millis(2);
        let cpu_before = children_cpu_ns();
        let started = Instant::now();
        let mut child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut output = child.stdout.take().ok_or("the child has no standard output")?;
        let group = child.id();

        let (status, stdout, peak) = std::thread::scope(|scope| -> Result<_> {
            let reader = scope.spawn(move || {
                let mut bytes = Vec::new();
                output.read_to_end(&mut bytes).map(|_| bytes)
            });
            let mut peaks = Peaks::default();
            let status = loop {
                peaks.sample(group);
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                std::thread::sleep(SAMPLE_EVERY);
            };
            let stdout = reader.join().map_err(|_| "the reader of the child's output panicked")??;
            Ok((status, stdout, peaks.tree_bytes()))
        })?;

        let wall_ns = u64::try_from(started.elapsed().as_nanos())?;
        Ok(Self { status, stdout, wall_ns, cpu_ns: children_cpu_ns() - cpu_before, peak_rss_bytes: peak })
    }
}

/// Peaks seen so far of the processes of one group.
#[derive(Default)]
struct Peaks {
    sum_bytes: u64,
    single_bytes: HashMap<u32, u64>,
}

impl Peaks {
    fn sample(&mut self, group: u32) {
        let mut sum = 0;
        for pid in members(group) {
            let pid_text = pid.to_string();
            sum += status_kib(&pid_text, "VmRSS").unwrap_or(0) << 10;
            let peak = status_kib(&pid_text, "VmHWM").unwrap_or(0) << 10;
            self.single_bytes.entry(pid).and_modify(|old| *old = peak.max(*old)).or_insert(peak);
        }
        self.sum_bytes = self.sum_bytes.max(sum);
    }

    fn tree_bytes(&self) -> u64 {
        self.single_bytes.values().copied().fold(self.sum_bytes, u64::max)
    }
}

/// The processes of a process group.
fn members(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            after_name(&stat).nth(2).and_then(|text| text.parse().ok()) == Some(group)
        })
        .collect()
}

/// The CPU time of all descendants that were waited for, in nanoseconds.
fn children_cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = after_name(&stat).skip(13).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// The fields of /proc/PID/stat after the name, which may itself hold spaces and brackets: state, ppid,
/// pgrp, … cutime and cstime are numbers 13 and 14.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn status_kib(pid: &str, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&status, name)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_peak_grows_with_what_we_touch() {
        let before = peak_rss_bytes();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = peak_rss_bytes();
        assert!(after >= before.max(64 << 20), "{before} then {after}");
        drop(touched);
    }

    #[test]
    fn a_tree_is_measured_with_all_its_descendants() {
        // Two processes hold 48 MiB each at the same time: `tail` keeps all that it may have to print.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "head -c 48M /dev/zero | tail -c 48M | tail -c 48M | tail -c 1 >/dev/null; i=0; \
             while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done",
        ]);
        let tree = ProcessTree::measure(&mut command).expect("sh runs");
        assert!(tree.status.success());
        assert_eq!(tree.stdout, b"done\n");
        assert!(tree.peak_rss_bytes >= 48 << 20, "{} bytes", tree.peak_rss_bytes);
        assert!(tree.cpu_ns > 0 && tree.cpu_ns <= tree.wall_ns * 64, "{} ns", tree.cpu_ns);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let fields: Vec<_> = after_name("12 (a ) b) S 1 77 77").collect();
        assert_eq!(fields, ["S", "1", "77", "77"]);
    }
}
