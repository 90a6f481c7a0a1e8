/*
 * CocoSketch in XDP: two rows of buckets, each a key and its count.
 *
 *   one of the two has the key:   its count += weight
 *   none has:                     the least count, c, becomes c + weight, and the bucket the key's with probability weight / (c + weight)
 *
 * A count that reaches τ goes with its key, and is 0 then; where the ring is full it stays: counts have 64 bits.
 */
#include "worker.h"

#define BUCKET_ROWS 2
#define LG_BUCKETS 11
/* Buckets of a value: 24 KiB. */
#define LG_PART 9

struct bucket {
    overbank_u64 count;
    struct overbank_flow_key key;
};

struct part {
    struct bucket buckets[1 << LG_PART];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, (2 * BUCKET_ROWS) << (LG_BUCKETS - LG_PART));
    __type(key, __u32);
    __type(value, struct part);
} buckets SEC(".maps");

static __always_inline struct bucket *bucket_of(const struct seen *seen, overbank_u32 row) {
    overbank_u32 column = overbank_column(seen->hash.low ^ seen->hash.high, row, LG_BUCKETS) & ((1 << LG_BUCKETS) - 1);
    overbank_u32 part = ((half_of(seen) * BUCKET_ROWS + row) << (LG_BUCKETS - LG_PART)) + (column >> LG_PART);
    struct part *of = bpf_map_lookup_elem(&buckets, &part);
    if (!of) return 0;
    PINNED(of);
    return &of->buckets[column & ((1 << LG_PART) - 1)];
}

static __always_inline int is_same(const struct overbank_flow_key *one, const struct overbank_flow_key *other) {
    const overbank_u64 *a = (const overbank_u64 *)one, *b = (const overbank_u64 *)other;
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4])) == 0;
}

static __always_inline void take(const struct seen *seen) {
    struct bucket *first = bucket_of(seen, 0), *second = bucket_of(seen, 1), *taken = 0;
    if (!first || !second) return;
    overbank_u64 weight = BY_BYTES ? seen->weight : 1;
    if (first->count && is_same(&first->key, &seen->key)) taken = first;
    else if (second->count && is_same(&second->key, &seen->key)) taken = second;
    if (taken) {
        taken->count += weight;
    } else {
        taken = second->count < first->count ? second : first;
        taken->count += weight;
        overbank_u64 random = (overbank_u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
        if (taken->count == weight || overbank_product(random, taken->count).high < weight) taken->key = seen->key;
    }
    overbank_u64 tau = BY_BYTES ? seen->tau << LG_UNIT : seen->tau;
    if (taken->count >= tau && send(seen, BUCKETS, 0, (long long)taken->count, &taken->key)) taken->count = 0;
}

OVERBANK_WORKER(coco, take(seen));
