//! The Bloom filter as everybody knows it: `k` bits a key, anywhere in the filter, one hash function a bit.

use crate::Result;
use keyhash::{KeyHash, column, columns};

/// Hash functions: those of the cascade filter's evaluation, optimal near a false-positive rate of 2^-11.
pub(crate) const HASH_FUNCTIONS: usize = 11;

/// Bits a key with which [`HASH_FUNCTIONS`] functions give the false-positive rate: from `(1 - e^(-k / bits))^k = rate`.
pub fn bloom_bits_a_key(rate: f64) -> f64 {
    let k = HASH_FUNCTIONS as f64;
    -k / (1.0 - rate.powf(1.0 / k)).ln()
}

/// The bits of a key in a filter of `bits` bits.
#[inline]
pub fn bloom_positions(hash: KeyHash, bits: u64) -> [u64; HASH_FUNCTIONS] {
    columns(hash.fold(), bits)
}

/// Sets a key's bits in a filter that is all of `bytes`.
#[inline]
pub fn bloom_insert(bytes: &mut [u8], hash: KeyHash) {
    for at in bloom_positions(hash, bytes.len() as u64 * 8) {
        bytes[(at / 8) as usize] |= 1 << (at % 8);
    }
}

/// Whether all bits of a key are set; a key that is not in ends the search at its first clear bit.
#[inline]
pub fn bloom_contains(bytes: &[u8], hash: KeyHash) -> bool {
    let (fold, bits) = (hash.fold(), bytes.len() as u64 * 8);
    (0..HASH_FUNCTIONS as u32).all(|function| {
        let at = column(fold, function, bits);
        bytes[(at / 8) as usize] >> (at % 8) & 1 != 0
    })
}

/// Bytes, a multiple of `unit_bytes`, of a filter of `keys` keys.
///
/// # Errors
/// When that many bytes cannot be addressed.
pub fn bloom_bytes(keys: u64, rate: f64, unit_bytes: u64) -> Result<usize> {
    let bytes = (keys as f64 * bloom_bits_a_key(rate) / 8.0) as u64;
    Ok(usize::try_from(bytes.max(1).next_multiple_of(unit_bytes))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use keyhash::{HashKind, KeyHasher, Seed};

    #[test]
    fn keys_are_found_and_others_at_the_rate() {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
        let (rate, keys) = (0.01, 20_000);
        let mut bytes = vec![0; bloom_bytes(keys, rate, 1).expect("small")];
        let mut random = Random::new(1);
        let mut hashes =
            |count| (0..count).map(|_| hasher.hash_u64(random.next_u64())).collect::<Vec<KeyHash>>();
        let (present, absent) = (hashes(keys), hashes(200_000));
        present.iter().for_each(|&hash| bloom_insert(&mut bytes, hash));
        assert!(present.iter().all(|&hash| bloom_contains(&bytes, hash)));
        let hits = absent.iter().filter(|&&hash| bloom_contains(&bytes, hash)).count();
        // 2000 expected, standard deviation 45 and that of the filter's own fill.
        assert!((1_600..2_400).contains(&hits), "{hits} of 200,000");
    }

    #[test]
    fn at_the_papers_rate_it_takes_about_the_papers_16_bits() {
        assert!((16.2..16.4).contains(&bloom_bits_a_key(4e-4)));
        assert_eq!(bloom_bytes(1000, 4e-4, 4096).expect("small"), 4096);
    }
}
