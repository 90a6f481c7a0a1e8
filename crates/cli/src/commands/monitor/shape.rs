//! How large the sketches are, and what they hold of the memory: decided by the memory alone, so that answers depend on nothing else.
//!
//! ```text
//!   unit = memory / 4096, down to a power of two            of 64 MiB: 16,384
//!
//!   flows      3 rows of unit counters, and unit / 16 flows by name
//!   distinct   unit registers
//!   spreaders  3 rows of unit / 8 cells of 16 registers, and unit / 32 sources by name
//!   sums       14 levels of 5 rows of unit / 64 counters, and unit / 128 flows by name each
//!   lengths    1,120 bins
//!
//!   a counter  2 bytes a thread, and 16 once one has outgrown its byte, which registers never do; 24 or 32 for all
//! ```

use crate::failure::Failure;
use crate::report::{SIZE_ERROR, SKETCHES};
use crate::units;
use overbank::monitor::{
    DistinctFlows, FlowSizes, FlowSums, Key, KeyBytes, Monitored, Quantiles, Rule, Spreaders,
};
use overbank::{HashKind, KeyHasher, Seed};

/// A flow's key, of either family, and a source's address.
pub(super) type FlowBytes = KeyBytes<37>;
pub(super) type AddressBytes = KeyBytes<16>;
/// The sketches of flows, of sources, and of sums over flows.
pub(super) type Flows = FlowSizes<FlowBytes, 3>;
pub(super) type Sources = Spreaders<AddressBytes, 3>;
pub(super) type Sums = FlowSums<FlowBytes, 5>;

/// The longest ring, in messages by their logarithm; where less is counted, the shortest.
const LG_RING_MAX: u32 = 10;
const LG_RING_MIN: u32 = 7;
/// Parts of the memory that are a unit.
const UNITS: u64 = 4096;
/// Less has no room for sketches that say anything.
const MEMORY_MIN: u64 = 16 << 20;
/// More counters than this a message cannot name.
const UNIT_MAX: u64 = 1 << 21;
/// And no more cells of spreaders in a row.
const SPREADER_COLUMNS_MAX: u64 = 1 << 17;
/// Bytes of a capture that a chunk holds at most.
const CHUNK_BYTES_MAX: u64 = 128 << 10;
/// The most captured bytes of a packet, if the memory is large: what libpcap takes.
const PACKET_BYTES_MAX: u64 = 256 << 10;
/// The bytes of the shortest packet of a capture, its own header included.
const PACKET_BYTES_MIN: u64 = 30;
/// What a decompressor may need, which is part of the memory.
const DECODER_SHARE: u64 = 8;
/// Counters that a thread remembers to send when its ring was full.
const OWED: u64 = 512;

/// The sizes that a memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) memory_bytes: u64,
    unit: u64,
}

/// The shapes of the sketches.
pub(super) struct Shapes {
    pub(super) flows: Flows,
    pub(super) distinct: DistinctFlows,
    pub(super) spreaders: Sources,
    pub(super) sums: Sums,
    pub(super) lengths: Quantiles,
}

/// What is kept of a sketch beside its counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Keys by name, of each group.
    pub(super) keys: usize,
    /// Epochs that are over and still asked: the one that is reported, and of flows the one that it is compared with.
    pub(super) epochs: usize,
    /// A thread's messages that wait, by their logarithm.
    pub(super) lg_ring: u32,
}

impl Shape {
    /// The sizes for this memory and so many threads.
    pub(super) fn new(memory_bytes: u64, threads: usize) -> Result<Self, Failure> {
        let least = |bytes: u64| units::bytes(bytes.next_multiple_of(1 << 20));
        if memory_bytes < MEMORY_MIN {
            return Err(Failure::Usage(format!(
                "--memory {} is too little for sketches of flows; give at least {}",
                units::bytes(memory_bytes),
                least(MEMORY_MIN)
            )));
        }
        let unit = (1 << (memory_bytes / UNITS).ilog2()).min(UNIT_MAX);
        let shape = Self { memory_bytes, unit };
        let held = shape.held_bytes(threads)?;
        if held > memory_bytes {
            return Err(Failure::Usage(format!(
                "{} take {} with the sketches that --memory {} stands for; give fewer --threads, or another --memory",
                units::counted(threads as u64, "thread"),
                units::bytes(held),
                units::bytes(memory_bytes),
            )));
        }
        Ok(shape)
    }

    /// The most that everything holds together.
    fn held_bytes(&self, threads: usize) -> Result<u64, Failure> {
        // Sizes do not depend on the hash.
        let shapes = self.shapes(&KeyHasher::new(HashKind::Xxh3, Seed(0)))?;
        let [flows, distinct, spreaders, sums, lengths] = self.kept();
        let threads = threads as u64;
        let sketches = [
            held(&shapes.flows, flows, threads),
            held(&shapes.distinct, distinct, threads),
            held(&shapes.spreaders, spreaders, threads),
            held(&shapes.sums, sums, threads),
            held(&shapes.lengths, lengths, threads),
        ];
        // What a report reads of them, each counter a word twice, and each key with its slot.
        let cells =
            shapes.flows.cells() + shapes.distinct.cells() + shapes.sums.cells() + shapes.lengths.cells();
        let keys = flows.keys + spreaders.keys + sums.keys * shapes.sums.groups();
        let report = (16 * cells + 8 * shapes.spreaders.cells() + 256 * keys) as u64;
        Ok(sketches.iter().sum::<u64>() + report + self.read_bytes(threads))
    }

    /// What reading captures takes of it.
    fn read_bytes(&self, threads: u64) -> u64 {
        let packets = self.chunk_bytes() as u64 / PACKET_BYTES_MIN;
        let chunk = self.packet_bytes_max() as u64 + packets * 24;
        let batch = packets * 56;
        chunk * (threads + 2) + batch * threads + self.memory_bytes / DECODER_SHARE
    }

    /// What the rings of an interface have instead, with what is left of the memory: the kernel's blocks are mapped, and so count.
    pub(super) fn ring_bytes(&self, threads: usize) -> Result<usize, Failure> {
        let free = self.memory_bytes.saturating_sub(self.held_bytes(threads)?);
        Ok(usize::try_from(free + self.read_bytes(threads as u64)).unwrap_or(usize::MAX))
    }

    /// The sketches.
    pub(super) fn shapes(&self, hasher: &KeyHasher) -> overbank::Result<Shapes> {
        Ok(Shapes {
            flows: FlowSizes::new(self.columns())?,
            distinct: DistinctFlows::new(self.unit.ilog2().min(18), hasher)?,
            spreaders: Spreaders::new((self.unit / 8).min(SPREADER_COLUMNS_MAX) as u32, hasher)?,
            sums: FlowSums::new(self.levels(), (self.unit / 32) as u32, hasher)?,
            lengths: Quantiles::within(SIZE_ERROR, 1.0, f64::from(u32::MAX))?,
        })
    }

    /// What is kept of each, in the order of their names.
    pub(super) fn kept(&self) -> [Kept; SKETCHES.len()] {
        let lg_ring = self.unit.ilog2().saturating_sub(5).clamp(LG_RING_MIN, LG_RING_MAX);
        let short = |keys: u64| Kept { keys: keys as usize, epochs: 1, lg_ring: LG_RING_MIN };
        let flows = Kept { keys: self.heavy_keys(), epochs: 2, lg_ring };
        // A quarter of the columns: of more keys, those that collisions made heavy are too many.
        let sums = Kept { keys: (self.unit / 128) as usize, epochs: 1, lg_ring };
        [flows, short(1), short(self.unit / 32), sums, short(1)]
    }

    /// Bytes of a capture that a chunk holds.
    pub(super) fn chunk_bytes(&self) -> usize {
        (self.memory_bytes / 1024).min(CHUNK_BYTES_MAX) as usize
    }

    /// The most captured bytes that a packet may have.
    pub(super) fn packet_bytes_max(&self) -> usize {
        (self.memory_bytes / 256).min(PACKET_BYTES_MAX) as usize
    }

    /// Counters of a row of flow sizes.
    pub(super) fn columns(&self) -> u32 {
        self.unit as u32
    }

    /// How many flows are known by name.
    pub(super) fn heavy_keys(&self) -> usize {
        (self.unit / 16) as usize
    }

    /// Levels of sums: of `unit² / 512` flows, half a million by default, the last one has as many as it has keys.
    fn levels(&self) -> u32 {
        self.unit.ilog2() - 1
    }

    /// The largest window that a compressed capture may ask for.
    pub(super) fn window_bytes_max(&self) -> usize {
        usize::try_from(self.memory_bytes / DECODER_SHARE).unwrap_or(usize::MAX)
    }

    /// The least memory whose sketches have this unit.
    pub(super) fn memory_of(unit: u64) -> u64 {
        unit.saturating_mul(UNITS)
    }

    /// A memory that has room for a window of so many bytes.
    pub(super) fn memory_for_window(bytes: u64) -> u64 {
        bytes.saturating_mul(DECODER_SHARE).next_multiple_of(1 << 20)
    }
}

/// The most that a sketch on the framework holds.
fn held<S: Monitored>(sketch: &S, kept: Kept, threads: u64) -> u64 {
    let words = |words: u64| words * 8;
    let (cells, key) = (sketch.cells() as u64, <S::Key as Key>::WORDS as u64);
    let keys = if S::SHOWS_KEYS { (kept.keys * sketch.groups()) as u64 } else { 0 };
    // Of ranks, a bit says which are to be sent.
    let counters = cells * if <S::Rule as Rule>::CLEARS { 2 + 16 } else { 3 };
    let owed = OWED * words(key + 4);
    let ring = words(1 + key) << kept.lg_ring;
    let gathered = cells * (16 + 8 * kept.epochs as u64);
    // Two boards and one an epoch; of each half the keys with their places, in vectors that may be half empty.
    let boards = keys * words(1 + key) * (2 + kept.epochs as u64);
    let heavy = 4 * keys * words(key + 6);
    (counters + owed + ring) * threads + gathered + boards + heavy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_fits_the_memory() {
        for memory in [16 << 20, 17 << 20, 64 << 20, 100 << 20, 1 << 30, 8 << 30] {
            for threads in [1, 2, 8, 16] {
                let shape = Shape::new(memory, threads).expect("16 threads have room in any memory");
                let alone = Shape::new(memory, 1).expect("one has, too");
                assert_eq!(shape, alone, "answers do not depend on the number of threads");
            }
        }
        let refused = Shape::new(16 << 20, 128).expect_err("128 threads do not fit into 16 MiB").to_string();
        assert!(
            refused.contains("128 threads") && refused.contains("--threads") && refused.contains("16.0 MiB"),
            "{refused}"
        );
        assert!(Shape::new(1 << 20, 1).expect_err("too little").to_string().contains("at least 16.0 MiB"));
        assert_eq!(Shape::new(64 << 20, 1).expect("the default").columns(), 16_384);
    }
}
