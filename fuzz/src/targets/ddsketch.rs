//! The DDSketch decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use overbank::sketch::DdSketch;

/// The target.
pub const TARGET: Target = Target { name: "ddsketch", seeds, run };

const CODEC: Codec<DdSketch> =
    Codec { from_bytes: DdSketch::from_bytes, to_bytes: DdSketch::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    let values: [&[f64]; 4] =
        [&[], &[1.0, 2.0, 1e9], &[-5.0, 0.0, 1e-300, 3.0], &[f64::MAX, f64::MIN, 5e-324, 1.0]];
    values.map(seed_of).into()
}

fn seed_of(values: &[f64]) -> Vec<u8> {
    let mut sketch = DdSketch::new(0.01).expect("a valid shape");
    values.iter().for_each(|&value| sketch.update(value, 3));
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(&[]))
}

fn exercise(mut sketch: DdSketch) {
    let count = sketch.count();
    let mut last = f64::NEG_INFINITY;
    for q in [0.0, 0.25, 0.5, 0.99, 1.0] {
        let value = sketch.quantile(q);
        assert_eq!(value.is_some(), count > 0);
        let value = value.unwrap_or(last);
        assert!(value >= last, "quantile {q} is {value}, below {last}");
        last = value;
    }
    assert_eq!(sketch.mean().is_some(), count > 0);
    let _ = (sketch.rank(1.0), sketch.sum());
    sketch.update(1.0, 2);
    assert_eq!(sketch.count(), count.saturating_add(2), "an update was lost");
    let other = DdSketch::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert_eq!(sketch.count(), count.saturating_add(2).saturating_mul(2), "a merge lost counts");
}
