//! A level on flash: the slots of a quotient filter in a file, written and read from front to back.
//!
//! ```text
//!   file    slots back to back │ eight bytes │ zeros to the end of a block
//!   window       ├── 512 KiB ──┤                 moves over it, in whole blocks
//! ```

use crate::three_bit::{METADATA_BITS, OCCUPIED, Placement, SPILL_SLOTS, Scan, get_slot, or_slot};
use crate::{Result, open_direct};
use overbank::device::{AlignedBuf, BLOCK_BYTES};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes of a read or a write of a merge.
const WINDOW_BYTES: u64 = 512 << 10;

/// Bytes that reading a slot may touch.
const SLOT_BYTES: u64 = 8;

/// The slots of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    slots: u64,
    remainder_bits: u32,
}

impl Shape {
    fn new(quotient_bits: u32, entry_bits: u32) -> Self {
        Self { slots: (1 << quotient_bits) + SPILL_SLOTS, remainder_bits: entry_bits - quotient_bits }
    }

    fn width(self) -> u32 {
        self.remainder_bits + METADATA_BITS
    }

    /// The first byte of a slot.
    fn byte_of(self, at: u64) -> u64 {
        at * u64::from(self.width()) / 8
    }

    fn file_bytes(self) -> u64 {
        (self.byte_of(self.slots) + SLOT_BYTES).next_multiple_of(BLOCK)
    }
}

/// A level that is not empty.
#[derive(Debug)]
pub(super) struct Level {
    file: File,
    shape: Shape,
}

impl Level {
    pub(super) fn open(path: &Path, quotient_bits: u32, entry_bits: u32) -> Result<Self> {
        let shape = Shape::new(quotient_bits, entry_bits);
        let file = open_direct(path, OpenOptions::new().read(true))?;
        let (bytes, expected) = (file.metadata()?.len(), shape.file_bytes());
        if bytes != expected {
            return Err(format!("{} has {bytes} bytes instead of {expected}", path.display()).into());
        }
        Ok(Self { file, shape })
    }

    pub(super) fn sync(&self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    pub(super) fn width(&self) -> u32 {
        self.shape.width()
    }

    /// Fills `into` from block `first` on, as far as the file goes.
    pub(super) fn read(&self, first: u64, into: &mut [u8]) -> Result<()> {
        let left = self.shape.file_bytes().saturating_sub(first * BLOCK);
        let count = left.min(into.len() as u64) as usize;
        Ok(self.file.read_exact_at(&mut into[..count], first * BLOCK)?)
    }
}

/// A window of zeros; behind it a block that reading its last slot may touch.
fn window() -> AlignedBuf {
    AlignedBuf::zeroed(WINDOW_BYTES as usize + BLOCK_BYTES)
}

/// Reads all entries.
pub(super) struct LevelReader<'a> {
    level: &'a Level,
    scan: Scan,
    at: u64,
    window: AlignedBuf,
    first_byte: u64,
    /// The end of what the window holds, in bytes of the file.
    end_byte: u64,
}

impl<'a> LevelReader<'a> {
    pub(super) fn new(level: &'a Level) -> Self {
        let scan = Scan::new(level.shape.remainder_bits);
        Self { level, scan, at: 0, window: window(), first_byte: 0, end_byte: 0 }
    }

    /// The next entry, in ascending order.
    pub(super) fn next_entry(&mut self) -> Result<Option<u64>> {
        let shape = self.level.shape;
        while self.at < shape.slots {
            let byte = shape.byte_of(self.at);
            if byte + SLOT_BYTES > self.end_byte {
                self.first_byte = byte / BLOCK * BLOCK;
                self.end_byte = self.first_byte + WINDOW_BYTES;
                self.level.read(self.first_byte / BLOCK, &mut self.window[..WINDOW_BYTES as usize])?;
            }
            let slot = get_slot(&self.window, self.first_byte, shape.width(), self.at);
            self.at += 1;
            if let Some(entry) = self.scan.entry(slot) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Writes a level from entries in ascending order.
pub(super) struct LevelWriter {
    file: File,
    shape: Shape,
    placement: Placement,
    window: AlignedBuf,
    first_byte: u64,
}

impl LevelWriter {
    pub(super) fn create(path: &Path, quotient_bits: u32, entry_bits: u32) -> Result<Self> {
        let shape = Shape::new(quotient_bits, entry_bits);
        let file = open_direct(path, OpenOptions::new().read(true).write(true).create(true).truncate(true))?;
        Ok(Self {
            file,
            shape,
            placement: Placement::new(shape.remainder_bits),
            window: window(),
            first_byte: 0,
        })
    }

    pub(super) fn push(&mut self, entry: u64) -> Result<()> {
        let (shape, placed) = (self.shape, self.placement.place(entry));
        if placed.at >= shape.slots {
            return Err("a cluster reaches past the spill slots: the load is too high".into());
        }
        // Slots before the quotient's will not change again.
        let done_byte = shape.byte_of(placed.quotient);
        while shape.byte_of(placed.at) + SLOT_BYTES > self.first_byte + WINDOW_BYTES {
            self.flush(done_byte)?;
        }
        or_slot(&mut self.window, self.first_byte, shape.width(), placed.quotient, OCCUPIED);
        or_slot(&mut self.window, self.first_byte, shape.width(), placed.at, placed.slot);
        Ok(())
    }

    /// Writes the blocks of the window that lie before `done_byte`.
    fn flush(&mut self, done_byte: u64) -> Result<()> {
        let done = done_byte.min(self.first_byte + WINDOW_BYTES) / BLOCK * BLOCK;
        let count = done.saturating_sub(self.first_byte) as usize;
        if count == 0 {
            return Err("a cluster is longer than the window of a merge".into());
        }
        self.file.write_all_at(&self.window[..count], self.first_byte)?;
        let len = self.window.len();
        self.window.copy_within(count.., 0);
        self.window[len - count..].fill(0);
        self.first_byte = done;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Level> {
        let end = self.shape.file_bytes();
        while self.first_byte < end {
            self.flush(end)?;
        }
        Ok(Level { file: self.file, shape: self.shape })
    }
}
