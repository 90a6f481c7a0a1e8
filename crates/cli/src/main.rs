//! The `overbank` command.

mod announce;
mod arguments;
mod closed;
mod commands;
mod escape;
mod failure;
mod interrupt;
mod kept_epochs;
mod page;
mod picture;
mod plain;
mod process;
mod progress;
mod report;
mod resident;
mod run_state;
mod screen;
mod stream_fields;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::{Failure, Outcome};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    resident::hold_what_is_used();
    silence_caught_panics();
    report_large_files();
    process::raise_limit_of_files();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    if closed::output_was() && arguments.command.prints() {
        let failure = Failure::NoOutput;
        failure.say();
        return ExitCode::from(failure.exit_code());
    }
    let result = match arguments.command {
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Count(arguments) => commands::count::run(&arguments),
        Command::Group(arguments) => commands::group::run(&arguments),
        Command::Wordcount(arguments) => commands::group::wordcount(&arguments),
        Command::Ngrams(arguments) => commands::group::ngrams(&arguments),
        Command::Kmers(arguments) => commands::group::kmers(&arguments),
        Command::Monitor(arguments) => commands::monitor::run(&arguments),
        Command::Dedup(arguments) => commands::filter::dedup::run(&arguments),
        Command::Seen(arguments) => commands::seen::run(&arguments),
        Command::Filter(command) => commands::filter::run(&command),
        Command::Dict(command) => commands::dictionary::run(&command),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Estimate(arguments) => commands::estimate::run(&arguments),
        Command::Distinct(arguments) => commands::distinct::run(&arguments),
        Command::Quantile(arguments) => commands::quantile::run(&arguments),
        Command::Merge(arguments) => commands::merge::run(&arguments),
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
            failure.say();
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

/// A write beyond the limit of file sizes is to be an error that is reported, not the end of the process.
fn report_large_files() {
    // Whoever may not handle the signal is ended by it, as before.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Help and version as they are; a refused command line as one line, like every other error.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        let Err(lost) = error.print() else {
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        };
        let failure = Failure::from(lost);
        failure.say();
        return ExitCode::from(failure.exit_code());
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let words: Vec<&str> = first.strip_prefix("error: ").unwrap_or(first).split_whitespace().collect();
    let tip = meant(error).map_or_else(String::new, |name| format!("; did you mean {name}?"));
    failure::say(format_args!("{}{tip}; --help tells more", words.join(" ")));
    ExitCode::from(2)
}

/// What a mistyped option, command or value comes nearest to.
fn meant(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    match kinds.iter().find_map(|kind| error.get(*kind))? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    }
}
