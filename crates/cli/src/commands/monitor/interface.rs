//! An interface as packets to be counted: a socket for each thread, which the kernel gives packets in turn.
//!
//! 1. A thread counts a block of its ring at once: nothing waits but there.
//! 2. At the end each thread counts what its socket had taken by then. Packets that came are then counted, or dropped by the kernel, which
//!    tells how many.

use super::crew::{Crew, Hand, lock};
use super::packet_socket::{Captured, PacketSocket};
use crate::announce;
use crate::failure::Failure;
use overbank_ingest::capture::{FlowBatch, FlowDecoder, Fragments, LinkType, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a packet that are looked at: headers of links, tags and tunnels take fewer.
const SNAP_BYTES: u32 = 512;
/// Packets of a batch.
const BATCH: u64 = 256;
/// Blocks that are counted before a thread looks for a new epoch.
const BLOCKS: usize = 16;
/// After so many waits without a block there is none: the kernel gives one back sooner.
const WAITS: u32 = 100;
/// How long a thread waits for packets before it looks for a new epoch.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const OVER: u8 = 2;

/// An interface that is watched.
pub(super) struct Interface {
    pub(super) name: String,
    index: u32,
    pub(super) link: LinkType,
    is_loopback: bool,
    phase: AtomicU8,
    drained: AtomicUsize,
    dropped: AtomicU64,
    fragments: Mutex<Fragments>,
    failure: Mutex<Option<Failure>>,
}

impl Interface {
    /// The interface of this name.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| told(name, error.into()))?;
        let Ok(index) = rustix::net::netdevice::name_to_index(&socket, name) else {
            return Err(Failure::Usage(format!("there is no interface {name}; {}", others())));
        };
        let (link, is_loopback) = link_of(name)?;
        Ok(Self {
            name: name.to_owned(),
            index,
            link,
            is_loopback,
            phase: AtomicU8::new(RUNNING),
            drained: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            fragments: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// A socket for each of so many threads, whose rings have this room together. They listen from now on.
    pub(super) fn sockets(&self, threads: usize, room_bytes: usize) -> Result<Vec<PacketSocket>, Failure> {
        // The number of a group is this process's, as far as 16 bits tell it apart.
        let group = std::process::id() as u16;
        let open = |_| PacketSocket::open(self.index, self.is_loopback, group, room_bytes / threads);
        let listening = || {
            let sockets = (0..threads).map(open).collect::<io::Result<Vec<_>>>()?;
            // All of them share what comes before the first takes any.
            sockets.iter().try_for_each(|socket| socket.listen(SNAP_BYTES))?;
            Ok(sockets)
        };
        listening().map_err(|error| told(&self.name, error))
    }

    /// Packets that the kernel dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Threads count what waits by now, and no more.
    pub(super) fn drain(&self) {
        self.phase.store(DRAINING, Ordering::Release);
    }

    /// Whether all of so many threads have.
    pub(super) fn is_drained(&self, threads: usize) -> bool {
        self.drained.load(Ordering::Acquire) >= threads
    }

    /// What a thread could not go on for.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        lock(&self.failure).take()
    }

    /// Whether a thread could not go on.
    pub(super) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// What a thread does that counts. It turns with the others to the end, whatever becomes of its socket.
    pub(super) fn count(&self, crew: &Crew, mut hand: Hand<'_>, socket: PacketSocket, decoder: FlowDecoder) {
        let mut listener =
            Listener { interface: self, socket, decoder, batch: FlowBatch::new(), taken: 0, counted: 0 };
        let mut has_drained = false;
        announce::at("listening");
        loop {
            let phase = self.phase.load(Ordering::Acquire);
            if phase == OVER {
                return;
            }
            hand.turn();
            if has_drained {
                let _ = poll(&mut [], Some(&PATIENCE));
                continue;
            }
            let counted = match phase {
                DRAINING => listener.drain(crew, &mut hand),
                _ => listener.listen(crew, &mut hand),
            };
            has_drained = phase == DRAINING || counted.is_err();
            if let Err(error) = counted {
                // What came before is counted, as far as that can be had.
                let _ = listener.drain(crew, &mut hand);
                lock(&self.failure).get_or_insert(told(&self.name, error));
            }
            self.drained.fetch_add(usize::from(has_drained), Ordering::Release);
        }
    }
}

/// A thread at its socket.
struct Listener<'i> {
    interface: &'i Interface,
    socket: PacketSocket,
    decoder: FlowDecoder,
    batch: FlowBatch,
    /// Packets that the socket had taken when it was last asked, and those of them that are counted.
    taken: u64,
    counted: u64,
}

impl Listener<'_> {
    /// Waits for packets, and counts some.
    fn listen(&mut self, crew: &Crew, hand: &mut Hand<'_>) -> io::Result<()> {
        self.wait()?;
        for _ in 0..BLOCKS {
            if !self.count_block(crew, hand) {
                break;
            }
        }
        self.ask()
    }

    /// Counts what the socket has taken by now, some of which may be in a block that the kernel goes on with.
    fn drain(&mut self, crew: &Crew, hand: &mut Hand<'_>) -> io::Result<()> {
        self.ask()?;
        let mut waits = 0;
        while self.counted < self.taken && waits < WAITS {
            if !self.count_block(crew, hand) {
                self.wait()?;
                waits += 1;
            }
        }
        Ok(())
    }

    /// Waits for a block, but not longer than the patience.
    fn wait(&self) -> io::Result<()> {
        let mut waits = [PollFd::new(&self.socket, PollFlags::IN)];
        // Whatever else wakes it, it looks again.
        let _ = poll(&mut waits, Some(&PATIENCE));
        match waits[0].revents().contains(PollFlags::ERR) {
            true => Ok(socket_error(&self.socket)??),
            false => Ok(()),
        }
    }

    /// Counts the packets of a block; whether there was one.
    fn count_block(&mut self, crew: &Crew, hand: &mut Hand<'_>) -> bool {
        let Self { interface, socket, decoder, batch, counted, .. } = self;
        let Some(mut block) = socket.next_block() else { return false };
        batch.clear();
        while let Some(Captured { data, wire_bytes, time_ns }) = block.next_packet() {
            decoder.push(&Packet { data, wire_bytes, time_ns, link: interface.link }, batch);
            *counted += 1;
            if batch.counts().packets == BATCH {
                interface.count_batch(crew, hand, batch);
            }
        }
        interface.count_batch(crew, hand, batch);
        true
    }

    /// Notes what the socket has received.
    fn ask(&mut self) -> io::Result<()> {
        let received = self.socket.received()?;
        self.taken += received.taken;
        self.interface.dropped.fetch_add(received.dropped, Ordering::Relaxed);
        Ok(())
    }
}

impl Interface {
    /// Counts a batch, and empties it.
    fn count_batch(&self, crew: &Crew, hand: &mut Hand<'_>, batch: &mut FlowBatch) {
        if crew.has_ports() {
            lock(&self.fragments).resolve(batch);
        }
        hand.count(batch);
        batch.clear();
    }
}

/// Lets an interface's threads end when it is dropped.
pub(super) struct End<'i>(pub(super) &'i Interface);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.phase.store(OVER, Ordering::Release);
    }
}

/// The time, in nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What packets of an interface begin with, and whether it is the loopback.
fn link_of(name: &str) -> Result<(LinkType, bool), Failure> {
    let path = format!("/sys/class/net/{name}/type");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::Usage(format!("cannot read {path}: {error}; mount /sys, or name another interface"))
    })?;
    match text.trim() {
        // Ethernet, and the loopback, which looks like it.
        kind @ ("1" | "772") => Ok((LinkType::ETHERNET, kind == "772")),
        // Nothing, raw IP, tunnels of IP in IP.
        "65534" | "519" | "768" | "769" => Ok((LinkType::RAW, false)),
        other => Err(Failure::Usage(format!(
            "{name} is of the kind {other} of links, which is not read; name an interface of Ethernet, the loopback or a tunnel of IP"
        ))),
    }
}

/// The interfaces that there are, for whoever named none of them.
fn others() -> String {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    if names.is_empty() {
        "this system tells of none".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    }
}

/// What the operating system refused, and what helps.
fn told(name: &str, error: io::Error) -> Failure {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let program = std::env::current_exe().map_or_else(|_| "overbank".to_owned(), |path| path.display().to_string());
            return Failure::Usage(format!(
                "cannot listen to {name} without the right CAP_NET_RAW; run as root, or give it to the program once: \
                 sudo setcap cap_net_raw+ep {program}"
            ));
        }
        Some(libc::ENETDOWN) => format!("bring it up: ip link set {name} up"),
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "this system has no packet sockets; capture to a pipe instead: tcpdump -w - | overbank monitor --pcap -".to_owned()
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => "the kernel has no room; give fewer --threads, or less --memory".to_owned(),
        _ => "the system's log may tell why; name another interface".to_owned(),
    };
    Failure::Usage(format!("cannot listen to {name}: {error}; {remedy}"))
}
