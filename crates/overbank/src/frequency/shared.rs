//! Writers side by side: each thread takes updates through its own [`FrequencyWriter`].

use super::Frequency;
use crate::{KeyHash, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// One thread's way to add to a sketch that others add to and ask at the same time.
#[derive(Clone, Debug)]
pub struct FrequencyWriter {
    sketch: Arc<Mutex<Frequency>>,
}

impl FrequencyWriter {
    /// A writer for `sketch`.
    pub fn new(sketch: &Arc<Mutex<Frequency>>) -> Self {
        Self { sketch: Arc::clone(sketch) }
    }

    /// As [`Frequency::update`].
    ///
    /// # Errors
    /// As [`Frequency::update`].
    ///
    /// # Panics
    /// If there are weights, but not one for each hash.
    pub fn update(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Result<()> {
        self.sketch.lock().unwrap_or_else(PoisonError::into_inner).update(hashes, weights)
    }
}
