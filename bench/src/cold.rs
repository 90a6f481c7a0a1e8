//! Cold reads: puts files and caches out of memory before an I/O measurement, and says how far it got.

use crate::Result;
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// How much of the page cache went away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// All clean pages, dentries and inodes of the machine.
    Everything,
    /// Nothing: the reason is a sentence for the report.
    Nothing(String),
}

impl Dropped {
    /// What goes into the figures' parameters.
    pub fn describe(&self) -> String {
        match self {
            Self::Everything => "dropped".into(),
            Self::Nothing(why) => format!("NOT dropped: {why}"),
        }
    }
}

/// Writes out one file and drops its pages from the page cache. Needs no privilege.
///
/// # Errors
/// When the file cannot be opened or synced.
pub fn forget_file(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    // Dirty pages stay in memory whatever is advised, so they are written first.
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Drops the page cache of the whole machine; needs root.
pub fn drop_caches() -> Dropped {
    drop_caches_by(Path::new("/proc/sys/vm/drop_caches"))
}

fn drop_caches_by(switch: &Path) -> Dropped {
    rustix::fs::sync();
    let written = fs::OpenOptions::new().write(true).open(switch).and_then(|mut file| file.write_all(b"3\n"));
    match written {
        Ok(()) => Dropped::Everything,
        Err(error) => Dropped::Nothing(format!("cannot write {} ({error}); run as root", switch.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_forgotten_without_losing_it() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(file.path(), vec![7u8; 1 << 20]).expect("written");
        forget_file(file.path()).expect("forgotten");
        assert_eq!(fs::read(file.path()).expect("read").len(), 1 << 20);
        assert!(forget_file(Path::new("/nonexistent/file")).is_err());
    }

    #[test]
    fn a_refusal_is_said_with_its_reason_and_remedy() {
        let dropped = drop_caches_by(Path::new("/nonexistent/switch"));
        let said = dropped.describe();
        assert!(
            said.starts_with("NOT dropped") && said.contains("/nonexistent/switch") && said.contains("root")
        );
    }
}
