//! `overbank merge`: stores built apart, under one seed, are together what one store of all their streams is.

use crate::announced::{Announced, signal};
use crate::command::{Run, overbank};
use crate::stream::{counts, file, keys, lines};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Runs `words` with a store of this name that is filled with `rows`.
fn built(place: &Path, name: &str, words: &str, rows: &[String]) -> PathBuf {
    let store = place.join(name);
    let input = file(place, &format!("{name}.txt"), if rows.is_empty() { Vec::new() } else { lines(rows) });
    let run = overbank(words).with("--store").with(&store).with(input).run();
    assert_eq!(run.code, Some(0), "{}", run.err);
    store
}

fn merge(out: &Path, stores: &[&PathBuf]) -> Run {
    stores.iter().fold(overbank("merge --json").with(out), |run, store| run.with(store))
}

/// Checks that no count of `truth` is out of bounds in `store`, but for lower bounds that may fail for 1 key in 20.
fn bounds_hold(place: &Path, store: &Path, rows: &[String]) {
    let truth = counts(rows);
    let asked: Vec<String> = truth.keys().map(|key| (*key).to_owned()).collect();
    let path = file(place, "asked", lines(&asked));
    let text = overbank("estimate --json --keys-from").with(path).with(store).run().text();
    let mut too_high = 0;
    for (line, key) in text.lines().zip(&asked) {
        let answer: Value = serde_json::from_str(line).unwrap();
        let count = truth[key.as_str()];
        assert!(count <= answer["upper"].as_u64().unwrap(), "{answer} for {count}");
        let is_below = answer["lower"].as_u64().unwrap() > count;
        assert!(!is_below || answer["lower_confidence"] != 1.0, "{answer} for {count}");
        too_high += usize::from(is_below);
    }
    assert!(too_high <= asked.len() / 20, "{too_high} of {}", asked.len());
    let distinct = overbank("distinct --json").with(store).run().json();
    let (least, most) = (distinct["lower"].as_f64().unwrap(), distinct["upper"].as_f64().unwrap());
    // Twice the width of 95 %: fails once in 10,000, and the seed is fixed.
    let (count, slack) = (truth.len() as f64, most - least);
    assert!(least - slack <= count && count <= most + slack, "{distinct} for {count}");
    let top = overbank("top --json -n 50").with(store).run().json();
    for heavy in top["heavy"].as_array().unwrap() {
        let count = truth[heavy["key"].as_str().unwrap()];
        assert!(
            heavy["lower"].as_u64().unwrap() <= count && count <= heavy["upper"].as_u64().unwrap(),
            "{heavy}"
        );
    }
    let threshold = top["heavy_threshold"].as_u64().unwrap();
    let listed = overbank("top --json -n 1000000").with(store).run().json();
    let listed: Vec<&str> =
        listed["heavy"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
    for (key, count) in &truth {
        assert!(*count <= threshold || listed.contains(key), "{key} came {count} times");
    }
}

#[test]
fn a_merged_store_is_its_owners_alone() {
    let place = tempfile::tempdir().unwrap();
    let part = built(place.path(), "part", "profile --quiet --seed 3", &keys(1, 100, 50));
    let out = place.path().join("out");
    assert_eq!(merge(&out, &[&part]).run().code, Some(0));
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn profiles_of_parts_merge_into_the_profile_of_the_whole() {
    let place = tempfile::tempdir().unwrap();
    let profile = "profile --json --quiet --seed 9 --memory 8MiB";
    let rows = keys(71, 60_000, 2_000);
    let (first, second) = rows.split_at(25_000);
    let parts = [("a", first), ("b", second), ("none", &[])]
        .map(|(name, rows)| built(place.path(), name, profile, rows));
    let whole = built(place.path(), "whole", profile, &rows);
    let out = place.path().join("out");
    let report = merge(&out, &[&parts[0], &parts[1], &parts[2]]).run().json();
    assert_eq!(report["rows"], rows.len());
    bounds_hold(place.path(), &out, &rows);
    // All keys are in RAM, so every answer is exact, and that of the whole.
    for command in ["top --json -n 3000", "distinct --json", "quantile --json"] {
        let of = |store: &Path| overbank(command).with(store).run().json();
        assert_eq!(of(&out), of(&whole), "{command}");
    }
    assert_eq!(overbank("verify --json").with(&out).run().json()["whole"], true);

    // It takes more files, but has no stream to go on with.
    let more = file(place.path(), "more", "a new key\n");
    let run = |words: &str| overbank(profile).with("--store").with(&out).args(words).with(&more).run();
    run("").fails_naming(&["out was merged from other stores", "--append"]);
    run("--resume").fails_naming(&["out was merged from other stores", "--append"]);
    assert_eq!(run("--append").json()["rows"], rows.len() + 1);
}

#[test]
fn counts_on_flash_merge_within_their_bounds() {
    let place = tempfile::tempdir().unwrap();
    let count = "count --json --quiet --seed 9 --memory 16MiB --flash 8MiB";
    let rows = keys(72, 150_000, 120_000);
    let parts: Vec<PathBuf> = [("a", &rows[..70_000]), ("b", &rows[70_000..]), ("none", &[])]
        .iter()
        .map(|(name, rows)| built(place.path(), name, count, rows))
        .collect();
    let out = place.path().join("out");
    // The empty one may come first.
    let report = merge(&out, &[&parts[2], &parts[0], &parts[1]]).run().json();
    assert_eq!((&report["rows"], &report["weight"]), (&Value::from(rows.len()), &Value::from(rows.len())));
    bounds_hold(place.path(), &out, &rows);
}

#[test]
fn keys_seen_merge_too() {
    let place = tempfile::tempdir().unwrap();
    let dedup = "dedup --quiet --seed 9 --memory 32MiB";
    let (a, b) = (["x", "y"].map(str::to_owned), ["y", "z"].map(str::to_owned));
    let stores = [built(place.path(), "a", dedup, &a), built(place.path(), "b", dedup, &b)];
    let out = place.path().join("out");
    assert_eq!(merge(&out, &[&stores[0], &stores[1]]).run().json()["keys"], 3);
    let seen = overbank("seen --output tsv").with(&out).args("x y z w").run();
    assert_eq!((seen.code, seen.out.as_str()), (Some(1), "seen\tx\nseen\ty\nseen\tz\nnew\tw\n"));
}

#[test]
fn what_does_not_go_together_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(73, 1_000, 100);
    let profile = |name: &str, words: &str| {
        built(place.path(), name, &format!("profile --json --quiet {words}"), &rows)
    };
    let base = profile("base", "--memory 8MiB --seed 1");
    let fields = place.path().join("fields");
    let table = file(place.path(), "table", "a\tb\n");
    let run = overbank("profile --json --quiet --memory 8MiB --seed 1 --format delimited --key 2 --store");
    run.with(&fields).with(table).run().json();
    let others = [
        (profile("seed", "--memory 8MiB --seed 2"), &["seed", "and", "base"][..]),
        (profile("hash", "--memory 8MiB --seed 1 --hash siphash"), &["hash", "base"]),
        (profile("memory", "--seed 1 --memory 9MiB"), &["the memory is", "base"]),
        (fields, &["--key 2", "no --key", "same --key"]),
        (built(place.path(), "set", "dedup --quiet --seed 1", &rows), &["set holds no counts", "one kind"]),
        (place.path().join("missing"), &["missing"]),
    ];
    let out = place.path().join("out");
    for (other, words) in &others {
        let before = fs::read_dir(place.path()).unwrap().count();
        merge(&out, &[&base, &base, other]).run().fails_naming(words);
        assert!(!out.exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), before, "nothing is left beside it");
    }
    merge(&base, &[&base]).run().fails_naming(&["base already exists", "new directory"]);
    merge(&out, &[&base])
        .with("--memory")
        .with("1MiB")
        .run()
        .fails_naming(&["base was made with --memory 8.00 MiB"]);
}

#[test]
fn an_interrupted_merge_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(74, 1_000, 100);
    let parts =
        ["a", "b"].map(|name| built(place.path(), name, "profile --quiet --seed 9 --memory 8MiB", &rows));
    let before = fs::read_dir(place.path()).unwrap().count();
    for word in [Signal::INT, Signal::TERM] {
        let out = place.path().join("out");
        let mut run = Announced::start(merge(&out, &[&parts[0], &parts[1]]), Run::start);
        assert!(run.reach("merged") && run.reach("merged"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), before + 1, "the store has no name yet");
        signal(&run.child, word);
        let status = run.child.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), before);
    }
}

#[test]
fn what_a_killed_merge_left_is_removed_by_the_next_one_and_nothing_else_is() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(75, 1_000, 100);
    let part = built(place.path(), "part", "profile --quiet --seed 9 --memory 8MiB", &rows);
    let seen = built(place.path(), "seen", "dedup --quiet --seed 9 --memory 32MiB", &rows);
    let [out, going, last] = ["out", "going", "last"].map(|name| place.path().join(name));
    // Somebody else's, whatever it is called.
    let empty = place.path().join(".overbank-merge-empty");
    fs::create_dir(&empty).unwrap();
    file(place.path(), ".overbank-merge-file", "x");
    let names = || fs::read_dir(place.path()).unwrap().count();
    let before = names();
    let mut killed = Announced::start(merge(&out, &[&part, &part]), Run::start);
    assert!(killed.reach("merged"));
    killed.kill();
    assert_eq!(names(), before + 1);
    let mut live = Announced::start(merge(&going, &[&part, &part]), Run::start);
    assert!(live.reach("made"));
    // That one has removed it, and has a directory of its own.
    assert_eq!(names(), before + 1);
    assert!(live.reach("merged"));
    merge(&last, &[&seen]).run().json();
    assert_eq!(names(), before + 2, "a merge under way is left alone");
    let ran = live.end();
    ran.ends_naming(0, &["removed", ".overbank-merge-", "a merge that was killed left"]);
    assert!(going.exists() && last.exists() && empty.exists() && !out.exists());
    assert_eq!(names(), before + 2);
    // It may have been made just now, unless it was not.
    fs::File::open(&empty).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    merge(&out, &[&seen]).run().ends_naming(0, &["removed", ".overbank-merge-empty"]);
    assert!(out.exists() && !empty.exists());
}
