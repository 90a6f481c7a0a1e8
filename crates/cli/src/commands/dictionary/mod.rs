//! `overbank dict`: keys with values, on flash. A file a command.

mod build;
mod change;
mod concat;
mod facts;
mod get;
mod info;
mod join;
mod joined_row;
mod merging;
mod open;
mod pairs;
mod plan;
mod rank;
mod scan;
mod session;
mod slices;
mod split;
mod state;

use super::verify;
use crate::arguments::DictionaryCommand;
use crate::failure::CommandResult;

pub(super) use facts::{as_json, lines};
pub(super) use state::DictionaryState;

/// The name that a dictionary has in its store.
const NAME: &str = super::DICTIONARY;

pub(crate) fn run(command: &DictionaryCommand) -> CommandResult {
    match command {
        DictionaryCommand::Build(arguments) => build::run(arguments),
        DictionaryCommand::Update(arguments) => change::update(arguments),
        DictionaryCommand::Delete(arguments) => change::delete(arguments),
        DictionaryCommand::Get(arguments) => get::run(arguments),
        DictionaryCommand::Scan(arguments) => scan::run(arguments),
        DictionaryCommand::Join(arguments) => join::run(arguments),
        DictionaryCommand::Rank(arguments) => rank::run(arguments),
        DictionaryCommand::Info(arguments) => info::run(arguments),
        DictionaryCommand::Verify(arguments) => verify::run(arguments),
        DictionaryCommand::Split(arguments) => split::run(arguments),
        DictionaryCommand::Concat(arguments) => concat::run(arguments),
        DictionaryCommand::Plan(arguments) => plan::run(arguments),
    }
}
