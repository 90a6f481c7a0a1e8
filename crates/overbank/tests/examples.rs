//! The examples, run as a reader would: each in a directory of its own, and what it prints.

use std::path::PathBuf;
use std::process::Command;

/// Where `cargo test` put the examples: beside the folder of the tests.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows itself");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests lie in target/PROFILE/deps");
    let path = folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built: run `cargo build -p overbank --examples` first", path.display());
    path
}

/// What an example prints.
fn run(name: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ran = Command::new(built(name)).arg(folder.path()).output().expect("it starts");
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
fn a_frequency_cap_holds_in_every_window() {
    let printed = run("frequency_cap");
    // Four each in the first hour, one more in the second, none in the third; then the first hour's four are forgotten.
    let shown = [1200, 300, 0, 1200, 300];
    for (hour, shown) in shown.iter().enumerate() {
        assert!(printed.contains(&format!("hour {hour}: {shown} of 1200 shown\n")), "{printed}");
    }
    assert!(printed.contains("user-0-0 saw 5 in the last 3 hours, at most 5"), "{printed}");
}

#[test]
fn sketches_of_four_processes_are_one() {
    let printed = run("merged_sketches");
    assert!(printed.contains("as one sketch of everything: true"), "{printed}");
    assert!(
        printed.contains("half of the requests took at most 49") || printed.contains("at most 50"),
        "{printed}"
    );
    let distinct: f64 = (printed.split("distinct users: ").nth(1))
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .expect("a number");
    // Squares modulo 20,000.
    let exact =
        (0..20_000u64).map(|i| i * i % 20_000).collect::<std::collections::BTreeSet<_>>().len() as f64;
    assert!((distinct / exact - 1.0).abs() < 0.1, "{printed}: {exact}");
}
