//! The real thing: a network namespace of the test's own, a pair of interfaces in it, packets sent on one and counted on the other.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod kernel;

use kernel::{Model, forms, frame, is_behind_more, load};
use overbank_ingest::capture::{CaptureOptions, CaptureReader, LinkType, PacketChunk};
use overbank_xdp::{Epoch, Mode, Options, Sketch, XdpWorker};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Set in the process that is inside the namespace, and in one that only attaches.
const INSIDE: &str = "OVERBANK_XDP_INSIDE";

/// Runs a test of this file again, in a network of its own, which ends with it. False where the machine does not allow that.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let can = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
    };
    if !can("unshare", &["--net", "true"]) || !can("ip", &["-V"]) || !can("cc", &["--version"]) {
        println!("{test} is left out: it needs root, ip (iproute2), unshare (util-linux) and a C compiler");
        return false;
    }
    let done = again(test, &["unshare", "--net"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    print!("{said}");
    false
}

/// A test of this file as a command.
fn again(test: &str, before: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words = before.iter().map(PathBuf::from).chain([program]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    command
}

fn ip(arguments: &str) -> ExitStatus {
    Command::new("ip").args(arguments.split(' ')).status().unwrap()
}

/// The program of a sketch, and two interfaces, up and silent; `None` with a line where this machine has not both.
fn between(sketch: Sketch, options: &Options) -> Option<XdpWorker> {
    let worker = load(sketch, options)?;
    if !ip("link add left type veth peer name right").success() {
        println!("left out: the kernel makes no pair of interfaces (veth)");
        return None;
    }
    for name in ["left", "right"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        assert!(ip(&format!("link set {name} up")).success());
    }
    Some(worker)
}

/// Who sends.
struct Sender {
    place: TempDir,
}

impl Sender {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/send.c");
        let mut cc = Command::new("cc");
        let done = cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]).arg(source).arg("-o");
        let done = done.arg(place.path().join("send")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self { place }
    }

    fn start(&self) -> Child {
        let mut command = Command::new(self.place.path().join("send"));
        command.args(["left", "/dev/stdin"]).stdin(Stdio::piped()).spawn().unwrap()
    }
}

/// Frames that are on their way at once: an interface of such a pair drops what waits behind 256.
const BURST: usize = 100;

/// Sends frames, and ends epochs meanwhile, until all are counted.
fn count(worker: &mut XdpWorker, frames: &[Vec<u8>]) -> Vec<Epoch> {
    let sender = Sender::new();
    let mut child = sender.start();
    let mut to = child.stdin.take().unwrap();
    let with_length = |frame: &Vec<u8>| [&(frame.len() as u32).to_le_bytes(), &frame[..]].concat();
    let (began, mut epochs, mut sent, mut ended) = (Instant::now(), Vec::new(), 0, 0);
    for (number, burst) in frames.chunks(BURST).enumerate() {
        to.write_all(&burst.iter().flat_map(with_length).collect::<Vec<u8>>()).unwrap();
        sent += burst.len() as u64;
        worker.poll();
        // While they come in.
        if number % 30 == 10 {
            worker.epoch().unwrap();
        }
        if number % 30 == 29 {
            let epoch = worker.end_epoch().unwrap();
            ended += epoch.packets().packets;
            epochs.push(epoch);
        }
        while ended + worker.so_far().unwrap().packets < sent {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?} of {sent}", worker.so_far());
            std::thread::yield_now();
        }
    }
    drop(to);
    assert!(child.wait().unwrap().success());
    epochs.push(worker.end_epoch().unwrap());
    epochs
}

/// That all epochs together are what the library says of the frames.
fn all_of(epochs: &[Epoch], frames: &[Vec<u8>], options: &Options) {
    let model = Model::of(frames, options, epochs[0].hasher());
    let (mut sizes, mut distinct) = (epochs[0].sizes().unwrap(), epochs[0].distinct().unwrap());
    for epoch in &epochs[1..] {
        sizes.merge(&epoch.sizes().unwrap()).unwrap();
        distinct.merge(&epoch.distinct().unwrap()).unwrap();
    }
    assert_eq!((sizes, distinct), (model.sizes, model.distinct));
    let counted: u64 = epochs.iter().map(|epoch| epoch.packets().counted).sum();
    assert_eq!(counted, model.keys.len() as u64);
}

#[test]
fn all_that_was_sent_is_counted_in_either_mode() {
    if !inside("all_that_was_sent_is_counted_in_either_mode") {
        return;
    }
    let options = Options { tau: 20, ..Options::default() };
    if between(Sketch::Flows, &options).is_none() {
        return;
    }
    for mode in [Mode::Native, Mode::Generic] {
        let mut worker = load(Sketch::Flows, &options).unwrap();
        assert_eq!(worker.attach("right", Some(mode)).unwrap(), mode);
        // Flow f as often as f + 1 times 20, in turn.
        let mut frames = Vec::new();
        for round in 0..1200usize {
            frames.extend((0..60u16).filter(|&flow| round < 20 * (usize::from(flow) + 1)).map(frame));
        }
        let epochs = count(&mut worker, &frames);
        all_of(&epochs, &frames, &options);
    }
}

/// Packets of a pair of interfaces are of any form: as long as an Ethernet header, or longer than any header says.
#[test]
fn hostile_packets_are_counted_and_pass() {
    if !inside("hostile_packets_are_counted_and_pass") {
        return;
    }
    let options = Options::default();
    let Some(mut worker) = between(Sketch::Flows, &options) else { return };
    worker.attach("right", None).unwrap();
    let mut frames = Vec::new();
    for whole in forms() {
        frames.extend(
            [14, 15, 18, 34, whole.len() - 1, whole.len()].map(|len| whole[..len.min(whole.len())].to_vec()),
        );
    }
    let epochs = count(&mut worker, &frames);
    all_of(&epochs, &frames, &options);
    // right: bytes packets …
    let devices = fs::read_to_string("/proc/self/net/dev").unwrap();
    let right = devices.lines().find_map(|line| line.trim().strip_prefix("right:")).unwrap();
    let received: usize = right.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(received >= frames.len(), "they pass: {received}");
}

/// The captures that ship, replayed.
#[test]
fn captures_that_are_replayed_are_counted() {
    if !inside("captures_that_are_replayed_are_counted") {
        return;
    }
    let options = Options { tau: 1, ..Options::default() };
    let Some(mut worker) = between(Sketch::Flows, &options) else { return };
    worker.attach("right", None).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let mut frames = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(mut reader) = CaptureReader::open(CaptureOptions::new([&path])) else { continue };
        let mut chunk = PacketChunk::new();
        while reader.next_chunk(&mut chunk).is_ok_and(|more| more) {
            let ethernet =
                chunk.packets().filter(|packet| packet.link == LinkType::ETHERNET && packet.data.len() >= 14);
            frames.extend(ethernet.map(|packet| packet.data.to_vec()));
        }
    }
    frames.retain(|frame| !is_behind_more(frame));
    assert!(frames.len() > 10, "{}", frames.len());
    let epochs = count(&mut worker, &frames);
    all_of(&epochs, &frames, &options);
}

/// Whether a program is on the interface.
fn is_on() -> bool {
    let shown = Command::new("ip").args(["link", "show", "right"]).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).contains("xdp")
}

#[test]
fn it_is_taken_off() {
    if !inside("it_is_taken_off") {
        return;
    }
    let Some(mut worker) = between(Sketch::CountMin, &Options::default()) else { return };
    worker.attach("right", None).unwrap();
    assert!(is_on());
    // Another one is refused, by name and with the reasons.
    let mut other = load(Sketch::Coco, &Options::default()).unwrap();
    let refused = other.attach("right", None).unwrap_err().to_string();
    assert!(
        refused.contains("cannot attach to right") && refused.contains("ip link show right"),
        "{refused}"
    );
    drop(worker);
    gone();
    let missing = other.attach("nowhere", None).unwrap_err().to_string();
    assert!(missing.contains("nowhere"), "{missing}");
}

/// The kernel takes it off a moment after the link is closed.
fn gone() {
    let began = Instant::now();
    while is_on() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

/// A process that attaches and then waits for its end; nothing by itself.
#[test]
fn attaches_and_waits() {
    if std::env::var_os("OVERBANK_XDP_WAITS").is_none() {
        return;
    }
    let mut worker = load(Sketch::CountMin, &Options::default()).unwrap();
    worker.attach("right", None).unwrap();
    println!("attached");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_process_that_is_killed_leaves_nothing() {
    if !inside("a_process_that_is_killed_leaves_nothing")
        || between(Sketch::CountMin, &Options::default()).is_none()
    {
        return;
    }
    let mut child = again("attaches_and_waits", &[])
        .env("OVERBANK_XDP_WAITS", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("attached")));
    assert!(is_on());
    child.kill().unwrap();
    child.wait().unwrap();
    gone();
}
