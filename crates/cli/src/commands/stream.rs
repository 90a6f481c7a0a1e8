//! One pass over a stream, as `profile` and `count` make it: read, count, commit, and go on after an interruption.
//!
//! With `--store`, the summaries and the reader's position are committed together every few seconds, so a run that was
//! interrupted goes on with `--resume` and ends with the answer of an uninterrupted one.

use super::input::{self, GoesOn, Input};
use super::job::Job;
use super::losses::{self, Budget};
use super::places::Written;
use super::session::Session;
use crate::announce;
use crate::arguments::MachineArguments;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::picture::{Cost, Skipped};
use crate::progress::Progress;
use crate::run_state::RunState;
use crate::{process, resident, units};
use overbank::profile::{Profile, ProfilePlan};
use overbank_ingest::Reader;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pipe is looked at four times in so long, whether or not it has filled a chunk: commits are due by time.
const PAUSE: Duration = Duration::from_secs(1);

/// A pass that came to the end of its stream.
pub(super) struct Pass {
    session: Session,
    pub(super) inputs: Vec<String>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) cost: Cost,
    failures: Vec<Failure>,
}

impl Pass {
    pub(super) fn profile(&self) -> &Profile {
        &self.session.profile
    }

    /// Once the answer is printed: fails if an input was not read to its end.
    pub(super) fn finish(self) -> Result<(), Failure> {
        losses::report_failures(self.failures.into_iter(), self.inputs.len())
    }

    /// What was read, in a word.
    pub(super) fn title(&self) -> String {
        match &self.inputs[..] {
            [one] => one.clone(),
            many => format!("{} inputs", many.len()),
        }
    }
}

/// How the job's plan divides the memory.
pub(super) fn plan(memory_bytes: u64, has_flash: bool) -> Result<ProfilePlan, Failure> {
    Ok(if has_flash {
        ProfilePlan::with_flash(memory_bytes)?
    } else {
        ProfilePlan::for_memory(memory_bytes)?
    })
}

/// Counts the whole stream.
pub(super) fn run(job: &Job<'_>) -> Result<Pass, Failure> {
    let started = Instant::now();
    let arguments = job.arguments;
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let (store, rejects) = (arguments.store.as_deref(), arguments.input.rejects.as_deref());
    Written { store, rejects, ..Written::default() }.check()?;
    process::check_memory(arguments.machine.memory)?;
    let shares = plan(arguments.machine.memory, job.flash.is_some())?;
    let threads = working_threads(&arguments.machine, &shares);
    let mut options = input::reader_options(&arguments.input, arguments.weight.as_ref(), job.value, false)?;
    // What cannot be, and an input that is not there, are found before there is a store.
    if let Some(flash) = &job.flash {
        shares.fitted(&flash.options, threads)?.plan()?;
    }
    Reader::open(options.clone())?;
    announce::at("opening");
    let session = Session::open(job, threads)?;
    announce::at("opened");
    input::fit_chunks(&mut options, session.profile.plan(), threads);
    options.pause = Some(PAUSE);
    options.waiter = Arc::new(interrupt.waiter()?);
    let has_flash = job.flash.is_some();
    let plan_for = |memory_bytes| plan(memory_bytes, has_flash).ok();
    let budget = Budget { memory_bytes: arguments.machine.memory, threads, plan: plan_for };
    let reader = match &session.resumed {
        Some(run) => Reader::resume(options.clone(), &run.position),
        None => Reader::open(options.clone()),
    };
    let mut reader = reader.map_err(|error| budget.explain(error))?;
    let before = session.profile.report(0, &[])?;
    let (run, appends) = (session.resumed.as_ref(), arguments.append);
    let goes_on = GoesOn { run, resumes: arguments.resume, appends };
    let input = Input::new(&arguments.input, &options, session.store.hasher(), &reader, goes_on)?;
    let progress = Progress::start(reader.total_bytes(), arguments.machine.quiet);
    resident::let_start_up_go();

    loop {
        let deadline = Instant::now() + Duration::from_secs_f64(arguments.commit_every);
        let (mut ended, mut moved) = (false, false);
        let reading = session.profile.update(threads, &input, || {
            // Something new lies between two commits, however short the time between them.
            if interrupt.is_raised() || moved && session.kept && Instant::now() >= deadline {
                return Ok(None);
            }
            let chunk = match reader.next_chunk() {
                Err(overbank_ingest::Error::Interrupted { .. }) => return Ok(None),
                chunk => chunk.map_err(|error| budget.explain(error))?,
            };
            announce::at("chunk");
            moved |= chunk.as_ref().is_some_and(|chunk| !chunk.is_empty());
            ended = chunk.is_none();
            progress.update(reader.bytes_read());
            Ok(chunk)
        });
        // After an error the position of the last counted chunk is not known: the last commit stands.
        reading.inspect_err(|_| input.losses().report())?;
        if ended {
            input.check(before.rows).inspect_err(|_| input.losses().report())?;
        }
        if session.kept {
            let state = RunState { complete: ended, position: input.mark(reader.position())? };
            announce::at("committing");
            session.store.commit(&state.to_bytes())?;
            announce::at("committed");
        }
        if ended {
            break;
        }
        if interrupt.is_raised() {
            input.losses().report();
            return Err(stopped(&session)?);
        }
    }
    drop(progress);
    let losses = input.losses();
    losses.report();
    let failures: Vec<Failure> =
        reader.take_failures().into_iter().map(|error| budget.explain(error)).collect();

    let after = session.profile.report(0, &[])?;
    let cost = Cost {
        seconds: started.elapsed().as_secs_f64(),
        rows: after.rows - before.rows,
        malformed: losses.malformed,
        missing: losses.missing,
        bytes: after.bytes - before.bytes,
        peak_memory_bytes: process::peak_memory_bytes(),
        memory_bytes: arguments.machine.memory,
        stored_bytes: session.store.summaries().iter().map(|summary| summary.bytes).sum(),
        written_bytes: process::written_bytes(),
        threads,
    };
    let inputs = reader.inputs().map(losses::shown_input).collect();
    Ok(Pass { session, inputs, skipped: losses.first, cost, failures })
}

/// How many threads work: those that were asked for, or one a core, as far as the plan has room for them.
pub(super) fn working_threads(machine: &MachineArguments, plan: &ProfilePlan) -> usize {
    plan.threads(machine.threads.map_or_else(default_threads, usize::from))
}

pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8))
}

fn stopped(session: &Session) -> Result<Failure, Failure> {
    let rows = units::count(session.profile.rows()?);
    Ok(Failure::Interrupted(if session.kept {
        format!("interrupted after {rows} rows, which are kept; run the same command with --resume to go on")
    } else {
        format!("interrupted after {rows} rows; nothing is kept without --store")
    }))
}
