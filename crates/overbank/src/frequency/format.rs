//! Where every byte of a frequency sketch lies; the only file that knows.
//!
//! ```text
//! pages file   │ extent 0 │ extent 1 │ …     an extent holds one group of pages, in any order of groups; written in place,
//!              one sealed block a page:       never over an extent that the last commit names
//!                tag = page (low 32 bits), sequence = the apply that wrote it, body = cells (see cells.rs), zeros behind
//!
//! log file     a segment (see segment/format.rs) of structure 20, whose blocks are in the order of the pages' first entries
//! block body   0       4       6          8
//!              ├ page ─┼ units ┼ weighted ┼ units × record ┼ weighted × record ┼ weighted × i64 ┼ zeros ┤
//!              a record is (page - first page) * 2^residue_bits + residue, in 4 or 8 bytes
//!
//! table (blob) │ extent u32, sequence u64 │ … one a group        extent u32::MAX: never written, all zeros
//!
//! state        0        4      8       12     16      20        24      32       40         44       48
//!              ├ magic ─┼ ver. ┼ depth ┼ cell ┼ record ┼ group ─┼ pages ┼ columns, flags ┼ pending ┼ …
//!              48 sequence u64, extents u64, weight u128, memory u64, epoch u64, logs: count u32, then sequence u64 each
//!              cell in bits: 4, 8, 32 or 64; record in bytes; flags: 1 saturated, 2 conservative
//! files        table, pages (if extents > 0), logs in order
//! ```
//!
//! All numbers are little-endian. A change to any byte bumps [`VERSION`]. Version 3 is read where it names no log: its logs had
//! seals and fences of their own, and (sequence, blocks) each here.

use super::page::Weighted;
use super::shape::{RECORDS_HEADER_BYTES, Shape};
use crate::bytes::ByteReader;
use crate::device::BLOCK_BYTES;
use crate::device::block::BODY_BYTES;
use crate::error::corrupt;
use crate::sketch::count_min::Layout;
use crate::{Error, Result};
use std::ops::RangeInclusive;
use std::path::Path;

/// The version of everything in this file, and the oldest that is read, if it names no log.
pub(super) const VERSION: u16 = 4;
pub(super) const OLDEST_VERSION: u16 = 3;
/// An extent that is not there: the group was never written and is all zeros.
pub(super) const NO_EXTENT: u32 = u32::MAX;

/// The most lanes of a pass. More find no more work side by side on any machine that we know of.
pub(super) const LANES_MAX: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"OBfq");
const WEIGHT_BYTES: usize = size_of::<i64>();
const PLACE_BYTES: usize = size_of::<u32>() + size_of::<u64>();
const SATURATED: u32 = 1;
const CONSERVATIVE: u32 = 2;

/// What the manifest keeps of a sketch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) shape: Shape,
    pub(super) saturated: bool,
    pub(super) pending: u32,
    pub(super) sequence: u64,
    pub(super) extents: u32,
    pub(super) weight: u128,
    pub(super) memory_bytes: u64,
    pub(super) epoch: u64,
    /// The sequence of each log.
    pub(super) logs: Vec<u64>,
}

/// Where a group lies, and the last log that was applied to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupPlace {
    pub(super) extent: u32,
    pub(super) sequence: u64,
}

impl GroupPlace {
    pub(super) const EMPTY: GroupPlace = GroupPlace { extent: NO_EXTENT, sequence: 0 };
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let layout = self.shape.layout;
        let mut bytes = Vec::with_capacity(100 + 16 * self.logs.len());
        for word in [
            MAGIC,
            VERSION.into(),
            layout.depth(),
            self.shape.cell_bits,
            self.shape.record_bytes,
            self.shape.group_pages,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&layout.pages().to_le_bytes());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.saturated, SATURATED) | flag(self.shape.is_conservative, CONSERVATIVE);
        for word in [layout.columns(), flags, self.pending, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.sequence, self.extents.into()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.weight.to_le_bytes());
        for word in [self.memory_bytes, self.epoch] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&(self.logs.len() as u32).to_le_bytes());
        self.logs.iter().for_each(|sequence| bytes.extend_from_slice(&sequence.to_le_bytes()));
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut words = ByteReader::new(bytes);
        words.magic("magic", MAGIC.to_le_bytes())?;
        let version = words.u32()?;
        let unsupported = |what: &str| {
            let (what, supported) = (what.to_owned(), VERSION.into());
            Error::UnsupportedVersion { what, found: version, supported }
        };
        if !(u32::from(OLDEST_VERSION)..=VERSION.into()).contains(&version) {
            return Err(unsupported("the frequency sketch"));
        }
        let (depth, cell_bits) = (words.u32()?, words.u32()?);
        let (record_bytes, group_pages) = (words.u32()?, words.u32()?);
        let (pages, columns, flags) = (words.u64()?, words.u32()?, words.u32()?);
        let pending = words.u32()?;
        words.zeros(4)?;
        let (sequence, extents, weight) = (words.u64()?, words.u64()?, words.u128()?);
        let (memory_bytes, epoch) = (words.u64()?, words.u64()?);
        let count = words.u32()? as usize;
        if version < VERSION.into() && count > 0 {
            return Err(unsupported("the frequency sketch, whose last commit left updates in logs,"));
        }
        words.require_left(count.checked_mul(size_of::<u64>()))?;
        let logs = (0..count).map(|_| words.u64()).collect::<Result<Vec<_>>>()?;
        if flags & !(SATURATED | CONSERVATIVE) != 0 {
            return Err(words.corrupt("flags", "0 to 3", flags));
        }
        let shape = Layout::with_shape(pages, columns, depth)
            .and_then(|layout| Shape::new(layout, cell_bits, record_bytes, group_pages))
            .map_err(|why| words.corrupt("the shape", "a valid one", why))?
            .conservative(flags & CONSERVATIVE != 0);
        let ascending = logs.is_sorted_by(|one, next| one < next);
        if !ascending || logs.last().is_some_and(|&log| log > sequence) {
            return Err(words.corrupt("sequences of logs", format!("ascending up to {sequence}"), "others"));
        }
        let extents =
            u32::try_from(extents).map_err(|_| words.corrupt("extents", "fewer than 2^32", extents))?;
        let saturated = flags & SATURATED != 0;
        Ok(State { shape, saturated, pending, sequence, extents, weight, memory_bytes, epoch, logs })
    }
}

pub(super) fn encode_table(table: &[GroupPlace]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(table.len() * PLACE_BYTES);
    for place in table {
        bytes.extend_from_slice(&place.extent.to_le_bytes());
        bytes.extend_from_slice(&place.sequence.to_le_bytes());
    }
    bytes
}

/// The table back, with every extent in range and named once. The caller knows that there is a file with `state.extents` extents.
pub(super) fn decode_table(bytes: &[u8], state: &State, path: &Path) -> Result<Vec<GroupPlace>> {
    let mut words = ByteReader::new(bytes);
    let corrupt = |what, expected: String, found: String| corrupt(path, 0, what, expected, found);
    let groups = state.shape.groups();
    if bytes.len() != groups * PLACE_BYTES {
        let (expected, found) = (groups * PLACE_BYTES, bytes.len());
        return Err(corrupt("bytes of the group table", expected.to_string(), found.to_string()));
    }
    let mut taken = vec![false; state.extents as usize];
    let mut table = Vec::with_capacity(groups);
    for _ in 0..groups {
        let place = GroupPlace { extent: words.u32()?, sequence: words.u64()? };
        if place.extent != NO_EXTENT {
            let free = taken.get_mut(place.extent as usize).filter(|taken| !**taken);
            let found = place.extent.to_string();
            *free.ok_or_else(|| corrupt("extent", "in range and named once".into(), found))? = true;
        }
        if place.sequence > state.sequence || (place.extent == NO_EXTENT && place.sequence != 0) {
            let expected = format!("at most {}", state.sequence);
            return Err(corrupt("sequence of a group", expected, place.sequence.to_string()));
        }
        table.push(place);
    }
    Ok(table)
}

/// Composes the body of one block of records.
#[derive(Debug, Default)]
pub(super) struct BlockOfRecords {
    first_page: u64,
    units: Vec<u64>,
    weighted: Vec<Weighted>,
}

impl BlockOfRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.weighted.is_empty()
    }

    /// How many records it has.
    pub(super) fn len(&self) -> usize {
        self.units.len() + self.weighted.len()
    }

    /// From the first record's page to that of the last.
    pub(super) fn pages(&self, shape: Shape) -> RangeInclusive<u64> {
        let weighted = self.weighted.last().map_or(0, |&[record, _]| record);
        let last = self.units.last().copied().unwrap_or(0).max(weighted);
        self.first_page..=self.first_page + (last >> shape.residue_bits())
    }

    /// Takes an update of `page`, if it fits. Updates come in hash order.
    #[inline]
    pub(super) fn push(&mut self, shape: Shape, page: u64, dense: u64, weight: i64) -> bool {
        if self.is_empty() {
            self.first_page = page;
        }
        let record_bytes = shape.record_bytes as usize;
        let held = RECORDS_HEADER_BYTES
            + self.units.len() * record_bytes
            + self.weighted.len() * (record_bytes + WEIGHT_BYTES);
        let more = if weight == 1 { record_bytes } else { record_bytes + WEIGHT_BYTES };
        if held + more > BODY_BYTES || page - self.first_page >= shape.span_pages() {
            return false;
        }
        let record = dense - (self.first_page << shape.residue_bits());
        if weight == 1 {
            self.units.push(record);
        } else {
            self.weighted.push([record, weight.cast_unsigned()]);
        }
        true
    }

    /// Writes the body and is empty again.
    pub(super) fn encode(&mut self, shape: Shape, body: &mut [u8]) {
        body.fill(0);
        body[..4].copy_from_slice(&(self.first_page as u32).to_le_bytes());
        body[4..6].copy_from_slice(&(self.units.len() as u16).to_le_bytes());
        body[6..8].copy_from_slice(&(self.weighted.len() as u16).to_le_bytes());
        let record_bytes = shape.record_bytes as usize;
        let (units, rest) = body[RECORDS_HEADER_BYTES..].split_at_mut(self.units.len() * record_bytes);
        let (records, weights) = rest.split_at_mut(self.weighted.len() * record_bytes);
        put_records(units, record_bytes, self.units.iter().copied());
        put_records(records, record_bytes, self.weighted.iter().map(|&[record, _]| record));
        for (bytes, [_, weight]) in weights.chunks_exact_mut(WEIGHT_BYTES).zip(&self.weighted) {
            bytes.copy_from_slice(&weight.to_le_bytes());
        }
        self.units.clear();
        self.weighted.clear();
    }
}

fn put_records(bytes: &mut [u8], record_bytes: usize, records: impl Iterator<Item = u64>) {
    if record_bytes == 4 {
        let (places, _) = bytes.as_chunks_mut::<4>();
        places.iter_mut().zip(records).for_each(|(place, record)| *place = (record as u32).to_le_bytes());
    } else {
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(records).for_each(|(place, record)| *place = record.to_le_bytes());
    }
}

/// Appends the updates of a block of records, as entries. `None` if the body is not one that [`BlockOfRecords`] wrote.
pub(super) fn decode_records(
    body: &[u8],
    shape: Shape,
    units: &mut Vec<u64>,
    weighted: &mut Vec<Weighted>,
) -> Option<()> {
    let entries = shape.entry_layout();
    let (header, rest) = body.split_at_checked(RECORDS_HEADER_BYTES)?;
    let first_page = u64::from(u32::from_le_bytes(*header.first_chunk()?));
    let unit_count = usize::from(u16::from_le_bytes(*header.get(4..)?.first_chunk()?));
    let weighted_count = usize::from(u16::from_le_bytes(*header.get(6..)?.first_chunk()?));
    let record_bytes = shape.record_bytes as usize;
    let (unit_bytes, rest) = rest.split_at_checked(unit_count * record_bytes)?;
    let (record_part, rest) = rest.split_at_checked(weighted_count * record_bytes)?;
    let (weights, _) = rest.split_at_checked(weighted_count * WEIGHT_BYTES)?;
    let base = first_page << shape.residue_bits();
    let end = shape.layout.pages() << shape.residue_bits();
    let before = (units.len(), weighted.len());
    get_records(unit_bytes, record_bytes, |record| units.push(entries.widen(base.wrapping_add(record))));
    let mut weights = weights.as_chunks::<WEIGHT_BYTES>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    get_records(record_part, record_bytes, |record| {
        weighted.push([entries.widen(base.wrapping_add(record)), weights.next().unwrap_or(0)]);
    });
    let (units, weighted) = (&units[before.0..], &weighted[before.1..]);
    let in_order = units.is_sorted() && weighted.is_sorted_by_key(|&[entry, _]| entry);
    let last = units.last().copied().max(weighted.last().map(|&[entry, _]| entry))?;
    (in_order && entries.dense(last) < end).then_some(())
}

fn get_records(bytes: &[u8], record_bytes: usize, each: impl FnMut(u64)) {
    if record_bytes == 4 {
        bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes).into()).for_each(each);
    } else {
        bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).for_each(each);
    }
}

/// `Corrupt` at a block, unless what was found is what was expected.
pub(super) fn require(path: &Path, number: u64, what: &'static str, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(corrupt(path, number * BLOCK_BYTES as u64, what, expected, found))
}
