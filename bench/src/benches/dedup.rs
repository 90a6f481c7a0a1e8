//! The first of every line as a whole process: `overbank dedup` against `sort -u`, `awk`, and the tools that keep a hash set.
//!
//! The lines that come out go to a file. Outside of the clock it is read back: exact engines must agree on the lines, in any order;
//! ours may lack new ones at its rate of false positives, 1e-6, and nothing else. Wall time, CPU time and the peak of resident
//! memory count the whole tree of processes. The input is in the page cache for all engines.

use crate::{
    Bench, Case, Clock, LineFile, Metric, ProcessTree, Result, Run, Size, digest_bytes, digest_unordered,
};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "dedup",
    about: "lines a second of the whole command, first rows to a file, at --memory 64MiB",
    engines: &["overbank", "sort", "awk", "huniq", "runiq"],
    run,
};

/// How often our false positives may exceed their expected number: at the expected number of 1 and more, by chance less than once
/// in 1e9 runs.
const FALSE_POSITIVES_TIMES: usize = 12;

fn run(run: &mut Run<'_>) -> Result<()> {
    let overbank = run.command()?;
    let rivals = run.data().join("rivals/bin");
    let installed: Vec<(&'static str, PathBuf)> = ["huniq", "runiq"]
        .into_iter()
        .map(|name| (name, rivals.join(name)))
        .filter(|(_, program)| program.exists() && run.size() != Size::Smoke)
        .collect();
    if installed.is_empty() {
        run.say("huniq and runiq are left out: `bash bench/rivals/setup.sh` installs them");
    }

    let folder = tempfile::tempdir()?;
    let mut files = LineFile::texts(run, folder.path())?;
    files.retain(|file| file.name.starts_with("doc_lines"));
    files.push(LineFile::mostly_distinct(run, folder.path())?);
    for file in files {
        let (file, out) = (&file, folder.path().join("out"));
        let race = |clock: &mut Clock, command: &[&OsStr]| measure(clock, command, &file.path, &out);
        let mut contest = run
            .contest(Case::Dedup)
            .param("workload", file.name)
            .param("bytes", file.bytes)
            .param("lines", file.lines)
            .ops(file.lines)
            .costly();
        let distinct = lines_of(&file.path)?.into_iter().collect::<HashSet<u64>>().len();
        let lost_most = FALSE_POSITIVES_TIMES * (1 + distinct / 1_000_000);
        if overbank.exists() {
            contest = contest.approximate("overbank", |clock: &mut Clock| {
                let options = ["dedup", "--quiet", "--memory", "64MiB"].map(OsStr::new);
                let kept = race(clock, &[&[overbank.as_os_str()], &options[..]].concat())?.len();
                if kept > distinct || kept + lost_most < distinct {
                    return Err(format!("overbank kept {kept} of {distinct} different lines").into());
                }
                Ok(0)
            });
        }
        let sort = ["env", "LC_ALL=C", "sort", "-u"].map(OsStr::new);
        contest = contest.exact("sort", |clock: &mut Clock| Ok(digest_unordered(race(clock, &sort)?)));
        let awk = ["env", "LC_ALL=C", "awk", "!seen[$0]++"].map(OsStr::new);
        contest = contest.exact("awk", |clock: &mut Clock| Ok(digest_unordered(race(clock, &awk)?)));
        for (name, program) in &installed {
            contest = contest
                .exact(name, |clock: &mut Clock| Ok(digest_unordered(race(clock, &[program.as_os_str()])?)));
        }
        contest.finish()?;
    }
    Ok(())
}

/// Runs a command from `input` to `out`; returns the lines that it kept.
fn measure(clock: &mut Clock, words: &[&OsStr], input: &Path, out: &Path) -> Result<Vec<u64>> {
    let mut command = Command::new("bash");
    command.args(["-c", r#"exec "$@" < "$INPUT" > "$OUTPUT""#, "bash"]).args(words);
    let tree = ProcessTree::measure(command.env("INPUT", input).env("OUTPUT", out))?;
    if !tree.status.success() {
        return Err(format!("{} failed: {}", words[0].display(), tree.status).into());
    }
    clock.add(tree.wall_ns, tree.cpu_ns);
    clock.note(Metric::PeakRssBytes, tree.peak_rss_bytes as f64);
    lines_of(out)
}

/// The lines of a file, each as its digest.
fn lines_of(path: &Path) -> Result<Vec<u64>> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        lines.push(digest_bytes(&line));
        line.clear();
    }
    Ok(lines)
}
