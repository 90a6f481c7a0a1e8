//! What a build was made without it refuses by name; run with any choice of features (`cargo xtask features` runs it with none).

#![allow(clippy::unwrap_used)]

use overbank_ingest::{Error, Format, Options, Reader};

/// The first bytes of an input of each kind, and the feature that reads it.
const KINDS: &[(&str, &[u8], bool)] = &[
    ("bzip2", b"BZh9\x31\x41\x59\x26\x53\x59", cfg!(feature = "bzip2")),
    ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\xff", cfg!(feature = "gzip")),
    ("lz4", b"\x04\x22\x4d\x18\x60\x40\x82", cfg!(feature = "lz4")),
    ("parquet", b"PAR1\0\0\0\0PAR1", cfg!(feature = "parquet")),
    ("xz", b"\xfd7zXZ\0\0\x04", cfg!(feature = "xz")),
    ("zstd", b"\x28\xb5\x2f\xfd\x24\0\x01\0\0", cfg!(feature = "zstd")),
];

#[test]
fn what_was_left_out_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for &(feature, bytes, is_built) in KINDS {
        let path = folder.path().join(feature);
        std::fs::write(&path, bytes).unwrap();
        let mut options = Options::new([&path]);
        options.keys = if feature == "parquet" { vec!["key".into()] } else { Vec::new() };
        let outcome = Reader::open(options).unwrap().next_chunk();
        match outcome {
            Err(error @ Error::NotBuilt { .. }) => {
                let text = error.to_string();
                assert!(!is_built && text.contains(&format!("the feature `{feature}`")), "{text}");
            }
            other => assert!(is_built, "{feature}: {other:?}"),
        }
    }
}

#[test]
fn plain_text_is_read_without_any_feature() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a\nb\n").unwrap();
    let mut options = Options::new([file.path()]);
    options.format = Format::Lines;
    let chunk = Reader::open(options).unwrap().next_chunk().unwrap().unwrap();
    assert_eq!(chunk.text(), b"a\nb\n");
}
