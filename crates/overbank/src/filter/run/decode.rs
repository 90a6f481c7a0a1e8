//! Unpacks a block's body, trusted or not: into arrays, or answering whether single fingerprints are in it.
//!
//! | n fingerprints | CPU |
//! |---|---|
//! | [`decode`] | O(n) |
//! | k ascending [`Prober::count`] | O(k + n / 32): the highs are passed over once |

use super::entries::Entries;
use super::exceptions;
use super::format::{Header, Parts};
use crate::Result;
use crate::bits::fields::{field, unpack_fields};
use crate::bits::{pass_zeros, select_in_word};
use crate::error::corrupt_bytes as corrupt;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Appends the entries of a block whose fingerprints are above those of `into`; none above `max`.
///
/// # Errors
/// `Corrupt` where no encoder wrote that; `into` then holds anything.
pub(super) fn decode(body: &[u8], max: u64, into: &mut Entries) -> Result<()> {
    let parts = Parts::of(body, max)?;
    let header = parts.header;
    let start = into.fingerprints.len();
    into.fingerprints.resize(start + header.keys, 0);
    let fingerprints = &mut into.fingerprints[start..];
    unpack_fields(header.low_bits, parts.lows, fingerprints);
    add_highs(parts, fingerprints)?;
    check_order(fingerprints, max)?;
    let first = into.fingerprints[start];
    if start > 0 && into.fingerprints[start - 1] >= first || first != header.base {
        return Err(disorder(first));
    }
    exceptions::decode(parts.exceptions, header.exceptions, header.keys, start as u32, &mut into.deltas)
}

#[cold]
pub(super) fn disorder(first: u64) -> crate::Error {
    corrupt(0, "the first fingerprint of a block", "its base, above those before", format!("{first:#x}"))
}

/// Makes fingerprints of low parts.
fn add_highs(parts: Parts<'_>, lows: &mut [u64]) -> Result<()> {
    let (base, low_bits) = (parts.header.base, parts.header.low_bits);
    let mut i = 0usize;
    for at in 0..parts.header.high_words() {
        let mut word = parts.high_word(at);
        let bits = (at * 64) as u64;
        while word != 0 {
            let Some(low) = lows.get_mut(i) else { return Err(other_ones(parts, i + 1)) };
            let high = (bits + u64::from(word.trailing_zeros())).wrapping_sub(i as u64);
            *low = base.wrapping_add(high << low_bits | *low);
            i = i.wrapping_add(1);
            word &= word.wrapping_sub(1);
        }
    }
    if i == lows.len() { Ok(()) } else { Err(other_ones(parts, i)) }
}

#[cold]
fn other_ones(parts: Parts<'_>, found: usize) -> crate::Error {
    corrupt(parts.header.highs_at(), "the fingerprints of a block", parts.header.keys, found)
}

/// The last high part is bounded by then, so the sum can pass `max`, and 2^64, by a low part only: the order shows it.
fn check_order(fingerprints: &[u64], max: u64) -> Result<()> {
    let (front, back) = (&fingerprints[..fingerprints.len() - 1], &fingerprints[1..]);
    let ascends = front.iter().zip(back).fold(true, |ascends, (one, next)| ascends & (one < next));
    let last = fingerprints.last().copied().unwrap_or(0);
    if !ascends || last > max {
        let expected = format!("ascending up to {max:#x}");
        return Err(corrupt(0, "the fingerprints of a block", expected, format!("up to {last:#x}")));
    }
    Ok(())
}

/// Answers ascending questions to one block.
pub(super) struct Prober<'a> {
    parts: Parts<'a>,
    /// A word of the highs, and how many zeros are before it.
    word: usize,
    zeros: u64,
    /// Unpacked with the first fingerprint that is there: most questions find none.
    deltas: Option<Vec<(u32, i64)>>,
}

impl<'a> Prober<'a> {
    /// # Errors
    /// `Corrupt`, as far as it can lead astray: the order of the fingerprints is not checked.
    #[inline]
    pub(super) fn new(body: &'a [u8], max: u64) -> Result<Self> {
        Ok(Prober { parts: Parts::of(body, max)?, word: 0, zeros: 0, deltas: None })
    }

    /// The count of `fingerprint`, not below the one asked before; 0 if it is not in the block.
    ///
    /// # Errors
    /// `Corrupt` if it is there, and the block's counts are not those of an encoder.
    #[inline]
    pub(super) fn count(&mut self, fingerprint: u64) -> Result<i64> {
        match self.find(fingerprint) {
            Some(i) => self.count_of(i),
            None => Ok(0),
        }
    }

    /// The count of the `i`-th fingerprint.
    #[inline]
    fn count_of(&mut self, i: usize) -> Result<i64> {
        if self.parts.header.exceptions == 0 { Ok(1) } else { self.count_among(i) }
    }

    /// As [`Prober::count_of`], where some counts are not 1.
    fn count_among(&mut self, i: usize) -> Result<i64> {
        let header = self.parts.header;
        let deltas = match &mut self.deltas {
            Some(deltas) => deltas,
            none => {
                let mut deltas = Vec::new();
                exceptions::decode(self.parts.exceptions, header.exceptions, header.keys, 0, &mut deltas)?;
                none.insert(deltas)
            }
        };
        Ok(deltas.binary_search_by_key(&(i as u32), |delta| delta.0).map_or(1, |at| 1 + deltas[at].1))
    }

    #[inline]
    fn find(&mut self, fingerprint: u64) -> Option<usize> {
        let header = self.parts.header;
        let offset = fingerprint.checked_sub(header.base)?;
        let (high, low) = (offset >> header.low_bits, offset & ((1 << header.low_bits) - 1));
        let place = self.behind_zeros(high);
        let mut start = place.checked_sub(high as usize)?;
        let mut end = start + self.run_of_ones(place);
        while start < end {
            let middle = start + (end - start) / 2;
            match field(header.low_bits, self.parts.lows, middle).cmp(&low) {
                Ordering::Less => start = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => end = middle,
            }
        }
        None
    }

    /// The place in the highs behind the `high`-th zero, where the fingerprints of this high part begin; not below the one asked before.
    fn behind_zeros(&mut self, high: u64) -> usize {
        let (passed, zeros) = pass_zeros(&self.parts.highs[self.word..], high - self.zeros);
        self.word += passed;
        self.zeros += zeros;
        let behind = match high - self.zeros {
            0 => 0,
            rank => select_in_word(!self.parts.high_word(self.word), (rank - 1).min(64) as u32) as usize + 1,
        };
        self.word * 64 + behind
    }

    /// Calls `each` with the fingerprints in `range` and their counts; its start is not below the one asked for before.
    ///
    /// # Errors
    /// As [`Prober::count`].
    pub(super) fn each_within(
        &mut self,
        range: &RangeInclusive<u64>,
        mut each: impl FnMut(u64, i64),
    ) -> Result<()> {
        let Header { base, keys, low_bits, .. } = self.parts.header;
        let high_words = self.parts.header.high_words();
        let high = range.start().saturating_sub(base) >> low_bits;
        let mut place = self.behind_zeros(high);
        let Some(mut i) = place.checked_sub(high as usize) else { return Ok(()) };
        while place / 64 < high_words && i < keys {
            let rest = self.parts.high_word(place / 64) >> (place % 64);
            if rest == 0 {
                place = (place / 64 + 1) * 64;
                continue;
            }
            place += rest.trailing_zeros() as usize;
            let offset = ((place - i) as u64) << low_bits | field(low_bits, self.parts.lows, i);
            let fingerprint = base.wrapping_add(offset);
            if fingerprint > *range.end() {
                break;
            }
            if fingerprint >= *range.start() {
                each(fingerprint, self.count_of(i)?);
            }
            (place, i) = (place + 1, i + 1);
        }
        Ok(())
    }

    /// How many ones follow each other from bit `place` of the highs on.
    fn run_of_ones(&self, place: usize) -> usize {
        let (mut at, skip) = (place / 64, place % 64);
        let mut run = (self.parts.high_word(at) >> skip).trailing_ones() as usize;
        while (place + run).is_multiple_of(64) && run > 0 && (place + run) / 64 > at {
            at += 1;
            run += self.parts.high_word(at).trailing_ones() as usize;
        }
        run
    }
}
