//! One pass over a stream whose rows are grouped: parsed, typed and inserted side by side, then written as a whole.
//!
//! ```text
//!   reader ─▶ chunk ─▶ rows ─▶ record batches ─▶ groups ─▶ record batches ─▶ output
//!              (any number of threads)                     (one)
//! ```
//!
//! With a store, the threads stop where a commit is due: it has all rows of the chunks before the reader's position and no others.

use super::session::{Definition, LG_CHUNK_PLACES, Session};
use super::state::GroupState;
use super::writer::Writer;
use super::{order, told};
use crate::announce;
use crate::arguments::{GroupedArguments, InputArguments, text_of_types, types_of_text};
use crate::commands::filter::session::fit_chunks;
use crate::commands::input::{self, GoesOn, Input, ParsedRows};
use crate::commands::losses::{self, Budget};
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::resident;
use crate::run_state::{RunState, foreign};
use crate::units;
use arrow_array::RecordBatch;
use overbank::pipeline::{self, Group, Stages};
use overbank::profile::{MEMORY_BYTES_MIN as PROFILE_BYTES_MIN, Parse, ProfilePlan};
use overbank::{HashKind, KeyHasher, Seed};
use overbank_ingest::{Batch, Chunk, ColumnOption, ColumnType, Options, Parser, Reader};
use overbank_table::TableGroups;
use std::collections::VecDeque;
use std::io::{IsTerminal as _, stdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least of all memory: half of it is as little as the chunks of a profile take.
const MEMORY_BYTES_MIN: u64 = 2 * PROFILE_BYTES_MIN;

/// How long a pipe is waited for until what came is taken.
const PAUSE: Duration = Duration::from_secs(1);

/// What becomes of the rows of a stream.
pub(super) trait Grouping: Sync {
    /// Says what is to be read of each row.
    fn ask(&self, options: &mut Options);

    /// Settles the types of what is read, once the first rows are there.
    fn settle(&self, columns: &mut [ColumnOption], first: &First<'_>) -> Result<(), Failure>;

    /// Refuses types that are not those which were asked for.
    fn check_types(&self, columns: &[ColumnOption]) -> Result<(), Failure> {
        let _ = columns;
        Ok(())
    }

    /// The groups of rows with these columns.
    fn definition(&self, columns: &[ColumnOption]) -> Definition;

    /// What is computed, in words that differ where it does.
    fn command(&self) -> String;

    /// Calls `take` with the rows, which have `columns`, as record batches, of a few thousand rows each where one row makes many.
    ///
    /// # Errors
    /// What `take` says.
    fn each(&self, columns: &[ColumnOption], rows: &Batch, take: Take<'_>) -> Result<(), Failure>;
}

/// What takes rows: a batch, and how many rows of the chunk come before it.
pub(super) type Take<'t> = &'t mut dyn FnMut(&RecordBatch, u64) -> Result<(), Failure>;

/// The first rows of a stream.
pub(super) struct First<'a> {
    pub(super) rows: &'a Batch,
    /// The types that the input gives its columns, if it does.
    pub(super) types: Option<&'a [ColumnType]>,
}

/// Reads, groups and writes.
pub(super) fn run(
    arguments: &InputArguments,
    grouped: &GroupedArguments,
    grouping: &impl Grouping,
) -> CommandResult {
    let machine = &grouped.machine;
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let (file, store) = (grouped.file().map(std::path::PathBuf::as_path), grouped.store.as_deref());
    Written { output: file, prints_rows: true, rejects: arguments.rejects.as_deref(), store }.check()?;
    let mut options = input::reader_options(arguments, None, None, false)?;
    let threads = fit_chunks(&mut options, machine, MEMORY_BYTES_MIN)?;
    // What is typed takes as much again as the text, and what goes into the groups once more.
    options.chunk_bytes = (options.chunk_bytes / 4).max(1);
    options.chunk_lines = (options.chunk_lines / 4).max(1);
    options.pause = Some(PAUSE);
    options.waiter = Arc::new(interrupt.waiter()?);
    grouping.ask(&mut options);
    let plan = |memory_bytes| ProfilePlan::for_memory(memory_bytes).ok();
    let budget = Budget { memory_bytes: machine.memory, threads, plan };
    let command = grouping.command();
    announce::at("opening");
    // A store that is gone on with knows the types. Otherwise what cannot be is found before there is one.
    let goes_on = grouped.resume || grouped.append;
    let open = || Session::open(grouped, &command, threads);
    let mut session = if goes_on { Some(open()?) } else { None };
    let mut reader = Reader::open(options.clone()).map_err(|error| budget.explain(error))?;
    let mut first = Sample::default();
    match session.as_ref().and_then(|session| session.before.as_ref()) {
        Some(before) => take_types(&mut options.columns, before)?,
        None => {
            first.read(&mut reader, &options).map_err(|error| budget.explain(error))?;
            grouping.settle(&mut options.columns, &first.as_first())?;
        }
    }
    grouping.check_types(&options.columns)?;
    let definition = grouping.definition(&options.columns);
    let schema = definition.results().map_err(told)?;
    let order = order(grouped, &schema, definition.by.len())?;
    let mut writer = Writer::open(grouped, &schema, &interrupt)?;
    writer.check(reader.inputs())?;
    let session = session.take().map_or_else(open, Ok)?;
    let groups = session.groups(&definition, machine.memory, threads)?;
    announce::at("opened");

    let resumed = session.resumed(grouped);
    if let Some(state) = resumed {
        let resumed = Reader::resume(options.clone(), &state.run.position);
        reader = resumed.map_err(|error| budget.explain(error))?;
    }
    let goes_on =
        GoesOn { run: resumed.map(|state| &state.run), resumes: grouped.resume, appends: grouped.append };
    let input = Input::new(arguments, &options, session.store.hasher(), &reader, goes_on)?;
    let (rows_before, first_place) = (session.rows_before(), session.first_place(grouped));
    let flow = Flow {
        input,
        grouping,
        groups: &groups,
        columns: &options.columns,
        first_place,
        columns_seen: Mutex::new(0),
        rows: AtomicU64::new(0),
    };
    let is_quiet = machine.quiet || file.is_none() && stdout().is_terminal();
    let progress = Progress::start(reader.total_bytes(), is_quiet);
    resident::let_start_up_go();
    let mut waiting = first.into_chunks();
    let types = text_of_types(options.columns.iter().map(|column| (column.name.as_str(), column.kind)));
    loop {
        let deadline = Instant::now() + Duration::from_secs_f64(grouped.commit_every);
        let (mut ended, mut has_news) = (false, false);
        let next = || {
            // Something new lies between two commits, however short the time between them.
            if interrupt.is_raised() || has_news && session.is_kept && Instant::now() >= deadline {
                return Ok(None);
            }
            let chunk = match waiting.pop_front().map_or_else(|| reader.next_chunk(), |chunk| Ok(Some(chunk)))
            {
                Err(overbank_ingest::Error::Interrupted { .. }) => return Ok(None),
                chunk => chunk.map_err(|error| budget.explain(error))?,
            };
            announce::at("chunk");
            has_news |= chunk.as_ref().is_some_and(|chunk| !chunk.is_empty());
            ended = chunk.is_none();
            progress.update(reader.bytes_read());
            Ok(chunk)
        };
        // After an error the position of the last row that was taken is not known: the last commit stands.
        let outcome = pipeline::run(&flow, next, vec![()], &mut vec![(); threads]);
        outcome.inspect_err(|_| flow.input.losses().report())?;
        let rows = flow.rows.load(Ordering::Relaxed);
        if ended {
            let checked = flow.input.check(rows_before).and_then(|()| flow.check_columns(rows));
            checked.inspect_err(|_| flow.input.losses().report())?;
        }
        if session.is_kept && waiting.is_empty() {
            let position = flow.input.mark(reader.position())?.with_rows(rows_before + rows);
            let run = RunState { complete: ended, position };
            let state = GroupState { run, first_place, command: command.clone(), types: types.clone() };
            announce::at("committing");
            session.store.commit(&state.to_bytes())?;
            announce::at("committed");
        }
        if ended {
            break;
        }
        if interrupt.is_raised() {
            flow.input.losses().report();
            return Err(interrupted(rows, session.is_kept));
        }
    }
    drop(progress);
    flow.input.losses().report();

    writer.begin()?;
    let batches = match &order {
        None => groups.batches(),
        Some((order, n)) => groups.top(*n, order),
    };
    for batch in batches.map_err(told)? {
        writer.write(&batch.map_err(told)?)?;
        announce::at("written");
        if interrupt.is_raised() || writer.has_left() {
            return Err(interrupted(rows_before + flow.rows.load(Ordering::Relaxed), session.is_kept));
        }
    }
    writer.finish(&schema)?;
    let failures: Vec<Failure> =
        reader.take_failures().into_iter().map(|error| budget.explain(error)).collect();
    losses::report_failures(failures.into_iter(), reader.inputs().len())?;
    Ok(Outcome::Found)
}

/// Gives columns the types that a store remembers.
fn take_types(columns: &mut [ColumnOption], before: &GroupState) -> Result<(), Failure> {
    let types = types_of_text(&before.types).map_err(|_| foreign())?;
    for column in columns {
        let stored = types.iter().find(|(name, _)| *name == column.name);
        column.kind = stored.ok_or_else(foreign)?.1;
    }
    Ok(())
}

/// The first chunks of a stream, up to one that has rows.
#[derive(Default)]
struct Sample {
    /// Those before it.
    chunks: VecDeque<Chunk>,
    rows: Batch,
    /// The types that the input of the last one gives its columns.
    types: Option<Vec<ColumnType>>,
}

impl Sample {
    fn read(&mut self, reader: &mut Reader, options: &Options) -> Result<(), overbank_ingest::Error> {
        let options = Options { strict: false, ..options.clone() };
        let parser = Parser::new(&options, KeyHasher::new(HashKind::Xxh3, Seed(0)));
        loop {
            let chunk = match reader.next_chunk() {
                Ok(Some(chunk)) => chunk,
                // The pass finds out by itself.
                Ok(None) | Err(overbank_ingest::Error::Interrupted { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.types = chunk.column_types().map(<[_]>::to_vec);
            parser.parse(chunk, &mut self.rows)?;
            if self.rows.rows() > 0 {
                return Ok(());
            }
            self.chunks.extend(self.rows.take_chunk());
        }
    }

    fn as_first(&self) -> First<'_> {
        First { rows: &self.rows, types: self.types.as_deref() }
    }

    /// All chunks that were read, to be read again with their types.
    fn into_chunks(mut self) -> VecDeque<Chunk> {
        self.chunks.extend(self.rows.take_chunk());
        self.chunks
    }
}

fn interrupted(rows: u64, is_kept: bool) -> Failure {
    let rows = units::counted(rows, "row");
    Failure::Interrupted(if is_kept {
        format!("interrupted after {rows}, which are kept; run the same command with --resume to go on")
    } else {
        format!(
            "interrupted after {rows}; a file of groups is written as a whole, so it is as it was: run the same command again"
        )
    })
}

/// The stages of a pass. Everything is done where a chunk is parsed: groups take rows from any thread.
struct Flow<'a, G> {
    input: Input,
    grouping: &'a G,
    groups: &'a TableGroups,
    columns: &'a [ColumnOption],
    /// The place of the stream's first row.
    first_place: u64,
    /// The columns that some row has, as bits.
    columns_seen: Mutex<u128>,
    rows: AtomicU64,
}

impl<G> Flow<'_, G> {
    /// Refuses a whole input of which no row has a field: its name was mistyped.
    fn check_columns(&self, rows: u64) -> Result<(), Failure> {
        let seen = *self.columns_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut columns = self.columns.iter().enumerate();
        match columns.find(|(number, _)| rows > 0 && seen >> number & 1 == 0) {
            None => Ok(()),
            Some((_, column)) => Err(Failure::Usage(format!(
                "no row has a field {} ({} read); check --by and --agg, and --format",
                column.name,
                units::count(rows)
            ))),
        }
    }
}

impl<G: Grouping> Stages for Flow<'_, G> {
    type Chunk = Chunk;
    type Rows = ParsedRows;
    type Shard = ();
    type Tally = ();
    type Error = Failure;

    fn parse(&self, chunk: Chunk, rows: &mut ParsedRows) -> Result<(), Failure> {
        let place = self.first_place + (chunk.sequence() << LG_CHUNK_PLACES);
        self.input.parse(chunk, rows)?;
        let batch = rows.batch();
        self.rows.fetch_add(batch.rows() as u64, Ordering::Relaxed);
        if batch.rows() > 0 {
            *self.columns_seen.lock().unwrap_or_else(PoisonError::into_inner) |= batch.columns_seen();
        }
        let mut take = |rows: &RecordBatch, before| self.groups.insert_at(rows, place + before).map_err(told);
        self.grouping.each(self.columns, batch, &mut take)
    }

    fn apply(&self, _: &mut (), _: &mut (), _: &ParsedRows, _: Group<'_>) {}

    fn finish(&self, _: &mut (), _: &ParsedRows) -> Result<(), Failure> {
        Ok(())
    }
}
