//! The HyperLogLog decoder: hostile bytes are refused, accepted ones answer and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHasher, Seed};
use overbank::sketch::HyperLogLog;

/// The target.
pub const TARGET: Target = Target { name: "hyperloglog", seeds, run };

const CODEC: Codec<HyperLogLog> =
    Codec { from_bytes: HyperLogLog::from_bytes, to_bytes: HyperLogLog::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0u64, 1000].map(seed_of).into()
}

fn seed_of(keys: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = HyperLogLog::new(6, hasher).expect("a valid shape");
    (0..keys).for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes())));
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: HyperLogLog) {
    let estimate = sketch.estimate();
    assert!(estimate >= 0.0 && !estimate.is_nan(), "estimate {estimate}");
    assert!(sketch.lower_bound(3.0) <= estimate && estimate <= sketch.upper_bound(3.0));
    let other = HyperLogLog::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert!(sketch.estimate() == estimate, "a merge with itself changes nothing");
}
