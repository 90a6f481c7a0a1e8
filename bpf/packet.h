/*
 * The flow key of a packet: 13 bytes of IPv4, 37 of IPv6, fields as they stand in the packet.
 *
 *   Ethernet ─▶ VLAN tags, two at most ─▶ IPv4: options, fragments │ IPv6: extension headers, six at most ─▶ ports of TCP, UDP, SCTP …
 *
 * 1. Nothing behind the packet's end is read, whatever its headers say: the verifier sees to it.
 * 2. As crates/ingest makes it of a capture, but for three things: later fragments are not put to their first one, so have no ports;
 *    authentication, mobility and like headers are not read past, nor more than six of IPv6; a length that the IP header says is not
 *    compared with the frame's.
 * 3. What has no ports, a fragment but the first one and a packet that is cut off, has ports of 0; what is no IP has no key.
 */
#ifndef OVERBANK_PACKET_H
#define OVERBANK_PACKET_H

#include "keyhash.h"

#define OVERBANK_KEY_ROOM 39

struct overbank_flow_key {
    overbank_u8 len;
    overbank_u8 bytes[OVERBANK_KEY_ROOM];
};

OVERBANK_INLINE overbank_u32 overbank_pair(const overbank_u8 *at) {
    return (overbank_u32)at[0] << 8 | at[1];
}

OVERBANK_INLINE int overbank_has_ports(overbank_u32 protocol) {
    return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 || protocol == 136;
}

/* Whether there is one. `key` is zero at first. */
OVERBANK_INLINE int overbank_flow_key(const overbank_u8 *at, const overbank_u8 *end, struct overbank_flow_key *key) {
    overbank_u32 type, protocol, is_later = 0;
    if (at + 14 > end) return 0;
    type = overbank_pair(at + 12);
    at += 14;
#pragma unroll
    for (int tag = 0; tag < 2; tag++) {
        if (type != 0x8100 && type != 0x88a8 && type != 0x9100) break;
        if (at + 4 > end) return 0;
        type = overbank_pair(at + 2);
        at += 4;
    }
    if (type == 0x0800) {
        if (at + 20 > end) return 0;
        overbank_u32 words = at[0] & 15;
        if (at[0] >> 4 != 4 || words < 5) return 0;
        protocol = at[9];
        is_later = overbank_pair(at + 6) & 0x1fff;
        __builtin_memcpy(key->bytes, at + 12, 8);
        key->bytes[12] = (overbank_u8)protocol;
        key->len = 13;
        at += 4 * words;
        if (!is_later && overbank_has_ports(protocol) && at + 4 <= end) __builtin_memcpy(key->bytes + 8, at, 4);
        return 1;
    }
    if (type != 0x86dd || at + 40 > end || at[0] >> 4 != 6) return 0;
    protocol = at[6];
    __builtin_memcpy(key->bytes, at + 8, 32);
    key->len = 37;
    at += 40;
#pragma unroll
    for (int header = 0; header < 6; header++) {
        if (protocol != 0 && protocol != 43 && protocol != 44 && protocol != 60) break;
        if (at + 8 > end) break;
        overbank_u32 next = at[0], length = 8;
        if (protocol == 44) is_later |= overbank_pair(at + 2) & 0xfff8;
        else length += 8 * (overbank_u32)at[1];
        protocol = next;
        if (is_later) break;
        at += length;
    }
    key->bytes[36] = (overbank_u8)protocol;
    if (!is_later && overbank_has_ports(protocol) && at + 4 <= end) __builtin_memcpy(key->bytes + 32, at, 4);
    return 1;
}

#endif
