/*
 * The flow key of a packet: the fields that are asked for, as they stand in it.
 *
 *   Ethernet ─▶ VLAN tags ─▶ IPv4: options, fragments │ IPv6: extension headers ─▶ ports of TCP, UDP, SCTP …
 *
 *             source 4 │ destination 4 │ source port 2 │ destination port 2 │ protocol 1      13 bytes, or 4, 4, 8 of them
 *             source 16│ destination 16│ source port 2 │ destination port 2 │ protocol 1      37 bytes, or 16, 16, 32
 *
 * 1. Nothing behind the packet's end is read, whatever its headers say: the verifier sees to it.
 * 2. What comes of a packet is what crates/ingest makes of it, tunnels not entered, but for two things: later fragments are not put to
 *    their first one, so have ports of 0; IP behind MPLS, PPPoE and the 802.3 header of SNAP is not looked for, so is no IP.
 */
#ifndef OVERBANK_PACKET_H
#define OVERBANK_PACKET_H

#include <linux/bpf.h>

#include "keyhash.h"

/* More tags are malformed; behind more extension headers nothing is read. */
#define OVERBANK_TAGS_MAX 16
#define OVERBANK_EXTENSIONS_MAX 12

/* Kinds of keys: fields by their bits, as crates/ingest has them. */
#define OVERBANK_SOURCE 1
#define OVERBANK_DESTINATION 2
#define OVERBANK_SOURCE_DESTINATION 3
#define OVERBANK_FIVE_TUPLE 31

/* What became of a packet. */
#define OVERBANK_FLOW 0
#define OVERBANK_NOT_IP 1
#define OVERBANK_MALFORMED 2
#define OVERBANK_CUT 3

/* Zero behind its length. */
struct overbank_flow_key {
    overbank_u8 bytes[39];
    overbank_u8 len;
} __attribute__((aligned(8)));

OVERBANK_INLINE overbank_u32 overbank_pair(const overbank_u8 *at) {
    return (overbank_u32)at[0] << 8 | at[1];
}

OVERBANK_INLINE int overbank_has_ports(overbank_u32 protocol) {
    return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 || protocol == 136;
}

/* 1 of 0, else 0, of 32 bits. Without a jump: for the verifier each would be two programs from there on. */
OVERBANK_INLINE overbank_u64 overbank_is_zero(overbank_u64 value) {
    value -= 1;
    __asm__("" : "+r"(value));
    return value >> 63;
}

/* Hop by hop, routing, fragment, authentication, destination options │ mobility, host identity, shim6. */
#define OVERBANK_EXTENSIONS_LOW (1ULL << 0 | 1ULL << 43 | 1ULL << 44 | 1ULL << 51 | 1ULL << 60)
#define OVERBANK_EXTENSIONS_HIGH (1ULL << (135 - 128) | 1ULL << (139 - 128) | 1ULL << (140 - 128))

OVERBANK_INLINE int overbank_is_extension(overbank_u32 protocol) {
    overbank_u64 set = 0;
    if (protocol < 64) set = OVERBANK_EXTENSIONS_LOW;
    else if (protocol >= 128 && protocol < 192) set = OVERBANK_EXTENSIONS_HIGH;
    return (int)(set >> (protocol & 63)) & 1;
}

/* How long an extension header is whose second byte is `length`: 8 of a fragment, of authentication in words of 4, else of 8. */
OVERBANK_INLINE overbank_u64 overbank_extension_bytes(overbank_u32 protocol, overbank_u64 length) {
    return 8 + ((8 * length >> overbank_is_zero(protocol ^ 51)) & (overbank_is_zero(protocol ^ 44) - 1));
}

/* What a walk over headers comes to, in one word: it is what a function that the verifier sees once may answer. */
#define OVERBANK_CAME(what, offset, left) ((overbank_u64)(what) | (overbank_u64)(offset) << 16 | (overbank_u64)(left) << 32)
#define OVERBANK_WHAT(came) ((overbank_u32)(came) & 0xffff)
/* 12 headers of IPv6 end before; more the verifier does not let a packet have. */
#define OVERBANK_OFFSET(came) ((overbank_u32)((came) >> 16) & 0x7fff)
#define OVERBANK_LEFT(came) ((overbank_u32)((came) >> 32) & 0xffff)
/* The payload is not here. */
#define OVERBANK_LOST 0x100

/* Behind the tags that an Ethernet header begins: a type, or what is wrong, and where it goes on. */
__attribute__((noinline)) overbank_u64 overbank_untag(struct xdp_md *context) {
    const overbank_u8 *start = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    const overbank_u8 *at = start + 14;
    if (at > end) return OVERBANK_CUT;
    overbank_u32 type = overbank_pair(start + 12);
    for (overbank_u32 tag = 0; tag < OVERBANK_TAGS_MAX; tag++) {
        if (type != 0x8100 && type != 0x88a8 && type != 0x9100 && type != 0x9200) {
            return OVERBANK_CAME(type == 0x0800 || type == 0x86dd ? type : OVERBANK_NOT_IP, 14 + 4 * tag, 0);
        }
        if (at + 4 > end) return OVERBANK_CUT;
        type = overbank_pair(at + 2);
        at += 4;
    }
    return OVERBANK_MALFORMED;
}

/* Behind the extension headers of IPv6 that begin at `offset`, of `left` bytes: the protocol, whether its bytes are lost, and where. */
__attribute__((noinline)) overbank_u64 overbank_walk(struct xdp_md *context, overbank_u32 offset, overbank_u32 left,
                                                     overbank_u32 protocol) {
    const overbank_u8 *at = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    overbank_u64 rest = left & 0xffff;
    offset &= 0xff;
    protocol &= 0xff;
    at += offset;
    overbank_u64 from = offset;
    for (int read = 0; read < OVERBANK_EXTENSIONS_MAX; read++) {
        /* No such header is shorter than 8 bytes. */
        if (rest < 8 || at + 8 > end) return protocol | OVERBANK_LOST;
        overbank_u64 bytes = overbank_extension_bytes(protocol, at[1]);
        if (bytes > rest) return protocol | OVERBANK_LOST;
        overbank_u64 is_later = overbank_pair(at + 2) & 0xfff8 & (0 - overbank_is_zero(protocol ^ 44));
        protocol = at[0];
        if (is_later) return protocol | OVERBANK_LOST;
        rest -= bytes;
        from += bytes;
        at += bytes;
        if (!overbank_is_extension(protocol)) return OVERBANK_CAME(protocol, from & 0xffff, rest & 0xffff);
    }
    return protocol | OVERBANK_LOST;
}

/* Ports, where they are here, and the rest of the key. `left` are the datagram's bytes from `at` on; `lost` says that there are none. */
OVERBANK_INLINE void overbank_transport(const overbank_u8 *at, const overbank_u8 *end, overbank_u32 left, overbank_u32 lost,
                                        overbank_u32 protocol, overbank_u8 *ports, overbank_u32 *lacks_ports) {
    *lacks_ports = lost;
    ports[4] = (overbank_u8)protocol;
    if (!overbank_has_ports(protocol)) return;
    if (lost || left < 4 || at + 4 > end) {
        *lacks_ports = 1;
        return;
    }
    __builtin_memcpy(ports, at, 4);
}

OVERBANK_INLINE int overbank_v4(const overbank_u8 *at, const overbank_u8 *end, overbank_u32 kind, struct overbank_flow_key *key,
                                overbank_u32 *lacks_ports) {
    if (at + 20 > end) return OVERBANK_CUT;
    overbank_u32 header = 4 * (at[0] & 15u), total = overbank_pair(at + 2), protocol = at[9];
    if (header < 20 || (total < header && total != 0)) return OVERBANK_MALFORMED;
    if (kind != OVERBANK_FIVE_TUPLE) {
        if (kind == OVERBANK_SOURCE_DESTINATION) __builtin_memcpy(key->bytes, at + 12, 8);
        else __builtin_memcpy(key->bytes, kind == OVERBANK_SOURCE ? at + 12 : at + 16, 4);
        key->len = kind == OVERBANK_SOURCE_DESTINATION ? 8 : 4;
    } else {
        __builtin_memcpy(key->bytes, at + 12, 8);
        key->len = 13;
    }
    /* What is longer than the datagram is padding; segments that the card cuts up later have no length yet. */
    overbank_u64 there = (overbank_u64)(end - at);
    overbank_u32 left = there > 0xffff ? 0xffff : (overbank_u32)there;
    if (total && total < left) left = total;
    overbank_u32 is_later = (overbank_pair(at + 6) & 0x1fff) != 0;
    left = left > header ? left - header : 0;
    at += header;
    if (protocol == 51 && !is_later && left >= 8 && at + 8 <= end) {
        overbank_u32 bytes = 4 * (overbank_u32)at[1] + 8;
        if (bytes <= left) {
            protocol = at[0];
            left -= bytes;
            at += bytes;
        }
    }
    overbank_u8 ports[5] = {0};
    overbank_transport(at, end, left, is_later, protocol, ports, lacks_ports);
    if (kind == OVERBANK_FIVE_TUPLE) __builtin_memcpy(key->bytes + 8, ports, 5);
    return OVERBANK_FLOW;
}

OVERBANK_INLINE int overbank_v6(struct xdp_md *context, overbank_u32 offset, overbank_u32 kind, struct overbank_flow_key *key,
                                overbank_u32 *lacks_ports) {
    const overbank_u8 *start = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    const overbank_u8 *at = start + offset;
    if (at + 40 > end) return OVERBANK_CUT;
    overbank_u32 total = overbank_pair(at + 4), protocol = at[6], lost = 0;
    if (kind == OVERBANK_SOURCE || kind == OVERBANK_DESTINATION) {
        __builtin_memcpy(key->bytes, kind == OVERBANK_SOURCE ? at + 8 : at + 24, 16);
        key->len = 16;
    } else {
        __builtin_memcpy(key->bytes, at + 8, 32);
        key->len = kind == OVERBANK_FIVE_TUPLE ? 37 : 32;
    }
    at += 40;
    overbank_u64 there = (overbank_u64)(end - at);
    overbank_u32 left = there > 0xffff ? 0xffff : (overbank_u32)there;
    /* Jumbograms say their length elsewhere. */
    if (total && total < left) left = total;
    if (overbank_is_extension(protocol)) {
        overbank_u64 came = overbank_walk(context, offset + 40, left, protocol);
        protocol = (overbank_u32)came & 0xff;
        lost = (overbank_u32)came & OVERBANK_LOST;
        left = OVERBANK_LEFT(came);
        at = start + OVERBANK_OFFSET(came);
    }
    overbank_u8 ports[5] = {0};
    overbank_transport(at, end, left, lost != 0, protocol, ports, lacks_ports);
    if (kind == OVERBANK_FIVE_TUPLE) __builtin_memcpy(key->bytes + 32, ports, 5);
    return OVERBANK_FLOW;
}

/* What became of a packet, and its key where it has one. `key` is zero at first. */
OVERBANK_INLINE int overbank_read_packet(struct xdp_md *context, overbank_u32 kind, struct overbank_flow_key *key,
                                         overbank_u32 *lacks_ports) {
    const overbank_u8 *start = (const overbank_u8 *)(long)context->data, *end = (const overbank_u8 *)(long)context->data_end;
    *lacks_ports = 0;
    if (start + 14 > end) return OVERBANK_CUT;
    overbank_u32 type = overbank_pair(start + 12), offset = 14;
    if (type != 0x0800 && type != 0x86dd) {
        overbank_u64 came = overbank_untag(context);
        type = OVERBANK_WHAT(came);
        offset = OVERBANK_OFFSET(came) & 0x7f;
        if (type <= OVERBANK_CUT) return (int)type;
    }
    const overbank_u8 *at = start + offset;
    if (at + 1 > end) return OVERBANK_CUT;
    if (at[0] >> 4 != (type == 0x0800 ? 4 : 6)) return OVERBANK_MALFORMED;
    return type == 0x0800 ? overbank_v4(at, end, kind, key, lacks_ports) : overbank_v6(context, offset, kind, key, lacks_ports);
}

#endif
