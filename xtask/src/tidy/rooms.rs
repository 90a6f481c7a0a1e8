//! Arrows between rooms and between crates: each uses what the code map of `ARCHITECTURE.md` says, and nothing else.
//!
//! ```text
//! | `…/store` | what is in it | bits, device |      may use these two rooms, and the rooms of one file
//! | `…/filter` | …            | all above; not `frequency` |
//! | `crates/cli` | …          | overbank, ingest |
//! ```
//!
//! 1. A row names only rooms of rows above it, so the table's order is the house's.
//! 2. Rooms of one file (`error.rs`, `lock.rs`) are everybody's below them.
//! 3. A room or crate without a row is a fault, and so is a word that no row explains.

use super::Fault;
use super::source::{Source, word_at};
use super::tree::Tree;
use std::collections::BTreeMap;

/// Where the table is.
const MAP: &str = "ARCHITECTURE.md";

const LIBRARY: &str = "crates/overbank/src/";

/// Crates that are packages of another name than their folder's.
const PACKAGES: &[(&str, &str)] = &[
    ("ingest", "overbank-ingest"),
    ("capi", "overbank-capi"),
    ("xdp", "overbank-xdp"),
    ("cli", "overbank-cli"),
    ("bench", "overbank-bench"),
];

/// Crates that are held to no row: tools and tests of the whole.
const FREE: &[&str] = &["bench", "bench/items", "bench/rivals", "bench/rivals/sketches", "fuzz", "xtask"];

/// Who may use what, by the names of folders: `store`, `cli`.
#[derive(Default)]
struct Plan {
    rooms: BTreeMap<String, Vec<String>>,
    crates: BTreeMap<String, Vec<String>>,
}

/// Faults of both kinds.
pub(crate) fn arrows(tree: &Tree, sources: &[Source<'_>], faults: &mut Vec<Fault>) {
    let plan = Plan::read(tree.text(MAP).unwrap_or_default(), faults);
    let root = sources.iter().find(|source| source.path == "crates/overbank/src/lib.rs");
    let exported = root.map(|root| plan.reexports(root)).unwrap_or_default();
    for source in sources {
        let Some(inside) = source.path.strip_prefix(LIBRARY) else { continue };
        if inside != "lib.rs" && !inside.starts_with("bin/") {
            plan.room_arrows(source, inside, &exported, faults);
        }
    }
    for (path, manifest) in tree.files() {
        if let Some(folder) = path.strip_suffix("/Cargo.toml").filter(|folder| !FREE.contains(folder)) {
            plan.crate_arrows(path, folder.trim_start_matches("crates/"), manifest, faults);
        }
    }
}

impl Plan {
    /// Reads the rows of the table.
    fn read(map: &str, faults: &mut Vec<Fault>) -> Self {
        let mut plan = Self::default();
        // Rooms in the rows above; those of one file are everybody's.
        let (mut above, mut shared): (Vec<String>, Vec<String>) = Default::default();
        for (i, line) in map.lines().enumerate() {
            let mut fault = |why| faults.push(Fault { path: MAP.into(), line: i + 1, rule: "arrow", why });
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let ["", names, _, uses, ""] = cells[..] else { continue };
            let named: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
            let rooms: Vec<&str> = named
                .iter()
                .filter_map(|name| name.strip_prefix("…/").or_else(|| name.strip_prefix(LIBRARY)))
                .collect();
            let krate =
                names.trim_matches('`').strip_prefix("crates/").filter(|inside| !inside.contains('/'));
            if rooms.is_empty() && krate.is_none() {
                continue;
            }
            let known: Vec<String> = match krate {
                Some(_) => plan.crates.keys().cloned().collect(),
                None => above.iter().cloned().chain(plan.crates.keys().cloned()).collect(),
            };
            let mut allowed = shared.clone();
            let (named, unknown) = may_use(uses, &known);
            allowed.extend(named);
            if let Some(word) = unknown {
                fault(format!("`{word}` is not in a row above this one"));
            }
            if let Some(krate) = krate {
                plan.crates.insert(krate.to_owned(), allowed);
                continue;
            }
            for room in &rooms {
                plan.rooms.insert(room.trim_end_matches(".rs").to_owned(), allowed.clone());
            }
            for room in rooms {
                above.push(room.trim_end_matches(".rs").to_owned());
                if room.ends_with(".rs") {
                    shared.push(room.trim_end_matches(".rs").to_owned());
                }
            }
        }
        plan
    }

    fn room_arrows(
        &self,
        source: &Source<'_>,
        inside: &str,
        exported: &BTreeMap<String, String>,
        faults: &mut Vec<Fault>,
    ) {
        let user = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
        let mut fault =
            |line, why| faults.push(Fault { path: source.path.to_owned(), line, rule: "arrow", why });
        let Some(allowed) = self.rooms.get(user) else {
            fault(0, format!("`{user}` has no row in the code map of {MAP}"));
            return;
        };
        for (at, name) in paths_from_the_root(source, inside) {
            let used = exported.get(name).map_or(name, String::as_str);
            if self.rooms.contains_key(used) && used != user && !allowed.iter().any(|room| room == used) {
                let why =
                    format!("`{user}` uses `{used}`, which its row in the code map of {MAP} does not have");
                fault(source.line(at), why);
            }
        }
    }

    /// What lib.rs exports from its rooms: name to room. `use crate::Store` is an arrow to `store`.
    fn reexports(&self, root: &Source<'_>) -> BTreeMap<String, String> {
        let mut exported = BTreeMap::new();
        for (at, prefix) in root.code.match_indices("pub use ") {
            let path = &root.code[at + prefix.len()..];
            let room = word_at(path);
            if !self.rooms.contains_key(room) {
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

    fn crate_arrows(&self, path: &str, folder: &str, manifest: &str, faults: &mut Vec<Fault>) {
        let mut fault = |line, why| faults.push(Fault { path: path.to_owned(), line, rule: "arrow", why });
        let Some(allowed) = self.crates.get(folder) else {
            fault(0, format!("`crates/{folder}` has no row in the code map of {MAP}"));
            return;
        };
        let mut in_dependencies = false;
        for (i, line) in manifest.lines().enumerate() {
            if line.starts_with('[') {
                // Tests may use what stands above; the crate itself may not.
                in_dependencies = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
                continue;
            }
            if !in_dependencies {
                continue;
            }
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            if name == "overbank" && line.contains("internals") {
                fault(i + 1, "a face uses what every user can: not the feature `internals`".to_owned());
            }
            let used =
                PACKAGES.iter().find(|(_, package)| *package == name).map_or(name, |(folder, _)| folder);
            let is_own = self.crates.contains_key(used) || FREE.contains(&used);
            if is_own && !allowed.iter().any(|allowed| allowed == used) {
                fault(
                    i + 1,
                    format!("this crate uses `{name}`, which its row in the code map of {MAP} does not have"),
                );
            }
        }
    }
}

/// The names that a row's last cell means, of those that are `known`, and the first word that is none of them.
fn may_use<'c>(cell: &'c str, known: &[String]) -> (Vec<String>, Option<&'c str>) {
    let is_known = |word: &&str| known.iter().any(|room| room == word);
    let (all, words): (bool, Vec<&str>) = match cell.strip_prefix("all above") {
        Some(but) => (true, but.split('`').skip(1).step_by(2).collect()),
        None if cell == "–" => (false, Vec::new()),
        None => (false, cell.split(',').map(str::trim).collect()),
    };
    let named = known.iter().filter(|room| words.contains(&room.as_str()) != all).cloned().collect();
    (named, words.into_iter().find(|word| !is_known(word)))
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
