//! Flows of packets that were built layer by layer: whatever lies between a link's header and the ports, the flow is the one put in.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::packets::{Part, ether_type, ethernet, ip, labelled, tagged, transport};
use overbank_ingest::capture::{
    FlowBatch, FlowDecoder, FlowKey, FlowPacket, Fragments, LinkType, Packet, PacketCounts,
};
use proptest::prelude::*;
use std::net::IpAddr;

type Addresses = (IpAddr, IpAddr);

/// What lies before the IP header.
#[derive(Clone, Debug)]
enum Below {
    Ethernet,
    /// Tags with these types, from the outermost.
    Tags(Vec<u16>),
    Mpls(Vec<u32>),
    Snap,
    Pppoe {
        is_short: bool,
    },
    Cisco,
    Cooked,
    Cooked2,
    Raw(u32),
    Loopback {
        family: u32,
        is_big_endian: bool,
    },
    Ppp {
        has_hdlc: bool,
        is_short: bool,
    },
}

/// What a packet lies in.
#[derive(Clone, Debug)]
enum Tunnel {
    IpInIp,
    Gre { has_key: bool, has_sequence: bool, has_checksum: bool, has_frame: bool },
    Pptp { has_sequence: bool, has_acknowledged: bool },
    Vxlan,
    Geneve { option_words: u8, has_frame: bool },
    Gtp { extensions: u8 },
}

fn ppp(is_short: bool, addresses: Addresses, packet: &[u8]) -> Vec<u8> {
    let protocol: u16 = if addresses.0.is_ipv4() { 0x21 } else { 0x57 };
    let bytes = protocol.to_be_bytes();
    [&bytes[usize::from(is_short)..], packet].concat()
}

impl Below {
    fn put(&self, addresses: Addresses, packet: &[u8]) -> (u32, Vec<u8>) {
        let kind = ether_type(addresses.0);
        match self {
            Self::Ethernet => (1, ethernet(kind, packet)),
            Self::Tags(types) => {
                let (mut payload, mut of) = (packet.to_vec(), kind);
                for (i, &tag) in types.iter().enumerate().rev() {
                    (payload, of) = (tagged(i as u16 + 7, of, &payload), tag);
                }
                (1, ethernet(of, &payload))
            }
            Self::Mpls(labels) => (1, ethernet(0x8847, &labelled(labels, packet))),
            Self::Snap => {
                let payload = [&[0xaa, 0xaa, 3, 0, 0, 0][..], &kind.to_be_bytes(), packet].concat();
                (1, ethernet(payload.len().min(1500) as u16, &payload))
            }
            Self::Pppoe { is_short } => {
                let payload = ppp(*is_short, addresses, packet);
                let length = (payload.len() as u16).to_be_bytes();
                (1, ethernet(0x8864, &[&[0x11, 0, 0, 9][..], &length, &payload].concat()))
            }
            Self::Cisco => (104, [&[0x0f, 0][..], &kind.to_be_bytes(), packet].concat()),
            Self::Cooked => (113, [&[0; 14][..], &kind.to_be_bytes(), packet].concat()),
            Self::Cooked2 => (276, [&kind.to_be_bytes()[..], &[0; 18], packet].concat()),
            Self::Raw(link) => (*link, packet.to_vec()),
            Self::Loopback { family, is_big_endian } => {
                let family = if addresses.0.is_ipv4() { 2 } else { *family };
                let bytes = if *is_big_endian { family.to_be_bytes() } else { family.to_le_bytes() };
                (if *is_big_endian { 108 } else { 0 }, [&bytes[..], packet].concat())
            }
            Self::Ppp { has_hdlc, is_short } => {
                let payload = ppp(*is_short, addresses, packet);
                let hdlc: &[u8] = if *has_hdlc { &[0xff, 3] } else { &[] };
                (9, [hdlc, &payload].concat())
            }
        }
    }
}

impl Tunnel {
    /// The protocol and the payload of the packet that carries `packet`.
    fn put(&self, within: Addresses, packet: &[u8]) -> (u8, Vec<u8>) {
        let kind = ether_type(within.0);
        let word = |is_there: bool| if is_there { &[1u8, 2, 3, 4][..] } else { &[] };
        match self {
            Self::IpInIp => (if within.0.is_ipv4() { 4 } else { 41 }, packet.to_vec()),
            Self::Gre { has_key, has_sequence, has_checksum, has_frame } => {
                let flags = [(*has_checksum, 0x8000), (*has_key, 0x2000), (*has_sequence, 0x1000)];
                let flags: u16 = flags.iter().filter(|(is_there, _)| *is_there).map(|(_, flag)| flag).sum();
                let (kind, packet) =
                    if *has_frame { (0x6558, ethernet(kind, packet)) } else { (kind, packet.to_vec()) };
                let header = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
                (47, [&header, word(*has_checksum), word(*has_key), word(*has_sequence), &packet].concat())
            }
            Self::Pptp { has_sequence, has_acknowledged } => {
                let flags = 0x2001 | u16::from(*has_sequence) << 12 | u16::from(*has_acknowledged) << 7;
                let header = [flags.to_be_bytes(), 0x880b_u16.to_be_bytes()].concat();
                let packet = ppp(false, within, packet);
                (47, [&header, word(true), word(*has_sequence), word(*has_acknowledged), &packet].concat())
            }
            Self::Vxlan => {
                let frame = ethernet(kind, packet);
                (17, transport(17, 50_000, 4789, &[&[8, 0, 0, 0, 0, 0, 9, 0][..], &frame].concat()))
            }
            Self::Geneve { option_words, has_frame } => {
                let (kind, packet) =
                    if *has_frame { (0x6558, ethernet(kind, packet)) } else { (kind, packet.to_vec()) };
                let header = [&[*option_words, 0][..], &kind.to_be_bytes(), &[0, 0, 9, 0]].concat();
                let options = vec![0; usize::from(*option_words) * 4];
                (17, transport(17, 50_000, 6081, &[header, options, packet].concat()))
            }
            Self::Gtp { extensions } => {
                let flags = 0x30 | if *extensions > 0 { 4 } else { 0 };
                let mut bytes = vec![flags, 0xff, 0, 0, 0, 0, 0, 7];
                if *extensions > 0 {
                    bytes.extend([0, 1, 0, 0x85]);
                    for i in 0..*extensions {
                        let next = if i + 1 == *extensions { 0 } else { 0x85 };
                        bytes.extend([2, 0, 0, 0, 0, 0, 0, next]);
                    }
                }
                (17, transport(17, 50_000, 2152, &[&bytes[..], packet].concat()))
            }
        }
    }
}

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

fn below() -> impl Strategy<Value = Below> {
    prop_oneof![
        Just(Below::Ethernet),
        prop::collection::vec(prop_oneof![Just(0x8100u16), Just(0x88a8), Just(0x9100)], 1..5)
            .prop_map(Below::Tags),
        prop::collection::vec(0u32..1 << 20, 1..6).prop_map(Below::Mpls),
        Just(Below::Snap),
        any::<bool>().prop_map(|is_short| Below::Pppoe { is_short }),
        Just(Below::Cisco),
        Just(Below::Cooked),
        Just(Below::Cooked2),
        prop_oneof![Just(101u32), Just(12), Just(14)].prop_map(Below::Raw),
        (prop_oneof![Just(10u32), Just(24), Just(28), Just(30)], any::<bool>())
            .prop_map(|(family, is_big_endian)| Below::Loopback { family, is_big_endian }),
        any::<(bool, bool)>().prop_map(|(has_hdlc, is_short)| Below::Ppp { has_hdlc, is_short }),
    ]
}

fn tunnel() -> impl Strategy<Value = Tunnel> {
    prop_oneof![
        Just(Tunnel::IpInIp),
        any::<(bool, bool, bool, bool)>().prop_map(|(has_key, has_sequence, has_checksum, has_frame)| {
            Tunnel::Gre { has_key, has_sequence, has_checksum, has_frame }
        }),
        any::<(bool, bool)>()
            .prop_map(|(has_sequence, has_acknowledged)| Tunnel::Pptp { has_sequence, has_acknowledged }),
        Just(Tunnel::Vxlan),
        (0u8..20, any::<bool>())
            .prop_map(|(option_words, has_frame)| Tunnel::Geneve { option_words, has_frame }),
        (0u8..4).prop_map(|extensions| Tunnel::Gtp { extensions }),
    ]
}

/// A packet, its flow, and what carries it, from the innermost.
#[derive(Clone, Debug)]
struct Case {
    addresses: Addresses,
    protocol: u8,
    ports: (u16, u16),
    extensions: Vec<u8>,
    tunnels: Vec<(Tunnel, Addresses)>,
    below: Below,
}

fn cases() -> impl Strategy<Value = Case> {
    let protocols = prop_oneof![
        Just(6u8),
        Just(17),
        Just(132),
        Just(33),
        Just(136),
        Just(1),
        Just(58),
        Just(89),
        Just(50)
    ];
    let ports = (any::<u16>(), 10_000u16..20_000);
    let extensions = prop::collection::vec(1u8..4, 0..4);
    let tunnels = prop::collection::vec((tunnel(), addresses()), 0..4);
    (addresses(), protocols, ports, extensions, tunnels, below()).prop_map(
        |(addresses, protocol, ports, extensions, tunnels, below)| Case {
            addresses,
            protocol,
            ports,
            extensions,
            tunnels,
            below,
        },
    )
}

fn key(
    (source, destination): Addresses,
    (source_port, destination_port): (u16, u16),
    protocol: u8,
) -> FlowKey {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            FlowKey::v4(source, destination, source_port, destination_port, protocol)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            FlowKey::v6(source, destination, source_port, destination_port, protocol)
        }
        _ => unreachable!("addresses of two families"),
    }
}

const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

impl Case {
    /// The link type, the bytes, the flow within all tunnels and the flow of the outermost.
    fn build(&self) -> (u32, Vec<u8>, FlowKey, FlowKey) {
        let segment = match self.protocol {
            33 => transport(132, self.ports.0, self.ports.1, b"more"),
            protocol => transport(protocol, self.ports.0, self.ports.1, b"more"),
        };
        let mut addresses = self.addresses;
        let mut packet = ip(addresses, self.protocol, &self.extensions, None, &segment);
        let ports = if has_ports(self.protocol) { self.ports } else { (0, 0) };
        let inner = key(addresses, ports, self.protocol);
        let mut outer = inner;
        for (tunnel, around) in &self.tunnels {
            let (protocol, payload) = tunnel.put(addresses, &packet);
            let ports = match tunnel {
                Tunnel::Vxlan => (50_000, 4789),
                Tunnel::Geneve { .. } => (50_000, 6081),
                Tunnel::Gtp { .. } => (50_000, 2152),
                _ => (0, 0),
            };
            (addresses, outer) = (*around, key(*around, ports, protocol));
            packet = ip(addresses, protocol, &[], None, &payload);
        }
        let (link, bytes) = self.below.put(addresses, &packet);
        (link, bytes, inner, outer)
    }
}

/// What comes of one packet.
fn decode(link: u32, data: &[u8], tunnels: bool) -> (Option<FlowPacket>, PacketCounts) {
    let mut batch = FlowBatch::new();
    let packet = Packet { data, wire_bytes: data.len() as u32 + 5, time_ns: 77, link: LinkType(link) };
    FlowDecoder { tunnels }.push(&packet, &mut batch);
    (batch.packets().first().copied(), *batch.counts())
}

proptest! {
    #[test]
    fn the_flow_is_the_one_put_in(case in cases()) {
        let (link, data, inner, outer) = case.build();
        for (tunnels, key) in [(false, outer), (true, inner)] {
            let (found, counts) = decode(link, &data, tunnels);
            let length = data.len() as u32;
            let wanted = FlowPacket { key, wire_bytes: length + 5, captured_bytes: length, time_ns: 77 };
            prop_assert_eq!(found, Some(wanted));
            let wire_bytes = u64::from(length) + 5;
            prop_assert_eq!(counts, PacketCounts { packets: 1, wire_bytes, ..PacketCounts::default() });
        }
    }

    /// Less captured is less known, and nothing else: no flow, or the addresses with ports 0, or the whole flow.
    #[test]
    fn a_packet_cut_anywhere_has_the_flow_or_is_counted(case in cases()) {
        let case = Case { tunnels: Vec::new(), ..case };
        let (link, data, flow, _) = case.build();
        for len in 0..data.len() {
            let (found, counts) = decode(link, &data[..len], false);
            match found {
                None => prop_assert_eq!((counts.cut, counts.packets), (1, 1)),
                Some(found) if counts.without_ports == 1 => {
                    prop_assert_eq!((found.key.source(), found.key.destination()), (flow.source(), flow.destination()));
                    prop_assert_eq!((found.key.source_port(), found.key.destination_port()), (Some(0), Some(0)));
                }
                Some(found) => prop_assert_eq!(found.key, flow),
            }
        }
    }

    #[test]
    fn any_bytes_are_one_packet_counted_once(
        link in prop_oneof![Just(0u32), Just(1), Just(9), Just(101), Just(113), Just(276), Just(147)],
        case in cases(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), tunnels: bool,
    ) {
        let (own_link, mut data, ..) = case.build();
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] = byte;
        }
        for link in [own_link, link] {
            let (found, counts) = decode(link, &data, tunnels);
            let missed = counts.not_ip + counts.malformed + counts.cut + counts.unknown_link;
            prop_assert_eq!(u64::from(found.is_some()) + missed, 1);
        }
    }

    /// Datagrams of several senders in fragments, those of one in order: each fragment has the flow of its datagram, tunnel or not.
    #[test]
    fn fragments_have_the_flow_of_their_datagram(
        datagrams in prop::collection::vec((cases(), 1u16..6), 1..8), order in prop::collection::vec(any::<prop::sample::Index>(), 40), tunnels: bool,
    ) {
        let mut waiting: Vec<Vec<(u32, Vec<u8>, FlowKey)>> = Vec::new();
        for (i, (case, parts)) in datagrams.iter().enumerate() {
            let case = Case { tunnels: Vec::new(), extensions: Vec::new(), ..case.clone() };
            let (.., flow, _) = case.build();
            let segment = transport(if case.protocol == 33 { 132 } else { case.protocol }, case.ports.0, case.ports.1, &[]);
            let whole = [segment, vec![0; usize::from(*parts) * 8]].concat();
            let pieces: Vec<&[u8]> = whole.chunks(8).collect();
            let fragments = pieces.iter().enumerate().map(|(offset, piece)| {
                let (offset, has_more) = (offset as u16, offset + 1 < pieces.len());
                let part = Part { identification: i as u16, offset, has_more };
                let packet = ip(case.addresses, case.protocol, &[], Some(part), piece);
                let (link, data) = case.below.put(case.addresses, &packet);
                (link, data, flow)
            });
            waiting.push(fragments.rev().collect());
        }
        let mut fragments = Fragments::default();
        let mut batch = FlowBatch::new();
        for index in order {
            if waiting.is_empty() {
                break;
            }
            let at = index.index(waiting.len());
            let (link, data, flow) = waiting[at].pop().unwrap();
            waiting.retain(|left| !left.is_empty());
            batch.clear();
            let packet = Packet { data: &data, wire_bytes: 0, time_ns: 0, link: LinkType(link) };
            FlowDecoder { tunnels }.push(&packet, &mut batch);
            fragments.resolve(&mut batch);
            prop_assert_eq!(batch.packets()[0].key, flow);
            prop_assert_eq!(batch.counts().without_ports, 0);
        }
    }
}

/// A datagram's first fragment and a later one, so long after.
fn later_fragment(fragments: &mut Fragments, identification: u16, after_ns: u64) -> Option<u16> {
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut batch = FlowBatch::new();
    for (offset, time_ns) in [(0, 1_000), (1, 1_000 + after_ns)] {
        let part = Part { identification, offset, has_more: true };
        let data = ip(addresses, 17, &[], Some(part), &transport(17, 53, 5353, &[]));
        let packet = Packet { data: &data, wire_bytes: 0, time_ns, link: LinkType::RAW };
        FlowDecoder::default().push(&packet, &mut batch);
    }
    fragments.resolve(&mut batch);
    batch.packets()[1].key.source_port()
}

#[test]
fn first_fragments_are_forgotten_in_time_and_for_room() {
    let mut fragments = Fragments::new(16);
    assert_eq!(later_fragment(&mut fragments, 1, 30_000_000_000), Some(53));
    assert_eq!(later_fragment(&mut fragments, 2, 30_000_000_001), Some(0));
    // A thousand datagrams at once: the last few are known.
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut batch = FlowBatch::new();
    for offset in [0, 1] {
        for identification in 0..1000u16 {
            let part = Part { identification, offset, has_more: true };
            let data = ip(addresses, 17, &[], Some(part), &transport(17, 53, 5353, &[]));
            let time_ns = u64::from(identification);
            let packet = Packet { data: &data, wire_bytes: 0, time_ns, link: LinkType::RAW };
            FlowDecoder::default().push(&packet, &mut batch);
        }
    }
    fragments.resolve(&mut batch);
    assert_eq!(batch.counts().without_ports, 1000 - 16);
    assert_eq!(batch.packets()[1999].key.source_port(), Some(53));
}

#[test]
fn headers_made_to_keep_a_reader_busy_come_to_an_end() {
    let (a, b): Addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let inner = ip((a, b), 6, &[], None, &transport(6, 1, 2, &[]));
    let mut tags = inner.clone();
    for _ in 0..1000 {
        tags = tagged(1, 0x8100, &tags);
    }
    assert_eq!(decode(1, &ethernet(0x8100, &tags), true).1.malformed, 1);
    assert_eq!(decode(1, &ethernet(0x8847, &labelled(&[7; 1000], &inner)), true).1.malformed, 1);
    let wide: Addresses = ([1; 16].into(), [2; 16].into());
    let (found, counts) = decode(101, &ip(wide, 6, &[1; 200], None, &transport(6, 1, 2, &[])), true);
    assert_eq!((found.unwrap().key.protocol(), counts.without_ports), (Some(60), 1));
    let mut nested = inner;
    for _ in 0..100 {
        nested = ip((a, b), 4, &[], None, &nested);
    }
    assert_eq!(decode(101, &nested, true).0.unwrap().key.protocol(), Some(4));
}

#[test]
fn what_is_no_flow_is_counted_by_its_reason() {
    let counted = |link, data: &[u8]| {
        let (found, counts) = decode(link, data, false);
        assert!(found.is_none());
        (counts.not_ip, counts.malformed, counts.cut, counts.unknown_link)
    };
    let addresses: Addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let good = ip(addresses, 6, &[], None, &transport(6, 1, 2, &[]));
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    assert_eq!(counted(1, &ethernet(0x0806, &[0; 46])), (1, 0, 0, 0));
    assert_eq!(counted(1, &ethernet(100, &[0x42; 100])), (1, 0, 0, 0));
    assert_eq!(counted(1, &ethernet(0x86dd, &good)), (0, 1, 0, 0));
    assert_eq!(counted(101, &with(0, 0x44)), (0, 1, 0, 0));
    assert_eq!(counted(101, &with(3, 19)), (0, 1, 0, 0));
    assert_eq!(counted(101, &good[..19]), (0, 0, 1, 0));
    assert_eq!(counted(147, &good), (0, 0, 0, 1));
    // Ports that lie behind the datagram's end are the link's padding; a length of 0 is that of a segment which the card cuts up.
    let ports = |data: &[u8]| decode(101, data, false).0.unwrap().key.source_port();
    assert_eq!((ports(&with(3, 22)), ports(&with(3, 0))), (Some(0), Some(1)));
}

#[test]
fn the_authentication_header_is_looked_through() {
    for addresses in [([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), ([1; 16].into(), [2; 16].into())] {
        let segment = transport(6, 80, 443, &[]);
        let header = [&[6, 4, 0, 0][..], &[9; 20]].concat();
        let data = ip(addresses, 51, &[], None, &[header, segment].concat());
        assert_eq!(decode(101, &data, false).0.unwrap().key, key(addresses, (80, 443), 6));
    }
}
