//! An interface as packets to be counted: a socket for each thread, which the kernel gives packets in turn.
//!
//! 1. A thread counts what it receives at once: nothing waits but in its socket.
//! 2. At the end each thread counts what waits in its socket by then. Packets that came are then counted, or dropped by the kernel, which
//!    tells how many.

use super::crew::{Crew, Hand, lock};
use super::packet_socket::PacketSocket;
use crate::announce;
use crate::failure::Failure;
use overbank_ingest::capture::{FlowBatch, FlowDecoder, Fragments, LinkType, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a packet that are looked at: headers of links, tags and tunnels take fewer.
const SNAP_BYTES: usize = 512;
/// Packets of a batch.
const BATCH: usize = 256;
/// At the end, packets of a thread that waited: what comes meanwhile is not of the run any more.
const DRAINED_MAX: usize = 1 << 20;
/// How long a thread waits for packets before it looks for a new epoch.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Room for packets that wait, of all sockets together, in the kernel.
const ROOM_BYTES: u32 = 64 << 20;

const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const OVER: u8 = 2;

/// An interface that is watched.
pub(super) struct Interface {
    pub(super) name: String,
    index: u32,
    link: LinkType,
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

    /// A socket for each of so many threads.
    pub(super) fn sockets(&self, threads: usize) -> Result<Vec<PacketSocket>, Failure> {
        // The number of a group is this process's, as far as 16 bits tell it apart.
        let group = std::process::id() as u16;
        let open = |_| PacketSocket::open(self.index, self.is_loopback, group, ROOM_BYTES / threads as u32);
        let sockets = (0..threads).map(open).collect::<io::Result<Vec<_>>>();
        sockets.map_err(|error| told(&self.name, error))
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
    pub(super) fn count(&self, crew: &Crew, mut hand: Hand<'_>, socket: &PacketSocket, decoder: FlowDecoder) {
        let mut batch = FlowBatch::new();
        let mut has_drained = false;
        announce::at("listening");
        loop {
            let phase = self.phase.load(Ordering::Acquire);
            if phase == OVER {
                return;
            }
            hand.turn();
            let mut waits = [PollFd::new(socket, PollFlags::IN)];
            // What is wrong with the socket, receiving will tell; whatever wakes it, it looks again.
            let _ = poll(if has_drained { &mut [] } else { &mut waits }, Some(&PATIENCE));
            if has_drained {
                continue;
            }
            let most = if phase == DRAINING { DRAINED_MAX } else { BATCH };
            let counted = self.count_waiting(crew, &mut hand, socket, decoder, &mut batch, most);
            if let Err(failure) = counted {
                lock(&self.failure).get_or_insert(failure);
                has_drained = true;
            }
            has_drained |= phase == DRAINING;
            self.drained.fetch_add(usize::from(has_drained), Ordering::Release);
        }
    }

    /// Counts what waits, so many packets at most.
    fn count_waiting(
        &self,
        crew: &Crew,
        hand: &mut Hand<'_>,
        socket: &PacketSocket,
        decoder: FlowDecoder,
        batch: &mut FlowBatch,
        most: usize,
    ) -> Result<(), Failure> {
        for _ in 0..most.div_ceil(BATCH) {
            if !self.receive(socket, decoder, batch)? {
                break;
            }
            if crew.has_ports() {
                lock(&self.fragments).resolve(batch);
            }
            hand.count(batch);
        }
        let dropped = socket.dropped().map_err(|error| told(&self.name, error))?;
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        Ok(())
    }

    /// Fills a batch with what waits; whether there was anything.
    fn receive(
        &self,
        socket: &PacketSocket,
        decoder: FlowDecoder,
        batch: &mut FlowBatch,
    ) -> Result<bool, Failure> {
        batch.clear();
        let time_ns = now_ns();
        let mut bytes = [0; SNAP_BYTES];
        for received in 0..BATCH {
            match socket.receive(&mut bytes) {
                Ok(Some((filled, wire))) => {
                    let wire_bytes = u32::try_from(wire.max(filled)).unwrap_or(u32::MAX);
                    decoder.push(
                        &Packet { data: &bytes[..filled], wire_bytes, time_ns, link: self.link },
                        batch,
                    );
                }
                Ok(None) => return Ok(received > 0),
                Err(error) => return Err(told(&self.name, error)),
            }
        }
        Ok(true)
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
        Some(libc::ENOBUFS | libc::ENOMEM) => "the kernel has no room; give fewer --threads".to_owned(),
        _ => "the system's log may tell why; name another interface".to_owned(),
    };
    Failure::Usage(format!("cannot listen to {name}: {error}; {remedy}"))
}
