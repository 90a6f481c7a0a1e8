//! Files that must not outlive the command, however it ends: they have no name, so the system removes them even after SIGKILL.

use crate::failure::{Failure, remedy};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The directory that they are in.
pub(crate) struct Scratch {
    place: PathBuf,
}

impl Scratch {
    /// Scratch files in `place`; by default where temporary files may be large: `/tmp` is often in RAM.
    pub(crate) fn new(place: Option<&Path>) -> Self {
        Self { place: place.map_or_else(default_place, Path::to_owned) }
    }

    /// A file.
    pub(crate) fn file(&self) -> Result<File, Failure> {
        tempfile::tempfile_in(&self.place).map_err(|error| unusable(&self.place, &error))
    }

    /// The directory, if there is one.
    pub(crate) fn place(&self) -> Result<&Path, Failure> {
        match std::fs::metadata(&self.place) {
            Ok(_) => Ok(&self.place),
            Err(error) => Err(unusable(&self.place, &error)),
        }
    }

    /// What keeps scratch files from being used, and what helps.
    pub(crate) fn unusable(&self, error: &io::Error) -> Failure {
        unusable(&self.place, error)
    }
}

fn default_place() -> PathBuf {
    let given = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|place| !place.as_os_str().is_empty());
    given.unwrap_or_else(|| {
        let large = PathBuf::from("/var/tmp");
        if large.is_dir() { large } else { std::env::temp_dir() }
    })
}

fn unusable(place: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!(
        "cannot keep scratch files in {}: {error}; {}, with --spool",
        place.display(),
        remedy(error)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scratch_file_lacks_is_said_with_the_remedy() {
        let full = |errno: i32| {
            Scratch::new(Some(Path::new("/scratch")))
                .unusable(&io::Error::from_raw_os_error(errno))
                .to_string()
        };
        let (too_large, no_space) = (full(27), full(28));
        for words in ["/scratch", "File too large", "ulimit -f", "--spool"] {
            assert!(too_large.contains(words), "{too_large}");
        }
        assert!(no_space.contains("free some space") && no_space.contains("--spool"), "{no_space}");
    }
}
