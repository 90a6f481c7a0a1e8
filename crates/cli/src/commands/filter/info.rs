//! `overbank filter info STORE`: what a filter holds.

use super::NAME;
use crate::arguments::FilterInfoArguments;
use crate::commands::{has_dictionary, has_profile, holds_dictionary, open_to_read};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::{Page, print_json};
use crate::picture::{self, FilterFacts};
use overbank::filter::cascade::Filter;
use overbank::store::Store;
use std::path::Path;

pub(super) fn run(arguments: &FilterInfoArguments) -> CommandResult {
    let facts = facts(&open_to_read(&arguments.store)?, &arguments.store)?;
    if arguments.json {
        print_json(&picture::filter_json(&facts))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Filter {}", arguments.store.display()), "");
        picture::filter_lines(&mut page, &facts);
        picture::run_table(&mut page, &facts.report);
        page.print()?;
    }
    Ok(Outcome::Found)
}

/// The filter of a store at `place` that is open to be asked, in what memory the store has.
pub(in crate::commands) fn open(store: &Store, place: &Path) -> Result<Filter, Failure> {
    require_filter(store, place)?;
    let stored = Filter::stored_options(store, NAME)?;
    let memory_bytes = store.budget().budget_bytes().min(stored.chosen_memory_bytes());
    Ok(store.filter(NAME, stored.memory_bytes(memory_bytes).writers(1))?)
}

/// Refuses a store at `place` that holds no filter.
pub(super) fn require_filter(store: &Store, place: &Path) -> Result<(), Failure> {
    if store.record(NAME).is_none() && has_profile(store) {
        return Err(Failure::Usage(format!(
            "{} holds no filter but counts: ask it with `overbank estimate`, top, distinct or quantile, or name a store that \
             dedup --store or filter build made",
            place.display()
        )));
    }
    if has_dictionary(store) {
        return Err(holds_dictionary(place));
    }
    if store.record(NAME).is_none() {
        return Err(Failure::Usage(format!(
            "{} holds no filter; name a store that dedup --store or filter build made",
            place.display()
        )));
    }
    Ok(())
}

/// What the filter of a store at `place` says of itself.
pub(in crate::commands) fn facts(store: &Store, place: &Path) -> Result<FilterFacts, Failure> {
    Ok(FilterFacts::of(&open(store, place)?)?)
}
