//! The `overbank` command.

mod allocator;
mod arguments;
mod commands;
mod failure;
mod interrupt;
mod key_fields;
mod page;
mod picture;
mod process;
mod progress;
mod run_state;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Outcome;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::hold_what_is_used();
    silence_caught_panics();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let result = match arguments.command {
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Count(arguments) => commands::count::run(&arguments),
        Command::Dedup(arguments) => commands::filter::dedup::run(&arguments),
        Command::Seen(arguments) => commands::seen::run(&arguments),
        Command::Filter(command) => commands::filter::run(&command),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Estimate(arguments) => commands::estimate::run(&arguments),
        Command::Distinct(arguments) => commands::distinct::run(&arguments),
        Command::Quantile(arguments) => commands::quantile::run(&arguments),
        Command::Info(arguments) => commands::info::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Plan(arguments) => commands::plan::run(&arguments),
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

/// Help and version as they are; a refused command line as one line, like every other error.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        // Nobody is left to tell when the help cannot be printed.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let words: Vec<&str> = first.strip_prefix("error: ").unwrap_or(first).split_whitespace().collect();
    let _ = writeln!(std::io::stderr(), "overbank: {}; --help tells more", words.join(" "));
    ExitCode::from(2)
}
