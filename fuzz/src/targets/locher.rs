//! The Locher sketch decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::Locher;

/// The target.
pub const TARGET: Target = Target { name: "locher", seeds, run };

const CODEC: Codec<Locher> = Codec { from_bytes: Locher::from_bytes, to_bytes: Locher::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0, 3, 200].map(seed_of).into()
}

fn seed_of(updates: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = Locher::new(3, 2, 4, 5, hasher).expect("a valid shape");
    for i in 0..updates {
        sketch.update(hasher.hash_u64(i % 7), &i.to_le_bytes(), hasher.hash_u64(i));
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: Locher) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    sketch.update(hash, b"a longer key", KeyHash::new(1, 2));
    let bounds = sketch.bounds(hash, 0.9);
    assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper, "{bounds:?}");
    assert!(sketch.top(3).iter().all(|spreader| spreader.items >= 0.0) && sketch.pairs() > 0.0);
    let other = Locher::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert_eq!(sketch.bounds(hash, 0.9), bounds, "a merge with itself changed it");
}
