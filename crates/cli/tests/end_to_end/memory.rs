//! The memory budget from outside: what the process held at most, and what the kernel allows it to hold.

use crate::command::{Ran, overbank};
use crate::stream::Random;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run may hold beside its budget: code, stacks, the kernel's own for them.
const ALLOWANCE_BYTES: u64 = 8 << 20;
const MIB: u64 = 1 << 20;

/// `rows` keys that never repeat, of 16 digits each.
fn distinct_keys(place: &Path, rows: u64) -> PathBuf {
    let mut random = Random(51);
    let mut text = String::new();
    for _ in 0..rows {
        writeln!(text, "{:016x}", random.next()).expect("a string takes any text");
    }
    crate::stream::file(place, "distinct", text)
}

/// A memory cgroup, gone when dropped.
struct Group(PathBuf);

impl Group {
    /// A group that may hold `bytes`, page cache included; or why there can be none.
    fn new(bytes: u64) -> Result<Self, String> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("overbank-test-{}-{number}", std::process::id());
        let (place, limit) =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
                .into_iter()
                .map(|(root, limit)| (Path::new(root).join(&name), limit))
                .find(|(place, _)| place.parent().is_some_and(|root| root.join("cgroup.procs").exists()))
                .ok_or("no memory cgroup is mounted")?;
        fs::create_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let group = Self(place);
        let limit = group.0.join(limit);
        fs::write(&limit, bytes.to_string()).map_err(|error| format!("{}: {error}", limit.display()))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An empty group is removed by its directory; one that is left over does no harm.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs a command in a group of the budget and the allowance; where none can be made, without.
fn run_within(budget_bytes: u64, words: &str, paths: &[&Path]) -> Ran {
    let group = Group::new(budget_bytes + ALLOWANCE_BYTES);
    let join = match &group {
        // A shell joins the group before it becomes the command, so that every byte counts.
        Ok(group) => format!("echo $$ > {}/cgroup.procs && ", group.0.display()),
        Err(why) => {
            println!("no memory cgroup can be made here: {why}");
            String::new()
        }
    };
    let output = Command::new("sh")
        .args(["-c", &format!("{join}exec \"$@\""), "sh", env!("CARGO_BIN_EXE_overbank")])
        .args(words.split_whitespace())
        .args(paths)
        .output()
        .expect("a shell");
    Ran::from(output)
}

/// Runs a command with `--memory` and `-j` in its group, and returns its peak.
fn holds(command: &str, mib: u64, threads: u32, rows: u64, paths: &[&Path]) -> u64 {
    let words = format!("{command} --json --quiet --memory {mib}MiB -j {threads}");
    // The directory is the last word, and comes as a path.
    let words = match words.split_once(" --store") {
        Some((before, after)) => format!("{before}{after} --store"),
        None => words,
    };
    let ran = run_within(mib * MIB, &words, paths);
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
    let text = if command.starts_with("dedup") { &ran.err } else { &ran.out };
    let report: serde_json::Value = serde_json::from_str(text).expect("one JSON value");
    let cost = report.get("cost").unwrap_or(&report);
    assert_eq!(report["rows"], rows, "{words}");
    assert_eq!(cost["memory_bytes"], mib * MIB, "{words}");
    let peak = cost["peak_memory_bytes"].as_u64().expect("a number");
    println!("{words}: {:.1} MiB beyond the budget", (peak as f64 - (mib * MIB) as f64) / MIB as f64);
    assert!(peak > mib * MIB / 3, "{words}: {peak} bytes is too little to be true");
    assert!(peak <= mib * MIB + ALLOWANCE_BYTES, "{words}: {peak} bytes");
    peak
}

/// Each command at its least budget and at the usual one, with one thread and with more than the machine has cores.
fn holds_at_any(command: &str, least_mib: u64) {
    const ROWS: u64 = 1_000_000;
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path(), ROWS);
    for (mib, threads) in [(least_mib, 1), (least_mib, 8), (64, 8)] {
        let store = place.path().join(format!("{mib}-{threads}"));
        let paths: &[&Path] = if command.contains("--store") { &[&store, &input] } else { &[&input] };
        holds(command, mib, threads, ROWS, paths);
    }
}

#[test]
fn profiles_stay_within_the_budget_and_the_allowance() {
    holds_at_any("profile", 8);
}

#[test]
fn stored_profiles_stay_within_the_budget_and_the_allowance() {
    holds_at_any("profile --flash 0 --commit-every 0.2 --store", 8);
}

#[test]
fn counting_on_flash_stays_within_the_budget_and_the_allowance() {
    holds_at_any("count --flash 64MiB --commit-every 0.2 --store", 16);
}

#[test]
fn dedup_stays_within_the_budget_and_the_allowance() {
    holds_at_any("dedup --commit-every 0.2 --store", 32);
}

#[test]
fn a_longer_stream_takes_no_more_memory() {
    let place = tempfile::tempdir().unwrap();
    let peaks = [1, 3].map(|times| {
        let rows = times * 1_000_000;
        let input = distinct_keys(place.path(), rows);
        holds("dedup", 32, 8, rows, &[&input])
    });
    // What merges hold varies by a few MiB; with an arena a thread the longer stream took 25 MiB more.
    assert!(peaks[1] <= peaks[0] + 8 * MIB, "{peaks:?}");
}

#[test]
fn dictionaries_are_built_and_asked_within_the_budget_and_the_allowance() {
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path(), 1_000_000);
    let [built, one, two, all, out] =
        ["built", "one", "two", "all", "out"].map(|name| place.path().join(name));
    let done = |ran: Ran| assert_eq!(ran.code, Some(0), "{}", ran.err);
    // These tell no peak: the group's limit is the judge.
    let build = "dict build --quiet --value-row --memory 32MiB -j 8";
    done(run_within(32 * MIB, build, &[&built, &input]));
    done(run_within(32 * MIB, "dict get --memory 32MiB --keys", &[&input, &built]));
    done(run_within(32 * MIB, "dict join --quiet --memory 32MiB -j 8 --output", &[&out, &built, &input]));
    done(run_within(32 * MIB, "dict scan --memory 32MiB --output", &[&out, &built]));
    done(run_within(32 * MIB, "dict split --memory 32MiB", &[&built, &one, &two]));
    done(run_within(32 * MIB, "dict concat --memory 32MiB", &[&all, &two, &one]));
}

#[test]
fn filters_are_built_merged_and_asked_within_the_budget_and_the_allowance() {
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path(), 1_000_000);
    let [built, merged] = ["built", "merged"].map(|name| place.path().join(name));
    let done = |ran: Ran| assert_eq!(ran.code, Some(0), "{}", ran.err);
    // These tell no peak: the group's limit is the judge.
    done(run_within(32 * MIB, "filter build --quiet --memory 32MiB -j 8", &[&built, &input]));
    done(run_within(32 * MIB, "filter merge --memory 32MiB", &[&merged, &built]));
    done(run_within(32 * MIB, "seen --json --keys-from", &[&input, &merged]));
    done(run_within(32 * MIB, "verify", &[&merged]));
}

#[test]
fn other_formats_stay_within_the_budget_and_the_allowance() {
    const ROWS: u64 = 200_000;
    let place = tempfile::tempdir().unwrap();
    let mut random = Random(52);
    let (mut csv, mut json) = (String::new(), String::new());
    for row in 0..ROWS {
        let key = random.next();
        writeln!(csv, "{row},\"a, {row}\",{key:016x}").expect("a string takes any text");
        writeln!(json, "{{\"ms\":{row},\"user\":{{\"id\":\"{key:016x}\"}}}}")
            .expect("a string takes any text");
    }
    let zstd = zstd::encode_all(json.as_bytes(), 3).unwrap();
    let file = |name, bytes: &[u8]| crate::stream::file(place.path(), name, bytes);
    for threads in [1, 16] {
        for (words, path) in [
            ("profile -f csv --no-header -k 3", file("a.csv", csv.as_bytes())),
            ("profile -f jsonl -k user.id -w ms", file("a.jsonl", json.as_bytes())),
            ("profile -f jsonl -k user.id", file("a.zst", &zstd)),
        ] {
            holds(words, 8, threads, ROWS, &[&path]);
        }
    }
}

#[test]
fn too_little_memory_is_refused_with_the_least() {
    for (command, least) in [
        ("profile --memory 7MiB", "8 MiB"),
        ("count --memory 15MiB --store s", "16 MiB"),
        ("dedup --memory 31MiB", "32.0 MiB"),
        ("filter build s --memory 31MiB", "32.0 MiB"),
        ("filter merge a b --memory 31MiB", "32.0 MiB"),
    ] {
        overbank(command).run().fails_naming(&["memory", least]);
    }
}
