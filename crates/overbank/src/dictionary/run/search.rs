//! Looks a key up without the index: by where its hash stands in the range of hashes, as in a sorted array.
//!
//! ```text
//!   hashes   first ────────── hash ───────────── last      the page where it should be is read; if it is before or behind, the rest of
//!   pages    ▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭      the range on its side is searched in the same way
//! ```
//!
//! | a run of n pages | block reads |
//! |---|---|
//! | hashes are random | some lg lg n, and one more for a page of several blocks |
//! | whatever they are | at most 3 lg n, and as many more: every third guess is the middle |
//!
//! Source: Perl, Itai, Avni, Interpolation Search: a Log Log N Search (1978).

use super::super::item::Value;
use super::super::page::Page;
use super::reader::RunSegment;
use crate::device::{AlignedBuf, BLOCK_BYTES};
use crate::error::corrupt;
use crate::{Error, KeyHash, Result};
use std::ops::Range;

/// What is left to search.
struct Rest {
    blocks: Range<u64>,
    /// The hashes that these blocks may have.
    first: u64,
    last: u64,
    guesses: u32,
}

impl RunSegment {
    /// Calls `done` with what the run says of a key, whose hash is `hash`, without the index's help.
    ///
    /// # Cost
    /// See the module.
    ///
    /// # Errors
    /// `Corrupt`; what the device says, or `done` fails with.
    pub(crate) fn search(
        &self,
        hash: KeyHash,
        key: &[u8],
        done: &mut dyn FnMut(Option<Value<'_>>) -> Result<()>,
    ) -> Result<()> {
        let seen = self.hashes();
        let (first, last) = self.file.segment.hash_range().unwrap_or((1, 0));
        let mut rest = Rest { blocks: 0..self.written_blocks(), first, last, guesses: 0 };
        let (mut joined, mut unpacked) = (Vec::new(), Vec::new());
        while seen.contains(&hash.high()) && !rest.blocks.is_empty() {
            let guess = rest.guess(hash.high());
            let (blocks, bytes) = self.read_around(guess)?;
            if blocks.start < rest.blocks.start || blocks.end > rest.blocks.end {
                let at = guess * BLOCK_BYTES as u64;
                let (expected, found) = (format!("in {:?}", rest.blocks), format!("{blocks:?}"));
                return Err(corrupt(self.path(), at, "the blocks of a page", expected, found));
            }
            let in_page = |error: Error| self.file.in_page(error, blocks.start);
            let body = self.file.segment.page_of(blocks.clone(), &bytes, &mut joined)?;
            let page =
                self.file.unpacker.unpack(body, &mut unpacked).and_then(|unpacked| Page::of(unpacked.page));
            let page = page.map_err(in_page)?;
            let (low, high) = page.ends(self.file.hasher).map_err(in_page)?;
            if hash < low {
                (rest.blocks.end, rest.last) = (blocks.start, low.high());
            } else if hash > high {
                (rest.blocks.start, rest.first) = (blocks.end, high.high());
            } else {
                return done(page.find(hash, key).map_err(in_page)?);
            }
        }
        done(None)
    }

    /// The page that a block is of.
    fn read_around(&self, block: u64) -> Result<(Range<u64>, AlignedBuf)> {
        let segment = &self.file.segment;
        let (file, at) = segment.place_of(block);
        let mut bytes = AlignedBuf::zeroed(BLOCK_BYTES);
        file.read(at * BLOCK_BYTES as u64, &mut bytes)?;
        let blocks = segment.page_around(block, &bytes)?;
        if blocks.end - blocks.start > 1 {
            bytes = AlignedBuf::zeroed((blocks.end - blocks.start) as usize * BLOCK_BYTES);
            file.read(blocks.start * BLOCK_BYTES as u64, &mut bytes)?;
        }
        Ok((blocks, bytes))
    }
}

impl Rest {
    /// A block of the rest, some at least: where the hash should be or, every third time, the middle.
    fn guess(&mut self, hash: u64) -> u64 {
        self.guesses += 1;
        let blocks = self.blocks.end - self.blocks.start;
        if self.guesses.is_multiple_of(3) || self.first >= self.last {
            return self.blocks.start + blocks / 2;
        }
        let place = hash.clamp(self.first, self.last) - self.first;
        let scaled = u128::from(place) * u128::from(blocks) / u128::from(self.last - self.first);
        self.blocks.start + (scaled as u64).min(blocks - 1)
    }
}
