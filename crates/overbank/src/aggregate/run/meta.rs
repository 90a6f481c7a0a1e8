//! What a run says of itself, in its segment's meta bytes.
//!
//! ```text
//!   0           4             8          9       12           16
//!   ┼ row words ┼ state words ┼ has tail ┼ zeros ┼ name's bytes ┼ name, UTF-8
//!     u32         u32           u8                 u32
//! ```
//!
//! States mean nothing without the aggregate that made them: a run of another one is refused.

use crate::aggregate::group::GroupHasher;
use crate::aggregate::state::{Aggregate, Shape};
use crate::bytes::ByteReader;
use crate::segment::SegmentKind;
use crate::store::registry;
use crate::{Error, Result};
use std::sync::Arc;

/// What whoever reads, writes or merges runs knows of their groups.
#[derive(Clone)]
pub(in crate::aggregate) struct RunRules {
    pub(in crate::aggregate) aggregate: Arc<dyn Aggregate>,
    pub(in crate::aggregate) shape: Shape,
    pub(in crate::aggregate) hasher: GroupHasher,
}

impl std::fmt::Debug for RunRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunRules")
            .field("aggregate", &self.aggregate.name())
            .field("shape", &self.shape)
            .field("hasher", &self.hasher)
            .finish()
    }
}

/// An aggregate as files name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::aggregate) struct AggregateId {
    pub(in crate::aggregate) shape: Shape,
    pub(in crate::aggregate) name: String,
}

impl AggregateId {
    pub(in crate::aggregate) fn of(aggregate: &dyn Aggregate) -> AggregateId {
        AggregateId { shape: Shape::of(aggregate), name: aggregate.name() }
    }

    pub(in crate::aggregate) fn encode(&self) -> Vec<u8> {
        let Shape { row_words, state_words, has_tail } = self.shape;
        let mut bytes = Vec::new();
        bytes.extend((row_words as u32).to_le_bytes());
        bytes.extend((state_words as u32).to_le_bytes());
        bytes.extend([u8::from(has_tail), 0, 0, 0]);
        bytes.extend((self.name.len() as u32).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes
    }

    /// Reads what [`AggregateId::encode`] wrote.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(in crate::aggregate) fn decode(fields: &mut ByteReader<'_>) -> Result<AggregateId> {
        let (row_words, state_words) = (fields.u32()? as usize, fields.u32()? as usize);
        let has_tail = match fields.u8()? {
            tail @ (0 | 1) => tail == 1,
            other => return Err(fields.corrupt("whether states have tails", "0 or 1", other)),
        };
        fields.zeros(3)?;
        let bytes = fields.u32()?;
        let bytes = fields.counted("the bytes of an aggregate's name", bytes, 1)?;
        let name = match std::str::from_utf8(fields.take(bytes)?) {
            Ok(name) => name.to_owned(),
            Err(_) => return Err(fields.corrupt("an aggregate's name", "UTF-8", "other bytes")),
        };
        Ok(AggregateId { shape: Shape { row_words, state_words, has_tail }, name })
    }

    /// Refuses states of another aggregate than this one.
    ///
    /// # Errors
    /// `Incompatible`.
    pub(in crate::aggregate) fn require(&self, found: &AggregateId) -> Result<()> {
        if self == found {
            return Ok(());
        }
        let [expected, found] = [self, found].map(|one| {
            let Shape { row_words, state_words, has_tail } = one.shape;
            let tail = if has_tail { ", and a tail" } else { "" };
            format!("{} (rows of {row_words} words, states of {state_words}{tail})", one.name)
        });
        Err(Error::Incompatible { what: "the aggregate of groups", expected, found })
    }
}

impl RunRules {
    pub(in crate::aggregate) fn new(aggregate: Arc<dyn Aggregate>, hasher: GroupHasher) -> RunRules {
        RunRules { shape: Shape::of(&*aggregate), aggregate, hasher }
    }

    /// What the segments of runs are of.
    pub(super) fn segment_kind(&self) -> SegmentKind {
        SegmentKind {
            structure: registry::GROUPS_SEGMENT.structure(),
            seed_fingerprint: self.hasher.hasher.seed().fingerprint(),
            hash_kind: self.hasher.hasher.kind(),
        }
    }

    /// The aggregate as files name it.
    pub(in crate::aggregate) fn id(&self) -> AggregateId {
        AggregateId::of(&*self.aggregate)
    }
}
