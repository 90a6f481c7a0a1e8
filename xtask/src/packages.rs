//! `cargo xtask package` and `cargo xtask deny`: what the registry would be given, and what we take from it.

use crate::cargo;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What is published, each after what it needs.
const PUBLISHED: &[&str] =
    &[cargo::KEYHASH, "overbank", "overbank-ingest", "overbank-table", "overbank-xdp", "overbank-cli"];

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

/// Holds dependencies to `deny.toml` by cargo-deny, where that is installed; where it is not, says so, and that is no failure. Nor is it
/// one that the list of known vulnerabilities cannot be had, as on a machine without a network: the rest needs no more than the crates.
pub(crate) fn deny(root: &Path) -> ExitCode {
    let is_there =
        Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!(
            "deny: not checked, for there is no cargo-deny; `cargo install cargo-deny --locked` gets it"
        );
        return ExitCode::SUCCESS;
    }
    let mut checks = vec!["deny", "check", "bans", "licenses", "sources"];
    let fetched = cargo::command(root, &["deny", "fetch", "db"]).stderr(Stdio::null()).status();
    if fetched.is_ok_and(|status| status.success()) {
        checks.push("advisories");
    } else {
        println!("deny: advisories not checked, for their database cannot be fetched");
    }
    if cargo::succeeds(root, &checks) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
