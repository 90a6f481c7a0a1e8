//! Runs that are killed: `--resume` ends with the answer of a run that was left alone.
//!
//! The kills fall at times drawn from a fixed seed, over the whole of a run: into the store's creation, into reading,
//! into commits, into recovery itself.

use crate::command::{Run, overbank};
use crate::stream::{Random, file, keys, lines};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

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

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the child has not been waited for");
}

/// Starts `run`, sends SIGKILL after `delay`, and says whether it ended by itself before.
fn killed(run: Run, delay: Duration) -> bool {
    let mut child = run.start();
    std::thread::sleep(delay);
    signal(&child, Signal::KILL);
    child.wait().expect("the child can be waited for").success()
}

#[test]
fn any_number_of_kills_leaves_the_answer_of_a_quiet_run() {
    let place = quick_place();
    let input = file(place.path(), "keys", lines(&keys(21, 60_000, 30_000)));
    let started = Instant::now();
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let mut longest = started.elapsed();

    let mut random = Random(22);
    let (mut kills, mut rounds, mut kills_without_a_store) = (0, 0, 0);
    while kills < KILLS {
        let store = place.path().join(format!("store-{rounds}"));
        rounds += 1;
        let mut rows_before = 0;
        let mut stuck = 0;
        loop {
            let delay = longest.mul_f64(random.below(700) as f64 / 1000.0);
            if killed(profile(&store, &input).with("--resume"), delay) {
                break;
            }
            kills += 1;
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
            stuck = if rows == rows_before { stuck + 1 } else { 0 };
            if stuck > 8 {
                // A machine busier than it was at the start: allow more time.
                longest = longest.mul_f64(1.5);
            }
            rows_before = rows;
        }
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
        let end = profile(&store, &input).with("--resume").run().json();
        assert_eq!(answer(end), whole, "round {rounds}");
    }
    println!("{kills} kills in {rounds} rounds, {kills_without_a_store} before the first commit");
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
    let started = Instant::now();
    let quiet = place.path().join("quiet");
    let report = count(&quiet).run().json();
    let longest = started.elapsed();
    let whole = answers(&quiet, report);
    let (mut random, mut kills) = (Random(31), 0);
    for round in 0..3 {
        let store = place.path().join(format!("store-{round}"));
        for _ in 0..8 {
            let delay = longest.mul_f64(random.below(500) as f64 / 1000.0);
            if killed(count(&store).with("--resume"), delay) {
                break;
            }
            kills += 1;
        }
        let report = count(&store).with("--resume").run().json();
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
        assert!(answers(&store, report) == whole, "round {round}");
    }
    assert!(kills >= 6, "only {kills} kills came in time");
}

#[test]
fn a_kill_while_the_store_is_made_leaves_a_store_or_none() {
    let place = quick_place();
    let input = file(place.path(), "keys", lines(&keys(23, 2_000, 500)));
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let mut random = Random(24);
    for round in 0..20 {
        let store = place.path().join(format!("store-{round}"));
        killed(profile(&store, &input), Duration::from_micros(random.below(30_000)));
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
    let started = Instant::now();
    let whole = answer(profile(&place.path().join("whole"), &input).run().json());
    let longest = started.elapsed();
    let mut random = Random(27);
    let mut interrupted = 0;
    for round in 0..6 {
        let store = place.path().join(format!("store-{round}"));
        let child = profile(&store, &input).start();
        std::thread::sleep(longest.mul_f64(0.2 + random.below(500) as f64 / 1000.0));
        signal(&child, Signal::INT);
        let ran = crate::command::Ran::from(child.wait_with_output().unwrap());
        if ran.code != Some(0) {
            ran.ends_naming(130, &["interrupted after", "--resume"]);
            interrupted += 1;
            let info = overbank("info --json").with(&store).run().json();
            assert_eq!(info["complete"], false);
        }
        assert_eq!(answer(profile(&store, &input).with("--resume").run().json()), whole, "round {round}");
    }
    assert!(interrupted > 0, "no signal came in time");
}

#[test]
fn another_input_or_other_options_are_not_resumed() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(28, 400_000, 60_000);
    let input = file(place.path(), "keys", lines(&rows));
    let store = place.path().join("store");
    let mut longest = Duration::from_millis(400);
    loop {
        killed(profile(&store, &input).with("--resume"), longest);
        let info = overbank("info --json").with(&store).run();
        if info.code == Some(0) && !info.json()["summaries"].as_array().unwrap().is_empty() {
            break;
        }
        longest += longest;
    }
    let complete = overbank("info --json").with(&store).run().json()["complete"].as_bool().unwrap();
    let what = if complete { "--append" } else { "--resume" };
    profile(&store, &input).run().fails_naming(&["store", "already holds", what]);
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
