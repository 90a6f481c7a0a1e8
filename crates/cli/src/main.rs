//! The `overbank` command.

mod arguments;
mod commands;
mod failure;
mod interrupt;
mod page;
mod picture;
mod progress;
mod run_state;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Outcome;
use std::io::Write;
use std::process::ExitCode;

/// Threads free what other threads allocated, chunk after chunk; mimalloc gives that memory back to its owner, so the
/// peak stays inside the budget.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    silence_caught_panics();
    let result = match Arguments::parse().command {
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Estimate(arguments) => commands::estimate::run(&arguments),
        Command::Distinct(arguments) => commands::distinct::run(&arguments),
        Command::Quantile(arguments) => commands::quantile::run(&arguments),
        Command::Info(arguments) => commands::info::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man { directory } => commands::man::run(&directory),
    };
    match result {
        Ok(Outcome::Found) => ExitCode::SUCCESS,
        Ok(Outcome::Absent) => ExitCode::from(1),
        Err(failure) => {
            // Nobody is left to tell when standard error is closed too.
            let _ = writeln!(std::io::stderr(), "overbank: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// A damaged Parquet file may make its decoder panic; the reader catches that and says it in one line, which is enough.
fn silence_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !overbank_ingest::is_panic_caught() {
            print(panic);
        }
    }));
}
