//! `cargo xtask targets`: whether the library and the command compile for the systems that they are for.
//!
//! Checked, not built, so no linker is needed; and without zstd, the one dependency that compiles C. rustup fetches a target's
//! standard library where it is missing; a target that cannot be had is named, and is no failure: a machine without a network
//! checks what it has. To keep it short, Parquet and the command, whose dependencies are two thirds of the work, are checked for one
//! target; `--all` checks Parquet for all of them, and the command for all Linux.

use crate::cargo;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The targets; the first is the one that all is checked for.
const TARGETS: &[&str] = &[
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
    "s390x-unknown-linux-gnu",
    "i686-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// All features but those that need a C compiler for the target, and Parquet.
const FEATURES: &str = "overbank/io_uring,overbank/lz4,overbank-ingest/bzip2,overbank-ingest/gzip,overbank-ingest/lz4,overbank-ingest/xz";

/// Checks all targets that can be had; `all` of each, or what is short.
pub(crate) fn run(root: &Path, all: bool) -> ExitCode {
    let (had, missing): (Vec<&str>, Vec<&str>) = TARGETS.iter().partition(|target| is_there(target));
    if !missing.is_empty() {
        println!("targets: rustup cannot get {}; they are not checked", missing.join(", "));
    }
    // The command waits for pipes and signals as Unix has them, and looks into /proc.
    let (whole, library): (Vec<&str>, Vec<&str>) =
        had.iter().partition(|target| if all { target.contains("linux") } else { **target == TARGETS[0] });
    let with_parquet = format!("{FEATURES},overbank-ingest/parquet");
    let features = if all { &with_parquet } else { FEATURES };
    let all_well =
        check(root, &library, &[], features) & check(root, &whole, &["-p", "overbank-cli"], &with_parquet);
    if !all_well {
        return ExitCode::from(1);
    }
    println!("targets: {} compile", had.join(", "));
    ExitCode::SUCCESS
}

/// Checks the library, and `more` packages, for `targets`.
fn check(root: &Path, targets: &[&str], more: &[&str], features: &str) -> bool {
    if targets.is_empty() {
        return true;
    }
    // In a folder of its own: what is checked for others is no reason to build the tests anew.
    let mut arguments = vec!["clippy", "--quiet", "--keep-going", "--target-dir", "target/targets"];
    arguments.extend(["--no-default-features", "--features", features]);
    arguments.extend(["-p", cargo::KEYHASH, "-p", "overbank", "-p", "overbank-ingest"]);
    arguments.extend(more);
    arguments.extend(targets.iter().flat_map(|target| ["--target", target]));
    arguments.extend(["--", "-D", "warnings"]);
    cargo::succeeds(root, &arguments)
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
