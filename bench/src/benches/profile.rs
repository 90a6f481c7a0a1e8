//! The main job as a whole process: `overbank profile` against the pipeline that everybody types, and DuckDB.
//!
//! Every line is a key. Wall time, CPU time and the peak of resident memory count the whole tree of processes. The
//! file is in the page cache for all engines. Answers are not compared by digest: two of three are approximate.

use crate::{Bench, Case, Clock, Metric, ProcessTree, Random, Result, Run, Size, Zipf};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
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
    let overbank = std::env::current_exe()?.with_file_name("overbank");
    if !overbank.exists() {
        run.say(&format!(
            "overbank is left out: {} is not built (cargo build -p overbank-cli)",
            overbank.display()
        ));
    }
    let python = run.data().join("rivals/bin/python");
    let has_duckdb = python.exists() && run.size() != Size::Smoke;
    if !has_duckdb {
        run.say("duckdb is left out: `bash bench/rivals/setup.sh` installs it");
    }
    let script = run.testdata().with_file_name("bench/rivals/duckdb_profile.py");

    let folder = tempfile::tempdir()?;
    for text in texts(run, folder.path())? {
        let lines = count_lines(&text.path)?;
        let mut contest = run
            .contest(Case::Profile)
            .param("workload", text.name)
            .param("bytes", std::fs::metadata(&text.path)?.len())
            .param("lines", lines)
            .param("memory", "64MiB")
            .ops(lines)
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

fn measure(clock: &mut Clock, command: Command) -> Result<u64> {
    let shown = json!(command.get_program().to_string_lossy());
    let tree = ProcessTree::measure(command)?;
    if !tree.status.success() || tree.stdout.is_empty() {
        return Err(format!("{shown} failed: {}", tree.status).into());
    }
    clock.add(tree.wall_ns, tree.cpu_ns);
    clock.note(Metric::PeakRssBytes, tree.peak_rss_bytes as f64);
    Ok(0)
}

struct Text {
    name: &'static str,
    path: PathBuf,
}

/// The corpus of `make data`, whole or its first bytes; made-up words where it is missing.
fn texts(run: &mut Run<'_>, folder: &Path) -> Result<Vec<Text>> {
    let (words, lines) = (run.data().join("doc_words.txt"), run.data().join("doc_lines.txt"));
    if run.size() == Size::Smoke || !words.exists() || !lines.exists() {
        if run.size() != Size::Smoke {
            run.say("the text is made up: `make data` fetches 300 MB of real text");
        }
        let path = folder.join("words.txt");
        write_made_up_words(&path, run.pick([20_000, 3_000_000, 40_000_000]))?;
        return Ok(vec![Text { name: "zipf_words", path }]);
    }
    if run.size() == Size::Full {
        return Ok(vec![Text { name: "doc_words", path: words }, Text { name: "doc_lines", path: lines }]);
    }
    const QUICK_BYTES: u64 = 24 << 20;
    let mut texts = Vec::new();
    for (name, whole) in [("doc_words_part", words), ("doc_lines_part", lines)] {
        let path = folder.join(name);
        std::io::copy(&mut File::open(&whole)?.take(QUICK_BYTES), &mut File::create(&path)?)?;
        texts.push(Text { name, path });
    }
    Ok(texts)
}

fn write_made_up_words(path: &Path, count: usize) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let (mut random, zipf) = (Random::new(11), Zipf::new(1 << 20, 1.05));
    for _ in 0..count {
        writeln!(out, "word{:x}", zipf.sample(&mut random))?;
    }
    Ok(out.flush()?)
}

fn count_lines(path: &Path) -> Result<usize> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut lines = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(lines);
        }
        lines += buffer.iter().filter(|&&byte| byte == b'\n').count();
        let bytes = buffer.len();
        reader.consume(bytes);
    }
}
