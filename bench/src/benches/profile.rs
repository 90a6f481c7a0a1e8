//! The main job as a whole process: `overbank profile` against the pipeline that everybody types, and DuckDB.
//!
//! Every line is a key: real words and lines, addresses of which nearly half are distinct, words of a Zipf law. Wall time, CPU time
//! and the peak of resident memory count the whole tree of processes. The file is in the page cache for all engines. Answers are
//! not compared by digest: two of three are approximate.

use crate::{Bench, Case, Clock, LineFile, Metric, ProcessTree, Result, Run, Size};
use serde_json::json;
use std::process::Command;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "profile",
    about: "lines a second of the whole command, one key a line, at --memory 64MiB",
    engines: &["overbank", "coreutils", "duckdb"],
    run,
};

/// Exact counts by sorting. LC_ALL=C is the fastest that sort can do: bytes, no collation.
const PIPELINE: &str = "LC_ALL=C sort \"$0\" | uniq -c | sort -rn | head";

fn run(run: &mut Run<'_>) -> Result<()> {
    let overbank = run.command()?;
    let python = run.data().join("rivals/bin/python");
    let has_duckdb = python.exists() && run.size() != Size::Smoke;
    if !has_duckdb {
        run.say("duckdb is left out: `bash bench/rivals/setup.sh` installs it");
    }
    let script = run.testdata().with_file_name("bench/rivals/duckdb_profile.py");

    let folder = tempfile::tempdir()?;
    let mut files = LineFile::texts(run, folder.path())?;
    files.push(LineFile::mostly_distinct(run, folder.path())?);
    files.push(LineFile::zipf_words(run, folder.path())?);
    for text in files {
        let mut contest = run
            .contest(Case::Profile)
            .param("workload", text.name)
            .param("bytes", text.bytes)
            .param("lines", text.lines)
            .param("memory", "64MiB")
            .ops(text.lines)
            .costly();
        if overbank.exists() {
            contest = contest.approximate("overbank", |clock: &mut Clock| {
                let mut command = Command::new(&overbank);
                command.args(["profile", "--quiet", "--memory", "64MiB"]).arg(&text.path);
                measure(clock, command)
            });
        }
        contest = contest.approximate("coreutils", |clock: &mut Clock| {
            let mut command = Command::new("bash");
            command.args(["-c", PIPELINE]).arg(&text.path);
            measure(clock, command)
        });
        if has_duckdb {
            contest = contest.approximate("duckdb", |clock: &mut Clock| {
                let mut command = Command::new(&python);
                command.arg(&script).arg(&text.path);
                measure(clock, command)
            });
        }
        contest.finish()?;
    }
    Ok(())
}

fn measure(clock: &mut Clock, mut command: Command) -> Result<u64> {
    let shown = json!(command.get_program().to_string_lossy());
    let tree = ProcessTree::measure(&mut command)?;
    if !tree.status.success() || tree.stdout.is_empty() {
        return Err(format!("{shown} failed: {}", tree.status).into());
    }
    clock.add(tree.wall_ns, tree.cpu_ns);
    clock.note(Metric::PeakRssBytes, tree.peak_rss_bytes as f64);
    Ok(0)
}
