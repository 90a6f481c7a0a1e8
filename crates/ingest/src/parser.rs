//! The parallel stage: chunks in, batches of hashed keys out.

use crate::batch::{Batch, Span, StoredColumn};
use crate::chunk::Chunk;
use crate::layout::Layout;
use crate::rows::{Rows, Wanted};
use crate::{KeyForm, Options, Result, csv, delimited, fasta, json, parquet, raw};
use keyhash::KeyHasher;

/// Parses chunks into batches. It holds no state between chunks, so any number of threads share one.
#[derive(Clone, Debug)]
pub struct Parser {
    hasher: KeyHasher,
    form: KeyForm,
    wanted: Wanted,
}

impl Parser {
    /// A parser for the chunks of a reader with the same `options`; `hasher` hashes the keys.
    pub fn new(options: &Options, hasher: KeyHasher) -> Self {
        Self { hasher, form: options.key_form, wanted: Wanted::of(options) }
    }

    /// Replaces what is in `out` by the rows of `chunk`, in order.
    ///
    /// # Cost
    /// One pass to parse and one to hash; no allocation a row, save where a JSON string has escapes.
    ///
    /// # Errors
    /// [`BadRow`](crate::Error::BadRow) for a malformed row, if `strict`; [`MissingKey`](crate::Error::MissingKey) for a row without a
    /// key, if `missing` says so; for Parquet, whatever reading the file brings. `out` is then empty.
    pub fn parse(&self, chunk: Chunk, out: &mut Batch) -> Result<()> {
        out.reset(self.wanted.weighted, self.wanted.valued);
        if let Err(error) = self.fill(&chunk, out) {
            out.reset(self.wanted.weighted, self.wanted.valued);
            return Err(error);
        }
        out.chunk = Some(chunk);
        if !self.wanted.is_keyless() {
            out.hash_keys(&self.hasher, self.form);
        }
        Ok(())
    }

    fn fill(&self, chunk: &Chunk, out: &mut Batch) -> Result<()> {
        // A batch may come from a parser for other columns.
        if !out.columns.iter().map(StoredColumn::kind).eq(self.wanted.columns.iter().copied()) {
            out.columns = self.wanted.columns.iter().map(|&kind| StoredColumn::new(kind)).collect();
        }
        out.fields.clear();
        out.fields.resize(self.wanted.names.len(), Span::MISSING);
        let mut rows = Rows::of(chunk, &self.wanted, out);
        match &*chunk.layout {
            Layout::Parquet { keeps_rows, .. } => parquet::parse(*keeps_rows, &mut rows)?,
            Layout::Lines => rows.lines(),
            Layout::Delimited { delimiter, columns } => {
                delimited::parse(*delimiter, columns, &mut rows)?;
            }
            Layout::Csv { delimiter, columns, .. } => csv::parse(*delimiter, columns, &mut rows)?,
            Layout::Json(tree) => json::parse(tree, &mut rows)?,
            Layout::Fasta(columns) => fasta::parse(columns, &mut rows)?,
            Layout::Fastq(columns) => fasta::parse_fastq(columns, &mut rows)?,
            Layout::Raw(columns) => raw::parse(columns, &mut rows)?,
        }
        Ok(())
    }
}
