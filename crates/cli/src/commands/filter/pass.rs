//! One pass over a stream whose keys go to a filter: parsed side by side, taken in the stream's order.

use super::session::{MEMORY_BYTES_MIN, fit_chunks};
use crate::announce;
use crate::arguments::InputArguments;
use crate::commands::input::{self, GoesOn, Input, ParsedRows};
use crate::commands::losses::{Budget, Losses};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::resident;
use crate::run_state::RunState;
use overbank::KeyHasher;
use overbank::pipeline::{self, Group, Stages};
use overbank::profile::{Parse, ProfilePlan};
use overbank_ingest::{Format, Options, Payload, Position, Reader, Waiter};
use std::io::{IsTerminal, stdout};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pipe that has nothing for so long gets the answers to what it said: below what people notice.
pub(in crate::commands) const PAUSE: Duration = Duration::from_millis(100);

/// What takes the rows of a stream, chunk by chunk, in order.
pub(in crate::commands) trait Take: Send {
    /// The stream starts where `reader` stands.
    fn begin(&mut self, reader: &Reader) -> Result<(), Failure>;

    /// Takes the rows of a chunk.
    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure>;

    /// The stream cannot be read further: what was taken is answered, but nothing remembers where that was.
    fn stop(&mut self) -> Result<(), Failure>;

    /// The stream ends here, for now or, if `complete`, for good: nothing may wait any longer. `header` is that of the last input.
    fn end(&mut self, position: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure>;
}

/// What is printed of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Printed {
    Nothing,
    /// The rows as they stand, or what names those of Parquet.
    Rows,
    Numbers,
}

/// A stream about to be read.
pub(in crate::commands) struct Pass<'a> {
    arguments: &'a InputArguments,
    options: Options,
    memory_bytes: u64,
    pub(in crate::commands) threads: usize,
    /// Whether it was to go on with an earlier pass.
    pub(in crate::commands) resumes: bool,
    /// Whether it adds to what an earlier pass left out.
    pub(in crate::commands) appends: bool,
    /// How many keys the run had found that it goes on with.
    pub(in crate::commands) keys_before: u64,
    is_quiet: bool,
}

/// How a pass went.
pub(in crate::commands) struct Passed {
    pub(in crate::commands) seconds: f64,
    pub(in crate::commands) losses: Losses,
    /// What the inputs failed by that were not read to their end.
    pub(in crate::commands) failures: Vec<Failure>,
    /// How many inputs there are.
    pub(in crate::commands) inputs: usize,
    /// Whether the stream was read to its end, not interrupted.
    pub(in crate::commands) complete: bool,
}

impl<'a> Pass<'a> {
    /// A pass over the rows of `arguments`, of which `printed` is needed.
    pub(in crate::commands) fn new(
        arguments: &'a InputArguments,
        machine: &crate::arguments::MachineArguments,
        printed: Printed,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let mut options = input::reader_options(arguments, None, None, printed != Printed::Nothing)?;
        if options.format == Format::Raw && printed == Printed::Rows {
            return Err(Failure::Usage(
                "records of --format raw are no lines that could be passed on; ask for --row-numbers, or write the input as CSV first"
                    .to_owned(),
            ));
        }
        let threads = fit_chunks(&mut options, machine, MEMORY_BYTES_MIN)?;
        options.keep_rows = printed == Printed::Rows;
        options.number_rows = printed == Printed::Numbers;
        options.pause = Some(PAUSE);
        options.waiter = Arc::new(interrupt.waiter()?);
        // A line that shows progress would mix with rows on the same terminal.
        let is_quiet = machine.quiet || printed != Printed::Nothing && stdout().is_terminal();
        let memory_bytes = machine.memory;
        let (resumes, appends, keys_before) = (false, false, 0);
        Ok(Self { arguments, options, memory_bytes, threads, resumes, appends, keys_before, is_quiet })
    }

    /// Has `payload` go along with each key; `has_escapes` says of delimited fields that they are written with escapes.
    pub(in crate::commands) fn with_payload(mut self, payload: Payload, has_escapes: bool) -> Self {
        // What is joined or unescaped takes as much again as the text.
        self.options.chunk_bytes = (self.options.chunk_bytes / 2).max(1);
        self.options.chunk_lines = (self.options.chunk_lines / 2).max(1);
        (self.options.payload, self.options.has_escapes) = (payload, has_escapes);
        self
    }

    /// Finds an input that is not there, before there is a store.
    pub(in crate::commands) fn check_inputs(&self) -> Result<(), Failure> {
        Ok(Reader::open(self.options.clone()).map(drop)?)
    }

    /// The inputs, if rows that are printed are to be written as Parquet: if they come from there.
    pub(in crate::commands) fn parquet_inputs(&self) -> Result<Option<Vec<PathBuf>>, Failure> {
        if self.options.keep_rows { Ok(overbank_ingest::parquet_inputs(&self.options)?) } else { Ok(None) }
    }

    /// What a Parquet file may take.
    pub(in crate::commands) fn parquet_bytes_max(&self) -> usize {
        self.options.parquet_bytes_max
    }

    /// The clock of the pass.
    pub(in crate::commands) fn clock(&self) -> Arc<dyn Waiter> {
        Arc::clone(&self.options.waiter)
    }

    /// Reads from where `resumed` stood, or from the start, to the end or an interrupt.
    pub(in crate::commands) fn run(
        self,
        hasher: KeyHasher,
        resumed: Option<&RunState>,
        interrupt: &Interrupt,
        taker: &mut impl Take,
    ) -> Result<Passed, Failure> {
        let started = Instant::now();
        let plan = |memory_bytes| ProfilePlan::for_memory(memory_bytes).ok();
        let budget = Budget { memory_bytes: self.memory_bytes, threads: self.threads, plan };
        let reader = match resumed {
            Some(run) => Reader::resume(self.options.clone(), &run.position),
            None => Reader::open(self.options.clone()),
        };
        let mut reader = reader.map_err(|error| budget.explain(error))?;
        let goes_on = GoesOn { run: resumed, resumes: self.resumes, appends: self.appends };
        let input = Input::new(self.arguments, &self.options, hasher, &reader, goes_on)?;
        let flow = Flow { input, taker: PhantomData };
        taker.begin(&reader)?;
        let progress = Progress::start(reader.total_bytes(), self.is_quiet);
        resident::let_start_up_go();
        let (mut complete, mut is_unreadable) = (false, false);
        let next = || {
            if interrupt.is_raised() {
                return Ok(None);
            }
            let chunk = match reader.next_chunk() {
                Err(overbank_ingest::Error::Interrupted { .. }) => return Ok(None),
                chunk => chunk.map_err(|error| {
                    is_unreadable = true;
                    budget.explain(error)
                })?,
            };
            announce::at("chunk");
            complete = chunk.is_none();
            progress.update(reader.bytes_read());
            Ok(chunk)
        };
        let mut tallies: Vec<Option<Failure>> = (0..self.threads).map(|_| None).collect();
        let shard = Shard { taker, has_failed: false };
        let outcome = pipeline::run(&flow, next, vec![shard], &mut tallies);
        drop(progress);
        let input = flow.input;
        let losses = input.losses();
        let checked = if complete { input.check(self.keys_before) } else { Ok(()) };
        if let Err(failure) = outcome.and(checked) {
            losses.report();
            if is_unreadable || complete || matches!(failure, Failure::Ingest(_)) {
                taker.stop()?;
            }
            return Err(failure);
        }
        taker.end(&input.mark(reader.position())?, reader.header(), complete)?;
        losses.report();
        let failures = reader.take_failures().into_iter().map(|error| budget.explain(error)).collect();
        let (seconds, inputs) = (started.elapsed().as_secs_f64(), reader.inputs().len());
        // A signal may have come while the last rows were on their way out.
        let complete = complete && !interrupt.is_raised();
        Ok(Passed { seconds, losses, failures, inputs, complete })
    }
}

/// The stages of a pass: one shard, which sees whole chunks in order.
struct Flow<'t, T> {
    input: Input,
    taker: PhantomData<fn(&'t mut T)>,
}

/// Who takes the rows; nobody after a failure.
struct Shard<'t, T> {
    taker: &'t mut T,
    has_failed: bool,
}

impl<'t, T: Take> Stages for Flow<'t, T> {
    type Chunk = overbank_ingest::Chunk;
    type Rows = ParsedRows;
    type Shard = Shard<'t, T>;
    type Tally = Option<Failure>;
    type Error = Failure;

    fn parse(&self, chunk: Self::Chunk, rows: &mut ParsedRows) -> Result<(), Failure> {
        self.input.parse(chunk, rows)
    }

    fn apply(
        &self,
        shard: &mut Shard<'t, T>,
        failure: &mut Option<Failure>,
        rows: &ParsedRows,
        _: Group<'_>,
    ) {
        if shard.has_failed {
            return;
        }
        *failure = shard.taker.take(rows).err();
        shard.has_failed = failure.is_some();
    }

    fn finish(&self, failure: &mut Option<Failure>, _: &ParsedRows) -> Result<(), Failure> {
        failure.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
