//! What inputs may be and how their rows are treated: formats, compressions, headers, rows without a key, rejects, long rows, names
//! that are not UTF-8, composite keys.

use crate::command::overbank;
use crate::hostile::run;
use crate::stream::file;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const EXACT: &str = "dedup --memory 32MiB --keys 1e6 --error 1e-12";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn keys_of_several_fields_are_found_as_they_are_written() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let input = file(place.path(), "paths.tsv", "C:\\dir\thost1\nC:\\dir\thost1\n\\\\srv\\t\thost2\n");
    let count =
        overbank("count -f delimited -k 1,2 -q --memory 16MiB --json -s").with(&store).with(&input).run();
    assert_eq!(count.json()["rows"], 3);
    let estimate = |words: &str, key: &str| {
        let ran = overbank(&format!("estimate --json {words}")).with(&store).with(key).run();
        (
            ran.code,
            serde_json::from_str::<Value>(&ran.out).ok().map(|answer| answer["estimate"].as_u64().unwrap()),
        )
    };
    assert_eq!(estimate("", "C:\\dir\thost1"), (Some(0), Some(2)));
    assert_eq!(estimate("", "\\\\srv\\t\thost2"), (Some(0), Some(1)));
    // As `top --json` prints it.
    assert_eq!(estimate("--escaped", "C:\\\\dir\thost1"), (Some(0), Some(2)));
    assert_eq!(estimate("", "C:\\\\dir\thost1"), (Some(1), Some(0)));
    assert_eq!(estimate("", "one field"), (Some(1), Some(0)));
    let list = place.path().join("keys.gz");
    fs::write(&list, gzip(b"C:\\dir\thost1\n\\\\srv\\t\thost2\nno\tone\n")).unwrap();
    let ran = overbank("estimate --json --keys-from").with(&list).with(&store).run();
    let found: Vec<u64> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["estimate"].as_u64().unwrap())
        .collect();
    assert_eq!((ran.code, found), (Some(1), vec![2, 1, 0]));

    let seen = place.path().join("seen");
    overbank("filter build -q --memory 32MiB --json -f delimited -k 1,2")
        .with(&seen)
        .with(&input)
        .run()
        .json();
    let ran = overbank("seen --json").with(&seen).with("C:\\dir\thost1").with("C:\\dir\tx").run();
    assert!(ran.code == Some(1) && ran.out.contains(r#""seen":true"#) && ran.out.contains(r#""seen":false"#));
}

#[test]
fn keys_and_names_are_bytes() {
    let place = tempfile::tempdir().unwrap();
    let odd = place.path().join(OsStr::from_bytes(b"\xff.log"));
    fs::write(&odd, b"\xff\nother\n\xff\n").unwrap();
    fs::write(place.path().join("a.log"), b"plain\n").unwrap();
    let store = place.path().join("store");
    let words = |first: &[&str], rest: &[&OsStr]| -> Vec<OsString> {
        first.iter().map(OsString::from).chain(rest.iter().map(OsString::from)).collect()
    };
    let pattern = place.path().join("*.log");
    let profile = words(&["profile", "-q", "--json", "-s"], &[store.as_os_str(), pattern.as_os_str()]);
    let ran = run(&profile, b"");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["rows"], 4);
    let estimate = words(&["estimate", "--json"], &[store.as_os_str(), OsStr::from_bytes(b"\xff")]);
    let answer: Value = serde_json::from_slice(&run(&estimate, b"").stdout).unwrap();
    assert_eq!((answer["estimate"].as_u64(), answer["key_hex"].as_str()), (Some(2), Some("ff")));
    let dedup: Vec<OsString> = words(&EXACT.split(' ').collect::<Vec<_>>(), &[odd.as_os_str()]);
    assert_eq!(run(&dedup, b"").stdout, b"\xff\nother\n");
}

#[test]
fn a_file_without_header_says_so_whatever_names_its_format() {
    let place = tempfile::tempdir().unwrap();
    let commas = file(place.path(), "nh.csv", "1,a\n2,b\n1,c\n");
    let tabs = file(place.path(), "nh.tsv", "1\ta\n2\tb\n1\tc\n");
    let dedup = |words: &str, path: &Path| overbank(&format!("{EXACT} {words}")).with(path).run().text();
    assert_eq!(dedup("--key 1 --no-header", &commas), "1,a\n2,b\n");
    assert_eq!(dedup("--key 1 --no-header", &tabs), "1\ta\n2\tb\n");
    // With a header, column names with commas are quoted.
    let named = file(place.path(), "named.csv", "\"a,b\",c\n1,x\n1,y\n");
    assert_eq!(overbank(EXACT).with("--key").with("\"a,b\"").with(&named).run().text(), "\"a,b\",c\n1,x\n");
}

#[test]
fn rows_without_a_key_are_kept_dropped_or_refused_and_always_told() {
    let rows = "{\"u\":1}\n{\"v\":2}\n{\"u\":null}\n{\"u\":1}\n{\"u\":[3]}\n{\"u\":2}\n";
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows.jsonl", rows);
    let ran = overbank(&format!("{EXACT} -q --key u")).with(&input).run();
    ran.ends_naming(0, &["3 rows without a key were passed on", "line 2", "no field u"]);
    assert_eq!(ran.out, "{\"u\":1}\n{\"v\":2}\n{\"u\":null}\n{\"u\":[3]}\n{\"u\":2}\n");
    // What the command does not print, the inverted one does, and the other way round.
    let ran = overbank(&format!("{EXACT} -q --key u --invert")).with(&input).run();
    ran.ends_naming(0, &["3 rows"]);
    assert_eq!(ran.out, "{\"u\":1}\n");
    let rejects = place.path().join("rejects");
    let ran =
        overbank(&format!("{EXACT} -q --key u --missing drop --rejects")).with(&rejects).with(&input).run();
    ran.ends_naming(0, &["3 rows without a key were left out"]);
    assert_eq!(ran.out, "{\"u\":1}\n{\"u\":2}\n");
    assert_eq!(fs::read_to_string(&rejects).unwrap(), "{\"v\":2}\n{\"u\":null}\n{\"u\":[3]}\n");
    let ran = overbank(&format!("{EXACT} -q --key u --missing error")).with(&input).run();
    ran.ends_naming(2, &["rows.jsonl:2", "no field u", "--missing drop"]);
    overbank("profile -q --json --key u --missing keep")
        .with(&input)
        .run()
        .fails_naming(&["keep", "drop or error"]);

    let ran = overbank("profile -q --json --key u").with(&input).run();
    ran.ends_naming(0, &["3 rows without a key were left out"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let told = ["rows", "missing", "malformed", "skipped"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(told, [3, 3, 0, 3]);
}

#[test]
fn a_key_that_no_row_has_and_rows_that_are_all_malformed_are_errors() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows.jsonl", "{\"user\":1}\n{\"user\":2}\n");
    let ran = overbank(&format!("{EXACT} -q --key usr")).with(&input).run();
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), "{\"user\":1}\n{\"user\":2}\n"));
    assert!(ran.err.contains("no row has a field usr"), "{}", ran.err);
    let store = place.path().join("store");
    let ran = overbank("profile -q --key usr --store").with(&store).with(&input).run();
    assert!(ran.code == Some(2) && ran.err.contains("no row has a field usr"), "{}", ran.err);
    let text = file(place.path(), "text.jsonl", "one\ntwo\n");
    let ran = overbank("profile -q --key k").with(&text).run();
    assert!(ran.code == Some(2) && ran.err.contains("all 2 rows are malformed"), "{}", ran.err);
    let fields = file(place.path(), "fields.txt", "a b\nc d\n");
    let ran = overbank("profile -q --key 3").with(&fields).run();
    assert!(ran.code == Some(2) && ran.err.contains("no row has a field 3"), "{}", ran.err);
    assert_eq!(overbank("profile -q --key 3").with(file(place.path(), "none", "")).run().code, Some(0));
}

#[test]
fn rejects_of_many_threads_are_in_the_order_of_the_stream() {
    let row = |number: usize| match number % 7 {
        3 => format!("not JSON {number}\n"),
        5 => format!("{{\"v\":{number}}}\n"),
        _ => format!("{{\"k\":{number},\"pad\":\"{}\"}}\n", "x".repeat(60)),
    };
    let text: String = (0..60_000).map(row).collect();
    let wanted: String = (0..60_000).filter(|number| matches!(number % 7, 3 | 5)).map(row).collect();
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows.jsonl", &text);
    let rejects = place.path().join("rejects");
    for words in ["profile --json -q --memory 8MiB", "dedup --memory 32MiB --missing drop"] {
        for threads in ["1", "4"] {
            let words = format!("{words} -k k -j {threads} --rejects");
            assert_eq!(overbank(&words).with(&rejects).with(&input).run().code, Some(0));
            assert!(fs::read_to_string(&rejects).unwrap() == wanted, "{words}");
        }
    }
    let ran = overbank("profile -q -k k --rejects").with(&input).with(&input).run();
    ran.fails_naming(&["--rejects", "is an input"]);
    assert!(fs::read_to_string(&input).unwrap() == text);
    let ran = overbank("profile -q -k k --rejects /dev/full").with(&input).run();
    ran.fails_naming(&["cannot write rejected rows to /dev/full"]);
}

#[test]
fn a_row_that_is_too_long_for_the_memory_says_what_it_takes() {
    let place = tempfile::tempdir().unwrap();
    let long = format!("a\n{}\nb\n", "x".repeat(3_000_000));
    let input = file(place.path(), "long.txt", &long);
    let ran = overbank("profile -q -j 1 --memory 16MiB").with(&input).run();
    ran.fails_naming(&["line 2 of", "long.txt", "2.86 MiB", "--memory 64MiB"]);
    assert_eq!(overbank("profile -q -j 1 --memory 64MiB --json").with(&input).run().json()["rows"], 3);
    let ran = overbank("dedup -j 1 --memory 64MiB").with(&input).run();
    assert!(ran.out == long && ran.code == Some(0), "{}", ran.err);
    let json = file(place.path(), "long.jsonl", format!("{{\"k\":\"{}\"}}\n", "x".repeat(3_000_000)));
    let ran = overbank("profile -q -k k -j 1 --memory 16MiB").with(&json).run();
    ran.fails_naming(&["line 1 of", "--memory 64MiB"]);
    assert!(!ran.err.contains("quote"), "{}", ran.err);
}

#[test]
fn a_window_that_is_too_large_for_the_memory_says_what_it_takes() {
    let place = tempfile::tempdir().unwrap();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(b"a\nb\n").unwrap();
    let input = file(place.path(), "wide.zst", encoder.finish().unwrap());
    let ran = overbank("profile -q").with(&input).run();
    ran.fails_naming(&["wide.zst", "(zstd) needs a window of 128 MiB", "--memory 1024MiB"]);
    assert!(!ran.err.contains("damaged"), "{}", ran.err);
    assert_eq!(overbank("profile -q --json --memory 1GiB").with(&input).run().json()["rows"], 2);
}

#[test]
fn a_nul_ends_no_row_of_csv_or_json() {
    for format in ["csv", "jsonl", "parquet"] {
        overbank(&format!("dedup -z --key 1 -f {format}")).run().fails_naming(&["--null", format]);
    }
}

#[test]
fn rejects_never_share_a_file_with_the_output_or_an_input() {
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "rows.jsonl", "{\"u\":1}\nno json\n");
    let shared = place.path().join("shared");
    let dedup = || overbank(&format!("{EXACT} -q --key u --rejects")).with(&shared).with(&input);
    dedup().with("--output").with(&shared).run().fails_naming(&["--rejects", "shared", "output"]);
    let other_name = place.path().join(".").join("shared");
    dedup().with("--output").with(other_name).run().fails_naming(&["--rejects", "shared", "output"]);
    for output in
        [fs::File::create(&shared).unwrap(), fs::File::options().append(true).open(&shared).unwrap()]
    {
        let child = dedup().output_to(output).start();
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2));
        assert_eq!(fs::read_to_string(&shared).unwrap(), "");
    }
    let whole = fs::read(&input).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overbank"));
    command.args(["profile", "-q", "-f", "jsonl", "--key", "u", "-", "--rejects"]).arg(&input);
    let ran = command.stdin(fs::File::open(&input).unwrap()).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(fs::read(&input).unwrap(), whole);
}

#[test]
fn archives_are_refused_by_name_and_a_cut_file_gives_its_rows_first() {
    let place = tempfile::tempdir().unwrap();
    let zip = file(place.path(), "data.zip", b"PK\x03\x04 and so on\n");
    overbank("profile -q").with(&zip).run().fails_naming(&["data.zip", "zip archive", "unpack"]);
    let rows: String = (0..50_000).map(|row| format!("row {row}\n")).collect();
    let whole = gzip(rows.as_bytes());
    let cut = file(place.path(), "cut.gz", &whole[..whole.len() / 2]);
    let after = file(place.path(), "after.txt", "after\n");
    let ran = overbank(EXACT).with(&cut).with(&after).run();
    ran.ends_naming(2, &["cut.gz", "cut short"]);
    assert!(rows.starts_with(&ran.out) && ran.out.len() > 10_000 && ran.out.ends_with('\n'));
    let ran = overbank(&format!("{EXACT} --on-error next")).with(&cut).with(&zip).with(&after).run();
    assert_eq!(ran.code, Some(2));
    for word in ["cut.gz", "data.zip", "2 of 3 inputs could not be read to the end"] {
        assert!(ran.err.contains(word), "{}", ran.err);
    }
    let before = ran.out.strip_suffix("after\n").expect("the next input is read");
    assert!(rows.starts_with(before) && before.len() > 10_000);
    let ran = overbank("profile -q --json --on-error next").with(&cut).with(&after).run();
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == Some(2) && report["rows"].as_u64().unwrap() > 1000);
}

#[test]
fn rows_that_nul_ends_stay_so() {
    let dedup = |input: &[u8]| {
        let words: Vec<&str> = EXACT.split(' ').chain(["-z"]).collect();
        run(&words, input).stdout
    };
    assert_eq!(dedup(b"a\nb\0c\0a\nb\0\r\0\0\0c"), b"a\nb\0c\0\r\0\0");
    let words: Vec<&str> = EXACT.split(' ').chain(["-z", "-k", "2", "-d", ";", "-f", "delimited"]).collect();
    assert_eq!(run(&words, b"1;a\n\x002;a\n\x003;a").stdout, b"1;a\n\x003;a");
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    overbank("profile -q -z -s").with(&store).fed(&b"a\nb\0a\nb\0c"[..]).run().text();
    let ran = overbank("estimate -z --json --keys-from -").with(&store).fed(&b"a\nb\0c\0"[..]).run();
    let counts: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["estimate"].clone())
        .collect();
    assert_eq!(counts, [2, 1]);
    overbank("profile -z -f csv -k 1").fed("").run().fails_naming(&["NUL"]);
}
