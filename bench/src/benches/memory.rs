//! The promise of `--memory`: the most that each command of `overbank` ever held, beyond its budget.
//!
//! A row is a whole process over distinct keys, in a memory cgroup of the budget and the allowance where one can be made, so that a
//! broken promise is a killed process. What is shown is the process' own high-water mark less the budget: below 0 is within it.
//! The bench fails where it is more than the allowance.
//!
//! Stores are queried afterwards, by keys from a file. Queries have no `--memory`, so their budget is the one with which the store was
//! made.

use crate::{Bench, Case, MemoryGroup, Metric, Params, ProcessTree, Random, Result, Run, Size};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "memory",
    about: "peak resident memory of every command less its budget, which may be 8 MiB",
    engines: &[
        "profile",
        "profile_store",
        "count",
        "dedup",
        "dedup_store",
        "filter_build",
        "filter_merge",
        "estimate",
        "seen",
        "top",
        "info",
        "verify",
        "csv",
        "jsonl",
        "gzip",
        "zstd",
    ],
    run,
};

/// What the program itself may hold beside the budget.
const ALLOWANCE_BYTES: u64 = 8 << 20;
const MIB: u64 = 1 << 20;
/// The least budgets of `count` and of the commands that fill a filter; that of `profile` is less.
const COUNT_BYTES_MIN: u64 = 16 * MIB;
const FILTER_BYTES_MIN: u64 = 32 * MIB;
/// Keys that are asked of a store.
const ASKED_KEYS: u64 = 1_000_000;

fn run(run: &mut Run<'_>) -> Result<()> {
    let overbank = std::env::current_exe()?.with_file_name("overbank");
    if !overbank.exists() {
        run.say(&format!("{} is not built (cargo build --release -p overbank-cli)", overbank.display()));
        return run.figure(Case::Profile, "profile", Metric::OverBudgetBytes, 0.0, Params::new());
    }
    let folder = tempfile::tempdir()?;
    let keys: &[u64] = run.pick([&[20_000], &[1_000_000], &[10_000_000, 80_000_000]]);
    let budgets: &[u64] = run.pick([&[32], &[8, 32, 64], &[8, 16, 32, 64, 256, 1024]]);
    let threads: &[u32] = run.pick([&[8], &[1, 8], &[1, 2, 8, 16]]);
    let mut worst = Worst::default();
    for &keys in keys {
        let input = folder.path().join("lines");
        write_rows(&input, keys, |key| format!("{key:016x}"))?;
        let asked = folder.path().join("asked");
        write_rows(&asked, keys.min(ASKED_KEYS), |key| format!("{key:016x}"))?;
        for &budget in budgets {
            for &threads in threads {
                let bed =
                    Bed { overbank: &overbank, folder: folder.path(), keys, budget: budget * MIB, threads };
                bed.commands(run, &mut worst, &input, &asked)?;
            }
        }
    }
    let rows = run.pick([20_000, 1_000_000, 5_000_000]);
    for format in formats(folder.path(), rows)? {
        for &threads in threads {
            let bed = Bed {
                overbank: &overbank,
                folder: folder.path(),
                keys: rows,
                budget: budgets[0] * MIB,
                threads,
            };
            let budget = bed.budget_option();
            let mut words = vec!["profile", "-q", "-m", &budget];
            words.extend(format.options);
            bed.measure(run, &mut worst, Case::Profile, format.engine, &words, &[&format.path])?;
        }
    }
    run.say(&format!(
        "the most beyond a budget: {:.1} MiB, of {}",
        worst.over_bytes as f64 / MIB as f64,
        worst.what
    ));
    // Figures of a smoke run are worthless: the program may be one for debugging.
    if run.size() != Size::Smoke && worst.over_bytes > ALLOWANCE_BYTES as i64 {
        return Err(format!("{} held more than its budget and the allowance", worst.what).into());
    }
    Ok(())
}

/// The command that held most beyond its budget.
#[derive(Default)]
struct Worst {
    over_bytes: i64,
    what: String,
}

/// What the commands of a table have in common.
struct Bed<'a> {
    overbank: &'a Path,
    folder: &'a Path,
    keys: u64,
    budget: u64,
    threads: u32,
}

impl Bed<'_> {
    fn budget_option(&self) -> String {
        format!("{}", self.budget)
    }

    /// All commands over one input, each in a fresh store.
    fn commands(&self, run: &mut Run<'_>, worst: &mut Worst, input: &Path, asked: &Path) -> Result<()> {
        let place = tempfile::tempdir_in(self.folder)?;
        let store = |name: &str| place.path().join(name);
        let (profiled, counted, seen) = (store("profiled"), store("counted"), store("seen"));
        let (built, merged) = (store("built"), store("merged"));
        let budget = self.budget_option();
        let spool = place.path().to_string_lossy();
        let memory = ["-q", "-m", &budget];
        let with = |words: &[&'static str]| -> Vec<String> {
            words.iter().copied().map(str::to_owned).chain(memory.map(str::to_owned)).collect()
        };
        let mut go = |case, engine, words: Vec<String>, paths: &[&Path]| -> Result<()> {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.measure(run, worst, case, engine, &words, paths)
        };
        let plain = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
        go(Case::Profile, "profile", with(&["profile"]), &[input])?;
        let stored = |command| {
            with(&[command, "--commit-every", "1"]).into_iter().chain(["--store".to_owned()]).collect()
        };
        go(Case::Profile, "profile_store", stored("profile"), &[&profiled, input])?;
        if self.budget >= COUNT_BYTES_MIN {
            go(Case::Update, "count", stored("count"), &[&counted, input])?;
            go(Case::Estimate, "estimate", plain(&["estimate", "--keys-from"]), &[asked, &counted])?;
            go(Case::Get, "info", plain(&["info"]), &[&counted])?;
        }
        go(Case::Get, "top", plain(&["top"]), &[&profiled])?;
        if self.budget < FILTER_BYTES_MIN {
            return Ok(());
        }
        let mut spooled = with(&["dedup", "--invert"]);
        spooled.extend(["--spool".to_owned(), spool.into_owned()]);
        go(Case::Dedup, "dedup", spooled, &[input])?;
        let mut kept: Vec<String> = stored("dedup");
        // Nothing is printed then: the harness need not keep it.
        kept.insert(1, "--invert".to_owned());
        go(Case::Dedup, "dedup_store", kept, &[&seen, input])?;
        go(Case::Build, "filter_build", with(&["filter", "build", "--seed", "7"]), &[&built, input])?;
        let merge = plain(&["filter", "merge", "-m", &budget]);
        go(Case::Merge, "filter_merge", merge, &[&merged, &built])?;
        go(Case::LookupPositive, "seen", plain(&["seen", "--keys-from"]), &[asked, &built])?;
        go(Case::Verify, "verify", plain(&["verify"]), &[&built])
    }

    /// Runs a command, and reports what it held beyond the budget.
    fn measure(
        &self,
        run: &mut Run<'_>,
        worst: &mut Worst,
        case: Case,
        engine: &'static str,
        words: &[&str],
        paths: &[&Path],
    ) -> Result<()> {
        let group = MemoryGroup::create(self.budget + ALLOWANCE_BYTES);
        let mut command = match &group {
            // A program for debugging is larger than one for use.
            Ok(group) if run.size() != Size::Smoke => group.command(self.overbank),
            _ => Command::new(self.overbank),
        };
        let (name, options) = words.split_at(if words[0] == "filter" { 2 } else { 1 });
        command.args(name);
        if ["profile", "count", "dedup"].contains(&name[0]) || name.last() == Some(&"build") {
            command.args(["-j", &self.threads.to_string()]);
        }
        command.args(options).args(paths);
        let tree = ProcessTree::measure(&mut command)?;
        let what = format!(
            "{engine} of {} keys at {} MiB with {} threads",
            self.keys,
            self.budget / MIB,
            self.threads
        );
        if !tree.status.success() {
            run.fail(format!("{what} failed: {}", tree.status));
            return Ok(());
        }
        let over_bytes = tree.peak_rss_bytes as i64 - self.budget as i64;
        if worst.what.is_empty() || over_bytes > worst.over_bytes {
            *worst = Worst { over_bytes, what };
        }
        let params = Params::from_iter([
            ("keys".to_owned(), json!(self.keys)),
            ("budget_mib".to_owned(), json!(self.budget / MIB)),
            ("threads".to_owned(), json!(self.threads)),
        ]);
        run.figure(case, engine, Metric::OverBudgetBytes, over_bytes as f64, params)
    }
}

/// An input in a format other than lines.
struct Format {
    engine: &'static str,
    options: &'static [&'static str],
    path: PathBuf,
}

/// The same rows as CSV, JSON lines, and lines compressed in two ways.
fn formats(folder: &Path, rows: u64) -> Result<Vec<Format>> {
    let place = |name: &str| folder.join(name);
    let (csv, jsonl, lines) = (place("rows.csv"), place("rows.jsonl"), place("rows.txt"));
    write_rows(&csv, rows, |key| format!("{},\"a, {key}\",{key:016x}", key % 1000))?;
    write_rows(&jsonl, rows, |key| format!("{{\"ms\":{},\"user\":{{\"id\":\"{key:016x}\"}}}}", key % 1000))?;
    write_rows(&lines, rows, |key| format!("{key:016x}"))?;
    let (gzip, zstd) = (place("rows.txt.gz"), place("rows.txt.zst"));
    let mut encoder = flate2::write::GzEncoder::new(File::create(&gzip)?, flate2::Compression::fast());
    std::io::copy(&mut File::open(&lines)?, &mut encoder)?;
    encoder.finish()?;
    zstd::stream::copy_encode(File::open(&lines)?, File::create(&zstd)?, 3)?;
    let format = |engine, options, path| Format { engine, options, path };
    Ok(vec![
        format("csv", &["-f", "csv", "--no-header", "-k", "3"][..], csv),
        format("jsonl", &["-f", "jsonl", "-k", "user.id"], jsonl),
        format("gzip", &[], gzip),
        format("zstd", &[], zstd),
    ])
}

fn write_rows(path: &Path, rows: u64, row: impl Fn(u64) -> String) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random::new(5);
    for _ in 0..rows {
        writeln!(out, "{}", row(random.next_u64()))?;
    }
    Ok(out.flush()?)
}
