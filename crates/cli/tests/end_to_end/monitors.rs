//! `overbank monitor`: reports against exact tables of the packets, for all keys, numbers of threads and epochs.

use crate::announced::{Announced, signal};
use crate::command::{Ran, Run, overbank};
use crate::packets::{Captured, Container, Form, capture, ether_type, ethernet, ip, traffic, transport};
use crate::stream::{file, sample};
use crate::terminal::fits;
use overbank_ingest::capture::{
    CaptureOptions, CaptureReader, FlowBatch, FlowDecoder, FlowKind, FlowPacket, Fragments, LinkType, Packet,
    PacketChunk,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const SAMPLES: [&str; 7] = [
    "modified-format.pcap",
    "ntp.pcap",
    "test001-be.pcapng",
    "test001-le.pcapng",
    "test010-le.pcapng",
    "test016-be.pcapng",
    "test016-le.pcapng",
];

/// What the reader alone finds in captures: packets with a flow, and how many packets there are.
fn read(paths: &[PathBuf]) -> (Vec<FlowPacket>, u64) {
    let mut reader = CaptureReader::open(CaptureOptions::new(paths)).unwrap();
    let (mut chunk, mut batch, mut fragments) = (PacketChunk::new(), FlowBatch::new(), Fragments::default());
    let (mut packets, mut all) = (Vec::new(), 0);
    while reader.next_chunk(&mut chunk).unwrap() {
        FlowDecoder::default().decode(&chunk, &mut batch);
        fragments.resolve(&mut batch);
        packets.extend(batch.packets());
        all += batch.counts().packets;
    }
    (packets, all)
}

/// The flows of made-up packets.
fn flows_of(packets: &[Captured]) -> Vec<FlowPacket> {
    let mut batch = FlowBatch::new();
    for Captured { data, wire_bytes, time_ns, link } in packets {
        let packet = Packet { data, wire_bytes: *wire_bytes, time_ns: *time_ns, link: LinkType(*link) };
        FlowDecoder::default().push(&packet, &mut batch);
    }
    batch.packets().to_vec()
}

fn pcap(packets: &[Captured]) -> Vec<u8> {
    capture(Form { is_big_endian: false, container: Container::Nanoseconds }, packets).0
}

/// The exact table of flows: name and size, the heaviest first.
fn table(packets: &[FlowPacket], kind: &str, by: &str) -> Vec<(String, u64)> {
    let kind: FlowKind = kind.parse().unwrap();
    let mut sizes = BTreeMap::new();
    for packet in packets {
        let size: &mut u64 = sizes.entry(packet.key.project(kind).unwrap()).or_default();
        *size += if by == "packets" { 1 } else { u64::from(packet.wire_bytes) };
    }
    let mut table: Vec<_> = sizes.into_iter().collect();
    table.sort_by_key(|&(key, size)| (Reverse(size), key));
    table.into_iter().map(|(key, size)| (key.to_string(), size)).collect()
}

fn monitor(words: &str, inputs: &[PathBuf]) -> Run {
    let run = overbank(&format!("monitor --memory 16MiB --seed 3 {words} --pcap"));
    inputs.iter().fold(run, Run::with)
}

/// The reports that a run printed.
pub(crate) fn reports(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a report")).collect()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

pub(crate) fn top(report: &Value) -> Vec<(String, u64)> {
    let flow = |flow: &Value| (flow["key"].as_str().unwrap().to_owned(), number(&flow["estimate"]));
    report["top"].as_array().unwrap().iter().map(flow).collect()
}

/// What of a report may not depend on the number of threads.
fn promised(report: &Value) -> Value {
    let mut report = report.clone();
    report
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["monitor", "entropy", "spreaders", "heavy_threshold"].contains(&name.as_str()));
    report
}

fn entropy(table: &[(String, u64)]) -> f64 {
    let total: u64 = table.iter().map(|flow| flow.1).sum();
    let share = |size: u64| size as f64 / total as f64;
    table.iter().map(|&(_, size)| -share(size) * share(size).log2()).sum()
}

#[test]
fn reports_are_exact_where_flows_are_few() {
    let inputs = SAMPLES.map(|name| sample("captures").join(name));
    let (packets, all) = read(&inputs);
    for kind in ["src-dst", "five-tuple", "src", "dst", "dst-dport", "proto"] {
        for by in ["packets", "bytes"] {
            let exact = table(&packets, kind, by);
            for threads in [1, 2, 8, 16] {
                let words = format!("--json -n 1000 --key {kind} --by {by} --threads {threads}");
                let report = &reports(&monitor(&words, &inputs).run().text())[0];
                assert_eq!(
                    (number(&report["packets"]), number(&report["counted"])),
                    (all, packets.len() as u64)
                );
                let bytes: u64 = packets.iter().map(|packet| u64::from(packet.wire_bytes)).sum();
                assert_eq!(number(&report["counted_bytes"]), bytes);
                assert_eq!(top(report), exact, "{words}");
                assert_eq!(report["flows"]["estimate"].as_f64(), Some(exact.len() as f64), "{words}");
                let bits = report["entropy"]["bits"].as_f64().unwrap();
                assert!((bits - entropy(&exact)).abs() < 1e-9, "{words}: {bits}");
                let longest = packets.iter().map(|packet| packet.wire_bytes).max().map(f64::from);
                assert_eq!(report["packet_sizes"]["max"].as_f64(), longest);
                assert_eq!(report["monitor"]["threads"], threads);
            }
        }
    }
}

#[test]
fn epochs_are_cut_where_they_end_and_answers_do_not_depend_on_threads() {
    let place = tempfile::tempdir().unwrap();
    // A microsecond apart: three epochs of 10 ms, the last one shorter.
    let packets: Vec<Captured> = traffic(7, 25_000, 2_000, 1.1).collect();
    let input = [file(place.path(), "trace.pcap", pcap(&packets))];
    for by in ["packets", "bytes"] {
        let mut first: Option<Vec<Value>> = None;
        for threads in [1, 2, 8, 16] {
            let words = format!("--json -n 5 --epoch 10ms --by {by} --threads {threads}");
            let reports = reports(&monitor(&words, &input).run().text());
            assert_eq!(reports.len(), 3, "{words}");
            let mut before: Vec<(String, u64)> = Vec::new();
            for (report, packets) in reports.iter().zip(packets.chunks(10_000)) {
                let exact = table(&flows_of(packets), "src-dst", by);
                let sizes: BTreeMap<&str, u64> =
                    exact.iter().map(|(key, size)| (key.as_str(), *size)).collect();
                assert_eq!(number(&report["packets"]), packets.len() as u64);
                for flow in report["top"].as_array().unwrap() {
                    let size = sizes[flow["key"].as_str().unwrap()];
                    assert!(
                        number(&flow["lower"]) <= size && size <= number(&flow["upper"]),
                        "{flow}: {size}"
                    );
                }
                let names = |flows: &[(String, u64)]| {
                    flows.iter().take(3).map(|flow| flow.0.clone()).collect::<Vec<_>>()
                };
                assert_eq!(names(&top(report)), names(&exact), "{words}");
                let [lower, upper] = ["lower", "upper"].map(|bound| report["flows"][bound].as_f64().unwrap());
                assert!((lower..=upper).contains(&(exact.len() as f64)), "{words}: {}", report["flows"]);
                let bits = report["entropy"]["bits"].as_f64().unwrap();
                assert!((bits - entropy(&exact)).abs() < 0.5, "{words}: {bits}, {}", entropy(&exact));
                let changes = report["changes"].as_array();
                assert_eq!(changes.is_some(), number(&report["epoch"]) > 0);
                for change in changes.into_iter().flatten() {
                    let key = change["key"].as_str().unwrap();
                    let was = before.iter().find(|flow| flow.0 == key).map_or(0, |flow| flow.1);
                    let grew = sizes.get(key).copied().unwrap_or(0) as f64 - was as f64;
                    let [lower, upper] = ["lower", "upper"].map(|bound| change[bound].as_f64().unwrap());
                    assert!((lower..=upper).contains(&grew), "{change}: {grew}");
                }
                before = exact;
            }
            assert_eq!(
                reports.iter().map(|report| report["ended"].as_str().unwrap()).collect::<Vec<_>>(),
                ["time", "time", "input"]
            );
            assert_eq!(reports[1]["start"], "2023-11-14T22:13:20.010Z");
            assert_eq!(reports[1]["end"], "2023-11-14T22:13:20.020Z");
            assert_eq!(reports[2]["end"], "2023-11-14T22:13:20.024999Z");
            let promised: Vec<Value> = reports.iter().map(promised).collect();
            assert_eq!(first.get_or_insert_with(|| promised.clone()), &promised, "{words}");
        }
    }
}

#[test]
fn a_source_of_many_destinations_is_a_spreader() {
    let place = tempfile::tempdir().unwrap();
    let packet = |i: u32, source: [u8; 4], destination: u32| {
        let ends: (IpAddr, IpAddr) = (source.into(), destination.to_be_bytes().into());
        let data = ethernet(ether_type(ends.0), &ip(ends, 17, &[], None, &transport(17, 9, 53, &[])));
        Captured { wire_bytes: data.len() as u32, data, time_ns: u64::from(i), link: 1 }
    };
    let packets: Vec<Captured> = (0..3000)
        .map(|i| match i % 3 {
            0 => packet(i, [10, 0, 0, 9], 0x0a01_0000 + i),
            _ => packet(i, [10, 0, 0, (i % 200) as u8], 0x0a02_0001),
        })
        .collect();
    let input = [file(place.path(), "scan.pcap", pcap(&packets))];
    for threads in [1, 8] {
        let report = &reports(&monitor(&format!("--json --threads {threads}"), &input).run().text())[0];
        let spreader = &report["spreaders"][0];
        assert_eq!(spreader["key"], "10.0.0.9");
        let [lower, estimate, upper] =
            ["lower", "estimate", "upper"].map(|bound| spreader[bound].as_f64().unwrap_or(f64::INFINITY));
        assert!(lower <= 1001.0 && 1000.0 <= upper && (500.0..2000.0).contains(&estimate), "{spreader}");
    }
}

#[test]
fn fragments_are_of_the_flow_of_their_first_one_whoever_counts_them() {
    let place = tempfile::tempdir().unwrap();
    let ends: (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut packets = Vec::new();
    for datagram in 0..4000u16 {
        for offset in [0u16, 1] {
            let part =
                crate::packets::Part { identification: datagram, offset: 2 * offset, has_more: offset == 0 };
            let payload =
                if offset == 0 { transport(17, 1000 + datagram % 7, 53, &[0; 8]) } else { vec![0; 600] };
            let data = ethernet(ether_type(ends.0), &ip(ends, 17, &[], Some(part), &payload));
            let time_ns = u64::from(datagram) * 1000 + u64::from(offset);
            packets.push(Captured { wire_bytes: data.len() as u32, data, time_ns, link: 1 });
        }
    }
    let input = [file(place.path(), "fragments.pcap", pcap(&packets))];
    let exact = table(&read(&input).0, "five-tuple", "packets");
    assert_eq!(exact.len(), 7, "{exact:?}");
    for threads in [1, 2, 16] {
        let words = format!("--json --key five-tuple -n 100 --threads {threads}");
        assert_eq!(top(&reports(&monitor(&words, &input).run().text())[0]), exact, "{words}");
    }
}

#[test]
fn a_capture_that_is_cut_off_counts_as_far_as_it_is_whole() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(1, 500, 20, 1.0).collect();
    let bytes = pcap(&packets);
    let cut = file(place.path(), "cut.pcap", &bytes[..bytes.len() - 5]);
    let whole = file(place.path(), "whole.pcap", &bytes);
    let garbage = file(place.path(), "garbage.pcap", "no capture at all");

    let ran = monitor("--json", &[cut.clone(), whole.clone()]).run();
    ran.ends_naming(2, &["cut.pcap", "499 whole packets", "fetch it again"]);
    assert_eq!(number(&reports(&ran.out)[0]["packets"]), 499, "stops there");
    let ran = monitor("--json --on-error next", &[cut, garbage.clone(), whole]).run();
    assert_eq!((ran.code, ran.err.lines().count()), (Some(2), 2), "{}", ran.err);
    assert!(ran.err.contains("cut.pcap") && ran.err.contains("garbage.pcap"), "{}", ran.err);
    assert_eq!(number(&reports(&ran.out)[0]["packets"]), 999);

    let ran = monitor("--json", &[garbage]).run();
    ran.ends_naming(2, &["garbage.pcap", "no capture of packets"]);
    assert_eq!(number(&reports(&ran.out)[0]["packets"]), 0);
    monitor("", &[place.path().join("absent.pcap")]).run().fails_naming(&["absent.pcap"]);
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let input = [sample("captures/ntp.pcap")];
    for (words, named) in [
        ("--key src-src", &["--key", "five-tuple"][..]),
        ("--rate fast", &["--rate", "x10"]),
        ("--epoch 10", &["--epoch", "500ms"]),
        ("--threads 129", &["--threads 129", "128"]),
        ("--threads 64", &["64 threads", "16.0 MiB", "--threads"]),
    ] {
        monitor(words, &input).run().fails_naming(named);
    }
    overbank("monitor --memory 1MiB --pcap x").run().fails_naming(&["--memory 1.00 MiB", "16.0 MiB"]);
    overbank("monitor").run().fails_naming(&["--pcap"]);
}

#[test]
fn pages_for_people_fit_eighty_columns() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(11, 5_000, 300, 1.0).collect();
    let input = [file(place.path(), "trace.pcap", pcap(&packets))];
    let text = monitor("--key five-tuple --by bytes --epoch 2ms", &input).run().text();
    fits(&text);
    for words in [
        "Epoch 2",
        "packets",
        "distinct flows",
        "entropy of flows",
        "thresholds",
        "Top flows",
        "Changes",
        "Spreaders",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let empty = monitor("", &[]).with("-").fed(pcap(&[])).run().text();
    fits(&empty);
    assert!(empty.contains("no packet came") && empty.contains("none"), "{empty}");
}

#[test]
fn a_pipe_is_reported_as_it_comes() {
    let packets: Vec<Captured> = traffic(5, 300, 20, 1.0).collect();
    let bytes = pcap(&packets);
    let mut child = monitor("--json --report 20ms --threads 4", &[]).with("-").piped();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&bytes[..bytes.len() / 2]).unwrap();
    pipe.flush().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // However slow the machine is, at last there is a report of what was written, with the names of flows and sources.
    let half = loop {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
        let report: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(report["ended"], "not yet");
        if number(&report["packets"]) > 0 && !top(&report).is_empty() && report["spreaders"] != json!([]) {
            break report;
        }
    };
    // Every sketch tells of it, though the epoch goes on.
    assert!(number(&half["packets"]) < 300 && half["flows"]["estimate"].as_f64().unwrap() >= 1.0, "{half}");
    assert!(
        half["entropy"]["bits"].as_f64().unwrap() > 0.0
            && half["packet_sizes"]["min"].as_f64().unwrap() >= 14.0,
        "{half}"
    );
    assert!(
        half["spreaders"][0]["estimate"].as_f64().unwrap() > 0.0 && half["heavy_threshold"].is_null(),
        "{half}"
    );
    pipe.write_all(&bytes[bytes.len() / 2..]).unwrap();
    drop(pipe);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let last = reports(&rest).pop().unwrap();
    assert_eq!((number(&last["packets"]), &last["ended"]), (300, &Value::from("input")));
}

#[test]
fn captures_are_read_at_their_own_pace() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(5, 50, 10, 1.0).collect();
    // 50 µs by the capture: however it is stretched, all are counted, and no sooner than the pace says.
    let input = [file(place.path(), "trace.pcap", pcap(&packets))];
    for (rate, least) in [("line", 49e-6), ("x0.001", 49e-3), ("x1000", 0.0)] {
        let began = std::time::Instant::now();
        let report = &reports(&monitor(&format!("--json --rate {rate}"), &input).run().text())[0];
        assert_eq!(number(&report["packets"]), 50);
        assert!(began.elapsed().as_secs_f64() >= least, "{rate}");
    }
}

#[test]
fn a_pipe_that_closes_ends_it_in_silence() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(5, 5000, 10, 1.0).collect();
    let input = [file(place.path(), "trace.pcap", pcap(&packets))];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    monitor("--json --epoch 1ms", &input).output_to(writer).run().ends_in_silence();
}

/// Runs a command that asks a store.
fn ask(words: &str, store: &Path) -> Run {
    let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
    overbank(command).with(store).args(rest)
}

#[test]
fn kept_epochs_are_asked_by_other_commands_one_or_all() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(7, 25_000, 2_000, 1.1).collect();
    let input = [file(place.path(), "trace.pcap", pcap(&packets))];
    let store = place.path().join("epochs");
    let words = "--json --epoch 10ms --threads 2 --store";
    let told = reports(&monitor("", &input).args(words).with(&store).run().text());
    ask("verify", &store).run().text();
    let info = ask("info --json", &store).run().json();
    let kept = info["epochs"].as_array().unwrap();
    assert_eq!(
        kept.iter().map(|epoch| number(&epoch["packets"])).collect::<Vec<_>>(),
        [10_000, 10_000, 5_000]
    );
    for (at, report) in told.iter().enumerate() {
        assert_eq!((&kept[at]["start"], &kept[at]["end"]), (&report["start"], &report["end"]));
        let of = format!("--json --epoch {at}");
        let flows = ask(&format!("top {of}"), &store).run().json();
        assert_eq!(top(&json!({ "top": flows["heavy"] })), top(report), "{of}");
        assert_eq!(flows["heavy_threshold"], report["heavy_threshold"], "{of}");
        // Who is larger than that is there by name.
        let threshold = flows["heavy_threshold"].as_u64().unwrap_or(u64::MAX);
        let all = ask(&format!("top -n 100000 {of}"), &store).run().json();
        let named =
            top(&json!({ "top": all["heavy"] })).into_iter().map(|flow| flow.0).collect::<BTreeSet<_>>();
        let exact = table(&flows_of(packets.chunks(10_000).nth(at).unwrap()), "src-dst", "packets");
        let missing = exact.iter().find(|(key, size)| *size > threshold && !named.contains(key));
        assert_eq!(missing, None, "{of}: {threshold}");
        assert_eq!(ask(&format!("distinct {of}"), &store).run().json(), report["flows"], "{of}");
        assert_eq!(ask(&format!("quantile {of}"), &store).run().json(), report["packet_sizes"], "{of}");
    }
    // All together: never below the truth, and those that weigh most are there.
    let exact = table(&flows_of(&packets), "src-dst", "packets");
    let flows = ask("top --json -n 3", &store).run().json();
    for (flow, (key, size)) in flows["heavy"].as_array().unwrap().iter().zip(&exact) {
        assert_eq!(flow["key"].as_str(), Some(key.as_str()));
        assert!(number(&flow["lower"]) <= *size && *size <= number(&flow["upper"]), "{flow}: {size}");
        let asked = ask("estimate --json", &store).with(key).run().json();
        assert_eq!((&asked["estimate"], &asked["key"]), (&flow["estimate"], &flow["key"]));
    }
    assert_eq!(number(&flows["weight"]), 25_000);
    let distinct = ask("distinct --json", &store).run().json();
    assert!(number_between(&distinct, exact.len() as f64), "{distinct}");
    let lines = ask("top --output tsv -n 1", &store).run().text();
    assert!(lines.ends_with(&format!("\t{}\n", exact[0].0)), "{lines}");
    let last = ask("estimate --epoch last --output csv", &store).with("10.0.0.1 > 10.0.0.2").run();
    assert_eq!((last.code, last.out.lines().count()), (Some(1), 2), "a flow that never came: {last:?}");
    assert!(ask("top", &store).run().text().contains("Top flows"));
    assert!(ask("estimate", &store).with(&exact[0].0).run().text().contains(&exact[0].0));
    ask("top --epoch 9", &store).run().fails_naming(&["epochs 0 to 2", "last"]);
    ask("estimate", &store).with("no flow").run().fails_naming(&["no flow", "src-dst"]);

    // Another run goes on; only the newest stay.
    let run = monitor("", &input).args("--epoch 10ms --keep 4 --store").with(&store).run();
    run.text();
    let info = ask("info --json", &store).run().json();
    let numbers: Vec<u64> =
        info["epochs"].as_array().unwrap().iter().map(|epoch| number(&epoch["epoch"])).collect();
    assert_eq!((numbers, info["summaries"].as_array().unwrap().len()), (vec![2, 3, 4, 5], 20));
    ask("verify", &store).run().text();

    for (words, named) in [
        ("--key src", "--key src-dst"),
        ("--by bytes", "--by packets"),
        ("--memory 64MiB", "--memory 16.0 MiB"),
        ("--seed 4", "--seed"),
    ] {
        let run = overbank("monitor --memory 16MiB --pcap")
            .with(&input[0])
            .args("--store")
            .with(&store)
            .args(words);
        let run = if words.starts_with("--memory") {
            overbank("monitor --pcap").with(&input[0]).args("--store").with(&store).args(words)
        } else {
            run
        };
        run.run().fails_naming(&[named]);
    }
}

fn number_between(bounds: &Value, number: f64) -> bool {
    bounds["lower"].as_f64().unwrap() <= number && number <= bounds["upper"].as_f64().unwrap()
}

#[test]
fn other_stores_and_epochs_are_told_apart() {
    let place = tempfile::tempdir().unwrap();
    let [profile, epochs] = ["profile", "epochs"].map(|name| place.path().join(name));
    overbank("profile --quiet --memory 16MiB --store").with(&profile).fed("a\nb\n").run().text();
    ask("top --epoch 1", &profile).run().fails_naming(&["no epochs", "--epoch"]);
    let input = [sample("captures/ntp.pcap")];
    overbank("monitor --pcap")
        .with(&input[0])
        .args("--store")
        .with(&profile)
        .run()
        .fails_naming(&["something else than epochs"]);
    overbank("monitor --memory 16MiB --pcap").with(&input[0]).args("--store").with(&epochs).run().text();
    overbank("profile --quiet --store")
        .with(&epochs)
        .fed("a\n")
        .run()
        .fails_naming(&["something else than a profile"]);
}

#[test]
fn what_interrupts_a_run_leaves_whole_epochs() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(3, 25_000, 100, 1.0).collect();
    let input = file(place.path(), "trace.pcap", pcap(&packets));
    let store = place.path().join("epochs");
    let words = "monitor --memory 16MiB --threads 2 --json --epoch 10ms --store";
    let run = || overbank(words).with(&store).args("--pcap").with(&input);
    // Killed while the second epoch is committed: the first is there, and only it.
    let mut announced = Announced::start(run(), Run::start);
    assert!(announced.reach("committing") && announced.reach("committing"));
    announced.kill();
    let info = ask("info --json", &store).run().json();
    assert_eq!(info["epochs"].as_array().unwrap().len(), 1);
    ask("verify", &store).run().text();
    // Ctrl-C in the second: what came of it is kept and reported, and it says that it was cut.
    let mut announced = Announced::start(run(), Run::start);
    assert!(announced.reach("committed"));
    signal(&announced.child, Signal::INT);
    let ran = announced.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.err.contains("interrupted") && ran.err.contains("kept"), "{}", ran.err);
    let told = reports(&ran.out);
    assert_eq!(told.last().unwrap()["ended"], "interrupt");
    let info = ask("info --json", &store).run().json();
    let kept = info["epochs"].as_array().unwrap();
    assert_eq!(kept.len(), 1 + told.len());
    assert_eq!(kept.last().unwrap()["packets"], told.last().unwrap()["packets"]);
}

#[test]
fn a_store_without_room_keeps_the_epochs_before() {
    let place = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = traffic(3, 25_000, 100, 1.0).collect();
    let input = file(place.path(), "trace.pcap", pcap(&packets));
    let store = place.path().join("epochs");
    // No file may be longer than 64 KiB: the counters of a first epoch have no room.
    let script = "ulimit -f 64; exec \"$0\" monitor --memory 16MiB --threads 2 --store \"$1\" --pcap \"$2\"";
    let ran = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_overbank")])
        .arg(&store)
        .arg(&input)
        .output()
        .unwrap();
    let ran = Ran::from(ran);
    ran.ends_naming(2, &["ulimit -f"]);
    ask("verify", &store).run().text();
    assert_eq!(ask("info --json", &store).run().json()["epochs"], Value::Null);
    ask("top", &store).run().fails_naming(&["holds nothing yet"]);
}

/// On a terminal, the full-screen view, which gives it back at the end; lines where it cannot be or is not wanted.
#[test]
fn a_terminal_gets_a_full_screen_and_its_own_back() {
    let input = sample("captures/ntp.pcap");
    let run = |words: &str, name: &str| {
        let program = env!("CARGO_BIN_EXE_overbank");
        let command = format!("{program} monitor --memory 16MiB {words} --pcap {}", input.display());
        let mut script = std::process::Command::new("script");
        script
            .args(["-q", "-e", "-c", &command, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .env("TERM", name);
        let output = script.output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(view) = run("", "xterm") else {
        println!("skipped: there is no `script` command here");
        return;
    };
    let (taken, given) = (view.find("\u{1b}[?1049h"), view.rfind("\u{1b}[?1049l"));
    assert!(taken.is_some() && taken < given, "{view:?}");
    assert!(view[given.unwrap()..].contains("Top flows"), "the last report stays: {view:?}");
    for (words, name) in [("--plain", "xterm"), ("--json", "xterm"), ("", "dumb")] {
        let lines = run(words, name).unwrap();
        assert!(!lines.contains("\u{1b}[?1049h"), "{words}: {lines:?}");
    }
}
