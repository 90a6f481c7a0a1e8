//! What a thread counts by itself, in sketches that merge: spreaders, entropy, packet sizes, and what became of packets.
//!
//! Merged, spreaders and packet sizes are those of one sketch of all packets, whoever counted which. Of the entropy's sketch the counters
//! are, too; which flows it keeps apart depends a little on who counted what.

use super::shape::Shape;
use overbank::KeyHasher;
use overbank::sketch::{DdSketch, Locher, UnivMon};
use overbank_ingest::capture::PacketCounts;

/// A thread's own sketches, of one epoch.
#[derive(Clone)]
pub(super) struct Local {
    pub(super) spreaders: Locher,
    pub(super) entropy: UnivMon,
    pub(super) packet_sizes: DdSketch,
    pub(super) packets: PacketCounts,
    /// Those of the packets that have a flow, and their bytes.
    pub(super) counted: u64,
    pub(super) counted_bytes: u64,
}

impl Local {
    /// Nothing counted yet.
    pub(super) fn new(shape: &Shape, hasher: &KeyHasher) -> overbank::Result<Self> {
        Ok(Self {
            spreaders: shape.spreaders(hasher)?,
            entropy: shape.entropy(hasher)?,
            packet_sizes: shape.packet_sizes()?,
            packets: PacketCounts::default(),
            counted: 0,
            counted_bytes: 0,
        })
    }

    /// Adds what another thread counted.
    pub(super) fn merge(&mut self, other: &Self) -> overbank::Result<()> {
        self.spreaders.merge(&other.spreaders)?;
        self.entropy.merge(&other.entropy)?;
        self.packet_sizes.merge(&other.packet_sizes)?;
        self.packets.add(&other.packets);
        self.counted += other.counted;
        self.counted_bytes += other.counted_bytes;
        Ok(())
    }
}
