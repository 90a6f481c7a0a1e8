//! From a packet's first byte to its IP header: link layers, tags of VLANs, labels of MPLS, PPP.

/// What a capture says its packets begin with: a number of the registry of link types (`LINKTYPE_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: an address family in the byte order of whoever wrote it.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without its HDLC bytes.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: Self = Self(50);
    /// IPv4 or IPv6, nothing before.
    pub const RAW: Self = Self(101);
    /// Cisco's HDLC: a type as Ethernet has it behind two bytes.
    pub const C_HDLC: Self = Self(104);
    /// OpenBSD loopback: an address family, big-endian.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, as of the device `any`.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4, nothing before.
    pub const IPV4: Self = Self(228);
    /// IPv6, nothing before.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// What `packet` holds behind what belongs to the link alone.
    #[inline(always)]
    pub(super) fn enter(self, packet: &[u8]) -> Result<(Layer, &[u8]), Miss> {
        match self {
            Self::ETHERNET => Ok((Layer::Ethernet, packet)),
            // Systems whose own number for raw IP it was wrote these into files, too.
            Self::RAW | Self(12 | 14) => Ok((Layer::Ip, packet)),
            Self::C_HDLC => {
                let (header, rest) = packet.split_first_chunk::<4>().ok_or(Miss::Cut)?;
                Ok((Layer::EtherType(u16::from_be_bytes([header[2], header[3]])), rest))
            }
            Self::LINUX_SLL => {
                let (header, rest) = packet.split_first_chunk::<16>().ok_or(Miss::Cut)?;
                Ok((Layer::EtherType(u16::from_be_bytes([header[14], header[15]])), rest))
            }
            Self::LINUX_SLL2 => {
                let (header, rest) = packet.split_first_chunk::<20>().ok_or(Miss::Cut)?;
                Ok((Layer::EtherType(u16::from_be_bytes([header[0], header[1]])), rest))
            }
            Self::IPV4 => Ok((Layer::EtherType(ETHER_IPV4), packet)),
            Self::IPV6 => Ok((Layer::EtherType(ETHER_IPV6), packet)),
            Self::NULL | Self::LOOP => {
                let (&family, rest) = packet.split_first_chunk::<4>().ok_or(Miss::Cut)?;
                // Families are small: of the two byte orders, the one that gives a small number is meant.
                let family = u32::from_le_bytes(family).min(u32::from_be_bytes(family));
                match family {
                    2 => Ok((Layer::EtherType(ETHER_IPV4), rest)),
                    // What Linux, NetBSD, FreeBSD and macOS call IPv6.
                    10 | 24 | 28 | 30 => Ok((Layer::EtherType(ETHER_IPV6), rest)),
                    _ => Err(Miss::NotIp),
                }
            }
            Self::PPP | Self::PPP_HDLC => Ok((Layer::Ppp, packet)),
            _ => Err(Miss::UnknownLink),
        }
    }
}

/// What bytes begin with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// What this type says.
    EtherType(u16),
    /// An IP header of either version.
    Ip,
    /// A PPP frame.
    Ppp,
}

/// Why a packet is of no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// It is not IP.
    NotIp,
    /// Its headers contradict themselves.
    Malformed,
    /// Less was captured of it than its headers.
    Cut,
    /// Its link type is not read.
    UnknownLink,
}

/// The IP header, whose version its first bits have said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Network<'a> {
    V4(&'a [u8]),
    V6(&'a [u8]),
}

pub(super) const ETHER_IPV4: u16 = 0x0800;
pub(super) const ETHER_IPV6: u16 = 0x86dd;
/// 802.1Q and 802.1ad tags, and what stood for the outer ones before the standard.
const ETHER_VLAN: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const ETHER_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHER_PPPOE: u16 = 0x8864;
/// Up to this an EtherType is a length, of an 802.3 frame.
const LENGTH_MAX: u16 = 1500;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: [u16; 2] = [0x0281, 0x0283];
/// More tags or labels than this nobody stacks; what has more is malformed.
const TAGS_MAX: usize = 16;

/// The IP header behind `layer`.
#[inline(always)]
pub(super) fn network(layer: Layer, data: &[u8]) -> Result<Network<'_>, Miss> {
    let (ether_type, rest) = match layer {
        Layer::Ethernet => {
            let (header, rest) = data.split_first_chunk::<14>().ok_or(Miss::Cut)?;
            (u16::from_be_bytes([header[12], header[13]]), rest)
        }
        Layer::EtherType(ether_type) => (ether_type, data),
        Layer::Ip => return by_version(data),
        Layer::Ppp => return ppp(data),
    };
    match ether_type {
        ETHER_IPV4 => v4(rest),
        ETHER_IPV6 => v6(rest),
        _ => behind_tags(ether_type, rest),
    }
}

#[inline(always)]
fn v4(data: &[u8]) -> Result<Network<'_>, Miss> {
    match data.first() {
        Some(first) if first >> 4 == 4 => Ok(Network::V4(data)),
        Some(_) => Err(Miss::Malformed),
        None => Err(Miss::Cut),
    }
}

#[inline(always)]
fn v6(data: &[u8]) -> Result<Network<'_>, Miss> {
    match data.first() {
        Some(first) if first >> 4 == 6 => Ok(Network::V6(data)),
        Some(_) => Err(Miss::Malformed),
        None => Err(Miss::Cut),
    }
}

fn by_version(data: &[u8]) -> Result<Network<'_>, Miss> {
    match data.first().ok_or(Miss::Cut)? >> 4 {
        4 => Ok(Network::V4(data)),
        6 => Ok(Network::V6(data)),
        _ => Err(Miss::NotIp),
    }
}

fn behind_tags(mut ether_type: u16, mut data: &[u8]) -> Result<Network<'_>, Miss> {
    for _ in 0..TAGS_MAX {
        match ether_type {
            ETHER_IPV4 => return v4(data),
            ETHER_IPV6 => return v6(data),
            _ if ETHER_VLAN.contains(&ether_type) => {
                let (tag, rest) = data.split_first_chunk::<4>().ok_or(Miss::Cut)?;
                (ether_type, data) = (u16::from_be_bytes([tag[2], tag[3]]), rest);
            }
            _ if ETHER_MPLS.contains(&ether_type) => return behind_labels(data),
            ETHER_PPPOE => {
                let (_, rest) = data.split_first_chunk::<6>().ok_or(Miss::Cut)?;
                return ppp(rest);
            }
            // 802.3: logical link control; IP comes with the header of SNAP.
            0..=LENGTH_MAX => {
                let (header, rest) = data.split_first_chunk::<8>().ok_or(Miss::Cut)?;
                let [0xaa, 0xaa, 3, 0, 0, 0, high, low] = *header else { return Err(Miss::NotIp) };
                (ether_type, data) = (u16::from_be_bytes([high, low]), rest);
            }
            _ => return Err(Miss::NotIp),
        }
    }
    Err(Miss::Malformed)
}

/// Behind the label that is the bottom of its stack, the first bits tell what follows: nothing else does.
fn behind_labels(mut data: &[u8]) -> Result<Network<'_>, Miss> {
    for _ in 0..TAGS_MAX {
        let (label, rest) = data.split_first_chunk::<4>().ok_or(Miss::Cut)?;
        data = rest;
        if label[2] & 1 == 1 {
            return by_version(data);
        }
    }
    Err(Miss::Malformed)
}

fn ppp(data: &[u8]) -> Result<Network<'_>, Miss> {
    let data = data.strip_prefix(&[0xff, 0x03]).unwrap_or(data);
    // Address and control, or the start of them, are no protocol.
    let &first = data.first().filter(|&&first| first != 0xff).ok_or(Miss::Cut)?;
    // A protocol of one byte is odd, the first of two is even.
    let (protocol, rest) = if first & 1 == 1 {
        (u16::from(first), &data[1..])
    } else {
        let (protocol, rest) = data.split_first_chunk::<2>().ok_or(Miss::Cut)?;
        (u16::from_be_bytes(*protocol), rest)
    };
    match protocol {
        PPP_IPV4 => v4(rest),
        PPP_IPV6 => v6(rest),
        _ if PPP_MPLS.contains(&protocol) => behind_labels(rest),
        _ => Err(Miss::NotIp),
    }
}
