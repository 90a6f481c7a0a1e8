//! The bench command: `cargo run --release -p overbank-bench -- NAME [--quick] [--json FILE]`.

use clap::Parser;
use overbank_bench::{Bench, ChildTask, Report, Result, Run, Size, benches};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures Overbank and its rivals side by side.
#[derive(Parser)]
#[command(name = "overbank-bench")]
struct Arguments {
    /// A bench, or the first word of several, `all`, or `list`.
    name: String,
    /// Smaller inputs: each bench ends within 60 seconds, with the same figures.
    #[arg(long)]
    quick: bool,
    /// Writes one JSON line a figure to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keeps the pictures that benches draw in FOLDER.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The size by its name: smoke (for tests), quick or full.
    #[arg(long, value_name = "SIZE", conflicts_with = "quick", value_parser = ["smoke", "quick", "full"])]
    size: Option<String>,
    /// Samples of each engine, instead of as many as the size wants: fewer end sooner and tell less.
    #[arg(long, value_name = "N")]
    rounds: Option<std::num::NonZeroUsize>,
    /// The engines that compete, instead of all: names as in the figures, `device` and `fio` among them.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    engines: Vec<String>,
    /// The workloads of group-by that are run, instead of all: names as in the figures.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    workloads: Vec<String>,
    /// For the harness itself: takes one sample in this process, prints it, and ends.
    #[arg(long, value_name = "CONTEST:ENGINE", hide = true)]
    child: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.name == "list" {
        for bench in benches::ALL {
            println!("{:<12}{}", bench.name, bench.about);
        }
        return Ok(());
    }
    let size = match arguments.size.as_deref() {
        Some("smoke") => Size::Smoke,
        Some("quick") => Size::Quick,
        None if arguments.quick => Size::Quick,
        _ => Size::Full,
    };
    let chosen: Vec<&'static Bench> = match arguments.name.as_str() {
        "all" => benches::ALL.to_vec(),
        name => benches::find(name),
    };
    if chosen.is_empty() {
        return Err(format!("there is no bench {:?}; `list` names them", arguments.name).into());
    }
    let child = match &arguments.child {
        None => None,
        Some(text) => Some(ChildTask::parse(text).ok_or_else(|| format!("{text:?} is not CONTEST:ENGINE"))?),
    };
    let mut report = Report::new(arguments.json.as_deref())?;
    for bench in chosen {
        let took = Run::new(bench, size, &mut report, child.clone())
            .with_output(arguments.output.as_deref())
            .with_rounds(arguments.rounds)
            .with_engines(&arguments.engines)
            .with_workloads(&arguments.workloads)
            .execute()?;
        println!("\n{} took {:.1} s\n", bench.name, took.as_secs_f64());
    }
    Ok(())
}
