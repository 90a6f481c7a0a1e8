//! Flow keys as text: `10.0.0.1:80 > 10.0.0.2:443 tcp`, and the same without the fields that a kind lacks.
//!
//! ```text
//!   key       side [" > " side] [" " protocol]      one side where the kind has fields of one only
//!   side      address [":" port] | "*:" port        an IPv6 address before a port stands in brackets
//!   protocol  a name below, or a number
//! ```

use super::flow::{FlowKey, FlowKind};
use crate::{Error, Result};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// The protocols that have a name here.
const PROTOCOLS: [(u8, &str); 14] = [
    (1, "icmp"),
    (2, "igmp"),
    (4, "ipip"),
    (TCP, "tcp"),
    (UDP, "udp"),
    (DCCP, "dccp"),
    (41, "ipv6"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "icmpv6"),
    (89, "ospf"),
    (SCTP, "sctp"),
    (UDP_LITE, "udplite"),
];

/// Whether the first four bytes of the protocol's header are two ports.
#[inline]
pub(super) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = [self.source_port(), self.destination_port()];
        let has_none = ports.iter().flatten().all(|&port| port == 0)
            && self.protocol().is_some_and(|protocol| !has_ports(protocol));
        // Where the address lacks, the port alone says that there is a side.
        let side = |address: Option<IpAddr>, port: Option<u16>| {
            (address, port.filter(|_| !has_none || address.is_none()))
        };
        let sides = [side(self.source(), ports[0]), side(self.destination(), ports[1])];
        let has_two = sides.iter().all(|side| *side != (None, None));
        // Of a kind with fields of one side, the kind says which it is.
        for (i, (address, port)) in sides.into_iter().enumerate() {
            if i == 1 && has_two {
                f.write_str(" > ")?;
            }
            match (address, port) {
                (Some(IpAddr::V6(address)), Some(port)) => write!(f, "[{address}]:{port}")?,
                (Some(address), Some(port)) => write!(f, "{address}:{port}")?,
                (Some(address), None) => write!(f, "{address}")?,
                (None, Some(port)) => write!(f, "*:{port}")?,
                (None, None) => {}
            }
        }
        let Some(protocol) = self.protocol() else { return Ok(()) };
        if sides.iter().any(|side| *side != (None, None)) {
            f.write_str(" ")?;
        }
        match PROTOCOLS.iter().find(|(number, _)| *number == protocol) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{protocol}"),
        }
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowKey({}: {self})", self.kind())
    }
}

impl FlowKey {
    /// The key of this kind that is printed so. Blanks around `>` may lack, and brackets around an IPv6 address may stand without a port.
    /// A port that lacks is 0.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if `text` is no such key.
    ///
    /// ```
    /// use overbank_ingest::capture::{FlowKey, FlowKind};
    /// let text = "[2001:db8::1]:80 > [2001:db8::2]:443 tcp";
    /// let key = FlowKey::parse(FlowKind::FIVE_TUPLE, text)?;
    /// assert_eq!((key.destination_port(), key.to_string()), (Some(443), text.to_owned()));
    /// # Ok::<(), overbank_ingest::Error>(())
    /// ```
    pub fn parse(kind: FlowKind, text: &str) -> Result<Self> {
        read(kind, text).ok_or_else(|| {
            let example = Self::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 443, TCP).project(kind);
            Error::InvalidOption {
                name: "flow",
                value: text.to_owned(),
                why: format!(
                    "a key of kind {kind} is written as {}",
                    example.map_or(String::new(), |key| key.to_string())
                ),
            }
        })
    }
}

fn read(kind: FlowKind, text: &str) -> Option<FlowKey> {
    let has = |fields: FlowKind| fields.is_part_of(kind);
    let has_source = has(FlowKind::SOURCE) || has(FlowKind::SOURCE_PORT);
    let has_destination = has(FlowKind::DESTINATION) || has(FlowKind::DESTINATION_PORT);
    let mut rest = text.trim();
    let mut protocol = 0;
    if has(FlowKind::PROTOCOL) {
        let (before, name) = match rest.rsplit_once(char::is_whitespace) {
            Some((before, name)) => (before.trim_end(), name),
            None => ("", rest),
        };
        let named = PROTOCOLS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        protocol = named.map_or_else(|| name.parse().ok(), |(number, _)| Some(*number))?;
        rest = before;
    }
    let (source, destination) = match (has_source, has_destination) {
        (true, true) => rest.split_once('>')?,
        (true, false) => (rest, ""),
        _ => ("", rest),
    };
    let side =
        |text: &str, address: FlowKind, port: FlowKind| read_side(text.trim(), has(address), has(port));
    let (source, source_port) = side(source, FlowKind::SOURCE, FlowKind::SOURCE_PORT)?;
    let (destination, destination_port) =
        side(destination, FlowKind::DESTINATION, FlowKind::DESTINATION_PORT)?;
    let is_v6 = match (source, destination) {
        (Some(source), Some(destination)) if source.is_ipv6() != destination.is_ipv6() => return None,
        (Some(address), _) | (_, Some(address)) => address.is_ipv6(),
        (None, None) => false,
    };
    let mut bytes = Vec::with_capacity(kind.key_bytes(is_v6));
    for address in [source, destination].into_iter().flatten() {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    for port in [source_port, destination_port].into_iter().flatten() {
        bytes.extend(port.to_be_bytes());
    }
    bytes.extend(has(FlowKind::PROTOCOL).then_some(protocol));
    FlowKey::from_bytes(kind, &bytes)
}

/// The address and the port of one side, those that it should have.
fn read_side(text: &str, has_address: bool, has_port: bool) -> Option<(Option<IpAddr>, Option<u16>)> {
    let port = |text: &str| text.parse::<u16>().ok();
    match (has_address, has_port) {
        (false, false) => text.is_empty().then_some((None, None)),
        (false, true) => Some((None, Some(port(text.strip_prefix("*:")?)?))),
        (true, false) => Some((Some(read_address(text)?), None)),
        (true, true) => {
            if let Some(address) = read_address(text) {
                return Some((Some(address), Some(0)));
            }
            let (address, number) = text.rsplit_once(':')?;
            // Without brackets it could not be told where an IPv6 address ends.
            let address =
                read_address(address).filter(|_| address.starts_with('[') || !address.contains(':'))?;
            Some((Some(address), Some(port(number)?)))
        }
    }
}

fn read_address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_printed_by_what_their_kind_has() {
        let v4 = FlowKey::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 443, TCP);
        let v6 = FlowKey::v6(
            "2001:db8::1".parse().expect("an address"),
            "::ffff:1.2.3.4".parse().expect("an address"),
            80,
            0,
            58,
        );
        for (kind, first, second) in [
            ("five-tuple", "10.0.0.1:80 > 10.0.0.2:443 tcp", "[2001:db8::1]:80 > [::ffff:1.2.3.4]:0 icmpv6"),
            ("src-dst", "10.0.0.1 > 10.0.0.2", "2001:db8::1 > ::ffff:1.2.3.4"),
            ("src", "10.0.0.1", "2001:db8::1"),
            ("dst", "10.0.0.2", "::ffff:1.2.3.4"),
            ("dst-dport", "10.0.0.2:443", "[::ffff:1.2.3.4]:0"),
            ("src-dport", "10.0.0.1 > *:443", "2001:db8::1 > *:0"),
            ("sport-dport", "*:80 > *:443", "*:80 > *:0"),
            ("sport", "*:80", "*:80"),
            ("proto", "tcp", "icmpv6"),
            ("dport-proto", "*:443 tcp", "*:0 icmpv6"),
        ] {
            let kind = kind.parse().expect("a kind");
            assert_eq!(v4.project(kind).expect("all fields").to_string(), first);
            assert_eq!(v6.project(kind).expect("all fields").to_string(), second);
        }
        let ping = FlowKey::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0, 0, 1);
        assert_eq!(ping.to_string(), "10.0.0.1 > 10.0.0.2 icmp");
    }

    #[test]
    fn what_is_no_key_is_refused_with_one_that_is() {
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1:80 > 10.0.0.2:443",
            "10.0.0.1:80 > [::1]:443 tcp",
            "2001:db8::1:80x > ::2 tcp",
            "10.0.0.1:65536 > 10.0.0.2:443 tcp",
            "[10.0.0.1]:1 > [10.0.0.2]:2 tcp",
            "10.0.0.1:80 > 10.0.0.2:443 256",
        ] {
            let error = FlowKey::parse(FlowKind::FIVE_TUPLE, text).expect_err(text).to_string();
            assert!(error.contains("10.0.0.1:80 > 10.0.0.2:443 tcp"), "{error}");
        }
        let loose = FlowKey::parse(FlowKind::FIVE_TUPLE, " [::1]>::2 UDP ").expect("blanks may lack");
        assert_eq!(loose.to_string(), "[::1]:0 > [::2]:0 udp");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(kind in 1u8..32, is_v6: bool, random: [u8; 37], quiet: bool) {
            let kind: Vec<&str> = ["src", "dst", "sport", "dport", "proto"].into_iter().enumerate()
                .filter(|(field, _)| kind >> field & 1 == 1).map(|(_, name)| name).collect();
            let kind: FlowKind = kind.join("-").parse().expect("a kind");
            let mut bytes = random[..kind.key_bytes(is_v6)].to_vec();
            if quiet {
                bytes.fill(0);
            }
            let key = FlowKey::from_bytes(kind, &bytes).expect("its length");
            prop_assert_eq!(FlowKey::parse(kind, &key.to_string()).expect("what it printed"), key);
        }
    }
}
