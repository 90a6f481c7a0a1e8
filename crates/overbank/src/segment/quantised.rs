//! Where a hash's page is, exactly: pages begin only where a quantum of the hash range does.
//!
//! ```text
//!   quanta   0   1   2   3   4   5   6   7   8   9  10  11  12  …      equal parts of the range, some 8 a block
//!   pages    ├──────── A ────────────┼──── B ────┼────── C (2 blocks) ──
//!   borders  0                       6           9  9                  the quantum of a page's first hash, once a block
//!            └─────────────── Elias-Fano: 2 + lg(quanta / blocks) bits a block ──
//!
//!   find(hash)   the blocks with the greatest border that is not above the hash's quantum
//! ```
//!
//! Bytes: the range's first hash (8), its last (8), the number of quanta (8), the unit (4), zeros (4); borders less the first page's, in
//! [`EliasFano`]'s byte form.
//!
//! Invariants:
//! 1. A page's first hash is in a later quantum than the last hash of the page before: so no hash could be in either.
//! 2. A page of several blocks has its border as many times. Where all pages are of some number of blocks, or of multiples of it, that
//!    many are one border: the unit.
//! 3. The first border is that of the segment's first hash.

use super::Quanta;
use crate::Result;
use crate::bits::{EliasFano, EliasFanoBuilder};
use crate::bytes::ByteReader;
use crate::error::{corrupt_bytes, invalid};
use std::ops::Range;

/// Bytes before the borders.
const HEADER_BYTES: usize = 32;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Quantised {
    quanta: Quanta,
    first_hash: u64,
    last_hash: u64,
    /// Of the first page.
    first_border: u64,
    /// Blocks a border.
    unit: u64,
    /// Less the first one.
    borders: EliasFano,
}

/// The borders of pages, collected while a segment is written: a byte or two a page.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    quanta: Quanta,
    first_hash: u64,
    last_hash: u64,
    last_border: u64,
    blocks: u64,
    /// The greatest common divisor of the pages' blocks.
    unit: u64,
    /// Of each page, how far its border is above the one before, and whether it has several blocks; then, if so, how many more than 1.
    steps: Vec<u8>,
}

impl Pages {
    pub(super) fn new(quanta: Quanta) -> Self {
        Self { quanta, first_hash: 0, last_hash: 0, last_border: 0, blocks: 0, unit: 0, steps: Vec::new() }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn first_hash(&self) -> u64 {
        self.first_hash
    }

    pub(super) fn last_hash(&self) -> u64 {
        self.last_hash
    }

    /// Whether a page of these hashes may come next.
    ///
    /// # Errors
    /// `InvalidOption` if it may not.
    pub(super) fn check(&self, first_hash: u64, last_hash: u64) -> Result<()> {
        let (quanta, is_first) = (&self.quanta, self.blocks == 0);
        let range = quanta.range();
        let is_inside = first_hash <= last_hash && *range.start() <= first_hash && last_hash <= *range.end();
        let border = quanta.of(first_hash);
        if is_inside && (is_first || border > quanta.of(self.last_hash)) {
            return Ok(());
        }
        let after = if is_first {
            String::new()
        } else {
            let last_hash = self.last_hash;
            format!(", and begin in a quantum above {}, the one of {last_hash:#x}", quanta.of(last_hash))
        };
        let (first, last) = (range.start(), range.end());
        invalid(
            "a page's hashes",
            format!("{first_hash:#x} to {last_hash:#x}, from quantum {border}"),
            format!("pages are of {first:#x} to {last:#x}, in order{after}"),
        )
    }

    /// Adds the next page, of one block or more; [`Pages::check`] has let it pass.
    pub(super) fn push(&mut self, first_hash: u64, last_hash: u64, blocks: u64) {
        let border = self.quanta.of(first_hash);
        if self.blocks == 0 {
            self.first_hash = first_hash;
            self.last_border = border;
        }
        let is_long = blocks > 1;
        push_number(&mut self.steps, (border - self.last_border) << 1 | u64::from(is_long));
        if is_long {
            push_number(&mut self.steps, blocks - 1);
        }
        self.last_border = border;
        self.last_hash = last_hash;
        self.blocks += blocks;
        self.unit = common_divisor(self.unit, blocks);
    }

    /// Of each page, its border less the first one, and its blocks.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let (mut rest, mut border) = (self.steps.iter(), 0);
        std::iter::from_fn(move || {
            let step = next_number(&mut rest)?;
            border += step >> 1;
            let blocks = if step & 1 == 1 { next_number(&mut rest)? + 1 } else { 1 };
            Some((border, blocks))
        })
    }
}

impl Quantised {
    pub(super) fn new(pages: &Pages) -> Self {
        let unit = pages.unit.max(1);
        let first_border = pages.quanta.of(pages.first_hash);
        let max = pages.last_border.saturating_sub(first_border);
        let mut borders = EliasFanoBuilder::new((pages.blocks / unit) as usize, max);
        for (border, blocks) in pages.iter() {
            (0..blocks / unit).for_each(|_| borders.push(border));
        }
        Self {
            quanta: pages.quanta,
            first_hash: pages.first_hash,
            last_hash: pages.last_hash,
            first_border,
            unit,
            borders: borders.finish(),
        }
    }

    /// For the pages of the same segment, none of them there yet.
    pub(super) fn no_pages(&self) -> Pages {
        Pages::new(self.quanta)
    }

    /// Whether it is the index of these pages, whose last hashes are not looked at.
    pub(super) fn is_of(&self, pages: &Pages) -> bool {
        Self { last_hash: self.last_hash, ..Self::new(pages) } == *self
    }

    /// The blocks of the page that holds `hash` if any does; none outside the segment's range.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Range<u64> {
        if self.borders.is_empty() || hash < self.first_hash || hash > self.last_hash {
            return 0..0;
        }
        let run = self.borders.last_run(self.quanta.of(hash) - self.first_border);
        run.start as u64 * self.unit..run.end as u64 * self.unit
    }

    /// Has what [`Quantised::find`] will read brought to the cache.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.borders.prefetch(self.quanta.of(hash).saturating_sub(self.first_border));
    }

    /// How many blocks may hold a hash below `hash`: no other does.
    pub(super) fn begin_below(&self, hash: u64) -> u64 {
        if self.borders.is_empty() || hash <= self.first_hash {
            return 0;
        }
        self.find((hash - 1).min(self.last_hash)).end
    }

    /// Bytes of RAM.
    pub(super) fn memory_bytes(&self) -> usize {
        self.borders.memory_bytes()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let range = self.quanta.range();
        let mut out = Vec::with_capacity(HEADER_BYTES + self.borders.encoded_bytes());
        for field in [*range.start(), *range.end(), self.quanta.count(), self.unit] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.borders.to_bytes());
        out
    }

    /// Reads what [`Quantised::encode`] wrote of `blocks` blocks whose hashes go from `hashes.0` to `hashes.1`. Offsets in errors count
    /// from the start of `bytes`.
    pub(super) fn decode(bytes: &[u8], blocks: u64, hashes: (u64, u64)) -> Result<Self> {
        let mut fields = ByteReader::new(bytes);
        let (first, last, count) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let unit = u64::from(fields.u32()?);
        fields.zeros(4)?;
        let corrupt =
            |at, what, expected: String, found: String| Err(corrupt_bytes(at, what, expected, found));
        let quanta = match Quanta::new(first..=last, count) {
            Ok(quanta) if quanta.count() == count => quanta,
            _ => {
                let found = format!("{count} parts of {first:#x} to {last:#x}");
                return corrupt(0, "the quanta of a block index", "1 to as many as hashes".into(), found);
            }
        };
        let borders = EliasFano::from_bytes(fields.take_rest())?;
        if unit == 0 || (borders.len() as u64).checked_mul(unit) != Some(blocks) {
            let found = format!("{} borders of {unit} blocks", borders.len());
            return corrupt(24, "a block index", format!("that of {blocks} blocks"), found);
        }
        let index = Self {
            quanta,
            first_hash: hashes.0,
            last_hash: hashes.1,
            first_border: quanta.of(hashes.0),
            unit,
            borders,
        };
        if blocks == 0 {
            // What was never pushed has no unit but this, and no range.
            return if unit == 1 && hashes == (0, 0) && index.borders.max() == 0 {
                Ok(index)
            } else {
                corrupt(24, "an empty block index", "hashes from 0 to 0".into(), format!("{hashes:x?}"))
            };
        }
        let is_inside = first <= hashes.0 && hashes.0 <= hashes.1 && hashes.1 <= last;
        let (least, greatest) = (index.borders.get(0), index.borders.get(index.borders.len() - 1));
        let reach = quanta.of(hashes.1).saturating_sub(index.first_border);
        if !is_inside || least != 0 || greatest != index.borders.max() || greatest > reach {
            let expected = format!("0 to at most {reach}, in {first:#x} to {last:#x}");
            let found = format!("{least} to {greatest}, of {:#x} to {:#x}", hashes.0, hashes.1);
            return corrupt(HEADER_BYTES, "a block index's borders", expected, found);
        }
        let divisor = index.runs().fold(0, common_divisor);
        if divisor != 1 {
            return corrupt(24, "a block index's unit", (unit * divisor).to_string(), unit.to_string());
        }
        Ok(index)
    }

    /// Of each page, how many borders it has.
    fn runs(&self) -> impl Iterator<Item = u64> {
        let mut borders = self.borders.iter().peekable();
        std::iter::from_fn(move || {
            let border = borders.next()?;
            let mut run = 1;
            while borders.next_if_eq(&border).is_some() {
                run += 1;
            }
            Some(run)
        })
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Seven bits a byte, the least significant first; the top bit says that there are more.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn next_number<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pages of so many blocks each, whose first hashes are these.
    fn index_of(pages: &[(u64, u64)], count: u64) -> Option<Quantised> {
        let mut collected = Pages::new(Quanta::new(0..=u64::MAX, count).unwrap());
        for &(hash, blocks) in pages {
            if collected.check(hash, hash).is_ok() {
                collected.push(hash, hash, blocks);
            }
        }
        (collected.blocks() > 0).then(|| Quantised::new(&collected))
    }

    fn decode(bytes: &[u8], like: &Quantised) -> Result<Quantised> {
        let blocks = like.borders.len() as u64 * like.unit;
        Quantised::decode(bytes, blocks, (like.first_hash, like.last_hash))
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_corrupt_or_another_index_that_answers_inside_the_file(
            mut pages in prop::collection::vec((any::<u64>(), prop_oneof![4 => Just(2u64), 1 => 1..70u64]), 1..200),
            count in prop_oneof![1..5000u64, any::<u64>()],
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..8), 1..4),
            cut in 0usize..40,
        ) {
            pages.sort_unstable();
            let index = index_of(&pages, count).expect("the first page is always right");
            let good = index.encode();
            prop_assert_eq!(&decode(&good, &index).unwrap(), &index);
            let blocks = index.borders.len() as u64 * index.unit;
            let mut bad = good.clone();
            flips.iter().for_each(|(at, bit)| bad[at.index(good.len())] ^= 1 << bit);
            if let Ok(other) = decode(&bad, &index) {
                prop_assert_eq!(other.encode(), bad);
                let mut end = 0;
                for (hash, _) in pages.iter().filter(|(hash, _)| *hash <= index.last_hash) {
                    let found = other.find(*hash);
                    // Pages in order, one after another, each in the file.
                    prop_assert!(found.start < found.end && found.end <= blocks && found.end >= end);
                    end = found.end;
                }
            }
            prop_assert!(decode(&good[..good.len().saturating_sub(cut + 1)], &index).is_err());
        }

        #[test]
        fn noise_is_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..300), blocks in 0..100u64, a: u64, b: u64) {
            let _ = Quantised::decode(&bytes, blocks, (a.min(b), a.max(b)));
            let mut with_header = [0, u64::MAX, 1 << 20, 1].map(u64::to_le_bytes).concat();
            with_header.extend(bytes);
            let _ = Quantised::decode(&with_header, blocks, (a.min(b), a.max(b)));
        }
    }

    #[test]
    fn pages_take_a_byte_or_two_while_they_are_written() {
        let mut collected = Pages::new(Quanta::new(0..=u64::MAX, 8 << 10).unwrap());
        (0..1u64 << 10).for_each(|page| collected.push(page << 54, page << 54 | 9, 1 + page % 2));
        assert!(collected.steps.len() <= 1 << 11, "{}", collected.steps.len());
        assert!(collected.iter().eq((0..1u64 << 10).map(|page| (page * 8, 1 + page % 2))));
    }

    #[test]
    fn pages_of_many_blocks_alike_cost_as_much_as_single_ones() {
        let hashes = |blocks| (0..1u64 << 12).map(move |page| (page << 52, blocks)).collect::<Vec<_>>();
        let (one, four) = (index_of(&hashes(1), 1 << 15).unwrap(), index_of(&hashes(4), 1 << 15).unwrap());
        assert_eq!((one.unit, four.unit), (1, 4));
        assert_eq!(one.encode().len(), four.encode().len());
        assert_eq!(four.find(7 << 52 | 5), 28..32);
    }
}
