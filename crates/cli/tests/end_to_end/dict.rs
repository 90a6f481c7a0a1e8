//! `dict`: what comes out is what a map from keys to values has, whatever the format, the merges, the kills.

use crate::announced::{Announced, killed, points, signal};
use crate::command::{Ran, Run, overbank};
use crate::stream::{Random, file};
use crate::terminal::fits;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KILLS: usize = 40;

/// Adds the arguments that every build and update of these tests has.
fn dict(words: &str, store: &Path) -> Run {
    let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
    overbank(&format!("dict {command}")).with(store).args(rest).args("--quiet --json --memory 32MiB -j 2")
}

fn asked(words: &str, store: &Path) -> Run {
    let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
    overbank(&format!("dict {command}")).with(store).args(rest)
}

fn raw<'p>(pairs: impl IntoIterator<Item = (&'p Vec<u8>, &'p Vec<u8>)>) -> Vec<u8> {
    let part = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    pairs.into_iter().flat_map(|(key, value)| [part(key), part(value)].concat()).collect()
}

/// The records of a raw file.
fn read_raw(path: &Path) -> Map {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut part = || {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (part, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        rest = behind;
        Some(part.to_vec())
    };
    let mut map = Map::new();
    while let Some(key) = part() {
        let value = part().unwrap();
        assert!(map.insert(key, value).is_none(), "a key comes twice");
    }
    map
}

/// All that a dictionary has.
fn scanned(store: &Path) -> Map {
    let out = store.with_extension("scan");
    asked("scan --as raw --output", store).with(&out).run().text();
    let map = read_raw(&out);
    fs::remove_file(out).unwrap();
    map
}

/// Pairs with every byte that some form has a meaning for, and empty keys and values.
fn pairs(seed: u64, count: usize, is_text: bool) -> Map {
    let mut random = Random(seed);
    let alphabet: &[u8] = if is_text { b"ab\t\n\r\\\",;{}'nt 0" } else { b"ab\t\n\r\\\",;{}\0\xff\x80nt" };
    let bytes = |random: &mut Random, most| -> Vec<u8> {
        let length = random.below(most);
        (0..length).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
    };
    (0..count).map(|_| (bytes(&mut random, 9), bytes(&mut random, 40))).collect()
}

#[test]
fn every_byte_survives_a_scan_that_is_built_again() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for (is_text, seed) in [(false, 301), (true, 302)] {
        let map = pairs(seed, 2_000, is_text);
        let input = file(place.path(), "pairs", raw(&map));
        let first = at(&format!("first-{seed}"));
        let built = dict("build --format raw --seed 5", &first).with(&input).run().json();
        assert_eq!((&built["rows"], &built["dictionary"]["items"]), (&map.len().into(), &map.len().into()));
        assert_eq!(scanned(&first), map);
        let forms = [
            ("tsv", "--format delimited --key 1 --value 2 --escaped"),
            ("csv", "--format csv --key key --value value"),
            ("raw", "--format raw"),
            ("json", "--format jsonl --key key --value value"),
        ];
        for (form, back) in forms.iter().filter(|(form, _)| is_text || *form != "json") {
            let (text, again) = (at(form), at(&format!("{form}-{seed}")));
            asked(&format!("scan --as {form} --output"), &first).with(&text).run().text();
            dict(&format!("build {back}"), &again).with(&text).run().json();
            assert_eq!(scanned(&again), map, "{form}");
        }
        // Under one seed, hash order is one order.
        let again = at(&format!("again-{seed}"));
        dict("build --format raw --seed 5", &again).with(at("raw")).run().json();
        asked("scan --as raw --output", &again).with(at("raw-again")).run().text();
        assert_eq!(fs::read(at("raw")).unwrap(), fs::read(at("raw-again")).unwrap());
    }
}

#[test]
fn every_format_brings_keys_and_values() {
    let place = tempfile::tempdir().unwrap();
    let cases = [
        ("a.csv", "id,name\n1,\"Ann, A\"\n2,Bob\n", "--key id --value name", [("1", "Ann, A"), ("2", "Bob")]),
        ("b.tsv", "id\tname\n1\tAnn\n2\tBob\n", "--key id --value name", [("1", "Ann"), ("2", "Bob")]),
        (
            "c.txt",
            "1 x Ann\n2 y Bob\n",
            "--key 1 --value 3 --format whitespace",
            [("1", "Ann"), ("2", "Bob")],
        ),
        (
            "d.txt",
            "1;Ann\n2;Bob\n",
            "--key 1 --value-row --format delimited -d ;",
            [("1", "1;Ann"), ("2", "2;Bob")],
        ),
        (
            "e.jsonl",
            "{\"u\":{\"id\":1},\"v\":[1, 2]}\n{\"u\":{\"id\":2},\"v\":\"x\\ty\"}\n",
            "--key u.id --value v",
            [("1", "[1, 2]"), ("2", "x\ty")],
        ),
        ("f.fa", ">1 first\nACGT\nAC\n>2\nGG\n", "", [("1", "ACGTAC"), ("2", "GG")]),
        (
            "g.fq",
            "@1 x\nACGT\n+\nIIII\n@2\nGG\n+\n##\n",
            "--value sequence,quality",
            [("1", "ACGT\tIIII"), ("2", "GG\t##")],
        ),
        ("h.txt", "1\n2\n", "", [("1", ""), ("2", "")]),
        ("i.csv", "a,b,c\n1,x,y\n2,\"t\tt\",z\n", "--key a --value b,c", [("1", "x\ty"), ("2", "t\\tt\tz")]),
    ];
    for (name, text, words, expected) in cases {
        let input = file(place.path(), name, text);
        let store = place.path().join(format!("store-{name}"));
        dict(&format!("build {words}"), &store).with(&input).run().json();
        let expected: Map = expected
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        assert_eq!(scanned(&store), expected, "{name}");
    }
}

#[test]
fn keys_that_are_not_there_are_told_on_request() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    dict("build --key 1 --value 2 --format delimited", &store).fed("a\t1\nb\t\nd e\t3\n").run().json();
    let get = |words: &str| asked(&format!("get {words}"), &store).run();
    let ends = |ran: Ran, code: i32, out: &str| {
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(code), out, ""))
    };
    ends(get("a b"), 0, "a\t1\nb\t\n");
    ends(get("a x"), 1, "a\t1\n");
    ends(get("x a --absent"), 1, "x\na\t1\n");
    ends(get("x --absent --as json"), 1, "{\"key\":\"x\",\"value\":null}\n");
    ends(get("a --as values"), 0, "1\n");
    let list = file(place.path(), "list", "d e\nx\na\n");
    ends(asked("get --keys", &store).with(&list).run(), 1, "d e\t3\na\t1\n");
    ends(asked("get --keys -", &store).fed("a\nb\n").run(), 0, "a\t1\nb\t\n");
    get("x --absent --as csv").fails_naming(&["--absent", "tsv or json"]);
    asked("get", &place.path().join("none")).with("a").run().fails_naming(&["none"]);
}

#[test]
fn many_keys_at_once_are_those_of_a_map() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let text: String = (0..120_000).map(|i| format!("key-{i}\tvalue {}\n", i * 7)).collect();
    let input = file(place.path(), "pairs", &text);
    dict("build --key 1 --value 2 --format delimited --compression zstd --page 16384", &store)
        .with(&input)
        .run()
        .json();
    let mut random = Random(303);
    let keys: Vec<u64> = (0..90_000).map(|_| random.below(150_000)).collect();
    let list: String = keys.iter().map(|key| format!("key-{key}\n")).collect();
    let list = file(place.path(), "list", list);
    let expected: String = keys
        .iter()
        .filter(|key| **key < 120_000)
        .map(|key| format!("key-{key}\tvalue {}\n", key * 7))
        .collect();
    let ran = asked("get --memory 32MiB --keys", &store).with(&list).run();
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out == expected);
    // The parts of a scan are the whole.
    let whole = asked("scan", &store).run().text();
    let parts: String =
        (1..=5).map(|part| asked(&format!("scan --part {part}/5"), &store).run().text()).collect();
    assert!(whole == parts && whole.lines().count() == 120_000);
    let half = asked("scan --range 0-7fffffffffffffff", &store).run().text();
    assert!(whole.starts_with(&half) && (50_000..70_000).contains(&half.lines().count()));
}

#[test]
fn updates_and_deletions_are_those_of_a_map() {
    let place = tempfile::tempdir().unwrap();
    let (store, mut map, mut random) = (place.path().join("store"), BTreeMap::new(), Random(304));
    for round in 0..9 {
        let mut text = String::new();
        let deletes = round % 3 == 2;
        for _ in 0..3_000 {
            let (key, value) = (random.below(4_000), random.below(1_000_000));
            if deletes {
                text.push_str(&format!("{key}\n"));
                map.remove(&key);
            } else {
                text.push_str(&format!("{key}\t{value}\n"));
                if round == 4 {
                    map.entry(key).or_insert(value);
                } else {
                    map.insert(key, value);
                }
            }
        }
        let input = file(place.path(), "rows", text);
        let words = match round {
            0 => "build --key 1 --value 2 --format delimited",
            4 => "update --key 1 --value 2 --format delimited --duplicates first",
            _ if deletes => "delete",
            _ => "update --key 1 --value 2 --format delimited",
        };
        let changed = dict(words, &store).with(&input).run().json();
        assert_eq!(changed["rows"], 3_000);
        let expected =
            map.iter().map(|(key, value)| (key.to_string().into_bytes(), value.to_string().into_bytes()));
        assert_eq!(scanned(&store), expected.collect::<Map>(), "round {round}");
    }
}

#[test]
fn keys_that_come_again_meet_as_they_are_told_to() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows", "a\t3\nb\t-4\na\t5\nb\t2\nc\t1\n");
    let build = |name: &str, words: &str| {
        let store = place.path().join(name);
        (
            dict(&format!("build --key 1 --value 2 --format delimited {words}"), &store).with(&input).run(),
            store,
        )
    };
    for (name, words, expected) in [
        ("last", "", ["5", "2", "1"]),
        ("first", "--duplicates first", ["3", "-4", "1"]),
        ("sum", "--merge sum", ["8", "-2", "1"]),
        ("max", "--merge max", ["5", "2", "1"]),
        ("min", "--merge min", ["3", "-4", "1"]),
        ("append", "--merge append", ["35", "-42", "1"]),
    ] {
        let (ran, store) = build(name, words);
        ran.json();
        let values = asked("get a b c --as values", &store).run().text();
        assert_eq!(values.lines().collect::<Vec<_>>(), expected, "{name}");
    }
    // The operator stays with the dictionary.
    let sum = place.path().join("sum");
    dict("update --key 1 --value 2 --format delimited", &sum).fed("a\t100\nd\t7\n").run().json();
    assert_eq!(asked("get a d --as values", &sum).run().text(), "108\n7\n");
    dict("update --key 1 --value 2 --format delimited --replace", &sum).fed("a\t1\n").run().json();
    assert_eq!(asked("get a --as values", &sum).run().text(), "1\n");
    dict("update --key 1 --value 2 --format delimited", &sum)
        .fed("a\tx\n")
        .run()
        .fails_naming(&["\"x\"", "whole numbers"]);
    let (ran, store) = build("error", "--duplicates error");
    ran.fails_naming(&["twice"]);
    asked("get a", &store).run().fails_naming(&["holds no dictionary"]);
    let one = file(place.path(), "one", "a\t3\n");
    dict("build --key 1 --value 2 --format delimited --duplicates error", &store).with(&one).run().json();
    assert_eq!(asked("get a --as values", &store).run().text(), "3\n");
}

/// A build of many commits.
fn build(store: &Path, input: &Path) -> Run {
    dict("build --key 1 --value 2 --format delimited --commit-every 0 --seed 7 --resume", store).with(input)
}

#[test]
fn any_number_of_kills_leaves_the_dictionary_of_a_quiet_run() {
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let text: String = (0..60_000).map(|i| format!("{}\t{i}\n", i * 31 % 40_000)).collect();
    let input = file(place.path(), "rows", text);
    let whole = place.path().join("whole");
    build(&whole, &input).run().json();
    let expected = scanned(&whole);
    assert_eq!(expected.len(), 40_000);
    let points = points(build(&place.path().join("counted"), &input));
    let (mut random, mut kills, mut round) = (Random(305), 0, 0);
    while kills < KILLS {
        let store = place.path().join(format!("store-{round}"));
        let mut passed = round * 5 % points;
        round += 1;
        while killed(build(&store, &input), passed, &mut random) {
            kills += 1;
            passed = random.below(points);
            // What is there can be asked, if there is a commit.
            let ran = asked("get 0", &store).run();
            assert!(
                matches!(ran.code, Some(0 | 1)) || ran.err.contains("store") || ran.err.contains("no d"),
                "{}",
                ran.err
            );
        }
        assert_eq!(overbank("verify --json").with(&store).run().json()["whole"], true);
        build(&store, &input).run().json();
        assert!(scanned(&store) == expected, "round {round}");
        fs::remove_dir_all(&store).unwrap();
    }
    println!("{kills} kills in {round} rounds of {points} points");
}

#[test]
fn a_signal_leaves_a_dictionary_that_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let text: String = (0..200_000).map(|i| format!("{i}\t{i}\n")).collect();
    let input = file(place.path(), "rows", text);
    for point in ["chunk", "merging"] {
        let store = place.path().join(point);
        let words = "build --key 1 --value 2 --format delimited";
        let mut run = Announced::start(dict(words, &store).with(&input), Run::start);
        assert!(run.reach(point));
        signal(&run.child, Signal::INT);
        let ran = run.end();
        if ran.code == Some(0) {
            // The signal came when all was merged.
            assert_eq!(point, "merging");
            continue;
        }
        assert_eq!(ran.code, Some(130), "{}", ran.err);
        assert!(ran.err.contains("--resume"), "{}", ran.err);
        dict(words, &store).with(&input).run().fails_naming(&["interrupted", "--resume"]);
        dict("update --key 1 --value 2 --format delimited", &store).with(&input).run().fails_naming(&[
            "dict build",
            "--resume",
            "--append",
        ]);
        dict(&format!("{words} --resume"), &store).with(&input).run().json();
        assert_eq!(scanned(&store).len(), 200_000, "{point}");
        dict(words, &store).with(&input).run().fails_naming(&["already holds a dictionary", "dict update"]);
    }
}

#[test]
fn parts_put_together_are_the_whole() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let text: String = (0..30_000).map(|i| format!("key {i}\t{i}\n")).collect();
    dict("build --key 1 --value 2 --format delimited --ranks", &at("whole")).fed(text).run().json();
    let outs = [at("a"), at("b"), at("c")];
    let mut split = asked("split --json", &at("whole"));
    for out in &outs {
        split = split.with(out);
    }
    let made = split.run().json();
    let items: Vec<u64> =
        (0..3).map(|i| made["stores"][i]["dictionary"]["items"].as_u64().unwrap()).collect();
    assert_eq!(items.iter().sum::<u64>(), 30_000);
    assert!(items.iter().all(|items| (9_000..11_000).contains(items)), "{items:?}");
    let parts: Map = outs.iter().flat_map(|out| scanned(out)).collect();
    assert_eq!(parts, scanned(&at("whole")));
    let concat = |out: &str, stores: &[&PathBuf]| {
        stores.iter().fold(asked("concat --json", &at(out)), |run, store| run.with(store)).run()
    };
    concat("again", &[&outs[2], &outs[0], &outs[1]]).json();
    assert_eq!(scanned(&at("again")), parts);
    // Of a key that several have, the last one's stays.
    dict("update --key 1 --value 2 --format delimited", &outs[0]).fed("key 1\tnew\n").run().json();
    concat("newer", &[&at("whole"), &outs[0]]).json();
    assert_eq!(asked("get --as values", &at("newer")).with("key 1").run().text(), "new\n");
    concat("newer", &[&outs[0]]).fails_naming(&["newer", "there already"]);
    dict("build", &at("other")).fed("x\n").run().json();
    concat("odd", &[&outs[0], &at("other")]).fails_naming(&["other", "another seed", "--seed"]);
    assert!(!at("odd").exists());
}

#[test]
fn ranks_number_the_keys_without_a_gap() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let keys: Vec<String> = (0..20_000).map(|i| format!("key-{i}")).collect();
    dict("build --ranks", &store).fed(keys.join("\n")).run().json();
    let list = file(place.path(), "list", keys.join("\n"));
    let text = asked("rank --output tsv --keys", &store).with(&list).run().text();
    let mut ranks: Vec<usize> =
        text.lines().map(|line| line.split_once('\t').unwrap().0.parse().unwrap()).collect();
    // They are the places in a scan.
    let scan = asked("scan", &store).run().text();
    for (place, line) in scan.lines().enumerate().step_by(997) {
        let key = line.trim_end_matches('\t');
        assert_eq!(ranks[keys.iter().position(|other| other == key).unwrap()], place);
    }
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(0..20_000));
    let absent = asked("rank --json nothing", &store).run();
    assert_eq!((absent.code, absent.out.as_str()), (Some(1), "{\"key\":\"nothing\",\"rank\":null}\n"));
    let plain = place.path().join("plain");
    dict("build", &plain).fed("a\n").run().json();
    asked("rank a", &plain).run().fails_naming(&["keeps no ranks", "--ranks"]);
}

#[test]
fn pages_fit_and_say_what_there_is() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let text: String = (0..50_000).map(|i| format!("key {i}\tvalue {i}\n")).collect();
    let built = overbank("dict build")
        .with(&store)
        .args("--key 1 --value 2 --format delimited --ranks")
        .fed(text)
        .run()
        .text();
    let pages = [
        (built, &["Dictionary", "rows", "items", "50,000", "flash"][..]),
        (asked("info", &store).run().text(), &["Runs", "index", "bits an item", "ranks", "full", "pages of"]),
        (overbank("info").with(&store).run().text(), &["keys and values", "Dictionary", "read to its end"]),
        (asked("verify", &store).run().text(), &["no damage"]),
        (
            overbank("dict plan --items 1e9 --key-bytes 40 --value-bytes 200").run().text(),
            &["RAM", "index", "Flash", "a build writes"],
        ),
    ];
    for (page, words) in pages {
        for word in words {
            assert!(page.contains(word), "{word}: {page}");
        }
        fits(&page.replace(place.path().to_str().unwrap(), ""));
    }
}

#[test]
fn damage_is_found_and_never_becomes_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let text: String = (0..20_000).map(|i| format!("{i}\t{}\n", i * 3)).collect();
    dict("build --key 1 --value 2 --format delimited", &store).fed(text).run().json();
    let largest = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest
        .filter(|path| path.extension().is_some_and(|end| end == "seg"))
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let whole = fs::read(&largest).unwrap();
    for part in 1..8 {
        let mut bad = whole.clone();
        let at = whole.len() * part / 8;
        bad[at] ^= 0x10;
        fs::write(&largest, &bad).unwrap();
        let ran = asked("scan", &store).run();
        assert_eq!(ran.code, Some(2), "byte {at}");
        for line in ran.out.lines().filter(|line| line.contains('\t')) {
            let (key, value) = line.split_once('\t').unwrap();
            assert_eq!(key.parse::<u64>().unwrap() * 3, value.parse::<u64>().unwrap());
        }
        let ran = overbank("verify --json").with(&store).run();
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, &report["whole"]), (Some(2), &Value::from(false)));
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let good = raw(&Map::from([(b"k".to_vec(), b"v".to_vec())]));
    let cut = file(place.path(), "cut", &good[..good.len() - 1]);
    dict("build --format raw", &at("a"))
        .with(&cut)
        .run()
        .fails_naming(&["cut", "record 1", "byte 0", "9 bytes"]);
    let liar = file(place.path(), "liar", [&good[..], &[0xff; 9]].concat());
    dict("build --format raw", &at("b")).with(&liar).run().fails_naming(&["liar", "4.00 GiB", "--memory"]);
    let csv = file(place.path(), "x.csv", "id,name\n1,a\n");
    dict("build --key id --value nam", &at("c"))
        .with(&csv)
        .run()
        .fails_naming(&["nam", "did you mean \"name\""]);
    dict("build --key 1 --value 2", &at("c")).with(&csv).run().fails_naming(&["--no-header"]);
    let sums = file(place.path(), "sums.csv", "id,n\n1,5\n2,many\n");
    dict("build --merge sum --key id --value n", &at("sums"))
        .with(&sums)
        .run()
        .fails_naming(&["\"many\"", "rows 1 to 2"]);
    dict("build --integers", &at("d")).fed("1\n").run().fails_naming(&["--integers", "leave it away"]);
    dict("build --escaped", &at("e")).fed("1\n").run().fails_naming(&["escapes", "delimited"]);
    dict("build --memory 1MiB", &at("f")).fed("1\n").run();
    dict("update", &at("none")).fed("1\n").run().fails_naming(&["none"]);
    overbank("dict scan").with(at("c")).args("--part 3/2").run().fails_naming(&["--part", "1/16"]);
    // Other summaries are told from dictionaries.
    let counts = at("counts");
    overbank("profile -q --store").with(&counts).fed("a\n").run().text();
    asked("get a", &counts).run().fails_naming(&["no dictionary but counts", "overbank estimate"]);
    dict("build", &counts).fed("a\n").run().fails_naming(&["holds other summaries"]);
    dict("build", &at("set")).fed("a\n").run().json();
    overbank("seen").with(at("set")).with("a").run().fails_naming(&["keys with values", "dict get"]);
    overbank("top").with(at("set")).run().fails_naming(&["keys with values", "dict get"]);
    // A key of two fields is no key of one.
    let two = file(place.path(), "two.csv", "a,b,c\n1,2,3\n");
    dict("build --key a,b --value c", &at("two")).with(&two).run().json();
    assert_eq!(asked("get", &at("two")).with("1\t2").run().text(), "1\\t2\t3\n");
    dict("update --key a --value c", &at("two"))
        .with(&two)
        .run()
        .fails_naming(&["--key a,b", "as many fields"]);
}
