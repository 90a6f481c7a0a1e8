//! Iceberg, as the paper describes it (section 7.1): workers find flows that are heavy with them, the aggregator asks all about those.
//!
//! ```text
//!   round:   lists ───▶ every worker's heavy flows, in one list
//!            counts ──▶ every worker's estimate of each flow in it
//!            sums: what is above the threshold is heavy, and the answer until the next round ends
//! ```
//!
//! Each worker's Count-Min sketch is of all its packets and stays with it. Workers reply at the end of their batch; the aggregator takes
//! as long for a flow in a reply as for a message of the framework.
//!
//! Source: Zhao, Lall, Ogihara, Xu, "Global iceberg detection over distributed data streams" (ICDE 2010).

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{HEAVY_SHARE, Query, Record};
use super::super::subject::{Counters, KeyOf, Plain};
use super::{Crew, MESSAGE_NS};
use crate::Result;
use std::collections::HashMap;

/// Where a round is, and when the aggregator has done that.
enum Phase<K> {
    Lists,
    Counts(Vec<K>),
    Sums(Vec<(u64, f64)>),
}

/// A worker.
struct Local<S: Counters> {
    sketch: Plain<S>,
    packets: u64,
}

impl<S: Counters> Local<S> {
    /// The flows that are heavy with it: what is heavy of all packets is so with one worker at least.
    fn heavy(&self) -> impl Iterator<Item = KeyOf<S>> {
        let threshold = HEAVY_SHARE * self.packets as f64;
        self.sketch.keys().filter(move |&key| self.sketch.weight(key) as f64 > threshold)
    }
}

/// Workers and aggregator.
pub(in super::super) struct Asking<S: Counters> {
    subject: S,
    workers: Vec<Local<S>>,
    phase: Phase<KeyOf<S>>,
    free_ns: f64,
    /// The result of the last round.
    sums: HashMap<u64, f64>,
}

impl<S: Counters<Own = Plain<S>>> Asking<S> {
    pub(in super::super) fn new(subject: S, workers: usize) -> Result<Self> {
        let local = |_| Ok(Local { sketch: subject.own()?, packets: 0 });
        let workers = (0..workers).map(local).collect::<Result<_>>()?;
        Ok(Self { subject, workers, phase: Phase::Lists, free_ns: 0.0, sums: HashMap::new() })
    }

    /// The flows that are heavy with some worker, and how many replies that took.
    fn lists(&self) -> (Vec<KeyOf<S>>, usize) {
        let mut all = HashMap::new();
        let mut replies = 0;
        for key in self.workers.iter().flat_map(Local::heavy) {
            replies += 1;
            all.insert(self.subject.name(key), key);
        }
        (all.into_values().collect(), replies)
    }

    fn sums(&self, keys: &[KeyOf<S>]) -> Vec<(u64, f64)> {
        let sum =
            |key: &KeyOf<S>| self.workers.iter().map(|worker| worker.sketch.weight(*key)).sum::<u64>() as f64;
        keys.iter().map(|key| (self.subject.name(*key), sum(key))).collect()
    }
}

impl<S: Counters<Own = Plain<S>>> Crew for Asking<S> {
    fn insert(&mut self, worker: usize, records: &[Record]) {
        let local = &mut self.workers[worker];
        records.iter().for_each(|record| local.sketch.insert(record));
        local.packets += records.len() as u64;
    }

    fn advance(&mut self, now_ns: f64) {
        while self.free_ns <= now_ns {
            let (next, replies) = match std::mem::replace(&mut self.phase, Phase::Lists) {
                Phase::Lists => {
                    let (keys, replies) = self.lists();
                    (Phase::Counts(keys), replies)
                }
                Phase::Counts(keys) => (Phase::Sums(self.sums(&keys)), keys.len() * self.workers.len()),
                Phase::Sums(sums) => {
                    self.sums = sums.into_iter().collect();
                    (Phase::Lists, 1)
                }
            };
            self.phase = next;
            self.free_ns = now_ns + replies.max(1) as f64 * MESSAGE_NS;
        }
    }

    fn answers(&mut self, query: &Query) -> Vec<(&'static str, Answer)> {
        let known = self.sums.iter().map(|(&key, &sum)| (key, sum)).collect();
        let estimate = |key: u64| self.sums.get(&key).copied().unwrap_or(0.0);
        let estimates = query.asked.iter().map(|asked| estimate(asked.key)).collect();
        vec![("iceberg", Answer { known, estimates })]
    }
}
