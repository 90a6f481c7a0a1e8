//! Stores that are not as they should be: full disks, other versions, damage, strangers, a second writer.

use crate::command::overbank;
use crate::stream::{Random, file, keys, lines};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROFILE: &str = "profile --json --seed 7 --memory 8MiB --commit-every 0 --store";
const BLOCK_BYTES: usize = 4096;

fn kept(place: &Path) -> PathBuf {
    let store = place.join("store");
    overbank(PROFILE).with(&store).fed(lines(&keys(61, 20_000, 5_000))).run().json();
    store
}

/// The files of a store, with their bytes.
pub(crate) fn image(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut image: Vec<(PathBuf, Vec<u8>)> =
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    image.sort();
    image
}

/// A small file system of its own, unmounted when dropped.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    pub(crate) fn new(place: &Path, size: &str) -> Option<Self> {
        fs::create_dir(place).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(place)
            .output();
        mount.ok().filter(|output| output.status.success()).map(|_| Self(place.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_last_commit_whole_and_the_run_goes_on_once_there_is_space() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::new(&place.path().join("disk"), "32m") else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let rows = keys(62, 150_000, 60_000);
    let input = file(place.path(), "keys", lines(&rows));
    let answer = |mut report: Value| {
        report.as_object_mut().unwrap().remove("cost").unwrap();
        report
    };
    let whole = answer(overbank(PROFILE).with(place.path().join("whole")).with(&input).run().json());
    let ballast = disk.0.join("ballast");

    // Full from the start: nothing half-made stays in the way.
    fs::write(&ballast, vec![1; 31 << 20]).unwrap();
    let store = disk.0.join("store");
    overbank(PROFILE).with(&store).with(&input).run().fails_naming(&["store", "full", "free some space"]);
    fs::remove_file(&ballast).unwrap();

    // Full behind the first commit of an appended stream.
    let text = lines(&rows);
    let (first, second) = text.split_at(lines(&rows[..50_000]).len());
    let (first, second) = (file(place.path(), "first", first), file(place.path(), "second", second));
    overbank(PROFILE).with(&store).with("--resume").with(&first).run().json();
    let mut size = 30 << 20;
    while fs::write(&ballast, vec![1; size]).is_err() {
        size -= 1 << 20;
    }
    overbank(PROFILE)
        .with(&store)
        .with("--append")
        .with(&second)
        .run()
        .fails_naming(&["full", "free some space"]);
    assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
    assert_eq!(overbank("quantile --json").with(&store).run().json()["count"], 50_000);
    fs::remove_file(&ballast).unwrap();
    let end = answer(overbank(PROFILE).with(&store).with("--append").with(&second).run().json());
    for field in ["rows", "weight", "bytes", "distinct", "heavy", "heavy_threshold", "values"] {
        assert_eq!(end[field], whole[field], "{field}");
    }
}

#[test]
fn a_disk_that_is_full_of_counts_leaves_the_last_commit_whole() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::new(&place.path().join("disk"), "40m") else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    // Commits at the end alone, so that it is the writers in the middle of the pass who find the disk full.
    let options = "count --json --seed 7 --memory 16MiB --flash 8MiB --pending 0 --commit-every 1000 --threads 2 --store";
    let (first, second) = (keys(64, 50_000, 40_000), keys(65, 900_000, 800_000));
    let input = file(place.path(), "second", lines(&second));
    let whole = place.path().join("whole");
    overbank(options).with(&whole).fed(lines(&first)).run().json();
    let whole = overbank(options).with(&whole).with("--append").with(&input).run().json();

    let (store, ballast) = (disk.0.join("store"), disk.0.join("ballast"));
    overbank(options).with(&store).fed(lines(&first)).run().json();
    let before = overbank("top --json").with(&store).run().json();
    let mut size = 38 << 20;
    while fs::write(&ballast, vec![1; size]).is_err() {
        size -= 1 << 20;
    }
    overbank(options)
        .with(&store)
        .with("--append")
        .with(&input)
        .run()
        .fails_naming(&["full", "free some space"]);
    assert!(overbank("verify --json").with(&store).run().json()["whole"].as_bool().unwrap());
    assert_eq!(overbank("top --json").with(&store).run().json(), before);
    fs::remove_file(&ballast).unwrap();
    let end = overbank(options).with(&store).with("--append").with(&input).run().json();
    for field in ["rows", "weight", "distinct", "heavy", "heavy_threshold", "counts"] {
        assert_eq!(end[field], whole[field], "{field}");
    }
}

#[test]
fn damage_to_a_sketch_on_flash_is_reported_and_never_becomes_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = keys(66, 400_000, 350_000);
    let options = "count --json --seed 7 --memory 16MiB --flash 8MiB --pending 1 --store";
    overbank(options).with(&store).fed(lines(&rows)).run().json();
    let ask = || overbank("estimate --json --keys-from -").with(&store).fed(lines(&rows[..20_000])).run();
    let right = ask().text();
    let mut random = Random(67);
    let mut noticed = 0;
    for (path, bytes) in image(&store).iter().filter(|(path, _)| path.extension().is_some()) {
        for _ in 0..3 {
            let mut damaged = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
            fs::write(path, &damaged).unwrap();
            // A block of the sketch that no commit needs any more may hold anything.
            let verified = overbank("verify").with(&store).run();
            assert!(matches!(verified.code, Some(0 | 2)), "{verified:?}");
            let asked = ask();
            if asked.code == Some(0) {
                assert!(asked.out == right, "{} byte {at}", path.display());
            } else {
                assert_eq!((asked.code, verified.code), (Some(2), Some(2)), "{} byte {at}", path.display());
                assert!(asked.err.contains("damaged at byte"), "{}", asked.err);
                noticed += 1;
            }
        }
        fs::write(path, bytes).unwrap();
    }
    assert!(noticed > 0, "no damage was where an estimate reads");
}

#[test]
fn another_version_is_named_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let superblock = store.join("superblock");
    let mut bytes = fs::read(&superblock).unwrap();
    for slot in bytes.chunks_exact_mut(BLOCK_BYTES) {
        assert_eq!(&slot[..8], b"OVERBANK");
        slot[8..12].copy_from_slice(&999u32.to_le_bytes());
    }
    fs::write(&superblock, &bytes).unwrap();
    let before = image(&store);
    for command in ["top", "distinct", "quantile", "info", "verify"] {
        overbank(command).with(&store).run().fails_naming(&["version 999", "store", "release"]);
    }
    overbank(PROFILE).with(&store).with("--append").fed("a\n").run().fails_naming(&["version 999"]);
    assert_eq!(image(&store), before);
}

#[test]
fn a_directory_that_is_no_store_is_said_to_be_none_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    file(place.path(), "precious.txt", "do not touch");
    for command in ["top", "distinct", "quantile", "info", "verify"] {
        overbank(command).with(place.path()).run().fails_naming(&["is not a store"]);
        overbank(command).with(place.path().join("missing")).run().fails_naming(&["missing"]);
    }
    overbank("estimate").with(place.path()).with("key").run().fails_naming(&["is not a store"]);
    overbank(PROFILE).with(place.path()).fed("a\n").run().fails_naming(&["is not a store"]);
    assert_eq!(image(place.path()).len(), 1);
    assert_eq!(fs::read_to_string(place.path().join("precious.txt")).unwrap(), "do not touch");
}

#[test]
fn damage_is_reported_and_never_becomes_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let questions = ["top --json -n 50", "distinct --json", "quantile --json", "estimate --json"];
    let ask = |question: &str| {
        let run = overbank(question).with(&store);
        if question.starts_with("estimate") { run.with("key-1-x").run() } else { run.run() }
    };
    let answers = questions.map(|question| ask(question).text());
    let mut random = Random(63);
    for (path, bytes) in image(&store).iter().filter(|(path, _)| path.extension().is_some()) {
        for _ in 0..3 {
            let mut damaged = bytes.clone();
            // Anywhere, but not always in the first block.
            let at = random.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
            fs::write(path, &damaged).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let ran = overbank("verify").with(&store).run();
            ran.ends_naming(2, &["damaged"]);
            assert!(ran.out.contains(name) || ran.err.contains(name), "{name} byte {at}: {ran:?}");
            let question = random.below(questions.len() as u64) as usize;
            let ran = ask(questions[question]);
            if ran.code == Some(0) {
                assert_eq!(ran.out, answers[question], "{name} byte {at}");
            } else {
                ran.fails_naming(&["damaged at byte"]);
            }
        }
        fs::write(path, bytes).unwrap();
    }
    for (path, bytes) in image(&store).into_iter().filter(|(_, bytes)| bytes.len() > BLOCK_BYTES) {
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let ran = overbank("verify").with(&store).run();
        assert!(ran.code == Some(2) || path.ends_with("reserve"), "{}: {ran:?}", path.display());
        fs::write(path, bytes).unwrap();
    }
    assert!(overbank("verify").with(&store).run().text().contains("no damage"));
}

#[test]
fn a_store_is_its_owners_alone() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store), 0o700);
    for (path, _) in image(&store) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_manifest_that_was_cut_is_damage() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let manifest = store.join("000001.man");
    let whole = fs::read(&manifest).unwrap();
    for bytes in [15_595, whole.len() - 2 * BLOCK_BYTES, 2 * BLOCK_BYTES, 0] {
        fs::write(&manifest, &whole[..bytes]).unwrap();
        for command in ["top", "info", "verify"] {
            overbank(command).with(&store).run().fails_naming(&["000001.man", "restore"]);
        }
        overbank(PROFILE)
            .with(&store)
            .with("--append")
            .fed("a\n")
            .run()
            .fails_naming(&["000001.man", "restore"]);
    }
    fs::write(&manifest, whole).unwrap();
    overbank("top").with(&store).run().text();
}

#[test]
fn what_is_no_file_is_named_at_once() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let data = image(&store).into_iter().find(|(path, _)| path.extension().is_some_and(|end| end == "seg"));
    let data = data.unwrap().0.file_name().unwrap().to_str().unwrap().to_owned();
    for name in ["superblock", "000001.man", &data] {
        let (path, kept) = (store.join(name), place.path().join("kept"));
        fs::rename(&path, &kept).unwrap();
        for command in ["top", "info", "verify"] {
            let word = if name == "superblock" { "superblock" } else { "missing" };
            overbank(command)
                .with(&store)
                .run()
                .fails_naming(&[if word == "missing" { name } else { word }, word]);
        }
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for command in ["top", "info", "verify"] {
            overbank(command).with(&store).run().fails_naming(&[name, "named pipe"]);
        }
        overbank(PROFILE).with(&store).with("--append").fed("a\n").run().fails_naming(&[name, "named pipe"]);
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    let diary = place.path().join("diary");
    fs::write(&diary, "mine").unwrap();
    fs::remove_file(store.join("LOCK")).unwrap();
    fs::hard_link(&diary, store.join("LOCK")).unwrap();
    overbank(PROFILE).with(&store).with("--append").fed("a\n").run().fails_naming(&["LOCK", "2 names"]);
    assert_eq!(fs::read_to_string(&diary).unwrap(), "mine");
}

#[test]
fn info_says_who_writes() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    assert!(overbank("info --json").with(&store).run().json()["writer_pid"].is_null());
    let mut writer = overbank(PROFILE).with(&store).with("--append").piped();
    let mut stdin = writer.stdin.take().unwrap();
    // A writer that has read rows holds the lock; it waits for more than a pipe holds.
    std::io::Write::write_all(&mut stdin, &vec![b'\n'; 4 << 20]).unwrap();
    let info = overbank("info --json").with(&store).run().json();
    assert_eq!(info["writer_pid"], writer.id());
    let text = overbank("info").with(&store).run().text();
    assert!(text.contains(&format!("written by  process {}, now", writer.id())), "{text}");
    drop(stdin);
    writer.wait_with_output().unwrap();
    assert!(overbank("info --json").with(&store).run().json()["writer_pid"].is_null());
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = overbank(PROFILE).with(&store).with("--append").with(&pipe).start();
    // The pipe opens once the writer reads it, and by then it has the store.
    let feed = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let second = overbank(PROFILE).with(&store).with("--append").fed("a\n").run();
    let pid = writer.id().to_string();
    second.fails_naming(&["is being written by another process", &pid]);
    assert_eq!(overbank("quantile --json").with(&store).run().json()["count"], 20_000);
    assert!(overbank("verify").with(&store).run().text().contains("no damage"));
    drop(feed);
    assert!(writer.wait_with_output().unwrap().status.success());
}

#[test]
fn a_store_that_holds_a_stream_is_not_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let store = kept(place.path());
    let before = overbank("distinct --json").with(&store).run().json();
    overbank(PROFILE).with(&store).fed("a\n").run().fails_naming(&["already holds", "--append"]);
    let more = "profile --append --commit-every 0 --store";
    overbank(more).with(&store).with("--value=1").fed("a 1\n").run().fails_naming(&["--value"]);
    overbank("profile --append --memory 16MiB --seed 8 --store")
        .with(&store)
        .fed("a\n")
        .run()
        .fails_naming(&["seed"]);
    assert_eq!(overbank("distinct --json").with(&store).run().json(), before);
}

#[test]
fn a_store_without_counts_on_flash_or_with_others_is_not_added_to() {
    let place = tempfile::tempdir().unwrap();
    let plain = place.path().join("plain");
    overbank("profile --json --memory 16MiB --flash 0 --store").with(&plain).fed("a\n").run().json();
    for command in ["count", "profile --flash 16MiB"] {
        let run = overbank(command)
            .with("--append")
            .with("--memory=16MiB")
            .with("--store")
            .with(&plain)
            .fed("b\n")
            .run();
        run.fails_naming(&["plain", "without a sketch on flash", "another directory"]);
    }
    // A profile that does not ask for flash goes on without.
    overbank("profile --append --memory 16MiB --store").with(&plain).fed("b\n").run().text();
    let counted = place.path().join("counted");
    overbank("count --json --memory 16MiB --flash 16MiB --store").with(&counted).fed("a\n").run().json();
    let count = "count --append --memory 16MiB --store";
    let more = |size: &str| overbank(count).with(&counted).with(size).fed("b\n").run();
    more("--flash=32MiB").fails_naming(&["counted", "835,584 columns", "1,671,168", "leave its size away"]);
    more("--epsilon=1e-5").fails_naming(&["counted", "835,584 columns"]);
    overbank("count --memory 16MiB --store")
        .with(&counted)
        .fed("b\n")
        .run()
        .fails_naming(&["already holds", "--append"]);
    more("--flash=16MiB").text();
    // A profile goes on with the counts on flash as well, without being told.
    let both =
        overbank("profile --json --append --memory 16MiB --store").with(&counted).fed("b\n").run().json();
    assert_eq!((&both["rows"], both["counts"]["flash"]["depth"].as_u64()), (&Value::from(3), Some(5)));
}
