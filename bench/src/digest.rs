//! Digests of answers, so that two exact engines can be compared without keeping both answers.

use keyhash::{HashKind, KeyHasher, Seed};

/// The digest of bytes, in order.
pub fn digest_bytes(bytes: &[u8]) -> u64 {
    KeyHasher::new(HashKind::Xxh3, Seed(0)).hash(bytes).fold()
}

/// The digest of values, in order.
pub fn digest_u64s(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0x0bad_5eed, |state, value| mix(state.rotate_left(5) ^ mix(value)))
}

/// The digest of a multiset of values: the order of arrival does not matter.
pub fn digest_unordered(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, |sum, value| mix(value).wrapping_add(sum))
}

/// The finalizer of SplitMix64: every input bit reaches every output bit.
pub(crate) const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters_only_where_it_should() {
        assert_ne!(digest_u64s([1, 2]), digest_u64s([2, 1]));
        assert_eq!(digest_unordered([1, 2, 3]), digest_unordered([3, 1, 2]));
        assert_ne!(digest_unordered([1, 2, 3]), digest_unordered([1, 2, 2]));
        assert_ne!(
            digest_unordered([]),
            digest_unordered([0]),
            "an answer of one zero is not an empty answer"
        );
        assert_ne!(digest_bytes(b"a"), digest_bytes(b"b"));
    }
}
