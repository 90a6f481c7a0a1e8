//! What a thread counts by itself, exactly: packets, what became of them, and how long they are at the ends.

use crate::arguments::Measure;
use overbank_ingest::capture::PacketCounts;

/// Exact counts of an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) packets: PacketCounts,
    /// Those of the packets that have a flow, and their bytes.
    pub(super) counted: u64,
    pub(super) counted_bytes: u64,
    /// The bytes of the shortest and of the longest of them.
    pub(super) ends: Option<(u32, u32)>,
}

impl Tally {
    /// Counts a packet that has a flow.
    #[inline]
    pub(super) fn count(&mut self, wire_bytes: u32) {
        self.counted += 1;
        self.counted_bytes += u64::from(wire_bytes);
        self.stretch((wire_bytes, wire_bytes));
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.packets.add(&other.packets);
        self.counted += other.counted;
        self.counted_bytes += other.counted_bytes;
        other.ends.into_iter().for_each(|ends| self.stretch(ends));
    }

    /// The least and the greatest weight that a packet has; 1 where there is none.
    pub(super) fn weights(&self, by: Measure) -> (u64, u64) {
        match (by, self.ends) {
            (Measure::Bytes, Some((shortest, longest))) => (shortest.into(), longest.into()),
            _ => (1, 1),
        }
    }

    fn stretch(&mut self, (shortest, longest): (u32, u32)) {
        let (least, most) = self.ends.unwrap_or((shortest, longest));
        self.ends = Some((least.min(shortest), most.max(longest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_counted_adds_up() {
        let [mut one, mut other, none] = [Tally::default(); 3];
        [60, 1500, 40].into_iter().for_each(|bytes| one.count(bytes));
        other.count(9000);
        one.add(&other);
        one.add(&none);
        assert_eq!((one.counted, one.counted_bytes, one.ends), (4, 10_600, Some((40, 9000))));
        assert_eq!((one.weights(Measure::Bytes), one.weights(Measure::Packets)), ((40, 9000), (1, 1)));
        assert_eq!((none.ends, none.weights(Measure::Bytes)), (None, (1, 1)));
    }
}
