//! A dictionary that is open to be asked, also beside a process that writes it.

use super::NAME;
use crate::commands::{filter, has_profile};
use crate::failure::Failure;
use crate::process;
use overbank::dictionary::{Dictionary, DictionaryOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;

/// How often a question is put: a writer commits every few seconds, and an answer takes less.
const ATTEMPTS: usize = 5;

/// A store's last commit with its dictionary. A writer beside it may write over what an older commit had on flash: then the question is
/// put again, to a newer one.
pub(super) struct Opened {
    pub(super) store: Store,
    pub(super) dictionary: Dictionary,
    options: DictionaryOptions,
}

impl Opened {
    /// Opens it in a share of `memory_bytes`.
    pub(super) fn open(place: &Path, memory_bytes: u64, share_bytes: u64) -> Result<Self, Failure> {
        process::check_memory(memory_bytes)?;
        let store = Store::open_read_only(place, StoreOptions::new().memory_bytes(bytes(memory_bytes)))?;
        require(&store, place)?;
        let options = DictionaryOptions::new().memory_bytes(bytes(share_bytes));
        let dictionary = store.dictionary(NAME, options)?;
        Ok(Self { store, dictionary, options })
    }

    /// What the dictionary answers.
    pub(super) fn ask<T>(
        &mut self,
        mut question: impl FnMut(&Dictionary) -> overbank::Result<T>,
    ) -> Result<T, Failure> {
        for _ in 1..ATTEMPTS {
            match question(&self.dictionary) {
                Err(overbank::Error::Outdated { .. }) => {
                    // Its memory is the newer one's.
                    self.store.close(NAME)?;
                    self.store.refresh()?;
                    self.dictionary = self.store.dictionary(NAME, self.options)?;
                }
                answer => return Ok(answer?),
            }
        }
        Ok(question(&self.dictionary)?)
    }
}

/// Refuses a store at `place` that holds no dictionary.
pub(super) fn require(store: &Store, place: &Path) -> Result<(), Failure> {
    if store.record(NAME).is_some() {
        return Ok(());
    }
    let other = if has_profile(store) {
        Some("counts: ask it with `overbank estimate`, top, distinct or quantile")
    } else if store.record(filter::NAME).is_some() {
        Some("keys seen: ask it with `overbank seen`")
    } else {
        None
    };
    Err(other.map_or_else(
        || no_dictionary(place),
        |what| {
            Failure::Usage(format!(
                "{} holds no dictionary but {what}, or name a store that dict build made",
                place.display()
            ))
        },
    ))
}

/// What is wrong with a store that holds none.
pub(super) fn no_dictionary(place: &Path) -> Failure {
    Failure::Usage(format!(
        "{} holds no dictionary; name a store that `overbank dict build` made",
        place.display()
    ))
}

pub(super) fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
