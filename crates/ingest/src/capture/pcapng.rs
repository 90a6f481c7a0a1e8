//! The newer capture format: sections of blocks.
//!
//! ```text
//!   block              type 4 │ length 4 │ body │ length 4               the length counts all of it, and is a multiple of 4
//!   section header     byte order 4 │ major 2 │ minor 2 │ section's length 8 │ options
//!   interface          link type 2 │ 0 2 │ snapshot length 4 │ options
//!   enhanced packet    interface 4 │ time 8, high half first │ captured bytes 4 │ bytes on the wire 4 │ bytes… │ options
//!   simple packet      bytes on the wire 4 │ bytes…                      of interface 0
//!   obsolete packet    interface 2 │ drops 2 │ time 8 │ captured bytes 4 │ bytes on the wire 4 │ bytes… │ options
//!   option             code 2 │ length 2 │ value, padded to a multiple of 4
//! ```
//!
//! 1. Byte order and interfaces are a section's own; a file has one section or more.
//! 2. Of a packet's block its bytes must be in memory, of an interface's all of it; what else there is is passed over, however long.
//! 3. A block's two lengths are the same, or the file is damaged there.

use super::link::LinkType;
use super::packet::{Endian, Fault, Placed, Walked, too_long};

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
/// Type and length.
const BLOCK_HEADER_BYTES: usize = 8;
const BLOCK_BYTES_MIN: u32 = 12;
/// Of one section; more are made to fill memory.
const INTERFACES_MAX: usize = 1 << 16;

/// A capture whose sections are read.
#[derive(Debug)]
pub(super) struct Pcapng {
    endian: Endian,
    /// Those of the section.
    interfaces: Vec<Interface>,
    /// The block whose end is not reached.
    open: Option<OpenBlock>,
    /// That of the last packet: simple packets have none.
    time_ns: u64,
}

/// A block of which what matters was read.
#[derive(Debug)]
struct OpenBlock {
    at: u64,
    length: u32,
    /// Bytes left before the second length.
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// 0 for no limit.
    snapshot_bytes: u32,
    units: Units,
    offset_seconds: i64,
}

/// What an interface counts time in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// So many nanoseconds.
    Nanoseconds(u64),
    /// So many in a nanosecond.
    OfNanosecond(u128),
    /// 2 to this power in a second.
    LgOfSecond(u32),
}

impl Units {
    /// By the option's byte: a power of 10 or, with the highest bit, of 2.
    fn new(resolution: u8) -> Self {
        let power = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            return Self::LgOfSecond(power);
        }
        match power {
            0..=9 => Self::Nanoseconds(10u64.pow(9 - power)),
            _ => Self::OfNanosecond(10u128.checked_pow(power - 9).unwrap_or(u128::MAX)),
        }
    }
}

impl Interface {
    /// Nanoseconds since 1970, as far as 64 bits go.
    #[inline]
    fn time_ns(&self, units: u64) -> u64 {
        let ns = match self.units {
            Units::Nanoseconds(ns) => match units.checked_mul(ns) {
                Some(ns) if self.offset_seconds == 0 => return ns,
                _ => u128::from(units) * u128::from(ns),
            },
            Units::OfNanosecond(units_of_ns) => u128::from(units) / units_of_ns,
            Units::LgOfSecond(lg) => (u128::from(units) * 1_000_000_000) >> lg,
        };
        // Both below 2^94.
        let ns = ns as i128 + i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl Pcapng {
    pub(super) fn new() -> Self {
        Self { endian: Endian::Little, interfaces: Vec::new(), open: None, time_ns: 0 }
    }

    /// Where the block starts whose end was not reached, and its length.
    pub(super) fn open_block(&self) -> Option<(u64, u32)> {
        self.open.as_ref().map(|block| (block.at, block.length))
    }

    /// Adds the packets that lie whole in `bytes`, of which the first is byte `base` of the file.
    pub(super) fn walk(
        &mut self,
        bytes: &[u8],
        base: u64,
        packet_bytes_max: usize,
        packets: &mut Vec<Placed>,
    ) -> Walked {
        let mut at = 0;
        loop {
            let step = match &self.open {
                Some(_) => self.close_block(&bytes[at..]),
                None => self.block(&bytes[at..], at, base, packet_bytes_max, packets),
            };
            match step {
                Ok(Step::Done(consumed)) => at += consumed,
                Ok(Step::Passed(consumed)) => return Walked::up_to(at + consumed, 1),
                Ok(Step::Needs(needed)) => return Walked::up_to(at, needed),
                Err(fault) => return Walked::failed(at, fault),
            }
        }
    }

    /// Goes on to the end of a block.
    #[inline]
    fn close_block(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let Some(block) = &mut self.open else { return Ok(Step::Done(0)) };
        let there = usize::try_from(block.left).unwrap_or(usize::MAX);
        let Some(end) = bytes.get(there..).filter(|end| end.len() >= 4) else {
            if there < bytes.len() || there == 0 {
                // The second length may be cut in two.
                return Ok(Step::Needs(there + 4));
            }
            block.left -= bytes.len() as u64;
            return Ok(Step::Passed(bytes.len()));
        };
        let second = self.endian.words::<1>(end).map_or(0, |([length], _)| length);
        if second != block.length {
            let why = format!("a block is {} bytes long by its start and {second} by its end", block.length);
            return Err(Fault::Damaged { at: block.at, why });
        }
        self.open = None;
        Ok(Step::Done(there + 4))
    }

    /// Reads what matters of the block at the start of `bytes`, which is byte `at` of the buffer.
    #[inline]
    fn block(
        &mut self,
        bytes: &[u8],
        at: usize,
        base: u64,
        packet_bytes_max: usize,
        packets: &mut Vec<Placed>,
    ) -> Result<Step, Fault> {
        let file_at = base + at as u64;
        let Some(([mut kind, mut length], mut body)) = self.endian.words::<2>(bytes) else {
            return Ok(Step::Needs(BLOCK_HEADER_BYTES));
        };
        let damaged = |why: String| Err(Fault::Damaged { at: file_at, why });
        if kind == SECTION {
            // It reads the same in both orders, and says the order that its length stands in.
            let Some(&order) = body.first_chunk::<4>() else { return Ok(Step::Needs(12)) };
            self.endian = match order {
                _ if Endian::Little.u32(order) == BYTE_ORDER => Endian::Little,
                _ if Endian::Big.u32(order) == BYTE_ORDER => Endian::Big,
                _ => return damaged(format!("a section that starts with {order:02x?} and no byte order")),
            };
            if let Some(([kind_here, length_here], rest)) = self.endian.words::<2>(bytes) {
                (kind, length, body) = (kind_here, length_here, rest);
            }
        }
        if length < BLOCK_BYTES_MIN || length % 4 != 0 {
            return damaged(format!(
                "a block of type {kind:#x} and {length} bytes; a multiple of 4 from 12 on is its length"
            ));
        }
        let body_bytes = (length - BLOCK_BYTES_MIN) as usize;
        // What of the block was read, beside its header.
        let read = match kind {
            SECTION => {
                if body_bytes < 16 {
                    return damaged(format!("a section header of {length} bytes, which has at least 28"));
                }
                let Some(header) = body.first_chunk::<16>() else { return Ok(Step::Needs(24)) };
                let major = self.endian.u16([header[4], header[5]]);
                if major != 1 {
                    return Err(Fault::Unsupported { what: format!("version {major} of pcapng") });
                }
                self.interfaces.clear();
                16
            }
            INTERFACE => {
                if body_bytes > packet_bytes_max {
                    return damaged(format!(
                        "an interface's block of {length} bytes, more than packet_bytes_max allows"
                    ));
                }
                let Some(body) = body.get(..body_bytes) else {
                    return Ok(Step::Needs(BLOCK_HEADER_BYTES + body_bytes));
                };
                let Some(interface) = self.interface(body) else {
                    return damaged(format!("an interface's block of {length} bytes, which has at least 20"));
                };
                if self.interfaces.len() == INTERFACES_MAX {
                    let what = format!("more than {INTERFACES_MAX} interfaces in a section");
                    return Err(Fault::Unsupported { what });
                }
                self.interfaces.push(interface);
                body_bytes
            }
            ENHANCED_PACKET | OBSOLETE_PACKET => {
                let Some(([first, high, low, captured, wire], data)) = self.endian.words::<5>(body) else {
                    return Ok(Step::Needs(BLOCK_HEADER_BYTES + 20));
                };
                let number = if kind == ENHANCED_PACKET {
                    first
                } else {
                    let bytes = body.first_chunk::<2>().copied().unwrap_or_default();
                    self.endian.u16(bytes).into()
                };
                if captured as usize > packet_bytes_max {
                    return Err(too_long(file_at, captured, packet_bytes_max));
                }
                let read = 20 + captured as usize;
                if read > body_bytes {
                    return damaged(format!("a packet of {captured} captured bytes in a block of {length}"));
                }
                let Some(interface) = self.interfaces.get(number as usize) else {
                    let there = self.interfaces.len();
                    return damaged(format!("a packet of interface {number}, where {there} are described"));
                };
                if data.len() < captured as usize {
                    return Ok(Step::Needs(BLOCK_HEADER_BYTES + read));
                }
                self.time_ns = interface.time_ns(u64::from(high) << 32 | u64::from(low));
                packets.push(Placed {
                    time_ns: self.time_ns,
                    at: (at + BLOCK_HEADER_BYTES + 20) as u32,
                    captured_bytes: captured,
                    wire_bytes: wire.max(captured),
                    link: interface.link,
                });
                read
            }
            SIMPLE_PACKET => {
                let Some(([wire], data)) = self.endian.words::<1>(body) else {
                    return Ok(Step::Needs(BLOCK_HEADER_BYTES + 4));
                };
                let Some(interface) = self.interfaces.first() else {
                    return damaged("a simple packet where no interface is described".to_owned());
                };
                let snapshot =
                    if interface.snapshot_bytes == 0 { u32::MAX } else { interface.snapshot_bytes };
                let captured = wire.min(snapshot).min((body_bytes as u32).saturating_sub(4));
                if body_bytes < 4 {
                    return damaged(format!(
                        "a simple packet's block of {length} bytes, which has at least 16"
                    ));
                }
                if captured as usize > packet_bytes_max {
                    return Err(too_long(file_at, captured, packet_bytes_max));
                }
                let read = 4 + captured as usize;
                if data.len() < captured as usize {
                    return Ok(Step::Needs(BLOCK_HEADER_BYTES + read));
                }
                packets.push(Placed {
                    time_ns: self.time_ns,
                    at: (at + BLOCK_HEADER_BYTES + 4) as u32,
                    captured_bytes: captured,
                    wire_bytes: wire,
                    link: interface.link,
                });
                read
            }
            _ => 0,
        };
        self.open = Some(OpenBlock { at: file_at, length, left: (body_bytes - read) as u64 });
        Ok(Step::Done(BLOCK_HEADER_BYTES + read))
    }

    /// What an interface's block says; `None` if it is too short.
    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let (&link, rest) = body.split_first_chunk::<4>()?;
        let ([snapshot_bytes], mut options) = self.endian.words::<1>(rest)?;
        let mut interface = Interface {
            link: LinkType(self.endian.u16([link[0], link[1]]).into()),
            snapshot_bytes,
            units: Units::new(6),
            offset_seconds: 0,
        };
        // Options that contradict themselves are left at that: packets can be read without.
        while let Some((header, rest)) = options.split_first_chunk::<4>() {
            let code = self.endian.u16([header[0], header[1]]);
            let length = usize::from(self.endian.u16([header[2], header[3]]));
            let Some(value) = rest.get(..length).filter(|_| code != 0) else { break };
            match (code, value) {
                (OPTION_RESOLUTION, [resolution]) => interface.units = Units::new(*resolution),
                (OPTION_OFFSET, value) => {
                    if let Some(&bytes) = value.first_chunk::<8>() {
                        interface.offset_seconds = match self.endian {
                            Endian::Little => i64::from_le_bytes(bytes),
                            Endian::Big => i64::from_be_bytes(bytes),
                        };
                    }
                }
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(interface)
    }
}

/// What came of one step of a walk.
enum Step {
    /// So many bytes are done with.
    Done(usize),
    /// All bytes, so many, are passed over; more are to be.
    Passed(usize),
    /// Nothing more, before there are so many bytes.
    Needs(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nanoseconds_whatever_they_are_counted_in() {
        let interface = |resolution, offset_seconds| Interface {
            link: LinkType::ETHERNET,
            snapshot_bytes: 0,
            units: Units::new(resolution),
            offset_seconds,
        };
        for (resolution, offset, units, ns) in [
            (6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
            (9, 0, 7, 7),
            (0, 0, 3, 3_000_000_000),
            (3, -1, 1500, 500_000_000),
            (12, 0, 1_999, 1),
            (127, 0, u64::MAX, 0),
            (0x80 | 10, 0, 1024 + 512, 1_500_000_000),
            (0x80 | 32, 5, 1 << 31, 5_500_000_000),
            (0xff, 0, u64::MAX, 0),
            (0, 0, u64::MAX, u64::MAX),
            (6, i64::MAX, 0, u64::MAX),
            (6, i64::MIN, 0, 0),
            (9, i64::MIN, u64::MAX, 0),
        ] {
            assert_eq!(interface(resolution, offset).time_ns(units), ns, "{resolution} {offset} {units}");
        }
    }
}
