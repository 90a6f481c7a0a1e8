//! What tests of the kernel's programs share: packets, and whether this machine can run the programs.

// Not every test uses all of it.
#![allow(dead_code, clippy::unwrap_used)]

use keyhash::{HashKind, KeyHasher, Seed};
use overbank::sketch::{CountMin, CountSketch, HyperLogLog};
use overbank_ingest::capture::{FlowBatch, FlowDecoder, FlowKey, FlowKind, LinkType, Packet};
use overbank_xdp::{FlowFields, Options, Sketch, XdpWorker};

/// The program of a sketch, or `None` with a line where this machine runs none at all. One that the kernel refuses is a fault.
pub(crate) fn load(sketch: Sketch, options: &Options) -> Option<XdpWorker> {
    if let Err(error) = XdpWorker::run_empty(&[0; 60], 1) {
        println!("left out: {error}");
        return None;
    }
    Some(XdpWorker::load(sketch, options).unwrap_or_else(|error| panic!("{sketch:?}: {error}")))
}

/// Numbers that look random, from 0 to below `range`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, range: usize) -> usize {
        self.0 += 1;
        let hash = KeyHasher::new(HashKind::Xxh3, Seed(7)).hash_u64(self.0);
        (hash.low() % range.max(1) as u64) as usize
    }
}

/// Ethernet with so many tags, and what is behind it.
pub(crate) fn ethernet(tags: usize, ether_type: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in 0..tags {
        frame.extend(if tag + 1 == tags { [0x81, 0] } else { [0x88, 0xa8] });
        frame.extend([0, 7]);
    }
    // The type is where the first tag's was; each tag carries the next.
    frame.extend(ether_type.to_be_bytes());
    frame.extend(rest);
    frame
}

/// IPv4 with options of so many words, a fragment's field, and what is behind it.
pub(crate) fn v4(flow: u16, words: u8, fragment: u16, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let total = 20 + 4 * u16::from(words) + rest.len() as u16;
    let mut packet = vec![0x45 + words, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 9]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    let [high, low] = flow.to_be_bytes();
    packet.extend([10, 0, high, low, 10, 1, 1, 1]);
    packet.extend(vec![1; 4 * usize::from(words)]);
    packet.extend(rest);
    packet
}

/// IPv6 and what is behind it.
pub(crate) fn v6(flow: u16, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0xfd; 14]);
    packet.extend(flow.to_be_bytes());
    packet.extend([0xfe; 16]);
    packet.extend(rest);
    packet
}

/// The first bytes of a transport header, and some payload.
pub(crate) fn ports(flow: u16) -> Vec<u8> {
    let [high, low] = flow.to_be_bytes();
    vec![high, low, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]
}

/// A frame of a flow of either family, with none to two tags.
pub(crate) fn frame(flow: u16) -> Vec<u8> {
    let tags = usize::from(flow % 3);
    let mut frame = match flow % 2 {
        0 => ethernet(tags, 0x0800, &v4(flow, 0, 0, 17, &ports(flow))),
        _ => ethernet(tags, 0x86dd, &v6(flow, 6, &ports(flow))),
    };
    frame.resize(frame.len().max(60), 0);
    frame
}

/// One of each form: options, fragments, extension headers, tunnels, tags without end, and no IP.
pub(crate) fn forms() -> Vec<Vec<u8>> {
    let data = ports(77);
    let mut all: Vec<Vec<u8>> = (0..6).map(frame).collect();
    for protocol in [0, 1, 4, 6, 17, 33, 41, 47, 50, 51, 58, 132, 136, 255] {
        all.push(ethernet(0, 0x0800, &v4(1, 0, 0, protocol, &data)));
        all.push(ethernet(1, 0x0800, &v4(2, 10, 0, protocol, &data)));
        all.push(ethernet(0, 0x86dd, &v6(3, protocol, &data)));
        all.push(ethernet(2, 0x86dd, &v6(4, protocol, &data)));
    }
    // More fragments, a later one, do not fragment.
    for fragment in [0x2000, 0x2010, 0x0010, 0x4000, 0x1fff] {
        all.push(ethernet(0, 0x0800, &v4(5, 0, fragment, 17, &data)));
        all.push(ethernet(
            0,
            0x0800,
            &v4(5, 0, fragment, 51, &[&[17, 4, 0, 0][..], &[0; 20], &data].concat()),
        ));
    }
    for offset in [0u16, 1, 8, 9, 0xfff8, 6] {
        let [high, low] = offset.to_be_bytes();
        let header = [17, 0, high, low, 0, 0, 0, 5];
        all.push(ethernet(0, 0x86dd, &v6(6, 44, &[&header[..], &data].concat())));
        all.push(ethernet(0, 0x86dd, &v6(6, 60, &[&[44, 0, 0, 0, 0, 0, 0, 0][..], &header, &data].concat())));
    }
    // Chains of headers of each kind, of many lengths; more than are read.
    for kind in [0u8, 43, 51, 60, 135, 139, 140] {
        for length in [0u8, 1, 2, 5] {
            let bytes = if kind == 51 { 4 * usize::from(length) + 8 } else { 8 * usize::from(length) + 8 };
            for count in [1usize, 3, 12, 13] {
                let mut chain = Vec::new();
                for i in 0..count {
                    let mut header = vec![0; bytes];
                    header[0] = if i + 1 == count { 17 } else { kind };
                    header[1] = length;
                    chain.extend(header);
                }
                chain.extend(&data);
                all.push(ethernet(count % 2, 0x86dd, &v6(7, kind, &chain)));
            }
        }
    }
    // Tunnels are of their outer flow.
    all.push(ethernet(0, 0x0800, &v4(8, 0, 0, 4, &v4(9, 0, 0, 6, &data))));
    all.push(ethernet(0, 0x86dd, &v6(8, 41, &v6(9, 6, &data))));
    all.push(ethernet(0, 0x0800, &v4(8, 0, 0, 47, &[&[0, 0, 8, 0][..], &v4(9, 0, 0, 6, &data)].concat())));
    for tags in [3, 15, 16, 17, 40] {
        all.push(ethernet(tags, 0x0800, &v4(10, 0, 0, 6, &data)));
    }
    for kind in [0x0806, 0x88cc, 0xffff, 0x86de] {
        all.push(ethernet(1, kind, &data));
    }
    // Lengths that lie.
    for total in [0u16, 1, 19, 20, 21, 24, 27, 1500, 0xffff] {
        let mut packet = v4(11, 0, 0, 17, &data);
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        all.push(ethernet(0, 0x0800, &packet));
        let mut packet = v6(11, 60, &[&[17, 0, 0, 0, 0, 0, 0, 0][..], &data].concat());
        packet[4..6].copy_from_slice(&total.to_be_bytes());
        all.push(ethernet(0, 0x86dd, &packet));
    }
    for first in [0x00, 0x40, 0x44, 0x4f, 0x55, 0x60, 0x6f, 0xff] {
        for kind in [0x0800, 0x86dd] {
            let mut packet = v4(12, 10, 0, 17, &data);
            packet[0] = first;
            all.push(ethernet(0, kind, &packet));
        }
    }
    all
}

/// Whether what is behind the tags is a header that the kernel's programs do not look behind: MPLS, PPPoE, the length of 802.3.
pub(crate) fn is_behind_more(frame: &[u8]) -> bool {
    let pair =
        |at: usize| frame.get(at..at + 2).map_or(0xffff, |pair| u16::from_be_bytes([pair[0], pair[1]]));
    let mut at = 12;
    for _ in 0..16 {
        match pair(at) {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 4,
            other => return matches!(other, 0x8847 | 0x8848 | 0x8864 | 0..=1500),
        }
    }
    false
}

/// What the library makes of the same packets.
pub(crate) struct Model {
    pub(crate) batch: FlowBatch,
    pub(crate) keys: Vec<FlowKey>,
    pub(crate) sizes: CountMin<u64>,
    pub(crate) signed: CountSketch,
    pub(crate) distinct: HyperLogLog,
}

impl Model {
    pub(crate) fn of<'f>(
        frames: impl IntoIterator<Item = &'f Vec<u8>>,
        options: &Options,
        hasher: &KeyHasher,
    ) -> Self {
        let mut batch = FlowBatch::new();
        for frame in frames {
            let packet =
                Packet { data: frame, wire_bytes: frame.len() as u32, time_ns: 0, link: LinkType::ETHERNET };
            FlowDecoder::default().push(&packet, &mut batch);
        }
        let mut model = Self {
            batch: FlowBatch::new(),
            keys: Vec::new(),
            sizes: CountMin::with_shape(1, 1 << 14, 3, hasher).unwrap(),
            signed: CountSketch::new(1 << 14, 3, hasher).unwrap(),
            distinct: HyperLogLog::new(14, hasher).unwrap(),
        };
        for packet in batch.packets() {
            let key = packet.key.project(kind_of(options.key)).unwrap();
            let hash = hasher.hash(key.as_bytes());
            let weight = if options.by_bytes { u64::from(packet.wire_bytes) } else { 1 };
            model.sizes.update(hash, weight);
            model.signed.update(hash, weight as i64);
            model.distinct.update(hash);
            model.keys.push(key);
        }
        model.batch = batch;
        model
    }

    /// The keys' bytes, each once, in their order.
    pub(crate) fn names(&self) -> Vec<&[u8]> {
        let mut names: Vec<&[u8]> = self.keys.iter().map(|key| key.as_bytes()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn kind_of(key: FlowFields) -> FlowKind {
    match key {
        FlowFields::Source => FlowKind::SOURCE,
        FlowFields::Destination => FlowKind::DESTINATION,
        FlowFields::SourceDestination => FlowKind::SOURCE_DESTINATION,
        FlowFields::FiveTuple => FlowKind::FIVE_TUPLE,
    }
}
