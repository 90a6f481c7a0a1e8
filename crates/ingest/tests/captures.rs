//! Captures in every form, against a writer that knows what it put there; whole, cut, damaged, compressed and through pipes.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::packets::{Captured, Container, Form, Writer, capture, ethernet, ip, traffic, transport};
use naive::{Compression, compress};
use overbank_ingest::capture::{
    CaptureOptions, CaptureReader, FlowBatch, FlowDecoder, Fragments, PacketChunk, PacketCounts,
};
use overbank_ingest::{Error, Result};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// All packets of captures, and the errors between them.
fn read(options: &CaptureOptions) -> (Vec<Captured>, Vec<Error>) {
    let (mut packets, mut errors) = (Vec::new(), Vec::new());
    let mut reader = CaptureReader::open(options.clone()).unwrap();
    let mut chunk = PacketChunk::new();
    loop {
        match reader.next_chunk(&mut chunk) {
            Ok(false) => return (packets, errors),
            Ok(true) => packets.extend(chunk.packets().map(|packet| Captured {
                data: packet.data.to_vec(),
                wire_bytes: packet.wire_bytes,
                time_ns: packet.time_ns,
                link: packet.link.0,
            })),
            Err(error) => {
                assert!(chunk.is_empty(), "packets beside an error");
                errors.push(error);
            }
        }
    }
}

fn options(path: &Path, chunk_bytes: usize) -> CaptureOptions {
    let mut options = CaptureOptions::new([path]);
    options.chunk_bytes = chunk_bytes;
    options
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The same packets as far as a form can say them: times in its units, one link type.
fn as_written(form: Form, packets: &[Captured]) -> Vec<Captured> {
    let mut packets = packets.to_vec();
    let link = packets.first().map_or(1, |packet| packet.link);
    for packet in &mut packets {
        match form.container {
            Container::Microseconds | Container::LongHeaders => {
                (packet.time_ns, packet.link) = (packet.time_ns / 1000 * 1000, link);
            }
            Container::Nanoseconds => packet.link = link,
            Container::Pcapng { .. } => {}
        }
    }
    packets
}

fn forms() -> impl Strategy<Value = Form> {
    let containers = prop_oneof![
        Just(Container::Microseconds),
        Just(Container::Nanoseconds),
        Just(Container::LongHeaders),
        (prop_oneof![Just(6u32), Just(2)], any::<bool>())
            .prop_map(|(block, is_noisy)| Container::Pcapng { block, is_noisy }),
    ];
    (any::<bool>(), containers).prop_map(|(is_big_endian, container)| Form { is_big_endian, container })
}

fn packets() -> impl Strategy<Value = Vec<Captured>> {
    let links = prop_oneof![Just(1u32), Just(101), Just(113), Just(9999)];
    let packet =
        (prop::collection::vec(any::<u8>(), 0..90), 0u32..2000, 0..4_000_000_000_000_000_000u64, links);
    let packet = packet.prop_map(|(data, more, time_ns, link)| Captured {
        wire_bytes: data.len() as u32 + more,
        data,
        time_ns,
        link,
    });
    prop::collection::vec(packet, 0..30)
}

proptest! {
    #[test]
    fn what_was_written_is_read(form in forms(), packets in packets(), chunk_bytes in 1usize..3000, compression in 0..4) {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, _) = capture(form, &packets);
        let bytes = match compression {
            0 => compress(&bytes, Compression::Gzip),
            1 => zstd::encode_all(&bytes[..], 1).unwrap(),
            _ => bytes,
        };
        let (read, errors) = read(&options(&file(&folder, "capture", &bytes), chunk_bytes));
        prop_assert!(errors.is_empty(), "{errors:?}");
        prop_assert_eq!(read, as_written(form, &packets));
    }

    #[test]
    fn of_a_capture_cut_anywhere_the_whole_packets_come_and_then_an_error(
        form in forms(), packets in packets(), chunk_bytes in 1usize..3000, cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, ends) = capture(form, &packets);
        let len = cut.index(bytes.len());
        let (read, errors) = read(&options(&file(&folder, "cut", &bytes[..len]), chunk_bytes));
        let whole = ends.iter().filter(|&&end| end <= len).count();
        prop_assert_eq!(&read[..], &as_written(form, &packets)[..whole]);
        match &errors[..] {
            [] => {
                // Between two blocks, or two packets.
                let (rest, _) = capture(form, &packets[..whole]);
                let is_pcapng = matches!(form.container, Container::Pcapng { .. });
                prop_assert!(len > 0 && (is_pcapng || rest.len() == len), "{len} of {} bytes", bytes.len());
            }
            [Error::CaptureCutOff { path, packets, at, bytes, needed_bytes }] => {
                prop_assert_eq!((path.ends_with("cut"), *packets), (true, whole as u64));
                prop_assert_eq!(at + bytes, len as u64);
                prop_assert!(bytes < needed_bytes, "{bytes} of {needed_bytes}");
            }
            _ => prop_assert!(false, "{errors:?}"),
        }
    }

    #[test]
    fn any_bytes_are_read_the_same_in_chunks_of_any_size(
        form in forms(), packets in packets(), chunk_bytes in 1usize..200,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut bytes, _) = capture(form, &packets);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let path = file(&folder, "bad", &bytes);
        let (small, large) = (read(&options(&path, chunk_bytes)), read(&options(&path, 1 << 20)));
        prop_assert_eq!(small.0, large.0);
        prop_assert_eq!(format!("{:?}", small.1), format!("{:?}", large.1));
    }
}

#[test]
fn a_cut_capture_says_where_and_the_next_input_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(1, 3, 3, 1.0).collect();
    let form = Form { is_big_endian: false, container: Container::Nanoseconds };
    let (bytes, ends) = capture(form, &packets);
    let cut = file(&folder, "a", &bytes[..ends[1] + 20]);
    let whole = file(&folder, "b", &bytes);
    let (read, errors) = read(&CaptureOptions::new([&cut, &whole]));
    assert_eq!(read, [&packets[..2], &packets].concat());
    let needed = 16 + packets[2].data.len();
    assert_eq!(
        errors[0].to_string(),
        format!(
            "{} ends too early: what starts at byte {} takes at least {needed} bytes, of which 20 are there; the 2 whole packets before \
             were read; fetch it again, or let what writes it come to its end",
            cut.display(),
            ends[1]
        )
    );
}

#[test]
fn what_is_no_capture_is_refused_by_its_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, start) in
        [(&b"GET / HTTP/1.1"[..], "[47, 45, 54, 20]"), (b"\x0a\x0d\x0d\x0b and", "[0a, 0d, 0d, 0b]")]
    {
        let (_, errors) = read(&CaptureOptions::new([file(&folder, "x", bytes)]));
        assert!(errors[0].to_string().contains(start), "{}", errors[0]);
        assert!(matches!(errors[..], [Error::NotACapture { .. }]));
    }
    for bytes in [&b""[..], b"\xa1", b"\xd4\xc3\xb2\xa1\x02\0\x04\0"] {
        let (_, errors) = read(&CaptureOptions::new([file(&folder, "x", bytes)]));
        let len = bytes.len() as u64;
        assert!(
            matches!(errors[..], [Error::CaptureCutOff { at: 0, bytes, .. }] if bytes == len),
            "{errors:?}"
        );
    }
    let mut writer = Writer::new(false);
    writer.pcap_header(0xa1b2_c3d4, (3, 0), 1);
    let (_, errors) = read(&CaptureOptions::new([file(&folder, "x", &writer.bytes)]));
    assert!(errors[0].to_string().contains("version 3.0 of pcap"), "{}", errors[0]);
}

/// Lengths that claim gigabytes, made so that a reader which believes them would take the memory or never end.
#[test]
fn lengths_that_no_packet_has_are_refused_and_long_unknown_blocks_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let packet = Captured { data: vec![7; 60], wire_bytes: 60, time_ns: 0, link: 1 };
    let damaged = |bytes: &[u8], what: &str, at: u64| {
        let (read, errors) = read(&CaptureOptions::new([file(&folder, "x", bytes)]));
        let [error @ Error::Damaged { at: found, .. }] = &errors[..] else { panic!("{what}: {errors:?}") };
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!((*found, read.len()), (at, 1), "{what}");
    };

    let form = Form { is_big_endian: true, container: Container::Microseconds };
    let (mut pcap, _) = capture(form, std::slice::from_ref(&packet));
    let at = pcap.len() as u64;
    for number in [0, 0, 0xffff_fff0u32, 60] {
        pcap.extend(number.to_be_bytes());
    }
    damaged(&pcap, "4294967280 captured bytes, more than the 1048576 of packet_bytes_max", at);

    let section = || {
        let mut writer = Writer::new(false);
        writer.section();
        writer.interface(1);
        writer.packet_block(6, 0, 0, &packet);
        writer
    };
    let with = |what: &str, block: &dyn Fn(&mut Writer)| {
        let mut writer = section();
        let at = writer.bytes.len() as u64;
        block(&mut writer);
        writer.packet_block(6, 0, 0, &packet);
        damaged(&writer.bytes, what, at);
    };
    let of = |kind: u32, words: &'static [u32]| {
        move |writer: &mut Writer| writer.block(kind, |body| words.iter().for_each(|&word| body.u32(word)))
    };
    with("captured bytes, more than", &of(6, &[0, 0, 0, 1 << 30, 60]));
    with("a packet of 61 captured bytes in a block of 32", &of(6, &[0, 0, 0, 61, 60]));
    with("a packet of interface 1, where 1 are described", &of(6, &[1, 0, 0, 0, 0]));
    with("a packet of 0 captured bytes in a block of 12", &|writer| {
        writer.block(6, |_| {});
        writer.bytes.extend([0; 16]);
    });
    with("which has at least 20", &of(1, &[1]));
    with("which has at least 16", &of(3, &[]));
    with("no byte order", &of(0x0a0d_0d0a, &[1, 2, 3, 4]));
    with("a multiple of 4", &|writer| {
        writer.u32(77);
        writer.u32(13);
    });
    with("40 bytes long by its start and 44 by its end", &|writer| {
        writer.block(77, |body| body.bytes.extend([0; 28]));
        let end = writer.bytes.len();
        writer.bytes[end - 4] += 4;
    });

    // A block of 16 MiB in chunks of 1000 bytes: passed over, and what follows is read.
    let mut writer = section();
    writer.block(0x0bad, |body| body.bytes.resize(16 << 20, 1));
    writer.packet_block(2, 0, 0, &packet);
    let (read, errors) = read(&options(&file(&folder, "x", &writer.bytes), 1000));
    assert_eq!((read.len(), errors.len()), (2, 0));
}

#[test]
fn simple_packets_are_of_the_first_interface_and_the_time_before() {
    let folder = tempfile::tempdir().unwrap();
    let packet = Captured { data: vec![7; 60], wire_bytes: 60, time_ns: 5, link: 1 };
    let mut writer = Writer::new(true);
    writer.section();
    // At most 10 bytes of a packet, in units of a second's 1024th part, from a day on.
    writer.block(1, |body| {
        body.u16(113);
        body.u16(0);
        body.u32(10);
        body.option(9, &[0x8a]);
        body.option(14, &86_400u64.to_be_bytes());
    });
    writer.interface(1);
    let simple = |writer: &mut Writer| {
        writer.block(3, |body| {
            body.u32(1500);
            body.bytes.extend([1; 10]);
        });
    };
    simple(&mut writer);
    writer.packet_block(6, 1, 5, &packet);
    simple(&mut writer);
    writer.packet_block(2, 0, 1536, &packet);
    let (read, errors) = read(&CaptureOptions::new([file(&folder, "x", &writer.bytes)]));
    assert!(errors.is_empty(), "{errors:?}");
    let simple_at = |time_ns| Captured { data: vec![1; 10], wire_bytes: 1500, time_ns, link: 113 };
    let late = Captured { time_ns: 86_401_500_000_000, link: 113, ..packet.clone() };
    assert_eq!(read, [simple_at(0), packet, simple_at(5), late]);
}

#[test]
fn lengths_of_old_files_stand_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    for (versions, lengths) in
        [((2, 2), [70, 60]), ((543, 0), [70, 60]), ((2, 3), [60, 70]), ((2, 3), [70, 60]), ((2, 4), [60, 70])]
    {
        let mut writer = Writer::new(false);
        writer.pcap_header(0xa1b2_c3d4, versions, 1 | 0xf400_0000);
        for number in [1, 2].into_iter().chain(lengths) {
            writer.u32(number);
        }
        writer.bytes.extend([3; 60]);
        let (read, errors) = read(&CaptureOptions::new([file(&folder, "x", &writer.bytes)]));
        assert!(errors.is_empty(), "{versions:?}: {errors:?}");
        assert_eq!(read, [Captured { data: vec![3; 60], wire_bytes: 70, time_ns: 1_000_002_000, link: 1 }]);
    }
}

#[test]
fn compressed_captures_that_are_cut_say_so_behind_their_packets() {
    let folder = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(3, 2000, 500, 1.0).collect();
    let (bytes, _) = capture(Form { is_big_endian: false, container: Container::Nanoseconds }, &packets);
    let gzip = compress(&bytes, Compression::Gzip);
    let (read, errors) = read(&options(&file(&folder, "cut.gz", &gzip[..gzip.len() / 2]), 1 << 16));
    assert!(matches!(errors[..], [Error::CutShort { compression: "gzip", .. }]), "{errors:?}");
    assert!(read.len() > 100 && packets.starts_with(&read), "{} packets", read.len());
}

#[test]
fn options_out_of_range_and_absent_files_are_named_at_the_start() {
    let open = |change: fn(&mut CaptureOptions)| -> Result<()> {
        let mut options = CaptureOptions::new(["/nowhere/at/all"]);
        change(&mut options);
        CaptureReader::open(options).map(drop)
    };
    assert!(matches!(open(|_| {}), Err(Error::Open { .. })));
    assert!(matches!(
        open(|options| options.chunk_bytes = 0),
        Err(Error::InvalidOption { name: "chunk_bytes", .. })
    ));
    let wide = open(|options| options.packet_bytes_max = usize::MAX);
    assert!(matches!(wide, Err(Error::InvalidOption { name: "packet_bytes_max", .. })));
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_gives_its_packets_when_the_wait_is_over() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    let packets: Vec<Captured> = traffic(4, 4, 4, 1.0).collect();
    let form = Form { is_big_endian: false, container: Container::Pcapng { block: 6, is_noisy: false } };
    let (bytes, ends) = capture(form, &packets);
    let (out, mut into) = std::io::pipe().unwrap();
    let mut options = CaptureOptions::new([format!("/proc/self/fd/{}", out.as_raw_fd())]);
    // What is there is read, and no more is waited for.
    options.pause = Some(std::time::Duration::ZERO);
    let mut reader = CaptureReader::open(options).unwrap();
    let mut chunk = PacketChunk::new();
    let mut times = Vec::new();
    let mut rest = &bytes[..];
    for upto in [ends[0] + 30, ends[1] + 3, bytes.len()] {
        into.write_all(&rest[..upto - (bytes.len() - rest.len())]).unwrap();
        rest = &bytes[upto..];
        // One read may be over before all of it is taken.
        let whole = ends.iter().filter(|&&end| end <= upto).count();
        while times.len() < whole {
            assert!(reader.next_chunk(&mut chunk).unwrap());
            times.extend(chunk.packets().map(|packet| packet.time_ns));
        }
        assert!(
            reader.next_chunk(&mut chunk).unwrap() && chunk.is_empty(),
            "nothing is there, and the pipe is open"
        );
    }
    drop(into);
    assert!(!reader.next_chunk(&mut chunk).unwrap());
    assert_eq!(times, packets.iter().map(|packet| packet.time_ns).collect::<Vec<_>>());
}

/// The flows of files, one text a packet, and what the packets were.
fn flows(paths: &[PathBuf], chunk_bytes: usize, tunnels: bool) -> (Vec<String>, PacketCounts) {
    let mut options = CaptureOptions::new(paths);
    options.chunk_bytes = chunk_bytes;
    let mut reader = CaptureReader::open(options).unwrap();
    let (mut chunk, mut batch) = (PacketChunk::new(), FlowBatch::new());
    let (mut fragments, mut counts, mut keys) = (Fragments::default(), PacketCounts::default(), Vec::new());
    while reader.next_chunk(&mut chunk).unwrap() {
        FlowDecoder { tunnels }.decode(&chunk, &mut batch);
        fragments.resolve(&mut batch);
        counts.add(batch.counts());
        keys.extend(batch.packets().iter().map(|packet| packet.key.to_string()));
    }
    (keys, counts)
}

#[test]
fn fragments_find_their_ports_across_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let segment = transport(17, 53, 5353, &[0; 32]);
    let part = |identification, offset: u16, has_more| {
        let part = naive::packets::Part { identification, offset, has_more };
        let piece = &segment[usize::from(offset) * 8..][..8];
        let data = ethernet(0x0800, &ip(addresses, 17, &[], Some(part), piece));
        Captured { wire_bytes: data.len() as u32, data, time_ns: 0, link: 1 }
    };
    let packets = [part(1, 1, true), part(1, 0, true), part(2, 2, true), part(1, 1, true), part(1, 4, false)];
    let (bytes, _) = capture(Form { is_big_endian: false, container: Container::Microseconds }, &packets);
    let path = file(&folder, "fragments", &bytes);
    let (known, unknown) = ("10.0.0.1:53 > 10.0.0.2:5353 udp", "10.0.0.1:0 > 10.0.0.2:0 udp");
    for chunk_bytes in [1, 100, 1 << 20] {
        let (keys, counts) = flows(std::slice::from_ref(&path), chunk_bytes, false);
        // One before the first of its datagram, and one of which the first never came.
        assert_eq!(keys, [unknown, known, unknown, known, known]);
        assert_eq!(counts.without_ports, 2);
    }
}

/// Small captures of real traffic and of a generator of odd files; `testdata/README.md` tells where they come from.
#[test]
fn captures_of_others_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let read = |name: &str| {
        let (packets, errors) = read(&CaptureOptions::new([folder.join(name)]));
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let times: Vec<u64> = packets.iter().map(|packet| packet.time_ns).collect();
        let (keys, counts) = flows(&[folder.join(name)], 1 << 20, false);
        assert_eq!(counts.packets, keys.len() as u64, "{name}");
        (keys, times, counts.wire_bytes)
    };
    let (keys, times, wire_bytes) = read("ntp.pcap");
    assert_eq!((keys.len(), wire_bytes), (12, 12 * 90));
    assert_eq!((times[0], times[11]), (1_476_535_656_489_094_000, 1_476_535_739_793_479_000));
    assert_eq!(keys[1], "17.253.4.253:123 > 192.168.1.95:123 udp");
    let (keys, times, _) = read("modified-format.pcap");
    assert_eq!(
        (&keys[..], &times[..]),
        (&["10.154.0.3 > 8.8.8.8 icmp".to_owned()][..], &[1_712_763_541_734_807_000][..])
    );
    // The same four packets, in blocks of all kinds and between others.
    let (client, server) = ("0.0.0.0:68 > 255.255.255.255:67 udp", "192.168.0.1:67 > 192.168.0.10:68 udp");
    for name in ["test001-be", "test001-le", "test010-le", "test016-be", "test016-le"] {
        let (keys, times, wire_bytes) = read(&format!("{name}.pcapng"));
        assert_eq!(
            (keys, wire_bytes),
            ([client, server, client, server].map(str::to_owned).to_vec(), 1312),
            "{name}"
        );
        let last = if name.starts_with("test016") { 1_340_954_905_300_858_000 } else { 0 };
        assert_eq!(times[3], last, "{name}");
    }
}
