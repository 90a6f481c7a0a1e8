//! `overbank dict info STORE`: what a dictionary holds.

use super::{facts, open};
use crate::arguments::StoreArguments;
use crate::commands::{open_dictionary, open_to_read};
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};

pub(super) fn run(arguments: &StoreArguments) -> CommandResult {
    let store = open_to_read(&arguments.store)?;
    open::require(&store, &arguments.store)?;
    let report = open_dictionary(&store, &arguments.store)?.report();
    if arguments.json {
        print_json(&facts::as_json(&report))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Dictionary {}", arguments.store.display()), "");
        facts::lines(&mut page, &report);
        facts::run_table(&mut page, &report);
        page.print()?;
    }
    Ok(Outcome::Found)
}
