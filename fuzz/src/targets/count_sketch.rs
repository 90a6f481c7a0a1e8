//! The count sketch decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::CountSketch;

/// The target.
pub const TARGET: Target = Target { name: "count_sketch", seeds, run };

const CODEC: Codec<CountSketch> =
    Codec { from_bytes: CountSketch::from_bytes, to_bytes: CountSketch::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0, 3, 200].map(seed_of).into()
}

fn seed_of(updates: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = CountSketch::new(5, 3, hasher).expect("a valid shape");
    for i in 0..updates {
        sketch.update(hasher.hash_u64(i), (i as i64 - 90) << (i % 30));
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: CountSketch) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    let bounds = sketch.bounds(hash, 0.99);
    assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper, "{bounds:?}");
    let before = sketch.estimate(hash);
    sketch.update(hash, 5);
    assert!(sketch.saturated() || sketch.estimate(hash) == before + 5, "an update was lost");
    let other = CountSketch::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    sketch.subtract(&other).expect("equal shapes subtract");
    assert!(sketch.saturated() || sketch.estimate(hash) == before + 5, "a merge or its opposite lost counts");
}
