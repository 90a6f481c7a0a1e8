//! The files that a command writes beside its store: each a file of its own, and none of them a part of a store.
//!
//! Known by where a write would end up, there already or not: links are followed to what they point at, dangling ones too, as `>` and
//! `sort -o` follow them. (`cp` refuses those; but `--output FILE` stands for `> FILE`.)

use super::unnamed::parent;
use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const STANDARD_OUTPUT: &str = "/proc/self/fd/1";
/// Bytes of a file that are read back at a time.
const READ_BYTES: usize = 256 << 10;
/// How many links a name may lead through, as in Linux.
const LINKS_MAX: usize = 40;
/// What a store has for its first file, and what that begins with.
const SUPERBLOCK: &str = "superblock";
const MAGIC: &[u8] = b"OVERBANK";

/// What a command is to write.
#[derive(Clone, Copy, Default)]
pub(super) struct Written<'a> {
    pub(super) store: Option<&'a Path>,
    /// The file of `--output`.
    pub(super) output: Option<&'a Path>,
    /// Whether rows go to standard output.
    pub(super) prints_rows: bool,
    /// The file of `--rejects`.
    pub(super) rejects: Option<&'a Path>,
}

impl Written<'_> {
    /// Refuses a file in the store's place or in a store, and one file for the output and the rejects. Nothing is made or opened to
    /// be written yet.
    pub(super) fn check(self) -> Result<(), Failure> {
        let printed = self.output.is_none() && self.prints_rows;
        let printed = printed.then_some(("standard output", Path::new(STANDARD_OUTPUT)));
        let output = self.output.map(|path| ("--output", path)).or(printed);
        let rejects = self.rejects.map(|path| ("--rejects", path));
        for (name, path) in [output, rejects].into_iter().flatten() {
            if !is_special(path) {
                self.outside_of_stores(name, path)?;
            }
        }
        let places = [self.output, self.rejects]
            .map(|path| path.filter(|path| !is_special(path)).and_then(|path| place(path).ok()));
        match (self.rejects, places) {
            (Some(rejects), [Some(output), Some(other)]) if output == other => Err(Failure::Usage(format!(
                "--rejects {} is the output too, and one file cannot be both; give another file",
                rejects.display()
            ))),
            _ => Ok(()),
        }
    }

    fn outside_of_stores(&self, name: &str, path: &Path) -> Result<(), Failure> {
        // What has no place cannot be written; whoever opens it says why.
        let Ok(place) = place(path) else { return Ok(()) };
        let shown = |path: &Path| path.display().to_string();
        let file = if path == Path::new(STANDARD_OUTPUT) {
            format!("{name} ({})", place.display())
        } else {
            format!("{name} {}", path.display())
        };
        let own = self.store.and_then(|store| Some((store, self::place(store).ok()?)));
        let store = match own {
            Some((store, own)) if own == place => {
                return Err(Failure::Usage(format!(
                    "{file} is the directory of --store {} too; give another file",
                    store.display()
                )));
            }
            Some((store, own)) if place.starts_with(&own) => shown(store),
            _ if is_store(parent(&place)) => shown(parent(&place)),
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!(
            "{file} lies in the store {store}, whose files it could overwrite; give a file outside of it"
        )))
    }
}

/// Where a write to `path` ends up.
///
/// # Errors
/// Of the system, if the directory is not there or the links lead nowhere.
pub(super) fn place(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=LINKS_MAX {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
        let folder = fs::canonicalize(parent(&path))?;
        match fs::read_link(&path) {
            Ok(target) => path = folder.join(target),
            // Nothing has that name yet.
            Err(_) => {
                return path.file_name().map(|name| folder.join(name)).ok_or(io::ErrorKind::NotFound.into());
            }
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Adds what a file holds, `bytes` from `start` on to `hash`.
pub(super) fn read_back(file: &File, start: u64, bytes: u64, hash: &mut Xxh3) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut at, end) = (start, start + bytes);
    while at < end {
        let wanted = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        match file.read_at(&mut buffer[..wanted], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                hash.update(&buffer[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a directory is a store, whole or not.
fn is_store(directory: &Path) -> bool {
    let path = directory.join(SUPERBLOCK);
    let mut head = [0; MAGIC.len()];
    // A pipe of that name is not waited for.
    let is_file = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *MAGIC
}

/// Whether a path is something else than a file: a terminal, a pipe, `/dev/null`.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_write_ends_up_where_links_lead() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        let own = fs::canonicalize(folder.path()).expect("the directory");
        fs::write(at("file"), "").expect("a file");
        for (link, target) in
            [("whole", "file"), ("dangling", "new"), ("second", "dangling"), ("loop", "loop")]
        {
            symlink(target, at(link)).expect("a link");
        }
        let ends = |name: &str| place(&at(name)).ok();
        assert_eq!((ends("file"), ends("whole")), (Some(own.join("file")), Some(own.join("file"))));
        assert_eq!((ends("new"), ends("dangling")), (Some(own.join("new")), Some(own.join("new"))));
        assert_eq!((ends("second"), ends("loop"), ends("no/new")), (Some(own.join("new")), None, None));
    }
}
