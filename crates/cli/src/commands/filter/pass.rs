//! One pass over a stream whose keys go to a filter: parsed side by side, taken in the stream's order.

use super::session::check_memory;
use crate::arguments::InputArguments;
use crate::commands::input::{self, Input, ParsedRows};
use crate::commands::stream::default_threads;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::picture::Skipped;
use crate::progress::Progress;
use overbank::KeyHasher;
use overbank::profile::pipeline::{self, Group, Stages};
use overbank::profile::{Parse, Plan};
use overbank_ingest::{Options, Parser, Position, Reader, Waiter};
use std::io::{IsTerminal, stdout};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pipe that has nothing for so long gets the answers to what it said: below what people notice.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// What takes the rows of a stream, chunk by chunk, in order.
pub(super) trait Take: Send {
    /// The stream starts here.
    fn begin(&mut self, position: &Position) -> Result<(), Failure>;

    /// Takes the rows of a chunk.
    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure>;

    /// The stream cannot be read further: what was taken is answered, but nothing remembers where that was.
    fn stop(&mut self) -> Result<(), Failure>;

    /// The stream ends here, for now or, if `complete`, for good: nothing may wait any longer. `header` is that of the last input.
    fn end(&mut self, position: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure>;
}

/// A stream about to be read.
pub(super) struct Pass {
    options: Options,
    pub(super) threads: usize,
    is_quiet: bool,
}

/// How a pass went.
pub(super) struct Passed {
    pub(super) seconds: f64,
    pub(super) skipped: Vec<Skipped>,
    /// Whether the stream was read to its end, not interrupted.
    pub(super) complete: bool,
}

impl Pass {
    /// A pass over the rows of `arguments`, which are kept as they stand if `keeps_rows`.
    pub(super) fn new(
        arguments: &InputArguments,
        machine: &crate::arguments::MachineArguments,
        keeps_rows: bool,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        check_memory(machine.memory)?;
        let threads = machine.threads.map_or_else(default_threads, usize::from);
        let mut options = input::reader_options(arguments, None, None)?;
        input::fit_chunks(&mut options, &Plan::for_memory(machine.memory)?, threads);
        options.keep_rows = keeps_rows;
        options.pause = Some(PAUSE);
        options.waiter = Arc::new(interrupt.waiter()?);
        // A line that shows progress would mix with rows on the same terminal.
        let is_quiet = machine.quiet || keeps_rows && stdout().is_terminal();
        Ok(Self { options, threads, is_quiet })
    }

    /// The clock of the pass.
    pub(super) fn clock(&self) -> Arc<dyn Waiter> {
        Arc::clone(&self.options.waiter)
    }

    /// Reads from `resume_at`, or from the start, to the end or an interrupt.
    pub(super) fn run(
        self,
        hasher: KeyHasher,
        resume_at: Option<&Position>,
        interrupt: &Interrupt,
        taker: &mut impl Take,
    ) -> Result<Passed, Failure> {
        let started = Instant::now();
        let mut reader = match resume_at {
            Some(position) => Reader::resume(self.options.clone(), position)?,
            None => Reader::open(self.options.clone())?,
        };
        let flow = Flow { input: Input::new(Parser::new(&self.options, hasher)), taker: PhantomData };
        taker.begin(reader.position())?;
        let progress = Progress::start(reader.total_bytes(), self.is_quiet);
        let mut complete = false;
        let next = || {
            if interrupt.is_raised() {
                return Ok(None);
            }
            let chunk = match reader.next_chunk() {
                Err(overbank_ingest::Error::Interrupted { .. }) => return Ok(None),
                chunk => chunk?,
            };
            complete = chunk.is_none();
            progress.update(reader.bytes_read());
            Ok(chunk)
        };
        let mut tallies: Vec<Option<Failure>> = (0..self.threads).map(|_| None).collect();
        let shard = Shard { taker, has_failed: false };
        let outcome = pipeline::run(&flow, next, vec![shard], &mut tallies);
        drop(progress);
        let skipped = flow.input.skipped_rows();
        if let Err(failure) = outcome {
            if matches!(failure, Failure::Ingest(_)) {
                taker.stop()?;
            }
            return Err(failure);
        }
        taker.end(reader.position(), reader.header(), complete)?;
        // A signal may have come while the last rows were on their way out.
        let complete = complete && !interrupt.is_raised();
        Ok(Passed { seconds: started.elapsed().as_secs_f64(), skipped, complete })
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
