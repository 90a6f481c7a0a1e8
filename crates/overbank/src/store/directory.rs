//! Stores in directories of the file system, and stores that live in RAM for one process.

use super::{Store, StoreOptions};
use crate::Result;
use crate::device::memory::MemoryDevice;
use crate::device::{FileDevice, FileOptions};
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Creates a store in the directory `path`, which is made if it is absent and must be empty if it is not.
    ///
    /// # Errors
    /// As [`Store::create_on`], and what the file system says.
    pub fn create(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Self::create_on(Arc::new(FileDevice::open_or_create(path, FileOptions::new())?), options)
    }

    /// Opens the store in the directory `path` for writing, at its last commit.
    ///
    /// # Errors
    /// As [`Store::open_on`], and what the file system says.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Self::open_on(Arc::new(FileDevice::open(path, FileOptions::new())?), options)
    }

    /// Opens the store in the directory `path` for writing, or creates one.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Self::open_or_create_on(Arc::new(FileDevice::open_or_create(path, FileOptions::new())?), options)
    }

    /// Opens a snapshot of the store in the directory `path` beside whoever writes it; writes nothing.
    ///
    /// # Errors
    /// As [`Store::open_read_only_on`], and what the file system says.
    pub fn open_read_only(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Self::open_read_only_on(Arc::new(FileDevice::open(path, FileOptions::new())?), options)
    }

    /// A store that ends with the process: for a summary that nobody wants to keep.
    ///
    /// # Errors
    /// As [`Store::create_on`].
    pub fn in_memory(options: StoreOptions) -> Result<Store> {
        Self::create_on(Arc::new(MemoryDevice::new()), options)
    }
}
