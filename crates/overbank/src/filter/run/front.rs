//! Fronts: a few bits a key in RAM before a run, which say of most keys that are not in it that they are not, without a read.
//!
//! ```text
//!   hash of a key   │ place in the run's range of hashes ─▶ line, 512 bits │ mixed ─▶ k bits of the line, all of them set: read the run
//!
//!   a run's blocks    ▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭        both in hash order: a merge fills the lines one after the other as it writes blocks,
//!   its front         ─────────────────        and a sorted batch of questions passes over them once
//! ```
//!
//! A blocked Bloom filter whose lines are chosen by the order of the hashes instead of by other bits of them: for random hashes that
//! is the same distribution, and it can be built without knowing the keys before, side by side for pieces of a run, and halved.
//!
//! Invariants:
//! 1. A key that is in the run passes its front.
//! 2. It follows from the fingerprints alone, values beside them left out: so it can be built anew at any time by a scan of the run.
//! 3. Two neighbouring lines joined are the line of both ranges: a front can be halved.
//!
//! As bytes: mask, first, last, scale: u64; probes, halvings: u32; lines: u64; then the lines, all little-endian.
//!
//! | n keys, b bits each | false positives, b = 3, 4, 5, 6, 8, 10 | CPU | RAM |
//! |---|---|---|---|
//! | build | | some nanoseconds a key, in order | n b / 8 bytes, up to twice that where a merge leaves fewer keys than came |
//! | a question | 0.237, 0.148, 0.093, 0.058, 0.023, 0.0096 | a cache miss; none in dense batches | 0 |
//!
//! Considered: the fingerprints cut to lg n + b bits, coded as in a run (b + 2 bits for 2^-b: 0.12 for 5.1 bits, worse below 6 bits
//! a key and with a select to find the place); ribbon filters (0.03 for 5 bits, but some ten times the time to build, which each merge
//! pays anew).
//!
//! Source: Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient Bloom Filters (2009).

use super::RunKind;
use crate::Result;
use crate::bits::prefetch::prefetch;
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes;
use std::ops::RangeInclusive;

/// Bits of a line: a cache line.
const LINE_BITS: u64 = 512;
/// More bits of a line than this are not taken of a mixed hash: 7 numbers of 9 bits.
const PROBES_MAX: u32 = 7;
/// Bytes of an encoded front before its lines.
const HEADER_BYTES: usize = 48;
/// Numbers below it say little, and more bits than this are better spent on buffers.
pub const BITS_RANGE: RangeInclusive<u32> = 3..=10;

/// How long a front is, and what of a fingerprint it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontShape {
    /// Bits a key, in [`BITS_RANGE`].
    pub bits_a_key: u32,
    /// The last bits of a fingerprint that are a value beside the key: questions do not have them.
    pub value_bits: u32,
}

/// A front that a merge is to fill as it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontOrder {
    /// Its length a key.
    pub shape: FrontShape,
    /// If it would be longer, in bytes, none is filled.
    pub bytes_max: usize,
}

/// What a run may have.
#[derive(Clone, PartialEq, Eq)]
pub struct Front {
    lines: Box<[[u64; 8]]>,
    place: Place,
    probes: u32,
}

/// Where the bits of a key are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// The bits of a hash that the run has of a key.
    mask: u64,
    first: u64,
    last: u64,
    /// Makes 64 bits of a distance from `first`.
    shift: u32,
    /// Lines to which that is scaled, before they were halved `halvings` times.
    scale: u64,
    halvings: u32,
}

/// A front that is being filled.
#[derive(Clone, Debug)]
pub struct FrontBuilder {
    front: Front,
    kind: RunKind,
    bits_a_key: u64,
    keys: u64,
}

impl FrontShape {
    /// How many bits of its line a key sets.
    fn probes(self) -> u32 {
        ((f64::from(self.bits_a_key) * std::f64::consts::LN_2).round() as u32).clamp(1, PROBES_MAX)
    }

    /// The share of keys that are not there and pass all the same, for random hashes.
    ///
    /// A line has a Poisson number N of keys, with mean 512 / b; each sets k bits, so a key passes with (1 - q^(k N))^k for
    /// q = 1 - 1 / 512, of which this is the mean.
    pub fn false_positive_rate(self) -> f64 {
        let (k, lambda) = (self.probes(), LINE_BITS as f64 / f64::from(self.bits_a_key));
        let unset = (1.0 - 1.0 / LINE_BITS as f64).powi(k as i32);
        let (mut sum, mut binomial) = (0.0, 1.0);
        for j in 0..=k {
            let mean = (lambda * (unset.powi(j as i32) - 1.0)).exp();
            sum += if j % 2 == 0 { binomial * mean } else { -binomial * mean };
            binomial *= f64::from(k - j) / f64::from(j + 1);
        }
        sum
    }
}

impl Front {
    /// Whether the run may have a key whose hash begins with `prefix`, left-aligned. No hash outside the run's range is in it.
    #[inline]
    pub fn may_have(&self, prefix: u64) -> bool {
        let Some((line, bits)) = self.place.of(prefix) else { return false };
        let line = &self.lines[line];
        // All bits of the line, which is here by now: where to stop could not be predicted.
        bits_of(bits, self.probes).fold(true, |all, (word, bit)| all & (line[word] & bit != 0))
    }

    /// Tells the cache that a hash will be asked for soon.
    #[inline]
    pub fn prefetch(&self, prefix: u64) {
        if let Some((line, _)) = self.place.of(prefix) {
            prefetch(&self.lines, line);
        }
    }

    /// RAM that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BITS as usize / 8
    }

    /// Its bytes; see the top of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Place { mask, first, last, scale, halvings, shift: _ } = self.place;
        let mut out = Vec::with_capacity(HEADER_BYTES + self.memory_bytes());
        for field in [mask, first, last, scale] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for field in [self.probes, halvings] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&(self.lines.len() as u64).to_le_bytes());
        for word in self.lines.as_flattened() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads what [`Front::encode`] wrote.
    ///
    /// # Errors
    /// `Corrupt` where a place of the range is in none of the lines, or no front is like that.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Front> {
        let mut fields = ByteReader::new(bytes);
        let [mask, first, last, scale] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let [probes, halvings] = [fields.u32()?, fields.u32()?];
        let lines = fields.u64()?;
        let lines = fields.counted("the lines of a front", lines, LINE_BITS as usize / 8)?;
        fields.require_left(lines.checked_mul(LINE_BITS as usize / 8))?;
        let shift = last.saturating_sub(first).leading_zeros().min(63);
        let place = Place { mask, first, last, shift, scale, halvings };
        let is_front = first <= last && (1..=PROBES_MAX).contains(&probes) && halvings < 64;
        if !is_front || place.of(last).is_none_or(|(line, _)| line >= lines) {
            let found = format!("{place:?}, {probes} probes, {lines} lines");
            return Err(corrupt_bytes(0, "the shape of a front", "one that its lines fit", found));
        }
        let line = |bytes: &[u8; 64]| {
            let words = bytes.as_chunks::<8>().0;
            std::array::from_fn(|word| words.get(word).map_or(0, |word| u64::from_le_bytes(*word)))
        };
        let lines = fields.take_rest().as_chunks::<64>().0.iter().map(line).collect();
        Ok(Front { lines, place, probes })
    }

    /// A front of half the bits, which lets more keys pass.
    pub fn halved(&self) -> Front {
        let joined = |pair: &[[u64; 8]]| match *pair {
            [a, b] => std::array::from_fn(|i| a[i] | b[i]),
            _ => pair[0],
        };
        let place = Place { halvings: self.place.halvings + 1, ..self.place };
        Front { lines: self.lines.chunks(2).map(joined).collect(), place, probes: self.probes }
    }
}

impl Place {
    /// The line of a hash, and the mixed bits that choose its bits; `None` outside the range.
    #[inline(always)]
    fn of(&self, prefix: u64) -> Option<(usize, u64)> {
        let hash = prefix & self.mask;
        if hash < self.first || hash > self.last {
            return None;
        }
        let scaled = u128::from((hash - self.first) << self.shift) * u128::from(self.scale);
        Some(((scaled >> 64) as usize >> self.halvings, mixed(hash)))
    }
}

/// Bits that all bits of a hash have a part in: the line has used the first ones, and the last ones are zeros.
#[inline(always)]
fn mixed(hash: u64) -> u64 {
    // The finisher of SplitMix64, without its last step: 9 bits at a time are taken from the left.
    let z = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Word and bit of each of `probes` probes.
#[inline(always)]
fn bits_of(mut bits: u64, probes: u32) -> impl Iterator<Item = (usize, u64)> {
    (0..probes).map(move |_| {
        let probe = bits;
        bits <<= LINE_BITS.ilog2();
        ((probe >> 61) as usize, 1 << (probe >> 55 & 63))
    })
}

impl FrontBuilder {
    /// A front of a run of `kind` that will have about `keys` fingerprints, all in `range`.
    pub fn new(kind: RunKind, shape: FrontShape, range: &RangeInclusive<u64>, keys: u64) -> Self {
        let key_bits = kind.fingerprint_bits.saturating_sub(shape.value_bits).max(1);
        let mask = u64::MAX << (64 - key_bits);
        let end = (*range.end()).min(u64::MAX >> kind.shift());
        let first = kind.hash((*range.start()).min(end)) & mask;
        let last = kind.hash(end) & mask;
        let lines = (keys.saturating_mul(shape.bits_a_key.into())).div_ceil(LINE_BITS).max(1);
        let shift = (last - first).leading_zeros().min(63);
        let width = u128::from((last - first) << shift) + 1;
        // Rounded down, so that the last hash is in the last line.
        let scale = ((u128::from(lines) << 64) / width).min(u64::MAX.into()) as u64;
        let place = Place { mask, first, last, shift, scale, halvings: 0 };
        let lines = vec![[0; 8]; lines as usize].into_boxed_slice();
        let front = Front { lines, place, probes: shape.probes() };
        FrontBuilder { front, kind, bits_a_key: shape.bits_a_key.into(), keys: 0 }
    }

    /// Adds fingerprints of the range, in any order.
    ///
    /// # Errors
    /// `Corrupt` for a fingerprint beyond the range: what the run says of itself does not agree with what it holds.
    pub fn push(&mut self, fingerprints: &[u64]) -> Result<()> {
        let Front { lines, place, probes } = &mut self.front;
        for &fingerprint in fingerprints {
            let Some((line, bits)) = place.of(self.kind.hash(fingerprint)) else {
                let expected = format!("{:#x} to {:#x}", place.first, place.last);
                return Err(corrupt_bytes(
                    0,
                    "the hash of a fingerprint",
                    expected,
                    format!("{fingerprint:#x}"),
                ));
            };
            let line = &mut lines[line];
            bits_of(bits, *probes).for_each(|(word, bit)| line[word] |= bit);
        }
        self.keys += fingerprints.len() as u64;
        Ok(())
    }

    /// The front, no more than twice as long as the keys that came need it.
    pub fn finish(self) -> Front {
        let mut front = self.front;
        let wanted = (self.keys * self.bits_a_key).div_ceil(LINE_BITS).max(1) as usize;
        while front.lines.len() >= 2 * wanted && front.lines.len() > 1 {
            front = front.halved();
        }
        front
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Front({} lines, {} probes, {:?})", self.lines.len(), self.probes, self.place)
    }
}

/// How many bits a key the front of each of several runs is to have, 0 for none: those that save most reads within `budget_bytes`.
/// `keys[i]` is how many fingerprints run `i` has.
///
/// A lookup of a key that is not there reads a block of each run without a front, and of one with a front as often as that lets it pass.
/// What a bit a key saves falls with each bit, so taking the best bit of all again and again is as good as any division, but for the
/// budget's last part. Runs of equal length come out equal; the longest are the last to get a front.
pub fn allot(keys: &[u64], budget_bytes: u64) -> Vec<u32> {
    let rate = |bits: u32| match bits {
        0 => 1.0,
        bits => FrontShape { bits_a_key: bits, value_bits: 0 }.false_positive_rate(),
    };
    let rates: Vec<f64> = (0..=*BITS_RANGE.end())
        .map(|bits| if bits < *BITS_RANGE.start() { 1.0 } else { rate(bits) })
        .collect();
    let next = |bits: u32| if bits == 0 { *BITS_RANGE.start() } else { bits + 1 };
    let mut bits = vec![0; keys.len()];
    let mut left_bits = budget_bytes.saturating_mul(8);
    loop {
        // What a bit of memory saves.
        let gain = |i: usize| {
            let more = next(bits[i]);
            let saved = rates[bits[i] as usize] - rates[more as usize];
            saved / (f64::from(more - bits[i]) * keys[i].max(1) as f64)
        };
        let cost = |i: usize| u64::from(next(bits[i]) - bits[i]).saturating_mul(keys[i]);
        let may_grow = |&i: &usize| bits[i] < *BITS_RANGE.end() && cost(i) <= left_bits;
        let Some(best) = (0..keys.len()).filter(may_grow).max_by(|&a, &b| gain(a).total_cmp(&gain(b))) else {
            return bits;
        };
        left_bits -= cost(best);
        bits[best] = next(bits[best]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sign;
    use super::*;
    use crate::{HashKind, Seed};
    use proptest::prelude::*;

    fn kind(fingerprint_bits: u32) -> RunKind {
        RunKind { fingerprint_bits, seed_fingerprint: 1, hash_kind: HashKind::Xxh3, sign: Sign::Insertions }
    }

    fn random(n: u64, seed: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |i| Seed(u128::from(i) << 64 | u128::from(seed)).fingerprint())
    }

    proptest! {
        #[test]
        fn what_is_there_passes(
            (bits, value_bits) in (1u32..=64).prop_flat_map(|bits| (Just(bits), 0..bits.min(17))),
            bits_a_key in BITS_RANGE, mut hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..99, Just(u64::MAX)], 1..300),
            ends: [u64; 2], expected in 0u64..2000, halvings in 0u32..4,
        ) {
            let kind = kind(bits);
            let mut ends = ends.map(|end| kind.fingerprint_of(end));
            ends.sort_unstable();
            for range in [ends[0]..=ends[1], 0..=u64::MAX] {
                hashes.iter_mut().for_each(|hash| {
                    let fingerprint = kind.fingerprint_of(*hash).clamp(*range.start(), *range.end());
                    *hash = kind.hash(fingerprint) | (*hash & !(u64::MAX << kind.shift().min(63)));
                });
                let shape = FrontShape { bits_a_key, value_bits };
                let mut builder = FrontBuilder::new(kind, shape, &range, expected);
                let fingerprints: Vec<u64> = hashes.iter().map(|&hash| kind.fingerprint_of(hash)).collect();
                fingerprints.chunks(7).for_each(|some| builder.push(some).unwrap());
                let mut front = builder.finish();
                let most = 2 * (expected.max(hashes.len() as u64) * u64::from(bits_a_key)).div_ceil(LINE_BITS);
                prop_assert!(front.memory_bytes() as u64 <= most * LINE_BITS / 8);
                (0..halvings).for_each(|_| front = front.halved());
                prop_assert_eq!(Front::decode(&front.encode()).unwrap(), front.clone());
                for &hash in &hashes {
                    // A question has no value, or any.
                    let value = ((1u64 << value_bits) - 1) << kind.shift().min(63);
                    for asked in [hash, hash | value, hash & !value] {
                        front.prefetch(asked);
                        prop_assert!(front.may_have(asked), "{hash:#x} {front:?}");
                    }
                }
                // Outside the range nothing is.
                if let Some(before) = kind.hash(*range.start()).checked_sub(1 << (64 - (bits - value_bits)).min(63)) {
                    prop_assert!(!front.may_have(before) || before & front.place.mask >= front.place.first);
                }
            }
        }

        #[test]
        fn damaged_bytes_are_refused_or_ask_within_the_lines(
            range in any::<(u64, u64)>(), expected in 0u64..500, damage in prop::collection::vec((0usize..120, any::<u8>()), 1..5),
            cut in any::<prop::sample::Index>(), asked in prop::collection::vec(any::<u64>(), 20),
        ) {
            let range = range.0.min(range.1)..=range.0.max(range.1);
            let shape = FrontShape { bits_a_key: 6, value_bits: 0 };
            let good = FrontBuilder::new(kind(64), shape, &range, expected).finish().encode();
            let mut bad = good.clone();
            damage.into_iter().for_each(|(at, byte)| if let Some(old) = bad.get_mut(at) { *old = byte });
            prop_assert!(Front::decode(&good[..cut.index(good.len())]).is_err());
            if let Ok(front) = Front::decode(&bad) {
                asked.into_iter().chain([0, u64::MAX, *range.start(), *range.end()]).for_each(|prefix| {
                    front.prefetch(prefix);
                    front.may_have(prefix);
                });
            }
        }

        #[test]
        fn no_budget_is_overdrawn_and_short_runs_come_first(
            keys in prop::collection::vec(1u64..1_000_000, 0..20), budget_bytes in 0u64..3_000_000,
        ) {
            let bits = allot(&keys, budget_bytes);
            prop_assert_eq!(bits.len(), keys.len());
            let taken: u64 = keys.iter().zip(&bits).map(|(&keys, &bits)| keys * u64::from(bits)).sum();
            prop_assert!(taken <= budget_bytes * 8);
            prop_assert!(bits.iter().all(|&bits| bits == 0 || BITS_RANGE.contains(&bits)));
            // Nothing is left that would pay: each run has all bits, or its next are more than what is left.
            for (&keys, &bits) in keys.iter().zip(&bits) {
                let step = if bits == 0 { 3 } else { 1 };
                prop_assert!(bits == 10 || keys * step > budget_bytes * 8 - taken);
            }
        }
    }

    #[test]
    fn runs_of_equal_length_share_equally_and_the_longest_go_without_first() {
        assert_eq!(allot(&[1000; 4], 4 * 1000 * 5 / 8), [5; 4]);
        assert_eq!(allot(&[1000; 4], 1 << 20), [10; 4]);
        assert_eq!(allot(&[1 << 20, 1000, 1000], 10_000), [0, 10, 10]);
        assert_eq!(allot(&[1000, 1000], 500), [0, 4]);
        assert_eq!(allot(&[], 5), [0; 0]);
    }

    #[test]
    fn a_front_passes_as_few_as_promised() {
        let (kind, n, asked) = (kind(40), 1u64 << 18, 1u64 << 19);
        for (bits_a_key, promised) in [(3, 0.24), (4, 0.15), (5, 0.095), (6, 0.06), (8, 0.024), (10, 0.01)] {
            let shape = FrontShape { bits_a_key, value_bits: 0 };
            let rate = shape.false_positive_rate();
            assert!(rate <= promised && rate >= promised * 0.9, "{rate} for {bits_a_key} bits");
            let mut builder = FrontBuilder::new(kind, shape, &(0..=u64::MAX), n);
            let mut fingerprints: Vec<u64> = random(n, 1).map(|hash| kind.fingerprint_of(hash)).collect();
            fingerprints.sort_unstable();
            builder.push(&fingerprints).unwrap();
            let front = builder.finish();
            assert_eq!(front.memory_bytes() as u64, n * u64::from(bits_a_key) / 8);
            let passed = random(asked, 2).filter(|&hash| front.may_have(hash)).count() as f64;
            // The 2^18 b / 512 lines' loads are a sample of Poisson variables: the mean of a line's share of set bits, and with it the
            // rate, varies by less than 1 % (512 lines of 3 % of standard deviation each and more, k times, six deviations: below
            // 5 %). For the questions, Chernoff: more or less than (1 ± d) m of m expected with probability 2 exp(-m d^2 / 3) at
            // most, which is 1e-9 for d^2 = 64.3 / m.
            let expected = asked as f64 * rate;
            let deviation = (64.3 / expected).sqrt() + 0.05;
            assert!(
                (passed / expected - 1.0).abs() <= deviation,
                "{bits_a_key} bits: {passed} of {expected}"
            );
        }
    }
}
