//! Means, variances and standard deviations of sums that are exact, rounded once.
//!
//! ```text
//!   variance = (n × sum of squares − sum²) / (n × n, or n × (n − 1) for a sample)
//! ```
//!
//! The difference is what makes this formula useless where sums are rounded. Here it is taken of whole numbers of 512 bits:
//! * of whole numbers, all results are those of exact arithmetic, rounded to the nearest double;
//! * of floats, so are they where all but zeros are within a factor of 8 of the greatest magnitude M, for then the sums of
//!   [`float_sum`](super::float_sum) are exact. Else two numbers are 7/8 M apart, so that the difference is above 0.38 n M²; the sums make
//!   it err by less than 3 n² M² 2^-112, and the variance relatively by less than n × 2^-109 before it is rounded.
//!
//! A standard deviation is the root of that variance, and is finite where the variance is too great for a double.

use super::float_sum::{self, Total};
use super::function::Basis;
use super::natural::{Natural, Quotient};
use super::value::ColumnType;

/// The words of the sum of whole numbers of 128 bits.
pub(super) const WIDE_SUM_WORDS: usize = 3;

/// The sum of a column, from its words.
pub(super) fn sum_of(column_type: ColumnType, words: &[u64]) -> Total {
    let (is_negative, magnitude) = match column_type {
        ColumnType::Float => return float_sum::total(words),
        ColumnType::Unsigned => (false, Natural::from_words(words)),
        _ => magnitude_of_signed(words),
    };
    Total::Finite { is_negative, magnitude, exponent: 0 }
}

/// The sum of the squares of a column, from its words.
pub(super) fn squares_of(column_type: ColumnType, words: &[u64]) -> Total {
    match column_type {
        ColumnType::Float => float_sum::total_of_squares(words),
        _ => Total::Finite { is_negative: false, magnitude: Natural::from_words(words), exponent: 0 },
    }
}

/// The mean of `count` numbers; `None` of none.
pub(super) fn mean(sum: Total, count: u64) -> Option<f64> {
    if count == 0 {
        return None;
    }
    Some(match sum {
        Total::Special(special) => special,
        Total::Finite { is_negative, magnitude, exponent } => {
            let mean = Quotient::new(&magnitude, count.into(), exponent).round();
            if is_negative { -mean } else { mean }
        }
    })
}

/// The variance of `count` numbers, or its root; `None` of none, and of a sample of one.
pub(super) fn variance(sum: Total, squares: Total, count: u64, of: Basis, is_root: bool) -> Option<f64> {
    let n = u128::from(count);
    let less = if of == Basis::Sample { 1 } else { 0 };
    let denominator = n * n.checked_sub(less)?;
    if denominator == 0 {
        return None;
    }
    let (
        Total::Finite { magnitude: sum, exponent: sum_exponent, .. },
        Total::Finite { magnitude: squares, exponent, .. },
    ) = (sum, squares)
    else {
        return Some(f64::NAN);
    };
    let scaled = squares.times(&Natural::from(n));
    let square = sum.times(&sum);
    // To one exponent. Those of numbers that were added are some 140 bits apart; words of a file may be anything.
    let shift = exponent - 2 * sum_exponent;
    let up = |number: Natural, shift: i32| {
        let shift = shift.max(0) as u32;
        (number.is_zero() || number.bits() + shift <= 512)
            .then(|| if number.is_zero() { number } else { number.shifted_up(shift) })
    };
    let (Some(scaled), Some(square)) = (up(scaled, shift), up(square, -shift)) else { return Some(f64::NAN) };
    // Columns that were dropped may make the difference of equal numbers fall below zero.
    let difference = if scaled.order(&square).is_gt() { scaled.minus(&square) } else { Natural::default() };
    let quotient = Quotient::new(&difference, denominator, exponent.min(2 * sum_exponent));
    Some(if is_root { quotient.root() } else { quotient.round() })
}

/// Adds a number of 128 bits to a sum of such.
pub(super) fn add_wide(words: &mut [u64], number: i128) {
    let fill = (number >> 127) as u64;
    add_signed(words, [number as u64, (number >> 64) as u64, fill]);
}

/// Adds a sum of numbers of 128 bits to another.
pub(super) fn merge_wide(words: &mut [u64], other: &[u64]) {
    add_signed(words, from_signed_words(other));
}

/// A sum of numbers of 128 bits, if it fits such a number; else whether it is below zero, and its digits.
pub(super) fn wide_of(words: &[u64]) -> Result<i128, (bool, String)> {
    let [low, middle, high] = from_signed_words(words);
    let number = (u128::from(low) | u128::from(middle) << 64) as i128;
    if high == (number >> 127) as u64 {
        return Ok(number);
    }
    let (is_negative, magnitude) = magnitude_of_signed(words);
    let sign = if is_negative { "-" } else { "" };
    Err((is_negative, format!("{sign}about {:e}", Quotient::new(&magnitude, 1, 0).round())))
}

/// Adds natural numbers of as many words, and drops what is carried out of the last.
pub(super) fn add_words(words: &mut [u64], other: &[u64]) {
    let mut carry = false;
    for (i, word) in words.iter_mut().enumerate() {
        let (part, first) = word.overflowing_add(other.get(i).copied().unwrap_or(0));
        let (whole, second) = part.overflowing_add(carry.into());
        (*word, carry) = (whole, first | second);
    }
}

/// Adds the square of a number of this magnitude to a sum of squares.
pub(super) fn add_square(words: &mut [u64], magnitude: u128) {
    let (low, high) = (u128::from(magnitude as u64), magnitude >> 64);
    let square = low * low;
    add_words(words, &[square as u64, (square >> 64) as u64]);
    if high != 0 {
        let cross = low * high;
        // Twice, for the square of a sum has it twice.
        for _ in 0..2 {
            add_words(&mut words[1..], &[cross as u64, (cross >> 64) as u64]);
        }
        let square = high * high;
        add_words(&mut words[2..], &[square as u64, (square >> 64) as u64]);
    }
}

fn add_signed(words: &mut [u64], number: [u64; WIDE_SUM_WORDS]) {
    let mut sum = from_signed_words(words);
    add_words(&mut sum, &number);
    // The bits move up by one, and are all turned around where the number is below zero: near zero are those that are near zero.
    let fill = ((sum[2] as i64) >> 63) as u64;
    let moved = [sum[0] << 1, sum[1] << 1 | sum[0] >> 63, sum[2] << 1 | sum[1] >> 63];
    words.copy_from_slice(&moved.map(|word| word ^ fill));
}

fn from_signed_words(words: &[u64]) -> [u64; WIDE_SUM_WORDS] {
    let fill = 0u64.wrapping_sub(words[0] & 1);
    [words[0] >> 1 | words[1] << 63, words[1] >> 1 | words[2] << 63, words[2] >> 1].map(|word| word ^ fill)
}

/// The sign and the magnitude of a signed number in two or three words.
fn magnitude_of_signed(words: &[u64]) -> (bool, Natural) {
    // (w + 1) / 2 for odd ones, which are below zero; w / 2 for others.
    let is_negative = words[0] & 1 == 1;
    let word = Natural::from_words(words);
    let word = if is_negative { word.plus(&Natural::from(1)) } else { word };
    (is_negative, word.shifted_down(1).0)
}
