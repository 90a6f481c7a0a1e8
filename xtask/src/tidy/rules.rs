//! Rules on single files: size, whitespace, header, file name, banned words, `unsafe`, the seam to the world.

use super::Fault;
use super::source::{Source, word_at};

/// The agreed size of a file, tests included.
const LINES_MAX: usize = 800;

/// The agreed width of a line of Rust, code or comment, in characters.
const COLUMNS_MAX: usize = 140;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "misc", "manager", "types", "v2"];

/// Written in pieces so that this file does not break its own rule.
const BANNED: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("deb.debian", ".org"),
    concat!("proxy.golang", ".org"),
];

/// Where `unsafe` may stand: code for one instruction set, the device's files, the C interface, the command's memory, the
/// command's look at standard output and its packet sockets, two calls of XDP's to the kernel, the bench's memory map, a rival that is
/// one, the test that forks, and the allocator that counts.
const UNSAFE_PLACES: &[&str] = &[
    "crates/overbank/src/bits/",
    "crates/overbank/src/device/file",
    "crates/overbank/tests/counting/",
    "crates/overbank/tests/fork.rs",
    "crates/capi/",
    "crates/xdp/src/kernel.rs",
    "crates/cli/src/resident.rs",
    "crates/cli/src/closed.rs",
    "crates/cli/src/commands/monitor/packet_socket.rs",
    "bench/src/mapping.rs",
    "bench/rivals/src/lmdb.rs",
];

/// What reaches past the device: storage, time, randomness.
const WORLD: &[(&str, &[&str])] = &[
    ("std::", &["fs", "net"]),
    ("std::time::", &["Instant", "SystemTime"]),
    ("", &["rustix", "rand", "getrandom", "fastrand", "libc"]),
];

/// The rules on any text.
pub(crate) fn text(path: &str, text: &str, faults: &mut Vec<Fault>) {
    let mut fault = |line, rule, why: String| faults.push(Fault { path: path.to_owned(), line, rule, why });
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let is_code = [".rs", ".py", ".sh", ".c", ".h"].iter().any(|end| name.ends_with(end));

    let lines = text.lines().count();
    if is_code && lines > LINES_MAX {
        fault(0, "size", format!("{lines} lines, more than {LINES_MAX}: split it by noun"));
    }
    let folders = path.split('/').rev().skip(1);
    if let Some(empty) = folders.chain([stem]).find(|part| EMPTY_NAMES.contains(part)) {
        fault(0, "file-name", format!("{empty:?} says nothing about what is inside"));
    }
    for (i, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            fault(i + 1, "whitespace", "blanks at the end of the line".into());
        }
        if line.contains('\t') && name != "Makefile" {
            fault(i + 1, "whitespace", "a tab".into());
        }
        if let Some(word) = BANNED.iter().find(|word| line.contains(**word)) {
            fault(i + 1, "banned", format!("{word:?} belongs to one machine, not to the project"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        fault(lines, "whitespace", "no line end at the end of the file".into());
    }
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
    if name.ends_with(".rs") && !first.is_some_and(|line| line.starts_with("//!")) {
        fault(1, "header", "the file must start with `//!`: what it is, in one sentence".into());
    }
}

/// The rules on Rust code. `test_only` is set for files that only tests reach.
pub(crate) fn rust(source: &Source<'_>, test_only: bool, faults: &mut Vec<Fault>) {
    let mut fault = |at, rule, why: String| {
        faults.push(Fault { path: source.path.to_owned(), line: source.line(at), rule, why });
    };
    for at in source.words("unsafe") {
        if !UNSAFE_PLACES.iter().any(|place| source.path.starts_with(place)) {
            fault(
                at,
                "unsafe",
                "unsafe code belongs into bits/, device/file*, the C interface, xdp's kernel.rs, the command's resident.rs, closed.rs and \
                 packet_socket.rs, the bench's mapping.rs and its rival lmdb.rs, the test that forks or tests/counting"
                    .into(),
            );
        }
        if let Some(wanted) = missing_reason(source, at) {
            fault(at, "unsafe", format!("no `{wanted}` above says why this is sound"));
        }
    }
    let mut at = 0;
    for line in source.text.split_inclusive('\n') {
        let columns = line.trim_end().chars().count();
        // rustfmt does not reach into `proptest!`, and a table cannot be wrapped.
        let is_free =
            test_only || source.is_test(at) || line.trim_start_matches(['/', '!', ' ']).starts_with('|');
        if columns > COLUMNS_MAX && !is_free {
            fault(at, "width", format!("{columns} characters, more than {COLUMNS_MAX}"));
        }
        at += line.len();
    }
    if source.path.starts_with("crates/overbank/src/") && source.path != "crates/overbank/src/lock.rs" {
        for at in source.words("PoisonError") {
            let why = "locks are taken by crate::lock, which says what becomes of a poisoned one".to_owned();
            fault(at, "poison", why);
        }
    }
    let outside = source.path.starts_with("crates/overbank/src/")
        && !source.path.starts_with("crates/overbank/src/device/")
        && !test_only;
    if outside {
        for (at, name) in reaches_past_the_device(source) {
            if !source.is_test(at) {
                let why =
                    format!("`{name}` reaches past the device: storage, time and randomness go through it");
                fault(at, "seam", why);
            }
        }
    }
}

/// The comment that an `unsafe` at byte `at` lacks: `SAFETY:` for blocks and impls, `# Safety` for functions.
fn missing_reason(source: &Source<'_>, at: usize) -> Option<&'static str> {
    let after = source.code[at + "unsafe".len()..].trim_start();
    // Literals are blanks here, so `extern "C" fn` reads `extern     fn`.
    let item = after.strip_prefix("extern").map_or(after, str::trim_start);
    let wanted = match word_at(item) {
        "fn" | "trait" => "# Safety",
        // An attribute, `#[unsafe(no_mangle)]`: nothing is done here.
        "" if item.starts_with('(') => return None,
        _ => "SAFETY:",
    };
    let lines: Vec<&str> = source.text.lines().collect();
    let line = source.line(at) - 1;
    if lines[line].contains(wanted) {
        return None;
    }
    // Up through the statement's own lines and the comment on top of them.
    for above in lines[..line].iter().rev() {
        let above = above.trim();
        if above.contains(wanted) {
            return None;
        }
        let comment = above.starts_with("//");
        if above.is_empty() || (!comment && !above.starts_with("#[") && above.ends_with([';', '{', '}'])) {
            break;
        }
    }
    Some(wanted)
}

fn reaches_past_the_device<'s>(source: &'s Source<'_>) -> Vec<(usize, &'s str)> {
    let mut found = Vec::new();
    for (prefix, names) in WORLD {
        if prefix.is_empty() {
            for name in *names {
                let called = |&at: &usize| source.code[at + name.len()..].starts_with("::");
                found.extend(source.words(name).filter(called).map(|at| (at, *name)));
            }
        } else {
            found.extend(source.heads(prefix).into_iter().filter(|(_, head)| names.contains(head)));
        }
    }
    // `use std::{time::Instant, …}` hides the whole path, so the two clocks are also looked for by name.
    for name in ["Instant", "SystemTime"] {
        let called = |&at: &usize| source.code[at + name.len()..].starts_with("::now");
        found.extend(source.words(name).filter(called).map(|at| (at, name)));
    }
    found
}
