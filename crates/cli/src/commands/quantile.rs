//! `overbank quantile STORE [QUANTILE…]`: quantiles of the value or of the key lengths.

use super::epochs::Epochs;
use crate::arguments::{Form, QuantileArguments};
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::picture;
use crate::plain::{self, Field};

pub(crate) fn run(arguments: &QuantileArguments) -> CommandResult {
    if let Some(epochs) = Epochs::of(&arguments.store, arguments.of.epoch)? {
        return epochs.quantile(&arguments.quantiles, arguments.output.form());
    }
    let (_, profile) = super::open_profile(&arguments.store)?;
    let values = profile.values(&arguments.quantiles)?;
    match arguments.output.form() {
        Form::Json => print_json(&picture::values_json(&values))?,
        Form::Table => {
            let mut page = Page::new();
            picture::quantile_lines(&mut page, &values);
            page.print()?;
        }
        form @ (Form::Tsv | Form::Csv) => {
            let row = |&(rank, value): &(f64, f64)| [Field::Number(rank), Field::Number(value)];
            plain::print(form, &["rank", "value"], values.quantiles.iter().map(row))?;
        }
    }
    Ok(if values.count == 0 { Outcome::Absent } else { Outcome::Found })
}
