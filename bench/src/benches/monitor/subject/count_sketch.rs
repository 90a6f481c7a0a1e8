//! Count Sketch: three rows, the heaviest flows beside them.

use super::super::stream::{HASHER, Record};
use super::Shape;
use super::counted::{Counted, Counting, Named, Nameless};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Hashed, SignedPacket, SignedSizes};
use overbank::sketch::CountSketch;

/// Rows, as those of Count-Min.
const ROWS: usize = 3;

pub(in super::super) type Signed = Counted<Median>;

/// The median of a flow's counters.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Median;

impl Counting for Median {
    const NAME: &'static str = "count_sketch";
    const MERGE_NS: f64 = 50_000.0;
    type Sketch = SignedSizes<u64, ROWS>;
    type Ideal = Named<CountSketch>;

    fn sketch(shape: Shape) -> Result<Self::Sketch> {
        Ok(SignedSizes::new(shape.columns, HASHER)?)
    }

    fn ideal(shape: Shape) -> Result<Self::Ideal> {
        Ok(Named::new(CountSketch::new(shape.columns, ROWS as u32, HASHER)?, shape.heavy_keys))
    }

    #[inline]
    fn element(record: &Record) -> SignedPacket<u64> {
        SignedPacket { hash: record.hash, key: record.key, weight: 1 }
    }

    fn key(hash: KeyHash, key: u64) -> Hashed<u64> {
        Hashed { hash, key }
    }

    fn name(key: Hashed<u64>) -> u64 {
        key.key
    }
}

impl Nameless for CountSketch {
    #[inline]
    fn add(&mut self, hash: KeyHash) {
        self.update(hash, 1);
    }

    #[inline]
    fn size(&self, hash: KeyHash) -> u64 {
        self.estimate(hash).unsigned_abs()
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        if let Ok(empty) = Self::new(self.columns(), self.depth(), self.hash_id()) {
            *self = empty;
        }
    }
}
