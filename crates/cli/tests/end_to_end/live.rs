//! Live streams and signals, with real pipes. Nothing here measures time: what must come is waited for, and a guard that is far
//! beyond any machine's slowness ends a test that hangs. What depends on rhythms is tested on a driven clock, next to the code.

use crate::announced::Announced;
use crate::command::{Ran, Run, overbank};
use crate::stream::{file, keys, lines};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const HANG: Duration = Duration::from_secs(120);
const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Waits until `is_true`, however long a slow machine takes.
fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < HANG, "{what} does not come");
        std::thread::yield_now();
    }
}

/// Waits until the command can be stopped cleanly.
fn is_ready(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    until("the signal handlers", || {
        let text = fs::read_to_string(&status).unwrap();
        let mask = |name: &str| {
            let mask = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            u64::from_str_radix(&mask, 16).unwrap()
        };
        let settled = mask("SigCgt:") | mask("SigIgn:");
        SIGNALS.iter().all(|signal| settled >> (signal.as_raw() - 1) & 1 == 1)
    });
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

/// What a run left behind that must end by itself; its standard output only if it was not taken.
fn ended(child: Child) -> Ran {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    receiver.recv_timeout(HANG).map(Ran::from).unwrap_or_else(|_| {
        let _ = kill_process(pid, Signal::KILL);
        panic!("the command does not end");
    })
}

/// One signal, and the clean end that must follow while nothing else happens.
fn stopped(child: Child, signal: Signal) -> Ran {
    send(&child, signal);
    let ran = ended(child);
    ran.ends_naming(130, &["interrupted"]);
    ran
}

fn dedup(words: &str) -> Run {
    overbank("dedup --quiet --memory 32MiB --seed 1").words(words)
}

impl Run {
    fn words(self, words: &str) -> Self {
        words.split_whitespace().fold(self, Self::with)
    }
}

#[test]
fn every_row_comes_out_while_its_writer_waits_for_it() {
    for threads in ["-j 1", "-j 4"] {
        let mut child = dedup(threads).piped();
        let mut feed = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        for row in 0..30 {
            writeln!(feed, "row {row}\nrow {}", row / 2).unwrap();
            assert_eq!(out.next().unwrap().unwrap(), format!("row {row}"));
        }
        drop(feed);
        assert!(ended(child).err.is_empty());
    }
}

#[test]
fn every_row_of_a_compressed_stream_comes_out_once_it_is_flushed() {
    fn rows(mut encoder: impl Write, out: ChildStdout) {
        let mut out = BufReader::new(out).lines();
        for row in 0..10 {
            writeln!(encoder, "row {row}").unwrap();
            encoder.flush().unwrap();
            assert_eq!(out.next().unwrap().unwrap(), format!("row {row}"));
        }
    }
    let mut child = dedup("-").piped();
    let (feed, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    rows(flate2::write::GzEncoder::new(feed, flate2::Compression::fast()), out);
    assert_eq!(ended(child).code, Some(0));
    let mut child = dedup("-").piped();
    let (feed, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    rows(zstd::Encoder::new(feed, 1).unwrap().auto_finish(), out);
    assert_eq!(ended(child).code, Some(0));
}

/// Commands with a store that they fill from a pipe, and what tells how many rows a commit has.
fn keepers() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        ("profile -q --memory 8MiB --store", "quantile --json", "/count"),
        ("count -q --memory 16MiB --flash 16MiB --store", "quantile --json", "/count"),
        ("filter build -q --memory 32MiB", "filter info --json", "/keys"),
        ("dedup -q --memory 32MiB --store", "filter info --json", "/keys"),
    ]
}

fn committed(store: &Path, question: &str, field: &str) -> Option<u64> {
    let ran = overbank(question).with(store).run();
    serde_json::from_str::<Value>(&ran.out).ok()?.pointer(field)?.as_u64()
}

#[test]
fn a_pipe_that_says_little_is_committed_by_time() {
    for (command, question, field) in keepers() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let mut child = overbank(command).with(&store).words("--commit-every 0.01 -").piped();
        let mut feed = child.stdin.take().unwrap();
        for row in 1..=3 {
            writeln!(feed, "row {row}").unwrap();
            until(command, || committed(&store, question, field) == Some(row));
        }
        drop(feed);
        assert_eq!(ended(child).code, Some(0), "{command}");
    }
}

#[test]
fn one_signal_commits_and_ends_whatever_an_idle_pipe_does() {
    for ((command, question, field), signal) in keepers().into_iter().zip(SIGNALS.into_iter().cycle()) {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let mut child = overbank(command).with(&store).words("--commit-every 3600 -").piped();
        is_ready(&child);
        let mut feed = child.stdin.take().unwrap();
        feed.write_all(b"a\nb\nc\nhalf").unwrap();
        until("the rows are read", || ioctl_fionread(&feed).unwrap() == 0);
        // Read is not yet counted, but what was read is committed.
        stopped(child, signal);
        assert_eq!(committed(&store, question, field), Some(3), "{command}");
        drop(feed);
    }
}

#[test]
fn one_signal_ends_what_keeps_nothing() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (command, input, fed) in [
        ("profile -q", Path::new("-"), ""),
        // Rows and a header that do not end.
        ("profile -q", Path::new("-"), "half a row"),
        ("profile -q -f csv -k 1", Path::new("-"), "half a header"),
        ("dedup -q", Path::new("-"), "half a row"),
        ("dedup -q", Path::new("-"), ""),
        // Nobody writes to it.
        ("dedup -q", &pipe, ""),
    ] {
        for signal in SIGNALS {
            let mut child = overbank(command).with(input).piped();
            let mut feed = child.stdin.take().unwrap();
            feed.write_all(fed.as_bytes()).unwrap();
            is_ready(&child);
            let ran = stopped(child, signal);
            assert!(ran.out.is_empty(), "{command}: {}", ran.out);
            drop(feed);
        }
    }
}

#[test]
fn a_question_that_waits_for_its_keys_ends_by_a_signal() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank("profile -q --store").with(&store).fed("a\n").run();
    let mut child = overbank("estimate --keys-from -").with(&store).piped();
    let feed = child.stdin.take();
    send(&child, Signal::INT);
    // It has nothing to put in order, so the signal ends it as it ends any process.
    assert_eq!(ended(child).code, None);
    drop(feed);
}

#[test]
fn a_hang_up_that_is_to_be_ignored_is_ignored() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" dedup -q", env!("CARGO_BIN_EXE_overbank")]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    is_ready(&child);
    send(&child, Signal::HUP);
    let mut feed = child.stdin.take().unwrap();
    feed.write_all(b"a\n").unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(out.next().unwrap().unwrap(), "a");
    drop(feed);
    assert_eq!(ended(child).code, Some(0));
}

/// Runs until the pipe of its output is full, stops it by a signal, and returns what came out. `None` if it had no more to say.
fn stopped_while_blocked(run: Run, signal: Signal, read_bytes: u64) -> (String, Ran) {
    let mut child = run.start();
    let mut out = child.stdout.take().unwrap();
    let mut got = Vec::new();
    Read::by_ref(&mut out).take(read_bytes).read_to_end(&mut got).unwrap();
    let mut is_over = false;
    // Rows of odd lengths fill the pages of a pipe by half at the least.
    until("the output's pipe is full", || {
        is_over = child.try_wait().unwrap().is_some();
        is_over || ioctl_fionread(&out).unwrap() >= 32 << 10
    });
    if !is_over {
        send(&child, signal);
    }
    let ran = ended(child);
    out.read_to_end(&mut got).unwrap();
    (String::from_utf8(got).unwrap(), ran)
}

#[test]
fn a_blocked_output_and_signals_neither_lose_nor_repeat_a_byte() {
    let text = lines(&keys(301, 90_000, 80_000));
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", &text);
    for (mode, signal) in [("", Signal::INT), ("--invert", Signal::TERM), ("--window 20000", Signal::HUP)] {
        let expected = dedup(mode).with(&input).run().text();
        let store = place.path().join(format!("store{mode}"));
        let (mut got, mut stops) = (String::new(), 0);
        loop {
            let run = dedup(mode).words("--resume --commit-every 0 --store").with(&store).with(&input);
            let (part, ran) = stopped_while_blocked(run, signal, 100_000);
            got += &part;
            if ran.code == Some(0) {
                break;
            }
            ran.ends_naming(130, &["interrupted", "--resume"]);
            stops += 1;
        }
        assert!(stops >= 3, "{stops} stops of {} bytes", expected.len());
        assert!(got == expected, "{mode}: {} bytes of {}", got.len(), expected.len());
        let info = overbank("info --json").with(&store).run().json();
        let is_owed = |summary: &serde_json::Value| summary["kind"] == "rows to print";
        assert!(
            !info["summaries"].as_array().unwrap().iter().any(is_owed),
            "nothing is owed any more: {info}"
        );
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
    }
}

#[test]
fn what_is_owed_shows_and_is_paid_by_any_later_run() {
    let text = lines(&(0..40_000).map(|row| format!("row {row}")).collect::<Vec<_>>());
    let place = tempfile::tempdir().unwrap();
    let (input, store) = (file(place.path(), "rows", &text), place.path().join("store"));
    let run = dedup("--store").with(&store).with(&input);
    let (mut got, ran) = stopped_while_blocked(run, Signal::INT, 0);
    ran.ends_naming(130, &["interrupted after 40,000 rows", "--resume"]);
    let info = overbank("info").with(&store).run().text();
    assert!(info.contains("rows to print"), "{info}");
    let more = file(place.path(), "more", "row 7\nnew\n");
    got += &dedup("--append --store").with(&store).with(&more).run().text();
    assert!(got.as_bytes() == [&text[..], b"new\n"].concat(), "{} bytes", got.len());
}

#[test]
fn a_slow_reader_of_the_output_does_not_make_rows_wait_longer() {
    // A reader that rests while an answer is written must not count as what the answer took, or the next rows would wait ten times as long.
    let mut child = dedup("-").piped();
    let mut feed = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    let rows: String = (0..40_000).map(|row| format!("{row:09}\n")).collect();
    let feeder = std::thread::spawn(move || {
        feed.write_all(rows.as_bytes()).unwrap();
        feed
    });
    until("the output's pipe is full", || ioctl_fionread(&out).unwrap() >= 32 << 10);
    let mut got = vec![0; 400_000];
    out.read_exact(&mut got).unwrap();
    let mut feed = feeder.join().unwrap();
    feed.write_all(b"next\n").unwrap();
    let mut next = [0; 5];
    out.read_exact(&mut next).unwrap();
    assert_eq!(&next, b"next\n");
    drop((feed, out));
    assert_eq!(ended(child).code, Some(0));
}

#[test]
fn a_signal_during_the_first_commit_leaves_a_store_that_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let text = lines(&keys(302, 20_000, 9_000));
    let input = file(place.path(), "rows", &text);
    let expected = dedup("").with(&input).run().text();
    for signal in SIGNALS {
        let store = place.path().join(format!("store-{}", signal.as_raw()));
        let out = place.path().join("out");
        let child = dedup("--commit-every 0 --store")
            .with(&store)
            .with(&input)
            .output_to(File::create(&out).unwrap())
            .start();
        is_ready(&child);
        send(&child, signal);
        let ran = ended(child);
        assert!(matches!(ran.code, Some(0 | 130)), "{ran:?}");
        let append = File::options().append(true).open(&out).unwrap();
        let ran = Ran::from(
            dedup("--resume --store")
                .with(&store)
                .with(&input)
                .output_to(append)
                .start()
                .wait_with_output()
                .unwrap(),
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(fs::read_to_string(&out).unwrap() == expected);
    }
}

#[test]
fn one_signal_ends_a_run_whose_output_nobody_reads_yet() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", "a\nb\na\n");
    let (pipe, store) = (place.path().join("pipe"), place.path().join("store"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let run = || dedup("--store").with(&store).with(&input).with("-o").with(&pipe);
    for signal in SIGNALS {
        let child = run().start();
        is_ready(&child);
        stopped(child, signal);
    }
    let child = run().with("--resume").start();
    assert_eq!(fs::read_to_string(&pipe).unwrap(), "a\nb\n");
    assert_eq!(ended(child).code, Some(0));
}

#[test]
fn a_signal_before_the_first_row_is_read_is_an_interruption_too() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", lines(&keys(71, 1_000, 900)));
    for (words, _, _) in keepers() {
        let store = place.path().join("store");
        let mut run = Announced::start(overbank("").words(words).with(&store).with(&input), Run::start);
        assert!(run.reach("opening"));
        send(&run.child, Signal::TERM);
        run.end().ends_naming(130, &["interrupted"]);
        let _ = fs::remove_dir_all(&store);
    }
}
