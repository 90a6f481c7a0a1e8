//! Sockets that get every packet of an interface (AF_PACKET), several of which share them out, each with a ring that the kernel writes
//! (TPACKET_V3).
//!
//! ```text
//!   ring    │ block │ block │ block │ …          of one size; each belongs to the kernel or to this process, as its status says
//!   block   │ head: status, how many, where ││ packet │ packet │ packet │ …
//!   packet  │ head: where the next is, when, how long │ its first bytes │
//! ```
//!
//! 1. A block is the process's from when the kernel says so, because it is full or its first packet is [`PATIENCE_MS`] old, until the
//!    process gives it back. So packets are read where they lie, without a call for each.
//! 2. A packet that finds no block is dropped, and counted. What was taken and not dropped is in some block, or will be.
//! 3. What the kernel wrote is read as bytes that may be anything: an offset that leads out of its block ends it.
//! 4. Before [`listen`](PacketSocket::listen) a socket takes nothing: it would have packets of its own before it shares them.
//!
//! What is safe goes through rustix; it has neither the address of an interface, nor the options of these sockets, nor rings of them, so
//! binding, options, and the mapping of a ring, are calls of the C library here.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// All protocols, as addresses of interfaces have it: in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();
/// How long a packet waits at most for others in its block.
const PATIENCE_MS: u32 = 10;
/// Room for packets that wait, of one socket: more would only make a burst longer that is followed by nothing.
const RING_BYTES_MAX: usize = 16 << 20;
/// A block takes some hundred packets, and some of them a ring.
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS_MIN: usize = 3;
/// What the kernel wants to be told of a frame, which blocks of this version do not have.
const FRAME_BYTES: usize = 2 << 10;

/// Of a block's head: its status, and behind it how many packets there are, and where the first is.
const STATUS: usize = 8;
const PACKETS: usize = 12;
const FIRST: usize = 16;
/// Of a packet's head: where the next one is, the time, how many bytes of it there are, how many there were, and where they are.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const CAPTURED: usize = 12;
const LENGTH: usize = 16;
const START: usize = 24;
const _: () = {
    use libc::{tpacket_block_desc as block, tpacket_hdr_v1 as head, tpacket3_hdr as packet};
    use std::mem::offset_of;
    assert!(STATUS == offset_of!(block, hdr) + offset_of!(head, block_status));
    assert!(PACKETS == offset_of!(block, hdr) + offset_of!(head, num_pkts));
    assert!(FIRST == offset_of!(block, hdr) + offset_of!(head, offset_to_first_pkt));
    assert!(NEXT == offset_of!(packet, tp_next_offset) && SECONDS == offset_of!(packet, tp_sec));
    assert!(NANOSECONDS == offset_of!(packet, tp_nsec) && CAPTURED == offset_of!(packet, tp_snaplen));
    assert!(LENGTH == offset_of!(packet, tp_len) && START == offset_of!(packet, tp_mac));
};

/// One socket.
pub(super) struct PacketSocket {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: OwnedFd,
}

/// A packet in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Captured<'r> {
    /// Its first bytes.
    pub(super) data: &'r [u8],
    /// How long it was on the wire.
    pub(super) wire_bytes: u32,
    pub(super) time_ns: u64,
}

/// How many packets a socket was to take since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Those that are in its ring, or were.
    pub(super) taken: u64,
    /// Those for which it had no room.
    pub(super) dropped: u64,
}

impl PacketSocket {
    /// A socket of the interface of this index, one of those of `group`, whose packets they get in turn once they
    /// [`listen`](Self::listen). Its ring takes `room_bytes`, or as few as one can have.
    pub(super) fn open(index: u32, is_loopback: bool, group: u16, room_bytes: usize) -> io::Result<Self> {
        // Of protocol 0, it gets nothing before it is bound.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let blocks = (room_bytes.min(RING_BYTES_MAX) / BLOCK_BYTES).max(BLOCKS_MIN);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (blocks * (BLOCK_BYTES / FRAME_BYTES)) as u32,
            tp_retire_blk_tov: PATIENCE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let ring = Ring::map(&socket, blocks)?;
        let socket = Self { ring, socket };
        socket.let_in(0)?;
        socket.bind(index)?;
        // The loopback's packets go out and come in, and are to count once; elsewhere both directions count. Sockets of a group have what
        // the group says of that, and not what each of them does.
        let outgoing = if is_loopback { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
        let fanout = i32::from(group) | ((libc::PACKET_FANOUT_LB | outgoing) as i32) << 16;
        set(&socket.socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &fanout)?;
        Ok(socket)
    }

    /// Takes packets from now on, the first `bytes` of each.
    pub(super) fn listen(&self, bytes: u32) -> io::Result<()> {
        self.let_in(bytes)
    }

    /// The packets of the next block, if there is one: it goes back to the kernel when they are dropped.
    pub(super) fn next_block(&mut self) -> Option<Block<'_>> {
        self.ring.next_block()
    }

    /// What it received since it was last asked.
    pub(super) fn received(&self) -> io::Result<Received> {
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the socket is open; the pointers are to a value of the option's type and to its length, which outlive the call.
        let outcome = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        succeeded(outcome)?;
        let (all, dropped) = (u64::from(counts.tp_packets), u64::from(counts.tp_drops));
        Ok(Received { taken: all.saturating_sub(dropped), dropped })
    }

    /// Has the kernel take so many bytes of each packet, and none at all of 0 bytes: a program of one instruction, which returns that.
    fn let_in(&self, bytes: u32) -> io::Result<()> {
        let mut program =
            [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: bytes }];
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        set(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ALL_PROTOCOLS,
            sll_ifindex: i32::try_from(index).map_err(io::Error::other)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the socket is open; the pointer is to an address of its family, of that length, which outlives the call.
        succeeded(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Blocks that are shared with the kernel.
struct Ring {
    start: NonNull<u8>,
    blocks: usize,
    /// The block that is filled next, or is.
    next: usize,
}

// SAFETY: the mapping is this process's, whichever of its threads looks at it, and whoever has the ring has it alone.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring that a socket was given, of so many blocks.
    fn map(socket: &OwnedFd, blocks: usize) -> io::Result<Self> {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the place is the kernel's choice, so nothing that is mapped already is touched; the socket is open, and the kernel
        // refuses a length that is not that of its ring.
        let start =
            unsafe { libc::mmap(null_mut(), blocks * BLOCK_BYTES, access, shared, socket.as_raw_fd(), 0) };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, blocks, next: 0 }),
            None => Err(io::Error::last_os_error()),
        }
    }

    fn next_block(&mut self) -> Option<Block<'_>> {
        let at = self.next * BLOCK_BYTES;
        // SAFETY: `next` is below `blocks`, so the status lies in the mapping, which lives as long as the ring; it is aligned as its block,
        // and both sides change it by whole words.
        let status = unsafe { &*self.start.add(at + STATUS).cast::<AtomicU32>().as_ptr() };
        // What the kernel wrote into the block, it wrote before.
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block lies in the mapping; the kernel writes nothing into it until the status says that it may, which is when the
        // slice is gone, for the ring is borrowed as long.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), BLOCK_BYTES) };
        self.next = (self.next + 1) % self.blocks;
        Some(Block { packets: Packets::of(bytes), status })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this length, and nothing refers to it any more: blocks borrow the ring.
        // A mapping that is there can be given up.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

/// A block that is this process's.
pub(super) struct Block<'r> {
    packets: Packets<'r>,
    status: &'r AtomicU32,
}

impl Block<'_> {
    /// Its next packet.
    pub(super) fn next_packet(&mut self) -> Option<Captured<'_>> {
        self.packets.next()
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // Whatever was read of the block was read before.
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// The packets in the bytes of a block.
struct Packets<'b> {
    block: &'b [u8],
    left: u32,
    at: usize,
}

impl<'b> Packets<'b> {
    fn of(block: &'b [u8]) -> Self {
        let (left, at) = (word(block, PACKETS).unwrap_or(0), word(block, FIRST).unwrap_or(u32::MAX));
        Self { block, left, at: at as usize }
    }
}

impl<'b> Iterator for Packets<'b> {
    type Item = Captured<'b>;

    fn next(&mut self) -> Option<Captured<'b>> {
        self.left = self.left.checked_sub(1)?;
        let head = self.block.get(self.at..)?;
        let start = head.get(START..)?.first_chunk().map(|bytes| usize::from(u16::from_ne_bytes(*bytes)))?;
        let data = head.get(start..)?.get(..word(head, CAPTURED)? as usize)?;
        let (seconds, nanoseconds) = (word(head, SECONDS)?, word(head, NANOSECONDS)?);
        let wire_bytes = word(head, LENGTH)?;
        match word(head, NEXT)? {
            // The last one of its block, as the kernel has it.
            0 => self.left = 0,
            next => self.at = self.at.checked_add(next as usize)?,
        }
        Some(Captured {
            data,
            wire_bytes,
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Sets an option of a socket, whose type is `T`.
fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of_val(value) as libc::socklen_t;
    // SAFETY: the socket is open; the pointer is to a value of that length, which outlives the call, and so does what it points to.
    succeeded(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length)
    })
}

fn succeeded(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block as the kernel writes it, of packets by their bytes, with gaps between them.
    fn block(packets: &[(&[u8], u32)]) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let put = |bytes: &mut Vec<u8>, at: usize, word: u32| {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes())
        };
        put(&mut bytes, PACKETS, packets.len() as u32);
        put(&mut bytes, FIRST, 48);
        let mut at = 48;
        for (number, &(data, wire_bytes)) in packets.iter().enumerate() {
            let next = 80 + data.len().next_multiple_of(16);
            put(&mut bytes, at + NEXT, if number + 1 == packets.len() { 0 } else { next as u32 });
            put(&mut bytes, at + SECONDS, 7);
            put(&mut bytes, at + NANOSECONDS, number as u32);
            put(&mut bytes, at + CAPTURED, data.len() as u32);
            put(&mut bytes, at + LENGTH, wire_bytes);
            bytes[at + START..at + START + 2].copy_from_slice(&80u16.to_ne_bytes());
            bytes[at + 80..at + 80 + data.len()].copy_from_slice(data);
            at += next;
        }
        bytes
    }

    #[test]
    fn packets_are_read_where_they_lie() {
        let packets = [(&b"one"[..], 3), (&[7; 512], 9000), (b"", 0)];
        let bytes = block(&packets);
        let read: Vec<Captured<'_>> = Packets::of(&bytes).collect();
        let expected = packets.iter().enumerate().map(|(number, &(data, wire_bytes))| Captured {
            data,
            wire_bytes,
            time_ns: 7_000_000_000 + number as u64,
        });
        assert_eq!(read, expected.collect::<Vec<_>>());
        assert_eq!(Packets::of(&block(&[])).count(), 0);
    }

    /// Whatever stands in a block, reading it ends within it.
    #[test]
    fn bytes_that_lead_out_of_a_block_end_it() {
        let bytes = block(&[(b"one", 3), (b"two", 3), (b"three", 5)]);
        let heads = [PACKETS, FIRST, 48 + NEXT, 48 + CAPTURED, 48 + START, 48 + 96 + NEXT];
        for at in heads {
            for word in [1, 47, BLOCK_BYTES as u32 - 1, BLOCK_BYTES as u32, u32::MAX] {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
                // As many as it says, at most; each takes a step or is the last.
                assert!(Packets::of(&bytes).take(10).count() <= 10);
            }
        }
        for length in 0..200 {
            assert!(Packets::of(&bytes[..length]).count() <= 3);
        }
    }
}
