//! Rows on the output, byte for byte or as Parquet, and how far they got.

use super::outlet::{Escape, Owed};
use super::parquet::{ParquetRows, ParquetWanted};
use super::sink::{Place, Sink};
use crate::failure::Failure;
use crate::run_state::Mark;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes written at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// The output of rows.
pub(in crate::commands) struct Output {
    out: Form,
    /// Whether the last row had no line end.
    is_open: bool,
    /// The byte that ends a row.
    line_end: u8,
}

/// What is written.
enum Form {
    Text(Box<BufWriter<Sink>>),
    Parquet(Box<ParquetRows<BufWriter<Sink>>>),
}

impl Output {
    /// Opens `place` to go on behind `resumed`, for text or for what Parquet is `wanted`; as [`Sink::open`].
    pub(in crate::commands) fn open(
        place: Place<'_>,
        resumed: Option<&Mark>,
        escape: Escape,
        line_end: u8,
        wanted: Option<ParquetWanted>,
    ) -> Result<Self, Failure> {
        let mut sink = Sink::open(place, resumed, escape)?;
        if let Some(why) = sink.takes_no_whole().filter(|_| wanted.is_some()) {
            return Err(Failure::Usage(format!(
                "rows of Parquet are written as Parquet, which does not go {why}; write to a new file, or ask for --row-numbers"
            )));
        }
        if let Some(wanted) = &wanted {
            sink.check(wanted.inputs.iter().map(AsRef::as_ref))?;
            sink.start()?;
        }
        let text = BufWriter::with_capacity(BUFFER_BYTES, sink);
        let out = match wanted {
            None => Form::Text(Box::new(text)),
            Some(wanted) => Form::Parquet(Box::new(ParquetRows::new(text, wanted)?)),
        };
        Ok(Self { out, is_open: resumed.is_some_and(|mark| mark.is_open), line_end })
    }

    /// As [`Sink::check`].
    pub(in crate::commands) fn check<'p>(
        &self,
        inputs: impl Iterator<Item = &'p Path>,
    ) -> Result<(), Failure> {
        match &self.out {
            Form::Text(out) => out.get_ref().check(inputs),
            // That was done when it was opened.
            Form::Parquet(_) => Ok(()),
        }
    }

    /// Gets ready to print; as [`Sink::start`].
    pub(in crate::commands) fn start(&mut self) -> Result<(), Failure> {
        match &mut self.out {
            Form::Text(out) => out.get_mut().start(),
            // That was done when it was opened.
            Form::Parquet(_) => Ok(()),
        }
    }

    /// Whether the output is nothing before it is whole.
    pub(in crate::commands) fn is_parquet(&self) -> bool {
        matches!(self.out, Form::Parquet(_))
    }

    /// Writes a row; the last row of an input may lack a line end, which it gets if another follows.
    #[inline]
    pub(in crate::commands) fn row(&mut self, row: &[u8]) -> Result<(), Failure> {
        let out = match &mut self.out {
            Form::Text(out) => out,
            Form::Parquet(out) => return out.row(row),
        };
        if self.is_open {
            write(out, &[self.line_end])?;
        }
        self.is_open = row.last() != Some(&self.line_end);
        write(out, row)
    }

    /// Writes a part of rows that were written to another run's output.
    pub(in crate::commands) fn part(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Form::Text(out) = &mut self.out else { return Ok(()) };
        self.is_open = bytes.last() != Some(&self.line_end);
        write(out, bytes)
    }

    /// Whether a signal came while the output had no room.
    pub(in crate::commands) fn has_left(&self) -> bool {
        match &self.out {
            Form::Text(out) => out.get_ref().has_left(),
            Form::Parquet(_) => false,
        }
    }

    /// What was flushed and did not go out because a signal came; nothing may be written behind it.
    pub(in crate::commands) fn take_owed(&mut self) -> Option<Owed> {
        match &mut self.out {
            Form::Text(out) => out.get_mut().take_owed(),
            Form::Parquet(_) => None,
        }
    }

    /// Hands on what is written so far.
    pub(in crate::commands) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.out {
            Form::Text(out) => out.flush().map_err(|error| out.get_ref().failure(error)),
            Form::Parquet(_) => Ok(()),
        }
    }

    /// Makes what is written so far as durable as it can be, and says how far it got; `ended` if nothing more will be printed.
    pub(in crate::commands) fn mark(&mut self, ended: bool) -> Result<Mark, Failure> {
        self.flush()?;
        match &mut self.out {
            Form::Text(out) => out.get_mut().mark(ended, self.is_open),
            Form::Parquet(_) => Ok(Mark::default()),
        }
    }

    /// The last row is written: the output is whole.
    pub(in crate::commands) fn finish(&mut self) -> Result<(), Failure> {
        self.flush()?;
        match &mut self.out {
            Form::Text(out) => out.get_mut().finish(),
            Form::Parquet(out) => match out.finish()? {
                Some(out) if out.get_ref().has_left() => Err(Failure::Interrupted(
                    "interrupted while the output had no room; a Parquet output is written as a whole: run the same command again"
                        .to_owned(),
                )),
                Some(mut out) => out.get_mut().finish(),
                None => Ok(()),
            },
        }
    }
}

#[inline]
fn write(out: &mut BufWriter<Sink>, bytes: &[u8]) -> Result<(), Failure> {
    out.write_all(bytes).map_err(|error| out.get_ref().failure(error))
}
