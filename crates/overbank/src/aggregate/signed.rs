//! Signed numbers in words.

/// A signed number as a word that is near zero where the number is: 0, -1, 1, -2, 2 … are 0, 1, 2, 3, 4 …
pub const fn signed(number: i64) -> u64 {
    (number as u64) << 1 ^ (number >> 63) as u64
}

/// What [`signed`] was made of.
pub const fn from_signed(word: u64) -> i64 {
    (word >> 1) as i64 ^ -((word & 1) as i64)
}

/// As [`signed`], of 128 bits.
pub(super) const fn wide_signed(number: i128) -> u128 {
    (number as u128) << 1 ^ (number >> 127) as u128
}

/// What [`wide_signed`] was made of.
pub(super) const fn from_wide_signed(word: u128) -> i128 {
    (word >> 1) as i128 ^ -((word & 1) as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn signed_numbers_come_back(number: i64, wide: i128) {
            prop_assert_eq!(from_signed(signed(number)), number);
            prop_assert_eq!(from_wide_signed(wide_signed(wide)), wide);
        }
    }

    #[test]
    fn what_is_near_zero_stays_there() {
        assert_eq!([0, -1, 1, -2, i64::MIN].map(signed), [0, 1, 2, 3, u64::MAX]);
        assert_eq!([0, -1, 1, -2, i128::MIN].map(wide_signed), [0, 1, 2, 3, u128::MAX]);
    }
}
