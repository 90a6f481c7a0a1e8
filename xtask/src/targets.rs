//! `cargo xtask targets`: whether the library and the command compile for the systems that they are for.
//!
//! Checked, not built, so no linker is needed; and without zstd, the one dependency that compiles C. rustup fetches a target's
//! standard library where it is missing; a target that cannot be had is named, and is no failure: a machine without a network
//! checks what it has.

use crate::cargo;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// A target, and whether the command is for it too: that waits for pipes and signals as Unix has them.
const TARGETS: &[(&str, bool)] = &[
    ("aarch64-unknown-linux-gnu", true),
    ("riscv64gc-unknown-linux-gnu", false),
    ("s390x-unknown-linux-gnu", false),
    ("i686-unknown-linux-gnu", true),
    ("aarch64-apple-darwin", false),
    ("x86_64-pc-windows-msvc", false),
];

/// All features but those that need a C compiler for the target.
const FEATURES: &str = "overbank/io_uring,overbank-ingest/bzip2,overbank-ingest/gzip,overbank-ingest/lz4,overbank-ingest/parquet,\
                        overbank-ingest/xz";

/// Checks all targets that can be had.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut missing = Vec::new();
    let mut had = Vec::new();
    for &(target, has_command) in TARGETS {
        if is_there(target) { had.push((target, has_command)) } else { missing.push(target) }
    }
    if !missing.is_empty() {
        println!("targets: rustup cannot get {}; they are not checked", missing.join(", "));
    }
    let library = ["-p", cargo::KEYHASH, "-p", "overbank", "-p", "overbank-ingest"];
    let mut all_well = true;
    for has_command in [false, true] {
        let targets: Vec<&str> =
            had.iter().filter(|(_, command)| *command == has_command).map(|(target, _)| *target).collect();
        if targets.is_empty() {
            continue;
        }
        // Of its own folder: what is checked for others is no reason to build the tests anew.
        let mut arguments =
            vec!["clippy", "--quiet", "--target-dir", "target/targets", "--no-default-features"];
        arguments.extend(["--features", FEATURES]);
        arguments.extend(library);
        arguments.extend(has_command.then_some(["-p", "overbank-cli"]).into_iter().flatten());
        arguments.extend(targets.iter().flat_map(|target| ["--target", target]));
        arguments.extend(["--", "-D", "warnings"]);
        all_well &= cargo::succeeds(root, &arguments);
    }
    if !all_well {
        return ExitCode::from(1);
    }
    let names: Vec<&str> = had.iter().map(|(target, _)| *target).collect();
    println!("targets: {} compile", names.join(", "));
    ExitCode::SUCCESS
}

/// Whether a target's standard library is there, by now.
fn is_there(target: &str) -> bool {
    let status = Command::new("rustup")
        .args(["target", "add", target])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
