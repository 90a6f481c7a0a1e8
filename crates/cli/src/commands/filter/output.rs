//! Rows on standard output, byte for byte, and how far it got: what a file on standard output holds beyond the last commit is cut off
//! when a run is resumed.

use super::outlet::{Outlet, Owed};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::run_state;
use rustix::fs::{OFlags, fcntl_getfl};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Bytes written at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// Standard output.
pub(super) struct Output {
    out: BufWriter<Outlet>,
    /// Device and inode, where it is a regular file.
    file: Option<(u64, u64)>,
    /// Whether the last row had no line end.
    is_open: bool,
}

impl Output {
    /// Takes over standard output, without the line buffer that the standard library puts before it. What a file there holds
    /// beyond `committed` is cut off. Rows that a blocked pipe did not take when a signal came go to `owed`, if that is given.
    pub(super) fn open(
        committed: Option<run_state::Output>,
        interrupt: &Interrupt,
        owed: Option<File>,
    ) -> Result<Self, Failure> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Self::to(file, committed, interrupt, owed)
    }

    /// As [`Output::open`], of another file than standard output.
    pub(super) fn to(
        mut file: File,
        committed: Option<run_state::Output>,
        interrupt: &Interrupt,
        owed: Option<File>,
    ) -> Result<Self, Failure> {
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
        let outlet = Outlet::new(file, interrupt.call()?, owed)?;
        Ok(Self { out: BufWriter::with_capacity(BUFFER_BYTES, outlet), file: identity, is_open: false })
    }

    /// Writes a row; the last row of an input may lack a line end, which it gets if another follows.
    #[inline]
    pub(super) fn row(&mut self, row: &[u8]) -> Result<(), Failure> {
        if self.is_open {
            self.out.write_all(b"\n")?;
        }
        self.is_open = row.last() != Some(&b'\n');
        Ok(self.out.write_all(row)?)
    }

    /// Writes a part of rows that were written to another run's output.
    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.is_open = bytes.last() != Some(&b'\n');
        Ok(self.out.write_all(bytes)?)
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
        Ok(self.out.flush()?)
    }

    /// Makes what is written so far as durable as a file can be, and says how far it got.
    pub(super) fn mark(&mut self) -> Result<run_state::Output, Failure> {
        self.out.flush()?;
        let Some((device, inode)) = self.file else { return Ok(run_state::Output::default()) };
        let file = self.out.get_mut().file();
        file.sync_data()?;
        Ok(run_state::Output { device, inode, bytes: file.stream_position()? })
    }
}
