//! `overbank quantile STORE [QUANTILE…]`: quantiles of the value or of the key lengths.

use crate::arguments::QuantileArguments;
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::picture;
use overbank::profile::Profile;

pub(crate) fn run(arguments: &QuantileArguments) -> CommandResult {
    let profile = Profile::load(&super::open_to_read(&arguments.store)?)?;
    let values = profile.values(&arguments.quantiles);
    if arguments.json {
        print_json(&picture::values_json(&values))?;
    } else {
        let mut page = Page::new();
        picture::quantile_lines(&mut page, &values);
        page.print()?;
    }
    Ok(if values.count == 0 { Outcome::Absent } else { Outcome::Found })
}
