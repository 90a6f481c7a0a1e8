//! The space-saving decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHasher, Seed};
use overbank::sketch::SpaceSaving;

/// The target.
pub const TARGET: Target = Target { name: "space_saving", seeds, run };

const CODEC: Codec<SpaceSaving> =
    Codec { from_bytes: SpaceSaving::from_bytes, to_bytes: SpaceSaving::to_bytes, exercise };

const HASHER: KeyHasher = KeyHasher::new(HashKind::Xxh3, Seed(7));

fn seeds() -> Vec<Vec<u8>> {
    [0u64, 3, 40].map(seed_of).into()
}

fn seed_of(keys: u64) -> Vec<u8> {
    let mut sketch = SpaceSaving::new(8, 12, HASHER).expect("a valid shape");
    for key in 0..keys {
        let text = format!("key{}", "x".repeat(key as usize % 16));
        sketch.update(HASHER.hash(text.as_bytes()), text.as_bytes(), key + 1);
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: SpaceSaving) {
    let top = sketch.top(usize::MAX);
    assert_eq!(top.len(), sketch.len());
    let hash = HASHER.hash(b"a new key");
    let before = sketch.lower_bound(hash);
    sketch.update(hash, b"a new key", 3);
    assert!(sketch.lower_bound(hash) <= sketch.upper_bound(hash));
    assert!(sketch.upper_bound(hash) >= before.saturating_add(3), "an update was lost");
    assert!(sketch.len() <= sketch.capacity());
    let other = SpaceSaving::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert!(sketch.upper_bound(hash) >= before.saturating_add(3), "a merge lost counts");
}
