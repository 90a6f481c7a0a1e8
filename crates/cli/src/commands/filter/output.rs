//! Rows on standard output, byte for byte, and how far it got: what a file on standard output holds beyond the last commit is cut off
//! when a run is resumed.

use super::parquet::{ParquetRows, ParquetWanted};
use crate::failure::Failure;
use crate::run_state;
use rustix::fs::{OFlags, fcntl_getfl};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Bytes written at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// Standard output.
pub(super) struct Output {
    out: Form,
    /// Device and inode, where it is a regular file.
    file: Option<(u64, u64)>,
    /// Whether the last row had no line end.
    is_open: bool,
}

/// What is written.
enum Form {
    Text(BufWriter<File>),
    Parquet(ParquetRows<BufWriter<File>>),
}

impl Output {
    /// Takes over standard output, without the line buffer that the standard library puts before it. What a file there holds
    /// beyond `committed` is cut off.
    pub(super) fn open(
        committed: Option<run_state::Output>,
        parquet: Option<ParquetWanted>,
    ) -> Result<Self, Failure> {
        let mut file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let metadata = file.metadata()?;
        let identity = metadata.is_file().then(|| (metadata.dev(), metadata.ino()));
        if let Some(mark) = committed
            && identity == Some((mark.device, mark.inode))
            && metadata.len() >= mark.bytes
        {
            file.set_len(mark.bytes)?;
            file.seek(SeekFrom::Start(mark.bytes))?;
        } else if identity.is_some() && fcntl_getfl(&file).map_err(io::Error::from)?.contains(OFlags::APPEND)
        {
            file.seek(SeekFrom::End(0))?;
        }
        let is_empty = identity.is_none() || file.stream_position()? == 0;
        let is_terminal = file.is_terminal();
        let text = BufWriter::with_capacity(BUFFER_BYTES, file);
        let out = match parquet {
            None => Form::Text(text),
            Some(_) if is_terminal || !is_empty => {
                return Err(Failure::Usage(format!(
                    "rows of Parquet are written as Parquet, which does not go {}; write to a new file, or ask for --row-numbers",
                    if is_terminal { "to a terminal" } else { "behind what a file holds" }
                )));
            }
            Some(wanted) => Form::Parquet(ParquetRows::new(text, wanted)?),
        };
        Ok(Self { out, file: identity, is_open: false })
    }

    /// Whether the output is nothing before it is whole.
    pub(super) fn is_parquet(&self) -> bool {
        matches!(self.out, Form::Parquet(_))
    }

    /// Writes a row; the last row of an input may lack a line end, which it gets if another follows.
    #[inline]
    pub(super) fn row(&mut self, row: &[u8]) -> Result<(), Failure> {
        let out = match &mut self.out {
            Form::Text(out) => out,
            Form::Parquet(out) => return out.row(row),
        };
        if self.is_open {
            out.write_all(b"\n")?;
        }
        self.is_open = row.last() != Some(&b'\n');
        Ok(out.write_all(row)?)
    }

    /// Hands on what is written so far.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.out {
            Form::Text(out) => Ok(out.flush()?),
            Form::Parquet(_) => Ok(()),
        }
    }

    /// The last row is written: the output is whole.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.out {
            Form::Text(out) => Ok(out.flush()?),
            Form::Parquet(out) => out.finish(),
        }
    }

    /// Makes what is written so far as durable as a file can be, and says how far it got.
    pub(super) fn mark(&mut self) -> Result<run_state::Output, Failure> {
        self.flush()?;
        let (Some((device, inode)), Form::Text(out)) = (self.file, &mut self.out) else {
            return Ok(run_state::Output::default());
        };
        let file = out.get_mut();
        file.sync_data()?;
        Ok(run_state::Output { device, inode, bytes: file.stream_position()? })
    }
}
