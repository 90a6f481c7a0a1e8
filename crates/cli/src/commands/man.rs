//! `overbank man DIR`: the manual pages, one a command.

use crate::arguments::Arguments;
use crate::failure::{CommandResult, Failure, Outcome};
use clap::CommandFactory;
use std::path::Path;

pub(crate) fn run(directory: &Path) -> CommandResult {
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Arguments::command(), directory)
    };
    match write() {
        Ok(()) => Ok(Outcome::Found),
        Err(error) => Err(Failure::Usage(format!(
            "cannot write manual pages to {}: {error}; name a directory that you may write to",
            directory.display()
        ))),
    }
}
