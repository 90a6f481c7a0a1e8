//! A stream's input as the profile takes it: reader options from the command line, and the parser as a stage that keeps the
//! first malformed rows.

use crate::arguments::InputArguments;
use crate::failure::Failure;
use crate::picture::Skipped;
use overbank::KeyHash;
use overbank::profile::{KeyedRows, Parse, Plan, Rows};
use overbank_ingest::{Batch, Chunk, Options, Parser};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How many malformed rows are shown.
const SKIPPED_SHOWN: usize = 5;

/// What the reader is asked for; nothing is read yet.
pub(super) fn reader_options(
    arguments: &InputArguments,
    weight: Option<&String>,
    value: Option<&String>,
) -> Result<Options, Failure> {
    let mut options = Options::new(&arguments.files);
    options.format =
        arguments.format.format(arguments.delimiter, !arguments.no_header).map_err(Failure::Usage)?;
    options.keys.clone_from(&arguments.key);
    (options.weight, options.value) = (weight.cloned(), value.cloned());
    options.strict = arguments.strict;
    options.bad_rows_kept = SKIPPED_SHOWN;
    Ok(options)
}

/// Chunks of a size that the plan has room for.
pub(super) fn fit_chunks(options: &mut Options, plan: &Plan, threads: usize) {
    options.chunk_bytes = plan.chunk_bytes(threads);
    options.chunk_lines = plan.chunk_rows(threads);
    options.record_bytes_max = plan.row_bytes_max(threads).max(options.chunk_bytes);
    options.zstd_window_bytes_max = plan.window_bytes_max();
    options.parquet_bytes_max = plan.parquet_bytes_max();
}

/// The parser as a stage of the profile; it also keeps the first malformed rows.
pub(super) struct Input {
    parser: Parser,
    skipped: Mutex<Vec<(u64, Skipped)>>,
}

impl Input {
    pub(super) fn new(parser: Parser) -> Self {
        Self { parser, skipped: Mutex::default() }
    }

    /// The first malformed rows of the stream, in its order.
    pub(super) fn skipped_rows(&self) -> Vec<Skipped> {
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
pub(super) struct ParsedRows(Batch);

impl ParsedRows {
    /// The chunk that the rows came from.
    pub(super) fn chunk(&self) -> &Chunk {
        self.0.chunk()
    }

    /// How many rows there are, those that were skipped included.
    pub(super) fn total(&self) -> u64 {
        self.0.rows() as u64 + self.0.skipped()
    }

    /// The place of a row among them.
    pub(super) fn ordinal(&self, row: usize) -> u64 {
        self.0.ordinal(row)
    }

    /// A row as it stands in the input.
    #[inline]
    pub(super) fn row(&self, row: usize) -> &[u8] {
        self.0.row(row)
    }
}

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

/// An input as people know it.
pub(super) fn shown_input(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
