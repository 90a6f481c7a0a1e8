//! Developer commands: `cargo xtask tidy`, `cargo xtask test` and `cargo xtask crash`.

mod crash;
mod suite;
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
        ["crash"] => crash::run(&project(), CRASH_STATES),
        ["crash", states] if states.parse::<u64>().is_ok() => {
            crash::run(&project(), states.parse().unwrap_or(CRASH_STATES))
        }
        _ => {
            eprintln!("usage: cargo xtask tidy    checks the house rules that no compiler checks");
            eprintln!("       cargo xtask test    runs all test programs, and sums them up");
            eprintln!(
                "       cargo xtask crash   explores crash states at length: a million, or as many as you say"
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
