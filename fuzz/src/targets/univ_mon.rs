//! The UnivMon decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::UnivMon;

/// The target.
pub const TARGET: Target = Target { name: "univ_mon", seeds, run };

const CODEC: Codec<UnivMon> =
    Codec { from_bytes: UnivMon::from_bytes, to_bytes: UnivMon::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0, 3, 200].map(seed_of).into()
}

fn seed_of(updates: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = UnivMon::new(2, 4, 3, 3, 5, hasher).expect("a valid shape");
    for i in 0..updates {
        sketch.update(hasher.hash_u64(i % 37), &i.to_le_bytes(), i << (i % 30));
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: UnivMon) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    let total = sketch.total_weight();
    let bounds = sketch.bounds(hash, 0.99);
    assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper, "{bounds:?}");
    sketch.update(hash, b"a longer key", 5);
    let sums = [sketch.cardinality(), sketch.l2(), sketch.entropy()];
    assert!(sums.iter().all(|sum| sum.estimate >= 0.0 && sum.standard_error >= 0.0), "{sums:?}");
    assert!(sketch.top(3, 0.9).len() <= 3);
    let other = UnivMon::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert!(sketch.total_weight() >= total.saturating_add(5), "a merge lost counts");
}
