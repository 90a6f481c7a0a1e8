//! The classic capture format: one header, then packets behind their own.
//!
//! ```text
//!   file    magic 4 │ major 2 │ minor 2 │ zone 4 │ accuracy 4 │ snapshot length 4 │ link type 4
//!   packet  seconds 4 │ fraction 4 │ captured bytes 4 │ bytes on the wire 4 [│ interface 4 │ protocol 2 │ kind 1 │ 0] │ bytes…
//! ```
//!
//! The magic number tells the byte order, whether fractions are micro- or nanoseconds, and whether packets' headers are longer by the part
//! in brackets, as a patched libpcap wrote them. Before version 2.3 the two lengths stood the other way round; files that say 2.3 are of
//! both kinds, and the larger one is that on the wire. The zone was always 0, and is not read.

use super::link::LinkType;
use super::packet::{Endian, Fault, Placed, Walked, too_long};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const LONG_HEADERS: u32 = 0xa1b2_cd34;
const FILE_HEADER_BYTES: usize = 24;

/// A capture file whose header was read.
#[derive(Debug)]
pub(super) struct Pcap {
    endian: Endian,
    link: LinkType,
    /// Nanoseconds of a fraction's unit.
    unit_ns: u64,
    header_bytes: usize,
    lengths: Lengths,
}

/// In which order a packet's lengths stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    LesserCaptured,
}

/// The byte order, if a file that starts so is of this format.
pub(super) fn endian(head: [u8; 4]) -> Option<Endian> {
    let known = [MICROSECONDS, NANOSECONDS, LONG_HEADERS];
    [Endian::Little, Endian::Big].into_iter().find(|endian| known.contains(&endian.u32(head)))
}

impl Pcap {
    /// Reads the file's header and tells its length; `None` where there is not all of it.
    pub(super) fn open(endian: Endian, bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let Some(([magic, versions, _, _, _, link], _)) = endian.words::<6>(bytes) else { return Ok(None) };
        let (major, minor) = match endian {
            Endian::Little => (versions & 0xffff, versions >> 16),
            Endian::Big => (versions >> 16, versions & 0xffff),
        };
        let lengths = match (major, minor) {
            (2, 0..3) | (543, _) => Lengths::WireFirst,
            (2, 3) => Lengths::LesserCaptured,
            (2, _) => Lengths::CapturedFirst,
            _ => return Err(Fault::Unsupported { what: format!("version {major}.{minor} of pcap") }),
        };
        let pcap = Self {
            endian,
            // The highest bits tell of checksums behind frames, which do not matter here.
            link: LinkType(link & 0x03ff_ffff),
            unit_ns: if magic == NANOSECONDS { 1 } else { 1000 },
            header_bytes: if magic == LONG_HEADERS { 24 } else { 16 },
            lengths,
        };
        Ok(Some((pcap, FILE_HEADER_BYTES)))
    }

    /// Adds the packets that lie whole in `bytes`, of which the first is byte `base` of the file.
    pub(super) fn walk(
        &self,
        bytes: &[u8],
        base: u64,
        packet_bytes_max: usize,
        packets: &mut Vec<Placed>,
    ) -> Walked {
        match self.endian {
            Endian::Little => self.walk_as(Endian::Little, bytes, base, packet_bytes_max, packets),
            Endian::Big => self.walk_as(Endian::Big, bytes, base, packet_bytes_max, packets),
        }
    }

    /// See [`Pcap::walk`]; compiled once a byte order.
    #[inline(always)]
    fn walk_as(
        &self,
        endian: Endian,
        bytes: &[u8],
        base: u64,
        packet_bytes_max: usize,
        packets: &mut Vec<Placed>,
    ) -> Walked {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let Some(([seconds, fraction, first, second], _)) = endian.words::<4>(rest) else {
                return Walked::up_to(at, self.header_bytes);
            };
            let (captured, wire) = match self.lengths {
                Lengths::CapturedFirst => (first, second),
                Lengths::WireFirst => (second, first),
                Lengths::LesserCaptured => (first.min(second), first.max(second)),
            };
            if captured as usize > packet_bytes_max {
                let fault = too_long(base + at as u64, captured, packet_bytes_max);
                return Walked::failed(at, fault);
            }
            let needed = self.header_bytes + captured as usize;
            if needed > rest.len() {
                return Walked::up_to(at, needed);
            }
            packets.push(Placed {
                time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns,
                at: (at + self.header_bytes) as u32,
                captured_bytes: captured,
                wire_bytes: wire.max(captured),
                link: self.link,
            });
            at += needed;
        }
    }
}
