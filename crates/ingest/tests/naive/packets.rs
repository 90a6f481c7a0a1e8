//! Packets built layer by layer, and captures of them in every form: what the readers of captures are held against.
//!
//! It uses nothing of the crate, so that a program that needs a capture can take it by its path.

use std::net::IpAddr;

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) data: Vec<u8>,
    pub(crate) wire_bytes: u32,
    pub(crate) time_ns: u64,
    pub(crate) link: u32,
}

/// An Ethernet frame.
pub(crate) fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type.to_be_bytes(), payload].concat()
}

/// A tag of a VLAN, behind an EtherType that says so: its type and the payload.
pub(crate) fn tagged(id: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &ether_type.to_be_bytes(), payload].concat()
}

/// A stack of MPLS labels.
pub(crate) fn labelled(labels: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, label) in labels.iter().enumerate() {
        let bottom = u32::from(i + 1 == labels.len());
        bytes.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// The EtherType of these addresses.
pub(crate) fn ether_type(address: IpAddr) -> u16 {
    if address.is_ipv4() { 0x0800 } else { 0x86dd }
}

/// Which part of a datagram a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) identification: u16,
    /// In units of 8 bytes.
    pub(crate) offset: u16,
    pub(crate) has_more: bool,
}

/// An IP packet between addresses of one family. `extensions` are headers of options, given by how many words of 4 (IPv4) or 8 (IPv6)
/// bytes they take: IPv4 puts them into one header, IPv6 makes a header of each.
pub(crate) fn ip(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    extensions: &[u8],
    part: Option<Part>,
    payload: &[u8],
) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let options = usize::from(extensions.iter().sum::<u8>().min(10)) * 4;
            let total = (20 + options + payload.len()) as u16;
            let flags = part.map_or(0x4000, |part| part.offset | u16::from(part.has_more) << 13);
            let identification = part.map_or(0, |part| part.identification);
            let mut bytes = vec![0x45 + (options / 4) as u8, 0];
            for number in [total, identification, flags] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.extend([64, protocol, 0, 0]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            bytes.extend(vec![1; options]);
            bytes.extend(payload);
            bytes
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut kinds: Vec<u8> =
                extensions.iter().enumerate().map(|(i, _)| if i == 0 { 0 } else { 60 }).collect();
            kinds.extend(part.map(|_| 44));
            kinds.push(protocol);
            let mut headers = Vec::new();
            for (i, words) in extensions.iter().enumerate() {
                headers.extend([kinds[i + 1], words - 1]);
                headers.extend(vec![0; usize::from(*words) * 8 - 2]);
            }
            if let Some(part) = part {
                headers.extend([protocol, 0]);
                headers.extend((part.offset << 3 | u16::from(part.has_more)).to_be_bytes());
                headers.extend(u32::from(part.identification).to_be_bytes());
            }
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend(((headers.len() + payload.len()) as u16).to_be_bytes());
            bytes.extend([kinds[0], 64]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            bytes.extend(headers);
            bytes.extend(payload);
            bytes
        }
        _ => unreachable!("addresses of two families"),
    }
}

/// A transport header, as long as the protocol's own, and a payload.
pub(crate) fn transport(protocol: u8, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
    match protocol {
        6 => [&ports[..], &[0; 8], &[0x50, 0x10], &[0; 6], payload].concat(),
        17 | 136 => [&ports[..], &((8 + payload.len()) as u16).to_be_bytes(), &[0; 2], payload].concat(),
        132 => [&ports[..], &[0; 8], payload].concat(),
        _ => [&[8, 0, 0, 0, 0, 0, 0, 0][..], payload].concat(),
    }
}

/// A form that a capture file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) is_big_endian: bool,
    pub(crate) container: Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Microseconds,
    Nanoseconds,
    /// Microseconds, with the longer headers of a patched libpcap.
    LongHeaders,
    /// Blocks of this type: 6 enhanced, 2 obsolete. With blocks between that nobody knows, where asked for.
    Pcapng {
        block: u32,
        is_noisy: bool,
    },
}

/// Numbers in one byte order, one after another.
pub(crate) struct Writer {
    pub(crate) is_big_endian: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(is_big_endian: bool) -> Self {
        Self { is_big_endian, bytes: Vec::new() }
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.bytes.extend(if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() });
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes.extend(if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() });
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes.extend(if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() });
    }

    /// The header of a classic file.
    pub(crate) fn pcap_header(&mut self, magic: u32, versions: (u16, u16), link: u32) {
        self.u32(magic);
        self.u16(versions.0);
        self.u16(versions.1);
        for number in [0, 0, 262_144, link] {
            self.u32(number);
        }
    }

    /// A packet of a classic file.
    pub(crate) fn pcap_packet(&mut self, packet: &Captured, unit_ns: u64) {
        self.u32((packet.time_ns / 1_000_000_000) as u32);
        self.u32((packet.time_ns % 1_000_000_000 / unit_ns) as u32);
        self.u32(packet.data.len() as u32);
        self.u32(packet.wire_bytes);
    }

    /// A block of pcapng, padded to whole words.
    pub(crate) fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        let mut within = Self::new(self.is_big_endian);
        body(&mut within);
        within.bytes.resize(within.bytes.len().next_multiple_of(4), 0);
        let length = within.bytes.len() as u32 + 12;
        self.u32(kind);
        self.u32(length);
        self.bytes.extend(within.bytes);
        self.u32(length);
    }

    pub(crate) fn section(&mut self) {
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d);
            body.u16(1);
            body.u16(0);
            body.u64(u64::MAX);
            // A comment.
            body.option(1, b"made by a test");
            body.option(0, b"");
        });
    }

    pub(crate) fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// An interface that counts in nanoseconds.
    pub(crate) fn interface(&mut self, link: u32) {
        self.block(1, |body| {
            body.u16(link as u16);
            body.u16(0);
            body.u32(0);
            body.option(2, b"eth0");
            body.option(9, &[9]);
            body.option(0, b"");
        });
    }

    pub(crate) fn packet_block(&mut self, kind: u32, interface: u32, units: u64, packet: &Captured) {
        self.block(kind, |body| {
            match kind {
                6 => body.u32(interface),
                _ => {
                    body.u16(interface as u16);
                    body.u16(0);
                }
            }
            body.u32((units >> 32) as u32);
            body.u32(units as u32);
            body.u32(packet.data.len() as u32);
            body.u32(packet.wire_bytes);
            body.bytes.extend(&packet.data);
            body.bytes.resize(body.bytes.len().next_multiple_of(4), 0);
            body.option(1, b"a comment");
        });
    }
}

/// A capture of `packets`; of the classic format, whose files have one link type, that of the first. Where each packet ends in it.
pub(crate) fn capture(form: Form, packets: &[Captured]) -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(form.is_big_endian);
    let mut ends = Vec::new();
    let link = packets.first().map_or(1, |packet| packet.link);
    let (magic, unit_ns) = match form.container {
        Container::Microseconds => (0xa1b2_c3d4, 1000),
        Container::Nanoseconds => (0xa1b2_3c4d, 1),
        Container::LongHeaders => (0xa1b2_cd34, 1000),
        Container::Pcapng { block, is_noisy } => {
            pcapng(&mut writer, block, is_noisy, packets, &mut ends);
            return (writer.bytes, ends);
        }
    };
    writer.pcap_header(magic, (2, 4), link);
    for packet in packets {
        writer.pcap_packet(packet, unit_ns);
        if form.container == Container::LongHeaders {
            writer.u32(7);
            writer.u32(0);
        }
        writer.bytes.extend(&packet.data);
        ends.push(writer.bytes.len());
    }
    (writer.bytes, ends)
}

/// An interface for each link type, in the order in which they come; a new section in the other byte order after every fifth packet
/// where it is noisy.
fn pcapng(writer: &mut Writer, block: u32, is_noisy: bool, packets: &[Captured], ends: &mut Vec<usize>) {
    let mut links: Vec<u32> = Vec::new();
    for (i, packet) in packets.iter().enumerate() {
        if i == 0 || is_noisy && i % 5 == 0 {
            writer.is_big_endian ^= i != 0;
            writer.section();
            links.clear();
        }
        if is_noisy {
            // Names of hosts, statistics, and a block of somebody's own.
            for kind in [4, 5, 0x0bad_cafe, 0x0000_0bad] {
                writer.block(kind, |body| body.bytes.extend(vec![i as u8; i * 7 % 50]));
            }
        }
        let interface = links.iter().position(|link| *link == packet.link).unwrap_or_else(|| {
            writer.interface(packet.link);
            links.push(packet.link);
            links.len() - 1
        });
        let start = writer.bytes.len();
        writer.packet_block(block, interface as u32, packet.time_ns, packet);
        ends.push(start + 28 + packet.data.len());
    }
    if packets.is_empty() {
        writer.section();
    }
}

/// Numbers that look random and are the same each time (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Packets of flows of which the i-th heaviest has a share like i to the power of `-skew`; IPv4 and IPv6, TCP and UDP, tags here and
/// there, of 64 to 1518 bytes on the wire, a microsecond apart. What is captured of each are its headers.
pub(crate) fn traffic(seed: u64, packets: usize, flows: usize, skew: f64) -> impl Iterator<Item = Captured> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=flows)
        .map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        })
        .collect();
    let mut numbers = Numbers(seed);
    (0..packets).map(move |i| {
        let at = numbers.unit() * sum;
        let flow = sums.partition_point(|upto| *upto < at).min(flows.saturating_sub(1));
        let mut of_flow = Numbers(seed ^ (flow as u64).wrapping_mul(0xd6e8_feb8_6659_fd93));
        let (first, second, third) = (of_flow.next(), of_flow.next(), of_flow.next());
        let addresses: (IpAddr, IpAddr) = if third % 5 == 0 {
            let address = |low: u64| (0x2001_0db8_u128 << 96 | u128::from(low)).to_be_bytes();
            (address(first).into(), address(second).into())
        } else {
            (
                ((first as u32) | 1 << 31).to_be_bytes().into(),
                ((second as u32) | 1 << 31).to_be_bytes().into(),
            )
        };
        let protocol = if third % 3 == 0 { 17 } else { 6 };
        let segment = transport(protocol, (third >> 16) as u16 | 1024, 443, &[]);
        let packet = ip(addresses, protocol, &[], None, &segment);
        let kind = ether_type(addresses.0);
        let data = match third % 7 {
            0 => ethernet(0x8100, &tagged(5, kind, &packet)),
            _ => ethernet(kind, &packet),
        };
        let wire_bytes = 64 + (numbers.next() % 1455) as u32;
        let wire_bytes = wire_bytes.max(data.len() as u32);
        Captured { data, wire_bytes, time_ns: 1_700_000_000_000_000_000 + i as u64 * 1000, link: 1 }
    })
}
