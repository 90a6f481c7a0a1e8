//! Packs fingerprints into a block's body: how many fit, which split of their bits is the shortest, and the bits.
//!
//! 1. A block takes as many fingerprints as fit, whatever there is behind them; so equal entries make equal blocks.
//! 2. For `n` fingerprints over `span`, `low_bits` near lg(span / n) is the shortest: lg(span / n) + 1.91 to 2.0 bits each.

use super::entries::Part;
use super::exceptions;
use super::format::{HEADER_BYTES, Header};
use crate::bits::fields::{field_bytes, pack_fields};
use crate::segment::BODY_BYTES;

/// Fingerprints that are to be cut into blocks, with the bits of their exceptions summed up.
pub(super) struct Cutter<'a> {
    all: Part<'a>,
    /// Bits of the exceptions up to and with each one.
    exception_bits: Vec<u64>,
}

/// A block that fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    keys: usize,
    low_bits: u32,
    high_bytes: usize,
    bytes: usize,
}

impl<'a> Cutter<'a> {
    /// Cuts `all`, whose first index is 0.
    pub(super) fn new(all: Part<'a>) -> Self {
        let (mut sum, mut next) = (0, 0);
        let add = |&(i, delta): &(u32, i64)| {
            sum += exceptions::exception_bits(i - next + 1, delta);
            next = i + 1;
            sum
        };
        Cutter { exception_bits: all.deltas.iter().map(add).collect(), all }
    }

    /// Writes the block that begins with fingerprint `start` to `body`, and returns how many fingerprints it has. `None` if
    /// all up to `end` fit one block and `is_last` is not set: more may come.
    pub(super) fn cut(&self, start: usize, end: usize, is_last: bool, body: &mut [u8]) -> Option<usize> {
        let whole = self.plan(start, end - start);
        let plan = match whole.bytes <= BODY_BYTES {
            true if is_last => whole,
            true => return None,
            false => self.largest(start, end - start),
        };
        encode(self.all.slice(start, start + plan.keys), plan, body);
        Some(plan.keys)
    }

    /// Appends the block of fingerprints `start..start + keys` to `into`, as long as it has to be.
    pub(super) fn pack(&self, start: usize, keys: usize, into: &mut Vec<u8>) {
        let plan = self.plan(start, keys);
        let at = into.len();
        into.resize(at + plan.bytes, 0);
        encode(self.all.slice(start, start + keys), plan, &mut into[at..]);
    }

    /// The most fingerprints that fit, fewer than `too_many`. What a block takes grows with each fingerprint.
    fn largest(&self, start: usize, too_many: usize) -> Plan {
        let mut fits = self.plan(start, 1);
        let mut too_many = too_many;
        while too_many - fits.keys > 1 {
            let plan = self.plan(start, fits.keys + (too_many - fits.keys) / 2);
            if plan.bytes <= BODY_BYTES {
                fits = plan;
            } else {
                too_many = plan.keys;
            }
        }
        fits
    }

    fn plan(&self, start: usize, keys: usize) -> Plan {
        let span = self.all.fingerprints[start + keys - 1] - self.all.fingerprints[start];
        let exception_bytes = self.exception_bits(start, start + keys).div_ceil(8) as usize;
        // Where lg(span / n) is rounded down, its neighbours can be shorter by the rounding to bytes.
        let middle = (span / keys as u64).checked_ilog2().unwrap_or(0);
        let of = |low_bits: u32| {
            let highs = (span >> low_bits) + keys as u64;
            let high_bytes = highs.div_ceil(8) as usize;
            let bytes = HEADER_BYTES + high_bytes + field_bytes(low_bits, keys) + exception_bytes;
            Plan { keys, low_bits, high_bytes, bytes }
        };
        let around = [of(middle.saturating_sub(1)), of(middle), of((middle + 1).min(63))];
        around.into_iter().min_by_key(|plan| plan.bytes).unwrap_or(around[1])
    }

    /// Bits of the exceptions of fingerprints `start..end`, as a block of their own has them.
    fn exception_bits(&self, start: usize, end: usize) -> u64 {
        let deltas = self.all.deltas;
        let from = deltas.partition_point(|delta| (delta.0 as usize) < start);
        let to = from + deltas[from..].partition_point(|delta| (delta.0 as usize) < end);
        if from == to {
            return 0;
        }
        let (i, delta) = deltas[from];
        let first = exceptions::exception_bits(i - start as u32 + 1, delta);
        first + self.exception_bits[to - 1] - self.exception_bits[from]
    }
}

fn encode(part: Part<'_>, plan: Plan, body: &mut [u8]) {
    let base = part.fingerprints[0];
    let Plan { keys, low_bits, high_bytes, .. } = plan;
    let header = Header { base, keys, exceptions: part.deltas.len(), high_bytes, low_bits };
    header.encode(body);
    let (_, rest) = body.split_at_mut(header.highs_at());
    let (highs, rest) = rest.split_at_mut(high_bytes);
    let (lows, rest) = rest.split_at_mut(header.exceptions_at() - header.lows_at());
    encode_highs(part.fingerprints, low_bits, highs);
    pack_fields(low_bits, base, part.fingerprints, lows);
    let exceptions = exceptions::encode(part.deltas, part.first);
    rest[..exceptions.len()].copy_from_slice(&exceptions);
    rest[exceptions.len()..].fill(0);
}

/// Sets bit `high + i` for each fingerprint. The word is collected in a register and stored each time: that most fingerprints share
/// it with the one before need not be guessed. The last word may lack bytes, and is 0 in these.
fn encode_highs(fingerprints: &[u64], low_bits: u32, highs: &mut [u8]) {
    highs.fill(0);
    let (words, last) = highs.as_chunks_mut::<8>();
    let base = fingerprints[0];
    let (mut word, mut at) = (0u64, 0u64);
    for (fingerprint, i) in fingerprints.iter().zip(0u64..) {
        let place = (fingerprint.wrapping_sub(base) >> low_bits).wrapping_add(i);
        let kept = if place / 64 == at { word } else { 0 };
        at = place / 64;
        word = kept | 1 << (place % 64);
        if let Some(whole) = words.get_mut(at as usize) {
            *whole = word.to_le_bytes();
        }
    }
    last.copy_from_slice(&word.to_le_bytes()[..last.len()]);
}
