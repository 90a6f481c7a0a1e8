//! IP headers of both versions, with options, extension headers and fragments (RFC 791, RFC 8200).

use super::flow::FlowKey;
use super::flow_text::has_ports;
use super::link::{Miss, Network};

/// What an IP header says, its extension headers read.
#[derive(Debug)]
pub(super) struct Datagram<'a> {
    /// Its five-tuple; ports 0 where it has none, or they are not here.
    pub(super) flow: FlowKey,
    /// Whether its ports lie in another fragment, were not captured, or stand behind headers that were not read.
    pub(super) lacks_ports: bool,
    /// Where it is a part of a larger one.
    pub(super) fragment: Option<Fragment>,
    /// What its transport protocol is, and the bytes that are here from its header on; none of a later fragment.
    pub(super) payload: &'a [u8],
    pub(super) protocol: u8,
}

/// A part of a datagram that was cut up on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    /// What its parts have in common beside addresses.
    pub(super) identification: u32,
    /// The protocol as all parts say it.
    pub(super) protocol: u8,
    pub(super) is_first: bool,
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;
/// Extension headers that are read; each kind stands once or twice in a packet, so more are made to keep readers busy.
const EXTENSIONS_MAX: usize = 12;

/// Reads the header.
#[inline(always)]
pub(super) fn read(network: Network<'_>) -> Result<Datagram<'_>, Miss> {
    match network {
        Network::V4(data) => v4(data),
        Network::V6(data) => v6(data),
    }
}

#[inline(always)]
fn v4(data: &[u8]) -> Result<Datagram<'_>, Miss> {
    let (header, _) = data.split_first_chunk::<20>().ok_or(Miss::Cut)?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_bytes < 20 || total_bytes < header_bytes && total_bytes != 0 {
        return Err(Miss::Malformed);
    }
    // Segments that the card cuts up later have no length yet; what is longer than the datagram is padding of the link's.
    let end = if total_bytes == 0 { data.len() } else { total_bytes.min(data.len()) };
    let mut payload = data.get(header_bytes..end).unwrap_or_default();
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let mut protocol = header[9];
    // More fragments, or not at the datagram's start.
    let fragment = (flags & 0x3fff != 0).then(|| Fragment {
        identification: u16::from_be_bytes([header[4], header[5]]).into(),
        protocol,
        is_first: flags & 0x1fff == 0,
    });
    let is_later = fragment.is_some_and(|fragment| !fragment.is_first);
    if protocol == AUTHENTICATION
        && !is_later
        && let Some((next, rest)) = extension(protocol, payload)
    {
        (protocol, payload) = (next, rest);
    }
    let addresses = header.last_chunk::<8>().expect("8 of 20");
    Ok(datagram(addresses, protocol, payload, fragment, false))
}

#[inline(always)]
fn v6(data: &[u8]) -> Result<Datagram<'_>, Miss> {
    let (header, rest) = data.split_first_chunk::<40>().ok_or(Miss::Cut)?;
    let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // Jumbograms say their length elsewhere.
    let end = if payload_bytes == 0 { rest.len() } else { payload_bytes.min(rest.len()) };
    let (mut payload, mut protocol, mut fragment) = (&rest[..end], header[6], None);
    let mut is_lost = false;
    let mut read = 0;
    while is_extension(protocol) {
        let Some((next, behind)) = extension(protocol, payload).filter(|_| read < EXTENSIONS_MAX) else {
            is_lost = true;
            break;
        };
        if protocol == FRAGMENT
            && let Some(header) = payload.first_chunk::<8>()
        {
            let offset = u16::from_be_bytes([header[2], header[3]]);
            // One that is the first and the last is no part of anything.
            if offset & 0xfff9 != 0 {
                fragment = Some(Fragment {
                    identification: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
                    protocol: next,
                    is_first: offset & 0xfff8 == 0,
                });
            }
        }
        (protocol, payload) = (next, behind);
        if fragment.is_some_and(|fragment| !fragment.is_first) {
            break;
        }
        read += 1;
    }
    let addresses = header.last_chunk::<32>().expect("32 of 40");
    Ok(datagram(addresses, protocol, payload, fragment, is_lost))
}

#[inline]
fn is_extension(protocol: u8) -> bool {
    // Nearly all packets are of these two.
    !matches!(protocol, 6 | 17)
        && matches!(
            protocol,
            HOP_BY_HOP
                | ROUTING
                | FRAGMENT
                | AUTHENTICATION
                | DESTINATION_OPTIONS
                | MOBILITY
                | HOST_IDENTITY
                | SHIM6
        )
}

/// What follows an extension header: its protocol and the bytes; `None` where they are not here.
fn extension(protocol: u8, data: &[u8]) -> Option<(u8, &[u8])> {
    let length = usize::from(*data.get(1)?);
    let bytes = match protocol {
        FRAGMENT => 8,
        AUTHENTICATION => (length + 2) * 4,
        _ => (length + 1) * 8,
    };
    Some((data[0], data.get(bytes..)?))
}

#[inline(always)]
fn datagram<'a, const ADDRESSES: usize>(
    addresses: &[u8; ADDRESSES],
    protocol: u8,
    payload: &'a [u8],
    fragment: Option<Fragment>,
    is_lost: bool,
) -> Datagram<'a> {
    let is_later = fragment.is_some_and(|fragment| !fragment.is_first);
    let payload = if is_later || is_lost { &[] } else { payload };
    let ports = if has_ports(protocol) { payload.first_chunk::<4>() } else { None };
    let lacks_ports = is_lost || is_later || ports.is_none() && has_ports(protocol);
    let flow = FlowKey::five_tuple(addresses, ports.copied().unwrap_or_default(), protocol);
    Datagram { flow, lacks_ports, fragment, payload, protocol }
}
