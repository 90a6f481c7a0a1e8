//! The Elastic sketch decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::Elastic;

/// The target.
pub const TARGET: Target = Target { name: "elastic", seeds, run };

const CODEC: Codec<Elastic> =
    Codec { from_bytes: Elastic::from_bytes, to_bytes: Elastic::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0, 3, 200].map(seed_of).into()
}

fn seed_of(updates: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = Elastic::new(2, 5, 2, 5, hasher).expect("a valid shape");
    for i in 0..updates {
        sketch.update(hasher.hash_u64(i % 37), &i.to_le_bytes(), i << (i % 30));
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: Elastic) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    let bounds = sketch.bounds(hash, 0.99);
    assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper, "{bounds:?}");
    sketch.update(hash, b"a longer key", 5);
    assert!(sketch.estimate(hash) >= 5, "an update was lost");
    assert!(sketch.top(3, 0.9).len() <= 3 && sketch.cardinality() >= 0.0 && sketch.entropy() >= 0.0);
    let other = Elastic::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert!(sketch.estimate(hash) >= 10, "a merge lost counts");
}
