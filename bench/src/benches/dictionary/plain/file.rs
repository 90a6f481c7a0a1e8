//! Files of items back to back, written and read from front to back past the page cache, each by a thread of its own.
//!
//! ```text
//!   items ──▶ buffer ──▶ thread: pwrite        two buffers go round: one is filled while the other is written
//!   items ◀── buffer ◀── thread: pread
//! ```

use crate::{Result, open_direct};
use overbank::device::{AlignedBuf, BLOCK_BYTES};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Buffers of a file that go round.
pub(super) const BUFFERS: usize = 2;

/// The least length of a buffer, and what lengths are a multiple of.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A length for buffers that take `share_bytes` together; at most 4 MiB, from which on a longer one gains nothing.
pub(super) fn piece_bytes(share_bytes: usize) -> usize {
    (share_bytes / BUFFERS / PIECE_BYTES * PIECE_BYTES).clamp(PIECE_BYTES, 4 << 20)
}

/// Writes a file.
pub(super) struct FileWriter {
    full: SyncSender<(AlignedBuf, usize)>,
    empty: Receiver<AlignedBuf>,
    buffer: AlignedBuf,
    filled: usize,
    thread: JoinHandle<Result<File>>,
}

impl FileWriter {
    /// Makes the file anew, with buffers of so many bytes.
    pub(super) fn create(path: &Path, piece_bytes: usize) -> Result<Self> {
        let file = open_direct(path, OpenOptions::new().write(true).create(true).truncate(true))?;
        let (full, to_write) = sync_channel::<(AlignedBuf, usize)>(BUFFERS);
        let (written, empty) = sync_channel(BUFFERS);
        for _ in 1..BUFFERS {
            written.send(AlignedBuf::zeroed(piece_bytes))?;
        }
        let thread = std::thread::spawn(move || {
            let mut at = 0;
            for (buffer, bytes) in to_write {
                file.write_all_at(&buffer[..bytes], at)?;
                at += bytes as u64;
                // Nobody wants it back after the last.
                let _ = written.send(buffer);
            }
            Ok(file)
        });
        Ok(Self { full, empty, buffer: AlignedBuf::zeroed(piece_bytes), filled: 0, thread })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let room = &mut self.buffer[self.filled..];
            if bytes.len() < room.len() {
                room[..bytes.len()].copy_from_slice(bytes);
                self.filled += bytes.len();
                return Ok(());
            }
            let (now, later) = bytes.split_at(room.len());
            room.copy_from_slice(now);
            bytes = later;
            self.filled = self.buffer.len();
            self.send(self.filled)?;
        }
    }

    fn send(&mut self, bytes: usize) -> Result<()> {
        let failed = "the thread that writes has ended";
        let next = self.empty.recv().map_err(|_| failed)?;
        let buffer = std::mem::replace(&mut self.buffer, next);
        self.filled = 0;
        Ok(self.full.send((buffer, bytes)).map_err(|_| failed)?)
    }

    /// Writes what is left, zeros behind it to the end of a block. Synced if it is there to stay.
    pub(super) fn finish(mut self, is_synced: bool) -> Result<()> {
        let bytes = self.filled.next_multiple_of(BLOCK_BYTES);
        self.buffer[self.filled..bytes].fill(0);
        if bytes > 0 {
            self.send(bytes)?;
        }
        drop(self.full);
        let file = self.thread.join().map_err(|_| "the thread that writes panicked")??;
        if is_synced {
            file.sync_data()?;
        }
        Ok(())
    }
}

/// Reads the items of a file.
pub(super) struct FileReader {
    full: Receiver<Result<AlignedBuf>>,
    empty: SyncSender<AlignedBuf>,
    buffer: Option<AlignedBuf>,
    at: usize,
    left_bytes: u64,
    item: Vec<u8>,
}

impl FileReader {
    /// Reads `items` items of `item_bytes`, with buffers of so many bytes.
    pub(super) fn open(path: &Path, items: u64, item_bytes: usize, piece_bytes: usize) -> Result<Self> {
        let file = open_direct(path, OpenOptions::new().read(true))?;
        let file_bytes = file.metadata()?.len();
        let left_bytes = items * item_bytes as u64;
        if file_bytes < left_bytes {
            return Err(format!("{} is shorter than {items} items", path.display()).into());
        }
        let (read, full) = sync_channel(BUFFERS);
        let (empty, to_fill) = sync_channel::<AlignedBuf>(BUFFERS);
        for _ in 0..BUFFERS {
            empty.send(AlignedBuf::zeroed(piece_bytes))?;
        }
        std::thread::spawn(move || {
            let mut at = 0;
            for mut buffer in to_fill {
                let bytes = (file_bytes - at).min(buffer.len() as u64) as usize;
                let result = file.read_exact_at(&mut buffer[..bytes], at);
                at += bytes as u64;
                if read.send(result.map(|()| buffer).map_err(Into::into)).is_err() || at == file_bytes {
                    break;
                }
            }
        });
        Ok(Self { full, empty, buffer: None, at: 0, left_bytes, item: vec![0; item_bytes] })
    }

    /// The next item.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.left_bytes == 0 {
            return Ok(None);
        }
        let mut filled = 0;
        while filled < self.item.len() {
            let buffer = match &mut self.buffer {
                Some(buffer) if self.at < buffer.len() => buffer,
                spent => {
                    if let Some(buffer) = spent.take() {
                        // Nobody wants it at the end of the file.
                        let _ = self.empty.send(buffer);
                    }
                    self.at = 0;
                    spent.insert(self.full.recv().map_err(|_| "the thread that reads has ended")??)
                }
            };
            let bytes = (buffer.len() - self.at).min(self.item.len() - filled);
            self.item[filled..filled + bytes].copy_from_slice(&buffer[self.at..self.at + bytes]);
            (self.at, filled) = (self.at + bytes, filled + bytes);
        }
        self.left_bytes -= self.item.len() as u64;
        Ok(Some(&self.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_whole_whatever_the_buffers_cut() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("items");
        for (items, item_bytes) in [(0u64, 16), (5, 16), (3 * 4096, 16), (500, 1111)] {
            let mut writer = FileWriter::create(&path, PIECE_BYTES).expect("created");
            let item = |number: u64| vec![(number % 251) as u8; item_bytes];
            (0..items).for_each(|number| writer.write(&item(number)).expect("written"));
            writer.finish(true).expect("synced");
            let mut reader = FileReader::open(&path, items, item_bytes, PIECE_BYTES).expect("opened");
            for number in 0..items {
                assert_eq!(reader.next().expect("read"), Some(&*item(number)));
            }
            assert_eq!(reader.next().expect("read"), None);
            assert!(FileReader::open(&path, items + 4096, item_bytes, PIECE_BYTES).is_err());
        }
    }
}
