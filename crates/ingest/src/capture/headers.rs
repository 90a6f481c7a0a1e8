//! From a packet to its flow: link, tags, IP, ports, and the tunnels between where they are asked for.

use super::flow::FlowKey;
use super::ip::{self, Datagram};
use super::link::{self, Layer, LinkType, Miss};
use super::tunnel;

/// Tunnels within tunnels that are read.
const TUNNELS_MAX: usize = 4;

/// The flow of a packet.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) flow: FlowKey,
    /// Whether ports that the flow should have are 0 because they are not here.
    pub(super) lacks_ports: bool,
    /// The outermost fragment that the packet is or carries.
    pub(super) fragment: Option<FragmentId>,
}

/// What the fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentId {
    /// The addresses, and the protocol as each fragment says it; no ports.
    pub(super) between: FlowKey,
    pub(super) identification: u32,
    pub(super) is_first: bool,
}

/// The flow of `packet`; with `tunnels`, that of the innermost packet that can be read.
#[inline(always)]
pub(super) fn locate(link: LinkType, packet: &[u8], tunnels: bool) -> Result<Located, Miss> {
    let (layer, data) = link.enter(packet)?;
    let outer = datagram(layer, data)?;
    let fragment = fragment_of(&outer);
    if !tunnels {
        return Ok(Located { flow: outer.flow, lacks_ports: outer.lacks_ports, fragment });
    }
    Ok(innermost(outer, fragment))
}

#[inline(always)]
fn datagram(layer: Layer, data: &[u8]) -> Result<Datagram<'_>, Miss> {
    ip::read(link::network(layer, data)?)
}

#[inline]
fn fragment_of(datagram: &Datagram<'_>) -> Option<FragmentId> {
    let fragment = datagram.fragment?;
    Some(FragmentId {
        between: datagram.flow.without_ports(fragment.protocol),
        identification: fragment.identification,
        is_first: fragment.is_first,
    })
}

fn innermost(mut datagram_at: Datagram<'_>, mut fragment: Option<FragmentId>) -> Located {
    for _ in 0..TUNNELS_MAX {
        let Some((layer, data)) = tunnel::inner(datagram_at.protocol, datagram_at.payload) else { break };
        let Ok(within) = datagram(layer, data) else { break };
        fragment = fragment.or_else(|| fragment_of(&within));
        datagram_at = within;
    }
    Located { flow: datagram_at.flow, lacks_ports: datagram_at.lacks_ports, fragment }
}
