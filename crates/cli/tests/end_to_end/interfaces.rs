//! `overbank monitor --iface`: real packets of interfaces in a network of the test's own, against what was sent.

use crate::announced::{Announced, signal};
use crate::command::{Ran, Run, overbank};
use crate::monitors::{number, reports, top};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

/// In a network of its own, so that nobody else's packets are there.
pub(crate) fn in_own_network(test: impl FnOnce() + Send + 'static) {
    let own = std::thread::spawn(|| {
        // This thread alone goes there, and the processes that it starts.
        #[allow(deprecated, reason = "what replaces it is not safe; no file is shared that this would split")]
        let gone = rustix::thread::unshare(
            rustix::thread::UnshareFlags::NEWNET | rustix::thread::UnshareFlags::NEWNS,
        );
        // Interfaces of a network are found in the /sys that was mounted there.
        let mounted = gone.is_ok() && run("mount", &["--make-rprivate /", "-t sysfs sysfs /sys"]);
        if !mounted || !ip(&["link set lo up"]) {
            println!("skipped: no network of its own can be had here: {gone:?}");
            return;
        }
        test();
    });
    own.join().unwrap();
}

#[test]
fn packets_of_an_interface_are_counted_or_dropped() {
    in_own_network(|| {
        for threads in [1, 3] {
            let words = format!(
                "monitor --iface lo --memory 16MiB --json --key five-tuple --epoch 1h --threads {threads}"
            );
            let mut run = Announced::start(overbank(&words), Run::start);
            let is_listening = (1..threads).all(|_| run.reach("listening"));
            assert!(is_listening && run.point().is_none_or(|point| point == "listening"));
            run.go_on();
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for i in 0..3000usize {
                assert!(sender.send_to(&[0; 1400][..i % 1400], receiver.local_addr().unwrap()).is_ok());
                assert_eq!(receiver.recv(&mut [0; 1400]).ok(), Some(i % 1400));
            }
            signal(&run.child, Signal::INT);
            let ran = run.end();
            assert_eq!(ran.code, Some(130), "{ran:?}");
            let report = reports(&ran.out).pop().unwrap();
            assert_eq!(number(&report["packets"]) + number(&report["dropped"]), 3000, "{report}");
            let flow = format!("{} > {} udp", sender.local_addr().unwrap(), receiver.local_addr().unwrap());
            assert_eq!(top(&report)[0], (flow, number(&report["packets"])));
            let bytes: usize = (0..3000).map(|i| 14 + 20 + 8 + i % 1400).sum();
            if report["dropped"] == 0 {
                assert_eq!(number(&report["bytes"]), bytes as u64);
            }
            assert_eq!(report["ended"], "interrupt");
        }
    });
}

/// Runs `ip` with each of these; whether all succeed.
pub(crate) fn ip(commands: &[&str]) -> bool {
    run("ip", commands)
}

fn run(program: &str, commands: &[&str]) -> bool {
    commands.iter().all(|words| {
        let status = std::process::Command::new(program).args(words.split_whitespace()).status();
        status.is_ok_and(|status| status.success())
    })
}

/// Datagrams of either family go out at one end of a pair of interfaces and come in at the other, whose machine they are not for: nobody
/// answers. Each end sees all of them once, whole, whatever the number of threads.
#[test]
fn packets_between_two_interfaces_are_counted_exactly() {
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
        for (interface, threads) in [("left", 1), ("right", 1), ("right", 3), ("left", 16)] {
            let words = format!(
                "monitor --iface {interface} --memory 16MiB --json --key five-tuple --by bytes --epoch 1h -n 1000 --report 5ms \
                 --threads {threads}"
            );
            let mut run = Announced::start(overbank(&words), Run::start);
            assert!((0..threads).all(|_| run.reach("listening")), "{words}");
            run.go_on();
            let sent = send();
            // However long they take to come in, at last a report has them all.
            let mut out = BufReader::new(run.child.stdout.take().unwrap());
            let mut line = String::new();
            loop {
                line.clear();
                assert!(out.read_line(&mut line).unwrap() > 0, "{words}");
                let report: Value = serde_json::from_str(&line).unwrap();
                if of_ours(&report) == sent {
                    break;
                }
            }
            signal(&run.child, Signal::INT);
            line.clear();
            while out.read_line(&mut line).unwrap() > 0 {}
            assert_eq!(run.child.wait().unwrap().code(), Some(130));
            let last = reports(&line).pop().unwrap();
            assert_eq!((&last["ended"], of_ours(&last)), (&Value::from("interrupt"), sent), "{words}");
            assert_eq!(number(&last["dropped"]), 0, "the rings have room for all: {last}");
        }
    });
}

/// Sends datagrams of many lengths; the bytes on the wire of each flow.
pub(crate) fn send() -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    for (from, to, header) in
        [("10.9.0.1:0", "10.9.0.2:4242", 14 + 20 + 8), ("[fd09::1]:0", "[fd09::2]:4243", 14 + 40 + 8)]
    {
        for flow in 1..=3usize {
            let socket = UdpSocket::bind(from).unwrap();
            let mut bytes = 0;
            for i in 0..200 * flow {
                let payload = [0; 1400];
                let payload = &payload[..(i * 37) % 1400];
                socket.send_to(payload, to).unwrap();
                bytes += (header + payload.len()) as u64;
            }
            sent.insert(format!("{} > {to} udp", socket.local_addr().unwrap()), bytes);
        }
    }
    sent
}

/// The flows of a report that `send` may have made: interfaces say something of themselves, too.
pub(crate) fn of_ours(report: &Value) -> BTreeMap<String, u64> {
    top(report).into_iter().filter(|(flow, _)| flow.contains(":424")).collect()
}

/// Whatever waits in a block that the kernel goes on with is counted at the end.
#[test]
fn the_last_packets_before_the_end_are_counted() {
    in_own_network(|| {
        for packets in [1usize, 7] {
            let words = "monitor --iface lo --memory 16MiB --json --key five-tuple --epoch 1h --threads 2";
            let mut run = Announced::start(overbank(words), Run::start);
            assert!((0..2).all(|_| run.reach("listening")));
            run.go_on();
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..packets {
                receiver.send_to(b"last", receiver.local_addr().unwrap()).unwrap();
                // Whoever listens to the interface has it before.
                receiver.recv(&mut [0; 4]).unwrap();
            }
            signal(&run.child, Signal::INT);
            let report = reports(&run.end().out).pop().unwrap();
            assert_eq!(
                (number(&report["packets"]), number(&report["dropped"])),
                (packets as u64, 0),
                "{report}"
            );
        }
    });
}

/// What was counted by then is reported, and why there is no more.
#[test]
fn an_interface_that_goes_down_ends_the_run() {
    in_own_network(|| {
        let words = "monitor --iface lo --memory 16MiB --json --key five-tuple --epoch 1h --threads 2";
        let mut run = Announced::start(overbank(words), Run::start);
        assert!((0..2).all(|_| run.reach("listening")));
        run.go_on();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            socket.send_to(b"up", socket.local_addr().unwrap()).unwrap();
            socket.recv(&mut [0; 2]).unwrap();
        }
        assert!(ip(&["link set lo down"]));
        let ran = run.end();
        ran.ends_naming(2, &["lo", "ip link set lo up"]);
        assert_eq!(number(&reports(&ran.out).pop().unwrap()["packets"]), 100);
    });
}

#[test]
fn an_interface_that_cannot_be_listened_to_is_named() {
    let ran = overbank("monitor --iface absent0 --memory 16MiB").run();
    ran.fails_naming(&["no interface absent0", "there are"]);
    overbank("monitor --iface lo --pcap x").run().fails_naming(&["--iface"]);
    // Without the right: another user's process.
    let mut other = std::process::Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]);
    let program = tempfile::tempdir().unwrap();
    let copy = program.path().join("overbank");
    std::fs::copy(env!("CARGO_BIN_EXE_overbank"), &copy).unwrap();
    std::fs::set_permissions(program.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Ok(output) = other.arg(&copy).args(["monitor", "--iface", "lo", "--memory", "16MiB"]).output() else {
        println!("skipped: there is no `setpriv` command here");
        return;
    };
    let ran = Ran::from(output);
    if ran.err.starts_with("setpriv") {
        println!("skipped: the rights of a process cannot be lowered here: {}", ran.err);
        return;
    }
    ran.fails_naming(&["lo", "CAP_NET_RAW", "setcap"]);
}
