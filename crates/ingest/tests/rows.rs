//! Rows as they stand in the input, and streams that pause.
#![allow(clippy::unwrap_used)]

use keyhash::{HashKind, KeyHasher, Seed};
use overbank_ingest::{Batch, Delimiter, Format, Options, Parser, Reader};
use proptest::prelude::*;
use std::io::Write as _;
use std::time::Duration;

fn parser(options: &Options) -> Parser {
    Parser::new(options, KeyHasher::new(HashKind::Xxh3, Seed(1)))
}

/// All rows and keys of `text`, cut into chunks of `chunk_bytes`, and the header.
fn read(
    text: &[u8],
    format: Format,
    key: &[&str],
    chunk_bytes: usize,
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<u8>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut options = Options::new([file.path()]);
    options.format = format;
    options.keys = key.iter().map(|&name| name.to_owned()).collect();
    (options.keep_rows, options.chunk_bytes) = (true, chunk_bytes);
    let mut reader = Reader::open(options.clone()).unwrap();
    let (parser, mut batch) = (parser(&options), Batch::new());
    let (mut rows, mut keys, mut header) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        header = chunk.header().unwrap_or_default().to_vec();
        assert_eq!(reader.header().unwrap_or_default(), header);
        parser.parse(chunk, &mut batch).unwrap();
        rows.extend((0..batch.rows()).map(|row| batch.row(row).to_vec()));
        keys.extend(batch.keys().map(<[u8]>::to_vec));
    }
    (rows, keys, header)
}

proptest! {
    #[test]
    fn rows_of_lines_are_the_input(
        lines in prop::collection::vec("[a-c \t\r]{0,6}", 1..60),
        ends in any::<bool>(),
        chunk_bytes in 1usize..40,
    ) {
        let mut text = lines.join("\n");
        if ends {
            text.push('\n');
        }
        let (rows, keys, _) = read(text.as_bytes(), Format::Lines, &[], chunk_bytes);
        prop_assert_eq!(rows.concat(), text.as_bytes());
        for (row, key) in rows.iter().zip(&keys) {
            let line = row.strip_suffix(b"\n").unwrap_or(row);
            prop_assert_eq!(line.strip_suffix(b"\r").unwrap_or(line), &key[..]);
        }
    }

    #[test]
    fn rows_of_tables_are_the_input(
        cells in prop::collection::vec(("[a-c\n,\"]{0,5}", "[a-c]{1,3}"), 1..40),
        crlf in any::<bool>(),
        chunk_bytes in 1usize..60,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let quoted = |(text, name): &(String, String)| format!("\"{}\",{name}{end}", text.replace('"', "\"\""));
        let records: Vec<Vec<u8>> = cells.iter().map(|cell| quoted(cell).into_bytes()).collect();
        let names = format!("text,name{end}").into_bytes();
        let text = [names.clone(), records.concat()].concat();
        let csv = Format::Csv { delimiter: b',', header: true };
        for (column, key) in [("text", 0), ("name", 1)] {
            let (rows, keys, header) = read(&text, csv, &[column], chunk_bytes);
            prop_assert_eq!(&header, &names);
            prop_assert_eq!(&rows, &records);
            let wanted: Vec<&[u8]> = cells.iter().map(|cell| [&cell.0, &cell.1][key].as_bytes()).collect();
            prop_assert_eq!(keys, wanted);
        }
    }
}

#[test]
fn malformed_and_empty_rows_are_left_out() {
    let text = b"{\"a\": 1}\n\nnothing\n{\"b\": 2}\n  {\"a\": 2}  \r\n{\"a\": 3}";
    let (rows, keys, header) = read(text, Format::JsonLines, &["a"], 20);
    assert_eq!(rows, [&b"{\"a\": 1}\n"[..], b"  {\"a\": 2}  \r\n", b"{\"a\": 3}"]);
    assert_eq!(keys, [b"1", b"2", b"3"]);
    assert!(header.is_empty());
    let blanks = Format::Delimited(Delimiter::Whitespace);
    let (rows, _, _) = read(b"a b\nc\n d  e \n", blanks, &["2"], 1 << 20);
    assert_eq!(rows, [&b"a b\n"[..], b" d  e \n"]);
}

/// A stream that pauses is passed on; what came behind the last whole record waits for its end.
fn pauses(compress: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut options = Options::new([&pipe]);
    options.pause = Some(Duration::from_millis(20));
    options.keep_rows = true;
    let (asked, told) = std::sync::mpsc::channel::<&[u8]>();
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
        while let Ok(text) = told.recv() {
            pipe.write_all(&compress(text)).unwrap();
        }
    });
    asked.send(b"a\n").unwrap();
    let mut reader = Reader::open(options.clone()).unwrap();
    let (parser, mut batch) = (parser(&options), Batch::new());
    let mut paused = false;
    let mut next = || {
        let chunk = loop {
            let chunk = reader.next_chunk().unwrap()?;
            paused |= chunk.is_before_pause();
            // One that came because it was time says nothing new.
            if !chunk.is_empty() || std::mem::take(&mut paused) {
                break chunk;
            }
        };
        parser.parse(chunk, &mut batch).unwrap();
        Some(
            (0..batch.rows())
                .map(|row| String::from_utf8_lossy(batch.row(row)).into_owned())
                .collect::<String>(),
        )
    };
    for (sent, came) in [(None, "a\n"), (Some("b\nc\nhal"), "b\nc\n"), (Some("f\n"), "half\n")] {
        sent.into_iter().for_each(|sent| asked.send(sent.as_bytes()).unwrap());
        assert_eq!(next().unwrap(), came);
        assert_eq!(next().unwrap(), "", "a stream at rest says so");
    }
    drop(asked);
    writer.join().unwrap();
    while let Some(rows) = next() {
        assert_eq!(rows, "");
    }
}

#[test]
fn a_pipe_that_pauses_is_passed_on() {
    pauses(<[u8]>::to_vec);
}

#[test]
fn a_compressed_pipe_that_pauses_is_passed_on() {
    pauses(|text| zstd::encode_all(text, 1).unwrap());
    pauses(|text| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    });
}
