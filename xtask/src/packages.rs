//! `cargo xtask package` and `cargo xtask deny`: what the registry would be given, and what we take from it.

use crate::cargo;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What is published, each after what it needs.
const PUBLISHED: &[&str] = &[cargo::KEYHASH, "overbank", "overbank-ingest", "overbank-table", "overbank-cli"];

/// Packs all published packages, as `cargo publish` would; they are not built from the archives, which takes minutes: `--verify` does.
pub(crate) fn package(root: &Path, verifies: bool) -> ExitCode {
    let mut arguments = vec!["package", "--quiet", "--allow-dirty", "--target-dir", "target/package"];
    arguments.extend((!verifies).then_some("--no-verify"));
    arguments.extend(PUBLISHED.iter().flat_map(|package| ["-p", package]));
    if !cargo::succeeds(root, &arguments) {
        return ExitCode::from(1);
    }
    println!("package: {} can be published", PUBLISHED.join(", "));
    ExitCode::SUCCESS
}

/// Holds dependencies to `deny.toml` by cargo-deny, where that is installed; where it is not, says so, and that is no failure.
pub(crate) fn deny(root: &Path) -> ExitCode {
    let is_there =
        Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!(
            "deny: not checked, for there is no cargo-deny; `cargo install cargo-deny --locked` gets it"
        );
        return ExitCode::SUCCESS;
    }
    if cargo::succeeds(root, &["deny", "check"]) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
