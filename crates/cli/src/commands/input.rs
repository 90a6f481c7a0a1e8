//! A stream's input: reader options from the command line, and the parser as a stage that keeps account of every row.

use super::losses::{Losses, ROWS_SHOWN, Tally};
use super::rejects::{Rejects, Start, Written};
use crate::arguments::{InputArguments, MissingName};
use crate::failure::Failure;
use crate::run_state::RunState;
use crate::{closed, units};
use overbank::pipeline::Rows;
use overbank::profile::{KeyedRows, Parse, ProfilePlan};
use overbank::{KeyHash, KeyHasher};
use overbank_ingest::{Batch, Chunk, Format, Missing, Options, Parser, Position, Reader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const STANDARD_INPUT: &str = "/proc/self/fd/0";
const STANDARD_OUTPUT: &str = "/proc/self/fd/1";

/// What the reader is asked for; nothing is read yet. Rows without a key are kept by default if `keeps_rows`.
pub(super) fn reader_options(
    arguments: &InputArguments,
    weight: Option<&String>,
    value: Option<&String>,
    keeps_rows: bool,
) -> Result<Options, Failure> {
    not_closed(&arguments.files)?;
    let mut options = Options::new(&arguments.files);
    options.header = !arguments.no_header;
    options.format = arguments.format.format(arguments.delimiter, options.header).map_err(Failure::Usage)?;
    if let (true, Some(name)) = (arguments.null, arguments.format.name_if_quoted()) {
        return Err(Failure::Usage(format!(
            "--null lets a NUL end rows of --format lines, delimited or whitespace, not {name}"
        )));
    }
    if options.format == Format::Raw && arguments.rejects.is_some() {
        return Err(Failure::Usage(
            "records of --format raw are no text that could be written to --rejects; leave it away"
                .to_owned(),
        ));
    }
    (options.keys, options.key_form) = (arguments.keys(), arguments.key_form());
    (options.weight, options.value) = (weight.cloned(), value.cloned());
    options.strict = arguments.strict;
    options.missing = match arguments.missing {
        Some(MissingName::Keep) if !keeps_rows => {
            return Err(Failure::Usage(
                "--missing keep is for rows that are passed on by dedup; choose drop or error".to_owned(),
            ));
        }
        Some(MissingName::Keep) => Missing::Keep,
        Some(MissingName::Drop) => Missing::Drop,
        Some(MissingName::Error) => Missing::Error,
        None if keeps_rows => Missing::Keep,
        None => Missing::Drop,
    };
    options.nul_ends_lines = arguments.null;
    options.pass_failed_inputs = arguments.on_error.is_next();
    options.keep_rows = keeps_rows;
    options.keep_rejects = arguments.rejects.is_some();
    options.bad_rows_kept = ROWS_SHOWN;
    Ok(options)
}

/// Refuses a standard input that is not there: it is no empty one.
pub(super) fn not_closed(inputs: &[PathBuf]) -> Result<(), Failure> {
    match inputs.iter().any(|input| input == Path::new("-")) && closed::input_was() {
        true => Err(Failure::NoInput),
        false => Ok(()),
    }
}

/// Chunks of a size that the plan has room for.
pub(super) fn fit_chunks(options: &mut Options, plan: &ProfilePlan, threads: usize) {
    options.chunk_bytes = plan.chunk_bytes(threads);
    options.chunk_lines = plan.chunk_rows(threads);
    options.record_bytes_max = plan.row_bytes_max(threads).max(options.chunk_bytes);
    options.window_bytes_max = plan.window_bytes_max();
    options.parquet_bytes_max = plan.parquet_bytes_max();
}

/// What a pass goes on with.
#[derive(Clone, Copy)]
pub(super) struct GoesOn<'a> {
    /// The run that it resumes, if the store remembers one.
    pub(super) run: Option<&'a RunState>,
    /// Whether it was to resume one.
    pub(super) resumes: bool,
    /// Whether it adds to what an earlier pass left out.
    pub(super) appends: bool,
}

/// The parser as a stage of a pass; it keeps account of the rows, and writes those that are left out to the file for them.
pub(super) struct Input {
    parser: Parser,
    keys: Vec<String>,
    tally: Mutex<Tally>,
    rejects: Option<Arc<Rejects>>,
}

impl Input {
    /// The stage for the chunks of `reader`.
    pub(super) fn new(
        arguments: &InputArguments,
        options: &Options,
        hasher: KeyHasher,
        reader: &Reader,
        goes_on: GoesOn<'_>,
    ) -> Result<Self, Failure> {
        let position = reader.position();
        if goes_on.run.is_some() && arguments.rejects.is_none() && position.rejected_bytes() > 0 {
            return Err(Failure::Usage(format!(
                "the run that is gone on with wrote {} bytes of rows that were left out to the file of its --rejects; give the same \
                 --rejects, or --rejects /dev/null if they are not wanted any more",
                units::count(position.rejected_bytes())
            )));
        }
        let start = match goes_on {
            GoesOn { run: Some(run), .. } => Start::Behind(Written {
                bytes: position.rejected_bytes(),
                hash: position.rejected_hash(),
                ended: run.complete,
            }),
            GoesOn { appends: true, .. } => Start::Append,
            GoesOn { resumes: true, .. } => Start::Empty,
            _ => Start::Anew,
        };
        let line_end = if options.nul_ends_lines { 0 } else { b'\n' };
        let open = |path: &Path| {
            not_in_use(path, reader)?;
            Rejects::open(path, start, position.chunks(), line_end).map(Arc::new)
        };
        Ok(Self {
            parser: Parser::new(options, hasher),
            keys: options.keys.clone(),
            tally: Mutex::default(),
            rejects: arguments.rejects.as_deref().map(open).transpose()?,
        })
    }

    /// What was left out so far, and why.
    pub(super) fn losses(&self) -> Losses {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).losses()
    }

    /// Refuses a whole input of which no row had a key: a field's name was mistyped, or the format is another. `rows_before` is
    /// how many rows an earlier run had used.
    pub(super) fn check(&self, rows_before: u64) -> Result<(), Failure> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).check(&self.keys, rows_before)
    }

    /// The position to commit once all chunks before it were parsed: with what the file of rejects holds, which is then durable.
    pub(super) fn mark(&self, position: &Position) -> Result<Position, Failure> {
        let Some(rejects) = &self.rejects else { return Ok(position.clone()) };
        rejects.sync()?;
        let (bytes, hash) = rejects.written();
        Ok(position.clone().with_rejected(bytes, hash))
    }
}

impl Parse for Input {
    type Chunk = Chunk;
    type Rows = ParsedRows;
    type Error = Failure;

    fn parse(&self, chunk: Chunk, rows: &mut ParsedRows) -> Result<(), Failure> {
        let turn = self.rejects.as_ref().map(|rejects| rejects.turn(chunk.sequence())).transpose()?;
        self.parser.parse(chunk, &mut rows.batch)?;
        rows.rejected = None;
        if let (Some(turn), Some(rejects)) = (turn, &self.rejects) {
            rows.rejected = Some((Arc::clone(rejects), turn.write(rows.batch.rejects())?));
        }
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(&rows.batch);
        Ok(())
    }
}

/// A batch as the rows of a profile.
#[derive(Default)]
pub(super) struct ParsedRows {
    batch: Batch,
    /// The file of rejects, its length behind these rows, and the hash of what it holds.
    rejected: Option<(Arc<Rejects>, (u64, u128))>,
}

impl ParsedRows {
    /// The chunk that the rows came from.
    pub(super) fn chunk(&self) -> &Chunk {
        self.batch.chunk()
    }

    /// The rows as they were parsed.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// How many rows there are, those without a key and malformed ones included.
    pub(super) fn total(&self) -> u64 {
        self.batch.rows() as u64 + self.batch.malformed() + self.batch.missing()
    }

    /// The place of a row among them.
    pub(super) fn ordinal(&self, row: usize) -> u64 {
        self.batch.ordinal(row)
    }

    /// A row as it stands in the input.
    #[inline]
    pub(super) fn row(&self, row: usize) -> &[u8] {
        self.batch.row(row)
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.batch.keys()
    }

    /// What goes with each key, where it is asked for.
    pub(super) fn payloads(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.batch.payloads()
    }

    /// The rows without a key that are kept, in order: each with how many of the rows with one come before it, and its place among all.
    pub(super) fn keyless(&self) -> impl ExactSizeIterator<Item = (usize, u64, &[u8])> {
        self.batch.keyless()
    }

    /// How many rows are malformed, and how many have no key, kept or not.
    pub(super) fn lost(&self) -> (u64, u64) {
        (self.batch.malformed(), self.batch.missing())
    }

    /// The position to commit behind these rows: with what the file of rejects holds, which is then durable.
    pub(super) fn position(&self) -> Result<Position, Failure> {
        let position = self.chunk().position().clone();
        let Some((rejects, (bytes, hash))) = &self.rejected else { return Ok(position) };
        rejects.sync()?;
        Ok(position.with_rejected(*bytes, *hash))
    }
}

impl Rows for ParsedRows {
    fn hashes(&self) -> &[KeyHash] {
        self.batch.hashes()
    }
}

impl KeyedRows for ParsedRows {
    fn key(&self, row: usize) -> &[u8] {
        self.batch.key(row)
    }
    fn key_bytes(&self, row: usize) -> usize {
        self.batch.key_len(row)
    }
    fn weights(&self) -> Option<&[u64]> {
        self.batch.weights()
    }
    fn values(&self) -> Option<&[f64]> {
        self.batch.values()
    }
    fn skipped(&self) -> u64 {
        self.batch.skipped()
    }
    fn bytes(&self) -> u64 {
        self.batch.bytes()
    }
}

/// Refuses to write rejects over what is being read, or into standard output.
fn not_in_use(path: &Path, reader: &Reader) -> Result<(), Failure> {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino(), file.is_file()));
    let Some(own @ (.., true)) = identity(path) else { return Ok(()) };
    let is_own = |path: &Path| identity(path) == Some(own);
    let opened =
        |input: &Path| is_own(if input == Path::new("-") { Path::new(STANDARD_INPUT) } else { input });
    let use_of_it = if reader.inputs().any(opened) {
        "an input, which it would overwrite"
    } else if is_own(Path::new(STANDARD_OUTPUT)) {
        "the output too, and one file cannot be both"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!("--rejects {} is {use_of_it}; give another file", path.display())))
}
