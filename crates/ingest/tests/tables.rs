//! CSV, JSON lines and Parquet against readers that hold the whole input: same rows, same malformed rows, for any
//! chunk size, and the same remainder after resuming.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{check, check_file};
use naive::{Compression, Outcome};
use overbank_ingest::{Error, Format, Options, Reader};
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const CSV: Format = Format::Csv { delimiter: b',', header: true };

fn options(format: Format, keys: &[&str], chunk_bytes: usize) -> Options {
    let mut options = Options::new([""; 0]);
    options.format = format;
    options.keys = keys.iter().map(|&key| key.into()).collect();
    options.chunk_bytes = chunk_bytes;
    options.chunk_lines = chunk_bytes % 7 + 1;
    options
}

/// Lines that a JSON reader meets: right, wrong, and right but without the wanted fields.
const JSON_LINES: &[&str] = &[
    r#"{"user":{"id":"ann"},"items":[{"sku":1},{"sku":2}],"n":3}"#,
    r#" {"n":"4","items":[0,{"sku":"x\ty\\z\u00e9"}],"user":{"id":17,"other":[1,{"id":2}]}}"#,
    r#"{"user":{"id":true},"user":{"id":"last"},"items":[null,{"sku":false}],"n":0}"#,
    r#"{"user":{"id":"first"},"user":{"name":1},"items":[1,{"sku":1}],"n":1}"#,
    r#"{"user":{"id":null},"items":[1,{"sku":1}],"n":1}"#,
    r#"{"user":{"id":"é"},"items":[1,{"sku":{}}],"n":1}"#,
    r#"{"user":{"id":"a"},"items":[1],"n":1}"#,
    r#"{"user":{"id":"a"},"items":[1,{"sku":""}],"n":-1}"#,
    r#"{"user":{"id":"\ud83d\ude00"},"items":[1,{"sku":""}],"n":18446744073709551615}"#,
    r#"{"user":"id","items":{"1":{"sku":5}},"n":1}"#,
    r#"{"user":{"id":"a"},"items":[1,{"sku":""}],"n":1"#,
    r#"{"user":{"id":"a"},"items":[1,{"sku":""}],"n":1} {}"#,
    r#"{"user":{"id":"a"},"items":[1,{"sku":""}],"x":tru,"n":1}"#,
    "[1,2]",
    "7",
    "",
    "  ",
    "not json",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn csv_rows_are_those_of_the_csv_crate(
        text in prop::collection::vec(prop::sample::select(&b"1a,,\"\"\n\n\\"[..]), 0..120),
        chunk_bytes in 1usize..48,
    ) {
        let text = [b"\n\"k,1\",w,\"z\"\n".as_slice(), &text].concat();
        let mut options = options(CSV, &["k,1", "z"], chunk_bytes);
        check(&text, Compression::Plain, &mut options, &naive::csv(&text, &[0, 2], None));
        (options.keys, options.weight) = (vec!["k,1".into()], Some("w".into()));
        check(&text, Compression::Zstd, &mut options, &naive::csv(&text, &[0], Some(1)));
    }

    #[test]
    fn json_rows_are_those_of_a_tree_reader(
        lines in prop::collection::vec(prop::sample::select(JSON_LINES), 0..12), chunk_bytes in 1usize..200,
    ) {
        let text = lines.join("\n").into_bytes();
        let expected = naive::json(&text, &["/user/id", "/items/1/sku"], Some("/n"));
        let mut options = options(Format::JsonLines, &["user.id", "items[1].sku"], chunk_bytes);
        options.weight = Some("n".into());
        check(&text, Compression::Plain, &mut options, &expected);
        let pointers = vec!["/user/id".into(), "/items/1/sku".into()];
        (options.keys, options.weight) = (pointers, Some("/n".into()));
        check(&text, Compression::Gzip, &mut options, &expected);
    }

}

proptest! {
    // Each case opens its file once a chunk, to resume.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn parquet_rows_are_those_written(
        groups in prop::collection::vec(prop::collection::vec(parquet_row(), 1..300), 0..4),
        chunk_bytes in 200usize..9000, codec in 0usize..5, dictionary: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        write_parquet(&path, &groups, codec, dictionary);
        let mut options = options(Format::Auto, &["k", "g.small"], chunk_bytes);
        (options.weight, options.value) = (Some("w".into()), Some("g.v".into()));
        let mut expected = Outcome::default();
        for (row, (k, w, small, v)) in groups.iter().flatten().enumerate() {
            let field = |text: String| Some(text.into_bytes());
            let fields =
                [k.clone(), field(w.to_string()), field(small.to_string()), v.and_then(|v| field(v.to_string()))];
            expected.push(row as u64 + 1, &fields, &[0, 2], Some(1), Some(3));
        }
        check_file(&path, &mut options, &expected);
    }
}

type ParquetRow = (Option<Vec<u8>>, i64, u32, Option<f64>);

fn parquet_row() -> impl Strategy<Value = ParquetRow> {
    let key = prop_oneof![Just(None), "[ab\t]{0,3}".prop_map(|key| Some(key.into_bytes()))];
    let value = prop_oneof![4 => prop::num::f64::ANY.prop_map(Some), 1 => Just(None)];
    (key, -1i64..5, prop_oneof![Just(u32::MAX), 0u32..4], value)
}

fn write_parquet(path: &Path, groups: &[Vec<ParquetRow>], codec: usize, dictionary: bool) {
    let schema = "message rows { optional binary k (UTF8); required int64 w;
        required group g { required int32 small (UINT_32); optional double v; } }";
    let codec = [
        Codec::UNCOMPRESSED,
        Codec::SNAPPY,
        Codec::LZ4_RAW,
        Codec::ZSTD(ZstdLevel::default()),
        Codec::GZIP(Default::default()),
    ][codec];
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_dictionary_enabled(dictionary)
        .set_data_page_row_count_limit(64)
        .set_write_batch_size(16)
        .build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    for rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let keys: Vec<ByteArray> = rows.iter().filter_map(|row| row.0.clone()).map(ByteArray::from).collect();
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.0.is_some())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&keys, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let weights: Vec<i64> = rows.iter().map(|row| row.1).collect();
        column.typed::<Int64Type>().write_batch(&weights, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let small: Vec<i32> = rows.iter().map(|row| row.2 as i32).collect();
        column.typed::<Int32Type>().write_batch(&small, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<f64> = rows.iter().filter_map(|row| row.3).collect();
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.3.is_some())).collect();
        column.typed::<DoubleType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn carriage_returns_go_at_line_ends_and_stay_in_quotes() {
    let text = b"k,w\r\n\"a\r\n\",1\r\nb\r,2\r\n\r\nc,3\r";
    let mut expected = Outcome::default();
    for (key, weight) in [(&b"a\r\n"[..], "1"), (b"b\r", "2"), (b"c", "3")] {
        expected.push(0, &[Some(key.to_vec()), Some(weight.into())], &[0], Some(1), None);
    }
    let mut options = options(CSV, &["k"], 5);
    options.weight = Some("w".into());
    check(text, Compression::Plain, &mut options, &expected);
}

#[test]
fn a_wrong_column_lists_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, parquet) = (folder.path().join("x.csv"), folder.path().join("x.parquet"));
    std::fs::write(&csv, "url,ms\na,1\n").unwrap();
    write_parquet(&parquet, &[], 0, false);
    for (path, columns) in [(csv, "url, ms"), (parquet, "k, w, g.small, g.v")] {
        let mut options = Options::new([path]);
        let error = Reader::open(options.clone()).unwrap().next_chunk().unwrap_err();
        assert!(matches!(error, Error::KeyNeeded { .. }) && error.to_string().contains(columns), "{error}");
        options.keys = vec!["ur1".into()];
        let error = Reader::open(options).unwrap().next_chunk().unwrap_err();
        assert!(
            matches!(error, Error::NoSuchColumn { .. }) && error.to_string().contains(columns),
            "{error}"
        );
    }
}
