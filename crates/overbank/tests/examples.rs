//! The examples, run as a reader would: each in a directory of its own, and what it prints.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
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
    run_on(name, folder.path())
}

fn run_on(name: &str, argument: &Path) -> String {
    let ran = Command::new(built(name)).arg(argument).output().expect("it starts");
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

/// Against brute force over all pictures: what is said is true, nothing within three bits is missed, and of all pictures the part that
/// the prefixes find is found.
#[test]
fn pictures_that_look_alike_find_each_other() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dhash64_openclipart.csv.zst");
    let mut text = String::new();
    let file = std::fs::File::open(&place).expect("it ships with the project");
    let mut decoder = zstd::stream::read::Decoder::new(file).expect("a frame");
    decoder.read_to_string(&mut text).expect("text");
    let hashes: HashMap<&str, u64> = text
        .lines()
        .map(|line| {
            let hash = u64::from_str_radix(&line[..16], 16).expect("a hash");
            (line.splitn(3, ',').nth(2).expect("a path"), hash)
        })
        .collect();
    assert_eq!(hashes.len(), 6900);
    let printed = run_on("nearest_neighbours", &place);
    let found: HashMap<&str, (&str, u32)> = printed
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[0], (fields[1], fields[2].parse().expect("a distance")))
        })
        .collect();
    let mut right = 0;
    for (path, hash) in &hashes {
        let others = hashes.iter().filter(|(other, _)| other != &path);
        let least = others.map(|(_, other)| (hash ^ other).count_ones()).min().expect("others");
        let Some(&(other, distance)) = found.get(path) else {
            assert!(least > 3, "{path} has no neighbour, and one is {least} bits away");
            continue;
        };
        assert_eq!((hash ^ hashes[other]).count_ones(), distance, "{path} and {other}");
        assert!(other != *path && distance >= least);
        assert!(distance == least || least > 3, "{path}: {distance} bits away, and one is {least}");
        right += usize::from(distance == least);
    }
    // Of the same pictures the same part every time.
    assert_eq!(right, 4071, "of 6900");
}
