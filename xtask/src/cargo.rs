//! Calls of cargo.

use std::path::Path;
use std::process::Command;

/// The package of `crates/keyhash`.
pub(crate) const KEYHASH: &str = "keyhash";

/// Cargo with these arguments, in the project's root.
pub(crate) fn command(root: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root);
    command
}

/// Whether cargo ends well with these arguments; says so if it does not.
pub(crate) fn succeeds(root: &Path, arguments: &[&str]) -> bool {
    match command(root, arguments).status() {
        Ok(status) if status.success() => true,
        Ok(_) => {
            eprintln!("failed: cargo {}", arguments.join(" "));
            false
        }
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            false
        }
    }
}
