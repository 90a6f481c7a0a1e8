//! The rows of a stream, put into a dictionary or taken out of it; and `dict update` and `dict delete`.
//!
//! A commit is made behind the chunk that it names, and one when all rows are in, before what was loaded is merged: so a run that ends
//! at any moment is gone on with by `--resume`, if only with the merge.

use super::facts;
use super::merging::Merging;
use super::session::{self, Session, Wanted};
use super::state::{DictionaryState, Job};
use crate::announce;
use crate::arguments::{ChangeArguments, DuplicatesName, InputArguments, RemoveArguments, UpdateArguments};
use crate::commands::filter::pass::{Pass, Passed, Printed, Take};
use crate::commands::input::ParsedRows;
use crate::commands::losses;
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::run_state::RunState;
use crate::units;
use overbank::dictionary::{Dictionary, Duplicates, Load};
use overbank::pipeline::Rows as _;
use overbank_ingest::{Payload, Position, Reader, Waiter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What becomes of a stream's keys and values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// They go in; of a key that comes again, this one stays.
    Put(Duplicates),
    /// They are merged by the dictionary's operator.
    Merge,
    /// The keys go out.
    Remove,
}

/// A stream and what is to be done with it.
pub(super) struct Change<'a> {
    pub(super) store: &'a Path,
    pub(super) input: &'a InputArguments,
    pub(super) payload: Payload,
    pub(super) has_escapes: bool,
    pub(super) arguments: &'a ChangeArguments,
    pub(super) job: Job,
    pub(super) append: bool,
}

pub(super) fn update(arguments: &UpdateArguments) -> CommandResult {
    let rows = &arguments.rows;
    let change = Change {
        store: &arguments.store,
        input: &rows.input,
        payload: session::payload(rows),
        has_escapes: rows.escaped,
        arguments: &arguments.change,
        job: Job::Update,
        append: arguments.append,
    };
    let options = session::options(change.arguments.machine.memory)?;
    change.run(options, |dictionary| {
        let merges = dictionary.options().chosen_operator().is_some();
        match arguments.duplicates {
            _ if arguments.replace => Act::Put(Duplicates::Last),
            None if merges => Act::Merge,
            Some(DuplicatesName::First) => Act::Put(Duplicates::First),
            _ => Act::Put(Duplicates::Last),
        }
    })
}

pub(super) fn delete(arguments: &RemoveArguments) -> CommandResult {
    let change = Change {
        store: &arguments.store,
        input: &arguments.input,
        payload: Payload::None,
        has_escapes: arguments.escaped,
        arguments: &arguments.change,
        job: Job::Delete,
        append: arguments.append,
    };
    let options = session::options(change.arguments.machine.memory)?;
    change.run(options, |_| Act::Remove)
}

impl Change<'_> {
    /// Does it: to a dictionary with `options`, of which `act` says what is to be done.
    pub(super) fn run(
        self,
        options: overbank::dictionary::DictionaryOptions,
        act: impl FnOnce(&Dictionary) -> Act,
    ) -> CommandResult {
        let interrupt = Interrupt::install().map_err(|error| {
            Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
        })?;
        let machine = &self.arguments.machine;
        let rejects = self.input.rejects.as_deref();
        Written { store: Some(self.store), rejects, ..Written::default() }.check()?;
        let fields = session::fields(self.input)?;
        let pass = Pass::new(self.input, machine, Printed::Nothing, &interrupt)?;
        let mut pass = pass.with_payload(self.payload.clone(), self.has_escapes);
        pass.check_inputs()?;
        (pass.resumes, pass.appends) = (self.arguments.resume, self.append);
        announce::at("opening");
        let wanted = Wanted {
            store: self.store,
            machine,
            options,
            fields,
            job: self.job,
            resume: self.arguments.resume,
            append: self.append,
        };
        let session = Session::open(wanted, pass.threads)?;
        announce::at("opened");
        let report = session.dictionary.report();
        pass.keys_before = session.resumed.as_ref().map_or(0, |_| report.items + report.items_in_memory);
        let commit_every = Duration::from_secs_f64(self.arguments.commit_every);
        let act = act(&session.dictionary);
        let mut changes = Changes::new(&session, act, commit_every, pass.clock())?;
        let hasher = session.store.hasher();
        let passed = pass.run(hasher, session.resumed.as_ref(), &interrupt, &mut changes)?;
        if !passed.complete {
            return Err(changes.interrupted());
        }
        let rows = changes.rows;
        changes.finish(&interrupt, machine.quiet)?;
        self.print(&session, rows, &passed)?;
        losses::report_failures(passed.failures.into_iter(), passed.inputs)?;
        Ok(Outcome::Found)
    }

    fn print(&self, session: &Session, rows: u64, passed: &Passed) -> Result<(), Failure> {
        let report = session.dictionary.report();
        facts::print_change(self.store, rows, passed, &report, self.arguments.json)
    }
}

/// Puts the rows of a stream in, or takes them out.
pub(super) struct Changes<'s> {
    session: &'s Session,
    act: Act,
    /// What rows go into; none where keys go out.
    load: Option<Load>,
    commit_every: Duration,
    committed_at: Instant,
    /// Whether something came that is not committed.
    has_news: bool,
    clock: Arc<dyn Waiter>,
    pub(super) rows: u64,
    rows_before: u64,
    /// Where the stream ended.
    ended_at: Option<Position>,
}

impl<'s> Changes<'s> {
    fn new(
        session: &'s Session,
        act: Act,
        commit_every: Duration,
        clock: Arc<dyn Waiter>,
    ) -> Result<Self, Failure> {
        let load = match act {
            Act::Put(duplicates) => Some(session.dictionary.load(duplicates)?),
            Act::Merge => Some(session.dictionary.load(Duplicates::Last)?),
            Act::Remove => None,
        };
        let rows_before = session.resumed.as_ref().map_or(0, |run| run.position.rows());
        let committed_at = clock.now();
        Ok(Self {
            session,
            act,
            load,
            commit_every,
            committed_at,
            has_news: false,
            clock,
            rows: 0,
            rows_before,
            ended_at: None,
        })
    }

    /// Whether a part of the stream may be committed: nothing of a load is kept that a repeated key makes fail.
    fn may_commit(&self) -> bool {
        self.act != Act::Put(Duplicates::Refuse)
    }

    fn commit(&mut self, position: &Position, complete: bool) -> Result<(), Failure> {
        let run = RunState { complete, position: position.clone() };
        announce::at("committing");
        self.session.store.commit(&DictionaryState { run, job: self.session.job }.to_bytes())?;
        announce::at("committed");
        (self.committed_at, self.has_news) = (self.clock.now(), false);
        Ok(())
    }

    /// What is said of a run that a signal ended.
    fn interrupted(&self) -> Failure {
        let rows = units::count(self.rows);
        Failure::Interrupted(if self.may_commit() {
            format!(
                "interrupted after {rows} rows, which are kept; run the same command with --resume to go on"
            )
        } else {
            format!(
                "interrupted after {rows} rows; nothing is kept of a build with --duplicates error: run the same command again"
            )
        })
    }

    /// Merges what was loaded, and commits that all is in.
    fn finish(mut self, interrupt: &Interrupt, quiet: bool) -> Result<(), Failure> {
        let Some(position) = self.ended_at.take() else { return Ok(()) };
        let dictionary = &self.session.dictionary;
        let merging = Merging::start(interrupt, self.may_commit(), dictionary.report().flash_bytes, quiet);
        match self.load.take() {
            Some(load) => drop(load.finish()?),
            None => dictionary.settle()?,
        }
        merging.end();
        self.commit(&position, true)
    }
}

/// What is said of rows of which the dictionary does not take one.
fn refused(error: overbank::Error, first: u64, last: u64) -> Failure {
    match error {
        overbank::Error::InvalidOption { .. } => {
            let rows = (units::count(first), units::count(last));
            Failure::Usage(format!("{error}; it is in one of the rows {} to {}", rows.0, rows.1))
        }
        other => other.into(),
    }
}

impl Take for Changes<'_> {
    fn begin(&mut self, _: &Reader) -> Result<(), Failure> {
        Ok(())
    }

    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure> {
        let keys: Vec<&[u8]> = rows.keys().collect();
        let values: Vec<&[u8]> = rows.payloads().collect();
        let taken = match (&mut self.load, self.act) {
            (Some(load), Act::Merge) => load.merge_many(&keys, &values),
            (Some(load), _) => load.insert_many(&keys, &values),
            (None, _) => self.session.dictionary.remove_many(&keys),
        };
        let count = rows.hashes().len() as u64;
        if let Err(error) = taken {
            let before = self.rows_before + self.rows;
            return Err(refused(error, before + 1, before + count));
        }
        self.rows += count;
        self.has_news |= count > 0;
        let is_due = self.has_news && self.clock.now().duration_since(self.committed_at) >= self.commit_every;
        if is_due && self.may_commit() {
            let position = rows.position()?.with_rows(self.rows_before + self.rows);
            return self.commit(&position, false);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn end(&mut self, position: &Position, _: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        let position = position.clone().with_rows(self.rows_before + self.rows);
        if self.may_commit() {
            self.commit(&position, false)?;
        }
        self.ended_at = complete.then_some(position);
        Ok(())
    }
}
