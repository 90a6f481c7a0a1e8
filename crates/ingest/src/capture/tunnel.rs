//! What a packet carries within: IP in IP, GRE, VXLAN, Geneve and GTP-U.

use super::link::{ETHER_IPV4, ETHER_IPV6, Layer};

const IPV4_IN_IP: u8 = 4;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const GTP_U: u16 = 2152;
const VXLAN: u16 = 4789;
/// VXLAN as Linux has it unless told otherwise.
const VXLAN_BEFORE: u16 = 8472;
const GENEVE: u16 = 6081;
/// A whole Ethernet frame, in GRE and Geneve.
const ETHER_FRAME: u16 = 0x6558;
/// A PPP frame, in the GRE of PPTP.
const ETHER_PPP: u16 = 0x880b;
/// GTP-U extension headers that are read.
const GTP_EXTENSIONS_MAX: usize = 8;

/// What `payload`, the bytes from the transport header on, carries; `None` where it is no tunnel, or not to be read.
pub(super) fn inner(protocol: u8, payload: &[u8]) -> Option<(Layer, &[u8])> {
    match protocol {
        IPV4_IN_IP => Some((Layer::EtherType(ETHER_IPV4), payload)),
        IPV6_IN_IP => Some((Layer::EtherType(ETHER_IPV6), payload)),
        GRE => gre(payload),
        UDP => {
            let (header, rest) = payload.split_first_chunk::<8>()?;
            match u16::from_be_bytes([header[2], header[3]]) {
                VXLAN | VXLAN_BEFORE => {
                    let (header, rest) = rest.split_first_chunk::<8>()?;
                    // The flag that says that there is a network's number is always set.
                    (header[0] & 8 != 0).then_some((Layer::Ethernet, rest))
                }
                GENEVE => {
                    let (header, rest) = rest.split_first_chunk::<8>()?;
                    let rest = rest.get(usize::from(header[0] & 0x3f) * 4..)?;
                    by_type(u16::from_be_bytes([header[2], header[3]]), rest)
                }
                GTP_U => gtp(rest),
                _ => None,
            }
        }
        _ => None,
    }
}

fn by_type(ether_type: u16, rest: &[u8]) -> Option<(Layer, &[u8])> {
    Some(match ether_type {
        ETHER_FRAME => (Layer::Ethernet, rest),
        ETHER_PPP => (Layer::Ppp, rest),
        _ => (Layer::EtherType(ether_type), rest),
    })
}

/// RFC 2784 with key and sequence number (RFC 2890), and version 1 of PPTP (RFC 2637).
fn gre(data: &[u8]) -> Option<(Layer, &[u8])> {
    let (header, rest) = data.split_first_chunk::<4>()?;
    let flags = u16::from_be_bytes([header[0], header[1]]);
    let has = |flag: u16| usize::from(flags & flag != 0);
    const CHECKSUM: u16 = 0x8000;
    const ROUTES: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGED: u16 = 0x0080;
    let words = match flags & 7 {
        0 if flags & ROUTES == 0 => has(CHECKSUM) + has(KEY) + has(SEQUENCE),
        1 => has(KEY) + has(SEQUENCE) + has(ACKNOWLEDGED),
        _ => return None,
    };
    by_type(u16::from_be_bytes([header[2], header[3]]), rest.get(words * 4..)?)
}

/// 3GPP TS 29.281, section 5.
fn gtp(data: &[u8]) -> Option<(Layer, &[u8])> {
    let (header, mut rest) = data.split_first_chunk::<8>()?;
    const VERSION_1: u8 = 0x30;
    const PACKET: u8 = 0xff;
    if header[0] & 0xf0 != VERSION_1 || header[1] != PACKET {
        return None;
    }
    if header[0] & 7 != 0 {
        let (optional, behind) = rest.split_first_chunk::<4>()?;
        let mut next = if header[0] & 4 != 0 { optional[3] } else { 0 };
        rest = behind;
        for _ in 0..GTP_EXTENSIONS_MAX {
            if next == 0 {
                break;
            }
            let bytes = usize::from(*rest.first()?) * 4;
            next = *rest.get(bytes.checked_sub(1)?)?;
            rest = &rest[bytes..];
        }
        if next != 0 {
            return None;
        }
    }
    Some((Layer::Ip, rest))
}
