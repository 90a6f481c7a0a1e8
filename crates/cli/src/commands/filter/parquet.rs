//! Rows of Parquet inputs as a Parquet output: written as a whole or not at all, because a file is nothing without its end.
//!
//! So a store is committed once, when the output is whole: a run that is interrupted leaves the store as it was, and the same command
//! starts anew.

use crate::failure::Failure;
use overbank_ingest::{Error, ParquetWriter};
use std::io::Write;

/// A Parquet output.
pub(in crate::commands) struct ParquetRows<W: Write + Send> {
    /// `None` once it is whole.
    writer: Option<ParquetWriter<W>>,
}

impl<W: Write + Send> ParquetRows<W> {
    /// An output of rows of `wanted.inputs`.
    pub(in crate::commands) fn new(out: W, wanted: ParquetWanted) -> Result<Self, Failure> {
        let writer = ParquetWriter::new(out, wanted.inputs, wanted.bytes_max).map_err(failure)?;
        Ok(Self { writer: Some(writer) })
    }

    /// Writes the row of this name.
    pub(in crate::commands) fn row(&mut self, name: &[u8]) -> Result<(), Failure> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.keep(name).map_err(failure))
    }

    /// Writes all that waits, and the end; the output, as it was given, the first time.
    pub(in crate::commands) fn finish(&mut self) -> Result<Option<W>, Failure> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let mut out = writer.finish().map_err(failure)?;
        out.flush()?;
        Ok(Some(out))
    }
}

/// What a Parquet output is made of.
pub(in crate::commands) struct ParquetWanted {
    pub(in crate::commands) inputs: Vec<std::path::PathBuf>,
    /// What copying may take.
    pub(in crate::commands) bytes_max: usize,
}

/// A failed write is one of the output, whatever wrote.
fn failure(error: Error) -> Failure {
    match error {
        Error::Write { source } => source.into(),
        other => other.into(),
    }
}
