//! Sketches of one thread: what sees all packets is the ideal; one for each worker, added up again and again, is sketch-merge.

use super::score::Answer;
use super::stream::{Query, Record};

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
