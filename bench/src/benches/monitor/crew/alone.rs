//! The ideal: one sketch sees all packets, at once.

use super::super::score::Answer;
use super::super::single::Single;
use super::super::stream::{Query, Record};
use super::Crew;

/// A sketch of its own.
#[derive(Debug)]
pub(in super::super) struct Alone<T>(T);

impl<T: Single> Alone<T> {
    pub(in super::super) fn new(sketch: T) -> Self {
        Self(sketch)
    }
}

impl<T: Single> Crew for Alone<T> {
    fn insert(&mut self, _: usize, records: &[Record]) {
        records.iter().for_each(|record| self.0.insert(record));
    }

    fn advance(&mut self, _: f64) {}

    fn answers(&mut self, query: &Query) -> Vec<(&'static str, Answer)> {
        vec![("ideal", self.0.answer(query))]
    }
}
