//! The LogLog decoder: hostile bytes are refused, accepted ones answer, count and merge.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::sketch::LogLog;

/// The target.
pub const TARGET: Target = Target { name: "log_log", seeds, run };

const CODEC: Codec<LogLog> = Codec { from_bytes: LogLog::from_bytes, to_bytes: LogLog::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0, 3, 200].map(seed_of).into()
}

fn seed_of(updates: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut sketch = LogLog::new(4, hasher).expect("a valid shape");
    for i in 0..updates {
        sketch.update(hasher.hash_u64(i));
    }
    sketch.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut sketch: LogLog) {
    let hash = KeyHash::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    sketch.update(hash);
    let estimates = [sketch.estimate(), sketch.truncated_estimate(), sketch.lower_bound(2.0)];
    assert!(estimates.iter().all(|estimate| *estimate > 0.0), "{estimates:?}");
    let other = LogLog::from_bytes(&sketch.to_bytes()).expect("its own bytes");
    sketch.merge(&other).expect("equal shapes merge");
    assert_eq!(sketch, other, "a merge with itself changed it");
}
