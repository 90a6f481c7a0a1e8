//! `overbank dict build OUT [FILE…]`: keys and values into a new dictionary.

use super::change::{Act, Change};
use super::session;
use super::state::Job;
use crate::arguments::{BuildDictionaryArguments, DuplicatesName};
use crate::failure::{CommandResult, Failure};
use overbank::dictionary::Duplicates;

pub(super) fn run(arguments: &BuildDictionaryArguments) -> CommandResult {
    if arguments.change.resume && arguments.duplicates == DuplicatesName::Error {
        return Err(Failure::Usage(
            "a build with --duplicates error is kept as a whole or not at all; give the same command without --resume".to_owned(),
        ));
    }
    let rows = &arguments.rows;
    let change = Change {
        store: &arguments.store,
        input: &rows.input,
        payload: session::payload(rows),
        has_escapes: rows.escaped,
        arguments: &arguments.change,
        job: Job::Build,
        append: false,
    };
    let mut options = session::shaped(session::options(arguments.change.machine.memory)?, &arguments.shape);
    if let Some(name) = arguments.merge {
        options = options.merge_operator(session::operator(name));
    }
    change.run(options, |_| match (arguments.merge, arguments.duplicates) {
        (Some(_), _) => Act::Merge,
        (None, DuplicatesName::Last) => Act::Put(Duplicates::Last),
        (None, DuplicatesName::First) => Act::Put(Duplicates::First),
        (None, DuplicatesName::Error) => Act::Put(Duplicates::Refuse),
    })
}
