//! `dict join`: every row comes out in its place, with the value that a map has, while its writer waits for it.

use crate::command::{Run, overbank};
use crate::stream::{Random, file};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// A dictionary of the even numbers below 1,000, each with its half.
fn halves(place: &Path) -> std::path::PathBuf {
    let store = place.join("halves");
    let text: String = (0..500).map(|i| format!("{}\t{i}\n", 2 * i)).collect();
    overbank("dict build -q --key 1 --value 2 --format delimited")
        .fed(text)
        .with(&store)
        .with("-")
        .run()
        .text();
    store
}

fn join(store: &Path, words: &str) -> Run {
    overbank("dict join -q --memory 32MiB").with(store).args(words)
}

#[test]
fn every_row_comes_out_in_its_place_with_its_value() {
    let place = tempfile::tempdir().unwrap();
    let store = halves(place.path());
    let mut random = Random(311);
    let (mut text, mut expected, mut kept) = (String::new(), String::new(), String::new());
    for row in 0..200_000 {
        let key = random.below(1_200);
        let half = if key.is_multiple_of(2) && key < 1_000 { (key / 2).to_string() } else { String::new() };
        writeln!(text, "{row}\t{key}").unwrap();
        writeln!(expected, "{row}\t{key}\t{half}").unwrap();
        if !half.is_empty() {
            writeln!(kept, "{row}\t{key}\t{half}").unwrap();
        }
    }
    let input = file(place.path(), "rows", text);
    let words = "--format delimited --key 2";
    assert!(join(&store, words).with(&input).run().text() == expected);
    for threads in [1, 4] {
        let out = place.path().join("out");
        let ran = join(&store, &format!("{words} --absent drop --json -j {threads} --output"))
            .with(&out)
            .with(&input)
            .run();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let facts: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((&facts["rows"], &facts["found"]), (&200_000.into(), &kept.lines().count().into()));
        assert_eq!(facts["absent"], facts["dropped"]);
        assert!(fs::read_to_string(out).unwrap() == kept);
    }
}

#[test]
fn each_format_has_its_own_place_for_a_value() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let pairs = "{\"k\":\"a\",\"v\":\"x,\\\"y\\\"\\t\\nz\"}\n{\"k\":\"b\",\"v\":\"plain\"}\n";
    overbank("dict build -q --format jsonl --key k --value v").fed(pairs).with(&store).with("-").run().text();
    let cases = [
        (
            "x.csv",
            "id,n\r\na,1\r\n\"b\",2\r\nc,3",
            "--key id --name val",
            "id,n,val\r\na,1,\"x,\"\"y\"\"\t\nz\"\r\n\"b\",2,plain\r\nc,3,\n",
        ),
        ("x.tsv", "id\tn\nb\t1\n", "--key id", "id\tn\tvalue\nb\t1\tplain\n"),
        (
            "x.jsonl",
            "{\"id\":\"b\"}\n{\"id\":\"a\",\"n\":1}\n{\"id\":\"c\"}\n",
            "--key id",
            "{\"id\":\"b\",\"value\":\"plain\"}\n{\"id\":\"a\",\"n\":1,\"value\":\"x,\\\"y\\\"\\t\\nz\"}\n{\"id\":\"c\",\"value\":null}\n",
        ),
        ("x.txt", "a\nb\n", "", "a\tx,\"y\"\\t\\nz\nb\tplain\n"),
        ("y.csv", "id,n\n", "--key id", "id,n,value\n"),
        // Rows without a key stay in their place too.
        (
            "y.jsonl",
            "{\"id\":\"b\"}\n{\"n\":1}\n{\"id\":\"b\"}\n",
            "--key id",
            "{\"id\":\"b\",\"value\":\"plain\"}\n{\"n\":1,\"value\":null}\n{\"id\":\"b\",\"value\":\"plain\"}\n",
        ),
    ];
    for (name, text, words, expected) in cases {
        let input = file(place.path(), name, text);
        let ran = join(&store, words).with(&input).run();
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), expected), "{name}: {}", ran.err);
    }
    let fasta = file(place.path(), "x.fa", ">a\nAC\n");
    join(&store, "").with(&fasta).run().fails_naming(&["x.fa", "convert it first"]);
    let (csv, json) = (place.path().join("x.csv"), place.path().join("x.jsonl"));
    join(&store, "--key id").with(&csv).with(&json).run().ends_naming(2, &["x.jsonl", "another format"]);
    join(&store, "--absent fail").fed("a\nzz\n").run().ends_naming(2, &["no key zz", "--absent empty"]);
    join(&store, "--format delimited -d ; --key 1").fed("a;1\n").run().text();
    let semicolon = place.path().join("semicolon");
    overbank("dict build -q --format delimited --key 1 --value 2")
        .fed("a\tx;y\n")
        .with(&semicolon)
        .with("-")
        .run()
        .text();
    join(&semicolon, "--format delimited -d ; --key 1")
        .fed("a;1\n")
        .run()
        .fails_naming(&["x;y", "--format csv"]);
}

#[test]
fn a_row_comes_out_while_its_writer_waits_for_it() {
    let place = tempfile::tempdir().unwrap();
    let store = halves(place.path());
    let mut child = join(&store, "").piped();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut rows = BufReader::new(stdout);
    for key in [2, 400, 7, 998] {
        writeln!(stdin, "{key}").unwrap();
        let mut row = String::new();
        rows.read_line(&mut row).unwrap();
        let half = if key % 2 == 0 { (key / 2).to_string() } else { String::new() };
        assert_eq!(row, format!("{key}\t{half}\n"));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_failed_join_leaves_its_file_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let store = halves(place.path());
    let out = file(place.path(), "out", "before\n");
    join(&store, "--absent fail --output")
        .with(&out)
        .with("-")
        .fed("2\n7\n")
        .run()
        .fails_naming(&["no key 7"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "before\n");
    join(&store, "--output").with(&out).with(&out).run().fails_naming(&["input and the output"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "before\n");
    let inside = store.join("rows");
    join(&store, "--output").with(&inside).fed("2\n").run().fails_naming(&["lies in the store"]);
}
