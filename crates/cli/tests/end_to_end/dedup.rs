//! `dedup` against what a set in memory says: order, bytes, keys, repeats, windows, later runs, interruptions, pipes.

use crate::announced::{Announced, signal};
use crate::command::{Ran, Run, overbank};
use crate::stream::{Random, file, keys, lines, sample};
use rustix::process::Signal;
use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Enough expected keys for no false positive in any test here: one in a million tests.
const EXACT: &str = "dedup --memory 32MiB --keys 1e6 --error 1e-12";

pub(crate) fn exact(words: &str) -> Run {
    overbank(&format!("{EXACT} {words}"))
}

/// The lines that come first, or the others.
pub(crate) fn sieved(text: &[u8], keeps_new: bool) -> String {
    let mut seen = HashSet::new();
    let kept = text.split_inclusive(|&byte| byte == b'\n').filter(|&line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        seen.insert(line.strip_suffix(b"\r").unwrap_or(line)) == keeps_new
    });
    String::from_utf8(kept.collect::<Vec<_>>().concat()).unwrap()
}

#[test]
fn first_rows_come_out_in_order_byte_for_byte() {
    let mut text = lines(&keys(101, 200_000, 60_000));
    text.extend(b"\r\n\nlast\r\na\tb\nlast\n\nno end");
    assert_eq!(exact("").fed(text.clone()).run().text(), sieved(&text, true));
    assert_eq!(exact("--invert").fed(text.clone()).run().text(), sieved(&text, false));
    assert_eq!(exact("-v --threads 5").fed(text.clone()).run().text(), sieved(&text, false));
    assert_eq!(exact("").fed("").run().text(), "");
    let place = tempfile::tempdir().unwrap();
    let open = file(place.path(), "open", "a\nb");
    let next = file(place.path(), "next", "b\nc\nd");
    // A row that gets a successor gets a line end.
    assert_eq!(exact("").with(&open).with(&next).run().text(), "a\nb\nc\nd");
}

#[test]
fn more_keys_than_wait_in_ram_come_out_in_order() {
    let mut random = Random(102);
    // A few rows are longer than the spool's part of the memory, and than any buffer.
    let rows: Vec<String> = (0..900_000u64)
        .map(|row| {
            let key = random.below(600_000);
            if row % 150_000 == 7 { format!("{key}{}", "y".repeat(200_000)) } else { key.to_string() }
        })
        .collect();
    let text = lines(&rows);
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", &text);
    let spool = place.path().join("spool");
    fs::create_dir(&spool).unwrap();
    for words in ["--threads 1", "--threads 3"] {
        let ran = exact(words).with("--spool").with(&spool).with(&input).run();
        assert!(ran.text() == sieved(&text, true), "{words}");
    }
    assert!(exact("-v").with(&input).run().text() == sieved(&text, false));
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0, "scratch files vanish");
}

#[test]
fn a_real_sample_is_what_a_set_says() {
    for name in ["hsts_hosts.txt.zst", "twitter52_250k_keys.txt.zst"] {
        let text = zstd::decode_all(File::open(sample(name)).unwrap()).unwrap();
        assert!(exact("").with(sample(name)).run().text() == sieved(&text, true), "{name}");
    }
}

#[test]
fn keys_are_fields_of_any_format_and_headers_pass_once() {
    let place = tempfile::tempdir().unwrap();
    let one = file(place.path(), "one.csv", "id,name\r\n1,\"a\nb\"\r\n2,c\r\n1,d\r\n\r\n");
    let two = file(place.path(), "two.csv", "id,name\n3,\"a\nb\"\n2,e\n4,f\n");
    let by_id = "id,name\r\n1,\"a\nb\"\r\n2,c\r\n3,\"a\nb\"\n4,f\n";
    assert_eq!(exact("--key id").with(&one).with(&two).run().text(), by_id);
    let by_name = "id,name\r\n1,\"a\nb\"\r\n2,c\r\n1,d\r\n2,e\n4,f\n";
    assert_eq!(exact("--key name").with(&one).with(&two).run().text(), by_name);
    assert_eq!(exact("-v --key id,name").with(&one).with(&one).run().out.matches("id,name").count(), 1);
    let bare = file(place.path(), "bare.csv", "id,name\n");
    assert_eq!(exact("--key id").with(&bare).run().text(), "id,name\n");
    assert_eq!(exact("--key id").with(&bare).with(&two).run().text(), "id,name\n3,\"a\nb\"\n2,e\n4,f\n");
    let other = file(place.path(), "other.csv", "name,id\nx,1\n");
    let refused = exact("--key id").with(&two).with(&other).run();
    refused.ends_naming(2, &["other.csv", "another header"]);
    let rows =
        "{\"u\": {\"id\": 7}, \"t\": 1}\nnothing\n{\"t\": 2, \"u\": {\"id\": 7}}\n{\"u\": {\"id\": 8}}\n";
    let ran = exact("--format jsonl --key u.id").fed(rows).run();
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "{\"u\": {\"id\": 7}, \"t\": 1}\n{\"u\": {\"id\": 8}}\n")
    );
    ran.ends_naming(0, &["1 malformed row was left out", "line 2", "not JSON"]);
    exact("--strict --format jsonl --key u.id")
        .fed(rows)
        .run()
        .ends_naming(2, &["standard input:2", "--strict"]);
    assert_eq!(exact("--key 2 --format whitespace").fed("a b\nc b\n d  e \n").run().text(), "a b\n d  e \n");
}

#[test]
fn a_window_forgets_what_came_long_ago() {
    let rows = keys(103, 120_000, 20_000);
    let text = lines(&rows);
    // The window's eighths: what is in the newest eight, the one being filled included, is remembered.
    let (window, pane) = (8_000, 1_000);
    let (mut panes, mut seen) = (VecDeque::from([Vec::new()]), HashSet::new());
    let mut expected = String::new();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 && at % pane == 0 {
            panes.push_back(Vec::new());
            if panes.len() > 8 {
                for key in panes.pop_front().unwrap() {
                    seen.remove(key);
                }
            }
        }
        if seen.insert(row) {
            panes.back_mut().unwrap().push(row);
            expected.push_str(row);
            expected.push('\n');
        }
    }
    for threads in ["1", "4"] {
        let words = format!("--window {window} --threads {threads}");
        assert!(exact(&words).fed(text.clone()).run().text() == expected, "{words}");
    }
    // A later run goes on in the pane where the one before it stopped.
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let mut out = String::new();
    for part in rows.chunks(50_700) {
        out += &exact("--window 8000 --store").with(&store).fed(lines(part)).run().text();
    }
    assert!(out == expected);
    exact("--window 9000 --store").with(&store).fed("").run().fails_naming(&[
        "window",
        "8,000 rows",
        "9,000 rows",
    ]);
    assert_eq!(exact("--window 10m").fed("a\nb\na\n").run().text(), "a\nb\n");
}

#[test]
fn a_store_remembers_across_runs_and_forgets_on_request() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = keys(104, 90_000, 40_000);
    let mut out = String::new();
    for part in rows.chunks(31_000) {
        out += &exact("--store").with(&store).fed(lines(part)).run().text();
    }
    assert!(out == sieved(&lines(&rows), true));
    let withdrawn: Vec<String> = rows.iter().take(5_000).cloned().collect();
    let removed: HashSet<&String> = withdrawn.iter().collect();
    let stats = exact("--json --remove --store").with(&store).fed(lines(&withdrawn)).run();
    assert_eq!(stats.out, "");
    let stats: serde_json::Value = serde_json::from_str(&stats.err).unwrap();
    assert_eq!(stats["removed"], removed.len());
    let again = exact("--store").with(&store).fed(lines(&rows)).run().text();
    let (mut expected, mut printed) = (String::new(), HashSet::new());
    for row in rows.iter().filter(|row| removed.contains(row)) {
        if printed.insert(row) {
            expected += &format!("{row}\n");
        }
    }
    assert!(again == expected);
    overbank("dedup --store")
        .with(&store)
        .with("--error")
        .with("1e-3")
        .fed("")
        .run()
        .fails_naming(&["--error", "another directory"]);
    assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
}

#[test]
fn statistics_add_up() {
    let text = lines(&keys(105, 50_000, 9_000));
    let kept = sieved(&text, true).lines().count();
    let ran = exact("--json").fed(text.clone()).run();
    let stats: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&stats["rows"], &stats["kept"], &stats["new"]), (&50_000.into(), &kept.into(), &kept.into()));
    assert_eq!(stats["dropped"], 50_000 - kept);
    assert_eq!(stats["bytes"], text.len());
    assert!(stats["wrong_expected"].as_f64().unwrap() < 1e-6);
    let ran = exact("--stats").fed(text).run();
    for word in ["rows", "kept", "dropped", "taken for seen", "peak memory", "budget 32.0 MiB", "flash"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    assert!(ran.err.lines().all(|line| line.chars().count() <= 80), "{}", ran.err);
}

#[test]
fn an_interrupted_store_wants_to_be_resumed() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let mut child = exact("--commit-every 0 --store").with(&store).with("-").piped();
    let mut feed = child.stdin.take().unwrap();
    feed.write_all(b"a\nb\n").unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!((out.next().unwrap().unwrap(), out.next().unwrap().unwrap()), ("a".into(), "b".into()));
    // Nothing but a pipe that is at rest: the signal alone wakes it.
    signal(&child, Signal::INT);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.ends_naming(130, &["interrupted after 2 rows", "--resume"]);
    drop(feed);
    exact("--store").with(&store).fed("a\nc\n").run().fails_naming(&["interrupted", "--resume", "--append"]);
    assert_eq!(overbank("info --json").with(&store).run().json()["complete"], false);
    // Of a pipe, what was read is read again and passed over.
    assert_eq!(exact("--resume --store").with(&store).fed("a\nb\nc\nb\n").run().text(), "c\n");
    assert_eq!(exact("--store").with(&store).fed("c\nd\n").run().text(), "d\n");
}

#[test]
fn a_pipe_that_pauses_gets_its_answers() {
    let mut child = exact("-").piped();
    let mut feed = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || out.next().unwrap().unwrap();
    feed.write_all(b"a\nb\na\n").unwrap();
    assert_eq!((next(), next()), ("a".to_owned(), "b".to_owned()));
    feed.write_all(b"b\nhal").unwrap();
    feed.write_all(b"f\n").unwrap();
    assert_eq!(next(), "half");
    drop(feed);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_signal_leaves_no_scratch_files() {
    for kind in [Signal::INT, Signal::TERM, Signal::KILL] {
        let place = tempfile::tempdir().unwrap();
        let mut child = exact("-").variable("TMPDIR", place.path().to_str().unwrap()).piped();
        let mut feed = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        feed.write_all(b"a\n").unwrap();
        assert_eq!(out.next().unwrap().unwrap(), "a");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "scratch files have no names");
        signal(&child, kind);
        if kind == Signal::KILL {
            assert_eq!(child.wait().unwrap().code(), None);
        } else {
            Ran::from(child.wait_with_output().unwrap())
                .ends_naming(130, &["interrupted", "nothing is kept"]);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        drop(feed);
    }
    // One that cannot stop cleanly, because it waits for the first byte of its input, goes all the same.
    let place = tempfile::tempdir().unwrap();
    let run = exact("-").variable("TMPDIR", place.path().to_str().unwrap());
    let mut run = Announced::start(run, Run::piped);
    let feed = run.child.stdin.take().unwrap();
    assert!(run.reach("opened"));
    run.go_on();
    signal(&run.child, Signal::INT);
    let ran = run.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    drop(feed);
}

#[test]
fn errors_leave_no_scratch_files_and_name_the_remedy() {
    let place = tempfile::tempdir().unwrap();
    let scratch = place.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let run = |words: &str| exact(words).variable("TMPDIR", scratch.to_str().unwrap());
    let input = file(place.path(), "rows", lines(&keys(110, 200_000, 200_000)));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    run("").with(&input).output_to(writer).run().ends_in_silence();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    run("").with(&input).output_to(full).run().fails_naming(&["cannot write to standard output", "space"]);
    run("").with(place.path().join("missing")).run().fails_naming(&["cannot open", "missing"]);
    let damaged = zstd::encode_all(&fs::read(&input).unwrap()[..], 1).unwrap();
    let damaged = file(place.path(), "cut.zst", &damaged[..damaged.len() / 2]);
    let ran = run("").with(damaged).run();
    ran.ends_naming(2, &["cut.zst", "cut short"]);
    assert!(ran.out.lines().count() > 1000, "what came before the damage is answered");
    overbank("dedup --error 0").fed("").run().fails_naming(&["0"]);
    overbank("dedup --error 1.5").fed("").run().fails_naming(&["1.5"]);
    overbank("dedup --memory 1MiB").fed("").run().fails_naming(&["memory", "32.0 MiB"]);
    overbank("dedup --window 3").fed("").run().fails_naming(&["--window", "8 rows"]);
    overbank("dedup --remove").fed("").run().fails_naming(&["--store"]);
    overbank("dedup --spool /nowhere").fed("").run().fails_naming(&["/nowhere", "--spool"]);
    let profile = place.path().join("profile");
    overbank("profile --quiet --memory 8MiB --store").with(&profile).fed("a\n").run().text();
    overbank("dedup --store").with(&profile).fed("a\n").run().fails_naming(&["another"]);
    let store = place.path().join("store");
    exact("--store").with(&store).fed("a\n").run().text();
    overbank("profile --store").with(&store).fed("a\n").run().fails_naming(&["another directory"]);
    overbank("top").with(&store).run().fails_naming(&["no profile"]);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn a_second_writer_is_kept_out_while_readers_look_on() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let run = exact("--commit-every 0 --store").with(&store).with("-");
    let mut run = Announced::start(run, Run::piped);
    let mut feed = run.child.stdin.take().unwrap();
    let mut out = BufReader::new(run.child.stdout.take().unwrap()).lines();
    feed.write_all(b"a\nb\n").unwrap();
    assert!(run.reach("committed"), "where the output starts");
    assert!(run.reach("written"));
    run.go_on();
    assert_eq!(out.next().unwrap().unwrap(), "a");
    exact("--store").with(&store).fed("c\n").run().fails_naming(&["another process"]);
    // The commit of the rows comes just after them.
    assert!(run.reach("committed"));
    assert_eq!(overbank("seen").with(&store).with("a").run().code, Some(0));
    drop(feed);
    drop(out);
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn both_ends_of_a_shell_pipe_work() {
    let Ok(output) = Command::new("sh")
        .args(["-c", "yes | head -n 500000 | \"$0\" dedup --quiet | head -n 1"])
        .arg(env!("CARGO_BIN_EXE_overbank"))
        .stderr(Stdio::null())
        .output()
    else {
        println!("skipped: there is no shell");
        return;
    };
    assert_eq!(output.stdout, b"y\n");
}
