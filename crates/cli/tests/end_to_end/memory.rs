//! The memory budget from outside: what the process held at most, and what the kernel allows it to hold.

use crate::command::{Ran, overbank};
use crate::stream::Random;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// What a run may hold beside its budget: code, stacks, the allocator's slack.
const ALLOWANCE_BYTES: u64 = 24 << 20;

/// At least 30 MB of keys that never repeat.
fn distinct_keys(place: &Path) -> PathBuf {
    let mut random = Random(51);
    let mut text = String::new();
    while text.len() < 32_000_000 {
        writeln!(text, "{:016x}{:08x}", random.next(), random.next() >> 32).expect("a string takes any text");
    }
    crate::stream::file(place, "distinct", text)
}

fn options(memory: &str) -> String {
    format!("profile --json --threads 2 --commit-every 0 --flash 0 --memory {memory} --store")
}

/// Counts on flash, and commits often enough for several logs, seldom enough for a disk that syncs slowly.
fn flash_options(memory: &str) -> String {
    format!("count --json --threads 2 --commit-every 0.2 --memory {memory} --flash 64MiB --store")
}

/// Remembers keys in a store, whose commits bring them to flash.
fn dedup_options(memory: &str) -> String {
    format!("dedup --json --threads 2 --commit-every 0.2 --memory {memory} --store")
}

fn stays_within(ran: Ran, budget_bytes: u64) {
    let report = ran.json();
    assert_eq!(report["rows"], 1_280_000);
    holds(&report["cost"], budget_bytes);
}

/// As [`stays_within`], of a command whose standard output has rows.
fn dedup_stays_within(ran: &Ran, budget_bytes: u64) {
    let report: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&report["rows"], &report["kept"]), (&1_280_000.into(), &1_280_000.into()));
    holds(&report, budget_bytes);
}

/// What a run cost is what it was allowed.
fn holds(cost: &serde_json::Value, budget_bytes: u64) {
    assert_eq!(cost["memory_bytes"], budget_bytes);
    let peak = cost["peak_memory_bytes"].as_u64().unwrap();
    println!("budget {} MiB: peak {:.1} MiB", budget_bytes >> 20, peak as f64 / f64::from(1 << 20));
    assert!(peak > budget_bytes / 2, "{peak} bytes is too little to be true");
    assert!(peak <= budget_bytes + ALLOWANCE_BYTES, "{peak} bytes for a budget of {budget_bytes}");
}

#[test]
fn peak_memory_stays_within_the_budget_and_its_allowance() {
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path());
    for (memory, budget_bytes) in [("64MiB", 64 << 20), ("16MiB", 16 << 20)] {
        let store = place.path().join(memory);
        stays_within(overbank(&options(memory)).with(&store).with(&input).run(), budget_bytes);
        let info = overbank("info --json").with(&store).run().json();
        assert!(info["commit"].as_u64().unwrap() >= 2, "several commits");
    }
}

#[test]
fn counting_on_flash_stays_within_the_budget_and_its_allowance() {
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path());
    for (memory, budget_bytes) in [("64MiB", 64 << 20), ("16MiB", 16 << 20)] {
        let store = place.path().join(memory);
        stays_within(overbank(&flash_options(memory)).with(&store).with(&input).run(), budget_bytes);
        let info = overbank("info --json").with(&store).run().json();
        assert!(info["summaries"][1]["bytes"].as_u64().unwrap() > 4 << 20, "the sketch is on flash: {info}");
    }
}

#[test]
fn dedup_stays_within_the_budget_and_its_allowance() {
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path());
    for (memory, budget_bytes) in [("64MiB", 64 << 20), ("32MiB", 32 << 20)] {
        let store = place.path().join(memory);
        let ran = overbank(&dedup_options(memory)).with(&store).with(&input).run();
        dedup_stays_within(&ran, budget_bytes);
    }
}

/// A memory cgroup, gone when dropped.
struct Group(PathBuf);

impl Group {
    /// A group that may hold `bytes`, page cache included; or why there can be none.
    fn new(bytes: u64) -> Result<Self, String> {
        let name = format!("overbank-test-{}-{bytes}", std::process::id());
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

/// Runs a command on distinct keys, if a group can be made.
fn run_in_a_cgroup(budget_bytes: u64, options: &str) -> Option<Ran> {
    let group = match Group::new(budget_bytes + ALLOWANCE_BYTES) {
        Ok(group) => group,
        Err(why) => {
            println!("skipped: no memory cgroup can be made here: {why}");
            return None;
        }
    };
    let place = tempfile::tempdir().unwrap();
    let input = distinct_keys(place.path());
    // A shell joins the group before it becomes the command, so that every byte counts.
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let output = std::process::Command::new("sh")
        .args(["-c", &join, "sh", env!("CARGO_BIN_EXE_overbank")])
        .args(options.split_whitespace())
        .arg(place.path().join("store"))
        .arg(&input)
        .output()
        .expect("a shell");
    Some(Ran::from(output))
}

#[test]
fn a_cgroup_of_the_budget_and_its_allowance_is_enough() {
    if let Some(ran) = run_in_a_cgroup(64 << 20, &options("64MiB")) {
        stays_within(ran, 64 << 20);
    }
}

#[test]
fn a_cgroup_of_the_budget_and_its_allowance_is_enough_for_flash() {
    if let Some(ran) = run_in_a_cgroup(32 << 20, &flash_options("32MiB")) {
        stays_within(ran, 32 << 20);
    }
}

#[test]
fn a_cgroup_of_the_budget_and_its_allowance_is_enough_for_dedup() {
    if let Some(ran) = run_in_a_cgroup(32 << 20, &dedup_options("32MiB")) {
        dedup_stays_within(&ran, 32 << 20);
    }
}
