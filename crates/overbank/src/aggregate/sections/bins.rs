//! The bins of a DDSketch, of which there are only so many.
//!
//! ```text
//!   ┼ level ┼ skipped ┼ bin ┼ count ┼ difference ┼ count ┼ …        ascending; all are varints, the first bin is a signed one
//!
//!   … │ -2 │ -1 │ 0 │ 1 │ 2 │ 3 │ 4 │ …   level 0: bins of the mapping; 0 holds zeros, 1 the least positive numbers
//!   … │   -1    │ 0 │   1   │   2   │ …   level 1: two and two of them are one
//! ```
//!
//! 1. The level is the least at which no more than [`BINS_MAX`] bins are in use: a function of the numbers alone. At an error of 1 % level
//!    0 holds numbers whose magnitudes span 17 decimal places; each level more doubles what they may span, and about doubles the error.
//! 2. An answer has bounds, so the error shows where it is greater than was asked for.
//! 3. NaN and infinities are in no bin, and are counted as skipped.
//!
//! Cost: a pass over the section, for any number of items; it is written again only where a bin is new or a count becomes longer.
//!
//! Source: Masson, Rim, Lee, "DDSketch" (VLDB 2019), with the uniform collapse of Epicoco et al., "UDDSketch" (IEEE Access 2020): that of
//! the paper gives the lowest bins up, and with them all guarantees there.

use super::super::signed::{from_signed, signed};
use super::super::tail::{Change, Reader};
use super::super::value::Value;
use crate::bits::varint;
use crate::sketch::ddsketch::mapping::Mapping;

/// Bins of a sketch.
const BINS_MAX: usize = 2048;
/// At this level all numbers of one sign are in one bin.
const LEVEL_MAX: u32 = 32;

/// How numbers are put into bins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in super::super) struct Quantizer {
    alpha: f64,
    mapping: Mapping,
}

#[derive(Clone, PartialEq, Default, Debug)]
struct Bins {
    level: u32,
    skipped: u64,
    /// Ascending.
    counts: Vec<(i64, u64)>,
}

impl Quantizer {
    /// Of a relative error that a sketch may have.
    pub(in super::super) fn new(alpha: f64) -> Quantizer {
        Quantizer { alpha, mapping: Mapping::new(alpha) }
    }

    /// The bin of level 0 of a finite number.
    fn bin(&self, number: f64) -> i64 {
        let rank = |magnitude| i64::from(self.mapping.bin(magnitude)) - i64::from(self.mapping.range().0) + 1;
        if number > 0.0 {
            rank(number)
        } else if number < 0.0 {
            -rank(-number)
        } else {
            0
        }
    }

    /// Between which numbers those of a bin are.
    fn edges(&self, bin: i64, level: u32) -> (f64, f64) {
        if bin < 0 {
            let (near, far) = self.edges(-bin, level);
            return (-far, -near);
        }
        if bin == 0 {
            return (0.0, 0.0);
        }
        let (lowest, highest) = self.mapping.range();
        let place = |rank: i64| {
            let bin = rank.saturating_add(i64::from(lowest)) - 1;
            bin.clamp(lowest.into(), highest.into()) as i32
        };
        let first = place(((bin - 1) << level).saturating_add(1));
        let last = place(bin << level);
        (self.mapping.edges(first, self.alpha).0, self.mapping.edges(last, self.alpha).1)
    }

    /// Takes a number into a section.
    pub(in super::super) fn update(&self, section: &mut [u8], number: f64) -> Option<Change> {
        let number = number.is_finite().then(|| self.bin(number));
        if section.is_empty() {
            return Some(Change::To(Bins::of(number).encoded()));
        }
        if let Some(bin) = number
            && self.count_in_place(section, bin)?
        {
            return Some(Change::Done);
        }
        let bins = self.decoded(section)?.merged(Bins::of(number));
        Some(Change::To(bins.encoded()))
    }

    /// Takes numbers into a section, in one pass.
    pub(in super::super) fn update_all(
        &self,
        section: &[u8],
        numbers: impl Iterator<Item = f64>,
    ) -> Option<Change> {
        let (mut new, mut bins) = (Bins::default(), Vec::with_capacity(numbers.size_hint().0));
        for number in numbers {
            if number.is_finite() {
                bins.push(self.bin(number));
            } else {
                new.skipped = new.skipped.saturating_add(1);
            }
        }
        bins.sort_unstable();
        new.counts.extend(bins.chunk_by(|one, other| one == other).map(|bin| (bin[0], bin.len() as u64)));
        Some(Change::To(self.decoded(section)?.merged(new).encoded()))
    }

    /// Adds one to the count of a bin, if it has one and that does not become longer.
    fn count_in_place(&self, section: &mut [u8], bin: i64) -> Option<bool> {
        let mut reader = Reader::new(section);
        let level = u32::try_from(reader.varint()?).ok().filter(|&level| level <= LEVEL_MAX)?;
        let bin = raised(bin, level);
        reader.varint()?;
        let mut last = None;
        while !reader.is_empty() {
            let next = next_bin(last, reader.varint()?)?;
            let at = section.len() - reader.left();
            let count = reader.varint()?;
            let end = section.len() - reader.left();
            if next > bin {
                break;
            }
            if next == bin {
                let mut bytes = Vec::with_capacity(10);
                varint::push(count.saturating_add(1), &mut bytes);
                if bytes.len() != end - at {
                    break;
                }
                section[at..end].copy_from_slice(&bytes);
                return Some(true);
            }
            last = Some(next);
        }
        Some(false)
    }

    /// The section of the numbers of two.
    pub(in super::super) fn merge(&self, one: &[u8], other: &[u8]) -> Option<Vec<u8>> {
        Some(self.decoded(one)?.merged(self.decoded(other)?).encoded())
    }

    /// The number of rank `floor(q × (count - 1))`, counted from 0 in ascending order, and its bounds; `Null` if all were skipped.
    pub(in super::super) fn quantile(&self, section: &[u8], q: f64) -> Option<Value> {
        let bins = self.decoded(section)?;
        let count: u128 = bins.counts.iter().map(|bin| u128::from(bin.1)).sum();
        let Some(last) = count.checked_sub(1) else { return Some(Value::Null) };
        let rank = (q * last as f64) as u128;
        let mut seen = 0;
        let found = bins.counts.iter().find(|bin| {
            seen += u128::from(bin.1);
            seen > rank
        });
        let bin = found.or(bins.counts.last()).map_or(0, |bin| bin.0);
        let (lower, upper) = self.edges(bin, bins.level);
        Some(Value::About { value: middle(lower, upper), lower, upper })
    }

    fn decoded(&self, section: &[u8]) -> Option<Bins> {
        let mut bins = Bins::default();
        if section.is_empty() {
            return Some(bins);
        }
        let mut reader = Reader::new(section);
        bins.level = u32::try_from(reader.varint()?).ok().filter(|&level| level <= LEVEL_MAX)?;
        bins.skipped = reader.varint()?;
        let (lowest, highest) = self.mapping.range();
        let greatest = raised(i64::from(highest) - i64::from(lowest) + 1, bins.level);
        while !reader.is_empty() {
            let bin = next_bin(bins.counts.last().map(|bin| bin.0), reader.varint()?)?;
            let count = reader.varint()?;
            if bin.unsigned_abs() > greatest.unsigned_abs() || count == 0 || bins.counts.len() == BINS_MAX {
                return None;
            }
            bins.counts.push((bin, count));
        }
        Some(bins)
    }
}

impl Bins {
    fn of(bin: Option<i64>) -> Bins {
        match bin {
            Some(bin) => Bins { counts: vec![(bin, 1)], ..Bins::default() },
            None => Bins { skipped: 1, ..Bins::default() },
        }
    }

    fn merged(mut self, mut other: Bins) -> Bins {
        let level = self.level.max(other.level);
        self.raise(level);
        other.raise(level);
        let mut counts = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut left, mut right) = (self.counts.into_iter().peekable(), other.counts.into_iter().peekable());
        while let (Some(&one), Some(&other)) = (left.peek(), right.peek()) {
            let first = one.0.min(other.0);
            let of_one = left.next_if(|bin| bin.0 == first).map_or(0, |bin| bin.1);
            let of_other = right.next_if(|bin| bin.0 == first).map_or(0, |bin| bin.1);
            counts.push((first, of_one.saturating_add(of_other)));
        }
        counts.extend(left.chain(right));
        let mut bins = Bins { level, skipped: self.skipped.saturating_add(other.skipped), counts };
        while bins.counts.len() > BINS_MAX {
            bins.raise(bins.level + 1);
        }
        bins
    }

    fn raise(&mut self, level: u32) {
        let by = level - self.level;
        if by == 0 {
            return;
        }
        self.level = level;
        self.counts.iter_mut().for_each(|bin| bin.0 = raised(bin.0, by));
        self.counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + 3 * self.counts.len());
        varint::push(self.level.into(), &mut bytes);
        varint::push(self.skipped, &mut bytes);
        let mut last: Option<i64> = None;
        for &(bin, count) in &self.counts {
            varint::push(last.map_or(signed(bin), |last| (bin - last - 1) as u64), &mut bytes);
            varint::push(count, &mut bytes);
            last = Some(bin);
        }
        bytes
    }
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max() -> usize {
    15 + 15 * BINS_MAX
}

/// The bin that a varint says, behind the last one.
fn next_bin(last: Option<i64>, number: u64) -> Option<i64> {
    match last {
        None => Some(from_signed(number)),
        Some(last) => last.checked_add(1)?.checked_add(i64::try_from(number).ok()?),
    }
}

/// The bin `levels` levels higher.
fn raised(bin: i64, levels: u32) -> i64 {
    let magnitude = bin.unsigned_abs();
    if bin == 0 { 0 } else { (((magnitude - 1) >> levels) + 1) as i64 * bin.signum() }
}

/// The number that is as far from both, relatively.
fn middle(lower: f64, upper: f64) -> f64 {
    let (near, far) = if lower.abs() < upper.abs() { (lower, upper) } else { (upper, lower) };
    if near == 0.0 {
        return near;
    }
    let ratio = far / near;
    // Of a level at which one bin has most numbers, the ratio may be no double.
    near * if ratio.is_finite() { 2.0 * (ratio / (1.0 + ratio)) } else { 2.0 }
}
