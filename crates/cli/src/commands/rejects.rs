//! The file of rows that are left out, byte for byte and in the stream's order, whatever the threads.
//!
//! Each chunk is parsed by a thread in the turn of its number here, so the file holds the rejects of the chunks before it and no
//! others. Its length behind a chunk, and a hash of all up to there, are committed with the reader's position. A run is gone on with in a
//! file that holds these bytes and in no other; what an interrupted run wrote behind them is cut off, so a row is in it once.

use super::places::read_back;
use crate::failure::Failure;
use crate::units;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// How a run takes up a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// It is replaced.
    Anew,
    /// It is added to.
    Append,
    /// Nothing of it is known: it is made, or must be empty.
    Empty,
    /// It is gone on with behind what was committed.
    Behind(Written),
}

/// What a file of rejects held at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) bytes: u64,
    /// XXH3-128 of them; older releases noted none.
    pub(super) hash: Option<u128>,
    /// Whether the run that wrote it has ended: what stands behind is not its own.
    pub(super) ended: bool,
}

/// A file of rejects.
pub(super) struct Rejects {
    path: PathBuf,
    line_end: u8,
    state: Mutex<State>,
    turned: Condvar,
}

struct State {
    out: BufWriter<File>,
    bytes: u64,
    hash: Box<Xxh3>,
    is_regular: bool,
    /// Whether the last row had no line end.
    is_open: bool,
    /// The chunk whose turn it is; `None` once one failed.
    next: Option<u64>,
}

impl Rejects {
    /// Opens `path` for the rejects of the chunks from number `first` on.
    pub(super) fn open(path: &Path, start: Start, first: u64, line_end: u8) -> Result<Self, Failure> {
        let failed = |error| unwritable(path, &error);
        let mut options = File::options();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let is_regular = metadata.is_file();
        let length = metadata.len();
        let known = if let Start::Behind(written) = start { written.bytes } else { 0 };
        let (mut bytes, mut hash) = (known, Box::new(Xxh3::new()));
        let mut last = [line_end];
        if is_regular {
            bytes = match start {
                Start::Anew => 0,
                Start::Append => length,
                Start::Empty if length == 0 => 0,
                Start::Empty => {
                    let why = "the store remembers no run that rejected rows, and the file is not empty";
                    return Err(refused(path, why));
                }
                Start::Behind(Written { bytes, .. }) if length < bytes => {
                    let (held, committed) = (units::count(length), units::count(bytes));
                    let why = format!("it holds {held} bytes, fewer than the {committed} of the last commit");
                    return Err(refused(path, &why));
                }
                Start::Behind(Written { bytes, hash: wanted, ended }) => {
                    read_back(&file, 0, bytes, &mut hash).map_err(failed)?;
                    if wanted.is_some_and(|wanted| hash.digest128() != wanted) {
                        return Err(refused(path, "it holds other bytes than those of the last commit"));
                    }
                    if ended { length } else { bytes }
                }
            };
            read_back(&file, known, bytes - known, &mut hash).map_err(failed)?;
            file.set_len(bytes).map_err(failed)?;
            if bytes > 0 {
                file.read_exact_at(&mut last, bytes - 1).map_err(failed)?;
            }
            file.seek(SeekFrom::Start(bytes)).map_err(failed)?;
        }
        let (out, next) = (BufWriter::new(file), Some(first));
        let state = State { out, bytes, hash, is_regular, is_open: last != [line_end], next };
        Ok(Self { path: path.to_owned(), line_end, state: Mutex::new(state), turned: Condvar::new() })
    }

    /// Waits for the turn of chunk `number`.
    pub(super) fn turn(&self, number: u64) -> Result<Turn<'_>, Failure> {
        let mut state = self.lock();
        loop {
            match state.next {
                None => return Err(Failure::Usage("a chunk before this one failed".to_owned())),
                Some(next) if next >= number => break,
                Some(_) => state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        drop(state);
        Ok(Turn { rejects: self, number, is_done: false })
    }

    /// Makes what was written so far as durable as a file can be.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        let outcome = state.out.flush().and_then(|()| match state.is_regular {
            true => state.out.get_ref().sync_data(),
            false => Ok(()),
        });
        outcome.map_err(|error| unwritable(&self.path, &error))
    }

    /// The file's length behind the last chunk, and the hash of what it holds.
    pub(super) fn written(&self) -> (u64, u128) {
        self.lock().written()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a chunk; one that is dropped before it is done ends all turns.
pub(super) struct Turn<'r> {
    rejects: &'r Rejects,
    number: u64,
    is_done: bool,
}

impl Turn<'_> {
    /// Writes the chunk's rejects, and lets the next chunk in. The file's length behind them, and the hash of what it holds.
    pub(super) fn write<'b>(mut self, rows: impl Iterator<Item = &'b [u8]>) -> Result<(u64, u128), Failure> {
        let mut state = self.rejects.lock();
        for row in rows {
            state.row(row, self.rejects.line_end).map_err(|error| unwritable(&self.rejects.path, &error))?;
        }
        state.next = Some(self.number + 1);
        let written = state.written();
        drop(state);
        self.rejects.turned.notify_all();
        self.is_done = true;
        Ok(written)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.rejects.lock().next = None;
            self.rejects.turned.notify_all();
        }
    }
}

impl State {
    /// Writes a row; the last row of an input may lack a line end, which it gets if another follows.
    fn row(&mut self, row: &[u8], line_end: u8) -> io::Result<()> {
        if self.is_open {
            self.put(&[line_end])?;
        }
        self.is_open = row.last() != Some(&line_end);
        self.put(row)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn written(&self) -> (u64, u128) {
        (self.bytes, self.hash.digest128())
    }
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::Usage(format!(
        "cannot go on with the rejected rows in {}: {why}; give the file of the interrupted run or a copy of it, another file without \
         --resume, or /dev/null if they are not wanted any more",
        path.display()
    ))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!(
        "cannot write rejected rows to {}: {error}; free some space or choose another file",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_gone_on_with_where_the_commit_stood() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("rejects");
        let open = |start, first| Rejects::open(&path, start, first, b'\n');
        let write = |rejects: &Rejects, number, row: &[u8]| {
            rejects.turn(number).and_then(|turn| turn.write([row].into_iter())).expect("a turn")
        };
        let rejects = open(Start::Anew, 0).expect("a file");
        let (bytes, hash) = write(&rejects, 0, b"first");
        // The row without a line end gets one when another follows.
        let whole = write(&rejects, 1, b"second\n");
        assert_eq!((bytes, whole.0), (5, 13));
        rejects.sync().expect("a sync");
        let behind = |bytes, hash, ended| Start::Behind(Written { bytes, hash: Some(hash), ended });
        let resumed = open(behind(bytes, hash, false), 1).expect("the file");
        assert_eq!(write(&resumed, 1, b"second\n"), whole);
        resumed.sync().expect("a sync");
        assert_eq!(std::fs::read(&path).expect("the file"), b"first\nsecond\n");
        // What stands behind the end of a run that had ended stays.
        let ended = open(behind(bytes, hash, true), 2).expect("the file");
        assert_eq!(ended.written(), whole);
        let appended = open(Start::Append, 0).expect("the file");
        assert_eq!(write(&appended, 0, b"third\n").0, 19);
        appended.sync().expect("a sync");
        for (start, why) in [
            (behind(20, hash, false), "fewer than the 20"),
            (behind(5, hash ^ 1, false), "other bytes"),
            (behind(6, hash, true), "other bytes"),
            (Start::Empty, "not empty"),
        ] {
            assert!(open(start, 0).is_err_and(|failure| failure.to_string().contains(why)), "{why}");
        }
        // Older releases noted the length alone.
        open(Start::Behind(Written { bytes: 6, hash: None, ended: false }), 0).expect("the file");
        assert_eq!(std::fs::read(&path).expect("the file"), b"first\n");
        open(Start::Anew, 0).expect("the file");
        assert_eq!(std::fs::read(&path).expect("the file"), b"");
        open(Start::Empty, 0).expect("the file");
    }

    #[test]
    fn turns_come_in_order_and_a_failed_one_ends_them() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("rejects");
        let rejects = Rejects::open(&path, Start::Anew, 0, b'\n').expect("a file");
        std::thread::scope(|scope| {
            for number in (0..8u64).rev() {
                let rejects = &rejects;
                scope.spawn(move || {
                    let row = format!("{number}\n");
                    rejects.turn(number)?.write([row.as_bytes()].into_iter())
                });
            }
        });
        rejects.sync().expect("a sync");
        assert_eq!(std::fs::read(&path).expect("the file"), b"0\n1\n2\n3\n4\n5\n6\n7\n");
        drop(rejects.turn(8).expect("a turn"));
        assert!(rejects.turn(9).is_err());
    }
}
