//! `overbank dedup [FILE…]`: the first row of every key, or the repeats; or the keys of rows forgotten.

use super::keys::{Act, Keys};
use super::outlet::Escape;
use super::output::Output;
use super::parquet::ParquetWanted;
use super::pass::{Pass, Printed};
use super::rows::{Pace, Sieve};
use super::scratch::Scratch;
use super::session::{Session, Wanted, check_options};
use super::sink::Place;
use crate::announce;
use crate::arguments::DedupArguments;
use crate::commands::losses;
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::picture::{self, DedupCost};
use crate::process;
use crate::run_state::Job;
use std::time::Duration;

pub(crate) fn run(arguments: &DedupArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    let written = Written {
        store: arguments.store.as_deref(),
        output: arguments.output.as_deref(),
        prints_rows: !arguments.remove,
        rejects: arguments.input.rejects.as_deref(),
    };
    written.check()?;
    let printed = match (arguments.remove, arguments.row_numbers) {
        (true, _) => Printed::Nothing,
        (_, true) => Printed::Numbers,
        _ => Printed::Rows,
    };
    let job = match (printed, arguments.invert) {
        (Printed::Nothing, _) => Job::Remove,
        (Printed::Rows, false) => Job::FirstRows,
        (Printed::Rows, true) => Job::Repeats,
        (Printed::Numbers, false) => Job::NumbersOfFirstRows,
        (Printed::Numbers, true) => Job::NumbersOfRepeats,
    };
    let mut pass = Pass::new(&arguments.input, machine, printed, &interrupt)?;
    let window = arguments.window.map(Into::into);
    check_options(&arguments.filter, machine.memory, window, pass.threads)?;
    pass.check_inputs()?;
    let parquet =
        pass.parquet_inputs()?.map(|inputs| ParquetWanted { inputs, bytes_max: pass.parquet_bytes_max() });
    let is_parquet = parquet.is_some();
    if is_parquet && arguments.resume {
        return Err(Failure::Usage(
            "a Parquet output cannot be gone on with: it is written as a whole, and an interrupted run leaves the store as it \
             was; give the same command without --resume"
                .to_owned(),
        ));
    }
    let threads = pass.threads;
    let scratch = Scratch::new(arguments.spool.as_deref().or(arguments.store.as_deref()));
    if arguments.store.is_none() {
        interrupt.keeps_nothing();
    }
    (pass.resumes, pass.appends) = (arguments.resume, arguments.append);
    let wanted = Wanted {
        store: arguments.store.as_deref(),
        filter: &arguments.filter,
        input: &arguments.input,
        machine,
        window,
        resume: arguments.resume,
        append: arguments.append,
        job,
    };
    announce::at("opening");
    let session = Session::open(&wanted, threads, &scratch)?;
    announce::at("opened");
    let commit_every = Duration::from_secs_f64(arguments.commit_every);
    let (hasher, resumed_run) = (session.store.hasher(), session.resumed_run());
    pass.keys_before = resumed_run.map_or(0, |_| session.filter().report().fingerprints);
    let (passed, counts, removed) = if arguments.remove {
        let mut keys = Keys::new(&session, Act::Remove, machine.memory, commit_every, pass.clock());
        let passed = pass.run(hasher, resumed_run, &interrupt, &mut keys)?;
        (passed, keys.counts, Some(keys.changed))
    } else {
        let file = arguments.output.as_deref();
        // A Parquet file is nothing without its end, so nothing of it is committed before.
        let commits = session.kept && !is_parquet;
        let place = Place { file, commits, resumes: arguments.resume };
        // Rows that the output does not take any more are worth keeping where there is a place for them.
        let owed = commits.then(|| scratch.file()).transpose()?;
        let escape = Escape { call: interrupt.call()?, owed };
        let resumed = session.resumed.as_ref().map(|state| &state.output);
        let line_end = if arguments.input.null { 0 } else { b'\n' };
        let output = Output::open(place, resumed, escape, line_end, parquet)?;
        let pace = Pace { commit_every, clock: pass.clock() };
        let numbers = printed == Printed::Numbers;
        let keeps_new = !arguments.invert;
        let mut sieve = Sieve::new(&session, &scratch, machine.memory, keeps_new, numbers, output, pace)?;
        let passed = pass.run(hasher, resumed_run, &interrupt, &mut sieve)?;
        (passed, sieve.counts, None)
    };
    if !passed.complete {
        return Err(super::interrupted(counts.rows, session.kept, is_parquet));
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
        let facts = picture::FilterFacts::of(session.filter())?;
        picture::print_dedup(&cost, &facts, arguments.json);
    }
    losses::report_failures(passed.failures.into_iter(), passed.inputs)?;
    Ok(Outcome::Found)
}
