//! Where an update goes, in one number: its page, and the few bits that stand for its key inside the page.
//!
//! ```text
//!   KeyHash ──high──▶ page                                  fold ──top bits──▶ residue (23 or 40 bits)
//!
//!   entry   63                                            0
//!           ├──── page ────┼──── residue ────┼── zeros ────┤      entries sort by page, then by residue
//!
//!   residue ──spread──▶ 64 bits ──column(·, row)──▶ one column a row
//! ```
//!
//! 1. Updates, pending records and estimates derive a key's columns from its residue and nothing else, so they always
//!    mean the same cells.
//! 2. Two keys of one page with equal residue share all their cells. For two keys that happens with probability
//!    `2^-residue_bits`; other pairs meet in each row with probability `1 / columns`, as in any count-min sketch.
//! 3. The order of entries is hash order of pages.
//!
//! Cost: three multiplications for an entry, two to spread it, two a row.

use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::sketch::count_min::Layout;
use crate::sketch::count_min::layout::BLOCK_BODY_BYTES;
use crate::{KeyHash, Result};

/// What decides where every byte of a sketch lies. Two sketches of one shape and seed can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) layout: Layout,
    pub(super) cell_bits: u32,
    pub(super) record_bytes: u32,
    pub(super) group_pages: u32,
    /// Whether an update raises only the cells that must rise.
    pub(super) is_conservative: bool,
}

/// What a block of records has before the records.
pub(super) const RECORDS_HEADER_BYTES: usize = 8;
/// Fences are 4 bytes, and this is more than a device holds.
const PAGES_MAX: u64 = 1 << 32;
/// The table of groups stays small beside the buffers.
const GROUPS_MAX: u64 = 1 << 20;
const GROUP_PAGES_MAX: u32 = 1 << 16;

impl Shape {
    pub(super) fn new(layout: Layout, cell_bits: u32, record_bytes: u32, group_pages: u32) -> Result<Self> {
        let Some((unit_cells, unit_bytes)) = unit(cell_bits) else {
            return invalid("cell_bits", cell_bits, "choose 4, 8, 32 or 64");
        };
        if !matches!(record_bytes, 4 | 8) {
            return invalid("record_bytes", record_bytes, "choose 4 or 8");
        }
        if !group_pages.is_power_of_two() || group_pages > GROUP_PAGES_MAX {
            return invalid("group_pages", group_pages, "choose a power of two up to 65536");
        }
        if !(layout.columns() as usize).is_multiple_of(unit_cells) {
            return invalid("columns", layout.columns(), "a row of small cells is whole words");
        }
        if layout.page_cells() / unit_cells > BLOCK_BODY_BYTES / unit_bytes {
            return invalid("columns", layout.columns(), "a page must fit a block of 4080 bytes");
        }
        let shape = Self { layout, cell_bits, record_bytes, group_pages, is_conservative: false };
        let bits = shape.page_bits() + shape.residue_bits();
        if layout.pages() > PAGES_MAX || bits > u64::BITS || shape.groups() as u64 > GROUPS_MAX {
            let pages_max =
                (GROUPS_MAX * u64::from(group_pages)).min(PAGES_MAX).min(1 << (64 - shape.residue_bits()));
            let why = format!(
                "a sketch of groups of {group_pages} has at most {pages_max}, {} GiB",
                pages_max >> 18
            );
            return invalid("pages", layout.pages(), why);
        }
        Ok(shape)
    }

    /// The same shape, with conservative updates or without.
    pub(super) fn conservative(self, is_conservative: bool) -> Self {
        Self { is_conservative, ..self }
    }

    /// Bits of a key that are kept inside its page.
    pub(super) fn residue_bits(self) -> u32 {
        if self.record_bytes == 4 { 23 } else { 40 }
    }

    /// Pages that one block of records may span: what a record has left beside the residue.
    pub(super) fn span_pages(self) -> u64 {
        1 << (self.record_bytes * 8 - self.residue_bits())
    }

    /// Records of weight 1 in one block of a log.
    pub(super) fn block_records(self) -> usize {
        (BLOCK_BODY_BYTES - RECORDS_HEADER_BYTES) / self.record_bytes as usize
    }

    pub(super) fn groups(self) -> usize {
        self.layout.pages().div_ceil(self.group_pages.into()) as usize
    }

    /// The pages of a group; the last may have fewer.
    pub(super) fn pages_of(self, group: usize) -> std::ops::Range<u64> {
        let first = group as u64 * u64::from(self.group_pages);
        first..(first + u64::from(self.group_pages)).min(self.layout.pages())
    }

    pub(super) fn group_bytes(self) -> usize {
        self.group_pages as usize * BLOCK_BYTES
    }

    /// The arithmetic, with all shifts worked out.
    pub(super) fn entry_layout(self) -> EntryLayout {
        let residue_bits = self.residue_bits();
        let spare_bits = u64::BITS - self.page_bits() - residue_bits;
        EntryLayout { layout: self.layout, residue_bits, spare_bits }
    }

    fn page_bits(self) -> u32 {
        // At least one, so that the page is a proper shift away.
        (u64::BITS - (self.layout.pages() - 1).leading_zeros()).max(1)
    }
}

/// Turns hashes into entries and entries into pages and folds.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLayout {
    layout: Layout,
    residue_bits: u32,
    spare_bits: u32,
}

impl EntryLayout {
    #[inline]
    pub(super) fn entry(self, hash: KeyHash) -> u64 {
        self.join(self.layout.page_of(hash) as u64, hash.fold() >> (u64::BITS - self.residue_bits))
    }

    #[inline]
    pub(super) fn join(self, page: u64, residue: u64) -> u64 {
        (page << self.residue_bits | residue) << self.spare_bits
    }

    /// Low bits of every entry that are zero.
    pub(super) fn spare_bits(self) -> u32 {
        self.spare_bits
    }

    #[inline]
    pub(super) fn page(self, entry: u64) -> u64 {
        entry >> (self.spare_bits + self.residue_bits)
    }

    #[inline]
    pub(super) fn residue(self, entry: u64) -> u64 {
        entry >> self.spare_bits & ((1 << self.residue_bits) - 1)
    }

    /// The entry as one number without its zeros: `page * 2^residue_bits + residue`.
    #[inline]
    pub(super) fn dense(self, entry: u64) -> u64 {
        entry >> self.spare_bits
    }

    #[inline]
    pub(super) fn widen(self, dense: u64) -> u64 {
        dense << self.spare_bits
    }

    /// What the columns of an entry are derived from.
    #[inline]
    pub(super) fn fold(self, entry: u64) -> u64 {
        spread(self.residue(entry))
    }

    /// The hash of a stand-in key: every key with this page and residue is this key to the sketch.
    #[cfg(test)]
    pub(super) fn stand_in(self, hash: KeyHash) -> KeyHash {
        KeyHash::new(hash.high(), hash.high() ^ self.fold(self.entry(hash)))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every bit of the result depends on every bit of the
/// residue, where the rows' own multiplications would leave the low bits constant.
#[inline]
fn spread(residue: u64) -> u64 {
    let z = residue.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The cells that one unit of a row has, and its bytes; `None` for cells that there are not.
pub(super) fn unit(cell_bits: u32) -> Option<(usize, usize)> {
    match cell_bits {
        4 => Some((16, size_of::<u64>() + 2)),
        8 => Some((8, size_of::<u64>() + 1)),
        32 => Some((1, 4)),
        64 => Some((1, 8)),
        _ => None,
    }
}

/// The columns of a page of `depth` rows that fills a block.
pub(super) fn columns_of_a_block(cell_bits: u32, depth: u32) -> Option<u32> {
    let (cells, bytes) = unit(cell_bits)?;
    Some((BLOCK_BODY_BYTES / bytes / depth.max(1) as usize * cells) as u32)
}
