//! The chunked readers against naive ones that hold the whole input: same rows, same malformed lines, whatever the
//! chunk size and compression; and a resumed reader gives the same remainder.

#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{check, drain, hasher};
use naive::{Compression, Outcome, Row, compress};
use overbank_ingest::{Batch, Delimiter, Error, Format, Options, Parser, Reader};
use proptest::prelude::*;
use std::path::Path;

fn compressions() -> impl Strategy<Value = Compression> {
    use Compression::{Bzip2, Gzip, Lz4, Plain, Xz, Zstd};
    prop::sample::select(vec![Plain, Gzip, Zstd, Xz, Bzip2, Lz4])
}

/// Text over few bytes, so that quotes, delimiters and line ends meet in every way.
fn text(alphabet: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(alphabet), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lines_are_those_of_a_naive_reader(
        text in text(b"ab \r\n\n"), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut options = Options::new([""; 0]);
        options.chunk_bytes = chunk_bytes;
        check(&text, compression, &mut options, &naive::lines(&text));
    }

    #[test]
    fn the_first_line_that_is_too_long_ends_the_stream(
        text in text(b"aaaaaaaaaaaa\n"), chunk_bytes in 1usize..12, limit in 1usize..20,
    ) {
        let mut options = Options::new([""; 0]);
        (options.chunk_bytes, options.record_bytes_max) = (chunk_bytes, limit);
        let limit = limit.max(chunk_bytes);
        let (expected, too_long) = naive::lines_up_to(&text, limit);
        let Some((line, bytes)) = too_long else {
            check(&text, Compression::Plain, &mut options, &expected);
            return Ok(());
        };
        let folder = tempfile::tempdir().unwrap();
        options.inputs = vec![folder.path().join("input")];
        std::fs::write(&options.inputs[0], &text).unwrap();
        let parser = Parser::new(&options, hasher());
        let (mut reader, mut batch, mut keys) = (Reader::open(options).unwrap(), Batch::new(), Vec::new());
        let error = loop {
            match reader.next_chunk() {
                Ok(chunk) => parser.parse(chunk.unwrap(), &mut batch).unwrap(),
                Err(error) => break error,
            }
            keys.extend(batch.keys().map(<[u8]>::to_vec));
        };
        prop_assert_eq!(keys, expected.rows.into_iter().map(|row| row.key).collect::<Vec<_>>());
        prop_assert!(
            matches!(error, Error::RowTooLong { line: l, bytes: b, is_whole: true, .. } if (l, b) == (line, bytes)),
            "{error}, not line {line} of {bytes} bytes"
        );
    }

    #[test]
    fn lines_that_nul_ends_are_those_of_a_naive_reader(
        text in text(b"ab \r\n\0\0"), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut options = Options::new([""; 0]);
        (options.chunk_bytes, options.nul_ends_lines) = (chunk_bytes, true);
        let mut rows: Vec<&[u8]> = text.split(|&byte| byte == 0).collect();
        rows.pop_if(|last| last.is_empty());
        let expected = Outcome { rows: rows.into_iter().map(Row::of).collect(), bad_lines: Vec::new() };
        check(&text, compression, &mut options, &expected);
    }

    #[test]
    fn fields_between_bytes_are_those_of_a_naive_reader(
        text in text(b"12;;;\\\t\r\n"), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut options = Options::new([""; 0]);
        options.chunk_bytes = chunk_bytes;
        options.format = Format::Delimited(Delimiter::Byte(b';'));
        options.keys = vec!["2".into(), "1".into()];
        options.weight = Some("3".into());
        options.value = Some("1".into());
        let expected = naive::delimited(&text, Some(b';'), &[1, 0], Some(2), Some(0));
        check(&text, compression, &mut options, &expected);
    }

    #[test]
    fn fields_between_blanks_are_those_of_a_naive_reader(
        text in text(b"12  \t\r\n"), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut options = Options::new([""; 0]);
        options.chunk_bytes = chunk_bytes;
        options.format = Format::Delimited(Delimiter::Whitespace);
        options.keys = vec!["2".into()];
        options.value = Some("3".into());
        let expected = naive::delimited(&text, None, &[1], None, Some(2));
        check(&text, compression, &mut options, &expected);
    }
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_key() {
    let expected = naive::lines(b"a\nb");
    check(b"\xef\xbb\xbfa\nb", Compression::Gzip, &mut Options::new([""; 0]), &expected);
}

#[test]
fn inputs_follow_each_other_and_resume_in_the_middle_of_any() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("b.log", "3\n4\n5"), ("a.log.gz", "1\n2\n"), ("c.log", ""), ("d.log.zst", "6\n\n7\n")]
    {
        let compression = match Path::new(name).extension().and_then(|e| e.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::Plain,
        };
        std::fs::write(folder.path().join(name), compress(text.as_bytes(), compression)).unwrap();
    }
    let mut options = Options::new([folder.path().join("*.log*")]);
    options.chunk_bytes = 2;
    let reader = Reader::open(options.clone()).unwrap();
    assert_eq!(reader.inputs().len(), 4);
    let progress = reader.progress();
    let (all, after) = drain(reader, &options);
    assert_eq!(progress.total_bytes(), Some(progress.bytes_read()));
    assert_eq!(all, naive::lines(b"1\n2\n3\n4\n5\n6\n\n7\n"));
    for (position, before) in after {
        let reader = Reader::resume(options.clone(), &position).unwrap();
        let progress = reader.progress();
        assert_eq!(before.followed_by(&drain(reader, &options).0), all);
        assert_eq!(progress.total_bytes(), Some(progress.bytes_read()));
    }
}
