//! The file, pipe or terminal that printed bytes go to. A run that is resumed goes on behind the last commit, in an output that
//! is known by what it holds, or not at all: no row is lost or comes twice.
//!
//! ```text
//!   what was there before │ committed: start, bytes, XXH3-128 │ printed after the last commit, or foreign │
//!                         └── read back and compared ─────────┴── cut off, unless the run had ended ──────┘
//! ```
//!
//! | --output FILE | written | why |
//! |---|---|---|
//! | with --store | in place, from its start; cut and gone on with by --resume | a temporary's rows would have to be found again by the next run, and FILE could not be watched as it grows |
//! | without | under no name, which becomes FILE at the end | a run that fails leaves FILE as it was |
//!
//! A hash of the last rows alone would be cheaper to compare, and blind to damage before them. An earlier form knew files by device
//! and inode: both change when a file is copied or a machine starts anew, and say nothing of what a file holds.

use super::outlet::{self, Escape, Outlet, Owed};
use crate::announce;
use crate::commands::places::{self, read_back};
use crate::commands::unnamed::parent;
use crate::failure::{Failure, STANDARD_OUTPUT};
use crate::run_state::{Mark, MarkKind};
use crate::units;
use rustix::fs::{AtFlags, FlockOperation, OFlags, fcntl_getfl, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// What the arguments say of the output.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Place<'a> {
    /// The file of `--output`; without one, standard output.
    pub(in crate::commands) file: Option<&'a Path>,
    /// Whether what is printed is committed as it comes; otherwise a file is nothing before it is whole.
    pub(in crate::commands) commits: bool,
    /// Whether a run is to be gone on with.
    pub(in crate::commands) resumes: bool,
}

/// Where printed bytes go.
pub(in crate::commands) struct Sink {
    outlet: Outlet,
    /// How messages call it.
    shown: String,
    /// Device and inode, where it is a regular file.
    identity: Option<(u64, u64)>,
    /// Where the output starts in a regular file.
    start: u64,
    /// The length that a regular file is cut to before anything is printed.
    cut_to: Option<u64>,
    /// What was printed, if commits ask for it.
    printed: Option<Printed>,
    draft: Option<Draft>,
}

/// How much was printed since the output's start, and what.
struct Printed {
    bytes: u64,
    hash: Box<Xxh3>,
}

/// A file that gets its name at the end.
struct Draft {
    target: PathBuf,
    /// `None` where the file has no name at all.
    named: Option<tempfile::TempPath>,
}

impl Sink {
    /// Opens `place`. Where there is a store, what is printed will be committed; a run that goes on behind `resumed` is refused
    /// unless the output holds what was committed. Nothing is changed before [`Sink::start`].
    pub(in crate::commands) fn open(
        place: Place<'_>,
        resumed: Option<&Mark>,
        escape: Escape,
    ) -> Result<Self, Failure> {
        let resumed = resumed.filter(|mark| mark.kind != MarkKind::Nothing);
        let mut sink = match place.file {
            None => Self::standard()?,
            Some(path) => Self::named(path, place.commits, resumed, escape.call.as_ref())?,
        };
        sink.outlet.leave_by(escape);
        sink.printed = place.commits.then(|| Printed { bytes: 0, hash: Box::new(Xxh3::new()) });
        match resumed {
            Some(mark) => sink.go_on_behind(mark, place.file.is_some())?,
            // Nothing that was printed for another store is emptied by a slip in this one's name.
            None if place.resumes && sink.cut_to.is_some() && sink.length()? > 0 => {
                return Err(
                    sink.refused("the store remembers no run that printed rows, and the file is not empty")
                );
            }
            None => {}
        }
        Ok(sink)
    }

    fn length(&self) -> Result<u64, Failure> {
        Ok(self.outlet.file().metadata().map_err(|error| self.failure(error))?.len())
    }

    fn standard() -> Result<Self, Failure> {
        // Without the line buffer that the standard library puts before it.
        let mut file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let metadata = file.metadata()?;
        let identity = metadata.is_file().then(|| (metadata.dev(), metadata.ino()));
        let start = match identity {
            None => 0,
            Some(_) if fcntl_getfl(&file).map_err(io::Error::from)?.contains(OFlags::APPEND) => {
                metadata.len()
            }
            Some(_) => file.stream_position()?,
        };
        Ok(Self::new(file, STANDARD_OUTPUT.to_owned(), identity, start)?)
    }

    /// The file of `--output`.
    fn named(
        path: &Path,
        commits: bool,
        resumed: Option<&Mark>,
        call: Option<&OwnedFd>,
    ) -> Result<Self, Failure> {
        let before = fs::metadata(path).ok();
        let failed = |error| Failure::output(&shown(path), error);
        if before.as_ref().is_some_and(|before| before.file_type().is_fifo()) {
            let Some(file) = outlet::open_pipe(path, call).map_err(failed)? else {
                return Err(Failure::Interrupted(format!(
                    "interrupted before anyone read {}; nothing was read or printed: run the same command again",
                    shown(path)
                )));
            };
            return Self::new(file, shown(path), None, 0).map_err(failed);
        }
        let file = match before.as_ref() {
            // A device takes what it gets.
            Some(before) if !before.is_file() => OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| Self::new(file, shown(path), None, 0)),
            Some(before) if !commits => Self::drafted(path, Some(before)),
            None if !commits => Self::drafted(path, None),
            // A new file is another one than was committed: it must be there to be gone on with.
            None if resumed.is_some() => return Err(refused(&shown(path), "it is not there")),
            before => return Self::in_place(path, before.is_none()),
        };
        file.map_err(failed)
    }

    /// A file that gets its name once it is whole, and replaces the one that is there `before`.
    fn drafted(path: &Path, before: Option<&fs::Metadata>) -> io::Result<Self> {
        let (file, draft) = Draft::beside(path, before.map(fs::Metadata::permissions))?;
        let identity = before.map(|before| (before.dev(), before.ino()));
        Ok(Self { draft: Some(draft), ..Self::new(file, shown(path), identity, 0)? })
    }

    /// A file that is written from its start as the rows come, by no other run at the same time.
    fn in_place(path: &Path, is_new: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::output(&shown(path), error);
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(is_new).truncate(false).open(path).map_err(failed)?;
        // Where a file system has no locks, nothing is refused.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(Failure::Usage(format!(
                "{} is being written by another run; wait for it, or choose another output",
                shown(path)
            )));
        }
        if is_new {
            let named = places::place(path).and_then(|place| File::open(parent(&place))?.sync_all());
            named.map_err(failed)?;
        }
        let metadata = file.metadata().map_err(failed)?;
        let identity = Some((metadata.dev(), metadata.ino()));
        Ok(Self { cut_to: Some(0), ..Self::new(file, shown(path), identity, 0).map_err(failed)? })
    }

    fn new(file: File, shown: String, identity: Option<(u64, u64)>, start: u64) -> io::Result<Self> {
        let outlet = Outlet::new(file)?;
        Ok(Self { outlet, shown, identity, start, cut_to: None, printed: None, draft: None })
    }

    /// Takes the output up behind what was committed, or says why that cannot be.
    fn go_on_behind(&mut self, mark: &Mark, is_named: bool) -> Result<(), Failure> {
        let was_printed = mark.bytes > 0 || !mark.ended;
        match (mark.kind, self.identity) {
            (MarkKind::Unknown, _) => Err(self.refused(
                "the store was committed by an older release of overbank, which did not note what it had printed",
            )),
            (MarkKind::Stream, Some(_)) if was_printed => Err(self.refused(
                "the rows before the last commit went to a pipe or a device, so nothing tells whether this file has them",
            )),
            (MarkKind::File, None) if was_printed => {
                Err(self.refused("the rows before the last commit went to a file, and this is none"))
            }
            (MarkKind::File, Some(identity)) => self.go_on_in_file(mark, identity, is_named),
            (MarkKind::Stream, None) => {
                if let Some(printed) = &mut self.printed {
                    printed.bytes = mark.bytes;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn go_on_in_file(&mut self, mark: &Mark, identity: (u64, u64), is_named: bool) -> Result<(), Failure> {
        let failed = |error| Failure::output(&self.shown, error);
        let length = self.length()?;
        let committed = mark.start.saturating_add(mark.bytes);
        if length < committed {
            return Err(self.refused(&format!(
                "it holds {} bytes, fewer than the {} of the last commit; it was cut, replaced, or opened with > instead of >>",
                units::count(length),
                units::count(committed)
            )));
        }
        let readable = self.readable().map_err(|error| {
            self.refused(&format!(
                "it cannot be read back ({error}), so nothing tells whether it holds the last commit"
            ))
        })?;
        let mut hash = Box::new(Xxh3::new());
        read_back(&readable, mark.start, mark.bytes, &mut hash).map_err(failed)?;
        if hash.digest128() != mark.hash {
            return Err(self.refused("it holds other bytes than those of the last commit"));
        }
        self.start = mark.start;
        let end = if mark.ended {
            // Nothing of that run stands behind its end; what others wrote there stays, and is known from now on.
            read_back(&readable, committed, length - committed, &mut hash).map_err(failed)?;
            length
        } else if mark.bytes == 0 && length > committed && !is_named && identity != mark.identity {
            return Err(self.refused(
                "nothing had been committed of the output yet, so this file could be any; empty it, and resume again",
            ));
        } else {
            committed
        };
        self.cut_to = Some(end);
        if let Some(printed) = &mut self.printed {
            *printed = Printed { bytes: end - mark.start, hash };
        }
        Ok(())
    }

    /// The file, open to be read: a shell opens standard output to be written only.
    fn readable(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.outlet.file().as_raw_fd()))
    }

    fn refused(&self, why: &str) -> Failure {
        refused(&self.shown, why)
    }

    /// Refuses an output that is one of `inputs`.
    pub(in crate::commands) fn check<'p>(
        &self,
        inputs: impl Iterator<Item = &'p Path>,
    ) -> Result<(), Failure> {
        for input in inputs {
            let path = if input == Path::new("-") { Path::new("/proc/self/fd/0") } else { input };
            let identity = fs::metadata(path).ok().filter(fs::Metadata::is_file);
            let identity = identity.map(|metadata| (metadata.dev(), metadata.ino()));
            if identity.is_some() && identity == self.identity {
                return Err(Failure::Usage(format!(
                    "{} is an input and the output, which would eat itself up; choose another output",
                    if input == Path::new("-") {
                        "the file on standard input".into()
                    } else {
                        input.to_string_lossy()
                    }
                )));
            }
        }
        Ok(())
    }

    /// Gets ready to print behind what was committed: cuts off what comes after it.
    pub(in crate::commands) fn start(&mut self) -> Result<(), Failure> {
        if let Some(length) = self.cut_to {
            let mut file = self.outlet.file();
            let cut = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
            cut.map_err(|error| Failure::output(&self.shown, error))?;
        }
        Ok(())
    }

    /// Where it is that a file which begins at its start cannot begin, if so it is.
    pub(in crate::commands) fn takes_no_whole(&self) -> Option<&'static str> {
        if self.outlet.file().is_terminal() {
            return Some("to a terminal");
        }
        (self.start > 0).then_some("behind what a file holds")
    }

    /// Whether a signal came while the output had no room.
    pub(in crate::commands) fn has_left(&self) -> bool {
        self.outlet.has_left()
    }

    /// What was flushed and did not go out because a signal came; nothing may be written behind it.
    pub(in crate::commands) fn take_owed(&mut self) -> Option<Owed> {
        self.outlet.take_owed()
    }

    /// Makes what was printed as durable as it can be, and says how far that is.
    pub(in crate::commands) fn mark(&mut self, ended: bool, is_open: bool) -> Result<Mark, Failure> {
        announce::at("printed");
        let Some(printed) = &self.printed else { return Ok(Mark::default()) };
        let mark = Mark { ended, is_open, start: self.start, bytes: printed.bytes, ..Mark::default() };
        let Some(identity) = self.identity else { return Ok(Mark { kind: MarkKind::Stream, ..mark }) };
        self.outlet.file().sync_data().map_err(|error| Failure::output(&self.shown, error))?;
        announce::at("synced");
        Ok(Mark { kind: MarkKind::File, hash: printed.hash.digest128(), identity, ..mark })
    }

    /// Gives the output its name, if it has none yet.
    pub(in crate::commands) fn finish(&mut self) -> Result<(), Failure> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        announce::at("finishing");
        let named = self.outlet.file().sync_all().and_then(|()| draft.put_in_place(self.outlet.file()));
        named.map_err(|error| Failure::output(&self.shown, error))
    }

    /// The failure of a write.
    pub(in crate::commands) fn failure(&self, error: io::Error) -> Failure {
        Failure::output(&self.shown, error)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.outlet.write(bytes)?;
        if let Some(printed) = &mut self.printed {
            printed.bytes += written as u64;
            if self.identity.is_some() {
                printed.hash.update(&bytes[..written]);
            }
        }
        announce::at("written");
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.outlet.flush()
    }
}

impl Draft {
    /// A file in the directory of `path`, where the system allows it without a name, so that nothing of it outlives the run.
    fn beside(path: &Path, permissions: Option<fs::Permissions>) -> io::Result<(File, Self)> {
        // The file that a symbolic link points at is the one to replace, or to make.
        let target = places::place(path)?;
        let place = parent(&target);
        let nameless = OFlags::TMPFILE.bits().cast_signed();
        let (file, named) = match OpenOptions::new().write(true).custom_flags(nameless).open(place) {
            Ok(file) => (file, None),
            Err(_) => {
                // The mode that any new file gets; who may not see the others' bits is told by the umask.
                let mode = fs::Permissions::from_mode(0o666);
                let (file, path) = tempfile::Builder::new()
                    .prefix(".overbank-")
                    .permissions(mode)
                    .tempfile_in(place)?
                    .into_parts();
                (file, Some(path))
            }
        };
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        Ok((file, Self { target, named }))
    }

    fn put_in_place(self, file: &File) -> io::Result<()> {
        let place = parent(&self.target).to_owned();
        let named = match self.named {
            Some(named) => named,
            // A link cannot replace a name, a rename can.
            None => {
                let source = format!("/proc/self/fd/{}", file.as_raw_fd());
                let link = |name: &Path| {
                    let (cwd, flags) = (rustix::fs::CWD, AtFlags::SYMLINK_FOLLOW);
                    rustix::fs::linkat(cwd, source.as_str(), cwd, name, flags).map_err(io::Error::from)
                };
                tempfile::Builder::new().prefix(".overbank-").make_in(&place, link)?.into_temp_path()
            }
        };
        named.persist(&self.target).map_err(|error| error.error)?;
        File::open(place)?.sync_all()
    }
}

fn refused(output: &str, why: &str) -> Failure {
    Failure::Usage(format!(
        "cannot resume into {output}: {why}; resume into the output of the interrupted run or a copy of it (--output FILE, or >> \
         FILE), or start anew with another --store"
    ))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
