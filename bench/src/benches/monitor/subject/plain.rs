//! The counters of one thread in plain memory, of any subject whose counters are in one array: what sketch-merge adds up.

use super::super::heaviest::Heaviest;
use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Query, Record};
use super::{Counters, KeyOf};
use overbank::monitor::{Monitored, Rule};
use std::cell::Cell;

/// The counters of a sketch that shows keys as one thread would have them: 32 bits each, in one array, and the heaviest keys beside it.
///
/// Two are added word by word, which compilers turn into vector instructions; then the keys of both are weighed.
pub(in super::super) struct Plain<S: Counters> {
    subject: S,
    sketch: S::Sketch,
    counters: Box<[u32]>,
    heaviest: Heaviest<KeyOf<S>>,
}

type RuleOf<S> = <<S as Counters>::Sketch as Monitored>::Rule;

impl<S: Counters> Plain<S> {
    pub(in super::super) fn new(subject: S, sketch: S::Sketch, keys: usize) -> Self {
        let counters = vec![0; sketch.cells()].into();
        Self { subject, sketch, counters, heaviest: Heaviest::new(keys) }
    }

    /// The keys that it knows.
    pub(in super::super) fn keys(&self) -> impl Iterator<Item = KeyOf<S>> {
        self.heaviest.keys().map(|key| key.1)
    }

    /// What the counters say of a key.
    #[inline]
    pub(in super::super) fn weight(&self, key: KeyOf<S>) -> u64 {
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
