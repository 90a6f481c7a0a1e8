//! `cargo xtask miri`: the formats on a big-endian machine, which Miri plays.
//!
//! Needs nightly with the components `miri` and `rust-src`. Only tests that are small enough for an interpreter: what encodes,
//! decodes and refuses bytes, none that starts threads or calls the system.

use crate::cargo;
use std::path::Path;
use std::process::ExitCode;

/// Of 64 bits, big-endian.
const TARGET: &str = "s390x-unknown-linux-gnu";

/// Packages, which tests of each: arguments of `cargo test`, and the names of tests by parts. What sweeps through millions of keys is left
/// out.
const TESTS: &[(&str, &[&str], &[&str])] = &[
    (cargo::KEYHASH, &["--test", "vectors"], &["vectors", "kinds", "batch"]),
    (cargo::KEYHASH, &["--lib"], &["slices"]),
    (
        "overbank",
        &["--lib"],
        &[
            "bits::",
            "bytes::",
            "device::block::",
            "store::format::",
            "segment::format::",
            "profile::format::",
            "sketch::format::",
            "filter::run::format::",
            "the_bytes_are_those_of_format_version",
            "a_run_has_the_bytes_of_its_version",
            "a_stream_has_the_same_bytes",
            "the_same_values_make_the_same_bytes",
            "--skip=sizes_keep_the_bound",
            "--skip=every_single_bit_flip",
        ],
    ),
];

/// Runs the tests.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut all_well = true;
    for &(package, kind, names) in TESTS {
        let miri = ["+nightly", "miri", "test", "--target", TARGET, "-p", package];
        let arguments: Vec<&str> = [&miri, kind, &["--"], names].concat();
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
