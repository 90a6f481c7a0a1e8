//! Where rows are written. A pipe or terminal that takes no more can be left when a signal comes; what it did not get is *owed*.
//!
//! A write that blocks cannot be called away, and standard output must not be made non-blocking, for other processes share its
//! description. So a pipe is opened once more for ourselves, non-blocking; where that cannot be, no more is written at a time than a pipe
//! with room takes at once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an outlet that has been called away goes on waiting for room: the rows at hand may go out yet.
const GRACE: Duration = Duration::from_millis(300);
/// How often it is looked whether somebody reads a named pipe: nothing wakes those who wait to write it without blocking.
const READER_STEP: Duration = Duration::from_millis(20);
/// What a pipe with room takes without blocking, and the least that one of ours is given at a time.
const PIPE_BYTES: usize = 4096;

/// How to get away from an output that has no room when a signal comes.
#[derive(Debug, Default)]
pub(in crate::commands) struct Escape {
    /// What can be read, or is closed at its other end, once a signal has come.
    pub(in crate::commands) call: Option<OwnedFd>,
    /// Where rows go that the output does not take any more; without it, nowhere.
    pub(in crate::commands) owed: Option<File>,
}

/// Bytes that did not go out, in a file without a name.
#[derive(Debug)]
pub(in crate::commands) struct Owed {
    pub(in crate::commands) file: File,
    pub(in crate::commands) bytes: u64,
}

/// A file, pipe or terminal that is written to.
#[derive(Debug)]
pub(in crate::commands) struct Outlet {
    file: File,
    /// How many bytes may be written at a time where there is room; of a regular file, any number.
    step_bytes: Option<usize>,
    /// What calls away from a wait for room.
    call: Option<OwnedFd>,
    /// When an outlet that has been called away waits no longer.
    leave_at: Option<Instant>,
    has_left: bool,
    /// Where bytes go once it has left; without it, nowhere.
    owed: Option<Owed>,
}

/// Opens a named pipe once somebody reads it, which a call need not wait for: then there is none. Opening it to be read too would find
/// room at once, and lose the rows if nobody came.
pub(in crate::commands) fn open_pipe(path: &Path, call: Option<&OwnedFd>) -> io::Result<Option<File>> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let step = Timespec::try_from(READER_STEP).map_err(|_| ErrorKind::InvalidInput)?;
    loop {
        match File::options().write(true).custom_flags(nonblocking).open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
            outcome => return outcome.map(Some),
        }
        let mut looked_at: Vec<_> = call.iter().map(|call| PollFd::new(*call, PollFlags::IN)).collect();
        match poll(&mut looked_at, Some(&step)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Outlet {
    /// Writes to `file`.
    pub(in crate::commands) fn new(file: File) -> io::Result<Self> {
        let kind = file.metadata()?.file_type();
        let (file, step_bytes) = match kind {
            _ if kind.is_file() => (file, None),
            _ if kind.is_fifo() => {
                let own = File::options()
                    .write(true)
                    .custom_flags(OFlags::NONBLOCK.bits() as i32)
                    .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
                own.map_or((file, Some(PIPE_BYTES)), |own| (own, Some(usize::MAX)))
            }
            _ => (file, Some(PIPE_BYTES)),
        };
        Ok(Self { file, step_bytes, call: None, leave_at: None, has_left: false, owed: None })
    }

    /// From now on, writes until the call of `escape` comes and there is no room; then to where it says.
    pub(in crate::commands) fn leave_by(&mut self, escape: Escape) {
        self.call = escape.call;
        self.owed = escape.owed.map(|file| Owed { file, bytes: 0 });
    }

    pub(in crate::commands) fn file(&self) -> &File {
        &self.file
    }

    /// Whether it was called away from a file without room: what is written since is owed.
    pub(in crate::commands) fn has_left(&self) -> bool {
        self.has_left
    }

    /// What did not go out, if anything did not. What is written from now on is lost.
    pub(in crate::commands) fn take_owed(&mut self) -> Option<Owed> {
        self.owed.take_if(|owed| owed.bytes > 0)
    }

    /// Waits for room; false if it was called away and there is none.
    fn has_room(&mut self) -> io::Result<bool> {
        loop {
            let left = self.leave_at.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = left.map(Timespec::try_from).transpose().map_err(|_| ErrorKind::InvalidInput)?;
            let call = self.call.as_ref().filter(|_| self.leave_at.is_none());
            let mut looked_at = vec![PollFd::new(&self.file, PollFlags::OUT)];
            looked_at.extend(call.map(|call| PollFd::from_borrowed_fd(call.as_fd(), PollFlags::IN)));
            match poll(&mut looked_at, timeout.as_ref()) {
                Ok(0) => return Ok(false),
                // What is wrong with it, writing will tell.
                Ok(_) if !looked_at[0].revents().is_empty() => return Ok(true),
                Ok(_) => self.leave_at = Some(Instant::now() + GRACE),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(step_bytes) = self.step_bytes else { return self.file.write(bytes) };
        while !self.has_left {
            if !self.has_room()? {
                self.has_left = true;
                break;
            }
            match self.file.write(&bytes[..bytes.len().min(step_bytes)]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
        if let Some(owed) = &mut self.owed {
            owed.file.write_all(bytes)?;
            owed.bytes += bytes.len() as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Seek};
    use std::os::unix::net::UnixStream;

    /// Both ends of a pipe, or of a pair of sockets, which cannot be opened once more.
    fn ends(is_pipe: bool) -> (File, File) {
        if is_pipe {
            let (reader, writer) = io::pipe().expect("a pipe");
            (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
        } else {
            let (reader, writer) = UnixStream::pair().expect("a pair of sockets");
            (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_went_out_and_what_is_owed_are_all_that_was_written(
            is_pipe: bool,
            writes in prop::collection::vec(1usize..100_000, 1..12),
            reads in 0u64..600_000,
        ) {
            let (mut reader, writer) = ends(is_pipe);
            let (caller, call) = UnixStream::pair().expect("a pair of sockets");
            let owed = tempfile::tempfile().expect("a temporary file");
            let mut outlet = Outlet::new(writer).expect("an outlet");
            outlet.leave_by(Escape { call: Some(call.into()), owed: Some(owed) });
            let written: Vec<u8> = (0..writes.iter().sum::<usize>()).map(|at| (at % 251) as u8).collect();
            // Someone who reads a part and then stops: that calls the outlet away.
            let reading = std::thread::spawn(move || {
                let mut got = Vec::new();
                let _ = Read::by_ref(&mut reader).take(reads).read_to_end(&mut got);
                drop(caller);
                (reader, got)
            });
            let mut rest = &written[..];
            for count in writes {
                let (piece, behind) = rest.split_at(count);
                outlet.write_all(piece).expect("a write");
                rest = behind;
            }
            let owed = outlet.take_owed();
            drop(outlet);
            let (mut reader, mut got) = reading.join().expect("the reader");
            reader.read_to_end(&mut got).expect("a read");
            if let Some(Owed { mut file, bytes }) = owed {
                let before = got.len();
                file.rewind().expect("a seek");
                file.read_to_end(&mut got).expect("a read");
                prop_assert_eq!((got.len() - before) as u64, bytes);
            }
            prop_assert!(got == written, "{} of {} bytes", got.len(), written.len());
        }
    }
}
