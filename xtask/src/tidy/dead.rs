//! Dead files: Rust files that no target names and no `mod` declares.

use super::Fault;
use super::source::{Source, word_at};
use super::tree::Tree;
use std::collections::BTreeMap;

/// The files that some target reaches, and whether only through tests.
pub(crate) struct Modules {
    test_only: BTreeMap<String, bool>,
}

impl Modules {
    pub(crate) fn is_test_only(&self, path: &str) -> bool {
        self.test_only.get(path).copied().unwrap_or(false)
    }
}

/// Follows `mod name;` from every target of every crate.
pub(crate) fn walk(tree: &Tree, sources: &[Source<'_>]) -> Modules {
    let by_path: BTreeMap<&str, &Source<'_>> = sources.iter().map(|source| (source.path, source)).collect();
    let mut modules = Modules { test_only: BTreeMap::new() };
    let mut open: Vec<(String, bool, bool)> = Vec::new();
    for (path, manifest) in tree.files().filter(|(path, _)| path.rsplit('/').next() == Some("Cargo.toml")) {
        let folder = path.trim_end_matches("Cargo.toml");
        for source in sources {
            if let Some(test) = source.path.strip_prefix(folder).and_then(|inside| target(inside, manifest)) {
                open.push((source.path.to_owned(), true, test));
            }
        }
    }
    while let Some((path, is_root, test)) = open.pop() {
        let Some(source) = by_path.get(path.as_str()) else { continue };
        match modules.test_only.get(&path) {
            // Seen already, at least as live as now.
            Some(&known) if !known || test => continue,
            _ => modules.test_only.insert(path.clone(), test),
        };
        for (name, in_test) in declared(source) {
            for child in places(&path, is_root, &name) {
                open.push((child, false, test || in_test));
            }
        }
    }
    modules
}

/// One fault for each file that was not reached.
pub(crate) fn files(sources: &[Source<'_>], modules: &Modules, faults: &mut Vec<Fault>) {
    for source in sources.iter().filter(|source| !modules.test_only.contains_key(source.path)) {
        let why = "no `mod` declares this file and no target names it".to_owned();
        faults.push(Fault { path: source.path.to_owned(), line: 0, rule: "dead", why });
    }
}

/// Whether a path inside a crate's folder is the root of a target, and then whether of tests or benches.
fn target(inside: &str, manifest: &str) -> Option<bool> {
    let named = manifest.lines().any(|line| {
        line.split_once('=')
            .is_some_and(|(key, value)| key.trim() == "path" && value.trim().trim_matches('"') == inside)
    });
    let (folder, name) = inside.split_once('/').unwrap_or(("", inside));
    // tests/name.rs or tests/name/main.rs, and the same for the other three.
    let file = !name.contains('/') || (name.ends_with("/main.rs") && name.matches('/').count() == 1);
    match folder {
        "" if name == "build.rs" => Some(false),
        "src" if name == "lib.rs" || name == "main.rs" => Some(false),
        "src" if name.strip_prefix("bin/").is_some_and(|binary| !binary.contains('/')) => Some(false),
        "tests" | "benches" | "examples" if file => Some(true),
        _ => named.then_some(false),
    }
}

/// The names of `mod name;`, or the file of `#[path = "…"]` over it, and whether under `#[cfg(test)]`.
fn declared(source: &Source<'_>) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for at in source.words("mod") {
        let rest = source.code[at + 3..].trim_start();
        let name = word_at(rest);
        if name.is_empty() || !rest[name.len()..].trim_start().starts_with(';') {
            continue;
        }
        // The attributes above belong to this item: they start after the previous item's end.
        let start = source.code[..at].rfind([';', '}']).map_or(0, |end| end + 1);
        let attributes = &source.text[start..at];
        let path = attributes.split_once("path = \"").and_then(|(_, rest)| rest.split('"').next());
        let test = source.code[start..at].contains("cfg(test)") || source.is_test(at);
        // Under `cfg_attr` the module is now the one file, now the other.
        if path.is_none() || attributes.contains("cfg_attr") {
            found.push((name.to_owned(), test));
        }
        found.extend(path.map(|path| (path.to_owned(), test)));
    }
    found
}

/// The files that `mod name;` in the file `path` may mean.
fn places(path: &str, is_root: bool, name: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    if name.ends_with(".rs") {
        return vec![format!("{folder}/{name}")];
    }
    let folder = match file.trim_end_matches(".rs") {
        "mod" => folder.to_owned(),
        _ if is_root => folder.to_owned(),
        stem => format!("{folder}/{stem}"),
    };
    vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
}
