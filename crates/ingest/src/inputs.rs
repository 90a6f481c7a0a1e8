//! The list of inputs: patterns expanded, directories and missing files refused before anything is read.

use crate::{Error, Result, pattern};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Expands patterns in byte order and checks that each file can be opened, so that a wrong name in a long list is
/// found at the start. An existing file whose name looks like a pattern is that file. No inputs means stdin.
pub(crate) fn expand(inputs: &[PathBuf]) -> Result<Vec<Arc<Path>>> {
    let mut paths: Vec<Arc<Path>> = Vec::new();
    for input in inputs {
        if pattern::is_pattern(input) && !input.exists() {
            paths.extend(matches(input)?.into_iter().map(Arc::from));
        } else {
            paths.push(Arc::from(input.as_path()));
        }
    }
    if inputs.is_empty() {
        paths.push(Arc::from(Path::new("-")));
    }
    paths.iter().try_for_each(|path| check(path))?;
    Ok(paths)
}

/// `-` is stdin.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The sum of the files' sizes, if all inputs are regular files.
pub(crate) fn total_bytes(paths: &[Arc<Path>]) -> Option<u64> {
    let size = |path: &Arc<Path>| {
        let metadata = if is_stdin(path) { None } else { path.metadata().ok() };
        metadata.filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
    };
    paths.iter().map(size).sum()
}

fn matches(input: &Path) -> Result<Vec<PathBuf>> {
    let mut found = pattern::matches(input)?;
    found.retain(|path| !path.is_dir());
    if found.is_empty() {
        return Err(Error::NoMatch { pattern: input.display().to_string() });
    }
    pattern::sort(&mut found);
    Ok(found)
}

fn check(path: &Path) -> Result<()> {
    if is_stdin(path) {
        return Ok(());
    }
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    let metadata = path.metadata().map_err(open_error)?;
    if metadata.is_dir() {
        return Err(Error::IsDirectory { path: path.to_path_buf() });
    }
    if metadata.is_file() {
        std::fs::File::open(path).map_err(open_error)?;
    }
    Ok(())
}
