//! Count-Min: three rows, the heaviest flows beside them.

use super::super::stream::{HASHER, Record};
use super::Shape;
use super::counted::{Counted, Counting, Named, Nameless};
use crate::Result;
use keyhash::KeyHash;
use overbank::monitor::{Flow, FlowSizes, Packet};
use overbank::sketch::CountMin;

/// Rows (appendix D.1).
const ROWS: usize = 3;

pub(in super::super) type Sizes = Counted<Least>;

/// The least of a flow's counters.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Least;

impl Counting for Least {
    const NAME: &'static str = "count_min";
    const MERGE_NS: f64 = 45_000.0;
    type Sketch = FlowSizes<u64, ROWS>;
    type Ideal = Named<CountMin<u32>>;

    fn sketch(shape: Shape) -> Result<Self::Sketch> {
        Ok(FlowSizes::new(shape.columns)?)
    }

    fn ideal(shape: Shape) -> Result<Self::Ideal> {
        Ok(Named::new(CountMin::with_shape(1, shape.columns, ROWS as u32, HASHER)?, shape.heavy_keys))
    }

    #[inline]
    fn element(record: &Record) -> Packet<u64> {
        Packet { hash: record.hash, key: record.key, weight: 1 }
    }

    fn key(hash: KeyHash, key: u64) -> Flow<u64> {
        Flow { fold: hash.fold(), key }
    }

    fn name(key: Flow<u64>) -> u64 {
        key.key
    }
}

impl Nameless for CountMin<u32> {
    #[inline]
    fn add(&mut self, hash: KeyHash) {
        self.update(hash, 1);
    }

    #[inline]
    fn size(&self, hash: KeyHash) -> u64 {
        self.estimate(hash)
    }

    fn join(&mut self, other: &Self) {
        let merged = self.merge(other);
        assert!(merged.is_ok(), "sketches of one shape");
    }

    fn clear(&mut self) {
        *self = Self::new(*self.layout(), self.hash_id());
    }
}
