//! The chunked readers against naive ones that hold the whole input: same rows, same malformed lines, whatever the
//! chunk size and compression; and a resumed reader gives the same remainder.

mod naive;

use keyhash::{HashKind, KeyHasher, Seed};
use naive::{Compression, Outcome, Row, compress};
use overbank_ingest::{Batch, Options, Parser, Position, Reader};
use proptest::prelude::*;
use std::path::Path;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

/// Everything that is left in `reader`, and the position after each chunk with the rows up to there.
fn drain(mut reader: Reader, options: &Options) -> (Outcome, Vec<(Position, Outcome)>) {
    let parser = Parser::new(options, hasher());
    let (mut all, mut after, mut batch) = (Outcome::default(), Vec::new(), Batch::new());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        let position = chunk.position().clone();
        parser.parse(chunk, &mut batch).unwrap();
        assert_eq!(batch.hashes(), batch.keys().map(|key| hasher().hash(key)).collect::<Vec<_>>());
        for i in 0..batch.rows() {
            let (weight, value) = (batch.weights().map(|w| w[i]), batch.values().map(|v| v[i]));
            all.rows.push(Row { key: batch.key(i).to_vec(), weight, value });
        }
        all.bad_lines.extend(batch.bad_rows().iter().map(|bad| bad.line));
        assert_eq!(batch.skipped(), batch.bad_rows().len() as u64);
        after.push((position, all.clone()));
    }
    (all, after)
}

fn check(text: &[u8], compression: Compression, options: &mut Options, expected: &Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, compress(text, compression)).unwrap();
    options.inputs = vec![path];
    options.bad_rows_kept = usize::MAX;
    let (all, after) = drain(Reader::open(options.clone()).unwrap(), options);
    assert_eq!(&all, expected);
    for (position, before) in after {
        let position = Position::from_bytes(&position.to_bytes()).unwrap();
        let (rest, _) = drain(Reader::resume(options.clone(), &position).unwrap(), options);
        assert_eq!(before.followed_by(&rest), all);
    }
}

fn compressions() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::Plain), Just(Compression::Gzip), Just(Compression::Zstd)]
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
    fn long_lines_are_skipped_alone(text in text(b"aaaaaaaaaaaa\n"), chunk_bytes in 1usize..12, limit in 1usize..20) {
        let mut options = Options::new([""; 0]);
        (options.chunk_bytes, options.record_bytes_max) = (chunk_bytes, limit);
        let limit = limit.max(chunk_bytes);
        check(&text, Compression::Plain, &mut options, &naive::lines_up_to(&text, limit));
    }

    #[test]
    fn fields_between_bytes_are_those_of_a_naive_reader(
        text in text(b"12;;;\\\t\r\n"), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut options = Options::new([""; 0]);
        options.chunk_bytes = chunk_bytes;
        options.format = "fields:;".parse().unwrap();
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
        options.format = "fields".parse().unwrap();
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
