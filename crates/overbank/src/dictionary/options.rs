//! What a caller chooses, and how a dictionary divides its memory.

use super::operator::MergeOperator;
use super::run::Compression;
use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::lsm::{Limits, Policy};
use crate::{Error, Result};

/// The least `memory_bytes` for writing: a merge, its inputs, and two memtables.
const MEMORY_BYTES_MIN: usize = 16 << 20;
/// The least `memory_bytes` of a dictionary that is only asked.
const READING_BYTES_MIN: usize = 4 << 20;
/// A quarter of a store's usual budget.
const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
/// An item may take this share of the memory: each input of a merge holds its page, and the writer's may have grown to twice that.
const ITEM_SHARE: usize = 64;
/// More than a memtable's places of items can tell.
const MEMTABLE_BYTES_MAX: usize = 1 << 30;
/// Where operands are appended, the longest that is taken, and the longest memtable: what a key may have in one memtable and in as many
/// runs as are merged at once is then less than a page may have, a gibibyte.
const APPENDED_BYTES_MAX: usize = 8 << 20;
const APPENDING_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(APPENDING_BYTES_MAX + INPUTS.1 * APPENDED_BYTES_MAX < 1 << 30);

/// The most lanes of a merge, and how much memory a dictionary has for each.
const LANES_MAX: usize = 8;
const LANE_BYTES: usize = 32 << 20;
/// RAM of a lane's writer: a mebibyte that is filled and one that is written, and borders.
const WRITER_BYTES: usize = 9 << 18;
/// What is read at a time of each input of a merge, and of a merge of many.
pub(super) const CURSOR_BYTES: usize = 256 << 10;
pub(super) const CURSOR_BYTES_MIN: usize = 32 << 10;
/// Blocks of the longest page of short items, for each that a page is asked to have.
const PAGE_BLOCKS_SHARE: usize = 4;
/// The most merges that are open at a time, and how much memory a dictionary has for each.
const MERGES_MAX: usize = 2;
const MERGE_BYTES: usize = 48 << 20;
/// Runs that a merge reads, at least and at most; and at most of short items.
const INPUTS: (usize, usize) = (4, 64);
const SHORT_INPUTS_MAX: usize = 256;
/// A lane of fewer items is not worth a thread of its own: items are larger than fingerprints.
const LANE_ENTRIES_MIN: u64 = 1 << 16;
/// So many runs of about the same length become one.
pub(super) const FAN_OUT: usize = 4;

/// Size and behaviour of a [`Dictionary`](super::Dictionary), for [`Store::dictionary`](crate::store::Store::dictionary).
///
/// What is not said has a default in a new dictionary, and in a stored one is what it was made with; the memory is always that asked for
/// now. Another page, compression or `ranks` than before is that of the runs written from now on.
///
/// ```
/// use overbank::dictionary::{DictionaryOptions, MergeOperator, Numbers};
/// let counters = DictionaryOptions::new().merge_operator(MergeOperator::Sum(Numbers::Binary));
/// let pages = DictionaryOptions::new().memory_bytes(256 << 20).page_bytes(16 << 10);
/// # let _ = (counters, pages);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DictionaryOptions {
    pub(super) memory_bytes: usize,
    pub(super) shape: Shape,
    pub(super) asked_for: AskedFor,
}

/// What the runs are written as, and what items mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) page_blocks: u32,
    pub(super) compression: Compression,
    pub(super) operator: Option<MergeOperator>,
    pub(super) has_ranks: bool,
}

/// Which of these were said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct AskedFor {
    page: bool,
    compression: bool,
    operator: bool,
    ranks: bool,
}

/// How a dictionary divides its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    pub(super) limits: Limits,
    /// What the inputs of a merge take, in each lane.
    pub(super) lane_bytes: usize,
    /// A memtable of so many bytes, with what it needs to be sorted, is frozen.
    pub(super) memtable_bytes: usize,
    /// Reads in flight.
    pub(super) lookup_bytes: usize,
    /// Indexes of runs, and what stands before them.
    pub(super) index_bytes_max: usize,
}

impl Shares {
    /// What merges may borrow of the frozen runs' room while there are none: a memtable can be filled and frozen meanwhile.
    pub(super) fn lendable_bytes(&self) -> usize {
        self.limits.frozen_bytes / 3 * 2
    }

    /// With so many bytes lent to the lanes of all merges.
    pub(super) fn with_lent(self, lent_bytes: usize) -> Self {
        let Limits { lanes, merges, .. } = self.limits;
        Shares { lane_bytes: self.lane_bytes + lent_bytes / (lanes * merges), ..self }
    }
}

impl Default for DictionaryOptions {
    fn default() -> Self {
        let shape =
            Shape { page_blocks: 1, compression: Compression::None, operator: None, has_ranks: false };
        DictionaryOptions { memory_bytes: MEMORY_BYTES_DEFAULT, shape, asked_for: AskedFor::default() }
    }
}

impl DictionaryOptions {
    /// The defaults: 64 MiB, pages of 4096 bytes, no compression, no operator, no ranks.
    pub fn new() -> Self {
        Self::default()
    }

    /// RAM in bytes, from the store's budget; at least 16 MiB for writing, and 4 MiB where the store is open read-only. An item, key and
    /// value, has at most a 64th of it. Longer ones that are in already, written with more memory or made by
    /// [`MergeOperator::Append`], take RAM beside it: five times their length at most in a merge, and their length in a lookup.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Bytes of a page, which a lookup reads: 4096 or 16384. The larger fits items of a few KiB, and compresses better. Of items of which
    /// fewer than six fit, pages that are not compressed have twice as many bytes or, where they are filled better, four times.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        // What is no number of blocks is none, which is refused.
        self.shape.page_blocks = if bytes.is_multiple_of(4096) { bytes / 4096 } else { 0 };
        self.asked_for.page = true;
        self
    }

    /// How pages are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.shape.compression = compression;
        self.asked_for.compression = true;
        self
    }

    /// How operands change values. It is the dictionary's for good.
    pub fn merge_operator(mut self, operator: MergeOperator) -> Self {
        self.shape.operator = Some(operator);
        self.asked_for.operator = true;
        self
    }

    /// Whether a dictionary that is one run can tell a key's rank in hash order: some 2.5 bits of RAM a key.
    pub fn ranks(mut self, has_ranks: bool) -> Self {
        self.shape.has_ranks = has_ranks;
        self.asked_for.ranks = true;
        self
    }

    /// The RAM that was chosen, in bytes.
    pub fn chosen_memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes of a page.
    pub fn chosen_page_bytes(&self) -> u32 {
        self.shape.page_blocks * 4096
    }

    /// How pages are compressed.
    pub fn chosen_compression(&self) -> Compression {
        self.shape.compression
    }

    /// How operands change values, if they may be merged in.
    pub fn chosen_operator(&self) -> Option<MergeOperator> {
        self.shape.operator
    }

    /// Whether ranks are kept.
    pub fn has_ranks(&self) -> bool {
        self.shape.has_ranks
    }

    /// The most bytes of a key and its value together: a 64th of the memory, at most 256 MiB, or 8 MiB in a dictionary whose operator is
    /// [`MergeOperator::Append`].
    pub fn item_bytes_max(&self) -> usize {
        let most = if self.is_appending() { APPENDED_BYTES_MAX } else { MEMTABLE_BYTES_MAX / 4 };
        (self.memory_bytes / ITEM_SHARE).min(most)
    }

    /// The memory in which operands are let in beside an item of so many bytes; `None` if none is enough.
    pub(super) fn memory_for_appending(item_bytes: usize) -> Option<usize> {
        (item_bytes <= APPENDED_BYTES_MAX).then_some(item_bytes * ITEM_SHARE)
    }

    /// Whether values may become longer than what was ever inserted.
    pub(super) fn is_appending(&self) -> bool {
        self.shape.operator == Some(MergeOperator::Append)
    }

    /// Refuses options that nothing can be written with.
    pub(super) fn check(&self) -> Result<()> {
        self.check_shape()?;
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let why = format!("writing a dictionary takes at least {MEMORY_BYTES_MIN} bytes");
            return invalid("memory_bytes", self.memory_bytes, why);
        }
        Ok(())
    }

    /// Refuses options that nothing can be read with.
    pub(super) fn check_for_reading(&self) -> Result<()> {
        self.check_shape()?;
        if self.memory_bytes < READING_BYTES_MIN {
            let why = format!("asking a dictionary takes at least {READING_BYTES_MIN} bytes");
            return invalid("memory_bytes", self.memory_bytes, why);
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<()> {
        if !matches!(self.shape.page_blocks, 1 | 4) {
            return invalid("page_bytes", self.shape.page_blocks * 4096, "choose 4096 or 16384");
        }
        self.shape.compression.check()
    }

    /// These options with what a stored dictionary has where nothing else was asked for.
    pub(super) fn with_shape_of(mut self, stored: &Shape) -> Result<Self> {
        let Shape { page_blocks, compression, operator, has_ranks } = *stored;
        let AskedFor { page, compression: asked_compression, operator: asked_operator, ranks } =
            self.asked_for;
        if asked_operator && self.shape.operator != operator {
            return Err(Error::Incompatible {
                what: "the merge operator",
                expected: format!("{operator:?}"),
                found: format!("{:?}", self.shape.operator),
            });
        }
        self.shape = Shape {
            page_blocks: if page { self.shape.page_blocks } else { page_blocks },
            compression: if asked_compression { self.shape.compression } else { compression },
            operator,
            has_ranks: if ranks { self.shape.has_ranks } else { has_ranks },
        };
        Ok(self)
    }

    /// How the memory is divided beside `threads` background threads.
    pub(super) fn shares(&self, threads: usize) -> Shares {
        let memory = self.memory_bytes;
        let lanes = (threads + 1).min(LANES_MAX).min(memory / LANE_BYTES).max(1);
        let merges = (memory / MERGE_BYTES).clamp(1, MERGES_MAX);
        let lookup_bytes = memory / 8;
        // All lanes of all open merges together read so much at a time.
        let inputs_max = (memory / 6 / (lanes * merges * CURSOR_BYTES)).clamp(INPUTS.0, INPUTS.1);
        let merging = lanes * merges * (inputs_max * CURSOR_BYTES + WRITER_BYTES) + lanes * WRITER_BYTES;
        let written = memory.saturating_sub(lookup_bytes + merging).max(memory / 4);
        // Two or three frozen ones are flushed together while another is filled.
        let most = if self.is_appending() { APPENDING_BYTES_MAX } else { MEMTABLE_BYTES_MAX };
        let memtable_bytes = (written / 4).min(most);
        let frozen_bytes = written - memtable_bytes;
        let limits = Limits {
            frozen_bytes,
            // Levels only order the work: what an item takes is not known before.
            flush_entries: (frozen_bytes / 128).max(1) as u64,
            lanes,
            merges,
            inputs_max,
            lane_entries_min: LANE_ENTRIES_MIN,
            piece_bytes_min: Limits::PIECE_BYTES_MIN,
        };
        let lane_bytes = inputs_max * CURSOR_BYTES;
        Shares { limits, lane_bytes, memtable_bytes, lookup_bytes, index_bytes_max: memory / 2 }
    }

    /// What an input of a merge holds beside what it reads at a time: a page of items that are at most so long; and how many inputs of
    /// those fit a lane of `shares`. What packed pages come to is not known.
    pub(super) fn inputs_of(&self, shares: &Shares, longest_item: usize) -> (usize, usize) {
        let page_bytes = self.shape.page_blocks as usize * PAGE_BLOCKS_SHARE * BLOCK_BYTES + longest_item;
        let fitting = match self.shape.compression {
            Compression::None => shares.lane_bytes / (CURSOR_BYTES_MIN + page_bytes),
            _ => 0,
        };
        (page_bytes, fitting.min(SHORT_INPUTS_MAX).max(shares.limits.inputs_max))
    }

    /// What writers owe is reckoned by.
    pub(super) fn policy() -> Policy {
        Policy::Tiered { fan_out: FAN_OUT as u32 }
    }
}
