//! Where the buckets' tries begin, and how many keys are before each: 16 bits a bucket, and absolute places at every 24th.
//!
//! ```text
//!   group, a cache line   ┌ rank of its first key │ bit of its first trie │ 24 × keys, 1 B │ 24 × bits, 1 B ┐
//!                         └ 8 B, highest bit: escapes     8 B
//! ```
//!
//! A bucket's keys are kept as their distance from the average, and its bits as theirs from a straight line over the keys of the group so
//! far; 128 is none. 0 in both says that the bucket is among the escapes, with its numbers.
//!
//! Invariants:
//! 1. Average, line, groups and escapes are what [`Directory::of`] makes of the buckets' keys and bits; what is behind the last bucket is
//!    zero.

use crate::bits::prefetch::prefetch;
use crate::bits::word::low_mask;

/// Buckets of a group: two words of places and six of bytes are a cache line.
pub(super) const GROUP_BUCKETS: u64 = 24;
const HAS_ESCAPES: u64 = 1 << 63;
const NO_DISTANCE: i64 = 128;

/// What is known of a bucket.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    pub(super) first_rank: u64,
    pub(super) at_bit: u64,
    pub(super) keys: u32,
}

/// What a bucket has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    pub(super) keys: u32,
    pub(super) bits: u32,
}

/// A bucket whose numbers are far from the average.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Escape {
    pub(super) bucket: u64,
    pub(super) load: Load,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub(super) struct Group(pub(super) [u64; 8]);

/// The bits that a trie is expected to take: a straight line, in 256ths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) slope: i32,
    pub(super) intercept: i32,
}

impl Line {
    /// The line of least squares; level where all buckets have as many keys.
    fn through(loads: &[Load]) -> Self {
        let count = loads.len() as i128;
        let (mut keys, mut bits, mut keys_squared, mut products) = (0, 0, 0, 0);
        for load in loads {
            let (x, y) = (i128::from(load.keys), i128::from(load.bits));
            (keys, bits) = (keys + x, bits + y);
            (keys_squared, products) = (keys_squared + x * x, products + x * y);
        }
        let spread = count * keys_squared - keys * keys;
        let slope = if spread == 0 { 0 } else { (count * products - keys * bits) * 256 / spread };
        let intercept = if count == 0 { 0 } else { (bits * 256 - slope * keys) / count };
        // Buckets of hashes are far from what saturates; those of forged numbers get escapes.
        let clamped = |number: i128| number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        Self { slope: clamped(slope), intercept: clamped(intercept) }
    }

    /// Bits of so many buckets that have so many keys together.
    #[inline(always)]
    fn bits(self, keys: i64, buckets: i64) -> i64 {
        (i64::from(self.slope) * keys + i64::from(self.intercept) * buckets) >> 8
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Directory {
    average_keys: u32,
    line: Line,
    groups: Vec<Group>,
    escapes: Vec<Escape>,
}

impl Directory {
    pub(super) fn of(loads: &[Load]) -> Self {
        let keys: u64 = loads.iter().map(|load| u64::from(load.keys)).sum();
        let average_keys = (keys / (loads.len() as u64).max(1)) as u32;
        let groups = Vec::with_capacity(loads.len().div_ceil(GROUP_BUCKETS as usize));
        let mut directory = Self { average_keys, line: Line::through(loads), groups, escapes: Vec::new() };
        let mut start = (0, 0);
        for (loads, first) in loads.chunks(GROUP_BUCKETS as usize).zip((0..).step_by(GROUP_BUCKETS as usize))
        {
            start = directory.push_group(first, start, loads);
        }
        directory.escapes.shrink_to_fit();
        directory
    }

    /// What was read, and may say anything.
    pub(super) fn of_parts(average_keys: u32, line: Line, groups: Vec<Group>, escapes: Vec<Escape>) -> Self {
        Self { average_keys, line, groups, escapes }
    }

    /// Adds buckets that have so many keys and bits before them; says how many are before the next ones.
    fn push_group(&mut self, first: u64, start: (u64, u64), loads: &[Load]) -> (u64, u64) {
        let mut words = [start.0, start.1, 0, 0, 0, 0, 0, 0];
        let (mut keys, mut bits) = (0, 0);
        for (at, load) in loads.iter().enumerate() {
            let before = self.line.bits(keys, at as i64);
            keys += i64::from(load.keys);
            bits += u64::from(load.bits);
            let expected = self.line.bits(keys, at as i64 + 1) - before;
            let distances =
                [i64::from(load.keys) - i64::from(self.average_keys), i64::from(load.bits) - expected];
            match distances.map(byte) {
                [Some(keys), Some(bits)] => {
                    words[2 + at / 8] |= keys << (at % 8 * 8);
                    words[5 + at / 8] |= bits << (at % 8 * 8);
                }
                _ => {
                    words[0] |= HAS_ESCAPES;
                    self.escapes.push(Escape { bucket: first + at as u64, load: *load });
                }
            }
        }
        self.groups.push(Group(words));
        (start.0 + keys.cast_unsigned(), start.1 + bits)
    }

    pub(super) fn average_keys(&self) -> u32 {
        self.average_keys
    }

    pub(super) fn line(&self) -> Line {
        self.line
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(super) fn escapes(&self) -> &[Escape] {
        &self.escapes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>() + self.escapes.capacity() * size_of::<Escape>()
    }

    /// Asks for the line that [`get`](Self::get) will read.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: u64) {
        prefetch(&self.groups, (bucket / GROUP_BUCKETS) as usize);
    }

    /// What is known of a bucket, which must be one.
    #[inline]
    pub(super) fn get(&self, bucket: u64) -> Bucket {
        let Group(words) = &self.groups[(bucket / GROUP_BUCKETS) as usize];
        let before = bucket % GROUP_BUCKETS;
        if words[0] & HAS_ESCAPES != 0 {
            return self.get_escaped(bucket);
        }
        let distance = before.cast_signed() * NO_DISTANCE;
        let average = i64::from(self.average_keys);
        let keys_before = sum(&words[2..5], before).cast_signed() - distance + before.cast_signed() * average;
        let bits_before = self.line.bits(keys_before, before.cast_signed())
            + sum(&words[5..8], before).cast_signed()
            - distance;
        let keys = average + byte_of(&words[2..5], before) - NO_DISTANCE;
        Bucket {
            first_rank: words[0].wrapping_add_signed(keys_before),
            at_bit: words[1].wrapping_add_signed(bits_before),
            keys: keys as u32,
        }
    }

    /// The same, bucket by bucket.
    #[cold]
    #[inline(never)]
    fn get_escaped(&self, bucket: u64) -> Bucket {
        let Group(words) = &self.groups[(bucket / GROUP_BUCKETS) as usize];
        let first = bucket / GROUP_BUCKETS * GROUP_BUCKETS;
        let (mut keys_before, mut bits_before) = (0, 0);
        for then in first..bucket {
            let (keys, bits) = self.load(then, keys_before);
            (keys_before, bits_before) = (keys_before + keys, bits_before + bits);
        }
        let (keys, _) = self.load(bucket, keys_before);
        Bucket {
            first_rank: (words[0] & !HAS_ESCAPES).wrapping_add_signed(keys_before),
            at_bit: words[1].wrapping_add_signed(bits_before),
            keys: keys as u32,
        }
    }

    /// Keys and bits of a bucket that so many keys of its group are before.
    fn load(&self, bucket: u64, keys_before: i64) -> (i64, i64) {
        let Group(words) = &self.groups[(bucket / GROUP_BUCKETS) as usize];
        let before = bucket % GROUP_BUCKETS;
        let (keys, bits) = (byte_of(&words[2..5], before), byte_of(&words[5..8], before));
        if keys == 0 {
            let at = self.escapes.partition_point(|escape| escape.bucket < bucket);
            let escape = self.escapes.get(at).filter(|escape| escape.bucket == bucket);
            return escape.map_or((0, 0), |escape| (escape.load.keys.into(), escape.load.bits.into()));
        }
        let keys = i64::from(self.average_keys) + keys - NO_DISTANCE;
        let before = before.cast_signed();
        let expected = self.line.bits(keys_before + keys, before + 1) - self.line.bits(keys_before, before);
        (keys, expected + bits - NO_DISTANCE)
    }
}

/// A distance as a byte other than 0.
fn byte(distance: i64) -> Option<u64> {
    u64::try_from(distance + NO_DISTANCE).ok().filter(|byte| (1..=255).contains(byte))
}

/// A byte of three words.
#[inline(always)]
fn byte_of(words: &[u64], at: u64) -> i64 {
    (words[(at / 8) as usize] >> (at % 8 * 8) & 0xff).cast_signed()
}

/// The sum of the first `bytes` bytes of three words.
#[inline(always)]
fn sum(words: &[u64], bytes: u64) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let mut lanes = 0;
    for (first, word) in (0..).step_by(8).zip(words) {
        let taken = word & low_mask(bytes.saturating_sub(first).min(8) as u32 * 8);
        // Four sums of 16 bits, of at most six bytes each.
        lanes += (taken & EVEN) + (taken >> 8 & EVEN);
    }
    lanes.wrapping_mul(0x0001_0001_0001_0001) >> 48
}
