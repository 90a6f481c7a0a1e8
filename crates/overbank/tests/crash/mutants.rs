//! Planted faults: the store as it would be with one of its duties left out. The harness must catch each.

use overbank::Result;
use overbank::device::block::{self, BlockOwner, Seal};
use overbank::device::sim::SimDevice;
use overbank::device::{Access, BLOCK_BYTES, Device, DeviceFile, LockGuard, ReadRequest};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planted {
    /// `sync` of data files.
    DataSync,
    /// `sync` of the manifest.
    ManifestSync,
    /// `sync` of the superblock.
    SuperblockSync,
    /// `sync_directory`.
    DirectorySync,
    /// Data files are synced only after the manifest record that names them.
    DataAfterManifest,
    /// Names are synced only after the manifest record that needs them.
    DirectoryAfterManifest,
    /// The check of block checksums: whatever is read passes.
    Checksum,
}

impl Planted {
    pub(crate) const ALL: [Planted; 7] = [
        Planted::DataSync,
        Planted::ManifestSync,
        Planted::SuperblockSync,
        Planted::DirectorySync,
        Planted::DataAfterManifest,
        Planted::DirectoryAfterManifest,
        Planted::Checksum,
    ];
}

/// The device as the store sees it.
pub(crate) fn wrap(planted: Option<Planted>, device: &SimDevice) -> Arc<dyn Device> {
    match planted {
        None => Arc::new(device.clone()),
        Some(planted) => Arc::new(MutantDevice { device: device.clone(), planted, late: Arc::default() }),
    }
}

#[derive(Debug)]
struct MutantDevice {
    device: SimDevice,
    planted: Planted,
    late: Late,
}

/// Syncs that wait for the manifest's.
type Late = Arc<Mutex<Vec<Arc<dyn DeviceFile>>>>;

#[derive(Debug)]
struct MutantFile {
    file: Arc<dyn DeviceFile>,
    device: SimDevice,
    planted: Planted,
    late: Late,
}

impl MutantDevice {
    fn file(&self, file: Arc<dyn DeviceFile>) -> Arc<dyn DeviceFile> {
        let (device, late) = (self.device.clone(), Arc::clone(&self.late));
        Arc::new(MutantFile { file, device, planted: self.planted, late })
    }
}

impl Device for MutantDevice {
    fn describe(&self) -> String {
        format!("simulated, with a planted fault: {:?}", self.planted)
    }

    fn path(&self) -> PathBuf {
        self.device.path()
    }

    fn list(&self) -> Result<Vec<String>> {
        self.device.list()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        Ok(self.file(self.device.create(name)?))
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        Ok(self.file(self.device.open(name, access)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.device.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.device.remove(name)
    }

    fn sync_directory(&self) -> Result<()> {
        match self.planted {
            Planted::DirectorySync | Planted::DirectoryAfterManifest => Ok(()),
            _ => self.device.sync_directory(),
        }
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        self.device.lock()
    }

    fn random_128(&self) -> Result<u128> {
        self.device.random_128()
    }

    fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }
}

impl MutantFile {
    /// Puts a matching checksum on a block, whatever it holds: the same as not checking it.
    fn pass(&self, number: u64, bytes: &mut [u8]) -> Result<()> {
        let mut slot = vec![0; BLOCK_BYTES];
        // Format version 1: the store id is at byte 16 of every slot.
        if let Ok(superblock) = self.device.open("superblock", Access::Read) {
            superblock.read(0, &mut slot)?;
        }
        let store_id = u128::from_le_bytes(slot[16..32].try_into().unwrap());
        let file_id = self.name().split('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        for (i, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let tag = u32::from_le_bytes(block[4084..4088].try_into().unwrap());
            let sequence = u64::from_le_bytes(block[4088..].try_into().unwrap());
            block::seal(block, BlockOwner { store_id, file_id }, number + i as u64, Seal { tag, sequence });
        }
        Ok(())
    }
}

impl DeviceFile for MutantFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file.read(offset, into)?;
        if self.planted == Planted::Checksum {
            self.pass(offset / BLOCK_BYTES as u64, into)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.file.write(offset, data)
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.file.read_many(requests, depth, done)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn sync(&self) -> Result<()> {
        let (is_data, is_manifest) = (self.name().ends_with(".seg"), self.name().ends_with(".man"));
        match self.planted {
            Planted::DataSync if is_data => Ok(()),
            Planted::ManifestSync if is_manifest => Ok(()),
            Planted::SuperblockSync if self.name().starts_with("superblock") => Ok(()),
            Planted::DataAfterManifest if is_data => {
                self.late.lock().unwrap().push(Arc::clone(&self.file));
                Ok(())
            }
            Planted::DataAfterManifest if is_manifest => {
                self.file.sync()?;
                std::mem::take(&mut *self.late.lock().unwrap()).iter().try_for_each(|file| file.sync())
            }
            Planted::DirectoryAfterManifest if is_manifest => {
                self.file.sync()?;
                self.device.sync_directory()
            }
            _ => self.file.sync(),
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
