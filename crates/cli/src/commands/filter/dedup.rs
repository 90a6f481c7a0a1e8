//! `overbank dedup [FILE…]`: the first row of every key, or the repeats; or the keys of rows forgotten.

use super::keys::{Act, Keys};
use super::output::Output;
use super::pass::Pass;
use super::rows::{Pace, Sieve};
use super::scratch::Scratch;
use super::session::{Session, Wanted};
use crate::arguments::DedupArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::picture::{self, DedupCost};
use crate::process;
use std::time::Duration;

pub(crate) fn run(arguments: &DedupArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    let pass = Pass::new(&arguments.input, machine, !arguments.remove, &interrupt)?;
    let threads = pass.threads;
    let mut scratch = Scratch::new(arguments.spool.as_deref().or(arguments.store.as_deref()), &interrupt);
    let wanted = Wanted {
        store: arguments.store.as_deref(),
        filter: &arguments.filter,
        key: &arguments.input.key,
        machine,
        window: arguments.window.map(Into::into),
        resume: arguments.resume,
        append: arguments.append,
    };
    let session = Session::open(&wanted, threads, &mut scratch)?;
    let commit_every = Duration::from_secs_f64(arguments.commit_every);
    let (hasher, resume_at) = (session.store.hasher(), session.resume_at());
    let (passed, counts, removed) = if arguments.remove {
        let mut keys = Keys::new(&session, Act::Remove, machine.memory, commit_every, pass.clock());
        let passed = pass.run(hasher, resume_at, &interrupt, &mut keys)?;
        (passed, keys.counts, Some(keys.changed))
    } else {
        // Rows that standard output does not take any more are worth keeping where there is a place for them.
        let owed = session.kept.then(|| scratch.file()).transpose()?;
        let output = Output::open(session.resumed.as_ref().map(|state| state.output), &interrupt, owed)?;
        let pace = Pace { commit_every, clock: pass.clock() };
        let mut sieve = Sieve::new(&session, &scratch, machine.memory, !arguments.invert, output, pace)?;
        let passed = pass.run(hasher, resume_at, &interrupt, &mut sieve)?;
        (passed, sieve.counts, None)
    };
    super::warn_of_skipped(counts.skipped, &passed.skipped, machine.quiet);
    if !passed.complete {
        return Err(super::interrupted(counts.rows, session.kept));
    }
    if arguments.stats || arguments.json {
        let cost = DedupCost {
            counts,
            removed,
            seconds: passed.seconds,
            threads,
            memory_bytes: machine.memory,
            peak_memory_bytes: process::peak_memory_bytes(),
            written_bytes: process::written_bytes(),
        };
        let facts = picture::FilterFacts::of(&session.filter())?;
        picture::print_dedup(&cost, &facts, arguments.json);
    }
    Ok(Outcome::Found)
}
