//! Keys to hashes.

use crate::arrays::{keys, one, overbank_bytes, slice, write_all};
use crate::error::overbank_status::*;
use crate::error::{Answer, call, fail};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};

/// XXH3-128: for files. With a seed below 2^64, it is what `XXH3_128bits_withSeed` of xxHash gives.
pub const OVERBANK_HASH_XXH3: u32 = 1;
/// SipHash-1-3 of 128 bits: for keys that others choose, such as those of a network.
pub const OVERBANK_HASH_SIPHASH13: u32 = 2;

/// How keys are hashed: a plain value. What is to be merged or compared has the same one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_hasher {
    /// The seed's lower half.
    pub seed_low: u64,
    /// The seed's upper half.
    pub seed_high: u64,
    /// OVERBANK_HASH_XXH3 or OVERBANK_HASH_SIPHASH13.
    pub kind: u32,
}

/// The hash of a key: 128 bits. For XXH3 these are the two halves of `XXH128_hash_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct overbank_hash {
    /// The lower half.
    pub low: u64,
    /// The upper half: what decides page, partition and hash order.
    pub high: u64,
}

impl overbank_hash {
    pub(crate) fn key_hash(self) -> KeyHash {
        KeyHash::new(self.high, self.low)
    }
}

impl From<KeyHash> for overbank_hash {
    fn from(hash: KeyHash) -> Self {
        Self { low: hash.low(), high: hash.high() }
    }
}

impl From<KeyHasher> for overbank_hasher {
    fn from(hasher: KeyHasher) -> Self {
        let Seed(seed) = hasher.seed();
        Self { seed_low: seed as u64, seed_high: (seed >> 64) as u64, kind: u8::from(hasher.kind()).into() }
    }
}

/// The hasher that is meant.
///
/// # Safety
/// NULL, or one that is not changed meanwhile.
pub(crate) unsafe fn hasher_of(hasher: *const overbank_hasher) -> Answer<KeyHasher> {
    // SAFETY: the caller's duty.
    let hasher = unsafe { one(hasher, "the hasher") }?;
    let kind = u8::try_from(hasher.kind).ok().and_then(|code| HashKind::try_from(code).ok());
    let Some(kind) = kind else {
        let why = format!(
            "the hasher's kind cannot be {}: choose OVERBANK_HASH_XXH3 or OVERBANK_HASH_SIPHASH13",
            hasher.kind
        );
        return fail(OVERBANK_INVALID, why);
    };
    Ok(KeyHasher::new(kind, Seed(u128::from(hasher.seed_high) << 64 | u128::from(hasher.seed_low))))
}

/// The hashes that are meant.
///
/// # Safety
/// NULL, or so many that are not changed meanwhile.
pub(crate) unsafe fn hashes_of(hashes: *const overbank_hash, n: usize) -> Answer<Vec<KeyHash>> {
    // SAFETY: the caller's duty.
    let hashes = unsafe { slice(hashes, n, "hashes") }?;
    Ok(hashes.iter().map(|hash| hash.key_hash()).collect())
}

/// Hashes `n` keys to `hashes[0..n]`.
///
/// Cost: a call, some 10 ns, and the hash of each key, some 3 ns for 13 bytes by XXH3. The same bits come from xxHash's own
/// `XXH3_128bits_withSeed` (low64 and high64) inlined into C, with the seed `seed_low ^ rotate_left(seed_high, 32)`.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_hash_keys(
    hasher: *const overbank_hasher,
    keys_in: *const overbank_bytes,
    n: usize,
    hashes: *mut overbank_hash,
) -> i32 {
    call(|| {
        // SAFETY: the caller's duty, here and below.
        let (hasher, keys) = unsafe { (hasher_of(hasher)?, keys(keys_in, n, "keys")?) };
        let hashed = keys.iter().map(|key| hasher.hash(key).into());
        // SAFETY: as above.
        unsafe { write_all(hashes, hashed, "hashes") }
    })
}

/// Hashes `n` keys of `key_len` bytes each that stand one behind the other, without a pointer each.
///
/// # Safety
/// The crate's rules; `keys_in` points to `n * key_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_hash_fixed(
    hasher: *const overbank_hasher,
    keys_in: *const u8,
    key_len: usize,
    n: usize,
    hashes: *mut overbank_hash,
) -> i32 {
    call(|| {
        let Some(bytes) = n.checked_mul(key_len) else {
            return fail(OVERBANK_INVALID, format!("{n} keys of {key_len} bytes are more than memory"));
        };
        // SAFETY: the caller's duty, here and below.
        let (hasher, all) = unsafe { (hasher_of(hasher)?, slice(keys_in, bytes, "keys")?) };
        let hashed = (0..n).map(|i| hasher.hash(&all[i * key_len..(i + 1) * key_len]).into());
        // SAFETY: as above.
        unsafe { write_all(hashes, hashed, "hashes") }
    })
}
