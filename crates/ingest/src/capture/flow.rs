//! Flow keys: which fields of a packet's headers make one, and its bytes.
//!
//! ```text
//!            IPv4   source 4 │ destination 4 │ source port 2 │ destination port 2 │ protocol 1      13 bytes
//!            IPv6   source 16│ destination 16│ source port 2 │ destination port 2 │ protocol 1      37 bytes
//! ```
//!
//! 1. The bytes of a key are those of its kind's fields in this order, ports big-endian, nothing between them: as they stand in packets.
//! 2. Keys of one kind with an address are of two lengths, one for IPv4 and one for IPv6: such keys are never equal.
//! 3. Keys of different kinds are never equal as values, though their bytes may be.

use crate::{Error, Result};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::str::FromStr;

/// The bytes of the longest key: all fields of an IPv6 packet.
pub(super) const KEY_BYTES_MAX: usize = 37;
/// The fields' names, in the order of their bytes.
const FIELDS: [&str; 5] = ["src", "dst", "sport", "dport", "proto"];

/// Which fields of a packet make its flow key: any but none of source, destination, their ports, and the protocol.
///
/// As text it is `five-tuple`, or the names of its fields (`src`, `dst`, `sport`, `dport`, `proto`) with hyphens between them.
///
/// ```
/// use overbank_ingest::capture::FlowKind;
/// assert_eq!("src-dst".parse::<FlowKind>()?, FlowKind::SOURCE_DESTINATION);
/// assert_eq!("proto-dport".parse::<FlowKind>()?.to_string(), "dport-proto");
/// # Ok::<(), overbank_ingest::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKind(u8);

impl FlowKind {
    /// The sender's address.
    pub const SOURCE: Self = Self(1);
    /// The receiver's address.
    pub const DESTINATION: Self = Self(2);
    /// The sender's port.
    pub const SOURCE_PORT: Self = Self(4);
    /// The receiver's port.
    pub const DESTINATION_PORT: Self = Self(8);
    /// The protocol over IP.
    pub const PROTOCOL: Self = Self(16);
    /// Both addresses.
    pub const SOURCE_DESTINATION: Self = Self(3);
    /// All fields.
    pub const FIVE_TUPLE: Self = Self(31);

    /// The fields of either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether these are all among the fields of `other`.
    pub const fn is_part_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How long the bytes of such a key are.
    #[inline]
    pub const fn key_bytes(self, is_v6: bool) -> usize {
        KEY_BYTES[is_v6 as usize][(self.0 & 31) as usize] as usize
    }

    const fn has(self, field: usize) -> bool {
        self.0 >> field & 1 == 1
    }

    /// Where `field` is in a key of this kind.
    #[inline]
    fn range(self, field: usize, is_v6: bool) -> Range<usize> {
        let before = Self(self.0 & ((1 << field) - 1)).key_bytes(is_v6);
        before..before + Self(1 << field).key_bytes(is_v6)
    }
}

/// How long the bytes of a key of each kind are, of IPv4 and of IPv6.
const KEY_BYTES: [[u8; 32]; 2] = [key_bytes([4, 4, 2, 2, 1]), key_bytes([16, 16, 2, 2, 1])];

const fn key_bytes(field_bytes: [u8; FIELDS.len()]) -> [u8; 32] {
    let mut sums = [0; 32];
    let mut kind = 1;
    while kind < sums.len() {
        // That of the kind without one of its fields, and this field's.
        sums[kind] = sums[kind & (kind - 1)] + field_bytes[kind.trailing_zeros() as usize];
        kind += 1;
    }
    sums
}

const SOURCE: usize = 0;
const DESTINATION: usize = 1;
const SOURCE_PORT: usize = 2;
const DESTINATION_PORT: usize = 3;
const PROTOCOL: usize = 4;

impl FromStr for FlowKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "five-tuple" {
            return Ok(Self::FIVE_TUPLE);
        }
        let mut kind = Self(0);
        for name in text.split('-') {
            match FIELDS.iter().position(|field| *field == name) {
                Some(field) if !kind.has(field) => kind.0 |= 1 << field,
                _ => {
                    return Err(Error::InvalidOption {
                        name: "key",
                        value: text.to_owned(),
                        why: "a flow's key is five-tuple, or some of src, dst, sport, dport and proto, each once, with hyphens between \
                              them: src-dst, src, dst-dport"
                            .to_owned(),
                    });
                }
            }
        }
        Ok(kind)
    }
}

impl fmt::Display for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FIVE_TUPLE {
            return f.write_str("five-tuple");
        }
        let fields = (0..FIELDS.len()).filter(|&field| self.has(field));
        for (i, field) in fields.enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "-" }, FIELDS[field])?;
        }
        Ok(())
    }
}

impl fmt::Debug for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowKind({self})")
    }
}

/// The key of a flow: the fields of its kind, as bytes of a length that kind and address family fix.
///
/// Printed and read ([`FlowKey::parse`]) as `10.0.0.1:80 > 10.0.0.2:443 tcp` and `[2001:db8::1]:80 > [2001:db8::2]:443 udp`; what a kind
/// lacks is left away. A protocol that has no ports is printed without them where they are 0.
///
/// ```
/// use overbank_ingest::capture::{FlowKey, FlowKind};
/// let key = FlowKey::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 443, 6);
/// assert_eq!(key.to_string(), "10.0.0.1:80 > 10.0.0.2:443 tcp");
/// let source = key.project(FlowKind::SOURCE).expect("a five-tuple has a source");
/// assert_eq!((source.to_string(), source.as_bytes()), ("10.0.0.1".to_owned(), &[10, 0, 0, 1][..]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    kind: FlowKind,
    len: u8,
    /// Zero behind `len`.
    bytes: [u8; KEY_BYTES_MAX],
}

impl FlowKey {
    /// The five-tuple of an IPv4 packet.
    pub fn v4(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> Self {
        let mut addresses = [0; 8];
        addresses[..4].copy_from_slice(&source.octets());
        addresses[4..].copy_from_slice(&destination.octets());
        Self::five_tuple(&addresses, join_ports(source_port, destination_port), protocol)
    }

    /// The five-tuple of an IPv6 packet.
    pub fn v6(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> Self {
        let mut addresses = [0; 32];
        addresses[..16].copy_from_slice(&source.octets());
        addresses[16..].copy_from_slice(&destination.octets());
        Self::five_tuple(&addresses, join_ports(source_port, destination_port), protocol)
    }

    /// A five-tuple of fields as they stand in a packet: both addresses, both ports.
    #[inline]
    pub(super) fn five_tuple<const ADDRESSES: usize>(
        addresses: &[u8; ADDRESSES],
        ports: [u8; 4],
        protocol: u8,
    ) -> Self {
        const { assert!(ADDRESSES == 8 || ADDRESSES == 32) }
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..ADDRESSES].copy_from_slice(addresses);
        bytes[ADDRESSES..ADDRESSES + 4].copy_from_slice(&ports);
        bytes[ADDRESSES + 4] = protocol;
        Self { kind: FlowKind::FIVE_TUPLE, len: ADDRESSES as u8 + 5, bytes }
    }

    /// The five-tuple with another protocol and ports 0.
    pub(super) fn without_ports(&self, protocol: u8) -> Self {
        let mut key = *self;
        let end = usize::from(self.len);
        key.bytes[end - 5..end].copy_from_slice(&[0, 0, 0, 0, protocol]);
        key
    }

    /// The key of this kind with these bytes, which [`FlowKey::as_bytes`] gave; `None` where such a key has another length.
    pub fn from_bytes(kind: FlowKind, from: &[u8]) -> Option<Self> {
        if ![false, true].iter().any(|&is_v6| kind.key_bytes(is_v6) == from.len()) {
            return None;
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..from.len()].copy_from_slice(from);
        Some(Self { kind, len: from.len() as u8, bytes })
    }

    /// Which fields it has.
    pub fn kind(&self) -> FlowKind {
        self.kind
    }

    /// Its bytes, what is hashed and stored of it.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The key of the flow that this one is part of, by fewer fields; `None` where it lacks one of them.
    #[inline]
    pub fn project(&self, kind: FlowKind) -> Option<Self> {
        if kind == self.kind {
            return Some(*self);
        }
        if !kind.is_part_of(self.kind) {
            return None;
        }
        let is_v6 = self.is_v6();
        let (mut bytes, mut len) = ([0; KEY_BYTES_MAX], 0);
        for field in (0..FIELDS.len()).filter(|&field| kind.has(field)) {
            let from = &self.bytes[self.kind.range(field, is_v6)];
            bytes[len..len + from.len()].copy_from_slice(from);
            len += from.len();
        }
        Some(Self { kind, len: len as u8, bytes })
    }

    /// The sender's address, where the kind has it.
    pub fn source(&self) -> Option<IpAddr> {
        self.address(SOURCE)
    }

    /// The receiver's address, where the kind has it.
    pub fn destination(&self) -> Option<IpAddr> {
        self.address(DESTINATION)
    }

    /// The sender's port, where the kind has it; 0 of protocols without ports and where it is not known.
    pub fn source_port(&self) -> Option<u16> {
        self.port(SOURCE_PORT)
    }

    /// The receiver's port; as [`FlowKey::source_port`].
    pub fn destination_port(&self) -> Option<u16> {
        self.port(DESTINATION_PORT)
    }

    /// The protocol's number in IP headers, where the kind has it.
    pub fn protocol(&self) -> Option<u8> {
        self.field(PROTOCOL).map(|bytes| bytes[0])
    }

    /// Whether its addresses are of IPv6; `false` of a key without an address.
    #[inline]
    fn is_v6(&self) -> bool {
        usize::from(self.len) != self.kind.key_bytes(false)
    }

    fn field(&self, field: usize) -> Option<&[u8]> {
        self.kind.has(field).then(|| &self.bytes[self.kind.range(field, self.is_v6())])
    }

    fn port(&self, field: usize) -> Option<u16> {
        self.field(field).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn address(&self, field: usize) -> Option<IpAddr> {
        let bytes = self.field(field)?;
        match bytes.first_chunk::<16>() {
            Some(&octets) => Some(Ipv6Addr::from(octets).into()),
            None => bytes.first_chunk::<4>().map(|&octets| Ipv4Addr::from(octets).into()),
        }
    }
}

fn join_ports(source: u16, destination: u16) -> [u8; 4] {
    (u32::from(source) << 16 | u32::from(destination)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn kinds() -> impl Iterator<Item = FlowKind> {
        (1..32).map(FlowKind)
    }

    #[test]
    fn each_kind_has_a_name_that_is_read_back() {
        for kind in kinds() {
            assert_eq!(kind.to_string().parse::<FlowKind>().expect("its own name"), kind);
        }
        for bad in ["", "src-", "src-src", "-", "five-tuple-src", "port"] {
            let error = bad.parse::<FlowKind>().expect_err(bad).to_string();
            assert!(error.contains("src-dst"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_projection_has_the_fields_of_its_kind(
            is_v6: bool, source: [u8; 16], destination: [u8; 16], sport: u16, dport: u16, protocol: u8, first in 1u8..32, second in 1u8..32,
        ) {
            let key = if is_v6 {
                FlowKey::v6(source.into(), destination.into(), sport, dport, protocol)
            } else {
                FlowKey::v4(u32::from_be_bytes(*source.first_chunk().expect("4 of 16")).into(),
                    u32::from_be_bytes(*destination.first_chunk().expect("4 of 16")).into(), sport, dport, protocol)
            };
            let (first, second) = (FlowKind(first), FlowKind(second));
            let part = key.project(first).expect("a five-tuple has all fields");
            prop_assert_eq!(part.as_bytes().len(), first.key_bytes(is_v6));
            prop_assert_eq!(FlowKey::from_bytes(first, part.as_bytes()), Some(part));
            for (field, of_part, of_key) in [(0, part.source(), key.source()), (1, part.destination(), key.destination())] {
                prop_assert_eq!(of_part, of_key.filter(|_| first.has(field)));
            }
            prop_assert_eq!(part.source_port(), first.has(2).then_some(sport));
            prop_assert_eq!(part.destination_port(), first.has(3).then_some(dport));
            prop_assert_eq!(part.protocol(), first.has(4).then_some(protocol));
            prop_assert_eq!(part.project(second), second.is_part_of(first).then(|| key.project(second).expect("as before")));
        }
    }

    #[test]
    fn families_are_never_equal_and_foreign_lengths_are_no_keys() {
        let v4 = FlowKey::v4([1, 2, 3, 4].into(), [0; 4].into(), 0, 0, 0);
        let v6 = FlowKey::v6([1, 2, 3, 4, 0, 0, 0, 0].into(), [0; 16].into(), 0, 0, 0);
        for kind in kinds().filter(|kind| kind.has(SOURCE) || kind.has(DESTINATION)) {
            let keys = [v4, v6].map(|key| key.project(kind).expect("all fields"));
            assert_ne!(keys[0].as_bytes(), keys[1].as_bytes(), "{kind}");
        }
        for len in 0..=KEY_BYTES_MAX + 1 {
            let is_key = FlowKey::from_bytes(FlowKind::SOURCE_DESTINATION, &vec![0; len]).is_some();
            assert_eq!(is_key, len == 8 || len == 32, "{len}");
        }
    }
}
