//! `overbank distinct STORE`: how many distinct keys, with bounds.

use crate::arguments::StoreArguments;
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::{picture, units};
use overbank::profile::Profile;

pub(crate) fn run(arguments: &StoreArguments) -> CommandResult {
    let profile = Profile::load(&super::open_to_read(&arguments.store)?)?;
    let distinct = profile.distinct();
    if arguments.json {
        print_json(&picture::distinct_json(&distinct))?;
    } else {
        let whole = |value: f64| units::count(value.round() as u64);
        let mut page = Page::new();
        let bounds = picture::within(distinct.exact, whole(distinct.lower), whole(distinct.upper));
        page.fact("distinct keys", &whole(distinct.estimate), &bounds);
        page.print()?;
    }
    Ok(Outcome::Found)
}
