//! Sums of floats, and of their squares, that do not depend on the order in which they are added.
//!
//! ```text
//!   bits of all doubles, 2^-1074 … 2^1023, cut into columns of 28
//!   … ┼ column 40 ┼ column 39 ┼ column 38 ┼ column 37 ┼ column 36 ┼ …        each a signed 64-bit sum of its own, without carries
//!         top                                 the least one that is kept
//! ```
//!
//! A number is cut at the borders of columns, wherever it stands, and its pieces are added to those of its columns: integers, so order does
//! not matter. Five columns are kept, from that of the greatest magnitude downwards. A piece below them is dropped, and a column that falls
//! out is dropped whole: what is left is the same whenever that happens. The result is rounded once, to the nearest.
//!
//! 1. The result depends on the numbers alone, not on their order.
//! 2. It is the exact sum, rounded, if no number has bits more than 112 binary places below the top column; else each of n numbers errs by
//!    less than 2^-112 of the greatest magnitude among them. A square has twice the digits of its number, and its columns begin at
//!    2^-2148: no square is too great or too small for them, and those of numbers within a factor of 8 are exact.
//! 3. A sum of more than 2^35 numbers is not known, and is NaN. Columns wrap, so that this, too, does not depend on order.
//! 4. The first word counts the numbers, above the number of the top column and three flags.
//!
//! Deviation from what sums of floats usually do: none is the sum of the parts as rounded on the way.

use super::natural::{Natural, Quotient};
use super::signed::{from_signed, signed};

const COLUMN_BITS: u32 = 28;
const COLUMNS: usize = 5;
/// Words of the state of a sum.
pub(super) const WORDS: usize = 1 + COLUMNS;

/// In the first word: the top column and 1, 0 where no number but zeros came.
const TOP_MASK: u64 = 0xff;
const HAS_NAN: u64 = 1 << 8;
const HAS_INFINITY: u64 = 1 << 9;
const HAS_NEGATIVE_INFINITY: u64 = 1 << 10;
const FLAGS: u64 = HAS_NAN | HAS_INFINITY | HAS_NEGATIVE_INFINITY;
const COUNT_SHIFT: u32 = 11;
const COUNT_MAX: u64 = u64::MAX >> COUNT_SHIFT;
/// A column of this many pieces of 28 bits fits a signed word.
const KNOWN_MAX: u64 = 1 << 35;

/// What the least bit of the columns of numbers is worth, as a power of two.
const LEAST: i32 = -1074;

/// A sum that is not rounded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Total {
    /// A NaN or an infinity.
    Special(f64),
    /// A magnitude in units of 2^exponent, perhaps below zero.
    Finite { is_negative: bool, magnitude: Natural, exponent: i32 },
}

/// Adds a number to a sum, which began as zeros.
pub(super) fn add(state: &mut [u64], number: f64) {
    match parts(number) {
        Ok((mantissa, lowest)) => add_bits(state, mantissa.into(), lowest, number < 0.0),
        Err(flag) => state[0] |= flag,
    }
    count_more(state, 1);
}

/// Adds the square of a number to a sum of squares, which began as zeros.
pub(super) fn add_square(state: &mut [u64], number: f64) {
    match parts(number) {
        Ok((mantissa, lowest)) => {
            add_bits(state, u128::from(mantissa) * u128::from(mantissa), 2 * lowest, false)
        }
        Err(HAS_NEGATIVE_INFINITY) => state[0] |= HAS_INFINITY,
        Err(flag) => state[0] |= flag,
    }
    count_more(state, 1);
}

/// Adds a sum to another.
pub(super) fn merge(state: &mut [u64], other: &[u64]) {
    if let Some(top) = top_of(other) {
        raise(state, top);
        for (i, &word) in other[1..].iter().enumerate() {
            if let Some(column) = top.checked_sub(i as u32) {
                add_to_column(state, column, from_signed(word));
            }
        }
    }
    state[0] |= other[0] & FLAGS;
    count_more(state, count(other));
}

/// How many numbers were added; no more than 2^53 - 1 are counted.
pub(super) fn count(state: &[u64]) -> u64 {
    state[0] >> COUNT_SHIFT
}

/// The sum, rounded to the nearest double, ties to even.
pub(super) fn value(state: &[u64]) -> f64 {
    match total(state) {
        Total::Special(special) => special,
        Total::Finite { is_negative, magnitude, exponent } => {
            let magnitude = Quotient::new(&magnitude, 1, exponent).round();
            if is_negative { -magnitude } else { magnitude }
        }
    }
}

/// The sum.
pub(super) fn total(state: &[u64]) -> Total {
    total_from(state, LEAST)
}

/// The sum of squares.
pub(super) fn total_of_squares(state: &[u64]) -> Total {
    total_from(state, 2 * LEAST)
}

fn total_from(state: &[u64], least: i32) -> Total {
    let flags = state[0];
    let infinities = (flags & HAS_INFINITY != 0, flags & HAS_NEGATIVE_INFINITY != 0);
    if flags & HAS_NAN != 0 || infinities == (true, true) || count(state) > KNOWN_MAX {
        return Total::Special(f64::NAN);
    }
    match infinities {
        (true, _) => return Total::Special(f64::INFINITY),
        (_, true) => return Total::Special(f64::NEG_INFINITY),
        _ => {}
    }
    let Some(top) = top_of(state) else {
        return Total::Finite { is_negative: false, magnitude: Natural::default(), exponent: least };
    };
    let (mut above, mut below) = (Natural::default(), Natural::default());
    for &word in &state[1..WORDS] {
        let column = from_signed(word);
        let magnitude = Natural::from(u128::from(column.unsigned_abs()));
        (above, below) = (above.shifted_up(COLUMN_BITS), below.shifted_up(COLUMN_BITS));
        let side = if column < 0 { &mut below } else { &mut above };
        *side = side.plus(&magnitude);
    }
    let is_negative = above.order(&below).is_lt();
    let magnitude = if is_negative { below.minus(&above) } else { above.minus(&below) };
    let exponent = (top as i32 - (COLUMNS as i32 - 1)) * COLUMN_BITS as i32 + least;
    Total::Finite { is_negative, magnitude, exponent }
}

/// The digits of a number, and where the lowest of them is, counted from the bit that is worth 2^-1074; the flag of what is none.
fn parts(number: f64) -> Result<(u64, u32), u64> {
    let bits = number.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as u32;
    let fraction = bits & ((1 << 52) - 1);
    match (exponent, fraction) {
        (0x7ff, 0) if number > 0.0 => Err(HAS_INFINITY),
        (0x7ff, 0) => Err(HAS_NEGATIVE_INFINITY),
        (0x7ff, _) => Err(HAS_NAN),
        (0, _) => Ok((fraction, 0)),
        _ => Ok((fraction | 1 << 52, exponent - 1)),
    }
}

/// Adds bits of which the lowest is at `lowest`.
fn add_bits(state: &mut [u64], bits: u128, lowest: u32, is_negative: bool) {
    if bits == 0 {
        return;
    }
    raise(state, (lowest + 127 - bits.leading_zeros()) / COLUMN_BITS);
    let (mut column, mut rest) = (lowest / COLUMN_BITS, bits);
    // The first piece ends where its column does.
    let mut shift = lowest % COLUMN_BITS;
    while rest != 0 {
        let width = COLUMN_BITS - shift;
        let piece = ((rest & ((1 << width) - 1)) << shift) as i64;
        add_to_column(state, column, if is_negative { -piece } else { piece });
        (rest, shift, column) = (rest >> width, 0, column + 1);
    }
}

fn count_more(state: &mut [u64], more: u64) {
    let counted = (count(state) + more).min(COUNT_MAX);
    state[0] = state[0] & ((1 << COUNT_SHIFT) - 1) | counted << COUNT_SHIFT;
}

fn top_of(state: &[u64]) -> Option<u32> {
    ((state[0] & TOP_MASK) as u32).checked_sub(1)
}

/// Makes `top` the top column, unless it is higher.
fn raise(state: &mut [u64], top: u32) {
    let higher = match top_of(state) {
        Some(now) if now >= top => return,
        Some(now) => (top - now) as usize,
        None => COLUMNS,
    };
    let kept = COLUMNS.saturating_sub(higher);
    state[1..WORDS].copy_within(..kept, COLUMNS - kept);
    state[1..WORDS - kept].fill(0);
    state[0] = state[0] & !TOP_MASK | u64::from(top + 1);
}

/// Adds to a column that is not above the top one.
fn add_to_column(state: &mut [u64], column: u32, piece: i64) {
    let below = top_of(state).map_or(0, |top| (top - column) as usize);
    if below < COLUMNS {
        state[1 + below] = signed(from_signed(state[1 + below]).wrapping_add(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum_of(numbers: &[f64]) -> [u64; WORDS] {
        let mut state = [0; WORDS];
        numbers.iter().for_each(|&number| add(&mut state, number));
        state
    }

    fn any_double() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite()),
            (-1e6..1e6f64),
            (any::<i32>(), -40..40i32).prop_map(|(digits, power)| f64::from(digits) * 2f64.powi(power)),
            Just(f64::MIN_POSITIVE / 4.0),
            Just(-0.0),
        ]
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(
            numbers in prop::collection::vec(any_double(), 0..40),
            order in prop::collection::vec(any::<u32>(), 40),
            cut in any::<prop::sample::Index>(),
        ) {
            let expected = sum_of(&numbers);
            let mut shuffled: Vec<(u32, f64)> = order.into_iter().zip(numbers.iter().copied()).collect();
            shuffled.sort_by_key(|pair| pair.0);
            let shuffled: Vec<f64> = shuffled.into_iter().map(|pair| pair.1).collect();
            let cut = cut.index(shuffled.len() + 1);
            let mut merged = sum_of(&shuffled[cut..]);
            merge(&mut merged, &sum_of(&shuffled[..cut]));
            prop_assert_eq!(merged, expected);
        }

        /// Numbers of which an `i128` holds the sum.
        #[test]
        fn sums_are_exact_and_rounded_once(
            digits in prop::collection::vec(any::<i64>().prop_map(|d| d >> 11), 1..60),
            powers in prop::collection::vec(0u32..50, 60),
            place in -1074i32..800,
        ) {
            let exact: i128 = digits.iter().zip(&powers).map(|(&d, &p)| i128::from(d) << p).sum();
            let numbers: Vec<f64> = digits.iter().zip(&powers)
                .map(|(&d, &p)| d as f64 * 2f64.powi(p as i32) * 2f64.powi(place / 2) * 2f64.powi(place - place / 2))
                .collect();
            // Neither number is rounded by its place: both are multiples of the least double.
            let expected = exact as f64 * 2f64.powi(place / 2) * 2f64.powi(place - place / 2);
            prop_assert_eq!(value(&sum_of(&numbers)).to_bits(), (expected + 0.0).to_bits());
        }

        #[test]
        fn one_number_is_its_own_sum(number in any_double()) {
            prop_assert_eq!(value(&sum_of(&[number])), number);
            if number.abs() < 1e30 {
                prop_assert_eq!(value(&sum_of(&[number, 3.5, -number])), 3.5);
            }
        }
    }

    #[test]
    fn what_is_no_number_shows() {
        assert!(value(&sum_of(&[1.0, f64::NAN])).is_nan());
        assert!(value(&sum_of(&[f64::INFINITY, 1.0, f64::NEG_INFINITY])).is_nan());
        assert_eq!(value(&sum_of(&[f64::INFINITY, -1e300])), f64::INFINITY);
        assert_eq!(value(&sum_of(&[f64::NEG_INFINITY, 1e300])), f64::NEG_INFINITY);
        assert_eq!(value(&sum_of(&[f64::MAX, f64::MAX])), f64::INFINITY);
        assert_eq!(
            value(&sum_of(&[f64::MAX, f64::MAX, -f64::MAX])),
            f64::MAX,
            "nothing is rounded on the way"
        );
        assert_eq!(value(&sum_of(&[1e16, 1.0, -1e16])), 1.0);
        assert_eq!(value(&sum_of(&[])), 0.0);
    }

    #[test]
    fn a_sum_of_too_many_numbers_is_not_known() {
        let mut state = sum_of(&[1.0]);
        for doublings in 0..70 {
            assert_eq!(value(&state).is_nan(), doublings > 35);
            let other = state;
            merge(&mut state, &other);
        }
        assert_eq!(count(&state), COUNT_MAX);
    }
}
