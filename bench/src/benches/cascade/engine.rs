//! The engines of the contests, by name: how each is made for a shape.

use super::elevator::Elevator;
use super::filter::Filter;
use super::mapped::Mapped;
use super::paper::{Layout, Paper};
use super::{Shape, ours};
use crate::{Readahead, Result, write_zeros};
use std::path::Path;
use std::time::Duration;

/// Who competes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    Overbank { writers: usize },
    Paper { has_tombstones: bool },
    Elevator,
    MmapBloom,
}

impl Engine {
    /// The name in the figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overbank { writers: 1 } => "overbank",
            Self::Overbank { .. } => "overbank_2",
            Self::Paper { has_tombstones: false } => "paper",
            Self::Paper { has_tombstones: true } => "paper_tombstones",
            Self::Elevator => "elevator",
            Self::MmapBloom => "mmap_bloom",
        }
    }

    pub(super) const fn is_here(self) -> bool {
        ours::IS_HERE || !matches!(self, Self::Overbank { .. })
    }

    /// How long it may insert. The rates of Bloom filters stay what they are as these fill, so a quarter of the time shows them.
    pub(super) fn patience(self, shape: Shape) -> Option<Duration> {
        match self {
            Self::Overbank { .. } => None,
            Self::Paper { .. } => Some(shape.patience),
            Self::Elevator | Self::MmapBloom => Some(shape.patience / 4),
        }
    }

    /// Threads that insert.
    pub(super) const fn writers(self) -> usize {
        match self {
            Self::Overbank { writers } => writers,
            _ => 1,
        }
    }

    /// An empty filter of this shape in an empty folder.
    pub(super) fn create(self, folder: &Path, shape: Shape) -> Result<Box<dyn Filter>> {
        let bloom = folder.join("bloom");
        if matches!(self, Self::Elevator | Self::MmapBloom) {
            write_zeros(&bloom, shape.bloom_bytes()?)?;
        }
        Ok(match self {
            Self::Overbank { writers } => ours::create(folder, shape, writers)?,
            Self::Paper { has_tombstones } => {
                let layout = Layout::new(shape.memory_bytes, shape.keys, has_tombstones)?;
                Box::new(Paper::open(folder, layout)?)
            }
            Self::Elevator => Box::new(Elevator::open(&bloom, shape.memory_bytes)?),
            Self::MmapBloom => Box::new(Mapped::open(&bloom, Readahead::Off)?),
        })
    }
}
