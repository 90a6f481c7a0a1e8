//! Readers of captures: any bytes are packets and then at most one error, the same for any size of chunk, and each packet is of one flow
//! or counted once.

use crate::{Target, Verdict};
use overbank_ingest::Error;
use overbank_ingest::capture::{
    CaptureOptions, CaptureReader, FlowBatch, FlowDecoder, FlowKey, FlowPacket, Fragments, PacketChunk,
    PacketCounts,
};
use std::cell::RefCell;
use tempfile::NamedTempFile;

/// The target. Input: whether tunnels are entered, then the bytes of the file.
pub const TARGET: Target = Target { name: "captures", seeds, run };

const CHUNK_BYTES: [usize; 2] = [50, 4096];
/// Below what lengths in the seeds may become, above what they are.
const PACKET_BYTES_MAX: usize = 2000;

fn seeds() -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = vec![
        include_bytes!("../../../testdata/captures/ntp.pcap").to_vec(),
        include_bytes!("../../../testdata/captures/modified-format.pcap").to_vec(),
        include_bytes!("../../../testdata/captures/test010-le.pcapng").to_vec(),
        include_bytes!("../../../testdata/captures/test016-be.pcapng").to_vec(),
    ];
    for link in [1, 101] {
        files.push(pcap(link, &packets().map(|packet| if link == 1 { ethernet(&packet) } else { packet })));
    }
    files.iter().flat_map(|file| [0, 1].map(|tunnels| [&[tunnels], &file[..]].concat())).collect()
}

/// A tagged frame around an IP packet.
fn ethernet(packet: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[0; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &ether_type, packet].concat()
}

/// One of each kind: with options, with extension headers, two fragments, tunnels.
fn packets() -> [Vec<u8>; 8] {
    let udp = |destination: u16, payload: &[u8]| {
        let length = (8 + payload.len()) as u16;
        [&[0, 53][..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
    };
    let plain = v4(17, 0, &udp(5353, b"data"));
    let extended = [
        &[0x60, 0, 0, 0, 0, 32, 0, 64][..],
        &[1; 32],
        &[43, 0, 0, 0, 0, 0, 0, 0],
        &[44, 0, 0, 0, 0, 0, 0, 0],
        &[17, 0, 0, 1, 0, 0, 0, 9],
        &udp(53, &[]),
    ];
    let mut optional = v4(6, 0, &[7; 24]);
    optional[0] = 0x46;
    [
        extended.concat(),
        optional,
        v4(17, 0x2000, &udp(5353, &[])),
        v4(17, 1, &[1; 8]),
        v4(4, 0, &v4(47, 0, &[&[0x30, 0, 8, 0][..], &[0; 8], &plain].concat())),
        v4(17, 0, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &ethernet(&plain)].concat())),
        v4(17, 0, &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 0, 0][..], &ethernet(&plain)].concat())),
        v4(
            17,
            0,
            &udp(2152, &[&[0x34, 0xff, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0, 0, 0][..], &plain].concat()),
        ),
    ]
}

fn v4(protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    for number in [total, 9, flags] {
        packet.extend(number.to_be_bytes());
    }
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(payload);
    packet
}

fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let numbers =
        |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = numbers(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, link]);
    for packet in packets {
        let length = packet.len() as u32;
        file.extend(numbers(&[1_700_000_000, 5, length, length]));
        file.extend(packet);
    }
    file
}

/// What a pass over an input yields.
#[derive(Debug, Default, PartialEq)]
struct Yield {
    packets: Vec<FlowPacket>,
    counts: PacketCounts,
    failures: Vec<String>,
}

fn run(data: &[u8]) -> Verdict {
    thread_local! {
        static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
    }
    let Some((&tunnels, bytes)) = data.split_first() else { return Verdict::Refused };
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(super::file_in_ram);
        std::fs::write(file.path(), bytes).expect("the file is ours");
        let [small, large] = CHUNK_BYTES.map(|chunk_bytes| {
            let mut options = CaptureOptions::new([file.path()]);
            (options.chunk_bytes, options.packet_bytes_max) = (chunk_bytes, PACKET_BYTES_MAX);
            options.window_bytes_max = 1 << 20;
            read(options, tunnels & 1 == 1)
        });
        match (small, large) {
            (Ok(small), Ok(large)) => {
                assert_eq!(small, large, "the size of a chunk changes the answer");
                assert!(small.failures.len() <= 1, "{:?}", small.failures);
                if small.failures.is_empty() { Verdict::Accepted } else { Verdict::Refused }
            }
            // How much comes out before the damage depends on how much is decompressed at a time.
            _ => Verdict::Refused,
        }
    })
}

/// All packets; an error where the input is a compressed one, and damaged.
fn read(options: CaptureOptions, tunnels: bool) -> Result<Yield, Error> {
    let packet_bytes_max = options.packet_bytes_max;
    let mut reader = CaptureReader::open(options)?;
    let decoder = FlowDecoder { tunnels };
    let (mut chunk, mut batch, mut fragments) = (PacketChunk::new(), FlowBatch::new(), Fragments::new(8));
    let mut all = Yield::default();
    loop {
        match reader.next_chunk(&mut chunk) {
            Ok(false) => return Ok(all),
            Ok(true) => {}
            Err(
                error @ (Error::CutShort { .. }
                | Error::Damaged { what: "zstd" | "gzip" | "xz" | "bzip2" | "lz4", .. }),
            ) => {
                return Err(error);
            }
            Err(error) => {
                all.failures.push(error.to_string());
                continue;
            }
        }
        assert!(chunk.packets().all(|packet| packet.data.len() <= packet_bytes_max));
        decoder.decode(&chunk, &mut batch);
        fragments.resolve(&mut batch);
        let counts = batch.counts();
        let missed = counts.not_ip + counts.malformed + counts.cut + counts.unknown_link;
        assert_eq!(batch.packets().len() as u64 + missed, chunk.len() as u64);
        assert_eq!(counts.packets, chunk.len() as u64);
        for packet in batch.packets() {
            let key = packet.key;
            assert_eq!(FlowKey::parse(key.kind(), &key.to_string()).expect("what it printed"), key);
        }
        all.counts.add(counts);
        all.packets.extend(batch.packets());
    }
}
