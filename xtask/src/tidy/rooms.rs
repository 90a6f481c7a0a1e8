//! Arrows between rooms and between crates: each may use only what stands below it.

use super::Fault;
use super::source::{Source, word_at};
use super::tree::Tree;
use std::collections::BTreeMap;

/// The rooms of the library, lowest first. Rooms of one floor may use each other only by [`SIDEWAYS`].
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["bytes", "lock"],
    &["bits"],
    &["batch"],
    &["device"],
    &["pipeline", "store"],
    &["segment"],
    &["lsm"],
    &["sketch"],
    &["frequency", "filter", "dictionary", "aggregate"],
    &["profile", "stored"],
    &["monitor"],
];

/// Declared edges between rooms of one floor: (user, used).
const SIDEWAYS: &[(&str, &str)] = &[("dictionary", "filter")];

/// Rooms that may use less than everything below them.
const ONLY: &[(&str, &[&str])] =
    &[("pipeline", &["device", "error", "lock"]), ("sketch", &["bits", "bytes", "error"])];

/// The project's own crates: (folder, what it may use of them). Faces hold no data-structure logic.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/keyhash", &[]),
    ("crates/overbank", &["keyhash"]),
    ("crates/ingest", &["keyhash", "overbank"]),
    ("crates/cli", FACE),
    ("crates/server", FACE),
    ("crates/python", FACE),
    ("crates/capi", FACE),
    ("crates/xdp", FACE),
];

const FACE: &[&str] = &["keyhash", "overbank", "overbank-ingest"];

const OWN: &[&str] = &["keyhash", "overbank", "overbank-ingest", "overbank-cli", "overbank-bench", "xtask"];

const LIBRARY: &str = "crates/overbank/src/";

/// Faults of both kinds.
pub(crate) fn arrows(tree: &Tree, sources: &[Source<'_>], faults: &mut Vec<Fault>) {
    let root = sources.iter().find(|source| source.path == "crates/overbank/src/lib.rs");
    let exported = root.map(reexports).unwrap_or_default();
    for source in sources {
        let Some(inside) = source.path.strip_prefix(LIBRARY) else { continue };
        if inside != "lib.rs" && !inside.starts_with("bin/") {
            room_arrows(source, inside, &exported, faults);
        }
    }
    for (folder, allowed) in CRATES {
        let path = format!("{folder}/Cargo.toml");
        if let Some(manifest) = tree.text(&path) {
            crate_arrows(&path, manifest, allowed, faults);
        }
    }
}

fn room_arrows(
    source: &Source<'_>,
    inside: &str,
    exported: &BTreeMap<String, String>,
    faults: &mut Vec<Fault>,
) {
    let user = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    let mut fault = |line, why| faults.push(Fault { path: source.path.to_owned(), line, rule: "arrow", why });
    if floor(user).is_none() {
        fault(0, format!("`{user}` is not a declared room: give it a floor in xtask/src/tidy/rooms.rs"));
        return;
    }
    for (at, name) in paths_from_the_root(source, inside) {
        let used = exported.get(name).map_or(name, String::as_str);
        if floor(used).is_some() && !may_use(user, used) {
            fault(source.line(at), format!("`{user}` uses `{used}`, which does not stand below it"));
        }
    }
}

/// Whether room `user` may use room `used`.
fn may_use(user: &str, used: &str) -> bool {
    if user == used || SIDEWAYS.contains(&(user, used)) {
        return true;
    }
    match ONLY.iter().find(|(room, _)| *room == user) {
        Some((_, allowed)) => allowed.contains(&used),
        None => floor(used) < floor(user),
    }
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// Names that follow `crate::`, or as many `super::` as lead from this file to the root.
fn paths_from_the_root<'s>(source: &'s Source<'_>, inside: &str) -> Vec<(usize, &'s str)> {
    let mut found = source.heads("crate::");
    let own_file = usize::from(!inside.ends_with("/mod.rs"));
    let to_root = inside.matches('/').count() + own_file;
    let climb = "super::".repeat(to_root);
    for (at, _) in source.code.match_indices(&climb) {
        source.heads_at(at + climb.len(), &mut found);
    }
    found
}

/// What lib.rs exports from its rooms: name to room. `use crate::Store` is an arrow to `store`.
fn reexports(root: &Source<'_>) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for (at, prefix) in root.code.match_indices("pub use ") {
        let path = &root.code[at + prefix.len()..];
        let room = word_at(path);
        if floor(room).is_none() {
            continue;
        }
        let statement = &path[..path.find(';').unwrap_or(path.len())];
        for name in statement[room.len()..].split([',', '{', '}', ':']) {
            // `A as B` is known as B.
            let name = name.trim().rsplit(' ').next().unwrap_or("");
            if !name.is_empty() {
                exported.insert(name.to_owned(), room.to_owned());
            }
        }
    }
    exported
}

fn crate_arrows(path: &str, manifest: &str, allowed: &[&str], faults: &mut Vec<Fault>) {
    let mut in_dependencies = false;
    for (i, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            // Tests may use what stands above; the crate itself may not.
            in_dependencies = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or("");
        if in_dependencies && name == "overbank" && line.contains("internals") {
            let why = "a face uses what every user can: not the feature `internals`".to_owned();
            faults.push(Fault { path: path.to_owned(), line: i + 1, rule: "arrow", why });
        }
        if in_dependencies && OWN.contains(&name) && !allowed.contains(&name) {
            let why = format!("this crate may not use `{name}`");
            faults.push(Fault { path: path.to_owned(), line: i + 1, rule: "arrow", why });
        }
    }
}
