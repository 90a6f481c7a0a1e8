//! The quotient filter's decoder: hostile bytes are refused, accepted ones answer, change, merge and change size.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::filter::QuotientFilter;

/// The target.
pub const TARGET: Target = Target { name: "quotient_filter", seeds, run };

const CODEC: Codec<QuotientFilter> =
    Codec { from_bytes: QuotientFilter::from_bytes, to_bytes: QuotientFilter::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    [0u64, 20, 110].map(seed_of).into()
}

fn seed_of(keys: u64) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut filter = QuotientFilter::new(7, 3, hasher).expect("a valid shape");
    let hashes: Vec<KeyHash> = (0..keys).map(|key| hasher.hash_u64(key)).collect();
    filter.insert_many(&hashes).expect("they fit");
    // Runs past the last quotient, for the decoder to see spill blocks.
    (0..keys / 20).for_each(|_| filter.insert(KeyHash(u128::MAX)).expect("they fit"));
    filter.to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0))
}

fn exercise(mut filter: QuotientFilter) {
    let spare_bits = 64 - filter.lg_quotients() - filter.remainder_bits();
    let held: Vec<u64> = filter.iter().collect();
    assert!(held.is_sorted() && held.len() as u64 == filter.len());
    let keys: Vec<KeyHash> =
        held.iter().map(|fingerprint| KeyHash::new(fingerprint << spare_bits, 0)).collect();
    assert!(filter.contains_many(&keys).iter().all(|&found| found), "what it holds is found");
    let before = filter.clone();
    if filter.double().is_ok() {
        assert!(filter.iter().eq(held.iter().copied()), "doubling keeps the fingerprints");
        filter.halve().expect("back again");
        assert!(filter == before, "halving undoes doubling");
    }
    if filter.merge(&before).is_ok() {
        assert_eq!(filter.len(), 2 * before.len());
        keys.iter().for_each(|&key| assert!(filter.remove(key), "each is there twice"));
        assert!(filter.iter().eq(held.iter().copied()), "what was merged is taken out");
    }
    keys.iter().for_each(|&key| assert!(filter.remove(key), "each is there once"));
    assert!(filter.is_empty());
}
