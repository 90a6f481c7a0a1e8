//! What a filter's store promises of its keys: new is certain, as many as there are, made alike; and a merge of all or nothing.

use crate::command::overbank;
use crate::stream::{file, keys, lines};
use overbank::filter::cascade::FilterOptions;
use overbank::store::{Store, StoreOptions};
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

#[test]
fn no_key_that_came_is_new_after_the_filter_outgrew_its_guess() {
    let place = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (0..300_000u64).map(|row| format!("line {row}")).collect();
    let input = file(place.path(), "rows", lines(&rows));
    let store = place.path().join("store");
    let dedup = "dedup --quiet --memory 32MiB --keys 1000 --error 1e-2 --seed 3 --store";
    let kept = overbank(dedup).with(&store).with(&input).run().text();
    let kept: HashSet<&str> = kept.lines().collect();
    // Twice the promised share, which is ten standard deviations more.
    let dropped = rows.iter().filter(|row| !kept.contains(row.as_str())).count();
    assert!(dropped <= 6_000, "{dropped} of 300,000 new keys were taken for seen");
    let seen = overbank("seen --json --keys-from").with(&input).with(&store).run();
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(overbank(dedup).with(&store).with(&input).run().text(), "", "no row is new again");
}

#[test]
fn keys_are_counted_once_however_often_they_were_inserted() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows: Vec<String> = (0..1_000).map(|row| format!("line {row}")).collect();
    for times in 1..=3 {
        let build = overbank("filter build --json --append --quiet --memory 32MiB").with(&store);
        let built = build.fed(lines(&rows)).run().json();
        for filter in [&built["filter"], &overbank("filter info --json").with(&store).run().json()] {
            for name in ["keys", "keys_at_least", "keys_at_most"] {
                assert_eq!(filter[name], 1_000, "{name} of {filter}");
            }
            assert_eq!(filter["occurrences"], 1_000 * times);
        }
    }
    let page = overbank("filter info").with(&store).run().text();
    let line = |name: &str| page.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("keys").contains("1,000") && line("inserted").contains("3,000"), "{page}");
    let ran = overbank("dedup --json --memory 32MiB --store").with(&store).fed(lines(&rows)).run();
    let stats: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&stats["filter"]["keys"], &stats["new"]), (&1_000.into(), &0.into()));
}

#[test]
fn other_keys_are_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let rows = "a\tb\tc\nd\te\tf\n";
    let tsv = "--quiet --memory 32MiB --format delimited";
    for (command, again) in [("dedup --store", ""), ("filter build", ""), ("profile --store", "--append")] {
        let store = place.path().join(command.replace(' ', "-"));
        let run = |words: &str| {
            let words = format!("{words} {again}");
            let (before, after) =
                command.split_once(" --store").map_or((command, ""), |(name, _)| (name, "--store"));
            overbank(&format!("{before} {tsv} {words} {after}")).with(&store).fed(rows).run()
        };
        let first = overbank(&format!("{} {tsv} --key 1,2", command.trim_end_matches("--store")));
        let first = if command.ends_with("--store") { first.with("--store") } else { first };
        assert_eq!(first.with(&store).fed(rows).run().code, Some(0), "{command}");
        assert_eq!(run("--key 1,2").code, Some(0), "{command} with the same key");
        for (other, shown) in [("--key 1,3", "--key 1,3"), ("--key 1", "--key 1"), ("", "whole rows")] {
            run(other).fails_naming(&["--key 1,2", shown, "another directory"]);
        }
        // A name in a file with a header may be the field of a number.
        let csv = overbank(&format!(
            "{} --quiet --memory 32MiB --format csv {again} --key x,y",
            command.trim_end_matches("--store")
        ));
        let csv = if command.ends_with("--store") { csv.with("--store") } else { csv };
        let ran = csv.with(&store).fed("x,y\na,b\n").run();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let store = place.path().join("dedup---store");
    let ran = overbank("seen").with(&store).with("a").with("d").run();
    ran.ends_naming(1, &["--key 1,2", "2 fields", "tab"]);
    assert_eq!(overbank("seen").with(&store).with("a\tb").run().err, "");
    let whole = place.path().join("whole");
    overbank("filter build --quiet --memory 32MiB --seed 1").with(&whole).fed("a\tb\n").run().text();
    let fields = place.path().join("fields");
    overbank(&format!("filter build {tsv} --seed 1 --key 1")).with(&fields).fed("a\tb\n").run().text();
    let into = place.path().join("into");
    let refused = overbank("filter merge").with(&into).with(&whole).with(&fields).run();
    refused.fails_naming(&["whole", "fields", "--key 1"]);
    overbank("filter merge").with(&into).with(&fields).run().text();
    let refused = overbank("dedup --memory 32MiB --store").with(&into).fed("a\n").run();
    refused.fails_naming(&["into", "--key 1"]);
}

#[test]
fn other_weights_and_values_are_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let table = file(place.path(), "t.csv", "user,bytes,packets,ms\na,10,1,5\nb,20,2,7\n");
    let plain = file(place.path(), "plain.csv", "b,1,7,3\n");
    let run = |store: &Path, words: &str, input: &Path| {
        let run = overbank("profile --json --quiet --seed 4 --memory 8MiB --key user --store").with(store);
        run.args(words).with(input).run()
    };
    let store = place.path().join("store");
    run(&store, "--weight bytes --value ms", &table).json();
    for (words, named) in [
        ("--weight packets --value ms", ["--weight bytes", "--weight packets"]),
        ("--value ms", ["--weight bytes", "without --weight"]),
        ("--weight bytes --value packets", ["--value ms", "--value packets"]),
    ] {
        let refused = run(&store, &format!("--append {words}"), &table);
        refused.fails_naming(&[named[0], named[1], "store", "give the same", "another directory"]);
    }
    assert_eq!(run(&store, "--append --weight bytes --value ms", &table).json()["weight"], 60);
    // A number may be the field of a name.
    let numbers = overbank(
        "profile --json --quiet --no-header -f csv --memory 8MiB --append --key 1 --weight 3 --value 4 --store",
    );
    assert_eq!(numbers.with(&store).with(&plain).run().json()["weight"], 67);
    // Neither do such stores merge, and what is merged remembers.
    let (rows, packets, out) =
        (place.path().join("rows"), place.path().join("packets"), place.path().join("out"));
    run(&rows, "--value ms", &table).json();
    run(&packets, "--weight packets --value ms", &table).json();
    for (other, shown) in [(&rows, "without --weight"), (&packets, "--weight packets")] {
        let refused = overbank("merge").with(&out).with(&store).with(other).run();
        refused.fails_naming(&["store was filled with --weight bytes", shown, "the same --weight"]);
        assert!(!out.exists());
    }
    overbank("merge").with(&out).with(&packets).with(&packets).run().text();
    run(&out, "--append --weight bytes --value ms", &table)
        .fails_naming(&["--weight packets", "--weight bytes"]);
    assert_eq!(run(&out, "--append --weight packets --value ms", &table).json()["weight"], 9);
}

#[test]
fn integers_are_the_numbers_that_a_program_hashes_if_that_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let build = |words: &str, rows: &str| {
        let build = format!("filter build --quiet --memory 32MiB --seed 1 {words}");
        overbank(&build).with(&store).fed(rows).run()
    };
    build("--integers --key id --format csv", "id\n2\n-1\n02\n").text();
    let open = || Store::open(&store, StoreOptions::new().memory_bytes(64 << 20)).unwrap();
    let options = || FilterOptions::new().memory_bytes(16 << 20);
    {
        let opened = open();
        let (filter, hasher) = (opened.filter("filter", options()).unwrap(), opened.hasher());
        let asked = [hasher.hash_u64(2), hasher.hash_u64(u64::MAX), hasher.hash(b"02"), hasher.hash(b"2")];
        assert_eq!(filter.contains_many(&asked).unwrap(), [true, true, true, false]);
    }
    // The store knows it; a run that takes them otherwise is refused, and so is a merge.
    assert_eq!(overbank("seen").with(&store).with("2").run().code, Some(0));
    assert_eq!(build("--integers --append --key id --format jsonl", "{\"id\":2}\n").code, Some(0));
    assert_eq!(overbank("seen --counts --json").with(&store).with("2").run().json()["count"], 2);
    let refused = build("--append --key id --format csv", "id\n3\n");
    refused.fails_naming(&["--key id and --integers", "choice of --integers", "another directory"]);
    let (text, into) = (place.path().join("text"), place.path().join("into"));
    overbank("filter build --quiet --memory 32MiB --seed 1 --key 1").with(&text).fed("2\n").run().text();
    let refused = overbank("filter merge").with(&into).with(&store).with(&text).run();
    refused.fails_naming(&["store", "text", "choice of --integers"]);
    overbank("seen --integers").with(&text).with("2").run().fails_naming(&["text", "without --integers"]);
    // One that a program filled does not know.
    let store = place.path().join("program");
    {
        let options_of_store = StoreOptions::new().memory_bytes(64 << 20);
        let made = Store::create(&store, options_of_store).unwrap();
        made.filter("filter", options()).unwrap().insert(&[made.hasher().hash_u64(7)]).unwrap();
        made.commit(b"").unwrap();
    }
    assert_eq!(overbank("seen").with(&store).with("7").run().code, Some(1));
    assert_eq!(overbank("seen --integers").with(&store).with("7").run().code, Some(0));
}

#[test]
fn a_profile_of_integers_shows_their_digits() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let rows = lines(&["7", "7", "8", "swan"].map(str::to_owned));
    let page =
        overbank("profile --json --quiet --memory 8MiB --integers --store").with(&store).fed(rows).run();
    assert_eq!(page.json()["rows"], 4);
    let estimate = overbank("estimate --json").with(&store).with("7").with("swan").run().text();
    let counts: Vec<serde_json::Value> =
        estimate.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&counts[0]["key"], &counts[0]["estimate"]), (&"7".into(), &2.into()), "{estimate}");
    assert_eq!((&counts[1]["key"], &counts[1]["estimate"]), (&"swan".into(), &1.into()), "{estimate}");
    let top = overbank("top --json -n 1").with(&store).run().text();
    assert!(top.contains("\"7\""), "{top}");
}

#[test]
fn what_made_a_store_is_not_asked_for_otherwise_without_a_word() {
    let place = tempfile::tempdir().unwrap();
    let [counted, seen] = ["counted", "seen"].map(|name| place.path().join(name));
    let count = |words: &str| {
        overbank(&format!("count --quiet --memory 16MiB --flash 1MiB {words} --store")).with(&counted)
    };
    count("--seed 3").fed("a\n").run().text();
    for (words, named) in [
        ("--append --conservative", "counted was made without --conservative"),
        ("--append --cell-bits 8", "counted was made with --cell-bits 32"),
        ("--append --seed 4", "counted was made with another --seed; leave --seed away"),
        ("--append --hash siphash", "counted was made with --hash xxh3, not siphash; give --hash xxh3"),
    ] {
        count(words).fed("b\n").run().fails_naming(&[named, "another directory"]);
    }
    count("--append --cell-bits 32 --seed 3 --hash xxh3").fed("b\n").run().text();
    let dedup = |words: &str| overbank(&format!("dedup --quiet --memory 32MiB {words} --store")).with(&seen);
    dedup("--hash siphash").fed("a\n").run().text();
    dedup("")
        .fed("b\n")
        .run()
        .fails_naming(&["seen was made with --hash siphash, not xxh3; give --hash siphash"]);
    let other = overbank("dedup --memory 32MiB --store").with(&counted).fed("a\n").run();
    other.fails_naming(&["counted holds other summaries and no filter"]);
}

/// The names in a directory.
fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_merge_that_fails_leaves_everything_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let build = |name: &str, words: &str, rows: &[String]| {
        let store = place.path().join(name);
        let run = overbank(&format!("filter build --quiet --memory 32MiB {words}")).with(&store);
        run.fed(lines(rows)).run().text();
        store
    };
    let good = build("good", "--seed 1 --error 1e-9 --keys 1e5", &keys(7, 5_000, 5_000));
    // So many wrong answers that a filter of few cannot take it in.
    let crowded = build("crowded", "--seed 1 --error 0.4 --keys 4000", &keys(8, 4_000, 4_000));
    let stranger = build("stranger", "--seed 2", &keys(9, 10, 10));
    let into = place.path().join("into");
    let before = names(place.path());
    for other in [&crowded, &stranger] {
        let ran = overbank("filter merge --memory 32MiB").with(&into).with(&good).with(other).run();
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert_eq!(names(place.path()), before);
    }
    overbank("filter merge --memory 32MiB").with(&into).with(&good).run().text();
    let commit = || overbank("info --json").with(&into).run().json()["commit"].clone();
    let held = || overbank("filter info --json").with(&into).run().json();
    let (first, filter) = (commit(), held());
    let ran = overbank("filter merge --memory 32MiB").with(&into).with(&good).with(&crowded).run();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert_eq!((commit(), held()), (first, filter));
}

#[test]
fn a_merge_that_is_interrupted_leaves_everything_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let rows = keys(10, 400_000, 400_000);
    let sources: Vec<_> = (0..4).map(|part| place.path().join(format!("part-{part}"))).collect();
    for (part, store) in rows.chunks(100_000).zip(&sources) {
        overbank("filter build --quiet --memory 32MiB --seed 1").with(store).fed(lines(part)).run().text();
    }
    let into = place.path().join("into");
    let before = names(place.path());
    for _ in 0..4 {
        let merge = sources
            .iter()
            .fold(overbank("filter merge --memory 32MiB").with(&into), |run, one| run.with(one));
        let mut child = merge.start();
        // Its work is under way as soon as there is a name more, and the signal comes at any point of it.
        while names(place.path()) == before && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        match child.wait().unwrap().code() {
            Some(130) => assert_eq!(names(place.path()), before),
            Some(0) => {
                assert_eq!(
                    overbank("filter info --json").with(&into).run().json()["occurrences"],
                    rows.len()
                );
                std::fs::remove_dir_all(&into).unwrap();
            }
            code => panic!("{code:?}"),
        }
    }
}
