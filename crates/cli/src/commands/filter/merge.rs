//! `overbank filter merge INTO FROM…`: the filters of several stores in one.
//!
//! Fingerprints are parts of hashes, so only filters built under one seed and hash kind can be added. `INTO` is committed after each.

use super::session::{check_memory, filter_bytes};
use super::{NAME, info};
use crate::arguments::MergeArguments;
use crate::commands::open_to_read;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::{Page, print_json};
use crate::picture;
use overbank::store::{Store, StoreOptions};
use std::path::Path;
use std::sync::PoisonError;

pub(super) fn run(arguments: &MergeArguments) -> CommandResult {
    check_memory(arguments.memory)?;
    let sources: Vec<Store> =
        arguments.from.iter().map(|place| open_to_read(place)).collect::<Result<_, _>>()?;
    let first = &sources[0];
    let memory_bytes = usize::try_from(arguments.memory).unwrap_or(usize::MAX);
    let options = StoreOptions::new().memory_bytes(memory_bytes);
    let into = match arguments.into.exists() {
        true => Store::open(&arguments.into, options)?,
        false => Store::create(&arguments.into, options.hash_kind(first.hash_kind()).seed(first.seed()))?,
    };
    for (place, source) in arguments.from.iter().zip(&sources) {
        same_hash(&into, &arguments.into, source, place)?;
    }
    let mut model = info::facts(first, &arguments.from[0])?.report.options;
    model.memory_bytes = filter_bytes(arguments.memory);
    let filter = into.cascade(NAME, model)?;
    for (place, source) in arguments.from.iter().zip(&sources) {
        let other = info::open(source, place)?;
        let other = other.lock().unwrap_or_else(PoisonError::into_inner);
        filter.lock().unwrap_or_else(PoisonError::into_inner).merge_from(&other)?;
        drop(other);
        into.commit(&into.position())?;
    }
    let facts = picture::FilterFacts::of(&filter.lock().unwrap_or_else(PoisonError::into_inner))?;
    if arguments.json {
        print_json(&picture::filter_json(&facts))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Filter {}", arguments.into.display()), "");
        picture::filter_lines(&mut page, &facts);
        page.print()?;
    }
    Ok(Outcome::Found)
}

fn same_hash(into: &Store, into_place: &Path, source: &Store, place: &Path) -> Result<(), Failure> {
    let of = |store: &Store| (store.hash_kind(), store.seed().fingerprint());
    if of(into) == of(source) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} was built under another seed or hash than {}, so their fingerprints have nothing in common; build both with the \
         same --seed and --hash",
        place.display(),
        into_place.display()
    )))
}
