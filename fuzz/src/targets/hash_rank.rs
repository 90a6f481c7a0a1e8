//! The rank function's decoder: hostile bytes are refused, accepted ones answer below their length, one by one as together.

use crate::sketch_bytes::Codec;
use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::dictionary::{HashRank, HashRankOptions};

/// The target.
pub const TARGET: Target = Target { name: "hash_rank", seeds, run };

const CODEC: Codec<HashRank> =
    Codec { from_bytes: HashRank::from_bytes, to_bytes: HashRank::to_bytes, exercise };

fn seeds() -> Vec<Vec<u8>> {
    vec![
        seed_of(0, HashRankOptions::new()),
        seed_of(1000, HashRankOptions::new()),
        seed_of(400, HashRankOptions::new().bucket_keys(20).huffman_keys_max(8).skip_keys_min(Some(4))),
        seed_of(300, HashRankOptions::new().bucket_keys(100).skip_keys_min(None)),
    ]
}

fn seed_of(keys: u64, options: HashRankOptions) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| hasher.hash_u64(key)).collect();
    // One hash twice.
    hashes.extend(hashes.last().copied());
    hashes.sort_unstable();
    let mut builder = HashRank::builder(keys, hasher, options).expect("valid options");
    hashes.iter().for_each(|hash| builder.push(*hash).expect("hashes ascend"));
    builder.finish().to_bytes()
}

fn run(data: &[u8]) -> Verdict {
    CODEC.run(data, &seed_of(0, HashRankOptions::new()))
}

fn exercise(ranks: HashRank) {
    let hashes: Vec<KeyHash> = (0..100).map(|at| KeyHash::new(at << 57 | at, at << 32)).collect();
    // No order among them: only the hashes that it was built from have ranks in order, others some rank.
    let found = ranks.rank_many(&hashes);
    for (hash, rank) in std::iter::zip(hashes, found) {
        assert_eq!(ranks.rank(hash), rank);
        assert!(rank < ranks.len().max(1), "{rank} of {}", ranks.len());
    }
}
