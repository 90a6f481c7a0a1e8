//! Natural numbers of 512 bits, for means and variances that are rounded once.
//!
//! ```text
//!   value = (numerator / denominator) × 2^exponent  ──▶  the nearest double, ties to even
//! ```
//!
//! What does not fit is dropped at the top: who computes with them knows how long its numbers are.
//!
//! Cost: some hundred nanoseconds a quotient.

use std::cmp::Ordering;

const WORDS: usize = 8;

/// A natural number, its least word first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Natural([u64; WORDS]);

impl From<u128> for Natural {
    fn from(number: u128) -> Natural {
        Natural::from_words(&[number as u64, (number >> 64) as u64])
    }
}

impl Natural {
    /// Of its words, the least first, of which there are no more than it has.
    pub(super) fn from_words(words: &[u64]) -> Natural {
        let mut number = Natural::default();
        number.0[..words.len()].copy_from_slice(words);
        number
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// How many bits it has, without leading zeros.
    pub(super) fn bits(&self) -> u32 {
        let top = self.0.iter().rposition(|&word| word != 0);
        top.map_or(0, |top| 64 * (top as u32 + 1) - self.0[top].leading_zeros())
    }

    pub(super) fn order(&self, other: &Natural) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }

    pub(super) fn plus(&self, other: &Natural) -> Natural {
        let (mut sum, mut carry) = (Natural::default(), false);
        for ((word, &one), &other) in sum.0.iter_mut().zip(&self.0).zip(&other.0) {
            let (part, first) = one.overflowing_add(other);
            let (whole, second) = part.overflowing_add(carry.into());
            (*word, carry) = (whole, first | second);
        }
        sum
    }

    /// Less one that is not greater.
    pub(super) fn minus(&self, other: &Natural) -> Natural {
        let (mut difference, mut borrow) = (Natural::default(), false);
        for ((word, &one), &other) in difference.0.iter_mut().zip(&self.0).zip(&other.0) {
            let (part, first) = one.overflowing_sub(other);
            let (whole, second) = part.overflowing_sub(borrow.into());
            (*word, borrow) = (whole, first | second);
        }
        difference
    }

    pub(super) fn times(&self, other: &Natural) -> Natural {
        let mut product = Natural::default();
        for (i, &one) in self.0.iter().enumerate().filter(|&(_, &one)| one != 0) {
            let mut carry = 0;
            for (word, &other) in product.0[i..].iter_mut().zip(&other.0) {
                let sum = u128::from(one) * u128::from(other) + u128::from(*word) + carry;
                (*word, carry) = (sum as u64, sum >> 64);
            }
        }
        product
    }

    /// Times 2^`bits`.
    pub(super) fn shifted_up(&self, bits: u32) -> Natural {
        let (words, bits) = ((bits / 64) as usize, bits % 64);
        let mut shifted = Natural::default();
        for i in words..WORDS {
            let low = if bits == 0 || i == words { 0 } else { self.0[i - words - 1] >> (64 - bits) };
            shifted.0[i] = self.0[i - words] << bits | low;
        }
        shifted
    }

    /// Divided by 2^`bits`, and whether there is a rest.
    pub(super) fn shifted_down(&self, bits: u32) -> (Natural, bool) {
        let (words, bits) = ((bits / 64) as usize, bits % 64);
        let mut shifted = Natural::default();
        for i in words..WORDS {
            let high = self.0.get(i + 1).map_or(0, |&word| if bits == 0 { 0 } else { word << (64 - bits) });
            shifted.0[i - words] = self.0[i] >> bits | high;
        }
        let is_cut = self.0.iter().take(words).any(|&word| word != 0)
            || self.0.get(words).is_some_and(|word| word & ((1 << bits) - 1) != 0);
        (shifted, is_cut)
    }
}

/// A positive number of some 68 bits, of which the last stands for all that is left out: it decides ties when it is rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotient {
    head: u128,
    exponent: i32,
}

/// Bits of a quotient, but for the one that stands for the rest.
const HEAD_BITS: u32 = 67;

impl Quotient {
    /// `numerator / denominator × 2^exponent`, for a denominator above 0.
    pub(super) fn new(numerator: &Natural, denominator: u128, exponent: i32) -> Quotient {
        let wanted = HEAD_BITS + (128 - denominator.leading_zeros());
        let bits = numerator.bits();
        let (scaled, is_cut, shift) = if bits < wanted {
            (numerator.shifted_up(wanted - bits), false, (wanted - bits) as i32)
        } else {
            let (scaled, is_cut) = numerator.shifted_down(bits - wanted);
            (scaled, is_cut, -((bits - wanted) as i32))
        };
        // Long division, a bit at a time; what is divided has 67 bits more than the denominator.
        let denominator = Natural::from(denominator);
        let (mut rest, mut head) = (scaled, 0u128);
        for bit in (0..=HEAD_BITS).rev() {
            let part = denominator.shifted_up(bit);
            head <<= 1;
            if rest.order(&part).is_ge() {
                rest = rest.minus(&part);
                head |= 1;
            }
        }
        let has_rest = is_cut || !rest.is_zero();
        Quotient { head: head << 1 | u128::from(has_rest), exponent: exponent - shift - 1 }
    }

    /// The nearest double.
    pub(super) fn round(self) -> f64 {
        let Quotient { head, exponent } = self;
        let bits = 128 - head.leading_zeros() as i32;
        // The last place of the result: 53 digits, or fewer where it is below the normal doubles.
        let last_place = (exponent + bits - 53).max(-1074);
        let drop = last_place - exponent;
        if head == 0 || drop >= 128 {
            return 0.0;
        }
        if drop <= 0 {
            return head as f64 * power_of_two(exponent);
        }
        let (kept, rest, half) = (head >> drop, head & ((1 << drop) - 1), 1u128 << (drop - 1));
        let up = rest > half || (rest == half && kept & 1 == 1);
        (kept + u128::from(up)) as f64 * power_of_two(last_place)
    }

    /// The root of the double that would be nearest if doubles had exponents of any size.
    pub(super) fn root(self) -> f64 {
        // An even exponent, and a head without one.
        let odd = self.exponent & 1;
        let head = Quotient { head: self.head, exponent: odd }.round();
        // In two steps, for the power alone may be no double; the first step is exact.
        let place = (self.exponent - odd) / 2;
        head.sqrt() * power_of_two(place / 2) * power_of_two(place - place / 2)
    }
}

/// 2^`exponent` down to the least double; infinite beyond the greatest.
fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..=-1075 => 0.0,
        -1074..=-1023 => f64::from_bits(1 << (exponent + 1074)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn naturals_compute_as_numbers_of_128_bits_do(one: u64, other: u64, more: u64, shift in 0u32..384) {
            let natural = |number: u64| Natural::from(u128::from(number));
            let product = u128::from(one) * u128::from(other);
            prop_assert_eq!(natural(one).times(&natural(other)), Natural::from(product));
            let sum = Natural::from(product).plus(&natural(more));
            prop_assert_eq!(sum.minus(&natural(more)), Natural::from(product));
            prop_assert_eq!(natural(one).order(&natural(other)), one.cmp(&other));
            let shifted = Natural::from(product).shifted_up(shift);
            prop_assert_eq!(shifted.shifted_down(shift), (Natural::from(product), false));
            prop_assert_eq!(shifted.bits(), if product == 0 { 0 } else { 128 - product.leading_zeros() + shift });
            let is_cut = product.trailing_zeros() < 17 && product != 0;
            prop_assert_eq!(Natural::from(product).shifted_down(17), (Natural::from(product >> 17), is_cut));
        }

        /// Doubles divide two doubles exactly rounded, and whole numbers below 2^53 are such.
        #[test]
        fn a_quotient_is_rounded_once(numerator in 0u64..1 << 53, denominator in 1u64..1 << 53, exponent in -1200i32..1000) {
            let quotient = Quotient::new(&Natural::from(u128::from(numerator)), denominator.into(), 0).round();
            prop_assert_eq!(quotient, numerator as f64 / denominator as f64);
            let scaled = Quotient::new(&Natural::from(u128::from(numerator)), 1, exponent).round();
            let half = exponent / 2;
            prop_assert_eq!(scaled, numerator as f64 * 2f64.powi(half) * 2f64.powi(exponent - half));
            let root = Quotient::new(&Natural::from(u128::from(numerator)), 1, 0).root();
            prop_assert_eq!(root, (numerator as f64).sqrt());
        }

        #[test]
        fn whole_numbers_are_rounded_as_the_language_does(number: u128, shift in 0u32..128) {
            let number = number >> shift;
            prop_assert_eq!(Quotient::new(&Natural::from(number), 1, 0).round(), number as f64);
        }
    }

    #[test]
    fn roots_are_there_where_squares_are_none() {
        let square = Quotient::new(&Natural::from(1), 1, 2000);
        assert_eq!((square.round(), square.root()), (f64::INFINITY, 2f64.powi(1000)));
        let square = Quotient::new(&Natural::from(1), 1, -2001);
        assert_eq!(square.round(), 0.0);
        assert!((square.root() / 2f64.powi(-1000) - 0.5f64.sqrt()).abs() < 1e-15);
    }
}
