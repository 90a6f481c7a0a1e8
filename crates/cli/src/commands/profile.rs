//! `overbank profile [FILE…]`: one pass over a stream, the whole picture of it, and a store for later questions.

use super::sketch;
use super::stream::{self, Flash, Job};
use crate::arguments::ProfileArguments;
use crate::failure::{CommandResult, Outcome};
use crate::page::print_json;
use crate::picture::{self, Counts};

/// The quantiles of the report.
const RANKS: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];

pub(crate) fn run(arguments: &ProfileArguments) -> CommandResult {
    let flash = match arguments.flash {
        None | Some(0) => None,
        Some(bytes) => {
            let plan = stream::plan(arguments.stream.memory, true)?;
            Some(Flash { options: sketch::of_bytes(bytes, &plan)?, is_size_given: true })
        }
    };
    let job = Job { arguments: &arguments.stream, value: arguments.value.as_ref(), flash };
    let pass = stream::run(&job)?;
    let profile = pass.profile();
    let report = profile.report(arguments.stream.top, &RANKS)?;
    let counts = Counts::of(&profile)?;
    if arguments.stream.json {
        print_json(&picture::json(&pass.inputs, &report, &counts, &pass.skipped, &pass.cost))?;
    } else {
        picture::page(&pass.title(), &report, &counts, &pass.skipped, &pass.cost).print()?;
    }
    Ok(Outcome::Found)
}
