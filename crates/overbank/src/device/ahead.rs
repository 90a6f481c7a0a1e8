//! Sequential reads with one piece on its way while the one before is used: the mirror of `behind`.
//!
//! ```text
//!   use ─▶ piece, used up ──empty──▶ thread: read ──full──▶ piece ─▶ use …       two pieces in all
//! ```
//!
//! 1. Pieces come in the order of the file, each once.
//! 2. After an error the reader is where it was: the next call tries again, without the thread.
//!
//! | cost | |
//! |---|---|
//! | RAM | two pieces; one where nothing is ahead |
//! | CPU | a thread for the file, a message a piece |

use super::pool::BufferPool;
use super::{AlignedBuf, DeviceFile, thread};
use crate::Result;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A range of a file, piece by piece.
pub(crate) struct Ahead {
    file: Arc<dyn DeviceFile>,
    /// Bytes that were not handed out.
    rest: Range<u64>,
    piece_bytes: usize,
    piece: AlignedBuf,
    /// Where whole pieces come from, and go to.
    pool: Option<Arc<BufferPool>>,
    thread: Option<Thread>,
}

struct Thread {
    empty: SyncSender<AlignedBuf>,
    full: Receiver<Result<AlignedBuf>>,
    handle: JoinHandle<()>,
}

impl Ahead {
    /// The bytes `range` of `file` in pieces of `piece_bytes`, both whole blocks; read by a thread if `is_ahead`
    /// and one can be started.
    pub(crate) fn new(
        file: Arc<dyn DeviceFile>,
        range: Range<u64>,
        piece_bytes: usize,
        is_ahead: bool,
    ) -> Self {
        // One piece is all there is of a short range.
        let is_ahead = is_ahead && range.end - range.start > piece_bytes as u64;
        let start = || Thread::start(Arc::clone(&file), range.clone(), piece_bytes);
        let thread = if is_ahead { start() } else { None };
        Ahead { file, rest: range, piece_bytes, piece: AlignedBuf::default(), pool: None, thread }
    }

    /// Has the one piece of a reader without a thread come from a pool.
    pub(crate) fn pooled(mut self, pool: Option<Arc<BufferPool>>) -> Self {
        self.pool = pool.filter(|_| self.thread.is_none());
        self
    }

    /// The next piece; empty at the end.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn next_piece(&mut self) -> Result<&[u8]> {
        let bytes = (self.rest.end - self.rest.start).min(self.piece_bytes as u64) as usize;
        if bytes > 0 && !self.take_from_thread()? {
            if self.piece.len() < bytes {
                self.piece = match &self.pool {
                    Some(pool) if bytes == self.piece_bytes => pool.take(bytes),
                    _ => AlignedBuf::zeroed(bytes),
                };
            }
            self.file.read(self.rest.start, &mut self.piece[..bytes])?;
        }
        self.rest.start += bytes as u64;
        Ok(&self.piece[..bytes])
    }

    /// The piece that was handed out last, `bytes` of it.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece
    }

    fn take_from_thread(&mut self) -> Result<bool> {
        let Some(thread) = &self.thread else { return Ok(false) };
        if self.piece.is_empty() {
            self.piece = AlignedBuf::zeroed(self.piece_bytes);
        }
        let _ = thread.empty.send(std::mem::take(&mut self.piece));
        match thread.full.recv() {
            Ok(Ok(piece)) => {
                self.piece = piece;
                Ok(true)
            }
            Ok(Err(error)) => {
                self.stop();
                Err(error)
            }
            Err(_) => {
                self.stop();
                Ok(false)
            }
        }
    }

    fn stop(&mut self) {
        if let Some(Thread { empty, full, handle }) = self.thread.take() {
            drop((empty, full));
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Thread {
    fn start(file: Arc<dyn DeviceFile>, range: Range<u64>, piece_bytes: usize) -> Option<Self> {
        let (empty, to_fill) = sync_channel::<AlignedBuf>(2);
        let (give, full) = sync_channel(2);
        let read = move || {
            let mut at = range.start;
            while at < range.end {
                let Ok(mut piece) = to_fill.recv() else { return };
                let bytes = (range.end - at).min(piece_bytes as u64) as usize;
                let read = file.read(at, &mut piece[..bytes]);
                let is_over = read.is_err();
                if give.send(read.map(|()| piece)).is_err() || is_over {
                    return;
                }
                at += bytes as u64;
            }
        };
        let handle = thread::start("overbank-read", None, read).ok()?;
        // The second piece; the first comes with the first call.
        let _ = empty.send(AlignedBuf::zeroed(piece_bytes));
        Some(Thread { empty, full, handle })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(Thread { empty, full, handle }) = self.thread.take() {
            drop((empty, full));
            let _ = handle.join();
        }
        if let Some(pool) = &self.pool
            && self.piece.len() == self.piece_bytes
        {
            pool.give(std::mem::take(&mut self.piece));
        }
    }
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({:?} of {} are left)", self.rest, self.file.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{Fault, FaultKind, SimDevice};
    use crate::device::{BLOCK_BYTES, Device};

    const BLOCKS: usize = 7;

    fn file(device: &SimDevice) -> Arc<dyn DeviceFile> {
        let file = device.create("f").unwrap();
        let bytes: Vec<u8> = (0..BLOCKS * BLOCK_BYTES).map(|i| (i / BLOCK_BYTES) as u8 + 1).collect();
        file.write(0, &bytes).unwrap();
        file
    }

    #[test]
    fn every_range_is_read_once_and_in_order() {
        let device = SimDevice::new(1);
        let file = file(&device);
        for is_ahead in [false, true] {
            for (from, to, piece) in [(0, 7, 2), (1, 6, 5), (3, 3, 1), (2, 3, 4), (0, 7, 1)] {
                let range = (from * BLOCK_BYTES) as u64..(to * BLOCK_BYTES) as u64;
                let mut ahead = Ahead::new(Arc::clone(&file), range, piece * BLOCK_BYTES, is_ahead);
                let mut found = Vec::new();
                loop {
                    let piece = ahead.next_piece().unwrap();
                    if piece.is_empty() {
                        break;
                    }
                    found.extend(piece.chunks(BLOCK_BYTES).map(|block| usize::from(block[0])));
                }
                assert_eq!(found, (from + 1..to + 1).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn without_a_thread_it_is_read_when_it_is_asked_for() {
        let device = SimDevice::new(1);
        let range = 0..(BLOCKS * BLOCK_BYTES) as u64;
        let mut ahead = thread::refusal::after(0, || Ahead::new(file(&device), range, BLOCK_BYTES, true));
        for number in 1..=BLOCKS {
            assert_eq!(usize::from(ahead.next_piece().unwrap()[0]), number);
        }
        assert!(ahead.next_piece().unwrap().is_empty());
    }

    #[test]
    fn a_failed_read_is_told_where_it_happens_and_may_be_tried_again() {
        for is_ahead in [false, true] {
            for operation in 0..BLOCKS as u64 {
                let device = SimDevice::new(1);
                let file = file(&device);
                device.inject(Fault { operation, on_reads: true, kind: FaultKind::Eio, sticky: false });
                let range = 0..(BLOCKS * BLOCK_BYTES) as u64;
                let mut ahead = Ahead::new(file, range, BLOCK_BYTES, is_ahead);
                for number in 0..BLOCKS as u64 {
                    if number == operation {
                        assert!(ahead.next_piece().is_err());
                    }
                    assert_eq!(u64::from(ahead.next_piece().unwrap()[0]), number + 1, "{is_ahead}");
                }
                assert!(ahead.next_piece().unwrap().is_empty());
            }
        }
    }

    #[test]
    fn one_that_is_dropped_early_ends() {
        let device = SimDevice::new(1);
        let mut ahead = Ahead::new(file(&device), 0..(BLOCKS * BLOCK_BYTES) as u64, BLOCK_BYTES, true);
        assert_eq!(ahead.next_piece().unwrap()[0], 1);
    }
}
