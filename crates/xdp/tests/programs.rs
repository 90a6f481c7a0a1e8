//! Each program in the kernel, run on packets there (`BPF_PROG_TEST_RUN`): what it counts is what the library counts of what crates/ingest
//! reads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod kernel;

use kernel::{Model, Random, forms, frame, is_behind_more, load};
use keyhash::Seed;
use overbank_xdp::{Epoch, FlowFields, Options, Sketch, XdpWorker};

const FIELDS: [FlowFields; 4] =
    [FlowFields::FiveTuple, FlowFields::SourceDestination, FlowFields::Source, FlowFields::Destination];

#[test]
fn the_kernel_takes_each_program() {
    for sketch in Sketch::ALL.into_iter().filter(|&sketch| sketch != Sketch::Empty) {
        for key in FIELDS {
            for by_bytes in [false, true] {
                let options = Options { key, by_bytes, ..Options::default() };
                let Some(mut worker) = load(sketch, &options) else { return };
                let packet = frame(2);
                let ran = worker.run(&packet, 1).unwrap();
                assert!(ran.passes && ran.packet == packet, "{sketch:?} {key:?}");
                assert_eq!(worker.end_epoch().unwrap().packets().counted, 1, "{sketch:?} {key:?}");
            }
        }
    }
}

/// Runs a program on each frame once; what it counted, and what the library does.
fn both(worker: &mut XdpWorker, frames: &[Vec<u8>], options: &Options) -> (Epoch, Model) {
    for packet in frames {
        let ran = worker.run(packet, 1).unwrap();
        assert!(ran.passes, "{packet:?}");
        assert_eq!(ran.packet, *packet, "it is as it came");
    }
    worker.poll();
    (worker.end_epoch().unwrap(), Model::of(frames, options, &worker.hasher().clone()))
}

/// That both say the same, all keys known by name.
fn same(epoch: &Epoch, model: &Model, sketch: Sketch) {
    let (ours, theirs) = (epoch.packets(), model.batch.counts());
    assert_eq!(
        [ours.packets, ours.bytes, ours.not_ip, ours.malformed, ours.cut, ours.without_ports],
        [
            theirs.packets,
            theirs.wire_bytes,
            theirs.not_ip,
            theirs.malformed,
            theirs.cut,
            theirs.without_ports
        ]
    );
    assert_eq!(ours.counted, model.keys.len() as u64);
    let bytes: u64 = model.batch.packets().iter().map(|packet| u64::from(packet.wire_bytes)).sum();
    assert_eq!(ours.counted_bytes, bytes);
    match sketch {
        Sketch::CountMin | Sketch::Flows => assert_eq!(epoch.sizes().unwrap(), model.sizes),
        Sketch::CountSketch => assert_eq!(epoch.signed_sizes().unwrap(), model.signed),
        _ => {}
    }
    if matches!(sketch, Sketch::HyperLogLog | Sketch::Flows) {
        assert_eq!(epoch.distinct().unwrap(), model.distinct);
    }
    if sketch == Sketch::Coco {
        assert_eq!(epoch.parts().unwrap().total_weight(), epoch.weight());
    }
}

/// Every form, each cut at every length that the kernel runs a program on.
#[test]
fn every_packet_is_read_as_captures_are() {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for whole in forms() {
        // Long ones end in headers that are alike.
        let lengths = (14..=whole.len()).filter(|len| *len < 90 || len % 7 == 0 || *len + 20 > whole.len());
        frames.extend(lengths.map(|len| whole[..len].to_vec()));
    }
    assert!(frames.len() > 5000 && !frames.iter().any(|frame| is_behind_more(frame)));
    for key in FIELDS {
        let options = Options { key, tau: 1, seed: Seed(key as u128), ..Options::default() };
        let Some(mut worker) = load(Sketch::Flows, &options) else { return };
        for frames in frames.chunks(1500) {
            let (epoch, model) = both(&mut worker, frames, &options);
            same(&epoch, &model, Sketch::Flows);
            assert_eq!(epoch.names(), model.names(), "τ is 1");
            assert_eq!(epoch.named_above(0.95), Some(0));
        }
    }
}

/// Bytes of any value anywhere behind the addresses.
#[test]
fn damaged_packets_are_read_as_captures_are() {
    let (whole, mut random) = (forms(), Random(0));
    let mut frames = Vec::new();
    let cases = std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000);
    while frames.len() < cases {
        let mut packet = whole[random.below(whole.len())].clone();
        for _ in 0..1 + random.below(4) {
            let at = 12 + random.below(packet.len() - 12);
            packet[at] = match random.below(3) {
                0 => random.below(256) as u8,
                1 => [0, 4, 6, 8, 17, 43, 44, 51, 60, 0x45, 0x60, 0x81, 0x86, 0xdd, 255][random.below(15)],
                _ => packet[at] ^ (1 << random.below(8)),
            };
        }
        packet.truncate(packet.len().max(14));
        if !is_behind_more(&packet) {
            frames.push(packet);
        }
    }
    let options = Options { tau: 1, names_max: 1 << 20, ..Options::default() };
    let Some(mut worker) = load(Sketch::Flows, &options) else { return };
    for frames in frames.chunks(3000) {
        let (epoch, model) = both(&mut worker, frames, &options);
        same(&epoch, &model, Sketch::Flows);
        assert_eq!(epoch.names(), model.names());
    }
}

/// Whatever τ, whatever is counted, whether messages are taken or not: all of it.
#[test]
fn each_sketch_is_the_library_s() {
    let mut random = Random(1);
    // Some flows come often.
    let frames: Vec<Vec<u8>> = (0..1500)
        .map(|_| {
            let range = 1 + random.below(200);
            frame(random.below(range) as u16)
        })
        .collect();
    for sketch in Sketch::ALL.into_iter().filter(|&sketch| sketch != Sketch::Empty) {
        for (tau, by_bytes, key) in [
            (1, false, FlowFields::FiveTuple),
            (3, true, FlowFields::FiveTuple),
            (20, false, FlowFields::SourceDestination),
            (127, false, FlowFields::Source),
        ] {
            let options = Options { tau, by_bytes, key, ..Options::default() };
            let Some(mut worker) = load(sketch, &options) else { return };
            // An epoch behind another: what was cleared is.
            for frames in [&frames[..500], &frames[500..]] {
                let (epoch, model) = both(&mut worker, frames, &options);
                same(&epoch, &model, sketch);
                if sketch == Sketch::Coco {
                    // So few keys hardly share both buckets.
                    let parts = epoch.parts().unwrap();
                    let exact = model.names().into_iter().filter(|name| {
                        let of = model
                            .keys
                            .iter()
                            .zip(model.batch.packets())
                            .filter(|(key, _)| key.as_bytes() == *name);
                        let weigh = |packet: &overbank_ingest::capture::FlowPacket| {
                            if by_bytes { u64::from(packet.wire_bytes) } else { 1 }
                        };
                        let weight: u64 = of.map(|(_, packet)| weigh(packet)).sum();
                        parts.estimate(worker.hasher().hash(name)) == weight
                    });
                    assert!(exact.count() * 10 > model.names().len() * 9);
                }
            }
        }
    }
}

/// The ring has room for some 58,000 messages; counters of 8 bits would wrap after 255.
#[test]
fn a_full_ring_loses_nothing_and_wraps_nothing() {
    const EACH: u32 = 40_000;
    for sketch in [Sketch::CountMin, Sketch::CountSketch, Sketch::Coco, Sketch::Flows] {
        for (tau, by_bytes) in [(1, false), (1, true), (100, false)] {
            let options = Options { tau, by_bytes, ..Options::default() };
            let Some(mut worker) = load(sketch, &options) else { return };
            // Longer than what τ counts bytes in.
            let longer = |mut short: Vec<u8>| {
                short.resize(1100, 0);
                short
            };
            let frames: Vec<Vec<u8>> = (0..2).map(|flow| longer(frame(flow))).collect();
            // A round that nobody polls, then one with room again, in one epoch.
            for _ in 0..2 {
                for packet in &frames {
                    worker.run(packet, EACH).unwrap();
                }
                let is_full = worker.kept().unwrap() > 0;
                assert_eq!(is_full, tau == 1, "{sketch:?}");
                worker.epoch().unwrap();
            }
            let epoch = worker.end_epoch().unwrap();
            assert_eq!(epoch.packets().counted, 4 * u64::from(EACH));
            for packet in &frames {
                let one = Model::of([packet], &options, worker.hasher());
                let hash = worker.hasher().hash(one.keys[0].as_bytes());
                let size = 2 * u64::from(EACH) * if by_bytes { packet.len() as u64 } else { 1 };
                match sketch {
                    Sketch::CountSketch => {
                        assert_eq!(epoch.signed_sizes().unwrap().estimate(hash), size as i64)
                    }
                    Sketch::Coco => assert_eq!(epoch.parts().unwrap().estimate(hash), size),
                    _ => assert_eq!(epoch.sizes().unwrap().estimate(hash), size),
                }
            }
            if epoch.packets().kept > 0 {
                assert_eq!(epoch.named_above(0.95), None, "names may be missing");
            }
        }
    }
}

/// Names that there is no room for are given up, the smallest first, and the threshold says so.
#[test]
fn no_more_names_than_there_may_be() {
    let options = Options { tau: 1, names_max: 10, ..Options::default() };
    let Some(mut worker) = load(Sketch::CountMin, &options) else { return };
    for flow in 0..200u16 {
        worker.run(&frame(flow), 1 + u32::from(flow)).unwrap();
        worker.poll();
    }
    let epoch = worker.end_epoch().unwrap();
    let names = epoch.names();
    assert_eq!(names.len(), 10);
    let above = epoch.named_above(0.95).unwrap();
    assert!((190..=200).contains(&above), "{above}");
    let model = Model::of(&(190..200).map(frame).collect::<Vec<_>>(), &options, worker.hasher());
    assert_eq!(names, model.names());
}
