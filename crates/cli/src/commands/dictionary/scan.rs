//! `overbank dict scan STORE`: all keys and values, in the order of their hashes; to a file only as a whole.

use super::open::Opened;
use super::pairs::Pairs;
use crate::arguments::{HashRange, ScanArguments};
use crate::commands::filter::outlet::Escape;
use crate::commands::filter::output::Output;
use crate::commands::filter::sink::Place;
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::units;

/// Bytes that are printed at a time.
const PIECE_BYTES: usize = 64 << 10;

pub(super) fn run(arguments: &ScanArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let file = arguments.output.as_deref();
    Written { store: Some(&arguments.store), output: file, prints_rows: true, rejects: None }.check()?;
    let memory = arguments.ask.memory;
    let mut opened = Opened::open(&arguments.store, memory, memory / 2)?;
    let HashRange(range) =
        arguments.range.clone().or(arguments.part.clone()).unwrap_or(HashRange(0..=u64::MAX));
    let place = Place { file, commits: false, resumes: false };
    let escape = Escape { call: interrupt.call()?, owed: None };
    let mut output = Output::open(place, None, escape, b'\n', None)?;
    output.start()?;
    // What a snapshot names stays until it goes, so no writer is in the way from here on.
    let mut scan = opened.ask(|dictionary| dictionary.snapshot()?.scan(range.clone()))?;
    let mut pairs = Pairs::begin(arguments.form.form, Vec::new())?;
    let mut printed = 0u64;
    while let Some(record) = scan.next_record()? {
        pairs.pair(record.key, Some(record.value))?;
        printed += 1;
        if pairs.get_mut().len() >= PIECE_BYTES {
            output.part(pairs.get_mut())?;
            pairs.get_mut().clear();
            if interrupt.is_raised() {
                return Err(interrupted(printed, file.is_some()));
            }
        }
    }
    output.part(pairs.get_mut())?;
    if interrupt.is_raised() || output.has_left() {
        return Err(interrupted(printed, file.is_some()));
    }
    output.finish()?;
    Ok(Outcome::Found)
}

fn interrupted(printed: u64, has_file: bool) -> Failure {
    let keys = units::counted(printed, "key");
    Failure::Interrupted(if has_file {
        format!(
            "interrupted after {keys}; a file is written as a whole, so it is as it was: run the same command again"
        )
    } else {
        format!("interrupted after {keys}; run the same command again, or a --part of it")
    })
}
