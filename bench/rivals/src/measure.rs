//! What a step costs: wall time, CPU time of all threads, memory, bytes read and written; and the line that says so.

use crate::Result;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// A step being measured.
pub(crate) struct Measure {
    begun: Instant,
    cpu_ns: u64,
    io: Option<(u64, u64)>,
}

/// What it cost.
pub(crate) struct Sample {
    wall_ns: u64,
    cpu_ns: u64,
    ops: u64,
    notes: Vec<(&'static str, f64)>,
}

impl Measure {
    /// Measures from now on.
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), cpu_ns: process_cpu_ns(), io: io_bytes() }
    }

    /// Ends the step, which did so many operations.
    pub(crate) fn finish(self, ops: u64) -> Sample {
        let mut sample = Sample {
            wall_ns: self.begun.elapsed().as_nanos() as u64,
            cpu_ns: process_cpu_ns() - self.cpu_ns,
            ops,
            notes: Vec::new(),
        };
        if let (Some((read, written)), Some((read_before, written_before))) = (io_bytes(), self.io) {
            sample.note("read_bytes_per_op", (read - read_before) as f64 / ops.max(1) as f64);
            sample.note("written_bytes_per_op", (written - written_before) as f64 / ops.max(1) as f64);
        }
        if let Some(bytes) = field("/proc/self/status", "VmHWM:") {
            sample.note("peak_rss_bytes", (bytes << 10) as f64);
        }
        sample
    }
}

impl Sample {
    /// Adds a figure by its name in the bench.
    pub(crate) fn note(&mut self, metric: &'static str, value: f64) {
        self.notes.push((metric, value));
    }

    /// As the bench reads samples of child processes. The digest of a rival is that it has found every value right.
    pub(crate) fn to_json(&self) -> String {
        let Self { wall_ns, cpu_ns, ops, .. } = self;
        let mut notes = String::new();
        for (metric, value) in &self.notes {
            let comma = if notes.is_empty() { "" } else { "," };
            let _ = write!(notes, "{comma}[\"{metric}\",{value}]");
        }
        format!(
            "{{\"digest\":1,\"wall_ns\":{wall_ns},\"cpu_ns\":{cpu_ns},\"ops\":{ops},\"notes\":[{notes}]}}"
        )
    }
}

/// What the files of a folder and of those below it take.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let (entry, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        bytes += if metadata.is_dir() { folder_bytes(&entry)? } else { allocated_bytes(&metadata) };
    }
    Ok(bytes)
}

/// Bytes on disk: some stores make a file longer than what is in it.
fn allocated_bytes(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.blocks() * 512
}

/// CPU time of this process, all threads.
fn process_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What this process has read from block devices and written to them.
fn io_bytes() -> Option<(u64, u64)> {
    Some((field("/proc/self/io", "read_bytes:")?, field("/proc/self/io", "write_bytes:")?))
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
