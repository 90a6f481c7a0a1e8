//! Everything structures derive from a hash, once: range reduction, quotient and remainder, row columns.
//!
//! ```text
//!   KeyHash  127                64 63                 0
//!            ├────── high ───────┤├────── low ────────┤
//!            └ page, partition,    fold = high ^ low
//!              bucket, quotient    └ column of each row: independent of high, hence of the page
//! ```
//!
//! Invariants:
//! 1. [`range_of`] and the quotient of [`split_quotient`] keep order: ranges of the hash stay ranges.
//! 2. The columns of two rows collide independently (see [`columns`]).
//!
//! Cost: a multiplication for a range, two for a column; no memory access.

/// Reduces a uniform 64-bit value to `0..range` by multiply-shift, keeping order:
/// `a <= b` implies `range_of(a, n) <= range_of(b, n)`.
///
/// # Accuracy
/// Each result has probability `1/range` up to a relative error below `range / 2^64`. A `range` of 0 gives 0.
///
/// ```
/// assert_eq!(keyhash::range_of(u64::MAX / 2 + 1, 1000), 500);
/// ```
#[inline]
pub const fn range_of(value: u64, range: u64) -> u64 {
    ((value as u128 * range as u128) >> 64) as u64
}

/// Splits the top `quotient_bits + remainder_bits` bits of `high` into (quotient, remainder).
///
/// Either may have 0 bits, and then is 0. `(quotient, remainder)` pairs sort as `high` does.
///
/// # Panics
/// When the two together ask for more than the 64 bits there are.
///
/// ```
/// assert_eq!(keyhash::split_quotient(0xabcd_0000_0000_0000, 8, 4), (0xab, 0xc));
/// ```
#[inline]
pub const fn split_quotient(high: u64, quotient_bits: u32, remainder_bits: u32) -> (u64, u64) {
    assert!(
        quotient_bits <= 64 && remainder_bits <= 64 - quotient_bits,
        "quotient and remainder share 64 bits"
    );
    // A shift by 64 is what an empty slice means, and `<<` does not do it.
    let remainder = top_bits(if quotient_bits == 64 { 0 } else { high << quotient_bits }, remainder_bits);
    (top_bits(high, quotient_bits), remainder)
}

/// The column of each of `D` rows, in `0..width`, from one 64-bit fold ([`crate::KeyHash::fold`]).
///
/// # Accuracy
/// For two keys the rows collide as independent events of probability `1/width`. Multiples of one constant
/// would not do: the difference of two keys in row 2 would then be twice that of row 1 plus that of row 0,
/// and a pair that meets in two rows would meet in the third one time in three. Hence a constant of its own
/// is xored in before each multiplication, and the test `rows_collide_independently` counts.
#[inline]
pub fn columns<const D: usize>(fold: u64, width: u64) -> [u64; D] {
    let rows = const { Row::first::<D>() };
    rows.map(|row| row.column(fold, width))
}

/// [`columns`] of `2^lg_width`, for `lg_width` of 1 to 32, in half the instructions: without the second multiplication.
#[inline]
pub fn columns_of_power<const D: usize>(fold: u64, lg_width: u32) -> [u64; D] {
    debug_assert!((1..=32).contains(&lg_width), "2^{lg_width} columns");
    let rows = const { Row::first::<D>() };
    // The top 32 bits are what the multiplication leaves there.
    rows.map(|row| row.product(fold).wrapping_shr(u64::BITS.wrapping_sub(lg_width)))
}

/// The column of one row: `column(fold, r, width) == columns(fold, width)[r]`, for depths known only at run
/// time. The constants of the first 16 rows come from a table.
#[inline]
pub const fn column(fold: u64, row: u32, width: u64) -> u64 {
    const TABLE: [Row; 16] = Row::first();
    let row = if (row as usize) < TABLE.len() { TABLE[row as usize] } else { Row::new(row as u64) };
    row.column(fold, width)
}

/// The two constants of a row.
#[derive(Clone, Copy)]
struct Row {
    salt: u64,
    /// Odd, so that no key is lost.
    multiplier: u64,
}

impl Row {
    const fn new(row: u64) -> Self {
        Self { salt: constant(2 * row), multiplier: constant(2 * row + 1) | 1 }
    }

    /// The first `D` rows, for the compiler to work out.
    const fn first<const D: usize>() -> [Self; D] {
        let mut rows = [Self { salt: 0, multiplier: 1 }; D];
        let mut row = 0;
        while row < D {
            rows[row] = Self::new(row as u64);
            row += 1;
        }
        rows
    }

    #[inline(always)]
    const fn product(self, fold: u64) -> u64 {
        (fold ^ self.salt).wrapping_mul(self.multiplier)
    }

    #[inline(always)]
    const fn column(self, fold: u64, width: u64) -> u64 {
        let mixed = self.product(fold);
        // The upper half of a product depends on all bits; the fold lets a wide range see both halves.
        range_of(mixed ^ (mixed >> 32), width)
    }
}

/// The `i`-th output of SplitMix64 from state 0 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, OOPSLA 2014): constants with nothing up their sleeve.
const fn constant(i: u64) -> u64 {
    let state = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

const fn top_bits(value: u64, bits: u32) -> u64 {
    if bits == 0 { 0 } else { value >> (64 - bits) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashKind, KeyHasher, Seed};
    use proptest::prelude::*;
    use std::vec;

    /// Bits of a quotient and of a remainder, 64 together at most.
    fn lengths() -> impl Strategy<Value = (u32, u32)> {
        (0u32..=64).prop_flat_map(|q| (Just(q), 0..=64 - q))
    }

    proptest! {
        #[test]
        fn range_keeps_order_and_bounds(a: u64, b: u64, range in 1u64..) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(range_of(low, range) <= range_of(high, range));
            prop_assert!(range_of(high, range) < range);
        }

        #[test]
        fn quotient_and_remainder_rebuild_the_fingerprint(high: u64, (q, r) in lengths()) {
            let (quotient, remainder) = split_quotient(high, q, r);
            let fingerprint = if q + r == 0 { 0 } else { high >> (64 - q - r) };
            prop_assert_eq!(((quotient as u128) << r) | remainder as u128, fingerprint as u128);
            prop_assert!((remainder as u128) < 1u128 << r);
        }

        #[test]
        fn fingerprints_sort_as_hashes(a: u64, b: u64, (q, r) in lengths()) {
            prop_assert!(split_quotient(a.min(b), q, r) <= split_quotient(a.max(b), q, r));
        }

        #[test]
        fn columns_are_single_columns_in_range(fold: u64, width in 1u64..) {
            let all = columns::<9>(fold, width);
            for (row, &found) in all.iter().enumerate() {
                prop_assert!(found < width);
                prop_assert_eq!(found, column(fold, row as u32, width));
            }
        }
    }

    proptest! {
        #[test]
        fn columns_of_a_power_are_columns(fold: u64, lg_width in 1u32..=32) {
            prop_assert_eq!(columns_of_power::<9>(fold, lg_width), columns::<9>(fold, 1 << lg_width));
        }
    }

    #[test]
    fn slices_of_all_and_of_no_bits() {
        assert_eq!(split_quotient(u64::MAX, 64, 0), (u64::MAX, 0));
        assert_eq!(split_quotient(u64::MAX, 0, 64), (0, u64::MAX));
        assert_eq!(split_quotient(u64::MAX, 0, 0), (0, 0));
        assert_eq!(split_quotient(0x8000_0000_0000_0001, 1, 63), (1, 1));
    }

    #[test]
    #[should_panic(expected = "share 64 bits")]
    fn slices_of_more_than_all_bits_are_refused() {
        split_quotient(1, 33, 32);
    }

    fn folds(n: u64) -> impl Iterator<Item = u64> {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed::from(7));
        (0..n).map(move |i| hasher.hash_u64(i).fold())
    }

    /// Two successive keys meet in a row with probability p = 1/64, each pair independently of the others.
    /// Over n = 2^22 pairs the number that meets in all of k given rows is binomial(n, p^k). By Bernstein's
    /// inequality it leaves mean +- t with probability at most 2 exp(-t^2 / (2 (mean + t/3))). With t = 7.1
    /// sqrt(mean) + 18 the exponent is above 25 for each mean here (65,536 for one row, 1,024 for two, 16 for
    /// three): 25 sets of rows x 2 x 1.4e-11 < 1e-9.
    #[test]
    fn rows_collide_independently() {
        const ROWS: usize = 5;
        const N: u64 = 1 << 22;
        let mut meets = [0u64; 1 << ROWS];
        let mut previous = [u64::MAX; ROWS];
        for fold in folds(N) {
            let now = columns::<ROWS>(fold, 64);
            let mask = (0..ROWS).fold(0, |mask, row| mask | usize::from(now[row] == previous[row]) << row);
            meets[mask] += 1;
            previous = now;
        }
        for rows in 1..1usize << ROWS {
            let k = rows.count_ones();
            if k > 3 {
                continue;
            }
            let together: u64 =
                meets.iter().enumerate().filter(|&(mask, _)| mask & rows == rows).map(|(_, &n)| n).sum();
            let mean = N as f64 / 64f64.powi(k as i32);
            let limit = 7.1 * mean.sqrt() + 18.0;
            assert!(
                (together as f64 - mean).abs() < limit,
                "rows {rows:05b} met {together} times, expected {mean} +- {limit}"
            );
        }
    }

    /// A row of 4,096 columns filled by 2^22 keys: the chi-squared statistic has 4,095 degrees of freedom; by
    /// Laurent and Massart (2000), lemma 1, it exceeds k + 2 sqrt(k x) + 2 x with probability at most
    /// exp(-x); x = 24 for 9 rows: 9 x 3.8e-11 < 1e-9.
    #[test]
    fn columns_are_uniform() {
        const WIDTH: usize = 4096;
        let mut counts = vec![0u32; 9 * WIDTH];
        for fold in folds(1 << 22) {
            for (row, column) in columns::<9>(fold, WIDTH as u64).into_iter().enumerate() {
                counts[row * WIDTH + column as usize] += 1;
            }
        }
        let mean = (1u64 << 22) as f64 / WIDTH as f64;
        let k = (WIDTH - 1) as f64;
        for row in counts.chunks(WIDTH) {
            let statistic: f64 = row.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum();
            assert!(statistic < k + 2.0 * (k * 24.0).sqrt() + 48.0, "chi-squared {statistic}");
        }
    }
}
