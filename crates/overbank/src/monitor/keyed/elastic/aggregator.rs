//! The aggregator, as its user sees it.

use super::Polled;
use super::gatherer::Gatherer;
use super::heavy::ElasticShared;
use super::key::Key;

/// Applies what the workers send. One thread calls [`poll`](Self::poll) again and again; queries do not need it to run.
#[derive(Debug)]
pub struct ElasticAggregator<K: Key> {
    gatherer: Gatherer<ElasticShared<K>>,
}

impl<K: Key> ElasticAggregator<K> {
    pub(super) fn new(gatherer: Gatherer<ElasticShared<K>>) -> Self {
        Self { gatherer }
    }

    /// Takes what waits, up to some hundred messages a worker, and sets τ if a window has ended. `clock` gives nanoseconds that do not go
    /// back.
    pub fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        self.gatherer.poll(clock)
    }

    /// Begins a new epoch, and returns its number; `None` while the one before the current is still being settled. Workers go over at
    /// their next insertion or [`publish`](super::ElasticWorker::publish).
    pub fn begin_epoch(&mut self) -> Option<u64> {
        self.gatherer.begin_epoch()
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.gatherer.tau()
    }

    /// The highest threshold of this epoch.
    pub fn tau_max(&self) -> u8 {
        self.gatherer.tau_max()
    }

    /// How many messages were applied.
    pub fn messages(&self) -> u64 {
        self.gatherer.messages()
    }
}
