//! `overbank filter build STORE [FILE…]`: all keys of files in a filter, each as often as it comes.

use super::keys::{Act, Keys};
use super::pass::Pass;
use super::scratch::Scratch;
use super::session::{Session, Wanted};
use crate::arguments::BuildArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Page, print_json};
use crate::{picture, units};
use serde_json::json;
use std::time::Duration;

pub(super) fn run(arguments: &BuildArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    let pass = Pass::new(&arguments.input, machine, false, &interrupt)?;
    let wanted = Wanted {
        store: Some(&arguments.store),
        filter: &arguments.filter,
        key: &arguments.input.key,
        machine,
        window: None,
        resume: arguments.resume,
        append: arguments.append,
    };
    let mut scratch = Scratch::new(Some(&arguments.store), &interrupt);
    let session = Session::open(&wanted, pass.threads, &mut scratch)?;
    let commit_every = Duration::from_secs_f64(arguments.commit_every);
    let mut keys = Keys::new(&session, Act::Insert, machine.memory, commit_every, pass.clock());
    let passed = pass.run(session.store.hasher(), session.resume_at(), &interrupt, &mut keys)?;
    super::warn_of_skipped(keys.counts.skipped, &passed.skipped, machine.quiet);
    if !passed.complete {
        return Err(super::interrupted(keys.counts.rows, true));
    }
    let facts = picture::FilterFacts::of(&session.filter())?;
    if arguments.json {
        print_json(&json!({
            "rows": keys.counts.rows,
            "skipped": keys.counts.skipped,
            "seconds": passed.seconds,
            "filter": picture::filter_json(&facts),
        }))?;
    } else {
        let mut page = Page::new();
        page.heading(&format!("Filter {}", arguments.store.display()), "");
        let rate = format!("{} rows/s", units::rate(keys.counts.rows as f64 / passed.seconds));
        page.fact("rows", &units::count(keys.counts.rows), &rate);
        picture::filter_lines(&mut page, &facts);
        page.print()?;
    }
    Ok(Outcome::Found)
}
