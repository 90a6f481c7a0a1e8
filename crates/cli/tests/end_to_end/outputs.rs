//! `dedup --resume` and its output: no row is lost or comes twice, or the command refuses and says why, whatever became of the
//! output between the runs.

use crate::announced::{Announced, killed, points, signal};
use crate::command::{Ran, Run, overbank};
use crate::dedup::{exact, sieved};
use crate::stream::{Random, file, keys, lines};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};

/// Kills of one test.
const KILLS: u64 = 52;

/// Starts a run whose standard output is appended to `out`.
fn appending(run: Run, out: &Path) -> Child {
    run.output_to(OpenOptions::new().append(true).create(true).open(out).unwrap()).start()
}

fn quick_place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// A run that reads a pipe, whose rows come when the test gives them: it answers and commits them before it waits for more.
struct Fed {
    run: Announced,
    feed: ChildStdin,
    /// Whether it has committed where its output starts.
    has_started: bool,
}

impl Fed {
    /// Starts `run`, which reads standard input.
    fn start(run: Run) -> Self {
        let mut run = Announced::start(run, Run::piped);
        let feed = run.child.stdin.take().unwrap();
        Self { run, feed, has_started: false }
    }

    /// Gives it rows, no more than a pipe holds, and lets it go on to a point named so; before the first rows come out, it commits where
    /// its output starts.
    fn give(&mut self, rows: &[u8], point: &str) {
        self.feed.write_all(rows).unwrap();
        if !std::mem::replace(&mut self.has_started, true) {
            assert!(self.run.reach("committed"));
        }
        assert!(self.run.reach(point));
    }
}

/// A stream in pieces that a pipe takes at once.
fn pieces(rows: &[String]) -> Vec<Vec<u8>> {
    rows.chunks(2_000).map(lines).collect()
}

/// A stream, its answer, and a store whose run stopped in its middle, with rows on the output behind its last commit.
struct Stopped {
    place: tempfile::TempDir,
    text: Vec<u8>,
    store: PathBuf,
    out: PathBuf,
    committed: usize,
    expected: String,
}

impl Stopped {
    fn new() -> Self {
        let place = quick_place();
        let rows = keys(141, 20_000, 15_000);
        let text = lines(&rows);
        let (store, out) = (place.path().join("store"), place.path().join("out"));
        let mut stopped = Self { place, expected: sieved(&text, true), text, store, out, committed: 0 };
        let mut fed = Fed::start(stopped.run().with("--output").with(&stopped.out));
        for (at, piece) in pieces(&rows)[..4].iter().enumerate() {
            stopped.committed = fs::read(&stopped.out).unwrap_or_default().len();
            fed.give(piece, if at < 3 { "committed" } else { "synced" });
        }
        fed.run.kill();
        assert!(0 < stopped.committed && stopped.committed < fs::read(&stopped.out).unwrap().len());
        stopped
    }

    fn run(&self) -> Run {
        exact("--quiet --threads 2 --commit-every 0 --store").with(&self.store).fed(self.text.clone())
    }

    /// Resumes into `--output out`.
    fn resumed(&self, out: &Path) -> Ran {
        self.run().with("--resume").with("--output").with(out).run()
    }

    /// Resumes with standard output appended to `out`.
    fn appended(&self, out: &Path) -> Ran {
        let out = OpenOptions::new().append(true).create(true).open(out).unwrap();
        self.run().with("--resume").output_to(out).run()
    }

    fn completes(&self, ran: Ran, out: &Path) {
        ran.text();
        assert!(fs::read_to_string(out).unwrap() == self.expected);
    }

    /// Resuming refuses, and leaves `out` alone.
    fn refuses(&self, out: &Path, words: &[&str]) {
        let before = fs::read(out).ok();
        let mut all = vec!["cannot resume into", "--output FILE", "another --store"];
        all.extend(words);
        self.resumed(out).fails_naming(&all);
        if before.is_some() {
            self.appended(out).fails_naming(&all);
        }
        assert!(fs::read(out).ok() == before);
        assert!(overbank("verify --json").with(&self.store).run().json()["whole"].as_bool().unwrap());
    }
}

#[test]
fn an_output_of_any_number_of_kills_is_that_of_a_quiet_run() {
    let place = quick_place();
    let text = lines(&keys(106, 300_000, 200_000));
    let input = file(place.path(), "rows", &text);
    let expected = sieved(&text, true);
    let run = |store: &Path| {
        exact("--quiet --threads 2 --commit-every 0 --resume --store").with(store).with(&input)
    };
    let counted = place.path().join("counted");
    let points = points(run(&counted).with("--output").with(place.path().join("counted-out")));
    let (mut random, mut kills, mut rounds) = (Random(107), 0, 0);
    while kills < KILLS {
        let (store, out) =
            (place.path().join(format!("store-{rounds}")), place.path().join(format!("out-{rounds}")));
        // Standard output and --output in turn, and from one to the other.
        let again = |random: &mut Random| match random.below(2) {
            0 => run(&store).with("--output").with(&out),
            _ => run(&store).output_to(OpenOptions::new().append(true).create(true).open(&out).unwrap()),
        };
        let mut passed = 5 * rounds % points;
        rounds += 1;
        loop {
            if random.below(4) == 0 {
                let mut run = Announced::start(again(&mut random), Run::start);
                for _ in 0..passed {
                    run.point();
                }
                signal(&run.child, Signal::INT);
                if run.end().code == Some(0) {
                    break;
                }
            } else if !killed(again(&mut random), passed, &mut random) {
                break;
            }
            kills += 1;
            passed = random.below(points);
        }
        again(&mut random).run().text();
        assert!(fs::read_to_string(&out).unwrap() == expected, "round {rounds}");
        assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
    }
    println!("{kills} kills in {rounds} rounds of {points} points");
}

#[test]
fn a_pipe_gets_every_row_at_least_once_whatever_kills_the_run() {
    let place = quick_place();
    let text = lines(&keys(108, 200_000, 150_000));
    let input = file(place.path(), "rows", &text);
    let store = place.path().join("store");
    let mut got: HashMap<String, u64> = HashMap::new();
    for attempt in 0..=12 {
        let run = exact("--commit-every 0 --threads 2 --resume --store").with(&store).with(&input);
        let mut run = Announced::start(run, Run::start);
        let mut out = run.child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || std::io::read_to_string(&mut out).unwrap());
        if attempt < 12 {
            // Some kills right behind the first write, some behind a commit.
            for _ in 0..1 + attempt % 2 {
                run.reach(if attempt % 3 == 0 { "written" } else { "committed" });
            }
        } else {
            run.pass_all();
        }
        let has_ended = run.kill().success();
        // A torn last line is the kernel's, not ours.
        for line in reading.join().unwrap().split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            *got.entry(line.to_owned()).or_default() += 1;
        }
        if has_ended {
            break;
        }
    }
    let missing = sieved(&text, true).split_inclusive('\n').filter(|line| !got.contains_key(*line)).count();
    assert_eq!(missing, 0);
}

#[test]
fn an_output_that_was_copied_or_moved_is_gone_on_with() {
    let stopped = Stopped::new();
    // On another file system where there is one: the device's number, the inode and the name are others.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = elsewhere.path().join("copy");
    fs::copy(&stopped.out, &copy).unwrap();
    let identity = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).unwrap();
    assert_ne!(identity(&stopped.out), identity(&copy));
    fs::remove_file(&stopped.out).unwrap();
    let moved = stopped.place.path().join("moved");
    fs::copy(&copy, &moved).unwrap();
    let images = crate::stores::image(&stopped.store);
    stopped.completes(stopped.resumed(&copy), &copy);
    // The same from the same state, with standard output.
    fs::remove_dir_all(&stopped.store).unwrap();
    fs::create_dir(&stopped.store).unwrap();
    for (path, bytes) in images {
        fs::write(path, bytes).unwrap();
    }
    stopped.completes(stopped.appended(&moved), &moved);
}

#[test]
fn an_output_that_lost_committed_rows_is_refused() {
    let stopped = Stopped::new();
    let (whole, committed) = (fs::read(&stopped.out).unwrap(), stopped.committed);
    for length in [0, 1, committed / 2, committed - 1] {
        fs::write(&stopped.out, &whole[..length]).unwrap();
        stopped.refuses(&stopped.out, &["fewer than", "> instead of >>"]);
    }
    for at in [0, committed / 2, committed - 1] {
        let mut other = whole.clone();
        other[at] ^= 1;
        fs::write(&stopped.out, other).unwrap();
        stopped.refuses(&stopped.out, &["other bytes"]);
    }
    fs::write(&stopped.out, vec![b'x'; whole.len()]).unwrap();
    stopped.refuses(&stopped.out, &["other bytes"]);
    // A row more in front.
    fs::write(&stopped.out, [b"a\n", &whole[..]].concat()).unwrap();
    stopped.refuses(&stopped.out, &["other bytes"]);
    fs::remove_file(&stopped.out).unwrap();
    stopped.refuses(&stopped.out, &["it is not there"]);
    assert!(!stopped.out.exists());
    let pipe = stopped.run().with("--resume").run();
    pipe.fails_naming(&["cannot resume into standard output", "went to a file", "--output FILE"]);
    let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    stopped.run().with("--resume").output_to(null).run().fails_naming(&["went to a file"]);
    fs::write(&stopped.out, &whole).unwrap();
    stopped.completes(stopped.resumed(&stopped.out), &stopped.out);
}

/// What a power cut leaves: rows behind the last commit were never synced, so any part of them may be there, or zeros in their
/// place, or what others wrote.
#[test]
fn whatever_a_power_cut_leaves_behind_any_commit_is_cut_off() {
    let place = quick_place();
    let rows = keys(142, 50_000, 40_000);
    let text = lines(&rows);
    let expected = sieved(&text, true);
    let (store, out) = (place.path().join("store"), place.path().join("out"));
    let run = |store: &Path, out: &Path| {
        let run = exact("--quiet --threads 2 --commit-every 0 --resume --store").with(store);
        run.with("--output").with(out).fed(text.clone())
    };
    let mut random = Random(143);
    let (mut commits, mut refused, mut whole) = (0, 0, 0);
    let mut going = Fed::start(run(&store, &out));
    // Each commit, with its output as it was synced just before.
    for piece in pieces(&rows) {
        going.give(&piece, "committed");
        commits += 1;
        let committed = fs::read(&out).unwrap();
        // A store copied while its writer stands still is what a power cut leaves of it.
        let (cut_store, cut_out) = (place.path().join("cut-store"), place.path().join("cut-out"));
        fs::create_dir(&cut_store).unwrap();
        for (path, bytes) in crate::stores::image(&store) {
            fs::write(cut_store.join(path.file_name().unwrap()), bytes).unwrap();
        }
        let tail = &expected.as_bytes()[committed.len()..];
        let part = &tail[..random.below(tail.len() as u64 + 1) as usize];
        let left: Vec<u8> = match commits % 5 {
            0 => committed.clone(),
            1 => [&committed[..], part].concat(),
            2 => [&committed[..], &vec![0; part.len()]].concat(),
            3 => [&committed[..], b"a row of somebody else\n"].concat(),
            // A disk that lies: what was synced is torn.
            _ => committed[..committed.len().saturating_sub(1 + random.below(5_000) as usize)].to_vec(),
        };
        fs::write(&cut_out, &left).unwrap();
        let ran = run(&cut_store, &cut_out).run();
        if left.len() < committed.len() {
            ran.fails_naming(&["cannot resume into", "fewer than"]);
            assert!(fs::read(&cut_out).unwrap() == left);
            refused += 1;
        } else {
            ran.text();
            assert!(fs::read_to_string(&cut_out).unwrap() == expected, "commit {commits}");
            whole += 1;
        }
        fs::remove_dir_all(&cut_store).unwrap();
        fs::remove_file(&cut_out).unwrap();
    }
    drop(going.feed);
    assert_eq!(going.run.end().code, Some(0));
    assert_eq!((commits, whole, refused), (25, 20, 5));
}

#[test]
fn a_finished_run_is_resumed_behind_its_end_and_only_with_its_output() {
    let place = quick_place();
    let input = file(place.path(), "rows", "a\nb\na\n");
    let (store, out) = (place.path().join("store"), place.path().join("out"));
    let run = |words: &str| exact(words).with("--store").with(&store).with(&input);
    run("").with("--output").with(&out).run().text();
    fs::write(&input, "a\nb\na\nc\nb\n").unwrap();
    let other = place.path().join("other");
    run("--resume").with("-o").with(&other).run().fails_naming(&[
        "cannot resume into",
        "other",
        "it is not there",
    ]);
    assert!(!other.exists());
    run("--resume").run().fails_naming(&["cannot resume into standard output", "went to a file"]);
    let emptied = fs::File::create(&other).unwrap();
    run("--resume").output_to(emptied).run().fails_naming(&[
        "cannot resume into",
        "0 bytes",
        "fewer than the 4",
    ]);
    // What others wrote behind the end of a run stays.
    let mut grown = OpenOptions::new().append(true).open(&out).unwrap();
    grown.write_all(b"of somebody else\n").unwrap();
    run("--resume").with("-o").with(&out).run().text();
    assert_eq!(fs::read_to_string(&out).unwrap(), "a\nb\nof somebody else\nc\n");
    // And is looked for from then on.
    fs::write(&input, "a\nb\na\nc\nb\nd").unwrap();
    fs::write(&other, "a\nb\nof somebody's own\nc\n").unwrap();
    run("--resume").with("-o").with(&other).run().fails_naming(&["other bytes"]);
    run("--resume").with("-o").with(&out).run().text();
    // A last row without an end gets one once another follows.
    let next = file(place.path(), "next", "e\n");
    run("--resume").with(&next).with("-o").with(&out).run().text();
    assert_eq!(fs::read_to_string(&out).unwrap(), "a\nb\nof somebody else\nc\nd\ne\n");
    // A later run has an output of its own.
    assert_eq!(exact("--store").with(&store).fed("a\nf\n").run().text(), "f\n");
}

#[test]
fn rows_that_stood_in_the_output_before_stay() {
    let place = quick_place();
    let text = lines(&keys(144, 100_000, 80_000));
    let input = file(place.path(), "rows", &text);
    let (store, out) = (place.path().join("store"), file(place.path(), "out", "before\n"));
    let run = || exact("--quiet --threads 2 --commit-every 0 --resume --store").with(&store).with(&input);
    let mut random = Random(145);
    for passed in [2, 5, 8] {
        let appended = run().output_to(OpenOptions::new().append(true).open(&out).unwrap());
        assert!(killed(appended, passed, &mut random));
    }
    let mut run = Announced::start(run(), |run| appending(run, &out));
    run.pass_all();
    assert_eq!(run.end().code, Some(0));
    assert!(fs::read_to_string(&out).unwrap() == format!("before\n{}", sieved(&text, true)));
}

#[test]
fn a_file_that_is_not_known_by_any_row_yet_is_not_emptied() {
    let place = quick_place();
    let input = file(place.path(), "rows", lines(&keys(146, 50_000, 40_000)));
    let (store, out) = (place.path().join("store"), place.path().join("out"));
    let run = || exact("--quiet --commit-every 0 --store").with(&store).with(&input);
    let mut started = Announced::start(run(), |run| appending(run, &out));
    assert!(started.reach("committed"), "where the output starts");
    started.kill();
    let precious = file(place.path(), "precious", "rows of somebody else\n");
    let appended = OpenOptions::new().append(true).open(&precious).unwrap();
    run()
        .with("--resume")
        .output_to(appended)
        .run()
        .fails_naming(&["nothing had been committed", "empty it"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "rows of somebody else\n");
    fs::write(&out, "rows that were printed but not committed\n").unwrap();
    run().with("--resume").output_to(OpenOptions::new().append(true).open(&out).unwrap()).run().text();
    assert!(fs::read_to_string(&out).unwrap() == sieved(&fs::read(&input).unwrap(), true));
}

#[test]
fn a_pipes_rows_are_not_looked_for_in_a_file() {
    let place = quick_place();
    let input = file(place.path(), "rows", lines(&keys(147, 50_000, 40_000)));
    let store = place.path().join("store");
    let run = || exact("--quiet --commit-every 0 --store").with(&store).with(&input);
    let mut started = Announced::start(run().output_to(std::process::Stdio::null()), Run::start);
    for _ in 0..2 {
        assert!(started.reach("committed"));
    }
    started.kill();
    let out = fs::File::create(place.path().join("out")).unwrap();
    run().with("--resume").output_to(out).run().fails_naming(&[
        "cannot resume",
        "went to a pipe",
        "another --store",
    ]);
    run().with("--resume").output_to(std::process::Stdio::null()).run().text();
}

#[test]
fn without_a_store_the_output_is_whole_or_as_it_was() {
    let place = quick_place();
    let text = lines(&keys(148, 100_000, 80_000));
    let input = file(place.path(), "rows", &text);
    let out = file(place.path(), "out", "as it was\n");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink("out", &link).unwrap();
    let names = || fs::read_dir(place.path()).unwrap().count();
    let before = names();
    let run = |out: &Path| exact("--quiet").with(&input).with("--output").with(out);
    for point in ["written", "finishing"] {
        let mut run = Announced::start(run(&out), Run::start);
        assert!(run.reach(point));
        run.kill();
        assert_eq!((fs::read_to_string(&out).unwrap().as_str(), names()), ("as it was\n", before), "{point}");
    }
    let damaged = zstd::encode_all(&text[..], 1).unwrap();
    let damaged = file(place.path(), "cut.zst", &damaged[..damaged.len() / 2]);
    exact("").with(&damaged).with("-o").with(&out).run().fails_naming(&["cut.zst"]);
    assert_eq!((fs::read_to_string(&out).unwrap().as_str(), names()), ("as it was\n", before + 1));
    run(&link).run().text();
    assert!(fs::read(&out).unwrap() == sieved(&text, true).as_bytes());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o640);
    let new = place.path().join("new");
    run(&new).run().text();
    assert!(fs::read(&new).unwrap() == fs::read(&out).unwrap());
    assert_eq!(names(), before + 2);
    // A device takes what it gets.
    run(Path::new("/dev/null")).run().text();
    assert_eq!(run(Path::new("/dev/stdout")).run().out.len(), fs::read(&out).unwrap().len());
}

#[test]
fn an_output_that_cannot_be_is_named() {
    let place = quick_place();
    let input = file(place.path(), "rows", "a\nb\na\n");
    let run = |words: &str, out: &Path| exact(words).with(&input).with("-o").with(out).run();
    run("", &input).fails_naming(&["rows", "is an input and the output"]);
    let store = place.path().join("store");
    let kept = exact("--store").with(&store).with(&input).with("-o").with(&input).run();
    kept.fails_naming(&["rows", "is an input and the output"]);
    let appended = OpenOptions::new().append(true).open(&input).unwrap();
    exact("").with(&input).output_to(appended).run().fails_naming(&["rows", "is an input and the output"]);
    assert_eq!(fs::read_to_string(&input).unwrap(), "a\nb\na\n");
    run("", place.path()).fails_naming(&["cannot write to", "directory"]);
    run("", &place.path().join("no/such")).fails_naming(&["no/such", "No such file"]);
    run("", Path::new("/dev/full")).fails_naming(&["cannot write to /dev/full", "space"]);
    let full = file(place.path(), "full", "rows of another store\n");
    let fresh =
        exact("--resume --store").with(place.path().join("fresh")).with(&input).with("-o").with(&full);
    fresh.run().fails_naming(&["cannot resume into", "full", "remembers no run", "not empty"]);
    assert_eq!(fs::read_to_string(&full).unwrap(), "rows of another store\n");
    let both = exact("--remove --store").with(&store).with(&input).with("-o").with("x").run();
    both.fails_naming(&["--output"]);
}

#[test]
fn a_run_that_prints_and_one_that_does_not_cannot_go_on_with_each_other() {
    let stopped = Stopped::new();
    let build =
        overbank("filter build --memory 32MiB --resume").with(&stopped.store).with("-").fed("a\n").run();
    build.fails_naming(&["prints the first rows", "prints no rows", "the same command again"]);
    let before = fs::read(&stopped.out).unwrap();
    for (words, what) in
        [("--invert", "prints the repeats"), ("--row-numbers", "the numbers of the first rows")]
    {
        let other = stopped.run().with("--resume").with(words).with("-o").with(&stopped.out).run();
        other.fails_naming(&["prints the first rows", what, "the same command again"]);
    }
    assert!(fs::read(&stopped.out).unwrap() == before);
    let store = stopped.place.path().join("built");
    let input = file(stopped.place.path(), "rows", &stopped.text);
    let built = overbank("filter build --memory 32MiB --commit-every 0").with(&store).with(&input);
    let mut built = Announced::start(built, Run::start);
    assert!(built.reach("committed"));
    built.kill();
    let dedup = overbank("dedup --memory 32MiB --resume --store").with(&store).with(&input).run();
    dedup.fails_naming(&["prints no rows", "the same command again"]);
}

#[test]
fn rows_that_are_left_out_do_not_overwrite_the_output() {
    let place = quick_place();
    let input = file(place.path(), "rows.jsonl", "{\"u\":1}\nbad\n{\"u\":1}\n");
    let out = place.path().join("out");
    let run = |words: &str| exact(words).with("--key=u").with(&input).with("--rejects").with(&out);
    run("").with("-o").with(&out).run().fails_naming(&["--rejects", "out", "the output", "another file"]);
    assert!(!out.exists());
    let store = place.path().join("store");
    let kept = run("")
        .with("--store")
        .with(&store)
        .with("-o")
        .with(place.path().join("../").join(place.path().file_name().unwrap()).join("out"));
    kept.run().fails_naming(&["--rejects", "out", "the output"]);
    let opened = fs::File::create(&out).unwrap();
    run("").output_to(opened).run().fails_naming(&["--rejects", "out", "the output", "another file"]);
    // Nothing is lost where nothing is kept.
    exact("-o /dev/null --rejects /dev/null --key=u").with(&input).run();
}

#[test]
fn an_output_that_is_being_written_is_not_written_by_another_run() {
    let place = quick_place();
    let out = place.path().join("out");
    let run = |store: &str| {
        exact("--quiet --store").with(place.path().join(store)).with("-o").with(&out).fed("a\n")
    };
    let mut fed = Fed::start(run("first"));
    fed.give(b"b\n", "written");
    run("second").run().fails_naming(&["out is being written by another run", "wait for it"]);
    fed.run.kill();
    assert_eq!(fs::read_to_string(&out).unwrap(), "b\n");
    // A lock goes with its run.
    assert_eq!(run("third").run().code, Some(0));
    assert_eq!(fs::read_to_string(&out).unwrap(), "a\n");
}

#[test]
fn a_run_that_fails_before_its_first_row_has_changed_nothing() {
    let place = quick_place();
    let table = file(place.path(), "t.csv", "id,name\n1,a\n1,b\n");
    let strict = file(place.path(), "t.jsonl", "bad\n");
    let (store, out) = (place.path().join("store"), file(place.path(), "out", "rows of an earlier day\n"));
    let run = |words: &str| exact(words).with("--store").with(&store).with("-o").with(&out);
    let failures = [
        run("--key=idd").with(&table),
        run("--key=id").with(place.path().join("missing.csv")),
        run("--key=id --strict").with(&strict),
        run("--key=name").with(file(place.path(), "cut.csv.gz", [0x1f, 0x8b, 8, 0])),
    ];
    for failing in failures {
        let ran = failing.run();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "rows of an earlier day\n", "{}", ran.err);
    }
    // Neither is it a run to go on with, nor does it bind later ones to its key.
    run("--key=id").with(&table).run().text();
    assert_eq!(fs::read_to_string(&out).unwrap(), "id,name\n1,a\n");
    // A run that fails later does not make the whole run before it one that was interrupted.
    run("--key=idd --append").with(&table).run().fails_naming(&["idd"]);
    run("--key=id --strict").with(&strict).run().fails_naming(&["--strict"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "id,name\n1,a\n");
    run("--key=id").with(file(place.path(), "next.csv", "id,name\n1,c\n2,d\n")).run().text();
    assert_eq!(fs::read_to_string(&out).unwrap(), "id,name\n2,d\n");
}
