//! The sketches that a store keeps, and what it asks of them.

use crate::filter::QuotientFilter;
use crate::sketch::count_min::Cell;
use crate::sketch::{
    CocoSketch, CountMin, CountSketch, DdSketch, Elastic, HashId, HyperLogLog, Locher, LogLog, SpaceSaving,
    UnivMon,
};
use crate::store::registry::{self, Kind};
use crate::{Error, Result};

/// A sketch that [`Store::sketch`](crate::Store::sketch) keeps: [`CountMin`] with counters of 4 and of 8 bytes, [`HyperLogLog`],
/// [`SpaceSaving`], [`DdSketch`], [`CountSketch`], [`CocoSketch`], [`LogLog`], [`Locher`], [`Elastic`], [`UnivMon`] and [`QuotientFilter`].
pub trait Sketch: kept::Kept {}

impl<S: kept::Kept> Sketch for S {}

/// What a sketch is like, by name and value: what must be equal for two of them to merge.
#[derive(Debug)]
pub struct Shape(Vec<(&'static str, String)>);

impl Shape {
    fn of(hash_id: Option<HashId>, fields: &[(&'static str, &dyn ToString)]) -> Self {
        let mut all = Vec::new();
        if let Some(HashId { kind, seed_fingerprint }) = hash_id {
            all.push(("the hash kind", format!("{kind:?}")));
            all.push(("the seed's fingerprint", seed_fingerprint.to_string()));
        }
        all.extend(fields.iter().map(|(what, value)| (*what, value.to_string())));
        Self(all)
    }

    /// Fails with the first difference.
    pub(super) fn require(&self, found: &Self) -> Result<()> {
        let differs = |((what, expected), (_, found)): (&(&'static str, String), &(&'static str, String))| {
            let (expected, found) = (expected.clone(), found.clone());
            (expected != found).then_some(Error::Incompatible { what, expected, found })
        };
        self.0.iter().zip(&found.0).find_map(differs).map_or(Ok(()), Err)
    }
}

pub(super) mod kept {
    //! Out of reach for others: what is stored under a kind's number is for this library to say.

    use super::{Kind, Result, Shape};

    /// What a store asks of a sketch.
    pub trait Kept: Clone + Send + Sync + 'static {
        /// What it is in a manifest.
        const KIND: Kind;
        /// Whether its bytes are written in pieces; else `write` has a copy of all of them.
        const IS_STREAMED: bool;
        /// Whether it may hold more memory after a change.
        const GROWS: bool;

        /// What must be equal to merge.
        fn shape(&self) -> Shape;
        /// What it takes of the budget: its memory, twice if all its bytes must be copied.
        fn charged_bytes(&self) -> usize;
        /// All its bytes.
        fn bytes(&self) -> Vec<u8>;
        /// How many bytes `write` gives, of a sketch that is written in pieces.
        fn bytes_len(&self) -> usize;
        /// Gives its bytes to `sink`, in order.
        fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
        /// Reads what `write` gave.
        fn read(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self>;
        /// Adds another one.
        fn merge_with(&mut self, other: &Self) -> Result<()>;
    }
}

/// The methods that sketches have under the same names.
macro_rules! streamed {
    () => {
        const IS_STREAMED: bool = true;

        fn charged_bytes(&self) -> usize {
            self.memory_bytes()
        }

        fn bytes_len(&self) -> usize {
            self.encoded_bytes()
        }

        fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
            self.write_to(sink)
        }

        fn read(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self> {
            Self::read_from(total_bytes, source)
        }
    };
}

macro_rules! whole {
    () => {
        const IS_STREAMED: bool = false;

        fn charged_bytes(&self) -> usize {
            2 * self.memory_bytes()
        }

        fn bytes_len(&self) -> usize {
            self.to_bytes().len()
        }

        fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
            sink(&self.to_bytes())
        }

        fn read(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self> {
            let mut bytes = vec![0; total_bytes];
            source(&mut bytes)?;
            Self::from_bytes(&bytes)
        }
    };
}

macro_rules! common {
    () => {
        fn bytes(&self) -> Vec<u8> {
            self.to_bytes()
        }

        fn merge_with(&mut self, other: &Self) -> Result<()> {
            self.merge(other)
        }
    };
}

impl<C: Cell> kept::Kept for CountMin<C> {
    const KIND: Kind = registry::COUNT_MIN;
    const GROWS: bool = false;
    streamed!();
    common!();

    fn shape(&self) -> Shape {
        let layout = self.layout();
        let fields: [(_, &dyn ToString); 4] = [
            ("the size of a cell", &C::BYTES),
            ("the number of pages", &layout.pages()),
            ("the number of columns", &layout.columns()),
            ("the depth", &layout.depth()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for HyperLogLog {
    const KIND: Kind = registry::HYPERLOGLOG;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        Shape::of(Some(self.hash_id()), &[("lg_m", &self.lg_m())])
    }
}

impl kept::Kept for SpaceSaving {
    const KIND: Kind = registry::SPACE_SAVING;
    const GROWS: bool = false;
    streamed!();
    common!();

    fn shape(&self) -> Shape {
        let fields: [(_, &dyn ToString); 2] = [
            ("the capacity", &self.capacity()),
            ("the number of bytes kept of a key", &self.key_bytes_max()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for DdSketch {
    const KIND: Kind = registry::DDSKETCH;
    const GROWS: bool = true;
    streamed!();
    common!();

    fn shape(&self) -> Shape {
        Shape::of(None, &[("alpha", &self.alpha())])
    }
}

impl kept::Kept for CountSketch {
    const KIND: Kind = registry::COUNT_SKETCH;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let fields: [(_, &dyn ToString); 2] =
            [("the number of columns", &self.columns()), ("the depth", &self.depth())];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for CocoSketch {
    const KIND: Kind = registry::COCO;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let fields: [(_, &dyn ToString); 3] = [
            ("the number of columns", &self.columns()),
            ("the depth", &self.depth()),
            ("the number of bytes kept of a key", &self.key_bytes_max()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for LogLog {
    const KIND: Kind = registry::LOG_LOG;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        Shape::of(Some(self.hash_id()), &[("lg_m", &self.lg_m())])
    }
}

impl kept::Kept for Locher {
    const KIND: Kind = registry::LOCHER;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let fields: [(_, &dyn ToString); 4] = [
            ("the number of columns", &self.columns()),
            ("the depth", &self.depth()),
            ("the number of sources that are kept", &self.sources_max()),
            ("the number of bytes kept of a key", &self.key_bytes_max()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for Elastic {
    const KIND: Kind = registry::ELASTIC;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let light = self.light().layout();
        let fields: [(_, &dyn ToString); 4] = [
            ("the number of buckets", &self.buckets()),
            ("the light part's columns", &light.columns()),
            ("the light part's depth", &light.depth()),
            ("the number of bytes kept of a key", &self.key_bytes_max()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

impl kept::Kept for UnivMon {
    const KIND: Kind = registry::UNIV_MON;
    const GROWS: bool = false;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let fields: [(_, &dyn ToString); 5] = [
            ("the number of levels", &self.levels()),
            ("the number of columns", &self.columns()),
            ("the depth", &self.depth()),
            ("the number of heavy keys", &self.heavy_max()),
            ("the number of bytes kept of a key", &self.key_bytes_max()),
        ];
        Shape::of(Some(self.hash_id()), &fields)
    }
}

/// One that grows has another shape after it did: what tells two apart is the sum of the bits, which stays.
impl kept::Kept for QuotientFilter {
    const KIND: Kind = registry::QUOTIENT_FILTER;
    const GROWS: bool = true;
    whole!();
    common!();

    fn shape(&self) -> Shape {
        let bits = self.lg_quotients() + self.remainder_bits();
        Shape::of(Some(self.hash_id()), &[("the number of bits of a fingerprint", &bits)])
    }
}
