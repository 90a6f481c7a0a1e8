//! `cargo xtask test [ARGUMENT…]`: every test program of the workspace, whatever fails before it, and one summary of all at the end.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// What the test programs said.
#[derive(Default, Debug, PartialEq, Eq)]
struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Programs that came to their end.
    programs: u64,
    /// The tests that failed, by name.
    names: Vec<String>,
}

/// Runs the tests; `arguments` are handed to `cargo test`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> ExitCode {
    match test(root, arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("test: cannot run cargo: {error}");
            ExitCode::from(2)
        }
    }
}

fn test(root: &Path, arguments: &[String]) -> io::Result<bool> {
    let started = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(arguments)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut summary = Summary::default();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            io::stdout().write_all(&line)?;
            summary.take(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    let has_ended_well = child.wait()?.success();
    println!();
    for name in &summary.names {
        println!("failed: {name}");
    }
    if !has_ended_well && summary.failed == 0 {
        println!("failed: something did not compile, or a test program ended before its last test");
    }
    println!("{summary} in {} s", started.elapsed().as_secs());
    Ok(has_ended_well && summary.failed == 0 && summary.passed > 0)
}

impl Summary {
    /// Takes a line of a test program.
    fn take(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.names.push(test.to_owned());
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        self.programs += 1;
        let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, programs, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored, in {programs} test programs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_are_added_up_and_failures_named() {
        let mut summary = Summary::default();
        for line in [
            "running 2 tests",
            "test one::is_two ... ok",
            "test one::is_three ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 61.20s",
        ] {
            summary.take(line);
        }
        assert_eq!(summary.to_string(), "41 passed, 1 failed, 2 ignored, in 2 test programs");
        assert_eq!(summary.names, ["one::is_three"]);
    }
}
