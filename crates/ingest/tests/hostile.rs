//! Inputs that are cut short, damaged, changed or absent: errors that name the thing, never a panic.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{drain, hasher};
use naive::{Compression, bzip2, compress, gzip, lz4, xz};
use overbank_ingest::{
    Batch, Delimiter, Error, Format, KeyForm, Missing, Options, Parser, Position, Reader, Result,
};
use std::path::{Path, PathBuf};

/// Reads everything; the number of rows.
fn read(options: &Options) -> Result<u64> {
    let mut rows = 0;
    read_into(options, &mut rows).map(|()| rows)
}

/// Reads everything, and counts the rows that came before an error too.
fn read_into(options: &Options, rows: &mut u64) -> Result<()> {
    let mut reader = Reader::open(options.clone())?;
    let parser = Parser::new(options, hasher());
    let mut batch = Batch::new();
    while let Some(chunk) = reader.next_chunk()? {
        parser.parse(chunk, &mut batch)?;
        *rows += batch.rows() as u64;
    }
    Ok(())
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn some_lines() -> Vec<u8> {
    (0..300).flat_map(|i: u32| format!("line {}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

#[test]
fn compressed_inputs_cut_anywhere_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = some_lines();
    let wholes = [
        gzip(&text),
        zstd::encode_all(text.as_slice(), 1).unwrap(),
        xz(&text, 1 << 16),
        bzip2(&text),
        lz4(&text, true),
        lz4(&text, false),
    ];
    for whole in wholes {
        for len in (10..whole.len()).step_by(7).chain([whole.len() - 1]) {
            let error = read(&Options::new([file(&folder, "cut", &whole[..len])])).unwrap_err();
            assert!(matches!(error, Error::CutShort { at, .. } if at == len as u64), "{error}");
        }
        assert_eq!(read(&Options::new([file(&folder, "whole", &whole)])).unwrap(), 300);
    }
}

#[test]
fn the_rows_before_the_damage_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let text = some_lines();
    let rows_before = |bytes: &[u8]| {
        let mut rows = 0;
        read_into(&Options::new([file(&folder, "bad", bytes)]), &mut rows).unwrap_err();
        rows
    };
    let xz = xz(&text, 1 << 16);
    let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
    for whole in [&gzip(&text), &zstd, &xz, &bzip2(&text), &lz4(&text, true)] {
        assert_eq!(rows_before(&[whole, &b"something else, which is no stream"[..]].concat()), 300);
    }
    // An index and a footer follow the data of xz.
    assert_eq!(rows_before(&xz[..xz.len() - 1]), 300);
}

#[test]
fn zeros_behind_a_member_of_gzip_are_padding() {
    let folder = tempfile::tempdir().unwrap();
    let member = gzip(b"a\nb\n");
    let padded = [&member[..], &[0; 700], &member, &[0; 200_000]].concat();
    assert_eq!(read(&Options::new([file(&folder, "padded", &padded)])).unwrap(), 4);
    let garbage = [&member[..], b"and more"].concat();
    assert!(matches!(
        read(&Options::new([file(&folder, "more", &garbage)])),
        Err(Error::Damaged { what: "gzip", .. })
    ));
}

#[test]
fn damaged_compressed_inputs_never_give_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    let text = some_lines();
    // Gzip has a checksum behind the data; zstd only where asked for.
    let whole = compress(&text, Compression::Gzip);
    let good = {
        let options = Options::new([file(&folder, "good", &whole)]);
        drain(Reader::open(options.clone()).unwrap(), &options).0
    };
    for at in (10..whole.len()).step_by(11) {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        let options = Options::new([file(&folder, "bad", &bad)]);
        if read(&options).is_ok() {
            let (rows, _) = drain(Reader::open(options.clone()).unwrap(), &options);
            assert_eq!(rows, good, "flipped byte {at}");
        }
    }
}

#[test]
fn a_zstd_window_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(24).unwrap();
    std::io::Write::write_all(&mut encoder, &some_lines()).unwrap();
    let mut options = Options::new([file(&folder, "wide", &encoder.finish().unwrap())]);
    assert_eq!(read(&options).unwrap(), 300);
    options.window_bytes_max = 1 << 20;
    assert!(matches!(
        read(&options),
        Err(Error::WindowTooLarge { bytes: Some(0x100_0000), limit_bytes: 0x10_0000, .. })
    ));
}

#[test]
fn deep_json_is_a_malformed_row() {
    let folder = tempfile::tempdir().unwrap();
    for (open, good) in [("[", 0), ("{\"a\":", 0), ("{\"k\":1,\"x\":", 0)] {
        let text = format!("{}\n{{\"k\":1}}\n", open.repeat(100_000));
        let mut options = Options::new([file(&folder, "deep.jsonl", text.as_bytes())]);
        options.keys = vec!["k".into()];
        assert_eq!(read(&options).unwrap(), good + 1);
        options.keys = vec!["a.a.a".into()];
        assert_eq!(read(&options).unwrap(), 0);
        options.strict = true;
        assert!(matches!(read(&options), Err(Error::BadRow { line: 1, .. })));
    }
}

#[test]
fn damaged_parquet_is_an_error_or_read_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = small_parquet(&folder.path().join("whole"));
    let mut options = Options::new([""; 0]);
    options.keys = vec!["k".into()];
    options.format = Format::Parquet;
    options.chunk_bytes = 4096;
    let damaged = |bytes: &[u8]| {
        let mut options = options.clone();
        options.inputs = vec![file(&folder, "bad", bytes)];
        read(&options)
    };
    assert_eq!(damaged(&whole).unwrap(), 200);
    for len in (0..whole.len()).step_by(13) {
        assert!(damaged(&whole[..len]).is_err());
    }
    for at in (0..whole.len()).step_by(3) {
        let mut bad = whole.clone();
        bad[at] ^= 0x41;
        let _ = damaged(&bad);
    }
}

/// The file starts with a page of one long key, which claims 128 MiB, then with a dictionary of a million values.
#[test]
fn parquet_pages_that_claim_more_than_they_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new([folder.path().join("x.parquet")]);
    options.keys = vec!["k".into()];
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&options.inputs[0], bytes).unwrap();
        let error = read(&options).unwrap_err();
        assert!(matches!(error, Error::Damaged { what: "Parquet", .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };

    let mut long = parquet(&options.inputs[0], ["a".repeat(3 << 19)].into_iter(), false);
    assert_eq!(read(&options).unwrap(), 1);
    // Data page; then the uncompressed size, of four bytes.
    assert_eq!((&long[4..7], long[9] & 0x80, long[10] & 0x80), (&[0x15, 0, 0x15][..], 0x80, 0));
    long[7..11].copy_from_slice(&[0xfe, 0xff, 0xff, 0x7f]);
    refused(&long, "a page of 134217727 bytes is 1572868");

    let mut many = parquet(&options.inputs[0], (0..10_000).map(|i| i.to_string()), true);
    assert_eq!(read(&options).unwrap(), 10_000);
    // Dictionary page; in its own header, the number of values, of three bytes.
    assert_eq!(many[4..6], [0x15, 4]);
    let own = many.windows(2).position(|pair| pair == [0x4c, 0x15]).unwrap();
    assert_eq!((many[own + 3] & 0x80, many[own + 4] & 0x80), (0x80, 0));
    many[own + 2..own + 5].copy_from_slice(&[0xfe, 0xff, 0x7f]);
    refused(&many, "claims to hold 1048575 values");
}

/// A decoder that looks into a dictionary before it looks whether there is one panics.
#[test]
fn a_parquet_page_that_names_values_of_no_dictionary_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new([folder.path().join("x.parquet")]);
    options.keys = vec!["k".into()];
    let mut bytes = parquet(&options.inputs[0], ["a".to_owned()].into_iter(), false);
    // In the page's own header: one value, plain. Now by a dictionary, which there is none of.
    let own = bytes.windows(5).position(|five| five == [0x2c, 0x15, 2, 0x15, 0]).unwrap();
    bytes[own + 4] = 0x10;
    std::fs::write(&options.inputs[0], bytes).unwrap();
    let error = read(&options).unwrap_err();
    assert!(matches!(error, Error::Damaged { what: "Parquet", .. }), "{error}");
    assert!(!overbank_ingest::is_panic_caught());
}

fn small_parquet(path: &Path) -> Vec<u8> {
    parquet(path, (0..200).map(|i| format!("key {i}")), true)
}

fn parquet(path: &Path, keys: impl Iterator<Item = String>, dictionary: bool) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let schema = parquet::schema::parser::parse_message_type("message m { required binary k; }").unwrap();
    let file = std::fs::File::create(path).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_dictionary_enabled(dictionary)
        .build();
    let mut writer = SerializedFileWriter::new(file, schema.into(), properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let keys: Vec<ByteArray> = keys.map(|key| ByteArray::from(key.as_str())).collect();
    column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn absent_and_unfit_inputs_are_named_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Reader::open(Options::new([folder.path().join(name)])).map(drop);
    assert!(matches!(open("absent"), Err(Error::Open { .. })));
    assert!(matches!(open("*.log"), Err(Error::NoMatch { .. })));
    assert!(matches!(open(""), Err(Error::IsDirectory { .. })));
    // A file is itself, whatever its name looks like.
    file(&folder, "[x].log", b"a\n");
    assert!(open("[x].log").is_ok());
}

#[test]
fn resuming_needs_the_same_inputs_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (file(&folder, "a", b"1\n2\n"), file(&folder, "b", b"3\n4\n5\n"));
    let mut options = Options::new([a.clone(), b.clone()]);
    options.chunk_bytes = 2;
    let mut reader = Reader::open(options.clone()).unwrap();
    let positions: Vec<Position> =
        std::iter::from_fn(|| reader.next_chunk().unwrap()).map(|chunk| chunk.position().clone()).collect();
    let in_b = &positions[2];
    let changed =
        |options: &Options| matches!(Reader::resume(options.clone(), in_b), Err(Error::Changed { .. }));
    assert!(!changed(&options));
    std::fs::write(&b, b"3\n4\n5\n6\n").unwrap();
    assert!(!changed(&options), "the current input may grow");
    std::fs::write(&b, b"3\n").unwrap();
    assert!(changed(&options), "it may not shrink");
    std::fs::write(&b, b"x\n4\n5\n").unwrap();
    assert!(changed(&options), "nor start with other bytes");
    std::fs::write(&b, b"3\n4\n5\n").unwrap();
    std::fs::write(&a, b"1\n2\n3\n").unwrap();
    assert!(changed(&options), "a finished input may not grow");
    std::fs::write(&a, b"1\n2\n").unwrap();
    assert!(!changed(&options));
    options.format = Format::Delimited(Delimiter::Whitespace);
    assert!(changed(&options));
    options.format = Format::Auto;
    options.inputs.swap(0, 1);
    assert!(changed(&options));
    // What alone has changed is named.
    for (change, named) in [
        (
            (|options| options.key_form = KeyForm::Numbers) as fn(&mut Options),
            "the form of keys was their text and is the numbers",
        ),
        (|options| options.missing = Missing::Error, "rows without a key was drop and is error"),
        (|options| options.header = false, "format, header, line ends, key, form of keys"),
    ] {
        let mut other = options.clone();
        change(&mut other);
        let error = Reader::resume(other, in_b).map(drop).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_position_stays_small_over_many_inputs_and_still_knows_them() {
    let folder = tempfile::tempdir().unwrap();
    const FILES: usize = 20_000;
    let path = |i: usize| folder.path().join(format!("{i:05}.log"));
    for i in 0..FILES {
        std::fs::write(path(i), if i % 100 == 0 { "a\n" } else { "" }).unwrap();
    }
    let options = Options::new([folder.path().join("*.log")]);
    let mut reader = Reader::open(options.clone()).unwrap();
    let (mut chunks, mut halfway) = (0, None);
    while let Some(chunk) = reader.next_chunk().unwrap() {
        chunks += 1;
        if chunks == FILES / 200 {
            halfway = Some(chunk.position().clone());
        }
    }
    assert_eq!(chunks, FILES / 100);
    for position in [reader.position(), halfway.as_ref().unwrap()] {
        let bytes = position.to_bytes();
        assert!(bytes.len() < 16 << 10, "{} bytes", bytes.len());
        assert_eq!(&Position::from_bytes(&bytes).unwrap(), position);
    }
    let rest = |options: &Options| {
        let mut reader = Reader::resume(options.clone(), halfway.as_ref().unwrap())?;
        let mut chunks = 0;
        while reader.next_chunk()?.is_some() {
            chunks += 1;
        }
        Ok::<_, Error>(chunks)
    };
    assert_eq!(rest(&options).unwrap(), FILES / 200);
    std::fs::write(path(9), "b\n").unwrap();
    let error = rest(&options).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(error.to_string().contains("the first 9900 inputs"), "{error}");
    std::fs::write(path(9), "").unwrap();
    std::fs::write(path(FILES - 1), "b\n").unwrap();
    assert_eq!(rest(&options).unwrap(), FILES / 200 + 1, "what was not read yet may change");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_and_one_that_grows_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (file(&folder, "a", b"1\n2\n3\n4\n"), file(&folder, "b", b"5\n"));
    let mut options = Options::new([a.clone(), b]);
    options.chunk_bytes = 2;
    let mut reader = Reader::open(options.clone()).unwrap();
    assert_eq!(reader.next_chunk().unwrap().unwrap().text(), b"1\n");
    std::fs::write(&a, b"1\n2\n3\n4\n5\n6\n").unwrap();
    let mut rest = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        rest.extend_from_slice(chunk.text());
    }
    assert_eq!(rest, b"2\n3\n4\n5\n6\n5\n");
    assert!(
        Reader::resume(options.clone(), reader.position()).is_ok(),
        "it is finished as it was at its end"
    );

    // More than the block that is read to tell the compression.
    std::fs::write(&a, b"a line of sixteen\n".repeat(1000)).unwrap();
    options.chunk_bytes = 1000;
    let mut reader = Reader::open(options.clone()).unwrap();
    reader.next_chunk().unwrap();
    std::fs::OpenOptions::new().write(true).open(&a).unwrap().set_len(5000).unwrap();
    let error = loop {
        match reader.next_chunk() {
            Ok(chunk) => assert!(chunk.is_some(), "the lost bytes went unnoticed"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Shrunk { expected: 18_000, found: 5000, .. }), "{error}");
}

#[test]
fn bytes_that_are_no_position_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut reader = Reader::open(Options::new([file(&folder, "a", b"1\n2\n")])).unwrap();
    let position = reader.next_chunk().unwrap().unwrap().position().clone().with_rejected(7, 1 << 100 | 5);
    let bytes = position.to_bytes();
    assert_eq!(Position::from_bytes(&bytes).unwrap(), position);
    assert_eq!((position.rejected_bytes(), position.chunks()), (7, 1));
    assert_eq!(position.rejected_hash(), Some(1 << 100 | 5));
    // The version before had no hash.
    let mut first = bytes.clone();
    first.drain(52..68);
    first[0] = 1;
    let first = Position::from_bytes(&first).unwrap();
    assert_eq!((first.rejected_hash(), first.with_rejected(7, 1 << 100 | 5)), (None, position));
    for len in 0..bytes.len() {
        assert!(matches!(Position::from_bytes(&bytes[..len]), Err(Error::BadPosition { .. })));
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(Position::from_bytes(&longer), Err(Error::BadPosition { .. })));
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0xff;
        let _ = Position::from_bytes(&bad);
    }
}

#[test]
fn the_first_malformed_rows_are_kept_and_all_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a.csv", b"k,w\na,1\nb,x\nc\nd,-1\ne,2\n");
    let mut options = Options::new([path]);
    (options.keys, options.weight, options.bad_rows_kept) = (vec!["k".into()], Some("w".into()), 2);
    let (mut reader, mut batch) = (Reader::open(options.clone()).unwrap(), Batch::new());
    Parser::new(&options, hasher()).parse(reader.next_chunk().unwrap().unwrap(), &mut batch).unwrap();
    assert_eq!((batch.rows(), batch.skipped()), (2, 3));
    let bad: Vec<_> = batch.bad_rows().iter().map(|bad| (bad.line, bad.why.as_str())).collect();
    assert_eq!(
        bad,
        [
            (3, "field w is \"x\", not a weight, which is a whole number from 0"),
            (4, "the row has no field w")
        ]
    );
}
