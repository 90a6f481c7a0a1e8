//! The elevator Bloom filter: positions of bits wait in RAM, and go to flash in order of offset.
//!
//! ```text
//!   hash ─▶ 11 positions ─▶ one list a region of 2^32 bits ──one is full──▶ lists sorted; spans of the file read, set, written
//! ```
//!
//! Where it is unlike the paper's, it is faster: a position takes 4 bytes, the file goes past the page cache so that all RAM
//! is buffer, and blocks near each other are read and written as one span.

use super::filter::Filter;
use crate::{Result, bloom_positions, open_direct};
use keyhash::KeyHash;
use overbank::device::{AlignedBuf, BLOCK_BYTES};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bits of a block, and the most blocks of a span: 1 MiB.
const BLOCK_BITS: u64 = BLOCK_BYTES as u64 * 8;
const SPAN_BLOCKS: u64 = 256;

/// Untouched blocks inside a span: reading and writing 32 KiB in passing takes less than another request.
const GAP_BLOCKS: u64 = 8;

/// Bits of a region: what 4 bytes tell apart.
const REGION_BITS: u64 = 1 << 32;

pub(super) struct Elevator {
    file: File,
    bits: u64,
    /// A list for each region; a list never grows past the capacity it begins with.
    waiting: Vec<Vec<u32>>,
    span: AlignedBuf,
}

impl Elevator {
    /// The filter that is all of `file`, whole blocks long, with `buffer_bytes` of positions.
    pub(super) fn open(file: &Path, buffer_bytes: usize) -> Result<Self> {
        let file = open_direct(file, OpenOptions::new().read(true).write(true))?;
        let bits = file.metadata()?.len() * 8;
        let positions = (buffer_bytes / size_of::<u32>()) as f64;
        let list = |region: u64| {
            let share = (bits - region * REGION_BITS).min(REGION_BITS) as f64 / bits as f64;
            Vec::with_capacity((positions * share).max(1.0) as usize)
        };
        let waiting = (0..bits.div_ceil(REGION_BITS)).map(list).collect();
        Ok(Self { file, bits, waiting, span: AlignedBuf::zeroed(SPAN_BLOCKS as usize * BLOCK_BYTES) })
    }

    /// One way over the file.
    fn sweep(&mut self) -> Result<()> {
        for region in 0..self.waiting.len() {
            let mut list = std::mem::take(&mut self.waiting[region]);
            list.sort_unstable();
            let mut rest = &list[..];
            while !rest.is_empty() {
                let (span, after) = rest.split_at(span_len(rest));
                self.set(region as u64, span)?;
                rest = after;
            }
            list.clear();
            self.waiting[region] = list;
        }
        Ok(())
    }

    /// Sets bits that are in ascending order and lie in one span.
    fn set(&mut self, region: u64, positions: &[u32]) -> Result<()> {
        let block = |position: u32| u64::from(position) / BLOCK_BITS;
        let (first, last) = (block(positions[0]), block(positions[positions.len() - 1]));
        let bytes = &mut self.span[..(last - first + 1) as usize * BLOCK_BYTES];
        let offset = (region * REGION_BITS / BLOCK_BITS + first) * BLOCK_BYTES as u64;
        self.file.read_exact_at(bytes, offset)?;
        for &position in positions {
            let bit = u64::from(position) - first * BLOCK_BITS;
            bytes[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        Ok(self.file.write_all_at(bytes, offset)?)
    }

    /// Whether one key's bits are set on flash.
    fn has(&mut self, hash: KeyHash) -> Result<bool> {
        for position in bloom_positions(hash, self.bits) {
            let block = &mut self.span[..BLOCK_BYTES];
            self.file.read_exact_at(block, position / BLOCK_BITS * BLOCK_BYTES as u64)?;
            let bit = position % BLOCK_BITS;
            if block[(bit / 8) as usize] >> (bit % 8) & 1 == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// How many of these positions, which are in ascending order, go into the span that starts with the first.
fn span_len(positions: &[u32]) -> usize {
    let first = u64::from(positions[0]) / BLOCK_BITS;
    let mut last = first;
    let mut fits = |&position: &u32| {
        let block = u64::from(position) / BLOCK_BITS;
        let is_near = block - last <= GAP_BLOCKS + 1 && block - first < SPAN_BLOCKS;
        last = block;
        is_near
    };
    positions.iter().take_while(|position| fits(position)).count()
}

impl Filter for Elevator {
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        for &hash in hashes {
            for position in bloom_positions(hash, self.bits) {
                let region = (position / REGION_BITS) as usize;
                if self.waiting[region].len() == self.waiting[region].capacity() {
                    self.sweep()?;
                }
                self.waiting[region].push((position % REGION_BITS) as u32);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.sweep()?;
        Ok(self.file.sync_data()?)
    }

    /// Of what has reached flash: asked after [`Filter::finish`].
    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        hashes.iter().map(|&hash| self.has(hash)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;
    use crate::{bloom_bytes, bloom_insert, write_zeros};

    /// The same bytes as without a buffer, whatever the buffer's size, and so whether spans are dense or single blocks.
    #[test]
    fn the_file_is_that_of_a_filter_without_a_buffer() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = bloom_bytes(2_000, 1e-30, 4096).expect("small");
        let hashes = Keys::new(2_000).first(2_000);
        let mut expected = vec![0; bytes];
        hashes.iter().for_each(|&hash| bloom_insert(&mut expected, hash));
        for buffer_bytes in [1, 4_000, 20_000, 1 << 20] {
            let file = folder.path().join(buffer_bytes.to_string());
            write_zeros(&file, bytes as u64).expect("written");
            let mut filter = Elevator::open(&file, buffer_bytes).expect("opened");
            // A sweep for each position takes its time.
            let count = if buffer_bytes == 1 { 100 } else { hashes.len() };
            filter.insert(&hashes[..count]).expect("inserted");
            filter.finish().expect("synced");
            assert!(filter.contains(&hashes[..100]).expect("read").iter().all(|&found| found));
            if count == hashes.len() {
                assert!(std::fs::read(&file).expect("read") == expected, "{buffer_bytes}");
            }
        }
    }

    #[test]
    fn a_span_ends_at_a_gap_and_at_its_length() {
        let at = |block: u64| (block * BLOCK_BITS) as u32;
        assert_eq!(span_len(&[at(5), at(5) + 1, at(5 + GAP_BLOCKS + 1), at(7 + 2 * (GAP_BLOCKS + 1))]), 3);
        let dense: Vec<u32> = (0..1000).map(at).collect();
        assert_eq!(span_len(&dense), SPAN_BLOCKS as usize);
    }
}
