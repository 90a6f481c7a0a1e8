//! Creating a store, and opening one at exactly its last commit.
//!
//! Creation: manifest and superblock are written and synced under names that nobody opens, their names are synced, and
//! one rename makes it a store. Whatever a crash leaves before that is no store, and may be created again.
//!
//! Opening for writing: superblock, manifest up to its last whole record, cut off the torn tail, remove what no record
//! names, and sync all three, so that what was read is also durable before anybody builds on it.

use super::catalog::Catalog;
use super::files::{Pins, missing};
use super::format::{self, ManifestRecord, NamedFile, Superblock};
use super::journal::{Journal, remove_file, write_manifest};
use super::poison::Poison;
use super::{Budget, Core, FileId, Files, Owner, State, Store, StoreOptions, Workers, manifest};
use crate::device::memory::MemoryDevice;
use crate::device::{Access, Device, DeviceFile, LockGuard};
use crate::device::{FileDevice, NamelessDevice};
use crate::lock::lock;
use crate::{Error, HashKind, KeyHasher, Result, Seed};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

impl Store {
    /// Creates a store in the directory `path`, which is empty or not there yet.
    ///
    /// # Errors
    /// As [`Store::create_on`].
    pub fn create(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Store::create_on(Arc::new(FileDevice::open_or_create(path, options.file)?), options)
    }

    /// A store in files of the directory `place` that have no names, for what outgrows RAM and nobody wants to keep: it vanishes
    /// with the process, whatever ends it.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; else as [`Store::create_on`].
    pub fn nameless(place: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Store::create_on(Arc::new(NamelessDevice::open(place, options.file)?), options)
    }

    /// Opens the store in the directory `path` for writing, at its last commit.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; else as [`Store::open_on`].
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Store::open_on(Arc::new(FileDevice::open(path, options.file)?), options)
    }

    /// Opens the store in the directory `path`, or creates it.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        Store::open_or_create_on(Arc::new(FileDevice::open_or_create(path, options.file)?), options)
    }
}

impl Store {
    /// A store that ends with the process, for summaries that nobody wants to keep.
    ///
    /// # Errors
    /// As [`Store::create_on`].
    pub fn in_memory(options: StoreOptions) -> Result<Store> {
        Store::create_on(Arc::new(MemoryDevice::new()), options)
    }

    /// Creates a store in an empty directory.
    ///
    /// # Errors
    /// `AlreadyExists` if the directory is a store, `NotAStore` if it holds other files, `Locked`.
    pub fn create_on(device: Arc<dyn Device>, options: StoreOptions) -> Result<Store> {
        check_empty(&*device)?;
        let guard = device.lock()?;
        // Somebody may have created one between the first look and the lock.
        for leftover in check_empty(&*device)? {
            device.remove(&leftover)?;
        }
        Store::begin(device, options, guard, FileId(1))
    }

    /// An empty store whose manifest has this number.
    fn begin(
        device: Arc<dyn Device>,
        options: StoreOptions,
        guard: Box<dyn LockGuard>,
        manifest: FileId,
    ) -> Result<Store> {
        let mut superblock = Superblock {
            version: format::FORMAT_VERSION,
            hash_kind: options.hash_kind.unwrap_or_default(),
            store_id: device.random_128()?,
            seed: options.seed.map_or_else(|| device.random_128().map(Seed), Ok)?,
            generation: 1,
            epoch: 1,
            manifest,
            mark_bytes: 0,
        };
        let catalog = Catalog { time_ns: device.now_ns(), ..Catalog::default() };
        let (owner, next_file) = (superblock.manifest_owner(), superblock.manifest.0 + 1);
        let (manifest, bytes) = write_manifest(&*device, &catalog, superblock.epoch, next_file, owner)?;
        superblock.mark_bytes = bytes;
        superblock.write_all(&*device.create(format::SUPERBLOCK_DRAFT_NAME)?)?;
        device.sync_directory()?;
        device.rename(format::SUPERBLOCK_DRAFT_NAME, format::SUPERBLOCK_NAME)?;
        device.sync_directory()?;
        let log = OpenLog { manifest, log_bytes: bytes, snapshot_bytes: bytes };
        Store::assemble(device, options, superblock, catalog, log, Opened::ToWrite { next_file, guard })
    }

    /// Opens a store for writing, at its last commit.
    ///
    /// # Errors
    /// `NotAStore` (nothing is created in such a directory), `UnsupportedVersion`, `Locked`, `Corrupt`, `Incompatible` if
    /// the options ask for another seed or hash kind.
    pub fn open_on(device: Arc<dyn Device>, options: StoreOptions) -> Result<Store> {
        // Before the lock: a lock may leave a file behind, and this may not be ours.
        check_options(&Superblock::read(&*device)?, &options)?;
        let guard = device.lock()?;
        let superblock = Superblock::read(&*device)?;
        device.open(format::SUPERBLOCK_NAME, Access::Write)?.sync()?;
        let file = open_manifest(&*device, &superblock, Access::Write)?;
        let path = device.path().join(file.name());
        let log = manifest::read(&*file, &superblock, &path)?;
        if log.valid_bytes < log.file_bytes {
            file.set_len(log.valid_bytes)?;
        }
        file.sync()?;
        let mut next_file = log.records.last().map_or(0, |record| record.next_file);
        let open_log =
            OpenLog { manifest: file, log_bytes: log.valid_bytes, snapshot_bytes: log.snapshot_bytes };
        let catalog = whole_catalog(&device, &superblock, log.records)?;
        next_file = remove_orphans(&*device, &superblock, &catalog, next_file)?;
        Store::assemble(device, options, superblock, catalog, open_log, Opened::ToWrite { next_file, guard })
    }

    /// Opens the store that is there, or creates one. One that nothing was ever committed to is as good as none: where the options ask for
    /// another seed or hash kind, a new store takes its place.
    ///
    /// # Errors
    /// As [`Store::open_on`] and [`Store::create_on`].
    pub fn open_or_create_on(device: Arc<dyn Device>, options: StoreOptions) -> Result<Store> {
        match device.open(format::SUPERBLOCK_NAME, Access::Read) {
            Err(Error::NotFound { .. }) => Store::create_on(device, options),
            _ => match Store::open_on(Arc::clone(&device), options.clone()) {
                Err(error @ Error::Incompatible { .. }) => Store::begin_anew(device, options)?.ok_or(error),
                opened => opened,
            },
        }
    }

    /// A new store in the place of one that nothing was ever committed to; none if something was.
    fn begin_anew(device: Arc<dyn Device>, options: StoreOptions) -> Result<Option<Store>> {
        let guard = device.lock()?;
        let superblock = Superblock::read(&*device)?;
        let file = open_manifest(&*device, &superblock, Access::Read)?;
        let log = manifest::read(&*file, &superblock, &device.path().join(file.name()))?;
        let Some(last) = log.records.last().filter(|last| last.commit == 0) else { return Ok(None) };
        // The one there is whole until the other's superblock has its name.
        let next_file = remove_orphans(&*device, &superblock, &Catalog::default(), last.next_file)?;
        match device.remove(format::SUPERBLOCK_DRAFT_NAME) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let store = Store::begin(Arc::clone(&device), options, guard, FileId(next_file))?;
        // What stays is removed as an orphan by the next open.
        let _ = device.remove(file.name());
        Ok(Some(store))
    }

    pub(super) fn assemble(
        device: Arc<dyn Device>,
        options: StoreOptions,
        superblock: Superblock,
        catalog: Catalog,
        log: OpenLog,
        access: Opened,
    ) -> Result<Store> {
        let poison = Poison::new(device.path());
        let (shared, store_id) = (Arc::clone(&device), superblock.store_id);
        let (files, guard) = match access {
            Opened::ToRead { pins } => (Files::pinned(shared, store_id, poison.clone(), pins), None),
            Opened::ToWrite { next_file, guard } => {
                (Files::new(shared, store_id, poison.clone(), next_file), Some(guard))
            }
        };
        let read_only = guard.is_none();
        let threads = if read_only { 0 } else { options.threads };
        let workers = Workers::new(threads, poison.clone());
        let core = Arc::new(Core {
            files,
            budget: Budget::new(options.memory_bytes),
            poison,
            read_only,
            hasher: KeyHasher::new(superblock.hash_kind, superblock.seed),
            store_id: superblock.store_id,
            journal: Mutex::new(Journal {
                superblock,
                manifest: log.manifest,
                log_bytes: log.log_bytes,
                snapshot_bytes: log.snapshot_bytes,
                dead: Vec::new(),
                has_reserve: false,
            }),
            state: Mutex::new(State {
                catalog: Arc::new(catalog),
                format_version: superblock.version,
                ..State::default()
            }),
            opened: Condvar::new(),
            device,
            options,
            lock: Mutex::new(guard),
        });
        if !read_only {
            lock(&core.journal).has_reserve = core.keep_reserve();
        }
        let owner = Arc::new(Owner { core: Arc::clone(&core), workers });
        Ok(Store { core, owner })
    }
}

/// A manifest that was read, up to its last whole record.
pub(super) struct OpenLog {
    pub(super) manifest: Arc<dyn DeviceFile>,
    pub(super) log_bytes: u64,
    pub(super) snapshot_bytes: u64,
}

/// What a store is opened for.
pub(super) enum Opened {
    ToRead { pins: Pins },
    ToWrite { next_file: u64, guard: Box<dyn LockGuard> },
}

pub(super) fn open_manifest(
    device: &dyn Device,
    superblock: &Superblock,
    access: Access,
) -> Result<Arc<dyn DeviceFile>> {
    open_committed(device, &format::manifest_name(superblock.manifest), access)
}

/// Refuses a directory that holds anything but what an interrupted creation leaves; returns those leftovers.
fn check_empty(device: &dyn Device) -> Result<Vec<String>> {
    let names = device.list()?;
    if names.iter().any(|name| name == format::SUPERBLOCK_NAME) {
        return Err(Error::AlreadyExists { what: "store", name: device.path().display().to_string() });
    }
    let first_manifest = format::manifest_name(FileId(1));
    let is_leftover = |name: &&String| **name == first_manifest || *name == format::SUPERBLOCK_DRAFT_NAME;
    if let Some(foreign) = names.iter().find(|name| !is_leftover(name)) {
        let why =
            format!("it holds other files, such as {foreign:?}; create the store in an empty directory");
        return Err(Error::NotAStore { path: device.path(), why });
    }
    Ok(names)
}

pub(super) fn check_options(superblock: &Superblock, options: &StoreOptions) -> Result<()> {
    if options.seed.is_some_and(|seed| seed != superblock.seed) {
        let fingerprint = |seed: Seed| format!("of fingerprint {:016x}", seed.fingerprint());
        let (expected, found) = (fingerprint(superblock.seed), fingerprint(options.seed.unwrap_or_default()));
        return Err(Error::Incompatible { what: "seed", expected, found });
    }
    let asked: HashKind = options.hash_kind.unwrap_or(superblock.hash_kind);
    if asked != superblock.hash_kind {
        let (expected, found) = (format!("{:?}", superblock.hash_kind), format!("{asked:?}"));
        return Err(Error::Incompatible { what: "hash kind", expected, found });
    }
    Ok(())
}

/// What the last commit says, with the records that are files of their own.
pub(super) fn whole_catalog(
    device: &Arc<dyn Device>,
    superblock: &Superblock,
    records: Vec<ManifestRecord>,
) -> Result<Catalog> {
    let mut catalog = Catalog::replay(records);
    let files = Files::new(Arc::clone(device), superblock.store_id, Poison::new(device.path()), 0);
    catalog.load_spilled(&files)?;
    Ok(catalog)
}

/// Removes our files that the last commit does not name and syncs the directory; returns a file number above all that
/// were ever there.
fn remove_orphans(
    device: &dyn Device,
    superblock: &Superblock,
    catalog: &Catalog,
    next_file: u64,
) -> Result<u64> {
    let mut next_file = next_file.max(superblock.manifest.0 + 1);
    let needed: BTreeSet<FileId> = catalog.files().map(|file| file.id).collect();
    let names = device.list()?;
    for name in &names {
        let Some(file) = format::parse_name(name) else { continue };
        let (id, is_needed) = match file {
            NamedFile::Manifest(id) => (id, id == superblock.manifest),
            NamedFile::Data(id) => (id, needed.contains(&id)),
        };
        next_file = next_file.max(id.0.saturating_add(1));
        if !is_needed {
            remove_file(device, file)?;
        }
    }
    for id in needed {
        let name = format::data_name(id);
        if names.binary_search(&name).is_err() {
            return Err(missing(&device.path().join(name)));
        }
    }
    device.sync_directory()?;
    Ok(next_file)
}

/// Opens a file that the last commit needs: one that is not there is damage, not a wrong name.
pub(super) fn open_committed(device: &dyn Device, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
    match device.open(name, access) {
        Err(Error::NotFound { .. }) => Err(missing(&device.path().join(name))),
        file => file,
    }
}
