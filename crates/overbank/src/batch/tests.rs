//! The room's laws: partition and sort against the standard library on keys of every spread.

use super::*;
use keyhash::KeyHash;
use proptest::prelude::*;
use std::fmt::Debug;

/// SplitMix64.
fn hashes(seed: u64) -> impl Iterator<Item = u64> + Clone {
    (1u64..).map(move |i| {
        let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Key spreads that break radix sorts: shared prefixes, few values, one heavy value, order, reverse order,
/// low bits only, geometric magnitudes.
const SPREADS: usize = 10;

fn spread(which: usize, i: usize, h: u64) -> u64 {
    match which {
        0 => h,
        1 => 0,
        2 => h % 3,
        3 => h >> 40,
        4 => h << 40,
        5 => i as u64,
        6 => u64::MAX - i as u64,
        7 if !h.is_multiple_of(10) => 0x1234_5678_9abc_def0,
        8 => h >> (h % 64),
        9 => (i as u64 % 64) << 58 | h & 0xff,
        _ => h,
    }
}

fn sorts_like_the_standard_library<T: HashOrdered + PartialEq + Debug>(
    n: usize,
    make: impl Fn(u64, usize) -> T,
) {
    let (mut sorter, mut scratch) = (Sorter::new(), Vec::new());
    for which in 0..SPREADS {
        let mut records: Vec<T> =
            hashes(n as u64).take(n).enumerate().map(|(i, h)| make(spread(which, i, h), i)).collect();
        let mut expected = records.clone();
        expected.sort_by_key(|record| (record.prefix(), record.suffix()));
        sorter.sort(&mut records, &mut scratch);
        assert!(records == expected, "{n} records of spread {which}");
    }
}

#[test]
fn sort_is_a_stable_sort_at_every_size_and_spread() {
    for n in [0, 1, 2, 31, 32, 33, 1000, 16_384, 16_385, 40_000, 200_000] {
        sorts_like_the_standard_library(n, |key, _| key);
        sorts_like_the_standard_library(n, |key, _| key as u32);
        sorts_like_the_standard_library(n, |key, i| (key, i));
        sorts_like_the_standard_library(n, |key, _| KeyHash::new(key / 7, key));
        sorts_like_the_standard_library(n, |key, i| (KeyHash::new(7, key), i as u64));
        sorts_like_the_standard_library(n, |key, i| (key, [i as u8; 13]));
    }
}

fn partitions_like_a_sort_by_index<T: HashOrdered + PartialEq + Debug>(
    partitioner: &mut Partitioner<T>,
    records: &[T],
    partitions: usize,
    offset: usize,
    index: impl Fn(&T) -> usize,
) {
    let mut expected = records.to_vec();
    expected.sort_by_key(&index);
    let mut into = vec![T::default(); records.len() + offset];
    let ends = partitioner.by_index(records, partitions, &index, &mut into[offset..]).to_vec();
    assert_eq!(into[offset..], expected);
    assert_eq!(ends.len(), partitions);
    let mut below = 0;
    for (partition, end) in ends.into_iter().enumerate() {
        below += records.iter().filter(|record| index(record) == partition).count();
        assert_eq!(end, below);
    }
}

proptest! {
    #[test]
    fn partition_is_a_stable_sort_by_index(
        seed: u64,
        n in 0usize..600,
        partitions in 1usize..70,
        which in 0..SPREADS,
        offset in 0usize..20,
    ) {
        let keys = hashes(seed).take(n).enumerate().map(|(i, h)| spread(which, i, h));
        let index = |key: u64| (key % partitions as u64) as usize;
        let narrow: Vec<u32> = keys.clone().map(|key| key as u32).collect();
        partitions_like_a_sort_by_index(&mut Partitioner::new(), &narrow, partitions, offset, |k| index(u64::from(*k)));
        let plain: Vec<u64> = keys.clone().collect();
        partitions_like_a_sort_by_index(&mut Partitioner::new(), &plain, partitions, offset, |k| index(*k));
        let pairs: Vec<(u64, usize)> = keys.clone().zip(0..).collect();
        partitions_like_a_sort_by_index(&mut Partitioner::new(), &pairs, partitions, offset, |r| index(r.0));
        let wide: Vec<(KeyHash, u64)> = keys.clone().map(|key| KeyHash::new(key, !key)).zip(0..).collect();
        partitions_like_a_sort_by_index(&mut Partitioner::new(), &wide, partitions, offset, |r| index(r.0.high()));
        let odd: Vec<(u64, [u64; 2])> = keys.map(|key| (key, [key; 2])).collect();
        partitions_like_a_sort_by_index(&mut Partitioner::new(), &odd, partitions, offset, |r| index(r.0));
    }
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn an_index_past_the_partitions_is_refused() {
    Partitioner::new().by_index(&[1u64, 2, 3], 3, |key| *key as usize, &mut [0; 3]);
}
