//! The exact sum of doubles times counts: the same in any order, rounded once, when it is read.
//!
//! ```text
//!   digit i weighs 2^(32 i - 1074), i64 each:   │ d0 │ d1 │ … │ d68 │   value = sum of d_i * 2^(32 i - 1074)
//! ```
//!
//! 1. The digits' weighted sum is exactly the sum so far; digits may be negative or above 2^32 until carried.
//! 2. After at most [`CARRY_EVERY`] additions the carries are propagated, so no digit overflows.
//! 3. Carried digits (`0..2^32`, the last signed) are a canonical form: equal sums have equal bytes.
//!
//! Cost: five additions a value; 560 bytes. Source: Kulisch's long accumulator, as in Neal, "Fast exact
//! summation using small and large superaccumulators" (2015).

/// 2^-1074 up to 2^1024 in 66 digits; the rest hold carries of counts up to 2^128.
const DIGITS: usize = 70;
/// An addition changes a digit by less than 2^33, so 2^29 of them by less than 2^62.
const CARRY_EVERY: u32 = 1 << 29;
const DIGIT_BITS: u32 = 32;
const DIGIT_MASK: i64 = (1 << DIGIT_BITS) - 1;
pub(super) const BYTES: usize = DIGITS * size_of::<u64>();

#[derive(Clone, Debug)]
pub(super) struct ExactSum {
    digits: [i64; DIGITS],
    additions: u32,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self { digits: [0; DIGITS], additions: 0 }
    }
}

impl ExactSum {
    /// Adds `count` times a finite `value`.
    #[inline]
    pub(super) fn add(&mut self, value: f64, count: u64) {
        let bits = value.to_bits();
        let exponent = (bits >> 52) as u32 & 0x7ff;
        let mantissa = bits & ((1 << 52) - 1);
        // Subnormals have the exponent of the least normal ones, without the hidden bit.
        let (mantissa, position) =
            if exponent == 0 { (mantissa, 0) } else { (mantissa | 1 << 52, exponent - 1) };
        let (first, shift) = ((position / DIGIT_BITS) as usize, position % DIGIT_BITS);
        let product = u128::from(mantissa) * u128::from(count);
        // At most 117 bits, shifted by at most 31: two halves keep each below 128.
        let low = u128::from(product as u64) << shift;
        let high = u128::from((product >> 64) as u64) << shift;
        let sign = if value.is_sign_negative() { -1 } else { 1 };
        let digits = &mut self.digits[first..first + 5];
        digits[0] += sign * (low as i64 & DIGIT_MASK);
        digits[1] += sign * ((low >> 32) as i64 & DIGIT_MASK);
        digits[2] += sign * (((low >> 64) as i64 & DIGIT_MASK) + (high as i64 & DIGIT_MASK));
        digits[3] += sign * ((high >> 32) as i64 & DIGIT_MASK);
        digits[4] += sign * ((high >> 64) as i64 & DIGIT_MASK);
        self.count_addition();
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.carry();
        let mut other = other.clone();
        other.carry();
        for (digit, more) in self.digits.iter_mut().zip(other.digits) {
            *digit += more;
        }
        self.carry();
    }

    /// The sum, rounded to the nearest double; infinite beyond what doubles hold.
    pub(super) fn value(&self) -> f64 {
        let (negative, digits) = self.magnitude();
        signed(negative, round(&digits, 0, false))
    }

    /// The sum divided by a count above 0, rounded to the nearest double.
    pub(super) fn mean(&self, count: u128) -> f64 {
        let (negative, digits) = self.magnitude();
        // Two digits below the sum's last, so that what lies below those only breaks ties.
        let mut quotient = [0i64; DIGITS + 2];
        let mut rest = Remainder { value: 0, count };
        for (place, digit) in quotient.iter_mut().rev().zip(digits.into_iter().rev().chain([0, 0])) {
            *place = rest.take(digit as u32).into();
        }
        signed(negative, round(&quotient, 2, rest.value != 0))
    }

    /// The sign of the sum, and the digits of its magnitude.
    fn magnitude(&self) -> (bool, [i64; DIGITS]) {
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.digits[DIGITS - 1] < 0;
        if negative {
            sum.digits.iter_mut().for_each(|digit| *digit = -*digit);
            sum.carry();
        }
        (negative, sum.digits)
    }

    /// The canonical digits.
    pub(super) fn to_digits(&self) -> [i64; DIGITS] {
        let mut sum = self.clone();
        sum.carry();
        sum.digits
    }

    /// From canonical digits, or `None` if these are not.
    pub(super) fn from_digits(digits: [i64; DIGITS]) -> Option<Self> {
        let canonical = digits[..DIGITS - 1].iter().all(|digit| (0..=DIGIT_MASK).contains(digit));
        let last_fits = digits[DIGITS - 1].unsigned_abs() < 1 << 31;
        (canonical && last_fits).then_some(Self { digits, additions: 0 })
    }

    #[inline]
    fn count_addition(&mut self) {
        self.additions += 1;
        if self.additions >= CARRY_EVERY {
            self.carry();
        }
    }

    fn carry(&mut self) {
        let mut carry = 0;
        let (last, digits) = self.digits.split_last_mut().expect("there are 70 digits");
        for digit in digits {
            let sum = *digit + carry;
            *digit = sum & DIGIT_MASK;
            carry = sum >> DIGIT_BITS;
        }
        *last += carry;
        self.additions = 0;
    }
}

/// What is left of a long division, digit by digit from the top.
struct Remainder {
    value: u128,
    count: u128,
}

impl Remainder {
    /// The next digit of the quotient. Bit by bit, for the remainder and a digit may take more than 128 bits.
    fn take(&mut self, digit: u32) -> u32 {
        if let Some(value) = self.value.checked_mul(1 << DIGIT_BITS) {
            let value = value | u128::from(digit);
            self.value = value % self.count;
            return (value / self.count) as u32;
        }
        (0..DIGIT_BITS).rev().fold(0, |quotient, bit| {
            let overflows = self.value >> 127 == 1;
            let value = self.value << 1 | u128::from(digit >> bit & 1);
            let fits = overflows || value >= self.count;
            self.value = if fits { value.wrapping_sub(self.count) } else { value };
            quotient << 1 | u32::from(fits)
        })
    }
}

fn signed(negative: bool, magnitude: f64) -> f64 {
    if negative { -magnitude } else { magnitude }
}

/// The digits' number, of which the first `below` digits are below the last place of a sum, rounded to the nearest double.
/// `has_rest`: something that is less than the last digit is left out.
fn round(digits: &[i64], below: i32, has_rest: bool) -> f64 {
    let Some(top) = digits.iter().rposition(|&digit| digit != 0) else { return 0.0 };
    // The top three digits hold at least 65 significant bits; what lies below only breaks ties.
    let digit = |i: usize| top.checked_sub(i).map_or(0, |at| digits[at] as u128);
    let mut head = digit(0) << 64 | digit(1) << 32 | digit(2);
    if has_rest || digits[..top.saturating_sub(2)].iter().any(|&digit| digit != 0) {
        head |= 1;
    }
    scale(head, DIGIT_BITS as i32 * (top as i32 - 2 - below) - 1074)
}

/// `head * 2^exponent`, rounded once to the nearest double, ties to even.
fn scale(head: u128, exponent: i32) -> f64 {
    let bits = 128 - head.leading_zeros() as i32;
    // The result's last place: 53 digits, or fewer where it is subnormal.
    let last_place = (exponent + bits - 53).max(-1074);
    let drop = last_place - exponent;
    if drop <= 0 {
        return head as f64 * power_of_two(exponent);
    }
    if drop >= 128 {
        return 0.0;
    }
    let (kept, rest, half) = (head >> drop, head & ((1 << drop) - 1), 1u128 << (drop - 1));
    let up = rest > half || (rest == half && kept & 1 == 1);
    (kept + u128::from(up)) as f64 * power_of_two(last_place)
}

/// `2^exponent` for what products of at most 54 bits need; infinite beyond.
fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..=-1023 => f64::from_bits(1 << (exponent + 1074).max(0)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}
