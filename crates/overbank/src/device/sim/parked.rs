//! A device that parks a thread in the middle of an operation, so that a test sees who waits for whom without a look at a clock: what
//! would wait hangs.

use crate::device::memory::MemoryDevice;
use crate::device::{Access, Device, DeviceFile, FileRead, LockGuard, ReadRequest};
use crate::lock::{lock, wait};
use std::any::Any;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

/// What a thread does to a data file when it is parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    Write,
    Sync,
}

/// A device in memory that parks the first thread that does what is waited for.
#[derive(Clone, Debug)]
pub(crate) struct Lot {
    device: MemoryDevice,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Default, Debug)]
struct Gate {
    /// What the next thread is parked in, and who is told.
    awaited: Option<(Operation, Sender<()>)>,
    is_open: bool,
}

impl Lot {
    pub(crate) fn new() -> Self {
        Lot { device: MemoryDevice::new(), gate: Arc::default() }
    }

    /// Parks the next thread that does `operation`, and tells so.
    pub(crate) fn park(&self, operation: Operation) -> Receiver<()> {
        let (tell, told) = channel();
        *lock(&self.gate.0) = Gate { awaited: Some((operation, tell)), is_open: false };
        told
    }

    /// Lets the parked thread go.
    pub(crate) fn let_go(&self) {
        lock(&self.gate.0).is_open = true;
        self.gate.1.notify_all();
    }

    fn pass(&self, operation: Operation) {
        let mut gate = lock(&self.gate.0);
        if let Some((_, tell)) = gate.awaited.take_if(|(awaited, _)| *awaited == operation) {
            tell.send(()).unwrap();
            while !gate.is_open {
                gate = wait(&self.gate.1, gate);
            }
        }
    }
}

impl Device for Lot {
    fn describe(&self) -> String {
        self.device.describe()
    }
    fn path(&self) -> PathBuf {
        self.device.path()
    }
    fn list(&self) -> crate::Result<Vec<String>> {
        self.device.list()
    }
    fn create(&self, name: &str) -> crate::Result<Arc<dyn DeviceFile>> {
        Ok(Arc::new(LotFile { file: self.device.create(name)?, lot: self.clone() }))
    }
    fn open(&self, name: &str, access: Access) -> crate::Result<Arc<dyn DeviceFile>> {
        Ok(Arc::new(LotFile { file: self.device.open(name, access)?, lot: self.clone() }))
    }
    fn read_many(
        &self,
        reads: &[FileRead<'_>],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> crate::Result<()>,
    ) -> crate::Result<()> {
        self.pass(Operation::Read);
        self.device.read_many(reads, depth, done)
    }
    fn rename(&self, from: &str, to: &str) -> crate::Result<()> {
        self.device.rename(from, to)
    }
    fn remove(&self, name: &str) -> crate::Result<()> {
        self.device.remove(name)
    }
    fn sync_directory(&self) -> crate::Result<()> {
        self.device.sync_directory()
    }
    fn lock(&self) -> crate::Result<Box<dyn LockGuard>> {
        self.device.lock()
    }
    fn random_128(&self) -> crate::Result<u128> {
        self.device.random_128()
    }
    fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }
}

/// A file of that device. Only data files park: the store's own are read and written under its locks.
#[derive(Debug)]
struct LotFile {
    file: Arc<dyn DeviceFile>,
    lot: Lot,
}

impl LotFile {
    fn pass(&self, operation: Operation) {
        if self.name().ends_with(".seg") {
            self.lot.pass(operation);
        }
    }
}

impl DeviceFile for LotFile {
    fn name(&self) -> &str {
        self.file.name()
    }
    fn len_bytes(&self) -> crate::Result<u64> {
        self.file.len_bytes()
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> crate::Result<()> {
        self.pass(Operation::Read);
        self.file.read(offset, into)
    }
    fn write(&self, offset: u64, data: &[u8]) -> crate::Result<()> {
        self.pass(Operation::Write);
        self.file.write(offset, data)
    }
    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> crate::Result<()>,
    ) -> crate::Result<()> {
        self.pass(Operation::Read);
        self.file.read_many(requests, depth, done)
    }
    fn set_len(&self, bytes: u64) -> crate::Result<()> {
        self.file.set_len(bytes)
    }
    fn sync(&self) -> crate::Result<()> {
        self.pass(Operation::Sync);
        self.file.sync()
    }
    fn as_any(&self) -> &dyn Any {
        self.file.as_any()
    }
}
