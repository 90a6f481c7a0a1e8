//! `overbank top STORE`: the heaviest keys with lower and upper bounds.

use super::Snapshot;
use super::epochs::Epochs;
use crate::arguments::{Form, TopArguments};
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::picture;
use serde_json::json;

pub(crate) fn run(arguments: &TopArguments) -> CommandResult {
    if let Some(epochs) = Epochs::of(&arguments.store, arguments.of.epoch)? {
        return epochs.top(arguments.top, arguments.output.form());
    }
    let report = Snapshot::open(&arguments.store)?.ask(|profile| profile.report(arguments.top, &[]))?;
    match arguments.output.form() {
        Form::Json => print_json(&json!({
            "weight": picture::weight_json(report.weight),
            "heavy_threshold": picture::bound_json(report.heavy_threshold),
            "heavy": report.heavy.iter().map(picture::heavy_json).collect::<Vec<_>>(),
        }))?,
        Form::Table => {
            let mut page = Page::new();
            picture::heavy_section(&mut page, &report);
            page.print()?;
        }
        form @ (Form::Tsv | Form::Csv) => picture::print_heavy(form, &report.heavy)?,
    }
    Ok(if report.heavy.is_empty() && arguments.top > 0 { Outcome::Absent } else { Outcome::Found })
}
