//! `overbank monitor --xdp`: packets that the kernel counts, in a network of the test's own, against what was sent.

use crate::announced::{Announced, signal};
use crate::command::{Ran, Run, overbank};
use crate::interfaces::{in_own_network, ip, of_ours, send};
use crate::monitors::{number, reports, top};
use overbank_ingest::capture::{CaptureOptions, CaptureReader, PacketChunk};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ChildStdout, Command};
use std::time::{Duration, Instant};

/// In a network of its own, where the kernel takes programs, with two interfaces that are silent but for what a test sends.
fn between_interfaces(test: impl FnOnce() + Send + 'static) {
    if let Err(error) = overbank_xdp::XdpWorker::run_empty(&[0; 60], 1) {
        println!("skipped: {error}");
        return;
    }
    in_own_network(|| {
        let is_there = ip(&[
            "link add left type veth peer name right",
            "link set left up",
            "link set right up",
            "addr add 10.9.0.1/24 dev left",
            "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud permanent",
            "-6 addr add fd09::1/64 dev left nodad",
            "-6 neigh add fd09::2 lladdr 02:00:00:00:00:02 dev left nud permanent",
        ]);
        if !is_there {
            println!("skipped: a pair of interfaces with both families cannot be had here");
            return;
        }
        test();
    });
}

/// Starts it; it has attached.
fn start(words: &str) -> Announced {
    let mut run = Announced::start(overbank(&format!("monitor --memory 16MiB --json {words}")), Run::start);
    assert!(run.reach("listening"), "{words}");
    run.go_on();
    run
}

/// Whether a program is on the interface.
fn is_on() -> bool {
    let shown = Command::new("ip").args(["link", "show", "right"]).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).contains("xdp")
}

/// The kernel takes it off a moment after the link is closed.
fn gone() {
    let began = Instant::now();
    while is_on() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

fn next(out: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    assert!(out.read_line(&mut line).unwrap() > 0, "it has ended");
    serde_json::from_str(&line).unwrap()
}

#[test]
fn what_the_kernel_counts_is_what_was_sent() {
    between_interfaces(|| {
        for by in ["packets", "bytes"] {
            let mut run =
                start(&format!("--xdp right --key five-tuple --by {by} --epoch 1h -n 1000 --report 20ms"));
            assert!(is_on());
            let mut sent = send();
            if by == "packets" {
                // As `send` has them: 200, 400 and 600 of each family, the smallest in bytes first.
                let mut flows: Vec<_> = sent.iter_mut().collect();
                flows.sort_by_key(|(flow, bytes)| (flow.starts_with('['), **bytes));
                flows
                    .into_iter()
                    .zip([200, 400, 600].repeat(2))
                    .for_each(|((_, size), packets)| *size = packets);
            }
            let mut out = BufReader::new(run.child.stdout.take().unwrap());
            // However long they take to come in, at last a report has them all.
            while of_ours(&next(&mut out)) != sent {}
            signal(&run.child, Signal::INT);
            let mut lines = String::new();
            while out.read_line(&mut lines).unwrap() > 0 {}
            assert_eq!(run.child.wait().unwrap().code(), Some(130));
            let last = reports(&lines).pop().unwrap();
            assert_eq!((&last["ended"], of_ours(&last)), (&Value::from("interrupt"), sent));
            assert_eq!(last["spreaders"], Value::Null);
            let flows = number(&last["counted"]);
            assert!(flows >= 2400 && last["flows"]["estimate"].as_f64().unwrap() >= 6.0, "{last}");
            for flow in last["top"].as_array().unwrap() {
                let [lower, estimate, upper] =
                    ["lower", "estimate", "upper"].map(|bound| number(&flow[bound]));
                assert!(lower <= estimate && estimate <= upper, "{flow}");
            }
            gone();
        }
    });
}

#[test]
fn epochs_have_every_packet_once() {
    between_interfaces(|| {
        let mut run = start("--xdp right --key src-dst --epoch 200ms -n 1000");
        let mut out = BufReader::new(run.child.stdout.take().unwrap());
        let (mut packets, mut epochs) = (0, 0);
        while packets < 3 * 2400 {
            if epochs < 3 {
                send();
            }
            let report = next(&mut out);
            assert_eq!((number(&report["epoch"]), &report["ended"]), (epochs, &Value::from("time")));
            packets += top(&report)
                .iter()
                .filter(|(flow, _)| flow.contains("9.0.2") || flow.contains("fd09::2"))
                .map(|flow| flow.1)
                .sum::<u64>();
            epochs += 1;
        }
        assert_eq!(packets, 3 * 2400);
        signal(&run.child, Signal::KILL);
        run.child.wait().unwrap();
        gone();
    });
}

/// A capture that is replayed is what it is when it is read.
#[test]
fn a_capture_that_is_replayed_is_counted_as_it_is_read() {
    between_interfaces(|| {
        for name in ["left", "right"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("send");
        let mut cc = Command::new("cc");
        let cc =
            cc.args(["-O2", "-D_GNU_SOURCE"]).arg(repository.join("crates/xdp/tests/c/send.c")).arg("-o");
        if !cc.arg(&program).status().is_ok_and(|status| status.success()) {
            println!("skipped: there is no C compiler here");
            return;
        }
        let capture = repository.join("testdata/captures/ntp.pcap");
        let mut reader = CaptureReader::open(CaptureOptions::new([&capture])).unwrap();
        let (mut chunk, mut frames, mut packets) = (PacketChunk::new(), Vec::new(), 0);
        while reader.next_chunk(&mut chunk).unwrap() {
            for packet in chunk.packets() {
                frames.extend((packet.data.len() as u32).to_le_bytes());
                frames.extend(packet.data);
                packets += 1;
            }
        }
        let path = place.path().join("frames");
        std::fs::write(&path, frames).unwrap();
        let mut run = start("--xdp right --key five-tuple --epoch 1h -n 100000 --report 20ms");
        assert!(Command::new(&program).arg("left").arg(&path).status().unwrap().success());
        let mut out = BufReader::new(run.child.stdout.take().unwrap());
        let report = loop {
            let report = next(&mut out);
            if number(&report["packets"]) >= packets {
                break report;
            }
        };
        signal(&run.child, Signal::INT);
        run.child.wait().unwrap();
        let words = "monitor --memory 16MiB --json --key five-tuple -n 100000 --pcap";
        let read = overbank(words).with(&capture).run();
        let read = reports(&read.out).pop().unwrap();
        for what in ["packets", "bytes", "counted", "counted_bytes", "not_counted", "without_ports"] {
            assert_eq!(report[what], read[what], "{what}");
        }
        assert_eq!(top(&report), top(&read));
    });
}

#[test]
fn what_xdp_cannot_do_is_told_with_what_can() {
    for (words, told) in [
        ("--xdp absent0", &["no interface absent0", "there are"][..]),
        ("--xdp lo --key dport", &["five-tuple, src-dst, src or dst", "--iface"]),
        ("--xdp lo --hash siphash", &["xxh3", "--iface"]),
        ("--xdp lo --store x", &["--store"]),
        ("--xdp lo --iface lo", &["--iface"]),
        ("--xdp lo --tunnels", &["--tunnels"]),
    ] {
        overbank(&format!("monitor --memory 16MiB {words}")).run().fails_naming(told);
    }
    // Without the right: another user's process.
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]);
    let program = tempfile::tempdir().unwrap();
    let copy = program.path().join("overbank");
    std::fs::copy(env!("CARGO_BIN_EXE_overbank"), &copy).unwrap();
    std::fs::set_permissions(program.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Ok(output) = other.arg(&copy).args(["monitor", "--xdp", "lo", "--memory", "16MiB"]).output() else {
        println!("skipped: there is no `setpriv` command here");
        return;
    };
    let ran = Ran::from(output);
    if ran.err.starts_with("setpriv") {
        println!("skipped: the rights of a process cannot be lowered here: {}", ran.err);
        return;
    }
    // Where this was built without clang, that comes first.
    let remedy = if ran.err.contains("no kernel program") { "clang" } else { "root" };
    ran.fails_naming(&[remedy, "--iface lo"]);
}
