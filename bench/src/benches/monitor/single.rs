//! Sketches of one thread: what sees all packets is the ideal; one for each worker, added up again and again, is sketch-merge.

use super::heaviest::Heaviest;
use super::score::Answer;
use super::stream::{Query, Record};
use super::subject::{Counters, KeyOf};
use overbank::monitor::{Monitored, Rule};
use std::cell::Cell;

/// A sketch that one thread updates.
pub(super) trait Single: Send + 'static {
    /// Takes a packet.
    fn insert(&mut self, record: &Record);

    /// Adds another's packets.
    fn join(&mut self, other: &Self);

    /// Forgets all.
    fn clear(&mut self);

    /// Answers.
    fn answer(&self, query: &Query) -> Answer;
}

/// The counters of a sketch that shows keys as one thread would have them: 32 bits each, in one array, and the heaviest keys beside it.
///
/// Two are added word by word, which compilers turn into vector instructions; then the keys of both are weighed.
pub(super) struct Plain<S: Counters> {
    subject: S,
    sketch: S::Sketch,
    counters: Box<[u32]>,
    heaviest: Heaviest<KeyOf<S>>,
}

type RuleOf<S> = <<S as Counters>::Sketch as Monitored>::Rule;

impl<S: Counters> Plain<S> {
    pub(super) fn new(subject: S, sketch: S::Sketch, keys: usize) -> Self {
        let counters = vec![0; sketch.cells()].into();
        Self { subject, sketch, counters, heaviest: Heaviest::new(keys) }
    }

    /// The keys that it knows.
    pub(super) fn keys(&self) -> impl Iterator<Item = KeyOf<S>> {
        self.heaviest.keys().map(|key| key.1)
    }

    /// What the counters say of a key.
    #[inline]
    pub(super) fn weight(&self, key: KeyOf<S>) -> u64 {
        self.weigh(key).map_or(0, |weighed| weighed.0)
    }

    #[inline]
    fn weigh(&self, key: KeyOf<S>) -> Option<(u64, u64)> {
        let read = |places: &[u32], sums: &mut [u64]| {
            let counters = places.iter().map(|&place| self.counters[place as usize]);
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum = widen::<S>(counter));
        };
        self.sketch.weigh(key, read).map(|weighed| (weighed.weight, weighed.hash))
    }
}

/// Whether counters may be below 0.
#[inline]
fn is_signed<R: Rule>() -> bool {
    R::widen(u8::MAX) != u64::from(u8::MAX)
}

/// A counter as the rule's word.
#[inline]
fn widen<S: Counters>(counter: u32) -> u64 {
    if is_signed::<RuleOf<S>>() { i64::from(counter as i32) as u64 } else { counter.into() }
}

impl<S: Counters> Single for Plain<S> {
    #[inline]
    fn insert(&mut self, record: &Record) {
        let element = self.subject.element(record);
        let least = Cell::new(u64::MAX);
        let counters = &mut self.counters;
        self.sketch.visit(element, |cell, amount| {
            let counter = &mut counters[cell];
            *counter = if RuleOf::<S>::CLEARS {
                counter.wrapping_add(amount as u32)
            } else {
                (*counter).max(amount as u32)
            };
            least.set(least.get().min(widen::<S>(*counter)));
        });
        // Of counts, no key weighs more than the least of its counters.
        let may_be_heavy =
            !RuleOf::<S>::CLEARS || is_signed::<RuleOf<S>>() || least.get() > self.heaviest.floor();
        if may_be_heavy {
            let key = self.sketch.key(element);
            if let Some((weight, hash)) = self.weigh(key) {
                self.heaviest.offer(hash, key, weight);
            }
        }
    }

    fn join(&mut self, other: &Self) {
        add::<RuleOf<S>>(&mut self.counters, &other.counters);
        let mut heaviest = Heaviest::new(self.heaviest.capacity());
        let keys = self.heaviest.keys().chain(other.heaviest.keys());
        for key in keys.map(|key| key.1) {
            if let Some((weight, hash)) = self.weigh(key) {
                heaviest.offer(hash, key, weight);
            }
        }
        self.heaviest = heaviest;
    }

    fn clear(&mut self) {
        self.counters.fill(0);
        self.heaviest.clear();
    }

    fn answer(&self, query: &Query) -> Answer {
        let estimate = |key| self.weight(key) as f64;
        let known = self.keys().map(|key| (self.subject.name(key), estimate(key))).collect();
        let asked = query.asked.iter().map(|asked| estimate(self.subject.key(asked)));
        Answer { known, estimates: asked.collect() }
    }
}

/// Adds counters to counters, or takes the greater ones.
fn add<R: Rule>(to: &mut [u32], from: &[u32]) {
    let pairs = to.iter_mut().zip(from);
    if R::CLEARS {
        pairs.for_each(|(to, from)| *to = to.wrapping_add(*from));
    } else {
        pairs.for_each(|(to, from)| *to = (*to).max(*from));
    }
}

/// A sketch without names, and the heaviest keys beside it.
#[derive(Debug)]
pub(super) struct Named<T> {
    pub(super) sketch: T,
    pub(super) heaviest: Heaviest<u64>,
}
