//! Reads with the crate and compares with what a naive reader found.

use super::{Compression, Outcome, Row, compress};
use keyhash::{HashKind, KeyHasher, Seed};
use overbank_ingest::{Batch, Options, Parser, Position, Reader};
use std::path::Path;

pub(crate) fn hasher() -> KeyHasher {
    KeyHasher::new(HashKind::Xxh3, Seed(7))
}

/// Everything that is left in `reader`, and the position after each chunk with the rows up to there.
pub(crate) fn drain(mut reader: Reader, options: &Options) -> (Outcome, Vec<(Position, Outcome)>) {
    let parser = Parser::new(options, hasher());
    let (mut all, mut after, mut batch) = (Outcome::default(), Vec::new(), Batch::new());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        let position = chunk.position().clone();
        parser.parse(chunk, &mut batch).unwrap();
        assert_eq!(batch.hashes(), batch.keys().map(|key| hasher().hash(key)).collect::<Vec<_>>());
        for i in 0..batch.rows() {
            let (weight, value) = (batch.weights().map(|w| w[i]), batch.values().map(|v| v[i]));
            let payload = (batch.payloads().len() > 0).then(|| batch.payload(i).to_vec());
            all.rows.push(Row { key: batch.key(i).to_vec(), weight, value, payload });
        }
        assert!([0, batch.rows()].contains(&batch.payloads().len()));
        all.bad_lines.extend(batch.bad_rows().iter().map(|bad| bad.line));
        assert_eq!(batch.skipped(), batch.bad_rows().len() as u64);
        after.push((position, all.clone()));
    }
    (all, after)
}

pub(crate) fn check(text: &[u8], compression: Compression, options: &mut Options, expected: &Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, compress(text, compression)).unwrap();
    check_file(&path, options, expected);
}

/// The file gives what is expected, whole and resumed behind every chunk.
pub(crate) fn check_file(path: &Path, options: &mut Options, expected: &Outcome) {
    options.inputs = vec![path.to_path_buf()];
    options.bad_rows_kept = usize::MAX;
    let (all, after) = drain(Reader::open(options.clone()).unwrap(), options);
    assert_eq!(&all, expected);
    for (position, before) in after {
        let position = Position::from_bytes(&position.to_bytes()).unwrap();
        let (rest, _) = drain(Reader::resume(options.clone(), &position).unwrap(), options);
        assert_eq!(before.followed_by(&rest), all);
    }
}
