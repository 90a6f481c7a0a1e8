//! Parquet's hybrid of runs and packed bits: levels, dictionary indices, truth values.
//!
//! ```text
//! run: (count << 1) varint │ value in whole bytes      packed: (count / 8 << 1 | 1) varint │ 8 values in `width` bytes, …
//! ```

use super::header::invalid;
use std::io::{self, Read};

/// A decoder of such numbers, each of `width` bits.
#[derive(Debug)]
pub(super) struct Hybrid {
    width: u32,
    /// Values left in the run, and the value.
    run_left: u64,
    value: u32,
    /// Groups of eight left.
    groups_left: u64,
    group: [u32; 8],
    group_at: usize,
}

impl Hybrid {
    pub(super) fn new(width: u32) -> io::Result<Self> {
        if width > 32 {
            return Err(invalid(format!("numbers of {width} bits")));
        }
        Ok(Self { width, run_left: 0, value: 0, groups_left: 0, group: [0; 8], group_at: 8 })
    }

    /// The next number.
    #[inline]
    pub(super) fn next(&mut self, read: &mut impl Read) -> io::Result<u32> {
        loop {
            if self.group_at < 8 {
                self.group_at += 1;
                return Ok(self.group[self.group_at - 1]);
            }
            if self.run_left > 0 {
                self.run_left -= 1;
                return Ok(self.value);
            }
            self.refill(read)?;
        }
    }

    fn refill(&mut self, read: &mut impl Read) -> io::Result<()> {
        if self.groups_left > 0 {
            let mut packed = [0; 32];
            let packed = &mut packed[..self.width as usize];
            read.read_exact(packed)?;
            unpack(packed, self.width, |at, value| self.group[at] = value as u32);
            (self.group_at, self.groups_left) = (0, self.groups_left - 1);
            return Ok(());
        }
        let header = varint(read)?;
        if header & 1 == 1 {
            self.groups_left = header >> 1;
        } else {
            let mut value = [0; 4];
            read.read_exact(&mut value[..self.width.div_ceil(8) as usize])?;
            (self.value, self.run_left) = (u32::from_le_bytes(value), header >> 1);
        }
        Ok(())
    }
}

/// Eight numbers of `width` bits, the lowest bits first.
pub(super) fn unpack(packed: &[u8], width: u32, mut put: impl FnMut(usize, u64)) {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let (mut bits, mut held, mut packed) = (0u128, 0, packed.iter());
    for at in 0..8 {
        while held < width {
            bits |= u128::from(packed.next().copied().unwrap_or(0)) << held;
            held += 8;
        }
        put(at, bits as u64 & mask);
        bits >>= width;
        held -= width;
    }
}

/// A number in 7 bits a byte.
pub(super) fn varint(read: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        read.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 127) << shift;
        if byte[0] < 128 {
            return Ok(number);
        }
    }
    Err(invalid("a number has no end"))
}
