//! Developer commands; `cargo xtask` lists them.

mod cargo;
mod crash;
mod features;
mod miri;
mod packages;
mod suite;
mod targets;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

/// What a long run of the crash explorations sees at least.
const CRASH_STATES: u64 = 1_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(&project()),
        ["test", ..] => suite::run(&project(), &arguments[1..]),
        ["targets"] => targets::run(&project(), false),
        ["targets", "--all"] => targets::run(&project(), true),
        ["features"] => features::run(&project()),
        ["miri"] => miri::run(&project()),
        ["package"] => packages::package(&project(), false),
        ["package", "--verify"] => packages::package(&project(), true),
        ["deny"] => packages::deny(&project()),
        ["crash"] => crash::run(&project(), CRASH_STATES),
        ["crash", states] if states.parse::<u64>().is_ok() => {
            crash::run(&project(), states.parse().unwrap_or(CRASH_STATES))
        }
        _ => {
            eprintln!("usage: cargo xtask tidy       checks the house rules that no compiler checks");
            eprintln!("       cargo xtask test       runs all test programs, and sums them up");
            eprintln!(
                "       cargo xtask targets [--all]    checks that all compiles for the systems that it is for"
            );
            eprintln!("       cargo xtask features   checks that each feature can be left out");
            eprintln!(
                "       cargo xtask miri       runs the tests of formats on a big-endian machine, in an interpreter"
            );
            eprintln!(
                "       cargo xtask package [--verify]   packs what is published, and builds it from there"
            );
            eprintln!("       cargo xtask deny       holds dependencies to deny.toml");
            eprintln!(
                "       cargo xtask crash [STATES]   explores crash states at length: a million, or as many as you say"
            );
            ExitCode::from(2)
        }
    }
}

fn run_tidy(root: &Path) -> ExitCode {
    match tidy::check(root) {
        Ok(faults) if faults.is_empty() => {
            println!("tidy: no fault");
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            eprintln!("tidy: {} faults", faults.len());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("tidy: cannot read {}: {error}", root.display());
            ExitCode::from(2)
        }
    }
}

/// The project's root folder.
fn project() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
