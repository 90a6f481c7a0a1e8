//! The project's text files, read once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Text files by their path from the root, with `/`.
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
}

/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &[".git", ".venv", "target", "data", "corpus", "artifacts", "testdata", "golden"];

/// Files that tools write, and the licence's own words. `.git` is a file in a linked work tree.
const GENERATED: &[&str] = &[".git", "Cargo.lock", "LICENSE", "overbank.h"];

impl Tree {
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self { texts: BTreeMap::new() };
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) && !name.ends_with(".store") {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && !GENERATED.contains(&name.as_str()) {
                // What is not UTF-8 is not text.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    self.texts.insert(path, text);
                }
            }
        }
        Ok(())
    }
}
