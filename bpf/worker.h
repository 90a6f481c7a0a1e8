/*
 * What workers in XDP share: a packet becomes a key, a hash and a weight; counters of each processor; messages to user space.
 *
 *   packet ─▶ key ─▶ XXH3-128 ─▶ counters of this processor ─▶ τ reached: message to the ring, counter to 0
 *                                                        └─▶ ring full: to the wide counter of 64 bits, and "kept" counts it
 *
 * 1. Every packet passes, as it came, whatever it is.
 * 2. A packet is in the counters of its processor, or in messages, once. A counter of 8 bits never holds τ, 127 at most; what the ring has
 *    no room for goes to a wide counter, so nothing is lost and nothing wraps. The wide one goes with the next message of its place.
 * 3. All counters are there twice: user space counts rounds, and of two that follow each other the programs use another half. Once no
 *    program runs any more that began in the round before, the half of that round stands still: it is read, and cleared, in peace.
 * 4. Programs of one processor do not run within each other: plain additions do.
 *
 * Source: OctoSketch, sections 4 and 6. Deviations: wide counters; rounds, so that answers have every packet at no message's cost.
 */
#ifndef OVERBANK_WORKER_H
#define OVERBANK_WORKER_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "packet.h"

/* What is known before the program is loaded, a kind of key, whether bytes are counted, and a rank that is not sent yet. */
const volatile overbank_u64 SEED = 0;
const volatile overbank_u32 KIND = OVERBANK_FIVE_TUPLE;
const volatile overbank_u32 BY_BYTES = 0;
const volatile overbank_u32 RANK = 4;

#define LG_COLUMNS 14
#define ROWS 3
#define RING_BYTES (4 << 20)
/* A value of a map of each processor has 32 KiB at most. */
#define LG_WIDE 12

#define TAU_MAX 127
/* Of bytes τ counts units of so many. */
#define LG_UNIT 10

enum sketch { COUNTERS = 0, BUCKETS = 1, REGISTERS = 2 };

struct message {
    overbank_u64 round;
    long long value;
    overbank_u32 sketch;
    /* row << LG_COLUMNS | column, or a register. */
    overbank_u32 place;
    struct overbank_flow_key key;
};

struct tally {
    overbank_u64 packets;
    overbank_u64 bytes;
    /* By what became of them. */
    overbank_u64 became[4];
    overbank_u64 flow_bytes;
    overbank_u64 without_ports;
    /* Times that the ring was full, and messages that were not. */
    overbank_u64 kept;
    overbank_u64 sent;
};

struct settings {
    overbank_u64 round;
    overbank_u64 tau;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2);
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

/* A packet that is counted. */
struct seen {
    struct tally *tally;
    struct overbank_u128 hash;
    overbank_u64 round;
    overbank_u64 tau;
    overbank_u64 weight;
    struct overbank_flow_key key;
};

/* Has the compiler add to an address only once it is known to be one. */
#define PINNED(address) __asm__ volatile("" : "+r"(address))

static __always_inline overbank_u32 half_of(const struct seen *seen) {
    return (overbank_u32)seen->round & 1;
}

/* Whether there is something to count. */
static __always_inline int see(struct xdp_md *context, struct seen *seen) {
    const overbank_u8 *data = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    overbank_u32 zero = 0, lacks_ports = 0;
    struct settings *chosen = bpf_map_lookup_elem(&settings, &zero);
    if (!chosen) return 0;
    seen->round = *(volatile overbank_u64 *)&chosen->round;
    overbank_u64 tau = *(volatile overbank_u64 *)&chosen->tau;
    seen->tau = tau < TAU_MAX ? tau : TAU_MAX;
    overbank_u32 half = half_of(seen);
    struct tally *tally = bpf_map_lookup_elem(&tallies, &half);
    if (!tally) return 0;
    seen->tally = tally;
    overbank_u64 bytes = (overbank_u64)(end - data);
    tally->packets += 1;
    tally->bytes += bytes;
    int became = overbank_read_packet(context, KIND, &seen->key, &lacks_ports);
    tally->became[became & 3] += 1;
    if (became != OVERBANK_FLOW) return 0;
    tally->flow_bytes += bytes;
    tally->without_ports += lacks_ports;
    seen->weight = bytes;
    seen->hash = overbank_xxh3(seen->key.bytes, seen->key.len, SEED);
    return 1;
}

/* Whether the ring had room. */
static __always_inline int send(const struct seen *seen, enum sketch sketch, overbank_u32 place, long long value,
                                const struct overbank_flow_key *key) {
    struct message *message = bpf_ringbuf_reserve(&ring, sizeof *message, 0);
    if (!message) {
        seen->tally->kept += 1;
        return 0;
    }
    message->round = seen->round;
    message->value = value;
    message->sketch = sketch;
    message->place = place;
    message->key = *key;
    /* Read by polling. */
    bpf_ringbuf_submit(message, BPF_RB_NO_WAKEUP);
    seen->tally->sent += 1;
    return 1;
}

#ifdef WITH_COUNTERS

struct narrow_row {
    signed char counters[1 << LG_COLUMNS];
};

struct wide_part {
    long long counters[1 << LG_WIDE];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2 * ROWS);
    __type(key, __u32);
    __type(value, struct narrow_row);
} narrow SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, (2 * ROWS) << (LG_COLUMNS - LG_WIDE));
    __type(key, __u32);
    __type(value, struct wide_part);
} wide SEC(".maps");

static __always_inline long long *wide_counter(const struct seen *seen, overbank_u32 row, overbank_u32 column) {
    overbank_u32 part = ((half_of(seen) * ROWS + row) << (LG_COLUMNS - LG_WIDE)) + (column >> LG_WIDE);
    struct wide_part *of = bpf_map_lookup_elem(&wide, &part);
    if (!of) return 0;
    PINNED(of);
    return &of->counters[column & ((1 << LG_WIDE) - 1)];
}

static __always_inline int is_due(long long sum, overbank_u64 tau) {
    return (overbank_u64)(sum < 0 ? -sum : sum) >= tau;
}

/* Sends a counter, or keeps it. */
static __noinline int settle(const struct seen *seen, overbank_u32 row, overbank_u32 column, long long sum) {
    /* Nothing was kept, nothing is wide. */
    long long *kept = seen->tally->kept ? wide_counter(seen, row, column) : 0;
    if (kept) sum += *kept;
    if (send(seen, COUNTERS, row << LG_COLUMNS | column, sum, &seen->key)) {
        if (kept) *kept = 0;
        return 0;
    }
    if (!kept) kept = wide_counter(seen, row, column);
    if (kept) *kept = sum;
    return 0;
}

/* Adds a packet to its counter of a row, or takes it off. */
static __always_inline void count(const struct seen *seen, overbank_u32 row, overbank_u32 is_negative) {
    overbank_u32 column = overbank_column(seen->hash.low ^ seen->hash.high, row, LG_COLUMNS) & ((1 << LG_COLUMNS) - 1);
    if (BY_BYTES) {
        long long *counter = wide_counter(seen, row, column);
        if (!counter) return;
        long long sum = *counter + (is_negative ? -(long long)seen->weight : (long long)seen->weight);
        int is_sent = is_due(sum, seen->tau << LG_UNIT) && send(seen, COUNTERS, row << LG_COLUMNS | column, sum, &seen->key);
        *counter = is_sent ? 0 : sum;
        return;
    }
    overbank_u32 of = half_of(seen) * ROWS + row;
    struct narrow_row *counters = bpf_map_lookup_elem(&narrow, &of);
    if (!counters) return;
    signed char *counter = &counters->counters[column];
    long long sum = *counter + (is_negative ? -1 : 1);
    if (!is_due(sum, seen->tau)) {
        *counter = (signed char)sum;
        return;
    }
    *counter = 0;
    settle(seen, row, column, sum);
}

#endif

#ifdef WITH_REGISTERS

#define LG_REGISTERS 14

struct registers {
    overbank_u8 ranks[1 << LG_REGISTERS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, struct registers);
} registers SEC(".maps");

/* Raises the register of a key. It stays, whether it is sent or not. */
static __always_inline void raise_register(const struct seen *seen) {
    overbank_u32 half = half_of(seen), at = (overbank_u32)(seen->hash.high >> (64 - LG_REGISTERS));
    struct registers *of = bpf_map_lookup_elem(&registers, &half);
    if (!of) return;
    overbank_u8 *rank = &of->ranks[at & ((1 << LG_REGISTERS) - 1)];
    /* Most hashes have fewer leading zeros than that. */
    if (*rank && seen->hash.low >> ((64 - *rank) & 63)) return;
    overbank_u32 reached = overbank_rank(seen->hash.low);
    if (reached <= *rank) return;
    *rank = (overbank_u8)reached;
    /* |2^reached - 2^before| >= 2^RANK. */
    if (reached > RANK) send(seen, REGISTERS, at, reached, &seen->key);
}

#endif

/* The program of a sketch: `body` counts `seen`. */
#define OVERBANK_WORKER(name, body)                  \
    SEC("xdp")                                       \
    int name(struct xdp_md *context) {               \
        struct seen packet = {}, *seen = &packet;    \
        if (see(context, seen)) body;                \
        return XDP_PASS;                             \
    }                                                \
    char overbank_license[] SEC("license") = "Apache-2.0"

#endif
