//! The flows of fragments: only the first of a datagram has the ports.

use super::flow::{FlowKey, KEY_BYTES_MAX};
use super::flows::FlowBatch;
use super::headers::FragmentId;
use keyhash::{HashKind, KeyHasher, Seed};

/// Fragments of a datagram come together; what comes later has, by then, an identification that is used again (RFC 791, RFC 8200: no
/// more than 60 seconds; Linux gives up after 30).
const LIFE_NS: u64 = 30_000_000_000;
const WAYS: usize = 4;
/// Of the first fragment of so many datagrams the flow is remembered, by default.
const DATAGRAMS: usize = 4096;

/// Remembers the flows of datagrams that come in fragments: those behind the first get its flow, ports and all.
///
/// A fragment that comes before the first of its datagram, 30 seconds off it, or after so many other datagrams that the first one is
/// forgotten, keeps ports 0. Batches are to be given in the order of their packets; the answer then depends on nothing else.
///
/// # Cost
/// Nothing for packets that are whole, a probe of one set of four for fragments. 100 bytes a datagram remembered; 4096 by default.
#[derive(Clone, Debug)]
pub struct Fragments {
    hasher: KeyHasher,
    /// Sets of `WAYS`.
    slots: Vec<Option<Remembered>>,
}

#[derive(Clone, Debug)]
struct Remembered {
    datagram: FragmentId,
    flow: FlowKey,
    time_ns: u64,
}

impl Default for Fragments {
    fn default() -> Self {
        Self::new(DATAGRAMS)
    }
}

impl Fragments {
    /// For so many datagrams at once, at least 4.
    pub fn new(datagrams: usize) -> Self {
        // Whoever makes fragments share a set has them forget one another's ports, and nothing else: the seed need not be secret.
        let hasher = KeyHasher::new(HashKind::Xxh3, Seed(0));
        Self { hasher, slots: vec![None; datagrams.max(WAYS).next_multiple_of(WAYS)] }
    }

    /// Gives the later fragments in `batch` the flows of their first ones.
    pub fn resolve(&mut self, batch: &mut FlowBatch) {
        for at in 0..batch.fragments.len() {
            let fragment = &mut batch.fragments[at];
            let (row, time_ns) = (fragment.row, batch.rows[fragment.row].time_ns);
            if fragment.fragment.is_first {
                if !fragment.lacks_ports {
                    self.remember(fragment.fragment, batch.rows[row].key, time_ns);
                }
            } else if let Some(flow) = self.recall(&fragment.fragment, time_ns)
                && fragment.lacks_ports
            {
                batch.rows[row].key = flow;
                fragment.lacks_ports = false;
                batch.counts.without_ports -= 1;
            }
        }
    }

    fn remember(&mut self, first: FragmentId, flow: FlowKey, time_ns: u64) {
        let set = self.set(&first);
        // Its own slot, if it is sent twice; else a free one, or that of the oldest.
        let slot = set.iter_mut().min_by_key(|slot| match slot {
            Some(slot) if slot.datagram == first => (0, 0),
            None => (1, 0),
            Some(slot) => (2, slot.time_ns),
        });
        if let Some(slot) = slot {
            *slot = Some(Remembered { datagram: first, flow, time_ns });
        }
    }

    fn recall(&mut self, later: &FragmentId, time_ns: u64) -> Option<FlowKey> {
        let first = FragmentId { is_first: true, ..*later };
        let set = self.set(&first);
        let found = set.iter().flatten().find(|slot| slot.datagram == first)?;
        (found.time_ns.abs_diff(time_ns) <= LIFE_NS).then_some(found.flow)
    }

    fn set(&mut self, first: &FragmentId) -> &mut [Option<Remembered>] {
        let mut bytes = [0; KEY_BYTES_MAX + 4];
        let (identification, between) = bytes.split_at_mut(4);
        identification.copy_from_slice(&first.identification.to_le_bytes());
        between[..first.between.as_bytes().len()].copy_from_slice(first.between.as_bytes());
        let sets = self.slots.len() / WAYS;
        let set = (self.hasher.hash(&bytes).fold() % sets as u64) as usize;
        &mut self.slots[set * WAYS..][..WAYS]
    }
}
