/*
 * The hash of a flow's key, as the library has it: XXH3-128, the columns of rows, signs and ranks. For the kernel's programs and for C alike:
 * 64-bit arithmetic alone, no loops, no tables but the secret.
 *
 *   key: 4, 8, 13 bytes of IPv4, 16, 32, 37 of IPv6 ──▶ overbank_xxh3 ──▶ high, low
 *   fold = high ^ low ──▶ overbank_column(fold, row, lg_width)      low ──▶ overbank_is_negative(low, row)
 *
 * Cost: 1 product of 64 by 64 bits for 4 and 8 bytes, 2 for 13 and 16, 2 for 32, 4 for 37, each of four products of 32 bits where the
 * processor gives no upper half; a column has one. Held to the library by the test `vectors` of crates/xdp.
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

/* XXH3-128 of 4 and of 8 bytes, of the branch for 4 to 8. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3_short(const overbank_u8 *key, overbank_u32 len, overbank_u64 seed) {
    overbank_u32 first, last;
    __builtin_memcpy(&first, key, sizeof first);
    __builtin_memcpy(&last, key + len - 4, sizeof last);
    seed ^= (overbank_u64)__builtin_bswap32((overbank_u32)seed) << 32;
    overbank_u64 flip = (OVERBANK_SECRET_16 ^ OVERBANK_SECRET_24) + seed;
    overbank_u64 word = (first | (overbank_u64)last << 32) ^ flip;
    struct overbank_u128 h = overbank_product(word, OVERBANK_PRIME64_1 + (len << 2));
    h.high += h.low << 1;
    h.low ^= h.high >> 3;
    h.low ^= h.low >> 35;
    h.low *= 0x9FB21C651E98DF25ULL;
    h.low ^= h.low >> 28;
    h.high = overbank_avalanche(h.high);
    return h;
}

/* XXH3-128 of 13 and of 16 bytes, of the branch for 9 to 16. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3_middle(const overbank_u8 *key, overbank_u32 len, overbank_u64 seed) {
    overbank_u64 flip_low = (OVERBANK_SECRET_32 ^ OVERBANK_SECRET_40) - seed;
    overbank_u64 flip_high = (OVERBANK_SECRET_48 ^ OVERBANK_SECRET_56) + seed;
    overbank_u64 first = overbank_word(key), last = overbank_word(key + len - 8);
    struct overbank_u128 m = overbank_product(first ^ last ^ flip_low, OVERBANK_PRIME64_1), h;
    m.low += (overbank_u64)(len - 1) << 54;
    last ^= flip_high;
    m.high += last + (last & 0xffffffff) * (OVERBANK_PRIME32_2 - 1);
    m.low ^= __builtin_bswap64(m.high);
    h = overbank_product(m.low, OVERBANK_PRIME64_2);
    h.high += m.high * OVERBANK_PRIME64_2;
    h.low = overbank_avalanche(h.low);
    h.high = overbank_avalanche(h.high);
    return h;
}

OVERBANK_INLINE overbank_u64 overbank_mixed(const overbank_u8 *at, overbank_u64 one, overbank_u64 two, overbank_u64 seed) {
    return overbank_folded(overbank_word(at) ^ (one + seed), overbank_word(at + 8) ^ (two - seed));
}

/* XXH3-128 of 32 and of 37 bytes, of the branch for 17 to 128. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3_long(const overbank_u8 *key, overbank_u32 len, overbank_u64 seed) {
    struct overbank_u128 sum = {len * OVERBANK_PRIME64_1, 0}, h;
    const overbank_u8 *last = key + len - 16, *before = key + len - 32;
    if (len > 32) {
        sum.low += overbank_mixed(key + 16, OVERBANK_SECRET_32, OVERBANK_SECRET_40, seed);
        sum.low ^= overbank_word(before) + overbank_word(before + 8);
        sum.high += overbank_mixed(before, OVERBANK_SECRET_48, OVERBANK_SECRET_56, seed);
        sum.high ^= overbank_word(key + 16) + overbank_word(key + 24);
    }
    sum.low += overbank_mixed(key, OVERBANK_SECRET_0, OVERBANK_SECRET_8, seed);
    sum.low ^= overbank_word(last) + overbank_word(last + 8);
    sum.high += overbank_mixed(last, OVERBANK_SECRET_16, OVERBANK_SECRET_24, seed);
    sum.high ^= overbank_word(key) + overbank_word(key + 8);
    h.low = overbank_avalanche(sum.low + sum.high);
    h.high = 0 - overbank_avalanche(sum.low * OVERBANK_PRIME64_1 + sum.high * OVERBANK_PRIME64_4 +
                                    (len - seed) * OVERBANK_PRIME64_2);
    return h;
}

/* The hash of a key of one of these lengths; of another length it is 0. */
OVERBANK_INLINE struct overbank_u128 overbank_xxh3(const overbank_u8 *key, overbank_u32 len, overbank_u64 seed) {
    struct overbank_u128 none = {0, 0};
    switch (len) {
    case 4: return overbank_xxh3_short(key, 4, seed);
    case 8: return overbank_xxh3_short(key, 8, seed);
    case 13: return overbank_xxh3_middle(key, 13, seed);
    case 16: return overbank_xxh3_middle(key, 16, seed);
    case 32: return overbank_xxh3_long(key, 32, seed);
    case 37: return overbank_xxh3_long(key, 37, seed);
    default: return none;
    }
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

/* Whether a key's weight is taken off in this row of a count sketch. */
OVERBANK_INLINE overbank_u32 overbank_is_negative(overbank_u64 low, overbank_u32 row) {
    return (overbank_u32)(low >> row) & 1;
}

/* The rank of a hash for HyperLogLog: leading zeros of `low` and 1; 65 where it is 0. clang 14 has no such word for the kernel's machine. */
OVERBANK_INLINE overbank_u32 overbank_rank(overbank_u64 low) {
    overbank_u32 rank = 1;
    if (!low) return 65;
#define OVERBANK_HALVE(bits) \
    if (!(low >> (64 - (bits)))) rank += (bits), low <<= (bits)
    OVERBANK_HALVE(32);
    OVERBANK_HALVE(16);
    OVERBANK_HALVE(8);
    OVERBANK_HALVE(4);
    OVERBANK_HALVE(2);
    OVERBANK_HALVE(1);
#undef OVERBANK_HALVE
    return rank;
}

#endif
