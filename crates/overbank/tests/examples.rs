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
fn a_seen_set_goes_on_where_its_last_commit_was() {
    let printed = run("seen_set");
    let lines: Vec<&str> = printed.lines().collect();
    // Each leg visits 1200 pages and has committed 1000 of them.
    assert_eq!(lines.len(), 3, "{printed}");
    for (line, pages) in
        lines.iter().zip(["pages 0 to 1200: ", "pages 1000 to 2200: ", "pages 2000 to 3000: "])
    {
        assert!(line.starts_with(pages), "{printed}");
    }
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

#[test]
fn page_records_are_read_as_they_were_beside_changes() {
    let printed = run("page_records");
    let lines: Vec<&str> = printed.lines().collect();
    let first = [
        "loaded 20000 records",
        "page 7: 200,7 before, 404,8 now, 3 visits",
        "page 8: 200,8 before, none now, none visits",
        "page 9: 200,9 before, 200,9 now, 1 visits",
    ];
    assert_eq!(lines[..4], first, "{printed}");
    let quarter = lines[4].strip_prefix("of 19999 records, ").and_then(|rest| rest.split(' ').next());
    let quarter: f64 = quarter.and_then(|number| number.parse().ok()).expect("a number");
    // A quarter of 19,999 keys, by chance: 61 is the standard deviation, 6 of them have a probability below 1e-8.
    assert!((quarter - 5000.0).abs() < 370.0, "{printed}");
}
