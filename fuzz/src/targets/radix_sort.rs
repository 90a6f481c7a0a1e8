//! Radix sort and partition into hash order, against the standard library's stable sort.

use crate::{Mutator, Target, Verdict};
use keyhash::KeyHash;
use overbank::batch::{Partitioner, Sorter};

/// The target. Input: pieces of four bytes, each a run of keys: what kind, how many, two bytes of value.
pub const TARGET: Target = Target { name: "radix_sort", seeds, run };

/// Enough to overflow the cache's share, after which the sort takes its other way.
const RECORDS_MAX: usize = 10_000;

type Record = (KeyHash, u32);

fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0, 255, 1, 2], vec![3, 255, 9, 9, 3, 255, 9, 8, 1, 40, 0, 0], vec![2, 200, 7, 7, 0, 3, 1, 1]]
}

fn run(data: &[u8]) -> Verdict {
    let records = records_of(data);
    let mut expected = records.clone();
    expected.sort_by_key(|record| record.0);

    let mut sorted = records.clone();
    Sorter::new().sort(&mut sorted, &mut Vec::new());
    assert!(sorted == expected, "{} records are not in stable hash order", records.len());

    let lg_partitions = data.first().map_or(0, |first| u32::from(first % 13));
    let mut parts = vec![Record::default(); records.len()];
    let mut partitioner = Partitioner::new();
    let ends = partitioner.by_prefix(&records, lg_partitions, &mut parts).to_vec();
    assert_eq!(ends.last().copied(), Some(records.len()));
    let mut start = 0;
    for (partition, end) in ends.into_iter().enumerate() {
        let prefix = |record: &Record| (u128::from(record.0.high()) >> (64 - lg_partitions)) as usize;
        assert!(parts[start..end].iter().all(|record| prefix(record) == partition), "a record is astray");
        start = end;
    }
    parts.sort_by_key(|record| record.0);
    assert!(parts == expected, "a partition lost or reordered records");
    Verdict::Accepted
}

fn records_of(data: &[u8]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for piece in data.chunks_exact(4).take(64) {
        let &[kind, count, a, b] = piece else { continue };
        let value = u64::from(a) << 56 | u64::from(b);
        let mut mutator = Mutator::new(value);
        for i in 0..u64::from(count) * 32 {
            let hash = match kind % 5 {
                0 => KeyHash::new(mutator.number(), mutator.number()),
                1 => KeyHash::new(value.wrapping_sub(i), i),
                2 => KeyHash::new(value, i % 7),
                3 => KeyHash::new(value, mutator.number()),
                _ => KeyHash::new(value ^ mutator.number() >> 48, 0),
            };
            if records.len() == RECORDS_MAX {
                return records;
            }
            records.push((hash, records.len() as u32));
        }
    }
    records
}
