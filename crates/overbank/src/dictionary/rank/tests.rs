//! Bijections, sizes, hostile bytes.

use super::*;
use crate::sketch::format::forge;
use crate::{Error, HashKind, KeyHasher, Seed};
use proptest::prelude::*;

const HASHER: KeyHasher = KeyHasher::new(HashKind::Xxh3, Seed(11));

fn built(hashes: &[KeyHash], options: HashRankOptions) -> HashRank {
    let mut builder = HashRank::builder(hashes.len() as u64, HASHER, options).unwrap();
    hashes.iter().for_each(|hash| builder.push(*hash).unwrap());
    builder.finish()
}

fn hashes(keys: u64) -> Vec<KeyHash> {
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| HASHER.hash_u64(key)).collect();
    hashes.sort_unstable();
    hashes
}

fn options() -> impl Strategy<Value = HashRankOptions> {
    let skip = prop_oneof![Just(None), (2u32..300).prop_map(Some)];
    (prop_oneof![Just(244u32), 1u32..1000], 1u32..=128, skip).prop_map(|(keys, huffman, skip)| {
        HashRankOptions::new().bucket_keys(keys).huffman_keys_max(huffman).skip_keys_min(skip)
    })
}

proptest! {
    /// Hashes that cluster make buckets of any size, and escapes.
    #[test]
    fn ranks_are_places_whatever_the_hashes(
        options in options(),
        drawn in prop::collection::btree_set(prop_oneof![
            any::<u128>(), any::<u16>().prop_map(u128::from), any::<u16>().prop_map(|low| u128::MAX - u128::from(low)),
        ], 0..3000),
    ) {
        let hashes: Vec<KeyHash> = drawn.into_iter().map(KeyHash).collect();
        let ranks = built(&hashes, options);
        let expected: Vec<u64> = (0..hashes.len() as u64).collect();
        prop_assert_eq!(hashes.iter().map(|hash| ranks.rank(*hash)).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(ranks.rank_many(&hashes), expected);
        prop_assert!(ranks.rank(KeyHash(77 << 70)) < ranks.len().max(1));
        prop_assert_eq!(HashRank::from_bytes(&ranks.to_bytes()).unwrap(), ranks);
    }

    #[test]
    fn bytes_that_lie_are_refused_or_answer(at in 0usize..1200, value in any::<u8>()) {
        let hashes = hashes(500);
        let ranks = built(&hashes, HashRankOptions::new().bucket_keys(100).skip_keys_min(Some(64)));
        let bytes = ranks.to_bytes();
        let payload = bytes.len() - crate::sketch::format::HEADER_BYTES;
        if let Ok(found) = HashRank::from_bytes(&forge(&bytes, at % payload, value)) {
            prop_assert!(hashes.iter().all(|hash| found.rank(*hash) < found.len()));
        }
    }
}

#[test]
fn hashes_are_a_bijection_in_less_than_two_and_a_half_bits() {
    let keys = if cfg!(miri) { 2_000 } else { 10_000_000 };
    assert_bijection(keys, HashRankOptions::new(), 2.50);
    assert_bijection(keys, HashRankOptions::new().skip_keys_min(Some(64)), 2.57);
}

fn assert_bijection(keys: u64, options: HashRankOptions, bits_max: f64) {
    let hashes = hashes(keys);
    let ranks = built(&hashes, options);
    for (chunk, first) in hashes.chunks(1 << 16).zip((0..).step_by(1 << 16)) {
        assert!(ranks.rank_many(chunk).into_iter().eq(first..first + chunk.len() as u64));
    }
    let bits = ranks.memory_bytes() as f64 * 8.0 / keys as f64;
    assert!(cfg!(miri) || bits <= bits_max, "{bits} bits a hash");
}

/// How many come decides the size of buckets, and nothing else; and a part of the hashes is as good as all.
#[test]
fn expectations_need_not_be_met() {
    let hashes = hashes(30_000);
    for expected in [0, 1_000, 20_000, 60_000, 3_000_000] {
        let mut builder = HashRank::builder(expected, HASHER, HashRankOptions::new()).unwrap();
        hashes.iter().for_each(|hash| builder.push(*hash).unwrap());
        assert_eq!(builder.len(), 30_000);
        let ranks = builder.finish();
        assert!(ranks.rank_many(&hashes).into_iter().eq(0..30_000), "{expected}");
        assert_eq!(HashRank::from_bytes(&ranks.to_bytes()).unwrap(), ranks);
        let bits = ranks.memory_bytes() as f64 * 8.0 / 30_000.0;
        assert!(
            !(20_000..=60_000).contains(&expected) || bits < 3.5,
            "{bits} bits a hash, {expected} expected"
        );
    }
    let part = &hashes[7_000..19_000];
    let range = part[0].high()..=part[part.len() - 1].high();
    let mut builder = HashRank::builder_in(range.clone(), 12_000, HASHER, HashRankOptions::new()).unwrap();
    assert!(matches!(builder.push(hashes[6_999]), Err(Error::InvalidOption { name: "hash", .. })));
    part.iter().for_each(|hash| builder.push(*hash).unwrap());
    assert!(matches!(builder.push(hashes[19_000]), Err(Error::InvalidOption { name: "hash", .. })));
    let ranks = builder.finish();
    assert!(ranks.rank_many(part).into_iter().eq(0..12_000));
    assert!(hashes.iter().all(|hash| ranks.rank(*hash) < 12_000));
    let bits = ranks.memory_bytes() as f64 * 8.0 / 12_000.0;
    assert!(bits < 4.0, "{bits} bits a hash");
    let empty = std::ops::RangeInclusive::new(5, 4);
    assert!(HashRank::builder_in(empty, 1, HASHER, HashRankOptions::new()).is_err());
}

#[test]
fn keys_of_one_hash_stand_behind_each_other() {
    let hashes = hashes(1_000);
    let items: Vec<KeyHash> = hashes
        .iter()
        .enumerate()
        .flat_map(|(at, hash)| vec![*hash; if at % 100 == 7 { 3 } else { 1 }])
        .collect();
    let ranks = built(&items, HashRankOptions::new());
    assert_eq!((ranks.len(), ranks.repeats()), (1_020, 20));
    for hash in &hashes {
        assert_eq!(ranks.rank(*hash), items.partition_point(|item| item < hash) as u64);
    }
    let bytes = ranks.to_bytes();
    assert_eq!(HashRank::from_bytes(&bytes).unwrap(), ranks);
    // The last repeat behind all hashes, and the first above the second.
    for (at, value) in [(8 + 19 * 8 + 1, 4), (8, 200)] {
        assert!(matches!(HashRank::from_bytes(&forge(&bytes, at, value)), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn what_does_not_ascend_is_refused() {
    let hashes = hashes(3);
    let mut builder = HashRank::builder(2, HASHER, HashRankOptions::new()).unwrap();
    builder.push(hashes[1]).unwrap();
    assert!(matches!(builder.push(hashes[0]), Err(Error::InvalidOption { name: "hash", .. })));
    builder.push(hashes[2]).unwrap();
    assert_eq!(builder.finish().rank_many(&hashes[1..]), [0, 1]);
    for options in [
        HashRankOptions::new().bucket_keys(0),
        HashRankOptions::new().huffman_keys_max(129),
        HashRankOptions::new().skip_keys_min(Some(1)),
    ] {
        assert!(matches!(HashRank::builder(1, HASHER, options), Err(Error::InvalidOption { .. })));
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let bytes = built(&hashes(300), HashRankOptions::new().bucket_keys(50)).to_bytes();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(HashRank::from_bytes(&damaged).is_err(), "bit {bit}");
    }
}
