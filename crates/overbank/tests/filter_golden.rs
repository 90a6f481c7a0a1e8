//! The bytes of every filter, pinned: a byte that changes trips this test, and wants a new format version.
//!
//! `OVERBANK_BLESS=1 cargo test -p overbank --test filter_golden` writes the files anew.

use overbank::filter::QuotientFilter;
use overbank::{HashKind, KeyHasher, Seed};
use std::path::Path;

#[test]
fn quotient_filter_bytes_are_stable() {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(0x0123_4567_89ab_cdef_0011_2233_4455_6677));
    let mut filter = QuotientFilter::growing(1000, 0.01, hasher).unwrap();
    let keys: Vec<_> = (0..90u64).map(|key| hasher.hash_u64(key)).collect();
    filter.insert_many(&keys).unwrap();
    // A run that passes the last quotient, so that there is a spill block.
    (0..5).for_each(|_| filter.insert(overbank::KeyHash(u128::MAX)).unwrap());
    let bytes = filter.to_bytes();

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/quotient_filter_v1.bin");
    if std::env::var_os("OVERBANK_BLESS").is_some() {
        std::fs::write(&path, &bytes).expect("the golden folder is writable");
    }
    let golden = std::fs::read(&path).expect("the golden file exists");
    let differs = golden.iter().zip(&bytes).position(|(a, b)| a != b);
    assert_eq!((differs, golden.len()), (None, bytes.len()), "first difference, length");
    let found = QuotientFilter::from_bytes(&golden).unwrap();
    assert_eq!(found, filter);
    assert_eq!(found.to_bytes(), golden);
    assert!(keys.iter().all(|&key| found.contains(key)));
}
