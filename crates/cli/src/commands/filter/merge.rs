//! `overbank filter merge INTO FROM…`: the filters of several stores in one.
//!
//! Fingerprints are parts of hashes, so only filters built under one seed and hash kind can be added.
//!
//! All of it or nothing: a new `INTO` is made beside its place and gets its name when it is whole, one that was there gets one commit.
//! An error or a signal leaves it as it was.

use super::session::{check_memory, filter_bytes};
use super::{NAME, info};
use crate::arguments::MergeArguments;
use crate::commands::open_to_read;
use crate::commands::unnamed::{Unnamed, Watch};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Page, print_json};
use crate::picture::{self, FilterFacts};
use crate::stream_fields::StreamFields;
use overbank::filter::cascade::FilterOptions;
use overbank::store::{Store, StoreOptions};
use std::path::Path;

pub(in crate::commands) fn run(arguments: &MergeArguments) -> CommandResult {
    check_memory(arguments.memory)?;
    let sources: Vec<Store> =
        arguments.from.iter().map(|place| open_to_read(place)).collect::<Result<_, _>>()?;
    for (place, source) in arguments.from.iter().zip(&sources) {
        info::require_filter(source, place)?;
    }
    let key = StreamFields::common(&arguments.from, &sources)?;
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let memory_bytes = usize::try_from(arguments.memory).unwrap_or(usize::MAX);
    let options = StoreOptions::new().memory_bytes(memory_bytes);
    let facts = if arguments.into.exists() {
        let watch = Watch::start(interrupt, None);
        merge(Store::open(&arguments.into, options)?, arguments, &sources, key, || watch.end())?
    } else {
        let (first, beside) = (&sources[0], Unnamed::beside(&arguments.into, interrupt)?);
        let options = options.hash_kind(first.hash_kind()).seed(first.seed());
        let facts = merge(Store::create(beside.path(), options)?, arguments, &sources, key, || {})?;
        beside.name()?;
        facts
    };
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

/// Adds all sources to `into`, which is closed then; `commits` is told right before its commit.
fn merge(
    into: Store,
    arguments: &MergeArguments,
    sources: &[Store],
    key: Option<StreamFields>,
    commits: impl Fn(),
) -> Result<FilterFacts, Failure> {
    for (place, source) in arguments.from.iter().zip(sources) {
        // A new one is built as the first.
        let like = if into.commit_info().commit.0 > 0 { &arguments.into } else { &arguments.from[0] };
        same_hash(&into, like, source, place)?;
    }
    if let Some(key) = key {
        key.adopt(&into, &arguments.into)?;
    }
    let model = info::open(&sources[0], &arguments.from[0])?.options();
    // Asked for, so that a store of another shape is refused.
    let options = FilterOptions::new()
        .keys(model.expected_keys())
        .false_positive_rate(model.rate())
        .panes(model.window_panes())
        .policy(model.merge_policy())
        .memory_bytes(filter_bytes(arguments.memory));
    let filter = into.filter(NAME, options)?;
    for (place, source) in arguments.from.iter().zip(sources) {
        filter.merge_from(&info::open(source, place)?)?;
    }
    commits();
    into.commit(&into.position())?;
    Ok(FilterFacts::of(&filter)?)
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
