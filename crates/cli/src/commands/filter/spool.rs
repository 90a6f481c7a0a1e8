//! Rows that wait for their answer, in order: in RAM, and beyond a share of it in a file without a name.
//!
//! ```text
//!   head, 7 bits a byte, the last one below 128 │ row │ head │ row …        head: length << 1 | whether the row is certain
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
    /// Rows that wait.
    rows: usize,
}

impl Spool {
    /// A spool that keeps at most `ram_bytes_max` in RAM, one row aside.
    pub(super) fn new(ram_bytes_max: usize) -> Self {
        Self { ram: Vec::new(), ram_bytes_max, file: None, file_bytes: 0, rows: 0 }
    }

    /// Adds a row that waits for an answer.
    #[inline]
    pub(super) fn push(&mut self, row: &[u8], scratch: &Scratch) -> Result<(), Failure> {
        self.add(row, false, scratch)
    }

    /// Adds a row that comes out whatever the answers are, in its place.
    pub(super) fn push_certain(&mut self, row: &[u8], scratch: &Scratch) -> Result<(), Failure> {
        self.add(row, true, scratch)
    }

    #[inline]
    fn add(&mut self, row: &[u8], is_certain: bool, scratch: &Scratch) -> Result<(), Failure> {
        self.rows += 1;
        if self.ram.len() + row.len() > self.ram_bytes_max && !self.ram.is_empty() {
            self.spill(scratch)?;
        }
        let mut head = row.len() << 1 | usize::from(is_certain);
        while head >= 128 {
            self.ram.push(head as u8 | 128);
            head >>= 7;
        }
        self.ram.push(head as u8);
        self.ram.extend_from_slice(row);
        Ok(())
    }

    /// Calls `visit` with each row that is certain or for which `wanted` has true, in order, and empties the spool; `visit` is told
    /// which. `wanted` has an answer for each row that is not certain.
    pub(super) fn replay(
        &mut self,
        wanted: impl Iterator<Item = bool>,
        scratch: &Scratch,
        visit: impl FnMut(&[u8], bool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        let lost = |error| scratch.unusable(&error);
        match &mut self.file {
            Some(file) if self.file_bytes > 0 => {
                file.rewind().map_err(lost)?;
                let stored = file.take(self.file_bytes).chain(&self.ram[..]);
                replay(BufReader::with_capacity(BUFFER_BYTES, stored), rows, wanted, lost, visit)?;
                file.set_len(0).and_then(|()| file.rewind()).map_err(lost)?;
            }
            _ => replay(&self.ram[..], rows, wanted, lost, visit)?,
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

/// Reads `rows` rows back.
fn replay(
    mut stored: impl BufRead,
    rows: usize,
    mut wanted: impl Iterator<Item = bool>,
    lost: impl Fn(io::Error) -> Failure,
    mut visit: impl FnMut(&[u8], bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut long_row = Vec::new();
    for _ in 0..rows {
        let head = read_head(&mut stored).map_err(&lost)?;
        let (length, is_certain) = (head >> 1, head & 1 != 0);
        let is_wanted = is_certain || wanted.next() == Some(true);
        let ahead = stored.fill_buf().map_err(&lost)?;
        if ahead.len() >= length {
            if is_wanted {
                visit(&ahead[..length], is_certain)?;
            }
            stored.consume(length);
        } else {
            long_row.resize(length, 0);
            stored.read_exact(&mut long_row).map_err(&lost)?;
            if is_wanted {
                visit(&long_row, is_certain)?;
            }
        }
    }
    Ok(())
}

#[inline]
fn read_head(stored: &mut impl BufRead) -> io::Result<usize> {
    let (mut head, mut shift) = (0usize, 0);
    loop {
        let mut byte = [0];
        stored.read_exact(&mut byte)?;
        head |= usize::from(byte[0] & 127) << shift;
        shift += 7;
        if byte[0] < 128 {
            return Ok(head);
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
            rounds in prop::collection::vec(prop::collection::vec((0usize..400, any::<bool>(), any::<bool>()), 0..60), 1..4),
            ram_bytes_max in 1usize..3000,
        ) {
            let scratch = Scratch::new(None);
            let mut spool = Spool::new(ram_bytes_max);
            for round in rounds {
                let rows: Vec<Vec<u8>> = round.iter().enumerate().map(|(at, (length, ..))| vec![at as u8; *length]).collect();
                for (row, (.., is_certain)) in rows.iter().zip(&round) {
                    let push = if *is_certain { Spool::push_certain } else { Spool::push };
                    push(&mut spool, row, &scratch).expect("a temporary directory");
                }
                let mut back = Vec::new();
                let keep = |row: &[u8], is_certain: bool| {
                    back.push((row.to_vec(), is_certain));
                    Ok(())
                };
                let wanted = round.iter().filter(|(.., is_certain)| !is_certain).map(|(_, wanted, _)| *wanted);
                spool.replay(wanted, &scratch, keep).expect("a temporary directory");
                let expected: Vec<(Vec<u8>, bool)> = rows
                    .into_iter()
                    .zip(&round)
                    .filter(|(_, (_, wanted, is_certain))| *wanted || *is_certain)
                    .map(|(row, (.., is_certain))| (row, *is_certain))
                    .collect();
                prop_assert_eq!(back, expected);
            }
        }
    }
}
