//! `overbank profile [FILE…]`: one pass over a stream, the whole picture of it, and a store for later questions.

use super::job::{Demand, Flash, Job};
use super::sketch;
use super::stream;
use crate::arguments::ProfileArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::print_json;
use crate::picture::{self, Counts};
use overbank::profile::FLASH_MEMORY_BYTES_MIN;

/// The quantiles of the report.
const RANKS: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];

pub(crate) fn run(arguments: &ProfileArguments) -> CommandResult {
    let flash = flash(arguments)?;
    let job = Job { arguments: &arguments.stream, value: arguments.value.as_ref(), flash };
    let pass = stream::run(&job)?;
    let profile = pass.profile();
    let report = profile.report(arguments.stream.top.unwrap_or(super::TOP), &RANKS)?;
    let counts = Counts::of(profile)?;
    if arguments.json {
        print_json(&picture::json(&pass.inputs, &report, &counts, &pass.skipped, &pass.cost))?;
    } else {
        picture::page(&pass.title(), &report, &counts, &pass.skipped, &pass.cost).print()?;
    }
    pass.finish()?;
    Ok(Outcome::Found)
}

/// A kept profile has a sketch on flash unless that is unwanted or the memory too small for its buffer: until more keys came than
/// RAM holds apart, it costs nothing but short logs.
fn flash(arguments: &ProfileArguments) -> Result<Option<Flash>, Failure> {
    let memory = arguments.stream.machine.memory;
    let has_room = arguments.stream.store.is_some() && memory >= FLASH_MEMORY_BYTES_MIN;
    let (bytes, demand) = match arguments.flash {
        Some(0) => return Ok(None),
        Some(bytes) => (Some(bytes), Demand::SameSize),
        None if has_room => (None, Demand::Nothing),
        None => return Ok(None),
    };
    let plan = stream::plan(memory, true)?;
    Ok(Some(Flash {
        options: sketch::of_bytes(bytes, &plan)?,
        demand,
        cell_bits: None,
        is_conservative: false,
    }))
}
