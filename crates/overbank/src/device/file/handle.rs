//! One open file: whole reads and writes by positional calls, batches handed to the engine.

use super::batcher::Batcher;
use super::opened::{Opened, check_aligned};
use super::reads::Reads;
use super::{calls, errors};
use crate::device::{AlignedBuf, DeviceFile, ReadRequest};
use crate::{Error, Result};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest piece that an unaligned buffer is copied in; it bounds the RAM of the copy.
const BOUNCE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct FileHandle {
    opened: Arc<Opened>,
    batcher: Arc<Batcher>,
    sync_failed: AtomicBool,
}

impl FileHandle {
    pub(super) fn new(opened: Opened, batcher: Arc<Batcher>) -> Self {
        Self { opened: Arc::new(opened), batcher, sync_failed: AtomicBool::new(false) }
    }

    pub(super) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    fn check_not_poisoned(&self) -> Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(Error::Poisoned { path: self.opened.path.clone(), why: "a sync".into() });
        }
        Ok(())
    }
}

impl DeviceFile for FileHandle {
    fn name(&self) -> &str {
        &self.opened.name
    }

    fn len_bytes(&self) -> Result<u64> {
        self.opened.len_bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        check_aligned(offset, into.len())?;
        if !self.opened.direct || AlignedBuf::is_aligned(into) {
            return self.opened.read_exact(offset, into);
        }
        let mut bounce = AlignedBuf::zeroed(into.len().min(BOUNCE_BYTES));
        let mut at = offset;
        for piece in into.chunks_mut(BOUNCE_BYTES) {
            let aligned = &mut bounce[..piece.len()];
            self.opened.read_exact(at, aligned)?;
            piece.copy_from_slice(aligned);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_aligned(offset, data.len())?;
        self.check_not_poisoned()?;
        if !self.opened.direct || AlignedBuf::is_aligned(data) {
            return self.opened.write_all(offset, data);
        }
        let mut bounce = AlignedBuf::zeroed(data.len().min(BOUNCE_BYTES));
        let mut at = offset;
        for piece in data.chunks(BOUNCE_BYTES) {
            let aligned = &mut bounce[..piece.len()];
            aligned.copy_from_slice(piece);
            self.opened.write_all(at, aligned)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.batcher.read_many(&Reads::One(&self.opened, requests), depth, done)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.check_not_poisoned()?;
        self.opened
            .file
            .set_len(bytes)
            .map_err(|e| errors::classify("set the length of", &self.opened.path, bytes, e))
    }

    fn sync(&self) -> Result<()> {
        self.check_not_poisoned()?;
        calls::sync(&self.opened.file).map_err(|e| {
            self.sync_failed.store(true, Ordering::Release);
            errors::classify("sync", &self.opened.path, 0, e)
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
