//! `overbank dict split STORE OUT…`: a dictionary shared out by the hashes of its keys, and the copies that `concat` makes likewise.

use super::open::{Opened, bytes};
use super::{NAME, facts};
use crate::arguments::{AskArguments, HashRange, SplitArguments};
use crate::commands::filter::session::check_memory;
use crate::commands::unnamed::Unnamed;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Align, Page, print_json};
use crate::stream_fields::StreamFields;
use crate::units;
use overbank::dictionary::{DictionaryReport, Snapshot};
use overbank::store::{Store, StoreOptions};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::path::Path;

pub(super) fn run(arguments: &SplitArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    for out in &arguments.outs {
        refuse_existing(out)?;
    }
    let mut source = open(&arguments.store, &arguments.ask)?;
    let fields = StreamFields::of(&source.store)?;
    let snapshot = source.ask(|dictionary| dictionary.snapshot())?;
    let parts = arguments.outs.len() as u64;
    let mut made: Vec<(&Path, DictionaryReport)> = Vec::new();
    for (part, out) in (0..).zip(&arguments.outs) {
        let HashRange(range) = HashRange::part(part, parts);
        let copies = [Copy { from: &snapshot, range }];
        let new = New { place: out, like: &source.store, fields: fields.clone(), ask: &arguments.ask };
        made.push((out, new.make(copies.into_iter(), interrupt.clone())?));
    }
    print(&made, arguments.json)?;
    Ok(Outcome::Found)
}

/// A dictionary to be copied, in the part of the memory that is not the new one's.
pub(super) fn open(place: &Path, ask: &AskArguments) -> Result<Opened, Failure> {
    check_memory(ask.memory)?;
    Opened::open(place, ask.memory / 2, ask.memory / 4)
}

/// Refuses to make a store where something is.
pub(super) fn refuse_existing(out: &Path) -> Result<(), Failure> {
    if out.exists() {
        return Err(Failure::Usage(format!("{} is there already; name a new directory", out.display())));
    }
    Ok(())
}

/// What goes into a new dictionary.
pub(super) struct Copy<'s> {
    pub(super) from: &'s Snapshot,
    pub(super) range: RangeInclusive<u64>,
}

/// A store that is to be made.
pub(super) struct New<'a> {
    pub(super) place: &'a Path,
    /// The store whose seed and hash it gets, and whose dictionary's shape.
    pub(super) like: &'a Store,
    pub(super) fields: Option<StreamFields>,
    pub(super) ask: &'a AskArguments,
}

impl New<'_> {
    /// Makes it of copies, the newest last: whole or not at all.
    pub(super) fn make<'s>(
        self,
        copies: impl Iterator<Item = Copy<'s>>,
        interrupt: Interrupt,
    ) -> Result<DictionaryReport, Failure> {
        let half = self.ask.memory / 2;
        let beside = Unnamed::beside(self.place, interrupt)?;
        let options = StoreOptions::new()
            .memory_bytes(bytes(half))
            .hash_kind(self.like.hash_kind())
            .seed(self.like.seed());
        let store = Store::create(beside.path(), options)?;
        if let Some(fields) = self.fields {
            fields.adopt(&store, self.place)?;
        }
        let stored = overbank::dictionary::Dictionary::stored_options(self.like, NAME)?;
        let dictionary = store.dictionary(NAME, stored.memory_bytes(bytes(half)))?;
        for Copy { from, range } in copies {
            dictionary.copy_from(from, range)?;
        }
        if stored.has_ranks() {
            // Only one run has ranks.
            dictionary.compact()?;
        } else {
            dictionary.settle()?;
        }
        store.commit(b"")?;
        let report = dictionary.report();
        drop((dictionary, store));
        beside.name()?;
        Ok(report)
    }
}

fn print(made: &[(&Path, DictionaryReport)], is_json: bool) -> Result<(), Failure> {
    if is_json {
        let stores: Vec<Value> = made
            .iter()
            .map(|(place, report)| json!({ "store": place.display().to_string(), "dictionary": facts::as_json(report) }))
            .collect();
        return print_json(&json!({ "stores": stores }));
    }
    let mut page = Page::new();
    page.heading("Dictionaries", "");
    let row = |(place, report): &(&Path, DictionaryReport)| {
        vec![place.display().to_string(), units::count(report.items), units::bytes(report.flash_bytes)]
    };
    let rows: Vec<Vec<String>> = made.iter().map(row).collect();
    page.table(&[("store", Align::Left), ("items", Align::Right), ("flash", Align::Right)], &rows);
    page.print()
}
