//! What a process reads from and writes to block devices, in blocks.

use crate::{Clock, Metric};
use overbank::device::BLOCK_BYTES;

/// Counts from its start on; where the kernel does not tell, there is no figure.
#[derive(Debug)]
pub struct BlockCount {
    before_bytes: Option<u64>,
}

impl BlockCount {
    /// Counts from now.
    pub fn start() -> Self {
        Self { before_bytes: io_bytes() }
    }

    /// Notes blocks read and written since, an operation.
    pub fn note(&self, clock: &mut Clock, ops: u64) {
        if let (Some(before), Some(after)) = (self.before_bytes, io_bytes()) {
            let blocks = (after - before) as f64 / BLOCK_BYTES as f64;
            clock.note(Metric::BlocksPerOp, blocks / ops.max(1) as f64);
        }
    }
}

fn io_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some(field("read_bytes:")? + field("write_bytes:")?)
}
