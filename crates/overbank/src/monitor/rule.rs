//! What a worker's 8-bit counter does with what is added to it, and when it is sent.
//!
//! | rule       | counter      | sent when             | after that | the aggregator | sketches                        |
//! |------------|--------------|-----------------------|------------|----------------|---------------------------------|
//! | [`Sum`]    | 0 to 255     | it reaches τ          | cleared    | adds           | count-min, DDSketch             |
//! | [`Signed`] | -128 to 127  | its size reaches τ    | cleared    | adds           | count sketch, UnivMon           |
//! | [`Max`]    | a rank       | 2^C' - 2^C >= 2^τ     | kept       | takes the max  | LogLog, HyperLogLog, Locher     |
//!
//! Ranks rise one by one at least, so `2^C' - 2^C >= 2^τ` where `C' > C` is the same as `C' > τ`: the difference is at least
//! `2^(C'-1)`, and less than `2^C'`.
//!
//! Values are words: of [`Signed`] in two's complement.

use super::message::VALUE_BITS;

/// How the counters of a sketch are changed and put together. What is provided is for values without a sign.
pub trait Rule: Send + Sync + 'static {
    /// The highest threshold for which a counter below it fits its byte.
    const TAU_MAX: u8;
    /// Whether a counter that was sent starts again from nothing.
    const CLEARS: bool;
    /// Whether a key weighs at most what each of its counters holds: the aggregator then need not look at keys of lower ones.
    const CAPS_KEYS: bool = false;

    /// Two parts of one counter together; stops at the ends of what a word holds.
    fn join(a: u64, b: u64) -> u64;
    /// A byte as a value.
    #[inline]
    fn widen(byte: u8) -> u64 {
        byte.into()
    }
    /// The value as a byte, if it fits.
    #[inline]
    fn narrow(value: u64) -> Option<u8> {
        value.try_into().ok()
    }
    /// The byte after the change, if it then stays below the threshold: what happens most often.
    fn add_below(byte: u8, amount: u64, tau: u8) -> Option<u8>;
    /// The value in the bits of a message, as far as it fits, and the rest.
    #[inline]
    fn pack(value: u64) -> (u64, u64) {
        let part = value.min((1 << VALUE_BITS) - 1);
        (part, value - part)
    }
    /// The value back.
    #[inline]
    fn unpack(bits: u64) -> u64 {
        bits
    }
    /// How much a value is, whatever its sign.
    #[inline]
    fn size(value: u64) -> u64 {
        value
    }
}

/// Counts of weights that are never negative.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// Sums of weights of either sign.
#[derive(Clone, Copy, Debug)]
pub struct Signed;

/// Largest ranks.
#[derive(Clone, Copy, Debug)]
pub struct Max;

impl Rule for Sum {
    const TAU_MAX: u8 = u8::MAX;
    const CLEARS: bool = true;
    const CAPS_KEYS: bool = true;

    #[inline]
    fn join(a: u64, b: u64) -> u64 {
        a.saturating_add(b)
    }

    #[inline(always)]
    fn add_below(byte: u8, amount: u64, tau: u8) -> Option<u8> {
        // One comparison of bytes, with what is the same for all counters of an element.
        let room = u64::from(tau).saturating_sub(amount) as u8;
        (byte < room).then_some(byte.wrapping_add(amount as u8))
    }
}

impl Rule for Signed {
    const TAU_MAX: u8 = i8::MAX as u8;
    const CLEARS: bool = true;

    #[inline]
    fn join(a: u64, b: u64) -> u64 {
        (a as i64).saturating_add(b as i64) as u64
    }

    #[inline]
    fn widen(byte: u8) -> u64 {
        i64::from(byte as i8) as u64
    }

    #[inline]
    fn narrow(value: u64) -> Option<u8> {
        i8::try_from(value as i64).ok().map(|byte| byte as u8)
    }

    #[inline(always)]
    fn add_below(byte: u8, amount: u64, tau: u8) -> Option<u8> {
        // -tau < sum < tau, as one comparison; a sum that wraps comes nowhere near.
        let sum = Self::widen(byte).wrapping_add(amount);
        let most = u64::from(tau.saturating_sub(1));
        (sum.wrapping_add(most) < 2 * most + u64::from(tau > 0)).then_some(sum as u8)
    }

    #[inline]
    fn pack(value: u64) -> (u64, u64) {
        let (value, end) = (value as i64, 1 << (VALUE_BITS - 1));
        let part = value.clamp(-end, end - 1);
        (part as u64 & ((1 << VALUE_BITS) - 1), (value - part) as u64)
    }

    #[inline]
    fn unpack(bits: u64) -> u64 {
        let above = u64::BITS - VALUE_BITS;
        ((bits << above) as i64 >> above) as u64
    }

    #[inline]
    fn size(value: u64) -> u64 {
        (value as i64).unsigned_abs()
    }
}

impl Rule for Max {
    /// The highest rank of a 64-bit hash is 65.
    const TAU_MAX: u8 = 64;
    const CLEARS: bool = false;

    #[inline]
    fn join(a: u64, b: u64) -> u64 {
        a.max(b)
    }

    #[inline(always)]
    fn add_below(byte: u8, amount: u64, tau: u8) -> Option<u8> {
        if amount <= u64::from(byte) {
            return Some(byte);
        }
        (amount <= u64::from(tau)).then_some(amount as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the messages that a value takes bring, and how many there are.
    fn in_parts<R: Rule>(value: u64) -> (u64, u64) {
        let (mut sum, mut rest, mut count) = (0, value, 0);
        while rest != 0 {
            let (bits, left) = R::pack(rest);
            assert!(bits >> VALUE_BITS == 0 && R::size(left) < R::size(rest));
            (sum, rest, count) = (R::join(sum, R::unpack(bits)), left, count + 1);
        }
        (sum, count)
    }

    #[test]
    fn a_message_takes_what_it_has_room_for() {
        const MOST: u64 = (1 << VALUE_BITS) - 1;
        assert_eq!((Sum::pack(MOST), Sum::pack(MOST + 1)), ((MOST, 0), (MOST, 1)));
        assert_eq!(Sum::pack(u64::MAX), (MOST, u64::MAX - MOST));
        assert_eq!(Signed::pack(-1i64 as u64), (MOST, 0));
        assert_eq!(Signed::unpack(Signed::pack(i64::MIN as u64).0) as i64, -1 << (VALUE_BITS - 1));
        assert_eq!((Signed::size(-3i64 as u64), Signed::size(3), Sum::size(3)), (3, 3, 3));
    }

    proptest! {
        #[test]
        fn parts_make_the_whole(value in -1i64 << 44..1 << 44) {
            let size = value.unsigned_abs();
            prop_assert_eq!(in_parts::<Sum>(size), (size, size.div_ceil((1 << VALUE_BITS) - 1)));
            let (sum, count) = in_parts::<Signed>(value as u64);
            prop_assert_eq!(sum as i64, value);
            prop_assert!(count <= size.div_ceil((1 << (VALUE_BITS - 1)) - 1));
        }
    }
}
