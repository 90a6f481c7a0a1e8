//! Queries, from any number of threads, at any time.

use super::bounds::Naming;
use super::key::Key;
use super::lane::PLACES_MAX;
use super::monitored::Monitored;
use super::rule::Rule;
use super::shared::{Shared, WorkerStats};
use super::sync::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// Answers, and writes nothing: no lock is taken, and neither a worker nor the aggregator waits for it, nor it for them.
///
/// # Accuracy
/// An answer about the current epoch is made of what every worker holds and what the aggregator has, each part once. Counts are not below
/// what one sketch that sees all traffic would have said when the call began, and not above what it would say at its end. Whether the
/// aggregator runs makes no difference to a count; it decides which heavy keys are known.
#[derive(Debug)]
pub struct Reader<S: Monitored> {
    shared: Arc<Shared<S>>,
}

impl<S: Monitored> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Monitored> Reader<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared }
    }

    /// The current epoch: 0 at first.
    pub fn epoch(&self) -> u64 {
        self.shared.control().0
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.shared.control().1
    }

    /// The sketch that is kept.
    pub fn sketch(&self) -> &S {
        &self.shared.sketch
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.lanes.len()
    }

    /// How many of the heaviest keys are kept, of each group.
    pub(super) fn heavy_keys(&self) -> usize {
        self.shared.boards[0].slots() / self.shared.sketch.groups()
    }

    /// An epoch's total weight, with what is being inserted just now; `None` where the epoch is not kept any more, or has not begun.
    pub fn total_weight(&self, epoch: u64) -> Option<u64> {
        self.shared.total_weight(epoch)
    }

    /// What the sketch says of a key over the epochs `first..=last`, whose counters are put together; `None` where one of them is not kept
    /// any more, or has not begun, or `last` is before `first`, or the sketch shows no keys.
    pub fn estimate(&self, first: u64, last: u64, key: S::Key) -> Option<u64> {
        let mut is_there = true;
        let weighed =
            self.shared.sketch.weigh(key, |places, sums| is_there &= self.read(first, last, places, sums));
        weighed.filter(|_| is_there).map(|weighed| weighed.weight)
    }

    /// As [`estimate`](Self::estimate) of the current epoch, by the aggregator's counters alone, without what the workers hold: the
    /// paper's answer.
    pub fn applied_estimate(&self, key: S::Key) -> Option<u64> {
        let weighed = self.shared.of_current(|base| {
            self.shared.sketch.weigh(key, |places, sums| {
                let counters = places.iter().map(|&place| self.shared.tally.applied(base + place as usize));
                sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum = counter);
            })
        });
        weighed.map(|weighed| weighed.weight)
    }

    /// The `count` heaviest keys of an epoch that the aggregator knows, heaviest first; of equal ones, in no order. A key is known once a
    /// counter of its was sent with it: at τ, or in a batch sooner while the epoch is young. What a full ring kept back goes when there is
    /// room, with the next packet of that counter or the next [`Worker::publish`](super::Worker::publish), which of many keys remembers
    /// those that weigh most. `None` where the epoch is not kept any more, or has not begun.
    pub fn top(&self, epoch: u64, count: usize) -> Option<Vec<(S::Key, u64)>> {
        let keys = self.shared.keys(epoch)?;
        let weighed = |key| Some((key, self.estimate(epoch, epoch, key)?));
        let mut keys: Vec<_> = keys.into_iter().map(weighed).collect::<Option<_>>()?;
        keys.sort_by_key(|&(_, weight)| std::cmp::Reverse(weight));
        keys.truncate(count);
        Some(keys)
    }

    /// How the keys of an epoch that is over came to be known, and its total weight.
    pub(super) fn naming(&self, epoch: u64, weights: (u64, u64)) -> Option<(Naming, u64)> {
        let spread = self.shared.lanes.len() as u32;
        self.shared.archived(epoch, |archived| {
            let of = &archived.known;
            let [floor, tau_max, kept] =
                [&of.floor, &of.tau_max, &of.kept].map(|word| word.load(Ordering::Relaxed));
            let naming = Naming { floor, tau_max: tau_max as u8, kept, spread, weights };
            (naming, archived.weight.load(Ordering::Relaxed))
        })
    }

    /// What each worker has done.
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.shared.worker_stats()
    }

    /// What `ask` answers of the current epoch. Asks again where that is not kept any more, so somebody else went on.
    pub(super) fn of_current<T>(&self, ask: impl Fn(u64) -> Option<T>) -> T {
        loop {
            if let Some(answer) = ask(self.epoch()) {
                return answer;
            }
        }
    }

    /// The total weight of several epochs.
    pub(super) fn total_weight_of(&self, first: u64, last: u64) -> Option<u64> {
        self.shared.total_weight_of(first, last)
    }

    /// The keys that the aggregator keeps of several epochs, each once.
    pub(super) fn keys(&self, first: u64, last: u64) -> Option<Vec<S::Key>> {
        let mut keys = Vec::new();
        for epoch in first..=last {
            keys.append(&mut self.shared.keys(epoch)?);
        }
        let mut known = HashSet::new();
        keys.retain(|&key| known.insert(key.to_bytes()));
        Some(keys)
    }

    /// Counters of several epochs put together; false where one of them is not kept any more, or has not begun, or there is none.
    pub(super) fn read(&self, first: u64, last: u64, places: &[u32], sums: &mut [u64]) -> bool {
        let mut part = [0; PLACES_MAX];
        let part = &mut part[..places.len()];
        sums.fill(0);
        let mut epochs = first..=last;
        !epochs.is_empty()
            && epochs.all(|epoch| {
                let is_there = self.shared.read(epoch, places, part);
                sums.iter_mut().zip(&*part).for_each(|(sum, &part)| *sum = S::Rule::join(*sum, part));
                is_there
            })
    }

    /// All counters of several epochs put together, in order; `None` where one of them is not kept any more, or has not begun.
    pub(super) fn read_all(&self, first: u64, last: u64) -> Option<Vec<u64>> {
        let mut sums = vec![0; self.shared.sketch.cells()];
        let mut places = [0; PLACES_MAX];
        for (block, sums) in (0..).zip(sums.chunks_mut(PLACES_MAX)) {
            let start = block * PLACES_MAX as u32;
            places.iter_mut().zip(start..).for_each(|(place, at)| *place = at);
            if !self.read(first, last, &places[..sums.len()], sums) {
                return None;
            }
        }
        Some(sums)
    }

    /// All counters of the current epoch as the aggregator has them.
    pub(super) fn read_applied(&self) -> Vec<u64> {
        let counters = |base: usize| base..base + self.shared.sketch.cells();
        self.shared.of_current(|base| counters(base).map(|cell| self.shared.tally.applied(cell)).collect())
    }
}
