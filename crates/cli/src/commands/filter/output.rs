//! Rows on the output, byte for byte, and how far they got.

use super::outlet::{Escape, Owed};
use super::sink::{Place, Sink};
use crate::failure::Failure;
use crate::run_state::Mark;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes written at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// The output of rows.
pub(super) struct Output {
    out: BufWriter<Sink>,
    /// Whether the last row had no line end.
    is_open: bool,
}

impl Output {
    /// Opens `place` to go on behind `resumed`; as [`Sink::open`].
    pub(super) fn open(place: Place<'_>, resumed: Option<&Mark>, escape: Escape) -> Result<Self, Failure> {
        let sink = Sink::open(place, resumed, escape)?;
        let is_open = resumed.is_some_and(|mark| mark.is_open);
        Ok(Self { out: BufWriter::with_capacity(BUFFER_BYTES, sink), is_open })
    }

    /// Gets ready to print; as [`Sink::begin`].
    pub(super) fn begin<'p>(&mut self, inputs: impl Iterator<Item = &'p Path>) -> Result<(), Failure> {
        self.out.get_mut().begin(inputs)
    }

    /// Writes a row; the last row of an input may lack a line end, which it gets if another follows.
    #[inline]
    pub(super) fn row(&mut self, row: &[u8]) -> Result<(), Failure> {
        if self.is_open {
            self.write(b"\n")?;
        }
        self.is_open = row.last() != Some(&b'\n');
        self.write(row)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|error| self.out.get_ref().failure(error))
    }

    /// Writes a part of rows that were written to another run's output.
    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.is_open = bytes.last() != Some(&b'\n');
        self.write(bytes)
    }

    /// Whether a signal came while standard output had no room.
    pub(super) fn has_left(&self) -> bool {
        self.out.get_ref().has_left()
    }

    /// What was flushed and did not go out because a signal came; nothing may be written behind it.
    pub(super) fn take_owed(&mut self) -> Option<Owed> {
        self.out.get_mut().take_owed()
    }

    /// Hands on what is written so far.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| self.out.get_ref().failure(error))
    }

    /// Makes what is written so far as durable as it can be, and says how far it got; `ended` if nothing more will be printed.
    pub(super) fn mark(&mut self, ended: bool) -> Result<Mark, Failure> {
        self.flush()?;
        self.out.get_mut().mark(ended, self.is_open)
    }

    /// The last row is written: the output is whole.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.flush()?;
        self.out.get_mut().finish()
    }
}
