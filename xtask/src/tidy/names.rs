//! One meaning a public name: no two public types of the library are called alike.

use super::Fault;
use super::source::{Source, word_at};
use std::collections::BTreeMap;

const LIBRARY: &str = "crates/overbank/src/";

/// One fault for each public type whose name another has.
pub(crate) fn check(sources: &[Source<'_>], faults: &mut Vec<Fault>) {
    let mut known: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with(LIBRARY)) {
        for (at, name) in public_types(source) {
            let line = source.line(at);
            if let Some((path, other)) = known.get(name) {
                let why = format!("`{name}` is also in {path}:{other}: one meaning a public name");
                faults.push(Fault { path: source.path.to_owned(), line, rule: "name", why });
            } else {
                known.insert(name, (source.path, line));
            }
        }
    }
}

/// The names of public structs, enums, traits, unions and aliases at the top of a file.
fn public_types<'s>(source: &'s Source<'_>) -> Vec<(usize, &'s str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in source.code.split_inclusive('\n') {
        let rest = line.strip_prefix("pub ").map(|rest| rest.strip_prefix("unsafe ").unwrap_or(rest));
        let name = rest.and_then(|rest| {
            ["struct ", "enum ", "trait ", "type ", "union "]
                .iter()
                .find_map(|kind| rest.strip_prefix(kind))
                .map(word_at)
        });
        if let Some(name) = name {
            found.push((at, name));
        }
        at += line.len();
    }
    found
}
