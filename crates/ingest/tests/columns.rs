//! Typed columns, in every format that has fields, and their NULLs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

use keyhash::{HashKind, KeyHasher, Seed};
use overbank_ingest::{
    Batch, Column, ColumnOption, ColumnType, Delimiter, Error, Format, Options, Parser, Reader,
};

/// A value as text; NULL is none.
type Cell = Option<String>;

fn options(place: &std::path::Path, text: &str, format: Format, columns: &[(&str, ColumnType)]) -> Options {
    let path = place.join("input");
    std::fs::write(&path, text).unwrap();
    let mut options = Options::new([path]);
    options.format = format;
    options.columns =
        columns.iter().map(|(name, kind)| ColumnOption { name: (*name).to_owned(), kind: *kind }).collect();
    options
}

fn cells(batch: &Batch, column: usize) -> Vec<Cell> {
    let values: Vec<String> = match batch.column(column) {
        Column::Texts(texts) => texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
        Column::Integers(values) => values.iter().map(ToString::to_string).collect(),
        Column::Unsigned(values) => values.iter().map(ToString::to_string).collect(),
        Column::Floats(values) => values.iter().map(ToString::to_string).collect(),
        Column::Booleans(values) => values.iter().map(ToString::to_string).collect(),
        Column::Decimals(values) => values.iter().map(ToString::to_string).collect(),
    };
    values.into_iter().zip(batch.nulls(column)).map(|(value, is_null)| (!is_null).then_some(value)).collect()
}

/// The rows, column by column, why others are malformed, and the batch of the last chunk.
type Whole = (Vec<Vec<Cell>>, Vec<String>, Batch);

fn read(options: &Options) -> Result<Whole, Error> {
    let mut reader = Reader::open(options.clone())?;
    let parser = Parser::new(options, KeyHasher::new(HashKind::Xxh3, Seed(1)));
    let (mut batch, mut all, mut bad) = (Batch::new(), vec![Vec::new(); options.columns.len()], Vec::new());
    while let Some(chunk) = reader.next_chunk()? {
        parser.parse(chunk, &mut batch)?;
        for (column, all) in all.iter_mut().enumerate() {
            all.extend(cells(&batch, column));
        }
        bad.extend(batch.bad_rows().iter().map(|row| format!("{}: {}", row.line, row.why)));
    }
    Ok((all, bad, batch))
}

fn some(values: &[&str]) -> Vec<Cell> {
    values.iter().map(|value| (*value != "NULL").then(|| (*value).to_owned())).collect()
}

const COLUMNS: [(&str, ColumnType); 3] = [
    ("name", ColumnType::Text),
    ("x", ColumnType::Integer),
    ("price", ColumnType::Decimal { precision: 5, scale: 2 }),
];

#[test]
fn an_empty_field_of_csv_is_null_and_a_wrong_one_is_malformed() {
    let place = tempfile::tempdir().unwrap();
    let text = "price,name,x\n1.5,\"a \"\"b\"\"\",7\n,,\n2,c\n3,d,x\n,e,-1\n";
    let options = options(place.path(), text, Format::Csv { delimiter: b',', header: true }, &COLUMNS);
    let (rows, bad, _) = read(&options).unwrap();
    assert_eq!(rows[0], some(&["a \"b\"", "NULL", "e"]));
    assert_eq!(rows[1], some(&["7", "NULL", "-1"]));
    assert_eq!(rows[2], some(&["150", "NULL", "NULL"]));
    assert_eq!(bad, ["4: the row has no field x", "5: field x is \"x\", not an integer of 64 bits"]);
    let strict = Options { strict: true, ..options.clone() };
    assert!(matches!(read(&strict), Err(Error::BadRow { line: 4, .. })));
    let mut missing = options;
    missing.columns[0].name = "nam".to_owned();
    assert!(matches!(read(&missing), Err(Error::NoSuchColumn { .. })));
}

#[test]
fn json_has_null_and_lacks_members() {
    let place = tempfile::tempdir().unwrap();
    let text = "{\"name\":\"\",\"x\":1}\n{\"x\":null,\"price\":2.5}\n{\"name\":[1],\"x\":2}\n{\"name\":\"b\",\"x\":\"3\"}\n{\"x\":\"\"}\n";
    let (rows, bad, batch) = read(&options(place.path(), text, Format::JsonLines, &COLUMNS)).unwrap();
    assert_eq!(rows[0], some(&["", "NULL", "b"]));
    assert_eq!(rows[1], some(&["1", "NULL", "3"]));
    assert_eq!(rows[2], some(&["NULL", "250", "NULL"]));
    assert_eq!(bad.len(), 2);
    assert!(
        bad[0].starts_with("3: field name is an array") && bad[1].starts_with("5: field x is \"\""),
        "{bad:?}"
    );
    assert_eq!(batch.columns_seen(), 0b111);
    let other = [("name", ColumnType::Text), ("nothing", ColumnType::Text)];
    assert_eq!(read(&options(place.path(), text, Format::JsonLines, &other)).unwrap().2.columns_seen(), 0b01);
}

/// What has no members has no fields that are null: a row that is no object is malformed, and so is a field that is no single value.
#[test]
fn a_row_of_json_that_has_no_fields_is_malformed() {
    let place = tempfile::tempdir().unwrap();
    let text = "[1]\n5\n\"a\"\nnull\ntrue\n[]\n {\"name\":\"a\"}\n{}\n{\"name\":{\"b\":1}}\n{\"name\":\"x\",\"name\":\"y\"}\n";
    let columns = [("name", ColumnType::Text)];
    let (rows, bad, _) = read(&options(place.path(), text, Format::JsonLines, &columns)).unwrap();
    assert_eq!(rows[0], some(&["a", "NULL", "y"]));
    let told = [
        "1: the row is an array, not an object",
        "2: the row is a number, not an object",
        "3: the row is a string, not an object",
        "4: the row is null, not an object",
        "5: the row is true or false, not an object",
    ];
    assert_eq!(bad, told);
    let strict = Options { strict: true, ..options(place.path(), text, Format::JsonLines, &columns) };
    assert!(matches!(read(&strict), Err(Error::BadRow { line: 1, .. })));
    // Elements are fields of an array, and an object has none.
    let text = "[1,2]\n[]\n{\"a\":1}\n";
    let columns = [("[1]", ColumnType::Integer)];
    let (rows, bad, _) = read(&options(place.path(), text, Format::JsonLines, &columns)).unwrap();
    assert_eq!(rows[0], some(&["2", "NULL"]));
    assert_eq!(bad, ["3: the row is an object, not an array"]);
}

#[test]
fn columns_go_beside_a_key_and_what_is_not_utf_8_is_no_text() {
    let place = tempfile::tempdir().unwrap();
    let columns = [("2", ColumnType::Text), ("1", ColumnType::Bytes), ("2", ColumnType::Bytes)];
    let mut options = options(place.path(), "", Format::Delimited(Delimiter::Byte(b'\t')), &columns);
    options.keys = vec!["1".to_owned()];
    std::fs::write(place.path().join("input"), b"k\tv\nl\t\xff\n\tw\n").unwrap();
    let (rows, bad, batch) = read(&options).unwrap();
    assert_eq!(rows[0], some(&["v", "w"]));
    assert_eq!(rows[1], some(&["k", "NULL"]));
    assert_eq!(rows[2], some(&["v", "w"]));
    assert_eq!((batch.keys().collect::<Vec<_>>(), batch.hashes().len()), (vec![&b"k"[..], b""], 2));
    assert!(bad[0].starts_with("2: field 2 is ") && bad[0].contains("UTF-8"), "{bad:?}");
}

#[test]
fn a_chunk_is_parsed_again_with_other_types() {
    let place = tempfile::tempdir().unwrap();
    let csv = Format::Csv { delimiter: b',', header: true };
    let mut options = options(place.path(), "x\n1\n2\n", csv, &[("x", ColumnType::Bytes)]);
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
    let mut reader = Reader::open(options.clone()).unwrap();
    let mut batch = Batch::new();
    Parser::new(&options, hasher).parse(reader.next_chunk().unwrap().unwrap(), &mut batch).unwrap();
    assert_eq!(cells(&batch, 0), some(&["1", "2"]));
    options.columns[0].kind = ColumnType::Float;
    let chunk = batch.take_chunk().unwrap();
    assert_eq!(batch.rows(), 0);
    Parser::new(&options, hasher).parse(chunk, &mut batch).unwrap();
    assert!(matches!(batch.column(0), Column::Floats([one, two]) if (*one, *two) == (1.0, 2.0)));
    // Types are no part of which rows are read: a position stays good.
    assert!(Reader::resume(options.clone(), batch.chunk().position()).is_ok());
    options.columns[0].name = "y".to_owned();
    assert!(matches!(Reader::resume(options, batch.chunk().position()), Err(Error::Changed { .. })));
}
