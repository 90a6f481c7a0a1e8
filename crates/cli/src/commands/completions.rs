//! `overbank completions SHELL`: the completion script on standard output.

use crate::arguments::Arguments;
use crate::failure::{CommandResult, Outcome};
use clap::CommandFactory;
use std::io::Write;

pub(crate) fn run(shell: clap_complete::Shell) -> CommandResult {
    // Generated into memory first: the generator itself panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "overbank", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Found)
}
