//! Integers as keys: digits of a text, numbers of JSON and of Parquet, and what a program hashes are one key, if that is asked for.
#![allow(clippy::unwrap_used)]

use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank_ingest::{Batch, KeyForm, Options, Parser, Reader};
use std::path::Path;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

/// The hashes of a file's keys.
fn hashes(path: &Path, key: Option<&str>, form: KeyForm) -> Vec<KeyHash> {
    let mut options = Options::new([path]);
    options.keys = key.into_iter().map(str::to_owned).collect();
    options.key_form = form;
    let parser = Parser::new(&options, hasher());
    let (mut reader, mut batch, mut all) = (Reader::open(options).unwrap(), Batch::new(), Vec::new());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        parser.parse(chunk, &mut batch).unwrap();
        assert_eq!(batch.malformed() + batch.missing(), 0);
        all.extend_from_slice(batch.hashes());
    }
    all
}

const NUMBERS: [i64; 5] = [2, 0, -1, i64::MAX, i64::MIN];

fn files(folder: &Path) -> Vec<(std::path::PathBuf, Option<&'static str>)> {
    let digits = NUMBERS.map(|number| number.to_string());
    let lines = digits.iter().map(|digits| format!("{digits}\n")).collect::<String>();
    let table = digits.iter().map(|digits| format!("{digits},x\n")).collect::<String>();
    let json = digits.iter().enumerate().map(|(i, digits)| match i % 2 {
        0 => format!("{{\"id\": {digits}}}\n"),
        _ => format!("{{\"id\": \"{digits}\"}}\n"),
    });
    let texts = [
        ("keys.txt", lines, None),
        ("keys.csv", format!("id,x\n{table}"), Some("id")),
        ("keys.jsonl", json.collect::<String>(), Some("id")),
    ];
    let mut files = Vec::new();
    for (name, text, key) in texts {
        std::fs::write(folder.join(name), text).unwrap();
        files.push((folder.join(name), key));
    }
    #[cfg(feature = "parquet")]
    {
        parquet_file(&folder.join("keys.parquet"));
        files.push((folder.join("keys.parquet"), Some("id")));
    }
    files
}

#[cfg(feature = "parquet")]
fn parquet_file(path: &Path) {
    use parquet::file::writer::SerializedFileWriter;
    let schema = parquet::schema::parser::parse_message_type("message m { required int64 id; }").unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::Int64Type>().write_batch(&NUMBERS, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_number_is_one_key_whichever_format_brings_it() {
    let folder = tempfile::tempdir().unwrap();
    let as_numbers = NUMBERS.map(|number| hasher().hash_u64(number as u64));
    let as_text = NUMBERS.map(|number| hasher().hash(number.to_string().as_bytes()));
    for (path, key) in files(folder.path()) {
        assert_eq!(hashes(&path, key, KeyForm::Numbers), as_numbers, "{}", path.display());
        assert_eq!(hashes(&path, key, KeyForm::Text), as_text, "{}", path.display());
    }
}

#[test]
fn what_is_no_plain_integer_is_its_text_and_several_fields_are_one_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.txt");
    std::fs::write(&path, "02\n2.0\nswan\n\n").unwrap();
    let expected = ["02", "2.0", "swan", ""].map(|key| hasher().hash(key.as_bytes()));
    assert_eq!(hashes(&path, None, KeyForm::Numbers), expected);
    let path = folder.path().join("keys.csv");
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    let mut options = Options::new([&path]);
    (options.keys, options.key_form) = (vec!["a".into(), "b".into()], KeyForm::Numbers);
    let chunk = Reader::open(options.clone()).unwrap().next_chunk().unwrap().unwrap();
    let mut batch = Batch::new();
    Parser::new(&options, hasher()).parse(chunk, &mut batch).unwrap();
    assert_eq!(batch.hashes(), [hasher().hash(b"1\t2")]);
}

#[test]
fn a_position_of_one_form_is_not_gone_on_with_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.txt");
    std::fs::write(&path, "1\n2\n3\n").unwrap();
    let mut options = Options::new([&path]);
    options.chunk_lines = 1;
    let position = Reader::open(options.clone()).unwrap().next_chunk().unwrap().unwrap().position().clone();
    options.key_form = KeyForm::Numbers;
    assert!(Reader::resume(options, &position).is_err());
}
