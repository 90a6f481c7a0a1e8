//! The bytes of every sketch and of the rank function, pinned: a byte that changes trips this test, and wants a new format version.
//!
//! `OVERBANK_BLESS=1 cargo test -p overbank --test sketch_golden` writes the files anew.

use overbank::dictionary::{HashRank, HashRankOptions};
use overbank::sketch::{
    CocoSketch, CountMin, CountSketch, DdSketch, Elastic, HyperLogLog, Locher, LogLog, SpaceSaving, UnivMon,
};
use overbank::{HashKind, KeyHash, KeyHasher, Seed};
use std::path::Path;

fn hasher(kind: HashKind) -> KeyHasher {
    KeyHasher::new(kind, Seed(0x0123_4567_89ab_cdef_0011_2233_4455_6677))
}

fn check(name: &str, bytes: &[u8], decode_and_encode: impl Fn(&[u8]) -> Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("OVERBANK_BLESS").is_some() {
        std::fs::write(&path, bytes).expect("the golden folder is writable");
    }
    let golden = std::fs::read(&path).expect("the golden file exists");
    let differs = golden.iter().zip(bytes).position(|(a, b)| a != b);
    assert_eq!((differs, golden.len()), (None, bytes.len()), "{name}: first difference, length");
    assert_eq!(decode_and_encode(&golden), golden, "{name} read and written");
}

#[test]
fn count_min_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut narrow = CountMin::<u32>::with_shape(4, 6, 3, hasher).unwrap();
    let mut wide = CountMin::<u64>::with_shape(1, 6, 3, hasher).unwrap();
    for key in 0..40u64 {
        narrow.update(hasher.hash(&key.to_le_bytes()), key + 1);
        wide.update(hasher.hash(&key.to_le_bytes()), key << 40);
    }
    wide.update(hasher.hash(b"saturated"), u64::MAX);
    // Its page goes wide.
    narrow.update(hasher.hash(b"heavy"), 5 << 32);
    check("count_min_u32_v2.bin", &narrow.to_bytes(), |bytes| {
        CountMin::<u32>::from_bytes(bytes).unwrap().to_bytes()
    });
    check("count_min_u64_v2.bin", &wide.to_bytes(), |bytes| {
        CountMin::<u64>::from_bytes(bytes).unwrap().to_bytes()
    });
}

#[test]
fn hyperloglog_bytes_are_stable() {
    let hasher = hasher(HashKind::SipHash13);
    let mut sketch = HyperLogLog::new(6, hasher).unwrap();
    (0..300u64).for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes())));
    check("hyperloglog_v1.bin", &sketch.to_bytes(), |bytes| {
        HyperLogLog::from_bytes(bytes).unwrap().to_bytes()
    });
}

#[test]
fn space_saving_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = SpaceSaving::new(8, 6, hasher).unwrap();
    for i in 0..200u64 {
        let key = format!("key-{}", i * i % 23);
        sketch.update(hasher.hash(key.as_bytes()), key.as_bytes(), i % 5);
    }
    check("space_saving_v2.bin", &sketch.to_bytes(), |bytes| {
        SpaceSaving::from_bytes(bytes).unwrap().to_bytes()
    });
}

#[test]
fn ddsketch_bytes_are_stable() {
    let mut sketch = DdSketch::new(0.02).unwrap();
    for i in -50..200i32 {
        sketch.update(f64::from(i) * f64::from(i) * f64::from(i) / 7.0, 1 + i.unsigned_abs() as u64 % 3);
    }
    for value in [f64::MAX, f64::MIN, 5e-324, -1e-310, -0.0] {
        sketch.update(value, 1 << 40);
    }
    sketch.update(f64::NAN, 2);
    check("ddsketch_v2.bin", &sketch.to_bytes(), |bytes| DdSketch::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn count_sketch_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = CountSketch::new(7, 3, hasher).unwrap();
    (0..40i64).for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes()), (key - 10) << 30));
    check("count_sketch_v1.bin", &sketch.to_bytes(), |bytes| {
        CountSketch::from_bytes(bytes).unwrap().to_bytes()
    });
}

#[test]
fn coco_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = CocoSketch::new(5, 2, 6, hasher).unwrap().with_random(3);
    for i in 0..200u64 {
        let key = format!("key-{}", i * i % 123);
        sketch.update(hasher.hash(key.as_bytes()), key.as_bytes(), i % 5);
    }
    check("coco_v1.bin", &sketch.to_bytes(), |bytes| CocoSketch::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn log_log_bytes_are_stable() {
    let hasher = hasher(HashKind::SipHash13);
    let mut sketch = LogLog::new(6, hasher).unwrap();
    (0..300u64).for_each(|key| sketch.update(hasher.hash(&key.to_le_bytes())));
    check("log_log_v1.bin", &sketch.to_bytes(), |bytes| LogLog::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn locher_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = Locher::new(5, 3, 4, 6, hasher).unwrap();
    for i in 0..300u64 {
        let source = format!("source-{}", i * i % 23);
        sketch.update(hasher.hash(source.as_bytes()), source.as_bytes(), hasher.hash(&i.to_le_bytes()));
    }
    check("locher_v1.bin", &sketch.to_bytes(), |bytes| Locher::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn elastic_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = Elastic::new(3, 9, 2, 6, hasher).unwrap();
    for i in 0..600u64 {
        let key = format!("key-{}", i * i % 123);
        sketch.update(hasher.hash(key.as_bytes()), key.as_bytes(), i % 5 + (i % 7) * (i / 400) * 9);
    }
    check("elastic_v1.bin", &sketch.to_bytes(), |bytes| Elastic::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn univ_mon_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut sketch = UnivMon::new(3, 6, 3, 4, 6, hasher).unwrap();
    for i in 0..300u64 {
        let key = format!("key-{}", i * i % 123);
        sketch.update(hasher.hash(key.as_bytes()), key.as_bytes(), i % 5);
    }
    check("univ_mon_v1.bin", &sketch.to_bytes(), |bytes| UnivMon::from_bytes(bytes).unwrap().to_bytes());
}

#[test]
fn hash_rank_bytes_are_stable() {
    let hasher = hasher(HashKind::Xxh3);
    let mut hashes: Vec<KeyHash> = (0..3_000u64).map(|key| hasher.hash_u64(key)).collect();
    // A crowd, so that a bucket is among the escapes, and a repeated hash.
    hashes.extend((0..700).map(|low| KeyHash::new(5 << 60, low)));
    hashes.extend([hashes[0]; 2]);
    hashes.sort_unstable();
    let mut builder = HashRank::builder(3_000, hasher, HashRankOptions::new()).unwrap();
    hashes.iter().for_each(|hash| builder.push(*hash).unwrap());
    check("hash_rank_v1.bin", &builder.finish().to_bytes(), |bytes| {
        HashRank::from_bytes(bytes).unwrap().to_bytes()
    });
}
