//! Writers side by side: each thread takes updates through its own [`FrequencyWriter`].

use super::intake::Intake;
use super::{Frequency, add};
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::sync::{Arc, Mutex};

/// One thread's way to add to a sketch that others add to and ask at the same time.
///
/// Writers hash, buffer, sort and log side by side; only passes over the pages stop them all. A sketch has
/// [`writers`](super::FrequencyOptions::writers) buffers; more writers than that share them. An update counts in every
/// estimate and commit that begins after it has returned.
#[derive(Clone, Debug)]
pub struct FrequencyWriter {
    sketch: Arc<Mutex<Frequency>>,
    intake: Arc<Intake>,
    slot: usize,
}

impl FrequencyWriter {
    /// A writer for `sketch`.
    pub fn new(sketch: &Arc<Mutex<Frequency>>) -> Self {
        let mut inner = lock(&sketch);
        let slot = inner.writers_given % inner.intake.writers();
        inner.writers_given += 1;
        Self { sketch: Arc::clone(sketch), intake: Arc::clone(&inner.intake), slot }
    }

    /// As [`Frequency::update`].
    ///
    /// # Errors
    /// As [`Frequency::update`].
    ///
    /// # Panics
    /// If there are weights, but not one for each hash.
    pub fn update(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        add(&self.intake, self.slot, hashes, weights, &mut || lock(&self.sketch).make_way())
    }
}
