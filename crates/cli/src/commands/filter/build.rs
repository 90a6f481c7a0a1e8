//! `overbank filter build STORE [FILE…]`: all keys of files in a filter, each as often as it comes.

use super::keys::{Act, Keys};
use super::pass::{Pass, Printed};
use super::scratch::Scratch;
use super::session::{Session, Wanted, check_options};
use crate::announce;
use crate::arguments::BuildArguments;
use crate::commands::losses;
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::{Page, print_json};
use crate::run_state::Job;
use crate::{picture, units};
use serde_json::json;
use std::time::Duration;

pub(super) fn run(arguments: &BuildArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    let rejects = arguments.input.rejects.as_deref();
    Written { store: Some(&arguments.store), rejects, ..Written::default() }.check()?;
    let mut pass = Pass::new(&arguments.input, machine, Printed::Nothing, &interrupt)?;
    check_options(&arguments.filter, machine.memory, None, pass.threads)?;
    pass.check_inputs()?;
    (pass.resumes, pass.appends) = (arguments.resume, arguments.append);
    let wanted = Wanted {
        store: Some(&arguments.store),
        filter: &arguments.filter,
        input: &arguments.input,
        machine,
        window: None,
        resume: arguments.resume,
        append: arguments.append,
        job: Job::Build,
    };
    let scratch = Scratch::new(Some(&arguments.store));
    announce::at("opening");
    let session = Session::open(&wanted, pass.threads, &scratch)?;
    announce::at("opened");
    let commit_every = Duration::from_secs_f64(arguments.commit_every);
    let mut keys = Keys::new(&session, Act::Insert, machine.memory, commit_every, pass.clock());
    pass.keys_before = session.resumed_run().map_or(0, |_| session.filter().report().fingerprints);
    let passed = pass.run(session.store.hasher(), session.resumed_run(), &interrupt, &mut keys)?;
    if !passed.complete {
        return Err(super::interrupted(keys.counts.rows, true, false));
    }
    let facts = picture::FilterFacts::of(session.filter())?;
    if arguments.json {
        print_json(&json!({
            "rows": keys.counts.rows,
            "malformed": passed.losses.malformed,
            "missing": passed.losses.missing,
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
    losses::report_failures(passed.failures.into_iter(), passed.inputs)?;
    Ok(Outcome::Found)
}
