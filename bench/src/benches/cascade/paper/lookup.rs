//! The slots of a level around one quotient: blocks are read as a look-up comes to them, nearly always one.

use super::level::Level;
use crate::Result;
use crate::three_bit::{Slots, get_slot};
use overbank::device::{AlignedBuf, BLOCK_BYTES};

/// Blocks on each side of the quotient's: 9,000 slots and more, where a cluster of a thousand is never seen.
const REACH_BLOCKS: u64 = 4;

const WINDOW_BLOCKS: usize = 2 * REACH_BLOCKS as usize + 1;

/// Room for the blocks of a look-up; one more than they are, for reading a slot may touch eight bytes.
pub(super) fn window() -> AlignedBuf {
    AlignedBuf::zeroed((WINDOW_BLOCKS + 1) * BLOCK_BYTES)
}

pub(super) struct BlockSlots<'a> {
    level: &'a Level,
    /// The file's block that `bytes` begins with, and which blocks have been read.
    first_block: u64,
    has: [bool; WINDOW_BLOCKS],
    bytes: &'a mut AlignedBuf,
}

impl<'a> BlockSlots<'a> {
    /// Reads into `bytes`, which is a [`window`].
    pub(super) fn new(level: &'a Level, quotient: u64, bytes: &'a mut AlignedBuf) -> Self {
        let block = quotient * u64::from(level.width()) / 8 / BLOCK_BYTES as u64;
        let first_block = block.saturating_sub(REACH_BLOCKS);
        Self { level, first_block, has: [false; WINDOW_BLOCKS], bytes }
    }

    fn need(&mut self, byte: u64) -> Result<()> {
        let block = byte / BLOCK_BYTES as u64;
        let place = block.checked_sub(self.first_block).map(|place| place as usize);
        match place.and_then(|place| Some((place, self.has.get_mut(place)?))) {
            Some((_, true)) => Ok(()),
            Some((place, has)) => {
                *has = true;
                self.level.read(block, &mut self.bytes[place * BLOCK_BYTES..][..BLOCK_BYTES])
            }
            None => Err("a cluster is longer than the window of a look-up".into()),
        }
    }
}

impl Slots for BlockSlots<'_> {
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn slot(&mut self, at: u64) -> Result<u64> {
        let width = self.level.width();
        let first_bit = at * u64::from(width);
        self.need(first_bit / 8)?;
        self.need((first_bit + u64::from(width) - 1) / 8)?;
        Ok(get_slot(self.bytes, self.first_block * BLOCK_BYTES as u64, width, at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::LevelWriter;
    use super::*;
    use crate::Random;
    use crate::three_bit::contains;

    #[test]
    fn a_look_up_reads_one_block_and_seldom_a_second() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (quotient_bits, remainder_bits) = (16, 11);
        let mut random = Random::new(3);
        let mut entries: Vec<u64> = (0..49_152).map(|_| random.next_u64() >> (64 - 27)).collect();
        entries.sort_unstable();
        let mut writer =
            LevelWriter::create(&folder.path().join("level"), quotient_bits, 27).expect("created");
        entries.iter().for_each(|&entry| writer.push(entry).expect("written"));
        let (level, mut bytes, mut reads) = (writer.finish().expect("written"), window(), 0);
        for i in 0..20_000 {
            let entry = if i % 2 == 0 { entries[i] } else { random.next_u64() >> (64 - 27) };
            let (quotient, remainder) = (entry >> remainder_bits, entry & 0x7ff);
            let mut slots = BlockSlots::new(&level, quotient, &mut bytes);
            let found = contains(&mut slots, quotient, remainder).expect("read");
            assert_eq!(found, entries.binary_search(&entry).is_ok());
            reads += slots.has.iter().filter(|&&has| has).count();
        }
        // Clusters of a few slots, in blocks of 2340.
        assert!((20_000..20_200).contains(&reads), "{reads} blocks");
    }
}
