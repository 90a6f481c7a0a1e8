//! The Elias-Fano decoder: any bytes are refused or are exactly what would be written, and then every query is right.

use crate::{Target, Verdict};
use overbank::bits::EliasFano;

/// The target. Input: the byte form.
pub const TARGET: Target = Target { name: "elias_fano", seeds, run };

/// Values that are looked at one by one; `get` costs a select each.
const LOOKED_AT: usize = 256;

fn seeds() -> Vec<Vec<u8>> {
    let dense: Vec<u64> = (0..500).map(|i| i / 3).collect();
    let sparse: Vec<u64> = (0..200).map(|i| i * 0x0001_0000_0001).collect();
    let mut lists = vec![vec![], vec![0], vec![u64::MAX], dense, sparse];
    lists.push(vec![7; 100]);
    lists.iter().map(|values| EliasFano::from_sorted(values).to_bytes()).collect()
}

fn run(data: &[u8]) -> Verdict {
    let Ok(sequence) = EliasFano::from_bytes(data) else { return Verdict::Refused };
    assert_eq!(sequence.to_bytes(), data, "bytes that were accepted are not those that would be written");
    let values: Vec<u64> = sequence.iter().collect();
    assert_eq!(values.len(), sequence.len());
    assert!(values.is_sorted() && values.iter().all(|value| *value <= sequence.max()));
    let step = values.len() / LOOKED_AT + 1;
    for (index, &value) in values.iter().enumerate().step_by(step) {
        assert_eq!(sequence.get(index), value, "get {index}");
        for probe in [value.saturating_sub(1), value, value.saturating_add(1)] {
            let rank = values.partition_point(|other| *other < probe);
            assert_eq!(sequence.rank(probe), rank, "rank {probe}");
            assert_eq!(
                sequence.successor(probe),
                values.get(rank).map(|next| (rank, *next)),
                "successor {probe}"
            );
        }
    }
    Verdict::Accepted
}
