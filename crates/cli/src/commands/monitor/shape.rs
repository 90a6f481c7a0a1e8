//! How large the sketches are, and what they hold of the memory: decided by the memory alone, so that answers depend on nothing else.
//!
//! ```text
//!   unit = memory / 4096, down to a power of two            of 64 MiB: 16,384
//!
//!   flows      3 rows of unit counters     18 bytes each a thread, 32 for all: a quarter of the memory for 16 threads
//!   heavy      unit / 16 flows by name
//!   distinct   unit registers              2 bytes each a thread, 32 for all
//!   spreaders  3 rows of unit / 4 cells    8 bytes each a thread
//!   entropy    14 levels of 5 rows of unit / 32 cells, and unit / 128 flows each
//! ```

use super::name::Name;
use crate::failure::Failure;
use crate::report::SIZE_ERROR;
use crate::units;
use overbank::sketch::{DdSketch, Locher, UnivMon};
use overbank::{KeyHasher, monitor};

/// Rows of the sketch of flow sizes.
const DEPTH: usize = 3;
/// The sketch of flow sizes.
pub(super) type Sizes = monitor::FlowSizes<Name, DEPTH>;
/// Sources of which spreaders are kept have addresses of so many bytes at most.
const ADDRESS_BYTES: usize = 16;
/// Messages of a thread that wait for the aggregator.
pub(super) const LG_RING: u32 = 10;
/// Epochs that are over and still asked: the one that is reported, and the one that it is compared with.
pub(super) const EPOCHS_KEPT: usize = 2;
/// Parts of the memory that are a unit.
const UNITS: u64 = 4096;
/// Less has no room for sketches that say anything.
const MEMORY_MIN: u64 = 16 << 20;
/// More counters than this a message cannot name.
const UNIT_MAX: u64 = 1 << 21;
const LEVELS: u32 = 14;
/// Flows that the entropy's sketch keeps have keys of so many bytes at most.
const KEY_BYTES: usize = 37;
/// Bytes of a capture that a chunk holds at most.
const CHUNK_BYTES_MAX: u64 = 128 << 10;
/// The most captured bytes of a packet, if the memory is large: what libpcap takes.
const PACKET_BYTES_MAX: u64 = 256 << 10;
/// The bytes of the shortest packet of a capture, its own header included.
const PACKET_BYTES_MIN: u64 = 30;
/// What a decompressor may need, which is part of the memory.
const DECODER_SHARE: u64 = 8;

/// The sizes that a memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) memory_bytes: u64,
    unit: u64,
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
        let held = shape.held_bytes(threads);
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
    fn held_bytes(&self, threads: usize) -> u64 {
        let threads = threads as u64;
        let cells = |cells: u64, each: u64| cells * (each * threads + 32);
        let heavy = self.heavy_keys() as u64 * 6 * 128;
        let ring = threads * (1 << LG_RING) * 64;
        let local = self.local_bytes();
        let packets = self.chunk_bytes() as u64 / PACKET_BYTES_MIN;
        let chunk = self.packet_bytes_max() as u64 + packets * 24;
        let batch = packets * 56;
        cells(DEPTH as u64 * self.unit, 18)
            + cells(1 << self.lg_registers(), 2)
            + heavy
            + ring
            // Each thread has one; there is the epoch's that ends, the one that is begun, and a report's.
            + local * (threads + 3)
            + chunk * (threads + 2)
            + batch * threads
            + self.memory_bytes / DECODER_SHARE
    }

    /// What a thread's own sketches hold.
    fn local_bytes(&self) -> u64 {
        let spreaders = u64::from(self.spreader_columns()) * 3 * 8 + self.sources() as u64 * 128;
        let level = u64::from(self.level_columns()) * 5 * 8 + self.level_keys() as u64 * 128;
        spreaders + level * u64::from(LEVELS) + (64 << 10)
    }

    /// Bytes of a capture that a chunk holds.
    pub(super) fn chunk_bytes(&self) -> usize {
        (self.memory_bytes / 512).min(CHUNK_BYTES_MAX) as usize
    }

    /// The most captured bytes that a packet may have.
    pub(super) fn packet_bytes_max(&self) -> usize {
        (self.memory_bytes / 128).min(PACKET_BYTES_MAX) as usize
    }

    /// Counters of a row of flow sizes.
    pub(super) fn columns(&self) -> u32 {
        self.unit as u32
    }

    /// How many flows are known by name.
    pub(super) fn heavy_keys(&self) -> usize {
        (self.unit / 16) as usize
    }

    /// log₂ of the registers of distinct flows.
    pub(super) fn lg_registers(&self) -> u32 {
        self.unit.ilog2().min(18)
    }

    fn spreader_columns(&self) -> u32 {
        (self.unit / 4) as u32
    }

    fn sources(&self) -> usize {
        (self.unit / 32) as usize
    }

    fn level_columns(&self) -> u32 {
        (self.unit / 32) as u32
    }

    fn level_keys(&self) -> usize {
        (self.unit / 128) as usize
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

    pub(super) fn flows(&self) -> overbank::Result<Sizes> {
        monitor::FlowSizes::new(self.columns())
    }

    pub(super) fn spreaders(&self, hasher: &KeyHasher) -> overbank::Result<Locher> {
        Locher::new(self.spreader_columns(), 3, self.sources(), ADDRESS_BYTES, hasher)
    }

    pub(super) fn entropy(&self, hasher: &KeyHasher) -> overbank::Result<UnivMon> {
        UnivMon::new(LEVELS, self.level_columns(), 5, self.level_keys(), KEY_BYTES, hasher)
    }

    pub(super) fn packet_sizes(&self) -> overbank::Result<DdSketch> {
        DdSketch::new(SIZE_ERROR)
    }
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

    #[test]
    fn the_sketches_hold_no_more_than_was_counted() {
        let hasher = KeyHasher::new(overbank::HashKind::Xxh3, overbank::Seed(1));
        for memory in [16 << 20, 64 << 20, 1 << 30] {
            let shape = Shape::new(memory, 1).expect("one thread fits");
            let spreaders = shape.spreaders(&hasher).expect("a shape").memory_bytes();
            let entropy = shape.entropy(&hasher).expect("a shape").memory_bytes();
            assert!(
                (spreaders + entropy) as u64 <= shape.local_bytes(),
                "{spreaders} and {entropy} of {}",
                shape.local_bytes()
            );
        }
    }
}
