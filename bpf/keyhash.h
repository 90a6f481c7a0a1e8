/*
 * The hash of a flow's key, as the library has it: XXH3-128 of keys of 13 bytes (a 5-tuple of IPv4) and of 37 (of IPv6), and the columns of
 * rows. For the kernel's programs and for C alike: 64-bit arithmetic alone, no loops, no tables but the secret.
 *
 *   key ──▶ overbank_xxh3_13, _37 ──▶ high, low ──▶ fold = high ^ low ──▶ overbank_column(fold, row, width)
 *
 * Cost: 4 products of 64 by 64 bits for 13 bytes, 5 for 37, each of four products of 32 bits where the processor gives no upper half; a
 * column has two. Held to the library by the test `vectors` of crates/xdp.
 *
 * Source: xxHash 0.8, doc/xxhash_spec.md; Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
 */
#ifndef OVERBANK_KEYHASH_H
#define OVERBANK_KEYHASH_H

typedef unsigned long long overbank_u64;
typedef unsigned int overbank_u32;
typedef unsigned char overbank_u8;

#define OVERBANK_INLINE static inline __attribute__((always_inline, unused))

#define OVERBANK_PRIME32_2 0x85EBCA77ULL
#define OVERBANK_PRIME64_1 0x9E3779B185EBCA87ULL
#define OVERBANK_PRIME64_2 0xC2B2AE3D27D4EB4FULL
#define OVERBANK_PRIME64_4 0x85EBCA77C2B2AE63ULL

/* The first words of XXH3's secret. */
#define OVERBANK_SECRET_0 0xbe4ba423396cfeb8ULL
#define OVERBANK_SECRET_8 0x1cad21f72c81017cULL
#define OVERBANK_SECRET_16 0xdb979083e96dd4deULL
#define OVERBANK_SECRET_24 0x1f67b3b7a4a44072ULL
#define OVERBANK_SECRET_32 0x78e5c0cc4ee679cbULL
#define OVERBANK_SECRET_40 0x2172ffcc7dd05a82ULL
#define OVERBANK_SECRET_48 0x8e2443f7744608b8ULL
#define OVERBANK_SECRET_56 0x4c263a81e69035e0ULL

struct overbank_u128 {
    overbank_u64 low, high;
};

/* A word of the key, from any address, on processors that put the lowest byte first. */
OVERBANK_INLINE overbank_u64 overbank_word(const overbank_u8 *at) {
    overbank_u64 word;
    __builtin_memcpy(&word, at, sizeof word);
    return word;
}

/* The upper half of a product, from halves: the kernel's machine has no such instruction. */
OVERBANK_INLINE struct overbank_u128 overbank_product(overbank_u64 a, overbank_u64 b) {
    overbank_u64 al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
    overbank_u64 ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
    overbank_u64 middle = (ll >> 32) + (lh & 0xffffffff) + hl;
    struct overbank_u128 all = {a * b, (lh >> 32) + (middle >> 32) + hh};
    return all;
}

OVERBANK_INLINE overbank_u64 overbank_folded(overbank_u64 a, overbank_u64 b) {
    struct overbank_u128 all = overbank_product(a, b);
    return all.low ^ all.high;
}

OVERBANK_INLINE overbank_u64 overbank_avalanche(overbank_u64 h) {
    h ^= h >> 37;
    h *= 0x165667919E3779F9ULL;
    return h ^ (h >> 32);
}

OVERBANK_INLINE overbank_u64 overbank_swapped(overbank_u64 word) {
    return __builtin_bswap64(word);
}

/* XXH3-128 of 13 bytes, of the branch for 9 to 16. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3_13(const overbank_u8 *key, overbank_u64 seed) {
    overbank_u64 flip_low = (OVERBANK_SECRET_32 ^ OVERBANK_SECRET_40) - seed;
    overbank_u64 flip_high = (OVERBANK_SECRET_48 ^ OVERBANK_SECRET_56) + seed;
    overbank_u64 first = overbank_word(key), last = overbank_word(key + 5);
    struct overbank_u128 m = overbank_product(first ^ last ^ flip_low, OVERBANK_PRIME64_1), h;
    m.low += (overbank_u64)(13 - 1) << 54;
    last ^= flip_high;
    m.high += last + (last & 0xffffffff) * (OVERBANK_PRIME32_2 - 1);
    m.low ^= overbank_swapped(m.high);
    h = overbank_product(m.low, OVERBANK_PRIME64_2);
    h.high += m.high * OVERBANK_PRIME64_2;
    h.low = overbank_avalanche(h.low);
    h.high = overbank_avalanche(h.high);
    return h;
}

OVERBANK_INLINE overbank_u64 overbank_mixed(const overbank_u8 *at, overbank_u64 one, overbank_u64 two, overbank_u64 seed) {
    return overbank_folded(overbank_word(at) ^ (one + seed), overbank_word(at + 8) ^ (two - seed));
}

/* XXH3-128 of 37 bytes, of the branch for 17 to 128. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3_37(const overbank_u8 *key, overbank_u64 seed) {
    struct overbank_u128 sum = {37 * OVERBANK_PRIME64_1, 0}, h;
    sum.low += overbank_mixed(key + 16, OVERBANK_SECRET_32, OVERBANK_SECRET_40, seed);
    sum.low ^= overbank_word(key + 5) + overbank_word(key + 13);
    sum.high += overbank_mixed(key + 5, OVERBANK_SECRET_48, OVERBANK_SECRET_56, seed);
    sum.high ^= overbank_word(key + 16) + overbank_word(key + 24);
    sum.low += overbank_mixed(key, OVERBANK_SECRET_0, OVERBANK_SECRET_8, seed);
    sum.low ^= overbank_word(key + 21) + overbank_word(key + 29);
    sum.high += overbank_mixed(key + 21, OVERBANK_SECRET_16, OVERBANK_SECRET_24, seed);
    sum.high ^= overbank_word(key) + overbank_word(key + 8);
    h.low = overbank_avalanche(sum.low + sum.high);
    h.high = 0 - overbank_avalanche(sum.low * OVERBANK_PRIME64_1 + sum.high * OVERBANK_PRIME64_4 +
                                    (37 - seed) * OVERBANK_PRIME64_2);
    return h;
}

/* The i-th output of SplitMix64 from state 0. A constant where i is one. */
OVERBANK_INLINE overbank_u64 overbank_constant(overbank_u64 i) {
    overbank_u64 state = (i + 1) * 0x9e3779b97f4a7c15ULL;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
    return state ^ (state >> 31);
}

/* The column of a row of `2^lg_width`, 1 to 32: the first bits of one product. */
OVERBANK_INLINE overbank_u32 overbank_column(overbank_u64 fold, overbank_u32 row, overbank_u32 lg_width) {
    overbank_u64 mixed = (fold ^ overbank_constant(2 * row)) * (overbank_constant(2 * row + 1) | 1);
    return (overbank_u32)(mixed >> (64 - lg_width));
}

#endif
