//! Rows that wait for their answer, in order: in RAM, and beyond a share of it in a file without a name.
//!
//! ```text
//!   length, 7 bits a byte, the last one below 128 │ row │ length │ row …
//!   └──────────── file, oldest ────────────┴──── RAM, newest ────┘
//! ```
//!
//! | | CPU | I/O | RAM |
//! |---|---|---|---|
//! | a row | two copies | written and read once, sequentially, if it does not fit | its bytes, up to the share |

use super::scratch::Scratch;
use crate::failure::Failure;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};

/// Bytes read back at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Rows that wait.
pub(super) struct Spool {
    ram: Vec<u8>,
    ram_bytes_max: usize,
    file: Option<File>,
    file_bytes: u64,
}

impl Spool {
    /// A spool that keeps at most `ram_bytes_max` in RAM, one row aside.
    pub(super) fn new(ram_bytes_max: usize) -> Self {
        Self { ram: Vec::new(), ram_bytes_max, file: None, file_bytes: 0 }
    }

    /// Adds a row.
    #[inline]
    pub(super) fn push(&mut self, row: &[u8], scratch: &Scratch) -> Result<(), Failure> {
        if self.ram.len() + row.len() > self.ram_bytes_max && !self.ram.is_empty() {
            self.spill(scratch)?;
        }
        let mut length = row.len();
        while length >= 128 {
            self.ram.push(length as u8 | 128);
            length >>= 7;
        }
        self.ram.push(length as u8);
        self.ram.extend_from_slice(row);
        Ok(())
    }

    /// Calls `visit` with each row for which `wanted` has true, in order, and empties the spool.
    pub(super) fn replay(
        &mut self,
        wanted: impl Iterator<Item = bool>,
        scratch: &Scratch,
        visit: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let lost = |error| scratch.unusable(&error);
        match &mut self.file {
            Some(file) if self.file_bytes > 0 => {
                file.rewind().map_err(lost)?;
                let stored = file.take(self.file_bytes).chain(&self.ram[..]);
                replay(BufReader::with_capacity(BUFFER_BYTES, stored), wanted, lost, visit)?;
                file.set_len(0).and_then(|()| file.rewind()).map_err(lost)?;
            }
            _ => replay(&self.ram[..], wanted, lost, visit)?,
        }
        self.ram.clear();
        // A row as long as a chunk would keep its memory for ever.
        self.ram.shrink_to(self.ram_bytes_max);
        self.file_bytes = 0;
        Ok(())
    }

    #[cold]
    fn spill(&mut self, scratch: &Scratch) -> Result<(), Failure> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(scratch.file()?),
        };
        file.write_all(&self.ram).map_err(|error| scratch.unusable(&error))?;
        self.file_bytes += self.ram.len() as u64;
        self.ram.clear();
        Ok(())
    }
}

/// Reads rows back until `wanted` ends.
fn replay(
    mut stored: impl BufRead,
    wanted: impl Iterator<Item = bool>,
    lost: impl Fn(io::Error) -> Failure,
    mut visit: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut long_row = Vec::new();
    for is_wanted in wanted {
        let length = read_length(&mut stored).map_err(&lost)?;
        let ahead = stored.fill_buf().map_err(&lost)?;
        if ahead.len() >= length {
            if is_wanted {
                visit(&ahead[..length])?;
            }
            stored.consume(length);
        } else {
            long_row.resize(length, 0);
            stored.read_exact(&mut long_row).map_err(&lost)?;
            if is_wanted {
                visit(&long_row)?;
            }
        }
    }
    Ok(())
}

#[inline]
fn read_length(stored: &mut impl BufRead) -> io::Result<usize> {
    let (mut length, mut shift) = (0usize, 0);
    loop {
        let mut byte = [0];
        stored.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 127) << shift;
        shift += 7;
        if byte[0] < 128 {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_come_back_in_order(
            rounds in prop::collection::vec(prop::collection::vec((0usize..400, any::<bool>()), 0..60), 1..4),
            ram_bytes_max in 1usize..3000,
        ) {
            let scratch = Scratch::new(None);
            let mut spool = Spool::new(ram_bytes_max);
            for round in rounds {
                let rows: Vec<Vec<u8>> = round.iter().enumerate().map(|(at, (length, _))| vec![at as u8; *length]).collect();
                for row in &rows {
                    spool.push(row, &scratch).expect("a temporary directory");
                }
                let mut back = Vec::new();
                let keep = |row: &[u8]| {
                    back.push(row.to_vec());
                    Ok(())
                };
                spool.replay(round.iter().map(|(_, wanted)| *wanted), &scratch, keep).expect("a temporary directory");
                let expected: Vec<Vec<u8>> =
                    rows.into_iter().zip(&round).filter(|(_, (_, wanted))| *wanted).map(|(row, _)| row).collect();
                prop_assert_eq!(back, expected);
            }
        }
    }
}
