//! Whole numbers as differences, packed block by block (DELTA_BINARY_PACKED).
//!
//! ```text
//! numbers a block varint │ miniblocks a block varint │ numbers varint │ first zigzag
//! block: least difference zigzag │ width u8 of each miniblock │ miniblocks: differences beyond the least one, packed
//! ```
//! A miniblock is always whole; those behind the last number are left out.

use super::header::invalid;
use super::rle::{unpack, varint};
use std::io::{self, Read};

/// More miniblocks than any writer makes; they have a byte each.
const MINIBLOCKS_MAX: u64 = 1 << 12;

/// A decoder of such numbers.
#[derive(Debug)]
pub(super) struct Deltas {
    /// Numbers that were not returned yet.
    left: u64,
    miniblocks: usize,
    miniblock_numbers: u64,
    last: i64,
    is_first: bool,
    least: i64,
    widths: Vec<u8>,
    /// The miniblock at hand, and how many of its numbers were not unpacked yet.
    miniblock: usize,
    packed_left: u64,
    group: [u64; 8],
    group_at: usize,
}

impl Deltas {
    pub(super) fn open(read: &mut impl Read) -> io::Result<Self> {
        let (block, miniblocks) = (varint(read)?, varint(read)?);
        let (left, last) = (varint(read)?, zigzag(varint(read)?));
        let is_whole = (1..=MINIBLOCKS_MAX).contains(&miniblocks)
            && block % miniblocks == 0
            && (block / miniblocks).is_multiple_of(8)
            && block > 0;
        if !is_whole {
            return Err(invalid(format!("blocks of {block} differences in {miniblocks} parts")));
        }
        Ok(Self {
            left,
            miniblocks: miniblocks as usize,
            miniblock_numbers: block / miniblocks,
            last,
            is_first: true,
            least: 0,
            widths: Vec::new(),
            miniblock: miniblocks as usize,
            packed_left: 0,
            group: [0; 8],
            group_at: 8,
        })
    }

    /// How many numbers are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The next number.
    pub(super) fn next(&mut self, read: &mut impl Read) -> io::Result<i64> {
        self.left =
            self.left.checked_sub(1).ok_or_else(|| invalid("a page has fewer numbers than it claims"))?;
        if std::mem::take(&mut self.is_first) {
            return Ok(self.last);
        }
        if self.group_at == 8 {
            if self.packed_left == 0 {
                self.start_miniblock(read)?;
            }
            let width = u32::from(self.widths[self.miniblock]);
            let mut packed = [0; 64];
            let packed = &mut packed[..width as usize];
            read.read_exact(packed)?;
            unpack(packed, width, |at, number| self.group[at] = number);
            (self.group_at, self.packed_left) = (0, self.packed_left - 8);
        }
        let difference = self.least.wrapping_add(self.group[self.group_at] as i64);
        self.group_at += 1;
        self.last = self.last.wrapping_add(difference);
        Ok(self.last)
    }

    /// Goes to the end of the last miniblock: behind it is what follows the numbers.
    pub(super) fn finish(&mut self, read: &mut impl Read) -> io::Result<()> {
        let width = self.widths.get(self.miniblock).copied().unwrap_or(0);
        let rest = self.packed_left / 8 * u64::from(width);
        match io::copy(&mut read.by_ref().take(rest), &mut io::sink())? {
            passed if passed == rest => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn start_miniblock(&mut self, read: &mut impl Read) -> io::Result<()> {
        self.miniblock += 1;
        if self.miniblock >= self.miniblocks {
            self.least = zigzag(varint(read)?);
            self.widths.resize(self.miniblocks, 0);
            read.read_exact(&mut self.widths)?;
            self.miniblock = 0;
        }
        match self.widths[self.miniblock] {
            0..=64 => self.packed_left = self.miniblock_numbers,
            width => return Err(invalid(format!("differences of {width} bits"))),
        }
        Ok(())
    }
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
