//! `cargo xtask miri`: the formats on a big-endian machine, which Miri plays.
//!
//! Needs nightly with the components `miri` and `rust-src`. Only tests that are small enough for an interpreter: what encodes,
//! decodes and refuses bytes, none that starts threads or calls the system.

use crate::cargo;
use std::path::Path;
use std::process::ExitCode;

/// Of 64 bits, big-endian.
const TARGET: &str = "s390x-unknown-linux-gnu";

/// Packages, and the tests of each by the starts of their names.
const TESTS: &[(&str, &[&str])] = &[
    (cargo::KEYHASH, &[]),
    (
        "overbank",
        &[
            "bits::",
            "bytes::",
            "device::block::",
            "store::format::",
            "segment::format::",
            "filter::run::format::",
        ],
    ),
];

/// Runs the tests.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut all_well = true;
    for &(package, names) in TESTS {
        let mut arguments =
            vec!["+nightly", "miri", "test", "--target", TARGET, "-p", package, "--lib", "--"];
        arguments.extend(names);
        let status = std::process::Command::new("cargo")
            .args(&arguments)
            .current_dir(root)
            // The clock and the files that property tests ask for, and a few cases of each: an interpreter is slow.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", "2")
            .env("CARGO_TARGET_DIR", "target/miri")
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .status();
        match status {
            Ok(status) => all_well &= status.success(),
            Err(error) => {
                eprintln!("cannot run cargo: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
