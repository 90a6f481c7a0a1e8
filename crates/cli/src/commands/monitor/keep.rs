//! Epochs that are kept in a store, for other commands to query: an epoch's sketches and what is said of it are one commit.

use super::crew::Crew;
use super::shape::Shape;
use super::survey::Held;
use crate::announce;
use crate::arguments::MonitorArguments;
use crate::commands::open_to_write;
use crate::failure::Failure;
use crate::kept_epochs::{DISTINCT, FLOWS, KeptEpoch, KeptEpochs, NAMES, PACKETS, PARTS, SPREADERS};
use crate::report::Report;
use crate::units;
use overbank::sketch::SpaceSaving;
use overbank::store::{Store, StoreOptions};
use std::path::Path;

/// The bytes of the longest key.
const KEY_BYTES_MAX: usize = 37;

/// A store of epochs.
pub(super) struct Keeper {
    store: Store,
    state: KeptEpochs,
    epochs_max: usize,
}

impl Keeper {
    /// Opens the store, or makes it, if it holds epochs of such flows or nothing.
    pub(super) fn open(
        directory: &Path,
        options: StoreOptions,
        arguments: &MonitorArguments,
        shape: &Shape,
    ) -> Result<Self, Failure> {
        let store = open_to_write(directory, options, &arguments.machine)?;
        let place = directory.display();
        let (kind, by, unit) = (arguments.key, arguments.by, shape.columns().into());
        let epochs_max = arguments.keep;
        if store.summaries().is_empty() && store.position().is_empty() {
            let state = KeptEpochs { kind, by, unit, next: 0, epochs: Vec::new() };
            return Ok(Self { store, state, epochs_max });
        }
        let Ok(state) = KeptEpochs::from_bytes(&store.position()) else {
            return Err(Failure::Usage(format!(
                "{place} holds something else than epochs; give another directory"
            )));
        };
        let refused = |option: &str| {
            Err(Failure::Usage(format!("{place} was made with {option}; give that, or another directory")))
        };
        if state.kind != kind {
            return refused(&format!("--key {}", state.kind));
        }
        if state.by != by {
            return refused(&format!("--by {}", state.by.name()));
        }
        if state.unit != unit {
            return refused(&format!("--memory {}", units::bytes(Shape::memory_of(state.unit))));
        }
        Ok(Self { store, state, epochs_max })
    }

    /// The store, whose hash the sketches have.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Keeps an epoch that is over, and gives up those for which there is no room.
    pub(super) fn keep(&mut self, crew: &Crew, report: &Report, held: &Held) -> Result<(), Failure> {
        // An epoch without a packet is none.
        let Some(span) = report.span else { return Ok(()) };
        let epoch = KeptEpoch {
            number: self.state.next,
            span,
            packets: report.packets.packets,
            bytes: report.packets.wire_bytes,
            counted: report.counted,
            counted_bytes: report.counted_bytes,
            ended: report.ended,
            heavy_threshold: report.heavy_threshold,
        };
        let flows = crew.readers.flows.sizes(report.epoch, report.epoch, crew.hasher).ok_or_else(|| {
            Failure::Usage(format!("epoch {} is not kept by the threads any more; run again", report.epoch))
        })?;
        let mut names = SpaceSaving::new(held.known.len().max(1), KEY_BYTES_MAX, crew.hasher)?;
        for key in &held.known {
            let hash = crew.hasher.hash(key.as_bytes());
            names.update(hash, key.as_bytes(), flows.estimate(hash));
        }
        let store = &self.store;
        let _open = (
            store.sketch(&epoch.part(FLOWS), || Ok(flows))?,
            store.sketch(&epoch.part(NAMES), || Ok(names))?,
            store.sketch(&epoch.part(DISTINCT), || Ok(held.distinct.clone()))?,
            store.sketch(&epoch.part(PACKETS), || Ok(held.lengths.clone()))?,
            store.sketch(&epoch.part(SPREADERS), || Ok(held.spreaders.clone()))?,
        );
        let mut state = KeptEpochs { next: epoch.number + 1, ..self.state.clone() };
        state.epochs.push(epoch);
        let surplus = state.epochs.len().saturating_sub(self.epochs_max);
        for old in state.epochs.drain(..surplus) {
            for part in PARTS {
                store.remove(&old.part(part))?;
            }
        }
        announce::at("committing");
        store.commit(&state.to_bytes())?;
        announce::at("committed");
        self.state = state;
        Ok(())
    }
}
