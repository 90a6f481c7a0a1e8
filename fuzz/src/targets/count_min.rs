//! The Count-Min decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::CountMin;

/// The target.
pub const TARGET: Target = Target { name: "count_min", seeds, run };

const CODEC: Codec<CountMin<u32>> =
    Codec { from_bytes: CountMin::from_bytes, to_bytes: CountMin::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [(1, 16, 1), (4, 8, 3)].map(|(pages, columns, depth)| seed_of(pages, columns, depth)).into()
}

fn seed_of(pages: u64, columns: u32, depth: u32) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = CountMin::<u32>::with_shape(pages, columns, depth, hasher).expect("a valid shape");
    (0..200u64).for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes()), key << (key % 40)));
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(1, 16, 1))
}

fn exercise(mut sketch: CountMin<u32>) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    let before = sketch.estimate(hash);
    let bounds = sketch.bounds(hash, 0.99);
    assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper, "{bounds:?}");
    sketch.update(hash, 5);
    assert!(sketch.saturated() || sketch.estimate(hash) >= before + 5, "an update was lost");
    let other = CountMin::<u32>::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert!(sketch.saturated() || sketch.estimate(hash) >= 2 * (before + 5), "a merge lost counts");
}
