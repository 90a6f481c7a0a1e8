//! The decoder of the sparse index: any bytes are refused or are exactly what would be written, and then name blocks that there are.

use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank::trie::{SparseOptions, SparseTries};

/// The target. Input: the byte form.
pub const TARGET: Target = Target { name: "sparse_tries", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    [(0, 1), (1000, 40), (500, 4), (300, 1)].map(|(keys, block_items)| seed_of(keys, block_items)).into()
}

fn seed_of(keys: u64, block_items: u32) -> Vec<u8> {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| hasher.hash_u64(key)).collect();
    // One hash in two blocks.
    hashes.extend(vec![KeyHash::new(1 << 63, 5); if keys > 0 { block_items as usize + 1 } else { 0 }]);
    hashes.sort_unstable();
    let options = SparseOptions::for_blocks_of(block_items).bucket_keys(100);
    let mut builder = SparseTries::builder(0..=u64::MAX, keys, block_items, options).expect("valid options");
    hashes.iter().for_each(|hash| builder.push(*hash).expect("hashes ascend"));
    let mut bytes = Vec::new();
    builder.finish().encode(&mut bytes);
    bytes
}

fn run(data: &[u8]) -> Verdict {
    let Ok(tries) = SparseTries::decode(data) else { return Verdict::Refused };
    let mut bytes = Vec::new();
    tries.encode(&mut bytes);
    assert!(bytes == data, "bytes that were accepted are not those that would be written");
    let blocks = tries.len().div_ceil(u64::from(tries.block_items()));
    for at in 0..100 {
        let found = tries.find(KeyHash::new(at << 57 | at, at << 32));
        assert!(found.start <= found.end && found.end <= blocks, "{found:?} of {blocks}");
    }
    Verdict::Accepted
}
