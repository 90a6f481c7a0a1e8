//! What a dictionary will cost.

use super::options::{DictionaryOptions, FAN_OUT};
use crate::Result;
use crate::error::invalid;

/// Bytes of a page's body, of each item's lengths and tag, and of a page's own.
const BODY_BYTES: f64 = 4080.0;
const ITEM_BYTES: f64 = 4.0;
/// The share of a page that is filled, of items that are small beside it.
const FILL: f64 = 0.95;
/// Bits of the index a page: quantised Elias-Fano with three low bits, and its directory.
const PAGE_BITS: f64 = 5.5;
/// Bits a key of ranks.
const RANK_BITS: f64 = 2.5;

/// What a dictionary of so many items will cost, from [`DictionaryOptions::plan`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DictionaryPlan {
    /// Bytes on flash when all items are one run.
    pub flash_bytes: u64,
    /// The most bytes on flash while what is loaded becomes one run: that, and the runs it is made of, which go as they are read.
    pub flash_peak_bytes: u64,
    /// RAM of the index, in bytes; with ranks, theirs too.
    pub index_bytes: u64,
    /// Bits of it an item.
    pub index_bits_an_item: f64,
    /// Items that a memtable holds before it is frozen.
    pub memtable_items: u64,
    /// Runs that a load makes and then merges.
    pub load_runs: u64,
    /// Bytes that a load writes, for each byte of the result: 1 if it fits the memory.
    pub load_writes: f64,
    /// The least `memory_bytes` of a 64th of which an item fits, and of half of which the index does.
    pub memory_bytes_min: u64,
}

impl DictionaryOptions {
    /// What these options will cost for so many items with keys and values of these lengths on average, beside `threads` background
    /// threads.
    ///
    /// ```
    /// use overbank::dictionary::DictionaryOptions;
    /// let plan = DictionaryOptions::new().plan(1_000_000_000, 12.0, 4.0, 1)?;
    /// assert!(plan.index_bits_an_item < 0.03);
    /// # Ok::<(), overbank::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`, also for a length that is no number from 0 on.
    pub fn plan(
        &self,
        items: u64,
        key_bytes: f64,
        value_bytes: f64,
        threads: usize,
    ) -> Result<DictionaryPlan> {
        self.check()?;
        for (name, bytes) in [("key_bytes", key_bytes), ("value_bytes", value_bytes)] {
            if !(bytes >= 0.0 && bytes.is_finite()) {
                return invalid(name, bytes, "give a number from 0 on");
            }
        }
        let shares = self.shares(threads);
        let item_bytes = key_bytes + value_bytes;
        let slot = item_bytes + if item_bytes < 64.0 { 0.0 } else { ITEM_BYTES };
        let page = BODY_BYTES * f64::from(self.shape.page_blocks);
        let pages = (items as f64 * slot / (page * FILL)).ceil();
        let flash = pages * page / BODY_BYTES * 4096.0;
        let rank_bits = if self.shape.has_ranks { RANK_BITS } else { 0.0 };
        let index_bits = pages * f64::from(self.shape.page_blocks) * PAGE_BITS + items as f64 * rank_bits;
        // Its head and its share of a mark; the shortest count for more.
        let memory_item_bytes = (item_bytes + 5.0).max(16.0);
        let memtable_items = shares.memtable_bytes as f64 / memory_item_bytes;
        let flushed = shares.limits.frozen_bytes as f64 / 2.0;
        let load_runs = (items as f64 * memory_item_bytes / flushed).ceil().max(1.0);
        let lent = shares.with_lent(shares.lendable_bytes());
        let inputs = self.inputs_of(&lent, item_bytes as usize).1.max(FAN_OUT) as f64;
        // Few runs too many are made one, before all others are.
        let passes = match load_runs {
            1.0 => 1.0,
            runs if runs <= inputs => 2.0,
            runs if runs <= 2.0 * inputs => 2.0 + (runs - inputs + 1.0) / runs,
            runs => 1.0 + (runs.ln() / inputs.ln()).ceil(),
        };
        let index_bytes = index_bits / 8.0;
        Ok(DictionaryPlan {
            flash_bytes: flash as u64,
            flash_peak_bytes: if load_runs <= 1.0 { flash as u64 } else { (flash * 1.15) as u64 },
            index_bytes: index_bytes as u64,
            index_bits_an_item: index_bits / items.max(1) as f64,
            memtable_items: memtable_items as u64,
            load_runs: load_runs as u64,
            load_writes: passes,
            memory_bytes_min: (index_bytes * 2.0).max(item_bytes * 64.0).max((16u64 << 20) as f64) as u64,
        })
    }
}
