//! The room's laws: partition and sort against the standard library on keys of every spread, and batching
//! changes nothing.

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

    /// The law: for any arrival order, batch split and buffer size, what is flushed is the same.
    #[test]
    fn batching_changes_nothing(
        seed: u64,
        n in 0usize..6000,
        cuts in prop::collection::vec(1usize..3000, 1..8),
        spare_bytes in 0usize..200_000,
        which in 0..SPREADS,
        how in 0usize..3,
    ) {
        let updates: Vec<(KeyHash, u64)> = hashes(seed)
            .take(n)
            .enumerate()
            .map(|(i, h)| (KeyHash::new(spread(which, i, h), h % 2), h % 5))
            .collect();
        let floor_bytes = match UpdateBuffer::<(KeyHash, u64)>::with_partitions(0, 16) {
            Err(crate::Error::BudgetExceeded { wanted_bytes, .. }) => wanted_bytes,
            other => panic!("a budget of 0 gave {other:?}"),
        };
        let budget_bytes = floor_bytes + spare_bytes;
        let mut buffer = UpdateBuffer::with_partitions(budget_bytes, 16).unwrap();
        prop_assert!(buffer.memory_bytes() <= budget_bytes);

        let mut flushed = Vec::new();
        let mut rest = &updates[..];
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() || !buffer.is_empty() {
            let batch = &rest[..rest.len().min(cuts.next().unwrap())];
            let taken = if how == 0 {
                buffer.push(batch)
            } else {
                let (hashes, weights): (Vec<_>, Vec<_>) = batch.iter().copied().unzip();
                buffer.push_weighted(&hashes, Some(&weights))
            };
            rest = &rest[taken..];
            if buffer.is_full() || rest.is_empty() {
                flush(&mut buffer, how, &mut flushed);
            }
            prop_assert!(buffer.held_bytes() <= budget_bytes);
        }
        prop_assert_eq!(totals(flushed.clone()), totals(updates.clone()));
        if how != 1 {
            let (mut flushed, mut updates) = (flushed, updates);
            flushed.sort_unstable();
            updates.sort_unstable();
            prop_assert_eq!(flushed, updates);
        }
    }
}

/// Flushes one way of three, checks the order it promises, and appends what came.
fn flush(buffer: &mut UpdateBuffer<(KeyHash, u64)>, how: usize, flushed: &mut Vec<(KeyHash, u64)>) {
    let waiting = buffer.len();
    let before = flushed.len();
    match how {
        0 => {
            flushed.extend(buffer.flush_sorted());
            assert!(flushed[before..].is_sorted_by(|a, b| a.0 <= b.0));
        }
        1 => {
            flushed.extend(buffer.flush_combined(|sum, next| sum.1 += next.1));
            assert!(flushed[before..].is_sorted_by(|a, b| a.0 < b.0));
        }
        _ => {
            let partitions = buffer.flush_partitioned(16, |record| (record.0.high() >> 60) as usize);
            for (i, partition) in partitions.iter().enumerate() {
                assert!(partition.iter().all(|record| record.0.high() >> 60 == i as u64));
                flushed.extend(partition);
            }
        }
    }
    assert!(how == 1 || flushed.len() - before == waiting);
    assert!(buffer.is_empty());
}

fn totals(records: Vec<(KeyHash, u64)>) -> std::collections::BTreeMap<KeyHash, u64> {
    let mut totals = std::collections::BTreeMap::new();
    records.into_iter().for_each(|(hash, weight)| *totals.entry(hash).or_default() += weight);
    totals
}

#[test]
fn weights_default_to_one() {
    let mut buffer = UpdateBuffer::new(1 << 20).unwrap();
    assert_eq!(buffer.push_weighted(&[KeyHash(5), KeyHash(3), KeyHash(5)], None), 3);
    assert_eq!(buffer.flush_combined(|sum, next| sum.1 += next.1), [(KeyHash(3), 1), (KeyHash(5), 2)]);
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn an_index_past_the_partitions_is_refused() {
    Partitioner::new().by_index(&[1u64, 2, 3], 3, |key| *key as usize, &mut [0; 3]);
}

#[test]
fn partitions_beyond_the_lines_are_an_error() {
    assert!(matches!(
        UpdateBuffer::<u64>::with_partitions(1 << 30, PARTITIONS_MAX + 1),
        Err(crate::Error::InvalidOption { name: "partitions_max", .. })
    ));
}
