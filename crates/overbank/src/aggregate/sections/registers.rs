//! The registers of a HyperLogLog, those in use alone while they are few.
//!
//! ```text
//!   ┼ 0 ┼ register ┼ rank ┼ difference - 1 ┼ rank ┼ …        those in use, ascending: varints and bytes
//!   ┼ 1 ┼ 2^lg_m ranks of a byte ┼                             once that is not longer
//! ```
//!
//! The sketch is that of [`HyperLogLog`], with its registers and its estimate. The first form grows with each register, and not with ranks:
//! what once is of the second form stays so, and which of them it is depends on the registers alone.
//!
//! Cost: a pass over the section, as long as it is of the first kind, for any number of items; a byte an
//! item after that.

use super::super::tail::{Change, Reader};
use crate::bits::varint;
use crate::sketch::HyperLogLog;
pub(in super::super) use crate::sketch::hyperloglog::{LG_M_MAX, LG_M_MIN};
use crate::{KeyHash, KeyHasher};

const SPARSE: u8 = 0;
const DENSE: u8 = 1;
/// The rank of a hash of zeros.
const RANK_MAX: u8 = 65;

/// Takes the hash of an item into a section.
pub(in super::super) fn update(section: &mut [u8], lg_m: u32, hash: KeyHash) -> Option<Change> {
    let (register, rank) = HyperLogLog::register_of(hash, lg_m);
    if section.first() == Some(&DENSE) {
        let own = section[1..].get_mut(register)?;
        *own = rank.max(*own);
        return Some(Change::Done);
    }
    let mut registers = decoded(section, lg_m)?;
    match registers.binary_search_by_key(&register, |own| own.0) {
        Ok(at) if registers[at].1 >= rank => return Some(Change::Done),
        Ok(at) => registers[at].1 = rank,
        Err(at) => registers.insert(at, (register, rank)),
    }
    Some(Change::To(encoded(&registers, lg_m)))
}

/// Takes the hashes of items into a section, in one pass.
pub(in super::super) fn update_all(
    section: &mut [u8],
    lg_m: u32,
    hashes: impl Iterator<Item = KeyHash>,
) -> Option<Change> {
    let mut hashes = hashes.map(|hash| HyperLogLog::register_of(hash, lg_m));
    if section.first() == Some(&DENSE) {
        let registers = &mut section[1..];
        hashes.try_for_each(|(register, rank)| {
            let own = registers.get_mut(register)?;
            *own = rank.max(*own);
            Some(())
        })?;
        return Some(Change::Done);
    }
    let mut registers = decoded(section, lg_m)?;
    registers.extend(hashes);
    registers.sort_unstable();
    registers.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            // The greater one: they are in order.
            kept.1 = next.1;
        }
        is_same
    });
    Some(Change::To(encoded(&registers, lg_m)))
}

/// The section of the items of two.
pub(in super::super) fn merge(one: &[u8], other: &[u8], lg_m: u32) -> Option<Vec<u8>> {
    if one.first() == Some(&DENSE) && other.first() == Some(&DENSE) {
        let is_whole = |section: &[u8]| decoded(section, lg_m).is_some();
        let both = || one.iter().zip(other).map(|(&one, &other)| one.max(other)).collect();
        return (is_whole(one) && is_whole(other)).then(both);
    }
    let (one, other) = (decoded(one, lg_m)?, decoded(other, lg_m)?);
    let mut both = Vec::with_capacity(one.len() + other.len());
    let (mut left, mut right) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some(&(first, rank)), Some(&(second, others))) = (left.peek(), right.peek()) {
        let kept = if first == second {
            rank.max(others)
        } else if first < second {
            rank
        } else {
            others
        };
        both.push((first.min(second), kept));
        left.next_if(|_| first <= second);
        right.next_if(|_| second <= first);
    }
    both.extend(left.chain(right));
    Some(encoded(&both, lg_m))
}

/// The sketch.
pub(in super::super) fn sketch(section: &[u8], lg_m: u32, hasher: &KeyHasher) -> Option<HyperLogLog> {
    let mut registers = vec![0; 1 << lg_m];
    for (register, rank) in decoded(section, lg_m)? {
        registers[register] = rank;
    }
    HyperLogLog::from_registers(hasher, registers)
}

/// The most bytes of a section.
pub(in super::super) fn bytes_max(lg_m: u32) -> usize {
    1 + (1 << lg_m)
}

/// Registers in use and their ranks.
fn decoded(section: &[u8], lg_m: u32) -> Option<Vec<(usize, u8)>> {
    let Some((&kind, rest)) = section.split_first() else { return Some(Vec::new()) };
    let registers = 1usize << lg_m;
    if kind == DENSE {
        let is_whole = rest.len() == registers && rest.iter().all(|&rank| rank <= RANK_MAX);
        let in_use = || rest.iter().copied().enumerate().filter(|own| own.1 != 0).collect();
        return is_whole.then(in_use);
    }
    let (mut found, mut reader, mut next) = (Vec::new(), Reader::new(rest), 0usize);
    while !reader.is_empty() {
        let register = next.checked_add(usize::try_from(reader.varint()?).ok()?)?;
        let &[rank] = reader.take(1)? else { return None };
        if register >= registers || !(1..=RANK_MAX).contains(&rank) {
            return None;
        }
        found.push((register, rank));
        next = register + 1;
    }
    (kind == SPARSE && !found.is_empty()).then_some(found)
}

fn encoded(registers: &[(usize, u8)], lg_m: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if registers.is_empty() {
        return bytes;
    }
    bytes.push(SPARSE);
    let mut next = 0;
    for &(register, rank) in registers {
        varint::push((register - next) as u64, &mut bytes);
        bytes.push(rank);
        next = register + 1;
        if bytes.len() >= bytes_max(lg_m) {
            break;
        }
    }
    if bytes.len() >= bytes_max(lg_m) {
        bytes.clear();
        bytes.resize(bytes_max(lg_m), 0);
        bytes[0] = DENSE;
        registers.iter().for_each(|&(register, rank)| bytes[1 + register] = rank);
    }
    bytes
}
