/*
 * A count-min worker in XDP: each processor counts its packets by itself, and sends a counter that reached the threshold.
 *
 *   packet ─▶ key ─▶ XXH3-128 ─▶ fold ─▶ a counter of each of 3 rows + 1 ─▶ τ reached: message to the ring, counter to 0
 *                                                                      └─▶ ring full: the counter is kept, and "kept" counts it
 *
 * 1. Every packet passes, whatever it is.
 * 2. A packet is in the counters of its processor, or in messages, once: a counter is cleared only after its message is in the ring. They
 *    have 64 bits, so a ring that nobody empties makes none wrap.
 * 3. Who reads looks at "begun" and "done": where all that was begun was done before the counters were read, and nothing began since,
 *    counters and messages are of one moment.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "packet.h"

#define ROWS 3
#define LG_COLUMNS 12
#define RING_BYTES (1 << 20)

struct row {
    overbank_u64 counters[1 << LG_COLUMNS];
};

/* 64 bytes: the ring's header and this are a line of cache and a bit. */
struct message {
    overbank_u64 fold;
    overbank_u64 value;
    overbank_u64 row;
    struct overbank_flow_key key;
};

struct tally {
    overbank_u64 packets;
    overbank_u64 not_ip;
    overbank_u64 kept;
    overbank_u64 begun;
    overbank_u64 done;
};

struct settings {
    overbank_u64 seed;
    overbank_u64 tau;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, ROWS);
    __type(key, __u32);
    __type(value, struct row);
} rows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct tally);
} tallies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct settings);
} settings SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, RING_BYTES);
} ring SEC(".maps");

#define ORDERED() __asm__ volatile("" ::: "memory")

static __always_inline void send(overbank_u32 row, overbank_u64 *counter, overbank_u64 fold, const struct overbank_flow_key *key,
                                 struct tally *tally) {
    struct message *message = bpf_ringbuf_reserve(&ring, sizeof *message, 0);
    if (!message) {
        tally->kept += 1;
        return;
    }
    message->fold = fold;
    message->value = *counter;
    message->row = row;
    message->key = *key;
    *(volatile overbank_u64 *)&tally->begun += 1;
    ORDERED();
    /* Read by polling. */
    bpf_ringbuf_submit(message, BPF_RB_NO_WAKEUP);
    *(volatile overbank_u64 *)counter = 0;
    ORDERED();
    *(volatile overbank_u64 *)&tally->done += 1;
}

SEC("xdp")
int count_min(struct xdp_md *context) {
    const overbank_u8 *data = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    overbank_u32 zero = 0;
    struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
    struct settings *chosen = bpf_map_lookup_elem(&settings, &zero);
    if (!tally || !chosen) return XDP_PASS;
    struct overbank_flow_key key = {};
    tally->packets += 1;
    if (!overbank_flow_key(data, end, &key)) {
        tally->not_ip += 1;
        return XDP_PASS;
    }
    struct overbank_u128 hash = key.len == 13 ? overbank_xxh3_13(key.bytes, chosen->seed) : overbank_xxh3_37(key.bytes, chosen->seed);
    overbank_u64 fold = hash.low ^ hash.high, tau = chosen->tau;
#pragma unroll
    for (overbank_u32 row = 0; row < ROWS; row++) {
        overbank_u32 number = row;
        struct row *of = bpf_map_lookup_elem(&rows, &number);
        if (!of) continue;
        overbank_u64 *counter = &of->counters[overbank_column(fold, row, LG_COLUMNS) & ((1 << LG_COLUMNS) - 1)];
        *counter += 1;
        if (*counter >= tau) send(row, counter, fold, &key, tally);
    }
    return XDP_PASS;
}

/* What an empty program costs, to compare with. */
SEC("xdp")
int empty(struct xdp_md *context) {
    (void)context;
    return XDP_PASS;
}

char overbank_license[] SEC("license") = "GPL";
