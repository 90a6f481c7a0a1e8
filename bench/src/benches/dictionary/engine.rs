//! The engines of the contests: what each does in a folder.

use super::asking::{Asking, Looked, by_threads, check};
use super::plain::{Plain, Scheme};
use super::{Shape, ours, rival};
use crate::{BlockCount, Clock, Metric, Result, Run};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Who competes.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    Overbank,
    Plain(Scheme),
    /// A store of `bench/rivals`, by its name and the program that it is in.
    Rival(&'static str, PathBuf),
}

/// The stores of `bench/rivals`.
const RIVALS: [&str; 5] = ["rocksdb", "rocksdb_leveled", "lmdb", "redb", "fjall"];

impl Engine {
    /// All that are here, ours first: ratios are to it.
    pub(super) fn all(run: &mut Run<'_>) -> Vec<Self> {
        let mut engines = vec![Self::Overbank];
        engines.extend([Scheme::Ect, Scheme::EphSort, Scheme::EphPartition].map(Self::Plain));
        if let Some(program) = run.rivals() {
            engines.extend(RIVALS.map(|name| Self::Rival(name, program.clone())));
        }
        engines
    }

    /// The name in the figures.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Overbank => "overbank",
            Self::Plain(Scheme::Ect) => "ect",
            Self::Plain(Scheme::EphSort) => "eph_sort",
            Self::Plain(Scheme::EphPartition) => "eph_partition",
            Self::Rival(name, _) => name,
        }
    }

    /// Whether it has a call for many keys.
    pub(super) fn takes_batches(&self) -> bool {
        matches!(self, Self::Overbank | Self::Rival("rocksdb" | "rocksdb_leveled", _))
    }

    /// Says with what settings a rival runs.
    pub(super) fn say_settings(&self, run: &mut Run<'_>, shape: Shape) -> Result<()> {
        match self {
            Self::Rival(name, program) if run.wants(name) && !run.is_child() => {
                let settings = rival::settings(program, name, shape)?;
                run.say(&settings);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds these items as one batch to the dictionary in a folder, until everything is on disk, synced, and ready to be asked; returns
    /// how many, fewer where a rival's time was up.
    pub(super) fn insert(
        &self,
        clock: &mut Clock,
        shape: Shape,
        folder: &Path,
        numbers: Range<u64>,
    ) -> Result<u64> {
        let count = numbers.end - numbers.start;
        match self {
            Self::Rival(name, program) => return rival::load(program, name, clock, shape, folder, numbers),
            Self::Overbank => ours::insert(clock, shape, folder, numbers)?,
            Self::Plain(scheme) => {
                let mut plain = Plain::open(folder, *scheme, shape.items, shape.memory_bytes)?;
                let io = BlockCount::start();
                clock.time(|| plain.insert(numbers.clone()))?;
                io.note_bytes(clock, count);
                clock.note(Metric::BitsPerKey, plain.index_bits() as f64 / numbers.end as f64);
            }
        }
        Ok(count)
    }

    /// Looks up random items of the dictionary in a folder, which has the first `shape.count`; each must be there with its value.
    /// Returns how many.
    pub(super) fn get(&self, clock: &mut Clock, shape: Shape, folder: &Path, asking: Asking) -> Result<u64> {
        match self {
            Self::Rival(name, program) => return rival::get(program, name, clock, shape, folder, asking),
            Self::Overbank => ours::get(clock, shape, folder, asking)?,
            Self::Plain(scheme) => {
                let plain = Plain::open(folder, *scheme, shape.items, shape.memory_bytes)?;
                clock.note(Metric::BitsPerKey, plain.index_bits() as f64 / shape.count as f64);
                let io = BlockCount::start();
                clock.time(|| {
                    by_threads(shape, asking, |draw| {
                        let mut reader = plain.reader()?;
                        let mut item = Looked::new(shape.items, 1);
                        for _ in 0..asking.lookups / asking.threads {
                            item.draw(draw);
                            let (key, value) = item.pair(0);
                            check(reader.get(key)? == Some(value))?;
                        }
                        Ok(())
                    })
                })?;
                io.note_bytes(clock, asking.lookups);
            }
        }
        Ok(asking.lookups)
    }
}
