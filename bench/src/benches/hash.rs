//! Hashing of keys at the front door: both hash kinds, over short and long keys. The pattern for new benches.

use crate::{Bench, Case, Clock, Random, Result, Run, digest_u64s};
use keyhash::{HashKind, KeyHasher, Seed};

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "hash",
    about: "keys hashed a second, by hash kind and key length",
    engines: &["overbank", "siphash13"],
    run,
};

fn run(run: &mut Run<'_>) -> Result<()> {
    let keys = run.pick([1_000, 1_000_000, 8_000_000]);
    for key_bytes in [8, 64] {
        let mut random = Random::new(1);
        let input: Vec<u8> =
            (0..keys * key_bytes / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        let hash_all = |kind| {
            let input = &input;
            move |clock: &mut Clock| {
                let hasher = KeyHasher::new(kind, Seed(7));
                let hashes: Vec<u64> =
                    clock.time(|| input.chunks_exact(key_bytes).map(|key| hasher.hash(key).fold()).collect());
                Ok(digest_u64s(hashes))
            }
        };
        run.contest(Case::Hash)
            .param("keys", keys)
            .param("key_bytes", key_bytes)
            .ops(keys)
            .exact("overbank", hash_all(HashKind::Xxh3))
            // Another function: the same keys, other hashes, so the digests are not compared.
            .approximate("siphash13", hash_all(HashKind::SipHash13))
            .finish()?;
    }
    Ok(())
}
