//! `overbank merge OUT STORES…`: what was counted or remembered apart, under one seed, in one new store.
//!
//! Profiles and counts are merged here, filters as `filter merge` does it. All of it or nothing: the new store is made beside its place
//! and gets its name when it is whole.

use super::unnamed::Unnamed;
use super::{PROFILE, filter, open_to_read};
use crate::announce;
use crate::arguments::{MergeArguments, MergeStoresArguments};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Page, print_json};
use crate::picture;
use crate::stream_fields::StreamFields;
use crate::units;
use overbank::profile::{ProfileOptions, ProfileReport};
use overbank::store::{Store, StoreOptions};
use std::path::Path;

pub(crate) fn run(arguments: &MergeStoresArguments) -> CommandResult {
    if arguments.out.exists() {
        return Err(Failure::Usage(format!(
            "{} already exists; name a new directory for what is merged",
            arguments.out.display()
        )));
    }
    let sources: Vec<Store> =
        arguments.stores.iter().map(|place| open_to_read(place)).collect::<Result<_, _>>()?;
    let has_profile: Vec<bool> = sources.iter().map(super::has_profile).collect();
    if !has_profile.contains(&true) {
        return filter::merge::run(&MergeArguments {
            into: arguments.out.clone(),
            from: arguments.stores.clone(),
            memory: arguments.memory.unwrap_or(MEMORY_BYTES),
            json: arguments.json,
        });
    }
    if let Some(other) = has_profile.iter().position(|is_there| !is_there) {
        return Err(Failure::Usage(format!(
            "{} holds no counts, unlike others of these stores; merge stores of one kind at a time",
            arguments.stores[other].display()
        )));
    }
    let report = merge_profiles(arguments, &sources)?;
    if arguments.json {
        print_json(&picture::merged_json(&arguments.stores, &report))?;
    } else {
        let mut page = Page::new();
        page.heading(
            &format!("{} in {}", units::counted(sources.len() as u64, "store"), arguments.out.display()),
            "",
        );
        picture::stream_lines(&mut page, &report, &[]);
        picture::heavy_section(&mut page, &report);
        page.print()?;
    }
    Ok(Outcome::Found)
}

/// The memory of a merge of filters, unless told otherwise.
const MEMORY_BYTES: u64 = 64 << 20;

/// Puts the profiles of all `sources` into a new store.
fn merge_profiles(arguments: &MergeStoresArguments, sources: &[Store]) -> Result<ProfileReport, Failure> {
    let key = StreamFields::common(&arguments.stores, sources)?;
    let memory_bytes = memory_bytes(arguments, &sources[0])?;
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let unnamed = Unnamed::beside(&arguments.out, interrupt)?;
    let report = {
        let first = &sources[0];
        let options = StoreOptions::new()
            .memory_bytes(usize::try_from(memory_bytes).unwrap_or(usize::MAX))
            .hash_kind(first.hash_kind())
            .seed(first.seed())
            .threads(0);
        let store = Store::create(unnamed.path(), options)?;
        if let Some(key) = key {
            key.adopt(&store, &arguments.out)?;
        }
        let profile = store.profile(PROFILE, ProfileOptions::stored(first, PROFILE)?)?;
        for (place, source) in arguments.stores.iter().zip(sources) {
            let merged = profile.merge_from(source, PROFILE);
            merged.map_err(|error| refused(&arguments.stores[0], place, error))?;
            announce::at("merged");
        }
        let report = profile.report(arguments.top, &[])?;
        // There is no stream to go on with.
        store.commit(b"")?;
        report
    };
    unnamed.name()?;
    Ok(report)
}

/// A profile has the memory that its parts were made with.
fn memory_bytes(arguments: &MergeStoresArguments, first: &Store) -> Result<u64, Failure> {
    let needed = ProfileOptions::stored(first, PROFILE)?.chosen_memory_bytes();
    match arguments.memory {
        Some(memory) if memory < needed => Err(Failure::Usage(format!(
            "{} was made with --memory {}; give at least as much",
            arguments.stores[0].display(),
            units::bytes(needed)
        ))),
        _ => Ok(needed),
    }
}

/// Names the two stores that do not go together.
fn refused(first: &Path, other: &Path, error: overbank::Error) -> Failure {
    match error {
        overbank::Error::Incompatible { .. } | overbank::Error::InvalidOption { .. } => {
            Failure::Usage(format!("{} and {}: {error}", first.display(), other.display()))
        }
        error => error.into(),
    }
}
