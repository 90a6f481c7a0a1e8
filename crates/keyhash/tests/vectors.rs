//! The hashes are the published ones, so that front ends in other languages meet ours.
//!
//! XXH3-128: the sanity vectors of the xxHash distribution (its generator buffer, seeds 0, PRIME32 and
//! PRIME64), as produced by the C library. SipHash: the 1-3 variant has no published 128-bit vectors, so the
//! oracle below follows the paper (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012) with both
//! round counts as parameters, is held to the published vectors of 2-4, and then judges 1-3.

use keyhash::{HashKind, KeyHash, KeyHasher, Seed, UnknownHashKind};
use proptest::prelude::*;

const PRIME32: u64 = 2_654_435_761;
const PRIME64: u64 = 11_400_714_785_074_694_797;

#[test]
fn xxh3_gives_the_published_vectors() {
    let mut state = PRIME32;
    let buffer: Vec<u8> = (0..2367)
        .map(|_| {
            let byte = (state >> 56) as u8;
            state = state.wrapping_mul(PRIME64);
            byte
        })
        .collect();
    for &(length, seed, expected) in XXH3_128 {
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed::from(seed));
        assert_eq!(hasher.hash(&buffer[..length]), KeyHash(expected), "length {length}, seed {seed:#x}");
    }
}

#[test]
fn sip_oracle_gives_the_published_2_4_vectors() {
    let key = u128::from_le_bytes(std::array::from_fn(|i| i as u8));
    let message: Vec<u8> = (0..64).collect();
    for (length, expected) in SIP_2_4.iter().enumerate() {
        assert_eq!(
            sip128(2, 4, key, &message[..length]).to_le_bytes(),
            expected.to_be_bytes(),
            "length {length}"
        );
    }
}

proptest! {
    #[test]
    fn sip13_agrees_with_the_oracle(seed: u128, key in prop::collection::vec(any::<u8>(), 0..80)) {
        let found = KeyHasher::new(HashKind::SipHash13, Seed(seed)).hash(&key);
        prop_assert_eq!(found, KeyHash(sip128(1, 3, seed, &key)));
    }

    #[test]
    fn batches_hash_as_single_keys(
        seed: u128,
        sip: bool,
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..30),
        numbers in prop::collection::vec(any::<u64>(), 0..30),
    ) {
        let hasher = KeyHasher::new(if sip { HashKind::SipHash13 } else { HashKind::Xxh3 }, Seed(seed));
        let ends: Vec<u32> = keys.iter().scan(0, |end, key| { *end += key.len() as u32; Some(*end) }).collect();
        let mut hashes = vec![KeyHash::default(); keys.len()];
        hasher.hash_many(&keys.concat(), &ends, &mut hashes);
        prop_assert_eq!(hashes, keys.iter().map(|key| hasher.hash(key)).collect::<Vec<_>>());

        let mut hashes = vec![KeyHash::default(); numbers.len()];
        hasher.hash_u64s(&numbers, &mut hashes);
        prop_assert_eq!(hashes, numbers.iter().map(|n| hasher.hash(&n.to_le_bytes())).collect::<Vec<_>>());
    }

    #[test]
    fn hash_order_is_the_order_of_halves(a: u128, b: u128) {
        let (a, b) = (KeyHash(a), KeyHash(b));
        prop_assert_eq!(a.cmp(&b), (a.high(), a.low()).cmp(&(b.high(), b.low())));
        prop_assert_eq!(KeyHash::new(a.high(), a.low()), a);
    }

    #[test]
    fn both_halves_of_the_seed_count(seed: u128, bit in 0u32..128) {
        for kind in [HashKind::Xxh3, HashKind::SipHash13] {
            let other = Seed(seed ^ 1 << bit);
            prop_assert_ne!(KeyHasher::new(kind, Seed(seed)).hash(b"key"), KeyHasher::new(kind, other).hash(b"key"));
            prop_assert_ne!(Seed(seed).fingerprint(), other.fingerprint());
        }
    }
}

#[test]
fn kinds_survive_their_code_and_unknown_codes_do_not() {
    for code in 0..=255u8 {
        match HashKind::try_from(code) {
            Ok(kind) => assert_eq!(u8::from(kind), code),
            Err(error) => assert_eq!(error, UnknownHashKind { code }),
        }
    }
    assert_eq!((0..=255u8).filter(|&code| HashKind::try_from(code).is_ok()).count(), 2);
}

#[test]
#[should_panic(expected = "one hash for each key")]
fn a_batch_needs_a_place_for_each_hash() {
    KeyHasher::new(HashKind::Xxh3, Seed(0)).hash_many(b"ab", &[1, 2], &mut [KeyHash::default()]);
}

/// SipHash-c-d with 128 bits of output; the first eight bytes of the reference output are the low half.
fn sip128(c: u32, d: u32, key: u128, message: &[u8]) -> u128 {
    let (k0, k1) = (key as u64, (key >> 64) as u64);
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut padded = message.to_vec();
    padded.resize((message.len() / 8 + 1) * 8, 0);
    let last = padded.len() - 1;
    padded[last] = message.len() as u8;
    for word in padded.chunks(8) {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
        v[3] ^= word;
        (0..c).for_each(|_| sip_round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xee;
    (0..d).for_each(|_| sip_round(&mut v));
    let low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    (0..d).for_each(|_| sip_round(&mut v));
    u128::from(v[0] ^ v[1] ^ v[2] ^ v[3]) << 64 | u128::from(low)
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// Outputs for key 00 01 .. 0f and messages of 0, 1, 2 .. bytes 00 01 02 ..
const SIP_2_4: [u128; 2] =
    [0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293, 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45];

/// (length, seed, hash)
#[rustfmt::skip]
const XXH3_128: &[(usize, u64, u128)] = &[
    (0, 0, 0x99aa06d3014798d86001c324468d497f),
    (0, PRIME32, 0x92220ae55e14ab505444f7869c671ab0),
    (0, PRIME64, 0x00feaa732a3ce25ea986dfc5d7605bfe),
    (1, 0, 0xa6cd5e9392000f6ac44bdff4074eecdb),
    (1, PRIME32, 0x89b99554ba22467cb53d5557e7f76f8d),
    (1, PRIME64, 0x20e49abcc53b3842032be332dd766ef8),
    (3, 0, 0x20efc49ff02422ea54247382a8d6b94d),
    (3, PRIME32, 0x48f82c2fe0abd468f173d14dad53a5dc),
    (3, PRIME64, 0x1c7ecf6a308cf00e634b8990b4976373),
    (4, 0, 0x970d585ac632bf8e2e7d8d6876a39fe9),
    (4, PRIME32, 0x7170492a2aa08992ef78d5c489cfe10b),
    (4, PRIME64, 0x3d53e5dfd837d927bfaf51f1e67e0b0f),
    (8, 0, 0x47a7f080d82bb45664c69cab4bb21dc5),
    (8, PRIME32, 0xf959013232655ff15f462f3de2e8b940),
    (8, PRIME64, 0xf50cec145bcd5c5a7b29471dc729b5ff),
    (9, 0, 0x564ef6078950d457ed7ccbc501eb7501),
    (9, PRIME32, 0x75fb6d1bd353b45c07de00b45eee033a),
    (9, PRIME64, 0x6b380b43ffa61042aef5dfc0ac9f9044),
    (16, 0, 0xc68c368ecf8a9c05562980258a998629),
    (16, PRIME32, 0x3767c90d0cdbb93db07eeeab4c56392b),
    (16, PRIME64, 0x6ffcb80cd33085c80346d13a7a5498c7),
    (17, 0, 0x955fa78643ed3669abbc12d11973d7db),
    (17, PRIME32, 0x99e7c628e75d64313cc9ff6cae79accb),
    (17, PRIME64, 0xd77681219e464828980a14119985a7df),
    (64, 0, 0x6d90e81a9b0fd622efdb6a44690721a9),
    (64, PRIME32, 0x5f29e4edba49a7ae592b9762bbebcebb),
    (64, PRIME64, 0x37b738968d40bda59405ba2affa95ceb),
    (127, 0, 0xdcfae8002712db1c802a565a8a79a999),
    (127, PRIME32, 0xfd507af3ede62925716a7d18e9019e45),
    (127, PRIME64, 0x37452e1967d3445b54c9d67f8b29dc74),
    (128, 0, 0x39992220e045260aebb15e34a7fb5ab1),
    (128, PRIME32, 0x98801187df8d614d1453819941d93c1d),
    (128, PRIME64, 0xa0f7ccb68ee02add8394f5c51f1d8246),
    (129, 0, 0x03815fc91f1b30b686c9e3bc8f0a3b5c),
    (129, PRIME32, 0xb7f7349a47b39e56b37b716f66b40f02),
    (129, PRIME64, 0xad559266067c0bf3d4aae26fcec7dc03),
    (240, 0, 0xaa4202daa2769dc85c9aae94c8ebe5a0),
    (240, PRIME32, 0xda888104beae5ae0ca19087f1d335dae),
    (240, PRIME64, 0x29d2133d6ea58c5b604e98db085c1864),
    (241, 0, 0x99a80ecf0ecfc647c5a639ecd2030e5e),
    (241, PRIME32, 0x4bf2229c3a8fc3c35927e3637bac8149),
    (241, PRIME64, 0xec64afae6a137582dda9b0a161d4829a),
    (255, 0, 0x961375c87e09efbce98f979f4ed8a197),
    (255, PRIME32, 0xee657e12607adffe437ea109cb7ce24d),
    (255, PRIME64, 0xe72ec0137d62df442aca7901d9538c75),
    (256, 0, 0x8b1c66091423d28855de574ad89d0ac5),
    (256, PRIME32, 0xd540cc8620d8dd65443d04d43f60c57f),
    (256, PRIME64, 0xaaa57235b92d5e7c4d30234b7a3aa61c),
    (512, 0, 0x18d2d110dcc9bca1617e49599013cb6b),
    (512, PRIME32, 0x06eeb0d56508040f545f610e9f5a78ec),
    (512, PRIME64, 0x925d06b8ec5b80403ce457de14c27708),
    (1024, 0, 0x0d30d24071c64c57dd85c9b5c1109c5c),
    (1024, PRIME32, 0x885b0b4debe3d2ffb8b95c07cd4a75fa),
    (1024, PRIME64, 0x17600efe2b493a18ef368a8a2ebabaef),
    (2367, 0, 0xe89c0f6ff369b427cb37aeb9e5d361ed),
    (2367, PRIME32, 0xd23aae4b76c31ecb6f5360ae69c2f406),
    (2367, PRIME64, 0xccb7a94cca1a6496d2db3415b942b42a),
];
