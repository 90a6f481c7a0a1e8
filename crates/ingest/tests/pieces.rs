//! Sequences in pieces against the same sequences whole: every so many letters in a row are there once, in their order, wherever chunks end
//! and a reader is resumed.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{drain, hasher};
use naive::{Compression, Outcome, compress};
use overbank_ingest::{Batch, Error, Format, Options, Parser, Position, Reader};
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// The longest header that is taken; random ones are shorter.
const HEADER_BYTES_MAX: usize = 1000;

/// The sequences of a FASTA file, read whole, and how much stands before the first of them that is no blank.
fn sequences(text: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let (mut sequences, mut headless, mut ended) = (Vec::<Vec<u8>>::new(), 0, true);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if ended && line.starts_with(b">") {
            sequences.push(Vec::new());
        } else if let Some(sequence) = sequences.last_mut() {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            sequence.extend_from_slice(bare.strip_suffix(b"\r").unwrap_or(bare));
        } else {
            headless += line.trim_ascii().len();
        }
        ended = line.ends_with(b"\n");
    }
    (sequences, headless)
}

/// All runs of `length` letters of all sequences.
fn windows<'s>(sequences: impl IntoIterator<Item = &'s [u8]>, length: usize) -> Vec<Vec<u8>> {
    sequences.into_iter().flat_map(|sequence| sequence.windows(length)).map(<[u8]>::to_vec).collect()
}

fn windows_of(rows: &Outcome, length: usize) -> Vec<Vec<u8>> {
    windows(rows.rows.iter().map(|row| row.key.as_slice()), length)
}

fn options(path: &Path, overlap: usize, chunk_bytes: usize) -> Options {
    let mut options = Options::new([path]);
    options.format = Format::Fasta;
    options.sequence_overlap = Some(overlap);
    (options.chunk_bytes, options.record_bytes_max) = (chunk_bytes, HEADER_BYTES_MAX);
    options
}

/// Lines and their ends in every order: headers, letters, blanks, a `>` within a line, returns anywhere.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        3 => prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["\n>", "\n>id\n", "\r\n>id of it\r\n", ">", " "]).prop_map(str::to_owned),
        6 => "[ACGTacgtNRY]{1,12}",
    ];
    prop::collection::vec(part, 0..40).prop_flat_map(|parts| {
        let begin = prop::sample::select(vec![">a\n", ">a\r\n", ">\n", "\n\n>a\n", ""]);
        begin.prop_map(move |begin| [begin, &parts.concat()].concat().into_bytes())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_run_of_letters_is_in_one_piece(
        text in text(), overlap in 0usize..9, chunk_bytes in 1usize..40, chunk_lines in 1usize..5,
        compression in prop::sample::select(vec![Compression::Plain, Compression::Gzip, Compression::Zstd]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, compress(&text, compression)).unwrap();
        let (whole, headless) = sequences(&text);
        let expected = windows(whole.iter().map(Vec::as_slice), overlap + 1);
        let options = Options { chunk_lines, ..options(&path, overlap, chunk_bytes) };
        let (all, after) = drain(Reader::open(options.clone()).unwrap(), &options);
        prop_assert_eq!(windows_of(&all, overlap + 1), expected);
        prop_assert_eq!(all.bad_lines.len(), usize::from(headless > 0));
        // No piece but that of a header longer than a chunk.
        prop_assert!(all.rows.iter().all(|row| (1..=chunk_bytes.max(HEADER_BYTES_MAX) + overlap + 1).contains(&row.key.len())));
        for (position, before) in after {
            let position = Position::from_bytes(&position.to_bytes()).unwrap();
            let (rest, _) = drain(Reader::resume(options.clone(), &position).unwrap(), &options);
            prop_assert_eq!(before.followed_by(&rest), all.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn pipes_have_the_same_runs_however_they_come(
        text in text(), overlap in 0usize..6, chunk_bytes in 1usize..40, written in 1usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let expected = windows(sequences(&text).0.iter().map(Vec::as_slice), overlap + 1);
        let mut options = options(&pipe, overlap, chunk_bytes);
        // Each piece that comes is passed on at once.
        options.pause = Some(std::time::Duration::from_nanos(4));
        let writer = std::thread::spawn(move || {
            let mut end = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
            text.chunks(written).for_each(|part| end.write_all(part).unwrap());
        });
        let (all, _) = drain(Reader::open(options.clone()).unwrap(), &options);
        writer.join().unwrap();
        prop_assert_eq!(windows_of(&all, overlap + 1), expected);
    }
}

#[test]
fn a_line_without_an_end_takes_no_more_than_a_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chromosome.fa");
    let letters: Vec<u8> =
        (0..100_000u32).map(|i| b"ACGT"[(i.wrapping_mul(2_654_435_761) >> 30) as usize]).collect();
    std::fs::write(&path, [&b">1\n"[..], &letters].concat()).unwrap();
    let options = options(&path, 24, 1000);
    let (all, _) = drain(Reader::open(options.clone()).unwrap(), &options);
    assert_eq!(windows_of(&all, 25), windows([letters.as_slice()], 25));
    assert!(all.rows.len() > 99 && all.rows.iter().all(|row| row.key.len() <= 1024));
    // As a row, it is longer than what is taken.
    let whole = Options { sequence_overlap: None, ..options };
    let mut reader = Reader::open(whole).unwrap();
    assert!(matches!(reader.next_chunk(), Err(Error::RowTooLong { .. })));
}

/// Gzip has these bytes as they are, so that a file can be cut off anywhere in them.
fn stored(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_header_that_was_cut_off_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    let text = b">one GATTACA\nACGTACGT\nAC\n>two ACGTACGTACGT and on\nTTGCA\n";
    let whole = stored(text);
    let expected = windows(sequences(text).0.iter().map(Vec::as_slice), 3);
    for (kept, chunk_bytes) in (11..whole.len()).flat_map(|kept| [(kept, 6), (kept, 4096)]) {
        std::fs::write(&path, &whole[..kept]).unwrap();
        let options = options(&path, 2, chunk_bytes);
        let Ok(mut reader) = Reader::open(options.clone()) else { continue };
        let parser = Parser::new(&options, hasher());
        let (mut batch, mut found, mut position) = (Batch::new(), Vec::new(), None);
        let failed = loop {
            match reader.next_chunk() {
                Ok(Some(chunk)) => {
                    position = Some(chunk.position().clone());
                    parser.parse(chunk, &mut batch).unwrap();
                    found.extend(windows(batch.keys(), 3));
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert!(failed, "{kept} bytes of {}", whole.len());
        assert!(expected.starts_with(&found), "{kept} bytes, chunks of {chunk_bytes}");
        std::fs::write(&path, &whole).unwrap();
        let rest = match position {
            Some(position) => Reader::resume(options.clone(), &position).unwrap(),
            None => Reader::open(options.clone()).unwrap(),
        };
        found.extend(windows_of(&drain(rest, &options).0, 3));
        assert_eq!(found, expected, "{kept} bytes, chunks of {chunk_bytes}");
    }
}

#[test]
fn inputs_do_not_run_into_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("a.fa", ">1\nACG"), ("b.fa", "T\n>2\nTT"), ("c.fq", "@\nGG\n+\nII\n"), ("d.fa", ">4\nA")]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut options = options(&folder.path().join("*"), 1, 2);
    options.format = Format::Auto;
    let (all, after) = drain(Reader::open(options.clone()).unwrap(), &options);
    assert_eq!(windows_of(&all, 2), ["AC", "CG", "TT", "GG"].map(|run| run.as_bytes().to_vec()));
    assert_eq!(all.bad_lines, [1]);
    for (position, before) in after {
        let rest = drain(Reader::resume(options.clone(), &position).unwrap(), &options).0;
        assert_eq!(before.followed_by(&rest), all);
    }
}

#[test]
fn a_header_that_is_too_long_is_refused_and_so_is_what_pieces_do_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fa");
    std::fs::write(&path, format!(">1\nACGT\n>{}\nACGT\n", "x".repeat(100))).unwrap();
    let mut reader = Reader::open(Options { record_bytes_max: 64, ..options(&path, 2, 16) }).unwrap();
    let error = loop {
        match reader.next_chunk() {
            Ok(chunk) => assert!(chunk.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::RowTooLong { line: 3, bytes: 102, limit_bytes: 64, .. }), "{error}");
    for wrong in [
        Options { sequence_overlap: Some(4097), ..options(&path, 2, 16) },
        Options { keys: vec!["id".to_owned()], ..options(&path, 2, 16) },
        Options { keep_rows: true, ..options(&path, 2, 16) },
    ] {
        let refused = Reader::open(wrong).err().unwrap();
        assert!(matches!(refused, Error::InvalidOption { name: "sequence_overlap", .. }), "{refused}");
    }
}

#[test]
fn a_place_that_is_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fa");
    std::fs::write(&path, ">1\nACGTACGT\nACGT").unwrap();
    let mut reader = Reader::open(options(&path, 2, 7)).unwrap();
    let position = reader.next_chunk().unwrap().unwrap().position().clone();
    let bytes = position.to_bytes();
    assert_eq!(bytes[0], 3);
    assert_eq!(bytes[bytes.len() - 8..], [2, 0, 2, 0, 0, 0, b'G', b'T']);
    assert_eq!(Position::from_bytes(&bytes).unwrap(), position);
    for length in 0..bytes.len() {
        assert!(Position::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    for (behind, bad) in [(8, 3), (8, 0), (7, 2), (6, 3), (5, 1), (1, b'\n')] {
        let mut damaged = bytes.clone();
        damaged[bytes.len() - behind] = bad;
        assert!(Position::from_bytes(&damaged).is_err(), "{behind} bytes before the end");
    }
}
