//! A planted fault: a device that does something else instead of syncing files of one kind. Crash tests must see it.

use super::SimDevice;
use crate::Result;
use crate::device::{Access, Device, DeviceFile, LockGuard, ReadRequest};
use std::path::PathBuf;
use std::sync::Arc;

/// What happens instead of the sync of a data file, or of a file whose name ends in another way.
#[derive(Clone)]
pub(crate) struct Instead {
    suffix: &'static str,
    act: Arc<dyn Fn() + Send + Sync>,
}

impl Instead {
    pub(crate) fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self::of(".seg", act)
    }

    /// Instead of the sync of a file whose name ends in `suffix`.
    pub(crate) fn of(suffix: &'static str, act: impl Fn() + Send + Sync + 'static) -> Self {
        Instead { suffix, act: Arc::new(act) }
    }
}

impl std::fmt::Debug for Instead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Instead")
    }
}

#[derive(Debug)]
pub(crate) struct WithoutDataSync(pub(crate) SimDevice, pub(crate) Instead);

#[derive(Debug)]
struct Unsynced(Arc<dyn DeviceFile>, Instead);

impl Device for WithoutDataSync {
    fn describe(&self) -> String {
        "simulated, without the sync of data files".to_owned()
    }

    fn path(&self) -> PathBuf {
        self.0.path()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        Ok(Arc::new(Unsynced(self.0.create(name)?, self.1.clone())))
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        Ok(Arc::new(Unsynced(self.0.open(name, access)?, self.1.clone())))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.0.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        self.0.lock()
    }

    fn random_128(&self) -> Result<u128> {
        self.0.random_128()
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

impl DeviceFile for Unsynced {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len_bytes(&self) -> Result<u64> {
        self.0.len_bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.0.read(offset, into)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.0.write(offset, data)
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.0.read_many(requests, depth, done)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.0.set_len(bytes)
    }

    fn sync(&self) -> Result<()> {
        if !self.name().ends_with(self.1.suffix) {
            return self.0.sync();
        }
        (self.1.act)();
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
