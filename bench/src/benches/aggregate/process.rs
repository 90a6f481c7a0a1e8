//! Engines that are programs: `sort | uniq -c`, and what `bench/rivals/setup.sh` and the system's packages install.
//!
//! Programs read a file that is in the page cache: their time includes that. A rival says, too, what reading alone took
//! (`source_ns_per_op`). Peaks are of the whole tree of processes, of the Python rivals beyond what the interpreter held before.

use super::answer::{AllGroups, Answer};
use super::input;
use super::job::Job;
use super::workload::{KMER, Law, Workload};
use crate::{Clock, Metric, ProcessTree, Result, Run, Size};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

/// A program that is not everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rival {
    DuckDb,
    /// Told the memory that ours has, but no less than it starts with.
    DuckDbLimited,
    Polars,
    PolarsStreaming,
    DataFusion,
    DataFusionLimited,
    Kmc,
    Jellyfish,
}

impl Rival {
    pub(super) const ALL: [Self; 8] = [
        Self::DuckDb,
        Self::DuckDbLimited,
        Self::Polars,
        Self::PolarsStreaming,
        Self::DataFusion,
        Self::DataFusionLimited,
        Self::Kmc,
        Self::Jellyfish,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::DuckDbLimited => "duckdb_limited",
            Self::Polars => "polars",
            Self::PolarsStreaming => "polars_streaming",
            Self::DataFusion => "datafusion",
            Self::DataFusionLimited => "datafusion_limit",
            Self::Kmc => "kmc",
            Self::Jellyfish => "jellyfish",
        }
    }

    const fn is_of_genomes(self) -> bool {
        matches!(self, Self::Kmc | Self::Jellyfish)
    }

    pub(super) fn does(self, workload: Workload) -> bool {
        !self.is_of_genomes() || workload.law == Law::Kmers
    }

    /// Those that are installed; says which are not.
    pub(super) fn installed(run: &mut Run<'_>) -> Vec<Self> {
        if run.size() == Size::Smoke {
            return Vec::new();
        }
        let python = run.data().join("rivals/bin/python").exists();
        if !python {
            run.say("DuckDB, Polars and DataFusion are left out: `bash bench/rivals/setup.sh` installs them");
        }
        for program in ["kmc", "jellyfish"].into_iter().filter(|program| !is_command(program)) {
            run.say(&format!(
                "{program} is left out: it is a package of the system (apt-get install {program})"
            ));
        }
        let is_there = |rival: &Self| if rival.is_of_genomes() { is_command(rival.name()) } else { python };
        Self::ALL.into_iter().filter(is_there).collect()
    }

    /// The file that it reads, made if it is not there.
    pub(super) fn prepare(self, folder: &Path) -> Result<()> {
        let (name, write): (_, fn(&Path) -> Result<()>) = if self.is_of_genomes() {
            ("fasta", input::write_fasta)
        } else {
            ("parquet", input::write_parquet)
        };
        if folder.join(name).exists() { Ok(()) } else { write(folder) }
    }

    pub(super) fn sample(self, clock: &mut Clock, job: &Job) -> Result<Answer> {
        match self {
            Self::Kmc => kmc(clock, job),
            Self::Jellyfish => jellyfish(clock, job),
            _ => self.python(clock, job),
        }
    }

    fn python(self, clock: &mut Clock, job: &Job) -> Result<Answer> {
        let mut command = Command::new(job.rivals.join("python"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/aggregate.py"));
        command.arg(self.name()).arg(job.folder.join("parquet")).arg(job.memory_bytes.to_string());
        let tree = ProcessTree::measure(command.current_dir(&job.folder))?;
        if !tree.status.success() {
            return Err(format!("{} failed: {}", self.name(), tree.status).into());
        }
        let text = String::from_utf8(tree.stdout)?;
        let said: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
        let number =
            |name: &str| said[name].as_u64().ok_or_else(|| format!("{} does not tell {name}", self.name()));
        let answer =
            Answer { groups: number("groups")?, records: number("records")?, squares: number("squares")? };
        clock.add(number("wall_ns")?, number("cpu_ns")?);
        note(clock, answer, number("peak_bytes")?);
        clock.note(Metric::SourceNsPerOp, number("source_ns")? as f64 / answer.records.max(1) as f64);
        Ok(answer)
    }
}

/// `sort | uniq -c` to a file.
pub(super) fn sort(clock: &mut Clock, job: &Job) -> Result<Answer> {
    let mut command = Command::new("bash");
    command.args(["-c", r#"set -o pipefail; sort < lines | uniq -c > counted"#]);
    measure(clock, command.env("LC_ALL", "C"), job)?;
    let (mut answer, mut all) = (Answer::default(), AllGroups::default());
    let mut reader = BufReader::with_capacity(1 << 20, File::open(job.folder.join("counted"))?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let counted = line.trim_ascii_start();
        let blank = counted.iter().position(|&byte| byte == b' ').ok_or("uniq printed no count")?;
        let count: u64 = std::str::from_utf8(&counted[..blank])?.parse()?;
        let key = counted[blank + 1..].strip_suffix(b"\n").ok_or("uniq printed no whole line")?;
        answer.add(count);
        all.add(key, count);
        line.clear();
    }
    std::fs::remove_file(job.folder.join("counted"))?;
    all.agree(&job.folder, "sort")?;
    finish(clock, answer)
}

/// Both strands as they stand, every count; the answer is its histogram's.
fn kmc(clock: &mut Clock, job: &Job) -> Result<Answer> {
    std::fs::create_dir_all(job.folder.join("kmc_work"))?;
    let mut command = Command::new("kmc");
    // The memory is the least that it takes.
    let options = [format!("-k{KMER}"), "-m2".into(), "-t2".into(), "-b".into(), "-fm".into(), "-hp".into()];
    let counts = ["-ci1", "-cs4294967295", "-cx4294967295"];
    command.args(options).args(counts).args(["fasta", "kmc_counts", "kmc_work"]);
    measure(clock, &mut command, job)?;
    let mut histogram = Command::new("kmc_tools");
    histogram.args(["transform", "kmc_counts", "histogram", "kmc_histogram", "-cx100000"]);
    silently(histogram.current_dir(&job.folder))?;
    let answer = of_histogram(&std::fs::read_to_string(job.folder.join("kmc_histogram"))?)?;
    finish(clock, answer)
}

/// As many slots as there are k-mers, so that it never doubles.
fn jellyfish(clock: &mut Clock, job: &Job) -> Result<Answer> {
    let mut command = Command::new("jellyfish");
    let slots = job.workload.records / 4;
    command.args(["count", "-m", &KMER.to_string(), "-t", "2", "-s", &slots.to_string()]);
    measure(clock, command.args(["-o", "jellyfish_counts", "fasta"]), job)?;
    let mut histogram = Command::new("jellyfish");
    histogram.args(["histo", "-h", "100000", "-o", "jellyfish_histogram", "jellyfish_counts"]);
    silently(histogram.current_dir(&job.folder))?;
    let answer = of_histogram(&std::fs::read_to_string(job.folder.join("jellyfish_histogram"))?)?;
    finish(clock, answer)
}

/// Lines of a count and how many keys have it.
fn of_histogram(text: &str) -> Result<Answer> {
    let mut answer = Answer::default();
    for line in text.lines() {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(count), Some(keys)) = (numbers.next(), numbers.next()) else {
            return Err(format!("a histogram has the line {line:?}").into());
        };
        let (count, keys) = (count?, keys?);
        answer.groups += keys;
        answer.records += count * keys;
        answer.squares += count * count * keys;
    }
    Ok(answer)
}

fn silently(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

fn measure(clock: &mut Clock, command: &mut Command, job: &Job) -> Result<()> {
    let tree = ProcessTree::measure(command.current_dir(&job.folder))?;
    if !tree.status.success() {
        return Err(format!("{command:?} failed: {}", tree.status).into());
    }
    clock.add(tree.wall_ns, tree.cpu_ns);
    clock.note(Metric::PeakRssBytes, tree.peak_rss_bytes as f64);
    Ok(())
}

fn finish(clock: &mut Clock, answer: Answer) -> Result<Answer> {
    let bytes = clock.noted(Metric::PeakRssBytes).ok_or("the program was not measured")?;
    clock.note(Metric::BytesPerKey, bytes / answer.groups.max(1) as f64);
    clock.did(answer.records);
    Ok(answer)
}

fn note(clock: &mut Clock, answer: Answer, peak_bytes: u64) {
    clock.note(Metric::PeakRssBytes, peak_bytes as f64);
    clock.note(Metric::BytesPerKey, peak_bytes as f64 / answer.groups.max(1) as f64);
    clock.did(answer.records);
}

/// Whether a program is among the commands.
fn is_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_the_answer_that_the_groups_give() {
        let mut expected = Answer::default();
        [1, 1, 1, 4, 4, 9].into_iter().for_each(|count| expected.add(count));
        assert_eq!(of_histogram("1 3\n2 0\n4\t2\n9 1\n").expect("well-formed"), expected);
        assert!(of_histogram("1\n").is_err());
    }
}
