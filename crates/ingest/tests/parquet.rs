//! Parquet in every encoding and codec, pages larger than the memory, and rows copied to another file.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{drain, hasher};
use overbank_ingest::{Batch, Error, Options, ParquetWriter, Parser, Reader, Result};
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn codecs() -> [Compression; 7] {
    [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
    ]
}

/// The columns of a file: type, and the encodings beside a dictionary's.
const COLUMNS: &[(&str, &[Encoding])] = &[
    ("boolean", &[Encoding::PLAIN, Encoding::RLE]),
    ("int32", &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]),
    ("int64", &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]),
    ("int96", &[Encoding::PLAIN]),
    ("float", &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT]),
    ("double", &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT]),
    ("binary", &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY]),
    ("fixed_len_byte_array(5)", &[Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT]),
];

/// How a file is written.
#[derive(Clone, Copy, Debug)]
struct Form {
    codec: usize,
    encoding: usize,
    dictionary: bool,
    version: bool,
    page_bytes: usize,
}

fn form() -> impl Strategy<Value = Form> {
    (0usize..7, 0usize..3, any::<bool>(), any::<bool>(), 100usize..5000).prop_map(
        |(codec, encoding, dictionary, version, page_bytes)| Form {
            codec,
            encoding,
            dictionary,
            version,
            page_bytes,
        },
    )
}

fn properties(form: Form, columns: &[(&str, &[Encoding])]) -> Arc<WriterProperties> {
    let version = if form.version { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codecs()[form.codec])
        .set_dictionary_enabled(form.dictionary)
        .set_dictionary_page_size_limit(form.page_bytes)
        .set_data_page_size_limit(form.page_bytes)
        .set_write_batch_size(16);
    for (at, (_, encodings)) in columns.iter().enumerate() {
        let encoding = encodings[form.encoding % encodings.len()];
        let path = if columns.len() == 2 && at == 1 { "l.list.c1".to_owned() } else { format!("c{at}") };
        properties = properties
            .set_column_encoding(path.split('.').map(str::to_owned).collect::<Vec<_>>().into(), encoding);
    }
    Arc::new(properties.build())
}

/// Cells: numbers that each type makes its own values of, or nulls.
type Cells = Vec<Option<u64>>;
/// Cells with their definition and repetition levels.
type Levelled = (Cells, Vec<i16>, Vec<i16>);

fn bytes_of(number: u64) -> Vec<u8> {
    let digits = number.to_string().into_bytes();
    let length = (number % 40) as usize;
    digits.iter().cycle().take(length).copied().collect()
}

fn write(path: &Path, schema: &str, properties: Arc<WriterProperties>, groups: &[Vec<Levelled>]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for columns in groups {
        let mut group = writer.next_row_group().unwrap();
        for (cells, definitions, repetitions) in columns {
            let mut column = group.next_column().unwrap().unwrap();
            let numbers = cells.iter().flatten().copied();
            macro_rules! put {
                ($out:expr, $make:expr) => {{
                    let values: Vec<_> = numbers.map($make).collect();
                    $out.write_batch(&values, Some(definitions), Some(repetitions)).unwrap();
                }};
            }
            match column.untyped() {
                ColumnWriter::BoolColumnWriter(out) => put!(out, |n| n % 2 == 1),
                ColumnWriter::Int32ColumnWriter(out) => put!(out, |n| n as i32),
                ColumnWriter::Int64ColumnWriter(out) => put!(out, |n| n as i64),
                ColumnWriter::Int96ColumnWriter(out) => put!(out, |n| {
                    let mut moment = Int96::new();
                    moment.set_data(n as u32 % 1000, 0, 2_440_588 + n as u32 % 100_000);
                    moment
                }),
                ColumnWriter::FloatColumnWriter(out) => put!(out, |n| n as f32 / 8.0),
                ColumnWriter::DoubleColumnWriter(out) => put!(out, |n| n as f64 / 8.0),
                ColumnWriter::ByteArrayColumnWriter(out) => put!(out, |n| ByteArray::from(bytes_of(n))),
                ColumnWriter::FixedLenByteArrayColumnWriter(out) => {
                    put!(out, |n| FixedLenByteArray::from(n.to_le_bytes()[..5].to_vec()))
                }
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// The text that column `at` has as a key for a cell; what is left of it to know is in the tests of `key_text`.
fn is_text(at: usize, number: u64, key: &[u8]) -> bool {
    let text = || String::from_utf8(key.to_vec()).unwrap();
    match at {
        0 => text() == (number % 2 == 1).to_string(),
        1 => text() == (number as i32).to_string(),
        2 => text() == (number as i64).to_string(),
        3 => text().contains("T00:00:00"),
        4 => text().parse::<f32>().unwrap() == number as f32 / 8.0,
        5 => text().parse::<f64>().unwrap() == number as f64 / 8.0,
        6 => key == bytes_of(number),
        _ => key == &number.to_le_bytes()[..5],
    }
}

fn cells() -> impl Strategy<Value = Cells> {
    let number = prop_oneof![0u64..6, any::<u64>(), (0u64..1000).prop_map(|n| n * 1000)];
    prop::collection::vec(prop_oneof![1 => Just(None), 6 => number.prop_map(Some)], 1..400)
}

fn schema() -> String {
    let columns: Vec<String> =
        COLUMNS.iter().enumerate().map(|(at, (kind, _))| format!("optional {kind} c{at};")).collect();
    format!("message rows {{ {} }}", columns.join(" "))
}

/// A flat file with the same cells in every column.
fn write_flat(path: &Path, form: Form, groups: &[Cells]) {
    let groups: Vec<_> = groups
        .iter()
        .map(|cells| {
            let definitions: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
            vec![(cells.clone(), definitions, vec![0; cells.len()]); COLUMNS.len()]
        })
        .collect();
    write(path, &schema(), properties(form, COLUMNS), &groups);
}

fn options(path: &Path, key: &str) -> Options {
    let mut options = Options::new([path]);
    options.keys = vec![key.into()];
    options.bad_rows_kept = usize::MAX;
    options
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_type_encoding_and_codec_reads_as_it_was_written(
        form in form(), groups in prop::collection::vec(cells(), 1..3), chunk_bytes in 100usize..3000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        write_flat(&path, form, &groups);
        for at in 0..COLUMNS.len() {
            let mut options = options(&path, &format!("c{at}"));
            options.chunk_bytes = chunk_bytes;
            let (read, after) = drain(Reader::open(options.clone()).unwrap(), &options);
            let cells: Vec<Option<u64>> = groups.concat();
            let expected: Vec<u64> = cells.iter().flatten().copied().collect();
            prop_assert_eq!(read.rows.len(), expected.len());
            for (row, &number) in read.rows.iter().zip(&expected) {
                prop_assert!(is_text(at, number, &row.key), "column {}: {} is {:?}", at, number, &row.key);
            }
            let nulls = cells.iter().zip(1u64..).filter(|(cell, _)| cell.is_none()).map(|(_, row)| row);
            prop_assert_eq!(&read.bad_lines, &nulls.collect::<Vec<_>>());
            let (position, before) = &after[after.len() / 2];
            let (rest, _) = drain(Reader::resume(options.clone(), position).unwrap(), &options);
            prop_assert_eq!(before.followed_by(&rest), read);
        }
    }

    #[test]
    fn kept_rows_are_copied_whole(
        form in form(), groups in prop::collection::vec(lists(), 1..4), kept in prop::collection::vec(any::<bool>(), 1..50),
        two_inputs: bool,
    ) {
        const LISTS: &[(&str, &[Encoding])] = &[COLUMNS[2], COLUMNS[6]];
        let folder = tempfile::tempdir().unwrap();
        let schema = "message rows { required int64 c0; optional group l (LIST) { repeated group list { optional binary c1 (UTF8); } } }";
        let inputs: Vec<PathBuf> =
            ["a.parquet", "b.parquet"][..1 + usize::from(two_inputs)].iter().map(|name| folder.path().join(name)).collect();
        for path in &inputs {
            write(path, schema, properties(form, LISTS), &groups.iter().map(|rows| columns(rows)).collect::<Vec<_>>());
        }
        let mut options = options(&inputs[0], "c0");
        (options.inputs, options.keep_rows, options.chunk_bytes) = (inputs.clone(), true, 300);
        let out = folder.path().join("out.parquet");
        let mut writer = ParquetWriter::new(File::create(&out).unwrap(), inputs.clone(), 4 << 20).unwrap();
        let (mut reader, mut batch, mut kept) = (Reader::open(options.clone()).unwrap(), Batch::new(), kept.iter().cycle());
        let parser = Parser::new(&options, hasher());
        let mut expected = Vec::new();
        let mut all = inputs.iter().flat_map(|path| rows(path));
        while let Some(chunk) = reader.next_chunk().unwrap() {
            parser.parse(chunk, &mut batch).unwrap();
            for row in 0..batch.rows() {
                let whole = all.next().unwrap();
                if *kept.next().unwrap() {
                    writer.keep(batch.row(row)).unwrap();
                    expected.push(whole);
                }
            }
        }
        writer.finish().unwrap();
        prop_assert_eq!(rows(&out), expected);
        let file = |path| SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let (before, after) = (file(&inputs[0]), file(&out));
        let schema = |file: &SerializedFileReader<File>| file.metadata().file_metadata().schema().clone();
        prop_assert_eq!(schema(&before), schema(&after));
    }
}

/// Rows of a number and a list, which may be null, empty, and hold nulls.
type ListRow = (u64, Option<Vec<Option<u64>>>);

fn lists() -> impl Strategy<Value = Vec<ListRow>> {
    let list = prop::collection::vec(prop::option::of(0u64..50), 0..5);
    prop::collection::vec((any::<u64>(), prop::option::of(list)), 1..200)
}

/// The cells and levels of such rows.
fn columns(rows: &[ListRow]) -> Vec<Levelled> {
    let numbers: Cells = rows.iter().map(|row| Some(row.0)).collect();
    let (mut cells, mut definitions, mut repetitions) = (Cells::new(), Vec::new(), Vec::new());
    for (_, list) in rows {
        match list.as_deref() {
            None | Some([]) => {
                cells.push(None);
                definitions.push(i16::from(list.is_some()));
                repetitions.push(0);
            }
            Some(list) => {
                for (at, cell) in list.iter().enumerate() {
                    cells.push(*cell);
                    definitions.push(2 + i16::from(cell.is_some()));
                    repetitions.push(i16::from(at > 0));
                }
            }
        }
    }
    let levels = vec![0; rows.len()];
    vec![(numbers, levels.clone(), levels), (cells, definitions, repetitions)]
}

/// All rows of a file, as the `parquet` crate prints them.
fn rows(path: &Path) -> Vec<String> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

/// A file of one column, `k`.
fn write_keys(path: &Path, properties: WriterProperties, keys: &[ByteArray]) {
    let schema = Arc::new(parse_message_type("message m { required binary k; }").unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::ByteArrayType>().write_batch(keys, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

fn key_of(number: u64, length: usize) -> ByteArray {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let digits = format!("{number:016x}");
    ByteArray::from(digits.repeat(length / 16 + 1)[..length].to_owned().into_bytes())
}

/// One page of 12 MB in every codec, read with 1 MiB.
#[test]
fn a_page_may_be_far_larger_than_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<ByteArray> = (0..24_000).map(|number| key_of(number, 500)).collect();
    for codec in codecs() {
        let path = folder.path().join("x.parquet");
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(1 << 30)
            .build();
        write_keys(&path, properties, &keys);
        let mut options = options(&path, "k");
        // What zstd and brotli look back on is as large as they were told.
        options.parquet_bytes_max = match codec {
            Compression::ZSTD(_) | Compression::BROTLI(_) => 6 << 20,
            _ => 1 << 20,
        };
        let (read, _) = drain(Reader::open(options.clone()).unwrap(), &options);
        assert!(read.rows.iter().map(|row| &row.key[..]).eq(keys.iter().map(|key| key.data())), "{codec:?}");
    }
}

fn read(options: &Options) -> Result<u64> {
    let mut reader = Reader::open(options.clone())?;
    let parser = Parser::new(options, hasher());
    let (mut rows, mut batch) = (0, Batch::new());
    while let Some(chunk) = reader.next_chunk()? {
        parser.parse(chunk, &mut batch)?;
        rows += batch.rows() as u64;
    }
    Ok(rows)
}

#[test]
fn what_does_not_fit_says_how_much_memory_it_takes_and_that_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let keys: Vec<ByteArray> = (0..40_000).map(|number| key_of(number % 20_000, 200)).collect();
    for (name, dictionary, encoding) in [
        ("dictionary", true, Encoding::PLAIN),
        ("page", false, Encoding::DELTA_BYTE_ARRAY),
        ("page", false, Encoding::DELTA_LENGTH_BYTE_ARRAY),
    ] {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(dictionary)
            .set_encoding(encoding)
            .set_dictionary_page_size_limit(1 << 30)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(1 << 30)
            .build();
        write_keys(&path, properties, &keys);
        let mut options = options(&path, "k");
        options.parquet_bytes_max = 280 << 10;
        for attempt in 0..8 {
            match read(&options) {
                Ok(rows) => {
                    assert_eq!(rows, 40_000);
                    break;
                }
                Err(Error::DoesNotFit { what, needed_bytes, limit_bytes, .. }) => {
                    assert!(attempt > 0 || what == format!("a {name} of column k"), "{what}");
                    assert!(needed_bytes > limit_bytes && needed_bytes < 6 << 20, "{needed_bytes}");
                    options.parquet_bytes_max = needed_bytes as usize;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(options.parquet_bytes_max > 280 << 10, "{name}");
        assert_eq!(read(&options).unwrap(), 40_000);
        let advice = {
            options.parquet_bytes_max = 280 << 10;
            read(&options).unwrap_err().to_string()
        };
        assert!(advice.contains("give --memory at least"), "{advice}");
    }
}

/// Whatever is flipped in the page headers and pages of a file with all encodings, reading ends, in the memory that was allowed.
#[test]
fn damaged_pages_of_every_encoding_are_errors_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad.parquet"));
    let cells: Cells = (0..60).map(|n| if n % 7 == 0 { None } else { Some(n * 977) }).collect();
    for (encoding, dictionary) in [(0, true), (0, false), (1, false), (2, false)] {
        let form = Form { codec: 0, encoding, dictionary, version: encoding == 1, page_bytes: 1000 };
        write_flat(&good, form, std::slice::from_ref(&cells));
        let whole = std::fs::read(&good).unwrap();
        let metadata_bytes = u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
        let pages_end = whole.len() - 8 - metadata_bytes;
        for at in (4..pages_end).step_by(13) {
            for flip in [0x01, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                std::fs::write(&bad, &bytes).unwrap();
                for column in 0..COLUMNS.len() {
                    let mut options = options(&bad, &format!("c{column}"));
                    options.parquet_bytes_max = 1 << 20;
                    match read(&options) {
                        Ok(rows) => assert!(rows <= 60),
                        Err(Error::Damaged { .. } | Error::Unsupported { .. } | Error::DoesNotFit { .. }) => {
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
}

/// The same values as text and as typed columns are the same keys.
#[test]
fn keys_of_csv_json_and_parquet_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let numbers: Vec<u64> = vec![0, 1, 8, 64, 128_000_000_000_000_000, 7, 5];
    let cells: Cells = numbers.iter().copied().map(Some).collect();
    write_flat(
        &place("x.parquet"),
        Form { codec: 1, encoding: 0, dictionary: true, version: false, page_bytes: 500 },
        &[cells],
    );
    // What Python writes of the same numbers.
    let doubles = ["0.0", "0.125", "1.0", "8.0", "1.6e+16", "0.875", "0.625"];
    for (column, texts) in [
        ("c0", numbers.iter().map(|n| (n % 2 == 1).to_string()).collect::<Vec<_>>()),
        ("c2", numbers.iter().map(u64::to_string).collect()),
        ("c5", doubles.iter().map(|&text| text.to_owned()).collect()),
    ] {
        std::fs::write(place("x.csv"), format!("{column}\n{}\n", texts.join("\n"))).unwrap();
        let json: Vec<String> = texts.iter().map(|text| format!("{{\"{column}\":{text}}}\n")).collect();
        std::fs::write(place("x.jsonl"), json.concat()).unwrap();
        let keys = |name: &str| {
            let options = options(&place(name), column);
            let rows = drain(Reader::open(options.clone()).unwrap(), &options).0.rows;
            rows.into_iter().map(|row| String::from_utf8(row.key).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(keys("x.parquet"), texts);
        assert_eq!(keys("x.csv"), texts);
        assert_eq!(keys("x.jsonl"), texts);
    }
}

#[test]
fn unknown_and_unfit_things_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    write_keys(&path, WriterProperties::builder().build(), &[key_of(1, 20)]);
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[length - 1] = b'E';
    std::fs::write(&path, &bytes).unwrap();
    let error = read(&options(&path, "k")).unwrap_err().to_string();
    assert!(error.contains("uses encryption"), "{error}");
    for schema in
        ["message m { repeated binary k; }", "message m { required fixed_len_byte_array(2) k (FLOAT16); }"]
    {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let writer = SerializedFileWriter::new(
            File::create(&path).unwrap(),
            schema,
            WriterProperties::builder().build().into(),
        );
        writer.unwrap().close().unwrap();
        let error = read(&options(&path, "k")).unwrap_err();
        assert!(matches!(error, Error::ColumnUnusable { .. }), "{error}");
    }
}
