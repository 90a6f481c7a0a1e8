//! Runs that are killed: `--resume` ends with the answer of a run that was left alone.
//!
//! The kills fall at points that the process announces, drawn from a fixed seed over the whole of a run, and just behind them: into
//! the store's creation, into reading, into commits, into recovery itself.

use crate::announced::{Announced, killed, points, signal};
use crate::command::{Run, overbank};
use crate::stream::{Random, file, keys, lines};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Child;

/// Kills in one test run.
const KILLS: usize = 52;

/// Commits after every chunk.
fn profile(store: &Path, input: &Path) -> Run {
    overbank("profile --json --seed 7 --memory 8MiB --threads 2 --commit-every 0 -n 100 --store")
        .with(store)
        .with(input)
}

/// A directory in RAM where there is one. What a killed process wrote is in the page cache either way, and a slow disk
/// would spend most of the test in syncs that no kill can undo.
fn quick_place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// What must not depend on interruptions.
fn answer(mut report: Value) -> Value {
    report.as_object_mut().unwrap().remove("cost").unwrap();
    report
}

#[test]
fn any_number_of_kills_leaves_the_answer_of_a_quiet_run() {
    let place = quick_place();
    let input = file(place.path(), "keys", lines(&keys(21, 60_000, 30_000)));
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let points = points(profile(&place.path().join("counted"), &input));
    let mut random = Random(22);
    let (mut kills, mut rounds, mut kills_without_a_store) = (0, 0, 0);
    while kills < KILLS {
        let store = place.path().join(format!("store-{rounds}"));
        let mut rows_before = 0;
        // Every round starts with a kill at a point of its own; together they go through all of a run.
        let mut passed = rounds % points;
        rounds += 1;
        while killed(profile(&store, &input).with("--resume"), passed, &mut random) {
            kills += 1;
            passed = random.below(points);
            // What is there is a whole store, or none yet; a later commit never has fewer rows.
            let seen = overbank("quantile --json").with(&store).run();
            if seen.code == Some(2) {
                kills_without_a_store += 1;
                assert_eq!(rows_before, 0, "the store is gone: {}", seen.err);
                continue;
            }
            let seen: Value = serde_json::from_str(&seen.out).unwrap();
            let rows = seen["count"].as_u64().unwrap();
            assert!(rows >= rows_before, "{rows} rows after {rows_before}");
            rows_before = rows;
        }
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
        let end = profile(&store, &input).with("--resume").run().json();
        assert_eq!(answer(end), whole, "round {rounds}");
    }
    println!(
        "{kills} kills in {rounds} rounds of {points} points, {kills_without_a_store} before the first commit"
    );
}

#[test]
fn counts_on_flash_survive_any_number_of_kills() {
    let place = quick_place();
    let rows = keys(30, 400_000, 350_000);
    let input = file(place.path(), "keys", lines(&rows));
    let mut asked: Vec<u8> = lines(&rows[..5_000]);
    asked.extend(b"a key that never came\n");
    let count = |store: &Path| {
        // Commits behind every chunk: logs, merged logs and passes in every order.
        let options = "count --json --seed 7 --memory 16MiB --flash 16MiB --pending 3 --threads 2 --commit-every 0 --store";
        overbank(options).with(store).with(&input)
    };
    let answers = |store: &Path, mut report: Value| {
        report["counts"]["flash"].as_object_mut().unwrap().remove("pending_chunks").unwrap();
        (answer(report), overbank("estimate --json --keys-from -").with(store).fed(asked.clone()).run().out)
    };
    let quiet = place.path().join("quiet");
    let report = count(&quiet).run().json();
    let whole = answers(&quiet, report);
    let points = points(count(&place.path().join("counted")));
    let (mut random, mut kills, mut rounds) = (Random(31), 0, 0);
    while kills < 12 {
        let store = place.path().join(format!("store-{rounds}"));
        rounds += 1;
        while kills < 12 && killed(count(&store).with("--resume"), random.below(points), &mut random) {
            kills += 1;
        }
        let report = count(&store).with("--resume").run().json();
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
        assert!(answers(&store, report) == whole, "round {rounds}");
    }
    println!("{kills} kills in {rounds} rounds of {points} points");
}

#[test]
fn a_kill_while_the_store_is_made_leaves_a_store_or_none() {
    let place = quick_place();
    let input = file(place.path(), "keys", lines(&keys(23, 2_000, 500)));
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let mut random = Random(24);
    for round in 0..20 {
        let store = place.path().join(format!("store-{round}"));
        let mut run = Announced::start(profile(&store, &input), Run::start);
        assert_eq!(run.point().as_deref(), Some("opening"));
        run.go_on();
        for _ in 0..random.below(4_000_000) {
            std::hint::spin_loop();
        }
        run.kill();
        assert_eq!(answer(profile(&store, &input).with("--resume").run().json()), whole, "round {round}");
    }
}

/// A run that reads a pipe which the test holds open: it has read `rows` and waits for more.
fn waiting(run: Run, place: &Path) -> (Child, std::fs::File) {
    let pipe = place.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let child = run.with(&pipe).start();
    let feed = std::fs::OpenOptions::new().write(true).open(&pipe).expect("the command opens the pipe");
    (child, feed)
}

#[test]
fn ctrl_c_keeps_what_was_read_and_says_how_to_go_on() {
    use std::io::Write;
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let text = lines(&keys(25, 300_000, 60_000));
    let options = "profile --json --seed 7 --memory 8MiB --store";
    let (child, mut feed) = waiting(overbank(options).with(&store), place.path());
    feed.write_all(&text).expect("the command reads");
    signal(&child, Signal::INT);
    // The pipe's end wakes the reader, which then sees the signal.
    drop(feed);
    let ran = crate::command::Ran::from(child.wait_with_output().unwrap());
    if ran.code == Some(0) {
        // The signal came behind the last row: then nothing was interrupted.
        assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["rows"], 300_000);
        return;
    }
    ran.ends_naming(130, &["interrupted", "--resume"]);
    assert_eq!(ran.out, "");
}

#[test]
fn ctrl_c_and_resume_give_the_answer_of_a_quiet_run() {
    let place = quick_place();
    let input = file(place.path(), "keys", lines(&keys(26, 100_000, 60_000)));
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let points = points(profile(&place.path().join("counted"), &input));
    let mut random = Random(27);
    let mut interrupted = 0;
    for round in 0..6 {
        let store = place.path().join(format!("store-{round}"));
        let mut run = Announced::start(profile(&store, &input), Run::start);
        for _ in 0..2 + random.below(points - 4) {
            run.point();
        }
        signal(&run.child, Signal::INT);
        let ran = run.end();
        // Nobody says when a signal arrives: perhaps behind the last row.
        if ran.code != Some(0) {
            ran.ends_naming(130, &["interrupted after", "--resume"]);
            interrupted += 1;
            let info = overbank("info --json").with(&store).run().json();
            assert_eq!(info["complete"], false);
        }
        assert_eq!(answer(profile(&store, &input).with("--resume").run().json()), whole, "round {round}");
    }
    assert!(interrupted > 0, "no signal was heeded");
}

#[test]
fn another_input_or_other_options_are_not_resumed() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(28, 400_000, 60_000);
    let input = file(place.path(), "keys", lines(&rows));
    let store = place.path().join("store");
    let mut run = Announced::start(profile(&store, &input), Run::start);
    assert!(run.reach("committed"));
    run.kill();
    profile(&store, &input).run().fails_naming(&["store", "already holds", "--resume"]);
    let other = file(place.path(), "other", lines(&rows));
    profile(&store, &other).with("--resume").run().fails_naming(&[
        "cannot resume",
        "other",
        "without --resume",
    ]);
    profile(&store, &input).with("--resume").with("--key=1").run().fails_naming(&["cannot resume", "key"]);
    std::fs::write(&input, lines(&keys(29, 400_000, 60_000))).unwrap();
    profile(&store, &input).with("--resume").run().fails_naming(&["cannot resume", "keys"]);
    std::fs::write(&input, "short\n").unwrap();
    profile(&store, &input).with("--resume").run().fails_naming(&["cannot resume", "size"]);
}

#[test]
fn a_run_with_rejects_is_not_gone_on_with_without_them() {
    let place = quick_place();
    // So many that no command has read them all at its second commit.
    let rows: Vec<String> = (0..600_000)
        .map(|row| if row % 3 == 0 { format!("bad {row}\n") } else { format!("{{\"k\":{row}}}\n") })
        .collect();
    let input = file(place.path(), "rows.jsonl", rows.concat());
    let rejected: String = rows.iter().step_by(3).cloned().collect();
    let commands =
        ["profile --memory 8MiB --store", "dedup --memory 32MiB --store", "filter build --memory 32MiB"];
    for (at, command) in commands.into_iter().enumerate() {
        let (store, rejects) =
            (place.path().join(format!("store-{at}")), place.path().join(format!("rejects-{at}")));
        let run = || {
            overbank(command).with(&store).args("--quiet --threads 2 --commit-every 0 --key k").with(&input)
        };
        let started = run().with("--rejects").with(&rejects).output_to(std::process::Stdio::null());
        let mut started = Announced::start(started, Run::start);
        assert!(started.reach("committed") && started.reach("committed"));
        started.kill();
        let resumed = || run().with("--resume").output_to(std::process::Stdio::null());
        resumed().run().fails_naming(&[
            "bytes of rows that were left out",
            "the same --rejects",
            "/dev/null",
        ]);
        // Another file is neither cut nor gone on with.
        let other = place.path().join("other");
        let foreign = rejected.to_uppercase();
        std::fs::write(&other, &foreign).unwrap();
        resumed().with("--rejects").with(&other).run().fails_naming(&["other", "other bytes", "/dev/null"]);
        assert!(std::fs::read_to_string(&other).unwrap() == foreign);
        let slip =
            overbank(command).with(place.path().join(format!("slip-{at}"))).args("--resume -q --key k");
        slip.with(&input).with("--rejects").with(&other).run().fails_naming(&["other", "not empty"]);
        assert!(std::fs::read_to_string(&other).unwrap() == foreign);
        let ran = resumed().with("--rejects").with(&rejects).run();
        ran.ends_naming(0, &["malformed rows were left out"]);
        assert!(std::fs::read_to_string(&rejects).unwrap() == rejected, "{command}");
        assert_eq!(resumed().with("--rejects").with("/dev/null").run().code, Some(0));
    }
}
