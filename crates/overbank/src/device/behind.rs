//! Sequential writes with one piece on its way while the next is composed.
//!
//! ```text
//!   compose ─▶ piece ──full──▶ thread: write ──▶ piece, empty again ─▶ compose …       two pieces in all
//! ```
//!
//! 1. Pieces are written in the order in which they were composed, each where the one before ended.
//! 2. After a failed write nothing more is written, and the failure is told once: by the next [`Pieces::hand_over`] or by
//!    [`Pieces::finish`].
//! 3. Dropped pieces wait for what is on its way: nothing is written after that.
//!
//! | cost | |
//! |---|---|
//! | RAM | two pieces; one where nothing is behind |
//! | CPU | a thread for the file, a message a piece |

use super::{AlignedBuf, DeviceFile, thread};
use crate::Result;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Where pieces of a file go.
pub(crate) struct Pieces {
    file: Arc<dyn DeviceFile>,
    piece: AlignedBuf,
    written_bytes: u64,
    behind: Option<Behind>,
}

struct Behind {
    full: SyncSender<(u64, AlignedBuf, usize)>,
    empty: Receiver<AlignedBuf>,
    thread: JoinHandle<Result<()>>,
}

impl Pieces {
    /// Pieces of `piece_bytes` from the start of `file` on; written by a thread if `is_behind` and
    /// one can be started.
    pub(crate) fn new(file: Arc<dyn DeviceFile>, piece_bytes: usize, is_behind: bool) -> Self {
        let behind = if is_behind { Behind::start(Arc::clone(&file), piece_bytes) } else { None };
        Pieces { file, piece: AlignedBuf::zeroed(piece_bytes), written_bytes: 0, behind }
    }

    /// The piece that is being composed.
    pub(crate) fn piece(&mut self) -> &mut [u8] {
        &mut self.piece
    }

    /// Bytes of the pieces that were handed over.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes the first `bytes` of the piece behind the last one.
    ///
    /// # Errors
    /// What the device says; of a write behind, at the next call or at the end. Then the file is of no use.
    pub(crate) fn hand_over(&mut self, bytes: usize) -> Result<()> {
        let offset = self.written_bytes;
        self.written_bytes += bytes as u64;
        let Some(behind) = &self.behind else {
            return self.file.write(offset, &self.piece[..bytes]);
        };
        match behind.empty.recv() {
            Ok(next) => {
                let piece = std::mem::replace(&mut self.piece, next);
                // Where the thread has stopped since, the next call tells.
                let _ = behind.full.send((offset, piece, bytes));
                Ok(())
            }
            Err(_) => self.finish(),
        }
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// What the device says of a write behind.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let Some(Behind { full, empty, thread }) = self.behind.take() else { return Ok(()) };
        drop((full, empty));
        match thread.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Behind {
    fn start(file: Arc<dyn DeviceFile>, piece_bytes: usize) -> Option<Self> {
        let (full, to_write) = sync_channel::<(u64, AlignedBuf, usize)>(1);
        let (give_back, empty) = sync_channel(2);
        let write = move || {
            // The channel has room for both pieces.
            let _ = give_back.send(AlignedBuf::zeroed(piece_bytes));
            for (offset, piece, bytes) in to_write {
                file.write(offset, &piece[..bytes])?;
                let _ = give_back.send(piece);
            }
            Ok(())
        };
        let thread = thread::start("overbank-write", None, write).ok()?;
        Some(Behind { full, empty, thread })
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(Behind { full, empty, thread }) = self.behind.take() {
            drop((full, empty));
            // Whoever drops them unfinished has an error already, or wants none.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::device::sim::{Fault, FaultKind, SimDevice};
    use crate::device::{BLOCK_BYTES, Device};

    fn write(device: &SimDevice, is_behind: bool) -> Result<Vec<u8>> {
        let file = device.create(if is_behind { "behind" } else { "at_once" })?;
        let mut pieces = Pieces::new(Arc::clone(&file), 2 * BLOCK_BYTES, is_behind);
        for number in 1..=5 {
            let bytes = (1 + number % 2) * BLOCK_BYTES;
            pieces.piece()[..bytes].fill(number as u8);
            pieces.hand_over(bytes)?;
        }
        assert_eq!(pieces.written_bytes(), 8 * BLOCK_BYTES as u64);
        pieces.finish()?;
        let mut bytes = vec![0; file.len_bytes()? as usize];
        file.read(0, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn what_is_written_behind_is_what_is_written_at_once() {
        let device = SimDevice::new(1);
        let at_once = write(&device, false).unwrap();
        assert_eq!(at_once.len(), 8 * BLOCK_BYTES);
        assert_eq!(write(&device, true).unwrap(), at_once);
    }

    #[test]
    fn without_a_thread_it_is_written_at_once() {
        let device = SimDevice::new(1);
        let at_once = write(&device, false).unwrap();
        assert_eq!(thread::refusal::after(0, || write(&device, true)).unwrap(), at_once);
    }

    #[test]
    fn a_failed_write_is_the_result_wherever_it_happens() {
        for is_behind in [false, true] {
            let clean = SimDevice::new(1);
            write(&clean, is_behind).unwrap();
            let mut failed = 0;
            for operation in 0..clean.changes() {
                let device = SimDevice::new(1);
                device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: false });
                failed += u32::from(matches!(write(&device, is_behind), Err(Error::Full { .. })));
            }
            assert!(failed >= 5, "{failed} of five writes");
        }
    }

    #[test]
    fn pieces_that_are_dropped_have_written_what_was_handed_over() {
        let device = SimDevice::new(1);
        let file = device.create("f").unwrap();
        let mut pieces = Pieces::new(Arc::clone(&file), BLOCK_BYTES, true);
        pieces.hand_over(BLOCK_BYTES).unwrap();
        drop(pieces);
        assert_eq!((file.len_bytes().unwrap(), device.changes()), (BLOCK_BYTES as u64, 2));
    }
}
