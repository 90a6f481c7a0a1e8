//! `cargo xtask features`: every feature by itself can be left out, and all of them together.

use crate::cargo;
use std::path::Path;
use std::process::ExitCode;

/// The packages with features that users choose, and these.
const PACKAGES: &[(&str, &[&str])] = &[
    ("overbank", &["io_uring", "lz4", "zstd"]),
    ("overbank-ingest", &["bzip2", "gzip", "lz4", "parquet", "xz", "zstd"]),
    ("overbank-cli", &["io_uring", "zstd"]),
];

/// Checks each package without all of its features, and without each.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut all_well = true;
    for &(package, features) in PACKAGES {
        all_well &= check(root, package, &[]);
        for without in features.iter().filter(|_| features.len() > 1) {
            let rest: Vec<&str> = features.iter().filter(|feature| *feature != without).copied().collect();
            all_well &= check(root, package, &rest);
        }
    }
    // What is left out is refused by name.
    let refusals = ["test", "--quiet", "--target-dir", "target/targets", "-p", "overbank-ingest"];
    let with_none = ["--no-default-features", "--test", "features"];
    all_well &= cargo::succeeds(root, &[&refusals[..], &with_none].concat());
    if !all_well {
        return ExitCode::from(1);
    }
    println!("features: each of them can be left out");
    ExitCode::SUCCESS
}

fn check(root: &Path, package: &str, features: &[&str]) -> bool {
    let features = features.join(",");
    let choice =
        ["clippy", "--quiet", "--target-dir", "target/targets", "-p", package, "--no-default-features"];
    cargo::succeeds(root, &[&choice[..], &["--features", &features, "--", "-D", "warnings"]].concat())
}
