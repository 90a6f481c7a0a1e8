//! `overbank profile [FILE…]`: one pass over a stream, the whole picture of it, and a store for later questions.
//!
//! With `--store`, the summaries and the reader's position are committed together every few seconds, so a run that was
//! interrupted goes on with `--resume` and ends with the answer of an uninterrupted one.

use crate::arguments::ProfileArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::print_json;
use crate::picture::{self, Cost, Skipped};
use crate::progress::Progress;
use crate::{run_state, units};
use overbank::profile::{KeyedRows, Measure, Parse, Plan, Profile, Rows};
use overbank::store::{Store, StoreOptions};
use overbank::{KeyHash, Seed};
use overbank_ingest::{Batch, Chunk, Options, Parser, Reader};
use run_state::RunState;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The quantiles of the report.
const RANKS: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
/// How many malformed rows are shown.
const SKIPPED_SHOWN: usize = 5;

pub(crate) fn run(arguments: &ProfileArguments) -> CommandResult {
    let started = Instant::now();
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let threads = arguments.threads.map_or_else(default_threads, usize::from);
    check_memory(arguments.memory)?;
    let plan = Plan::for_memory(arguments.memory)?;
    let options = reader_options(arguments, &plan, threads)?;
    let session = Session::open(arguments, plan)?;
    let mut reader = match &session.resume_at {
        Some(position) => Reader::resume(options.clone(), position)?,
        None => Reader::open(options.clone())?,
    };
    let before = session.profile().report(0, &[]);
    let input = Input { parser: Parser::new(&options, session.store.hasher()), skipped: Mutex::default() };
    let progress = Progress::start(reader.total_bytes(), arguments.quiet);

    loop {
        let deadline = Instant::now() + Duration::from_secs_f64(arguments.commit_every);
        let (mut ended, mut moved) = (false, false);
        let mut profile = session.profile();
        let reading = profile.update(threads, &input, || {
            // At least one chunk lies between two commits, however short the time between them.
            if interrupt.is_raised() || moved && session.kept && Instant::now() >= deadline {
                return Ok(None);
            }
            let chunk = reader.next_chunk()?;
            moved = true;
            ended = chunk.is_none();
            progress.update(reader.bytes_read());
            Ok(chunk)
        });
        drop(profile);
        // After an error the position of the last counted chunk is not known: the last commit stands.
        reading?;
        if session.kept {
            let state = RunState { complete: ended, position: reader.position().clone() };
            session.store.commit(&state.to_bytes())?;
        }
        if ended {
            break;
        }
        if interrupt.is_raised() {
            return Err(stopped(&session));
        }
    }
    drop(progress);

    let profile = session.profile();
    let report = profile.report(arguments.top, &RANKS);
    let cost = Cost {
        seconds: started.elapsed().as_secs_f64(),
        rows: report.rows - before.rows,
        bytes: report.bytes - before.bytes,
        peak_memory_bytes: peak_memory_bytes(),
        memory_bytes: arguments.memory,
        stored_bytes: session.store.summaries().iter().map(|summary| summary.bytes).sum(),
        threads,
    };
    let inputs: Vec<String> = reader.inputs().map(shown_input).collect();
    let skipped = input.skipped_rows();
    if arguments.json {
        print_json(&picture::json(&inputs, &report, &skipped, &cost))?;
    } else {
        picture::page(&title(&inputs), &report, &skipped, &cost).print()?;
    }
    Ok(Outcome::Found)
}

/// A store with its profile: on disk with `--store`, else in memory for this run alone.
struct Session {
    store: Store,
    profile: Arc<Mutex<Profile>>,
    resume_at: Option<overbank_ingest::Position>,
    kept: bool,
}

impl Session {
    fn open(arguments: &ProfileArguments, plan: Plan) -> Result<Self, Failure> {
        let memory_bytes = usize::try_from(arguments.memory).unwrap_or(usize::MAX);
        let mut options =
            StoreOptions::new().memory_bytes(memory_bytes).hash_kind(arguments.hash.into()).threads(0);
        if let Some(seed) = arguments.seed {
            options = options.seed(Seed(u128::from(seed)));
        }
        let store = match &arguments.store {
            Some(directory) => Store::open_or_create(directory, options)?,
            None => Store::in_memory(options)?,
        };
        let (profile, resume_at) = if Profile::is_in(&store) {
            Self::recover(arguments, &store)?
        } else {
            let measure = if arguments.value.is_some() { Measure::Value } else { Measure::KeyLength };
            (Profile::new(plan, store.hasher(), measure)?, None)
        };
        let profile = profile.attach(&store)?;
        Ok(Self { store, profile, resume_at, kept: arguments.store.is_some() })
    }

    /// The profile of a store that has one, and where its reader stood, if the arguments allow to go on with it.
    fn recover(
        arguments: &ProfileArguments,
        store: &Store,
    ) -> Result<(Profile, Option<overbank_ingest::Position>), Failure> {
        let state = RunState::from_bytes(&store.position())?;
        let directory = arguments.store.as_deref().unwrap_or(Path::new("the store")).display();
        let profile = Profile::load(store)?;
        let rows = units::count(profile.rows());
        let (what, remedy) = if state.complete {
            ("the whole profile of a stream", "--append to add more files, or another directory")
        } else {
            ("a profile that was interrupted", "--resume to go on with it, or another directory")
        };
        if !arguments.resume && !arguments.append {
            return Err(Failure::Usage(format!(
                "{directory} already holds {what}, {rows} rows; give {remedy}"
            )));
        }
        if arguments.append && !state.complete {
            return Err(Failure::Usage(format!(
                "{directory} holds {what}, {rows} rows; give --resume before --append"
            )));
        }
        if profile.memory_bytes() > arguments.memory {
            return Err(Failure::Usage(format!(
                "{directory} was made with --memory {}; give at least as much",
                units::bytes(profile.memory_bytes())
            )));
        }
        let measures_value = profile.measure() == Measure::Value;
        if measures_value != arguments.value.is_some() {
            let (was, remedy) =
                if measures_value { ("with", "give it") } else { ("without", "leave it away") };
            return Err(Failure::Usage(format!("{directory} was made {was} --value; {remedy} again")));
        }
        Ok((profile, arguments.resume.then_some(state.position)))
    }

    fn profile(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parser as a stage of the profile; it also keeps the first malformed rows.
struct Input {
    parser: Parser,
    skipped: Mutex<Vec<(u64, Skipped)>>,
}

impl Input {
    /// The first malformed rows of the stream, in its order.
    fn skipped_rows(&self) -> Vec<Skipped> {
        let mut rows = self.skipped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rows.sort_by_key(|(sequence, row)| (*sequence, row.line));
        rows.into_iter().map(|(_, row)| row).take(SKIPPED_SHOWN).collect()
    }
}

impl Parse for Input {
    type Chunk = Chunk;
    type Rows = ParsedRows;
    type Error = Failure;

    fn parse(&self, chunk: Chunk, rows: &mut ParsedRows) -> Result<(), Failure> {
        self.parser.parse(chunk, &mut rows.0)?;
        if !rows.0.bad_rows().is_empty() {
            let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
            let sequence = rows.0.chunk().sequence();
            skipped.extend(rows.0.bad_rows().iter().map(|row| {
                (sequence, Skipped { input: shown_input(&row.input), line: row.line, why: row.why.clone() })
            }));
            if skipped.len() > 64 * SKIPPED_SHOWN {
                skipped.sort_by_key(|(sequence, row)| (*sequence, row.line));
                skipped.truncate(SKIPPED_SHOWN);
            }
        }
        Ok(())
    }
}

/// A batch as the rows of a profile.
#[derive(Default)]
struct ParsedRows(Batch);

impl Rows for ParsedRows {
    fn hashes(&self) -> &[KeyHash] {
        self.0.hashes()
    }
}

impl KeyedRows for ParsedRows {
    fn key(&self, row: usize) -> &[u8] {
        self.0.key(row)
    }
    fn key_bytes(&self, row: usize) -> usize {
        self.0.key_len(row)
    }
    fn weights(&self) -> Option<&[u64]> {
        self.0.weights()
    }
    fn values(&self) -> Option<&[f64]> {
        self.0.values()
    }
    fn skipped(&self) -> u64 {
        self.0.skipped()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

fn reader_options(arguments: &ProfileArguments, plan: &Plan, threads: usize) -> Result<Options, Failure> {
    let mut options = Options::new(&arguments.files);
    options.format =
        arguments.format.format(arguments.delimiter, !arguments.no_header).map_err(Failure::Usage)?;
    options.keys.clone_from(&arguments.key);
    options.weight.clone_from(&arguments.weight);
    options.value.clone_from(&arguments.value);
    options.strict = arguments.strict;
    options.chunk_bytes = plan.chunk_bytes(threads);
    options.record_bytes_max = plan.row_bytes_max(threads).max(options.chunk_bytes);
    options.zstd_window_bytes_max = plan.window_bytes_max();
    options.bad_rows_kept = SKIPPED_SHOWN;
    Ok(options)
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8))
}

/// Refuses a budget that the machine does not have: the allocation would end the process without a word.
fn check_memory(budget_bytes: u64) -> Result<(), Failure> {
    let Some(machine_bytes) = proc_bytes("/proc/meminfo", "MemTotal:") else { return Ok(()) };
    if budget_bytes <= machine_bytes {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--memory {} is more than the {} that this machine has; give less",
        units::bytes(budget_bytes),
        units::bytes(machine_bytes)
    )))
}

fn stopped(session: &Session) -> Failure {
    let rows = units::count(session.profile().rows());
    Failure::Interrupted(if session.kept {
        format!("interrupted after {rows} rows, which are kept; run the same command with --resume to go on")
    } else {
        format!("interrupted after {rows} rows; nothing is kept without --store")
    })
}

fn shown_input(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn title(inputs: &[String]) -> String {
    match inputs {
        [one] => one.clone(),
        many => format!("{} inputs", many.len()),
    }
}

/// The high-water mark of resident memory, 0 where the system does not tell.
fn peak_memory_bytes() -> u64 {
    proc_bytes("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// A figure that the kernel gives in kB, in bytes.
fn proc_bytes(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
