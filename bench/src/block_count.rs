//! What a process reads from and writes to block devices, in blocks.

use crate::{Clock, Metric};
use overbank::device::BLOCK_BYTES;

/// Counts from its start on; where the kernel does not tell, there is no figure.
#[derive(Debug)]
pub struct BlockCount {
    /// Read and written.
    before_bytes: Option<(u64, u64)>,
}

impl BlockCount {
    /// Counts from now.
    pub fn start() -> Self {
        Self { before_bytes: io_bytes() }
    }

    /// Notes blocks read and written since, an operation.
    pub fn note(&self, clock: &mut Clock, ops: u64) {
        if let Some((read, written)) = self.since() {
            let blocks = (read + written) as f64 / BLOCK_BYTES as f64;
            clock.note(Metric::BlocksPerOp, blocks / ops.max(1) as f64);
        }
    }

    /// Notes bytes read and bytes written since, an operation each.
    pub fn note_bytes(&self, clock: &mut Clock, ops: u64) {
        if let Some((read, written)) = self.since() {
            clock.note(Metric::ReadBytesPerOp, read as f64 / ops.max(1) as f64);
            clock.note(Metric::WrittenBytesPerOp, written as f64 / ops.max(1) as f64);
        }
    }

    fn since(&self) -> Option<(u64, u64)> {
        let ((read_before, written_before), (read, written)) = (self.before_bytes?, io_bytes()?);
        Some((read - read_before, written - written_before))
    }
}

/// Read and written.
fn io_bytes() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some((field("read_bytes:")?, field("write_bytes:")?))
}
