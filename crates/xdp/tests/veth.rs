//! The real thing: a network namespace of the test's own, a pair of interfaces in it, packets sent on one and counted on the other.
#![cfg(target_os = "linux")]

use keyhash::Seed;
use overbank_xdp::{Error, XdpMonitor};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Set in the process that is inside the namespace.
const INSIDE: &str = "OVERBANK_XDP_INSIDE";

/// Sends frames that a file has, each behind its length, on one interface.
const SENDER: &str = r#"
import socket, struct, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
all = open(sys.argv[2], "rb").read()
at = 0
while at < len(all):
    (length,) = struct.unpack_from("<I", all, at)
    frame = all[at + 4:at + 4 + length]
    at += 4 + length
    while True:
        try:
            out.send(frame)
            break
        except OSError as error:
            if error.errno != 105: raise
"#;

/// Runs a test of this file again, in a network of its own, which ends with it. False where the machine does not allow that.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let can = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
    };
    if !can("unshare", &["--net", "true"]) || !can("ip", &["-V"]) || !can("python3", &["--version"]) {
        println!("{test} is left out: it needs root, ip (iproute2), unshare (util-linux) and python3");
        return false;
    }
    let program = std::env::current_exe().expect("this test");
    let done = Command::new("unshare")
        .arg("--net")
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    print!("{said}");
    false
}

fn ip(arguments: &str) -> ExitStatus {
    Command::new("ip").args(arguments.split(' ')).status().expect("ip")
}

/// Two interfaces, up and silent.
fn pair() {
    assert!(ip("link add left type veth peer name right").success());
    for name in ["left", "right"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        assert!(ip(&format!("link set {name} up")).success());
    }
}

/// Attached, or `None` with a line where the kernel or the build cannot.
fn attach(tau: u64) -> Option<XdpMonitor> {
    match XdpMonitor::attach("right", Seed(42), tau) {
        Ok(monitor) => Some(monitor),
        Err(error @ (Error::NoProgram | Error::Refused { .. })) => {
            // Where the compiler is, so must the program be.
            let has_clang = Command::new("clang").arg("--version").output().is_ok();
            assert!(!has_clang || !Path::new("/usr/include/bpf/bpf_helpers.h").exists(), "{error}");
            println!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn udp(flow: u16, is_v6: bool, tags: usize) -> (Vec<u8>, Vec<u8>) {
    let mut frame = vec![2; 12];
    for tag in 0..tags {
        frame.extend(if tag + 1 == tags { [0x81, 0] } else { [0x88, 0xa8] });
        frame.extend([0, 7]);
    }
    let [high, low] = flow.to_be_bytes();
    let ports = [high, low, 0, 53];
    let mut key;
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
        key = [[0xfd; 16], [0xfe; 16]].concat();
        key[15] = low;
        frame.extend(&key);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        key = vec![10, 0, high, low, 10, 1, 1, 1];
        frame.extend(&key);
    }
    frame.extend(ports);
    frame.extend([0, 8, 0, 0]);
    key.extend(ports);
    key.push(17);
    frame.resize(frame.len().max(60), 0);
    (frame, key)
}

fn send(frames: &[Vec<u8>]) {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("frames");
    let all: Vec<u8> =
        frames.iter().flat_map(|frame| [&(frame.len() as u32).to_le_bytes(), &frame[..]].concat()).collect();
    fs::write(&path, all).expect("the frames");
    let done = Command::new("python3").args(["-c", SENDER, "left"]).arg(&path).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Until the kernel has given all packets to the program.
fn wait_for(monitor: &XdpMonitor, packets: u64) {
    let began = Instant::now();
    while monitor.tally().expect("a tally").packets < packets {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?} of {packets}", monitor.tally());
        std::thread::yield_now();
    }
}

/// Keys, and how often each was sent.
type Flows = Vec<(Vec<u8>, u64)>;

/// Frames of 60 flows, flow f as often as f + 1 times `rounds`, and their keys.
fn traffic(rounds: usize) -> (Vec<Vec<u8>>, Flows) {
    let (mut frames, mut flows) = (Vec::new(), Vec::new());
    for f in 0..60u16 {
        let (frame, key) = udp(f, f % 3 == 1, usize::from(f % 3));
        let count = (usize::from(f) + 1) * rounds;
        frames.extend(std::iter::repeat_n(frame, count));
        flows.push((key, count as u64));
    }
    (frames, flows)
}

#[test]
fn all_that_was_sent_is_counted() {
    if !inside("all_that_was_sent_is_counted") {
        return;
    }
    pair();
    let Some(mut monitor) = attach(50) else { return };
    println!("attached: {:?}", monitor.mode());
    let (frames, flows) = traffic(10);
    send(&frames);
    wait_for(&monitor, frames.len() as u64);
    let counters = monitor.counters().expect("counters");
    assert_eq!(counters.totals(), [frames.len() as u64; 3]);
    for (key, count) in &flows {
        assert_eq!(counters.estimate(monitor.hasher().hash(key)), *count, "{key:?}");
    }
    // All that reached τ by themselves are known by name.
    let known = monitor.flows(&counters);
    assert_eq!(known[0], (&flows[59].0[..], 600));
    assert!(flows.iter().filter(|flow| flow.1 >= 50).all(|flow| known.contains(&(&flow.0[..], flow.1))));
    let tally = monitor.tally().expect("a tally");
    assert_eq!((tally.packets, tally.not_ip, tally.kept), (frames.len() as u64, 0, 0));
}

#[test]
fn a_full_ring_loses_nothing() {
    if !inside("a_full_ring_loses_nothing") {
        return;
    }
    pair();
    // Three messages of 72 bytes a packet: the ring of 1 MiB holds those of some 4,800 packets.
    let Some(mut monitor) = attach(1) else { return };
    let (frames, flows) = traffic(5);
    send(&frames);
    wait_for(&monitor, frames.len() as u64);
    let tally = monitor.tally().expect("a tally");
    assert!(tally.kept > 0, "the ring was never full: {tally:?}");
    for _ in 0..2 {
        let counters = monitor.counters().expect("counters");
        assert_eq!(counters.totals(), [frames.len() as u64; 3]);
        flows
            .iter()
            .for_each(|(key, count)| assert_eq!(counters.estimate(monitor.hasher().hash(key)), *count));
    }
    // With room again, what was kept goes.
    send(&frames);
    wait_for(&monitor, 2 * frames.len() as u64);
    assert_eq!(monitor.counters().expect("counters").totals(), [2 * frames.len() as u64; 3]);
}

#[test]
fn hostile_packets_pass() {
    if !inside("hostile_packets_pass") {
        return;
    }
    pair();
    let Some(mut monitor) = attach(50) else { return };
    // Cut anywhere, behind any of the headers; lengths that lie; extension headers without end.
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for (is_v6, tags) in [(false, 0), (true, 0), (false, 2), (true, 2)] {
        let (frame, _) = udp(1, is_v6, tags);
        frames.extend((14..frame.len()).map(|len| frame[..len].to_vec()));
        let header = 14 + 4 * tags;
        for value in [0x40, 0x44, 0x4f, 0x60, 0x6f, 0xff] {
            let mut odd = frame.clone();
            odd[header] = value;
            frames.push(odd);
        }
        for protocol in 0..=255 {
            let mut odd = frame.clone();
            odd[header + if is_v6 { 6 } else { 9 }] = protocol;
            odd.resize(400, 0);
            frames.push(odd);
        }
    }
    send(&frames);
    wait_for(&monitor, frames.len() as u64);
    let tally = monitor.tally().expect("a tally");
    let counters = monitor.counters().expect("counters");
    assert_eq!(counters.totals(), [tally.packets - tally.not_ip; 3]);
    assert!(tally.not_ip > 0 && tally.not_ip < tally.packets);
}

#[test]
fn it_is_taken_off() {
    if !inside("it_is_taken_off") {
        return;
    }
    pair();
    let is_on = || {
        let shown = Command::new("ip").args(["link", "show", "right"]).output().expect("ip");
        String::from_utf8_lossy(&shown.stdout).contains("xdp")
    };
    let Some(monitor) = attach(50) else { return };
    assert!(is_on());
    // Another one is refused, by name and with the reasons.
    let refused =
        XdpMonitor::attach("right", Seed(1), 1).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("cannot attach to right"), "{refused}");
    drop(monitor);
    assert!(!is_on());
    let missing =
        XdpMonitor::attach("nowhere", Seed(1), 1).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(missing.contains("nowhere"), "{missing}");
}
