//! Circles: modules of one folder of which each, by some way, uses itself.
//!
//! Two modules that use each other are one module in two files: neither is read, tested or changed without the other. Edges are
//! drawn between what stands side by side in a folder, whatever lies deeper: `a/x.rs` that uses `crate::b::y` draws `a → b`. What a
//! module uses of the one that holds it, or that of what it holds, draws none, and neither do tests.

use super::Fault;
use super::dead::Modules;
use super::source::{Source, word_at};
use std::collections::{BTreeMap, BTreeSet};

const LIBRARY: &str = "crates/overbank/src::";

/// An edge's ends, and where it was seen.
type Edges = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// One fault for each circle.
pub(crate) fn check(sources: &[Source<'_>], modules: &Modules, faults: &mut Vec<Fault>) {
    let paths: BTreeSet<String> = sources.iter().filter_map(|source| module_path(source.path)).collect();
    let mut edges = Edges::new();
    for source in sources.iter().filter(|source| !modules.is_test_only(source.path)) {
        if let Some(user) = module_path(source.path) {
            draw(source, &user, &paths, &mut edges);
        }
    }
    let mut told = BTreeSet::new();
    for start in edges.keys() {
        let Some(circle) = way_back(start, &edges) else { continue };
        let mut members = circle.clone();
        members.sort();
        if !told.insert(members) {
            continue;
        }
        let (path, line) = edges[start][&circle[0]].clone();
        let names: Vec<&str> = [start]
            .into_iter()
            .chain(&circle)
            .map(|module| module.rsplit("::").next().unwrap_or(module))
            .collect();
        let why = format!("{}: move what both need to a module below them", names.join(" → "));
        faults.push(Fault { path, line, rule: "circle", why });
    }
}

/// `crates/a/src/b/c.rs` is `crates/a/src::b::c`. `None` for roots, and for what is outside of a `src`.
fn module_path(path: &str) -> Option<String> {
    let (krate, inside) = path.split_once("/src/")?;
    let inside = inside.trim_end_matches(".rs");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    let is_root = matches!(inside, "lib" | "main") || inside.starts_with("bin/");
    (!is_root).then(|| format!("{krate}/src::{}", inside.replace('/', "::")))
}

/// Draws the edges of one file.
fn draw(source: &Source<'_>, user: &str, paths: &BTreeSet<String>, edges: &mut Edges) {
    let mut prefixes =
        vec![("crate::".to_owned(), user.split_once("::").map_or(user, |(root, _)| root).to_owned())];
    let mut climb = user;
    let mut up = String::new();
    while let Some((above, _)) = climb.rsplit_once("::") {
        up.push_str("super::");
        prefixes.push((up.clone(), above.to_owned()));
        climb = above;
    }
    for (prefix, place) in prefixes {
        for (at, _) in source.code.match_indices(&prefix) {
            let before = source.code[..at].chars().next_back();
            if source.is_test(at) || before.is_some_and(|c| c == ':' || super::source::is_word(c)) {
                continue;
            }
            let mut found = Vec::new();
            follow(source, at + prefix.len(), &place, paths, &mut found);
            for used in found {
                draw_one(user, &used, source, at, edges);
            }
        }
    }
}

/// The modules that the path, or the group of paths, at byte `at` leads to from the module `place`.
fn follow(source: &Source<'_>, at: usize, place: &str, paths: &BTreeSet<String>, found: &mut Vec<String>) {
    let mut heads = Vec::new();
    source.heads_at(at, &mut heads);
    for (at, name) in heads {
        let next = format!("{place}::{name}");
        if name.is_empty() || name == "super" || !paths.contains(&next) {
            continue;
        }
        let rest = &source.code[at + word_at(&source.code[at..]).len()..];
        let before = found.len();
        if rest.starts_with("::") {
            follow(source, at + name.len() + 2, &next, paths, found);
        }
        if found.len() == before {
            found.push(next);
        }
    }
}

/// The edge between those of the two ways from the root that part first.
fn draw_one(user: &str, used: &str, source: &Source<'_>, at: usize, edges: &mut Edges) {
    let (mut from, mut to) = (String::new(), String::new());
    for (one, other) in user.split("::").zip(used.split("::")) {
        for (path, part) in [(&mut from, one), (&mut to, other)] {
            if !path.is_empty() {
                path.push_str("::");
            }
            path.push_str(part);
        }
        if one != other {
            // Rooms of the library are held to the table of ARCHITECTURE.md, which has no circles.
            let is_room = from.matches("::").count() == 1 && from.starts_with(LIBRARY);
            if is_room {
                return;
            }
            let place = (source.path.to_owned(), source.line(at));
            edges.entry(from).or_default().entry(to).or_insert(place);
            return;
        }
    }
}

/// The shortest way from `start` back to it, without its first place.
fn way_back(start: &str, edges: &Edges) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let Some(next) = way.last().and_then(|last| edges.get(last)) else { continue };
            for module in next.keys() {
                let mut way = way.clone();
                way.push(module.clone());
                if module == start {
                    way.remove(0);
                    return Some(way);
                }
                if seen.insert(module.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}
