//! A packet as a capture has it, and packets one after another in one buffer.

use super::link::LinkType;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What was captured of it, from its link's header on.
    pub data: &'a [u8],
    /// How long it was on the wire, at least as long as `data`.
    pub wire_bytes: u32,
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: u64,
    /// What `data` begins with.
    pub link: LinkType,
}

/// Where a packet lies in its buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) time_ns: u64,
    pub(super) at: u32,
    pub(super) captured_bytes: u32,
    pub(super) wire_bytes: u32,
    pub(super) link: LinkType,
}

impl Placed {
    /// The packet, which lies in `bytes`.
    #[inline]
    pub(super) fn of<'a>(&self, bytes: &'a [u8]) -> Packet<'a> {
        let start = self.at as usize;
        Packet {
            data: &bytes[start..start + self.captured_bytes as usize],
            wire_bytes: self.wire_bytes,
            time_ns: self.time_ns,
            link: self.link,
        }
    }
}

/// The byte order of a file or a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endian {
    Little,
    Big,
}

impl Endian {
    #[inline]
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Numbers of 32 bits, one after another.
    #[inline]
    pub(super) fn words<const WORDS: usize>(self, bytes: &[u8]) -> Option<([u32; WORDS], &[u8])> {
        let (words, rest) = bytes.split_at_checked(WORDS * 4)?;
        let mut numbers = [0; WORDS];
        for (number, word) in numbers.iter_mut().zip(words.as_chunks::<4>().0) {
            *number = self.u32(*word);
        }
        Some((numbers, rest))
    }
}

/// How far a walk over a buffer came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Walked {
    /// Bytes that are done with.
    pub(super) consumed: usize,
    /// How many bytes there must be from there on for the walk to go on; more than there were.
    pub(super) needed: usize,
    /// What it cannot go on for.
    pub(super) fault: Option<Fault>,
}

impl Walked {
    /// It goes on from there with so many bytes.
    #[inline]
    pub(super) fn up_to(consumed: usize, needed: usize) -> Self {
        Self { consumed, needed, fault: None }
    }

    /// It goes no further.
    pub(super) fn failed(consumed: usize, fault: Fault) -> Self {
        Self { consumed, needed: 0, fault: Some(fault) }
    }
}

/// What is wrong with a capture, and where in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not what its format has there.
    Damaged { at: u64, why: String },
    /// It is of a form that is not read.
    Unsupported { what: String },
    /// It begins like no capture.
    NotACapture { head: [u8; 4] },
}

/// The refusal of a packet of which more bytes are said to be captured than can be.
pub(super) fn too_long(at: u64, captured_bytes: u32, packet_bytes_max: usize) -> Fault {
    let why = format!(
        "a packet of {captured_bytes} captured bytes, more than the {packet_bytes_max} of packet_bytes_max; lengths there are no \
         packet's, or its link has longer ones than networks have"
    );
    Fault::Damaged { at, why }
}
