//! `overbank dict concat OUT STORE…`: several dictionaries as a new one.

use super::facts;
use super::open::Opened;
use super::split::{Copy, New, open, refuse_existing};
use crate::arguments::ConcatArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Page, print_json};
use crate::stream_fields::StreamFields;
use overbank::dictionary::Snapshot;
use overbank::store::Store;
use std::path::Path;

pub(super) fn run(arguments: &ConcatArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    refuse_existing(&arguments.out)?;
    let mut opened: Vec<Opened> =
        arguments.stores.iter().map(|place| open(place, &arguments.ask)).collect::<Result<_, _>>()?;
    for (place, one) in arguments.stores.iter().zip(&opened) {
        same_hash(&opened[0].store, &arguments.stores[0], &one.store, place)?;
    }
    let fields = StreamFields::of(&opened[0].store)?;
    let snapshots: Vec<Snapshot> =
        opened.iter_mut().map(|one| one.ask(|dictionary| dictionary.snapshot())).collect::<Result<_, _>>()?;
    let new = New { place: &arguments.out, like: &opened[0].store, fields, ask: &arguments.ask };
    let report = new.make(snapshots.iter().map(|from| Copy { from, range: 0..=u64::MAX }), interrupt)?;
    if arguments.json {
        print_json(&facts::as_json(&report))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Dictionary {}", arguments.out.display()), "");
        facts::lines(&mut page, &report);
        page.print()?;
    }
    Ok(Outcome::Found)
}

fn same_hash(one: &Store, one_place: &Path, other: &Store, place: &Path) -> Result<(), Failure> {
    let of = |store: &Store| (store.hash_kind(), store.seed().fingerprint());
    if of(one) == of(other) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} was built under another seed or hash than {}, so its keys are in another order; build both with the same --seed and --hash, \
         or put it in by `overbank dict scan --as raw` and `dict update --format raw`",
        place.display(),
        one_place.display()
    )))
}
