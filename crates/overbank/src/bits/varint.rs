//! Numbers of seven bits a byte, the least significant first, with the eighth set where more follow.
//!
//! Cost: a byte and a branch for what is below 128, which most lengths and counts are.

/// Bytes of the longest.
const BYTES_MAX: usize = 10;

/// How many bytes `value` takes.
#[inline(always)]
pub(crate) fn length(value: u64) -> usize {
    match value {
        0..128 => 1,
        _ => (70 - (value.leading_zeros() as usize)) / 7,
    }
}

/// The bytes of `value`, and how many they are.
#[inline]
pub(crate) fn encoded(mut value: u64) -> ([u8; BYTES_MAX], usize) {
    let (mut bytes, mut at) = ([0; BYTES_MAX], 0);
    while value >= 128 {
        bytes[at] = value as u8 | 128;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    (bytes, at + 1)
}

/// Appends `value`.
#[inline(always)]
pub(crate) fn push(value: u64, into: &mut Vec<u8>) {
    if value < 128 {
        into.push(value as u8);
        return;
    }
    let (bytes, length) = encoded(value);
    into.extend_from_slice(&bytes[..length]);
}

/// Takes a number off the front; `None` where `bytes` are too few, or say more than 64 bits.
#[inline(always)]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 128 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().enumerate().take(BYTES_MAX) {
        let bits = u64::from(byte & 127);
        if i == BYTES_MAX - 1 && byte > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte < 128 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, shift in 0u32..64, rest in prop::collection::vec(any::<u8>(), 0..4)) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            push(value, &mut bytes);
            prop_assert_eq!(bytes.len(), length(value));
            prop_assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
            bytes.extend(&rest);
            let mut left = &bytes[..];
            prop_assert_eq!((take(&mut left), left), (Some(value), &rest[..]));
        }
    }

    #[test]
    fn more_than_64_bits_are_none() {
        for last in [2, 3, 127, 128] {
            assert_eq!(take(&mut &[[255; 9].as_slice(), &[last]].concat()[..]), None);
        }
        assert_eq!(take(&mut &[[255; 9].as_slice(), &[1]].concat()[..]), Some(u64::MAX));
    }
}
