//! `overbank distinct STORE`: how many distinct keys, with bounds.

use super::epochs::Epochs;
use crate::arguments::{DistinctArguments, Form};
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::plain::{self, Field};
use crate::{picture, units};

pub(crate) fn run(arguments: &DistinctArguments) -> CommandResult {
    if let Some(epochs) = Epochs::of(&arguments.store, arguments.of.epoch)? {
        return epochs.distinct(arguments.output.form());
    }
    let (_, profile) = super::open_profile(&arguments.store)?;
    let distinct = profile.distinct()?;
    let whole = |value: f64| units::count(value.round() as u64);
    match arguments.output.form() {
        Form::Json => print_json(&picture::distinct_json(&distinct))?,
        Form::Table => {
            let mut page = Page::new();
            let bounds = picture::within(distinct.exact, whole(distinct.lower), whole(distinct.upper));
            page.fact("distinct keys", &whole(distinct.estimate), &bounds);
            page.print()?;
        }
        form @ (Form::Tsv | Form::Csv) => {
            let counts = [distinct.estimate.round(), distinct.lower.floor(), distinct.upper.ceil()];
            let row = counts.map(|count| Field::Count(count as u64));
            plain::print(form, &["estimate", "lower", "upper"], [row])?;
        }
    }
    Ok(Outcome::Found)
}
