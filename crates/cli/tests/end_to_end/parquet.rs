//! Parquet in and out: `dedup` against an oracle, numbers of rows, and memory on the pages and dictionaries that DuckDB writes.

use crate::command::overbank;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of keys, which may be null, and numbers, in row groups.
fn write(path: &Path, properties: WriterProperties, groups: &[Vec<Option<String>>]) {
    let schema = "message m { optional binary k (UTF8); required int64 i; }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, properties.into()).unwrap();
    for rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let keys: Vec<ByteArray> = rows.iter().flatten().map(|key| ByteArray::from(key.as_str())).collect();
        let levels: Vec<i16> = rows.iter().map(|key| i16::from(key.is_some())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&keys, Some(&levels), None).unwrap();
        column.close().unwrap();
        let numbers: Vec<i64> = (0..rows.len() as i64).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// All rows, as the `parquet` crate prints them.
fn rows(path: &Path) -> Vec<String> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

/// Keys of which many come again, within and across row groups.
fn repeats() -> Vec<Vec<Option<String>>> {
    let key = |at: u64| Some(format!("key {}", at * at % 7919));
    (0..4).map(|group| (0..3000).map(|row| key(group * 3000 + row)).collect()).collect()
}

/// The rows, of all, whose key is new.
fn first_rows(groups: &[Vec<Option<String>>]) -> Vec<usize> {
    let mut seen = HashSet::new();
    (0..).zip(groups.concat()).filter(|(_, key)| seen.insert(key.clone())).map(|(row, _)| row).collect()
}

fn dedup_to(out: &Path, words: &str, inputs: &[&Path]) {
    let mut run = overbank(&format!("dedup -q --memory 32MiB {words}")).output_to(File::create(out).unwrap());
    for input in inputs {
        run = run.with(input);
    }
    let ran = run.run();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn dedup_of_parquet_is_parquet_with_the_first_rows() {
    let place = tempfile::tempdir().unwrap();
    let (input, out) = (place.path().join("in.parquet"), place.path().join("out.parquet"));
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    write(&input, properties, &repeats());
    let (all, first) = (rows(&input), first_rows(&repeats()));
    assert!(first.len() < all.len() * 9 / 10);

    dedup_to(&out, "--key k -j 3", &[&input]);
    let kept: Vec<&String> = first.iter().map(|&row| &all[row]).collect();
    assert!(rows(&out).iter().eq(kept.iter().copied()), "other rows than the oracle's");
    dedup_to(&out, "--key k --invert", &[&input]);
    assert_eq!(rows(&out).len(), all.len() - first.len());

    let numbers = overbank("dedup -q --key k --row-numbers").with(&input).run().text();
    let expected: Vec<String> = first.iter().map(|row| (row + 1).to_string()).collect();
    assert!(numbers.lines().eq(expected.iter().map(String::as_str)));

    // A second file adds nothing but what the store has not seen.
    let store = place.path().join("store");
    dedup_to(&out, &format!("--key k --store {}", store.display()), &[&input]);
    assert_eq!(rows(&out).len(), first.len());
    dedup_to(&out, &format!("--key k --store {}", store.display()), &[&input, &input]);
    assert_eq!(rows(&out), Vec::<String>::new());
}

#[test]
fn a_parquet_output_is_whole_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let (input, out, store) =
        (place.path().join("in.parquet"), place.path().join("out.parquet"), place.path().join("store"));
    write(&input, WriterProperties::builder().build(), &repeats());
    let refused = |words: &str, inputs: &[&PathBuf], named: &[&str]| {
        let mut run = overbank(words);
        for input in inputs {
            run = run.with(input);
        }
        run.run().ends_naming(2, named);
    };
    refused(
        &format!("dedup --key k --resume --store {}", store.display()),
        &[&input],
        &["Parquet output", "without --resume"],
    );
    let text = place.path().join("x.csv");
    fs::write(&text, "k\na\n").unwrap();
    // Twelve bytes, as many as what names a row of Parquet.
    fs::write(&text, "k\n12345678901\n").unwrap();
    refused("dedup -q --key k", &[&input, &text], &["is not Parquet", "one output"]);
    overbank("dedup -q --key k").with(&text).with(&input).run().ends_naming(2, &["is Parquet", "one output"]);
    fs::write(&out, "something").unwrap();
    let append = fs::OpenOptions::new().append(true).open(&out).unwrap();
    let ran = overbank("dedup --key k").with(&input).output_to(append).run();
    ran.ends_naming(2, &["behind what a file holds", "--row-numbers"]);
    assert_eq!(fs::read(&out).unwrap(), b"something");
}

#[test]
fn row_numbers_count_every_row_of_every_input() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("a.csv"), place.path().join("b.csv"));
    fs::write(&a, "k,v\nx,1\n\"y\nz\",1\nx,1\n").unwrap();
    fs::write(&b, "k,v\nx,2\nw,2\n\"y\nz\",3\nv,3\n").unwrap();
    let numbers = |words: &str| overbank(words).with(&a).with(&b).run().text();
    assert_eq!(numbers("dedup -q --key k --row-numbers"), "1\n2\n5\n7\n");
    assert_eq!(numbers("dedup -q --key k --row-numbers --invert"), "3\n4\n6\n");
}

/// What a run may hold beside its budget.
const ALLOWANCE_BYTES: u64 = 8 << 20;

/// One page of 31 MB in each row group, as DuckDB writes long strings.
fn wide(path: &Path) {
    let key = |at: u64| Some(format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(32));
    let groups: Vec<_> =
        (0..2).map(|group| (0..60_000).map(|row| key(group * 60_000 + row)).collect()).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(1 << 30);
    write(path, properties.build(), &groups);
}

#[test]
fn pages_far_larger_than_the_memory_are_read_and_copied_within_it() {
    let place = tempfile::tempdir().unwrap();
    let (input, out) = (place.path().join("in.parquet"), place.path().join("out.parquet"));
    wide(&input);
    for (words, budget_bytes) in [
        ("profile --json -j 8 --key k --memory 8MiB", 8u64 << 20),
        ("profile --json -j 1 --key k --memory 8MiB", 8 << 20),
        ("profile --json -j 8 --key k --memory 64MiB", 64 << 20),
        ("count --json -j 8 --key k --memory 16MiB --flash 64MiB --store", 16 << 20),
    ] {
        let mut run = overbank(words);
        if words.ends_with("--store") {
            run = run.with(place.path().join("store"));
        }
        let report = run.with(&input).run().json();
        assert_eq!(report["rows"], 120_000);
        let peak = report["cost"]["peak_memory_bytes"].as_u64().unwrap();
        println!("{words}: peak {:.1} MiB", peak as f64 / f64::from(1 << 20));
        assert!(peak <= budget_bytes + ALLOWANCE_BYTES, "{words}: {peak} bytes");
    }
    for threads in [1, 8] {
        let words = format!("dedup --json -j {threads} --key k --memory 32MiB");
        let ran = overbank(&words).with(&input).output_to(File::create(&out).unwrap()).run();
        let report: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((&report["rows"], &report["kept"]), (&120_000.into(), &120_000.into()));
        let peak = report["peak_memory_bytes"].as_u64().unwrap();
        println!("{words}: peak {:.1} MiB", peak as f64 / f64::from(1 << 20));
        assert!(peak <= (32 << 20) + ALLOWANCE_BYTES, "{words}: {peak} bytes");
        let file = SerializedFileReader::new(File::open(&out).unwrap()).unwrap();
        assert_eq!(file.metadata().file_metadata().num_rows(), 120_000);
    }
}

#[test]
fn a_dictionary_beyond_the_memory_is_refused_with_what_it_takes() {
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("in.parquet");
    let key = |at: u64| Some(format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(8));
    let keys: Vec<_> = (0..100_000).map(|row| key(row % 60_000)).collect();
    let properties = WriterProperties::builder()
        .set_dictionary_page_size_limit(1 << 30)
        .set_compression(Compression::SNAPPY)
        .build();
    write(&input, properties, &[keys]);
    let profile =
        |memory: &str| overbank(&format!("profile -q --json --key k --memory {memory}")).with(&input).run();
    profile("16MiB").fails_naming(&["dictionary of column k", "in.parquet", "give --memory at least 6"]);
    assert_eq!(profile("72MiB").json()["rows"], 100_000);
}
