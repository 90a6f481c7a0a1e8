//! A set of numbers below a bound.
//!
//! ```text
//!   ┼ 0 ┼ number ┼ difference - 1 ┼ difference - 1 ┼ …        ascending, as varints
//!   ┼ 1 ┼ bits, the least first ┼                               where that is shorter
//! ```
//!
//! Cost: a bit, where the number is below the greatest of a set of bits; else a pass over the section,
//! for any number of numbers.

use super::super::tail::{Change, Reader};
use crate::bits::varint;

const SPARSE: u8 = 0;
const DENSE: u8 = 1;

/// Takes a number below `below` into a section.
pub(in super::super) fn update(section: &mut [u8], below: u32, number: u32) -> Option<Change> {
    if section.first() == Some(&DENSE)
        && let Some(byte) = section[1..].get_mut(number as usize / 8)
    {
        *byte |= 1 << (number % 8);
        return Some(Change::Done);
    }
    let mut numbers = decoded(section, below)?;
    match numbers.binary_search(&number) {
        Ok(_) => Some(Change::Done),
        Err(at) => {
            numbers.insert(at, number);
            Some(Change::To(encoded(&numbers)))
        }
    }
}

/// Takes numbers below `below` into a section, in one pass.
pub(in super::super) fn update_all(section: &mut [u8], below: u32, mut numbers: Vec<u32>) -> Option<Change> {
    if section.first() == Some(&DENSE) {
        let bits = &mut section[1..];
        numbers.retain(|&number| match bits.get_mut(number as usize / 8) {
            Some(byte) => {
                *byte |= 1 << (number % 8);
                false
            }
            None => true,
        });
    }
    if numbers.is_empty() {
        return Some(Change::Done);
    }
    numbers.sort_unstable();
    let mut all = decoded(section, below)?;
    all.extend(numbers);
    // Two ascending runs, which this merges.
    all.sort();
    all.dedup();
    Some(Change::To(encoded(&all)))
}

/// The section of the numbers of two.
pub(in super::super) fn merge(one: &[u8], other: &[u8], below: u32) -> Option<Vec<u8>> {
    let (mut numbers, others) = (decoded(one, below)?, decoded(other, below)?);
    numbers.extend(others);
    // Two ascending runs, which this merges.
    numbers.sort();
    numbers.dedup();
    Some(encoded(&numbers))
}

/// The numbers, ascending.
pub(in super::super) fn decoded(section: &[u8], below: u32) -> Option<Vec<u32>> {
    let Some((&kind, rest)) = section.split_first() else { return Some(Vec::new()) };
    let mut numbers: Vec<u32> = Vec::new();
    match kind {
        DENSE => {
            if rest.last().is_none_or(|&byte| byte == 0) || rest.len() > (below as usize).div_ceil(8) {
                return None;
            }
            let bits = |(i, &byte): (usize, &u8)| {
                (0..8u32).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| i as u32 * 8 + bit)
            };
            numbers.extend(rest.iter().enumerate().flat_map(bits));
        }
        SPARSE => {
            let mut reader = Reader::new(rest);
            while !reader.is_empty() {
                let difference = u32::try_from(reader.varint()?).ok()?;
                let next = numbers.last().map_or(Some(0), |&last| last.checked_add(1))?;
                numbers.push(next.checked_add(difference)?);
            }
        }
        _ => return None,
    }
    numbers.last().is_some_and(|&last| last < below).then_some(numbers)
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max(below: u32) -> usize {
    1 + (below as usize).div_ceil(8)
}

fn encoded(numbers: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(&greatest) = numbers.last() else { return bytes };
    let dense_bytes = 1 + greatest as usize / 8 + 1;
    bytes.push(SPARSE);
    let mut next = 0;
    for &number in numbers {
        varint::push(u64::from(number - next), &mut bytes);
        next = number.saturating_add(1);
        if bytes.len() > dense_bytes {
            bytes.clear();
            bytes.resize(dense_bytes, 0);
            bytes[0] = DENSE;
            numbers.iter().for_each(|&number| bytes[1 + number as usize / 8] |= 1 << (number % 8));
            break;
        }
    }
    bytes
}
