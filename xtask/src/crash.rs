//! `cargo xtask crash [STATES]`: the crash explorations of the whole suite at length, and how many crash states each of them saw.
//!
//! ```text
//!   OVERBANK_CRASH_STATES = the least of each exploration ──▶ tests whose name begins with `a_crash_anywhere`
//!                                                               └─▶ "crash states: N in TEST", a line each ──▶ added up
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The explorations that share the work evenly; more of them only see more.
const EXPLORATIONS: u64 = 5;
/// What the names of these tests have in common.
const NAMES: &str = "a_crash_anywhere";

/// Explores at least `states` crash states; false if any exploration failed or there were fewer.
pub(crate) fn run(root: &Path, states: u64) -> ExitCode {
    match explore(root, states) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("crash: cannot run cargo: {error}");
            ExitCode::from(2)
        }
    }
}

fn explore(root: &Path, states: u64) -> io::Result<bool> {
    let started = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(["test", "--package", "overbank", "--all-features", "--lib", "--tests", "--no-fail-fast"])
        .args(["--", NAMES, "--nocapture"])
        .env("OVERBANK_CRASH_STATES", states.div_ceil(EXPLORATIONS).to_string())
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut seen = Vec::new();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            io::stdout().write_all(&line)?;
            seen.extend(told(String::from_utf8_lossy(&line).trim_end()));
            line.clear();
        }
    }
    let has_ended_well = child.wait()?.success();
    let total: u64 = seen.iter().map(|(_, states)| states).sum();
    println!();
    for (test, states) in &seen {
        println!("{states:>10} crash states in {test}");
    }
    println!("{total:>10} crash states in all, in {} s", started.elapsed().as_secs());
    if !has_ended_well {
        println!("failed: see above for the state, and for the line that repeats it");
    } else if total < states {
        println!("failed: {states} were asked for");
    }
    Ok(has_ended_well && total >= states)
}

/// The test and its number of states, where a line tells them.
fn told(line: &str) -> Option<(String, u64)> {
    // A test that ends while another one prints begins its line behind that one's.
    let (_, told) = line.split_once("crash states: ")?;
    let (states, test) = told.split_once(" in ")?;
    Some((test.to_owned(), states.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_explorations_print_are_added_up() {
        let expected = Some(("store::a_crash_anywhere".to_owned(), 1234));
        assert_eq!(told("crash states: 1234 in store::a_crash_anywhere"), expected);
        assert_eq!(told("test a ... crash states: 1234 in store::a_crash_anywhere"), expected);
        for other in ["12 of them in recovery", "crash states: many in a test", "crash states: 12"] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
