//! Sockets that get every packet of an interface (AF_PACKET), several of which share them out.
//!
//! What is safe goes through rustix; it has neither the address of an interface nor the options of these sockets, so binding to one, and
//! setting and getting options, are calls of the C library here.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use std::io;

/// All protocols, as addresses of interfaces have it: in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// One socket.
pub(super) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// A socket of the interface of this index, one of those of `group`, whose packets they get in turn. It has room for `room_bytes` of
    /// packets that wait, if the kernel allows it.
    pub(super) fn open(index: u32, is_loopback: bool, group: u16, room_bytes: u32) -> io::Result<Self> {
        // Of protocol 0, it gets nothing before it is bound.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let socket = Self(socket);
        let room = libc::c_int::try_from(room_bytes / 2).unwrap_or(libc::c_int::MAX);
        // Without the right to more than the system's limit, the limit.
        if socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, room).is_err() {
            socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, room)?;
        }
        socket.bind(index)?;
        // The loopback's packets go out and come in, and are to count once; elsewhere both directions count. Sockets of a group have what
        // the group says of that, and not what each of them does.
        let outgoing = if is_loopback { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
        let fanout = i32::from(group) | ((libc::PACKET_FANOUT_LB | outgoing) as i32) << 16;
        socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, fanout)?;
        Ok(socket)
    }

    /// The next packet's first bytes, and its length on the wire; `None` if none waits.
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<Option<(usize, usize)>> {
        loop {
            match recv(&self.0, &mut *into, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((filled, wire)) => return Ok(Some((filled, wire))),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How many packets the kernel had no room for since it was last asked.
    pub(super) fn dropped(&self) -> io::Result<u64> {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the socket is open; the pointers are to a value of the option's type and to its length, which outlive the call.
        let outcome = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        succeeded(outcome)?;
        Ok(counts.tp_drops.into())
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
        succeeded(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) })
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the socket is open; the pointer is to an integer, as these options take it, which outlives the call.
        succeeded(unsafe {
            libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const value).cast(), length)
        })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn succeeded(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
