//! What a sketch will cost, before it is made.

use super::memory::Buffer;
use super::options::FrequencyOptions;
use super::saved::buffer_bytes;
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::segment::blocks_behind;
use crate::sketch::count_min::Layout;

/// RAM, flash and I/O of a sketch, from [`FrequencyOptions::plan`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FrequencyPlan {
    /// The sketch's shape.
    pub layout: Layout,
    /// RAM, all of it drawn from the store's budget.
    pub memory_bytes: usize,
    /// Updates of weight 1 that wait in RAM at most.
    pub buffer_updates: usize,
    /// Flash of the pages.
    pub flash_bytes: u64,
    /// Flash at most: the pages twice, between a pass and the commit behind it, and the logs.
    pub flash_bytes_max: u64,
    /// Blocks written an update, for distinct keys in a steady state.
    pub blocks_written: f64,
    /// Blocks read an update, for distinct keys in a steady state.
    pub blocks_read: f64,
    /// Blocks that an estimate reads at most, on average: the page, and one of each pending chunk.
    pub estimate_blocks: f64,
}

impl FrequencyOptions {
    /// What these options will cost. The error is a matter of the layout: see [`Layout::theorem_1_error`].
    ///
    /// # Accuracy
    /// The I/O is that of distinct keys, each of which is logged or applied by itself; repeated keys cost less. Where `k`
    /// pages take `M` updates in the buffer and `P` chunks pending, a cycle is `P + 1` buffers, each logged and read back,
    /// and one pass over the pages. The paper's bound, a read and a write of `k` blocks a buffer, is `P = 0`.
    ///
    /// ```
    /// use overbank::frequency::FrequencyOptions;
    /// let plan = FrequencyOptions::new().error(1e-8, 0.01).memory_bytes(64 << 20).plan()?;
    /// assert!(plan.flash_bytes > 5 << 30 && plan.blocks_written < 0.1);
    /// # Ok::<(), overbank::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn plan(&self) -> Result<FrequencyPlan> {
        let shape = self.to_shape()?;
        let buffer_bytes = buffer_bytes(shape, self.memory(), self.chunks(), self.writer_slots());
        let buffer_updates = Buffer::new(buffer_bytes).capacity().max(1);
        let pages = shape.groups() as f64 * f64::from(shape.group_pages);
        let log_blocks = (buffer_updates as f64 / shape.block_records() as f64).ceil();
        let end_blocks = blocks_behind(log_blocks as u64) as f64;
        let (pending, logs) = (self.chunks() as f64, (self.chunks() + 1) as f64);
        let cycle = logs * buffer_updates as f64;
        let flash_bytes = shape.groups() as u64 * shape.group_bytes() as u64;
        let logs_bytes = ((logs * (log_blocks + end_blocks)) as u64).saturating_mul(BLOCK_BYTES as u64);
        Ok(FrequencyPlan {
            layout: shape.layout,
            memory_bytes: self.memory(),
            buffer_updates,
            flash_bytes,
            flash_bytes_max: (2 * flash_bytes).saturating_add(logs_bytes),
            blocks_written: (pages + logs * (log_blocks + end_blocks)) / cycle,
            blocks_read: (pages + logs * log_blocks) / cycle,
            estimate_blocks: 1.0 + pending,
        })
    }
}
