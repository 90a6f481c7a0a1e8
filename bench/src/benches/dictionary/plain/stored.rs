//! An index on disk between two processes: lists of words, each behind its length.

use crate::Result;
use std::path::Path;

#[derive(Default)]
pub(super) struct Stored {
    words: Vec<u64>,
    /// Where the next list begins.
    at: usize,
}

impl Stored {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)?;
        Ok(Self {
            words: bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            at: 0,
        })
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(path, bytes)?;
        Ok(std::fs::File::open(path)?.sync_all()?)
    }

    pub(super) fn push(&mut self, list: impl IntoIterator<Item = u64>) {
        let length_at = self.words.len();
        self.words.push(0);
        self.words.extend(list);
        self.words[length_at] = (self.words.len() - length_at - 1) as u64;
    }

    pub(super) fn pop(&mut self) -> Result<&[u64]> {
        let length = *self.words.get(self.at).ok_or("an index ends early")? as usize;
        let list = self.at + 1;
        self.at = list + length;
        Ok(self.words.get(list..self.at).ok_or("an index ends early")?)
    }
}
