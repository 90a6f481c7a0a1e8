//! One file a command.

pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod dictionary;
pub(crate) mod distinct;
mod epochs;
pub(crate) mod estimate;
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod info;
mod input;
mod job;
mod keys;
mod losses;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod monitor;
mod places;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod quantile;
mod rejects;
pub(crate) mod seen;
mod session;
mod sketch;
mod stream;
pub(crate) mod top;
mod unnamed;
pub(crate) mod verify;

use crate::arguments::{HashName, MachineArguments};
use crate::failure::Failure;
use overbank::Dictionary;
use overbank::profile::{Profile, ProfileOptions};
use overbank::store::{Store, StoreOptions};
use std::path::Path;

/// The name of the profile in its store.
const PROFILE: &str = "profile";

/// The name of the dictionary in its store.
const DICTIONARY: &str = "dictionary";

/// How many of the heaviest keys are shown, unless told otherwise.
pub(crate) const TOP: usize = 10;

/// Opens a store to be queried, also beside a process that writes it.
pub(crate) fn open_to_read(directory: &Path) -> Result<Store, Failure> {
    Ok(Store::open_read_only(directory, StoreOptions::new())?)
}

/// Whether a store holds a profile.
fn has_profile(store: &Store) -> bool {
    store.record(PROFILE).is_some()
}

/// Whether a store holds a dictionary.
fn has_dictionary(store: &Store) -> bool {
    store.record(DICTIONARY).is_some()
}

/// What is wrong with asking groups for what they do not hold.
fn holds_groups(place: &Path) -> Failure {
    Failure::Usage(format!(
        "{} holds groups: write them again with the same `overbank group` and --resume, or name another store",
        place.display()
    ))
}

/// What is wrong with asking a dictionary for what it does not hold.
fn holds_dictionary(place: &Path) -> Failure {
    Failure::Usage(format!(
        "{} holds keys with values: ask it with `overbank dict get`, scan or info, or name another store",
        place.display()
    ))
}

/// The dictionary of a store at `place`, in the memory that it was written with, which its indexes surely fit.
fn open_dictionary(store: &Store, place: &Path) -> Result<Dictionary, Failure> {
    let stored = Dictionary::stored_options(store, DICTIONARY)?;
    let memory_bytes = stored.chosen_memory_bytes();
    if memory_bytes <= store.budget().budget_bytes() {
        return Ok(store.dictionary(DICTIONARY, stored)?);
    }
    let store = Store::open_read_only(place, StoreOptions::new().memory_bytes(memory_bytes))?;
    Ok(store.dictionary(DICTIONARY, stored)?)
}

/// Opens the store of a run, or makes it; `options` have the seed and the hash of `machine`.
fn open_to_write(
    directory: &Path,
    options: StoreOptions,
    machine: &MachineArguments,
) -> Result<Store, Failure> {
    let refused = |why: String| {
        Failure::Usage(format!("{} was made with {why}, or give another directory", directory.display()))
    };
    match Store::open_or_create(directory, options) {
        Err(overbank::Error::Incompatible { what: "seed", .. }) => {
            Err(refused("another --seed; leave --seed away".to_owned()))
        }
        Err(overbank::Error::Incompatible { what: "hash kind", .. }) => {
            let (other, own) = match machine.hash {
                HashName::Xxh3 => ("siphash", "xxh3"),
                HashName::Siphash => ("xxh3", "siphash"),
            };
            Err(refused(format!("--hash {other}, not {own}; give --hash {other}")))
        }
        store => Ok(store?),
    }
}

/// Opens a store with its profile, to be queried.
pub(crate) fn open_profile(directory: &Path) -> Result<(Store, Profile), Failure> {
    let mut store = open_to_read(directory)?;
    if !has_profile(&store) && store.record(filter::NAME).is_some() {
        return Err(Failure::Usage(format!(
            "{} holds no profile but keys seen: ask it with `overbank seen` or `overbank filter info`, or name a store that profile \
             or count made",
            directory.display()
        )));
    }
    if !has_profile(&store) && has_dictionary(&store) {
        return Err(holds_dictionary(directory));
    }
    if !has_profile(&store) && store.record(group::NAME).is_some() {
        return Err(holds_groups(directory));
    }
    if store.summaries().is_empty() {
        return Err(Failure::Usage(format!(
            "{} holds nothing yet: whoever made it has committed nothing; name another store, or fill it with profile or count",
            directory.display()
        )));
    }
    let needed = ProfileOptions::stored(&store, PROFILE)?.chosen_memory_bytes();
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    if needed > store.budget().budget_bytes() {
        // It was made in more memory than a store has that is told nothing.
        store = Store::open_read_only(directory, StoreOptions::new().memory_bytes(needed))?;
    }
    let profile = store.profile(PROFILE, ProfileOptions::new())?;
    Ok((store, profile))
}

/// A store's last commit with its profile, to be asked. A writer beside it may write over what an older commit had on flash: then the
/// question is put again, to a newer one.
pub(crate) struct Snapshot {
    pub(crate) store: Store,
    pub(crate) profile: Profile,
}

/// How often a question is put: a writer commits every few seconds, and an answer takes less.
const ATTEMPTS: usize = 5;

impl Snapshot {
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let (store, profile) = open_profile(directory)?;
        Ok(Self { store, profile })
    }

    /// What the profile answers.
    pub(crate) fn ask<T>(
        &mut self,
        question: impl Fn(&Profile) -> overbank::Result<T>,
    ) -> Result<T, Failure> {
        for _ in 1..ATTEMPTS {
            match question(&self.profile) {
                Err(overbank::Error::Outdated { .. }) => {
                    // Its memory is the newer one's.
                    self.store.close(PROFILE)?;
                    self.store.refresh()?;
                    self.profile = self.store.profile(PROFILE, ProfileOptions::new())?;
                }
                answer => return Ok(answer?),
            }
        }
        Ok(question(&self.profile)?)
    }
}
