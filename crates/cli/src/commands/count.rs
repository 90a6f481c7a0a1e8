//! `overbank count --store DIR [FILE…]`: how often every key comes, with error bounds, in a sketch on flash.
//!
//! It is the pass of `profile` with a sketch on flash that is always there, and a report about counts. So its store answers
//! the same questions. The directory must be named: a temporary one is often in RAM, and what is counted for an hour is
//! there to be asked later.

use super::job::{Demand, Flash, Job};
use super::sketch;
use super::stream;
use crate::arguments::{CountArguments, Form};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::print_json;
use crate::picture::{self, Counts};

pub(crate) fn run(arguments: &CountArguments) -> CommandResult {
    let stream = &arguments.stream;
    if stream.store.is_none() {
        return Err(Failure::Usage(
            "count keeps its sketch on flash and needs a directory for it; give --store DIR, or use profile to count in \
             memory alone"
                .to_owned(),
        ));
    }
    let plan = stream::plan(stream.machine.memory, true)?;
    let options = sketch::options(&arguments.sketch, &plan)?.conservative(arguments.conservative);
    let is_size_given = arguments.sketch.epsilon.is_some() || arguments.sketch.flash.is_some();
    let demand = if is_size_given { Demand::SameSize } else { Demand::Some };
    let (cell_bits, is_conservative) = (arguments.sketch.cell_bits, arguments.conservative);
    let flash = Some(Flash { options, demand, cell_bits, is_conservative });
    let pass = stream::run(&Job { arguments: stream, value: None, flash })?;
    let profile = pass.profile();
    let form = arguments.output.form();
    // Lines are a list of counts, a page and an object a report with the head of one.
    let most = if matches!(form, Form::Tsv | Form::Csv) { usize::MAX } else { super::TOP };
    let report = profile.report(stream.top.unwrap_or(most), &[])?;
    match form {
        Form::Json => {
            let counts = Counts::of(profile)?;
            print_json(&picture::stream_json(&pass.inputs, &report, &counts, &pass.skipped, &pass.cost))?;
        }
        Form::Table => {
            let counts = Counts::of(profile)?;
            picture::count_page(&pass.title(), &report, &counts, &pass.skipped, &pass.cost).print()?;
        }
        Form::Tsv | Form::Csv => picture::print_heavy(form, &report.heavy)?,
    }
    pass.finish()?;
    Ok(Outcome::Found)
}
