//! `cargo xtask tidy`: the house rules that neither the compiler nor clippy checks.
//!
//! ```text
//!   tree    all text files ──▶ text rules:   size, whitespace, header, file-name, banned
//!   source  Rust without comments and strings ──▶ width, unsafe, seam, poison
//!   rooms   `crate::x`, `super::x`, Cargo.toml, the table in ARCHITECTURE.md ──▶ arrow
//!   circles `crate::x::y`, `super::y` ──▶ circle
//!   names   `pub struct X` …              ──▶ name
//!   dead    `mod x;` from every target     ──▶ dead
//! ```
//!
//! Each rule has a test in `tests.rs` that plants its fault in a small tree and sees the rule trip.

mod circles;
mod dead;
mod names;
mod rooms;
mod rules;
mod source;
#[cfg(test)]
mod tests;
mod tree;

use source::Source;
use std::fmt;
use std::path::Path;
use tree::Tree;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub(crate) line: usize,
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// What is wrong and what to do.
    pub(crate) why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, why } = self;
        write!(f, "{path}:{line}: [{rule}] {why}")
    }
}

/// All faults of the project at `root`, sorted by place.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn check(root: &Path) -> std::io::Result<Vec<Fault>> {
    let tree = Tree::read(root)?;
    let sources: Vec<Source<'_>> = tree
        .files()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| Source::new(path, text))
        .collect();
    let modules = dead::walk(&tree, &sources);

    let mut faults = Vec::new();
    for (path, text) in tree.files() {
        rules::text(path, text, &mut faults);
    }
    for source in &sources {
        rules::rust(source, modules.is_test_only(source.path), &mut faults);
    }
    rooms::arrows(&tree, &sources, &mut faults);
    circles::check(&sources, &modules, &mut faults);
    names::check(&sources, &mut faults);
    dead::files(&sources, &modules, &mut faults);
    faults.sort();
    Ok(faults)
}
