//! The simulated device: a disk with a volatile cache, deterministic from one seed, that counts, crashes and fails on
//! demand.
//!
//! ```text
//!   workload ──▶ SimDevice ──▶ Disk { live | pending | durable }
//!                   │  a copy before every changing operation (blocks shared)
//!                   ▼
//!            crash points × Plan × seed ──▶ SimDevice as it is after the power cut ──▶ recovery ──▶ crash again …
//! ```
//!
//! Invariants:
//! 1. The same seed and the same calls give the same bytes, the same random numbers and the same time.
//! 2. Un-synced data may be there or not, in any order, by sector; so may lengths and directory entries, apart from data.
//! 3. What was synced is there, unless a bit was flipped on purpose.
//! 4. Counts are in blocks of [`BLOCK_BYTES`]: the unit in which the papers state their bounds.
//!
//! | | CPU | RAM |
//! |---|---|---|
//! | keeping a crash point | a few pointers a file | shared blocks |
//! | [`SimDevice::crash_at`] | the pending changes | the changed blocks |

mod crash;
mod disk;
#[cfg(test)]
pub(crate) mod explore;
mod fault;
#[cfg(test)]
pub(crate) mod parked;
#[cfg(test)]
pub(crate) mod planted;
#[cfg(any(test, feature = "internals"))]
pub mod tally;
#[cfg(test)]
mod tests;

pub use crash::{Crash, Plan};
pub use fault::{Fault, FaultKind};

use super::memory::{assert_aligned, no_file, past_the_end};
use super::{Access, BLOCK_BYTES, Device, DeviceFile, LockGuard, ReadRequest};
use crate::lock::lock;
use crate::{Error, Result};
use crash::Rng;
use disk::Disk;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// Blocks and syncs, of one file or of all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoCounts {
    /// Blocks read.
    pub blocks_read: u64,
    /// Blocks written.
    pub blocks_written: u64,
    /// Read calls, a batched request counting as one each.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// File syncs.
    pub syncs: u64,
}

/// A simulated disk. Clones share it.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::device::{Device, sim::{Crash, Plan, SimDevice}};
/// let device = SimDevice::new(1);
/// let file = device.create("a")?;
/// file.write(0, &[7; 4096])?;
/// file.sync()?;
/// // The data is durable, but nobody synced the directory: the file is gone.
/// assert!(device.crash(Plan::Nothing, 0).list()?.is_empty());
/// device.sync_directory()?;
/// assert_eq!(device.crash(Plan::Nothing, 0).list()?, ["a"]);
/// # }
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimDevice {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    disk: Disk,
    rng: Rng,
    changes: u64,
    reads: u64,
    total: IoCounts,
    files: BTreeMap<String, IoCounts>,
    faults: Vec<Fault>,
    capacity_bytes: u64,
    crash_points: Option<Vec<Disk>>,
    locked: bool,
    now_ns: u64,
}

impl SimDevice {
    /// An empty disk without a size limit.
    pub fn new(seed: u64) -> Self {
        Self::with_disk(Disk::default(), seed)
    }

    /// Limits the sum of all named files; a write or extension beyond it is `Full`.
    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes of all named files.
    pub fn used_bytes(&self) -> u64 {
        self.state().disk.used_bytes()
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Flips one stored bit of a file (bit 0 is the lowest of byte 0); false where the file has no such bit.
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        self.state().disk.flip_bit(name, bit)
    }

    /// How many changing operations there have been.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// How many reads there have been.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Counts of all files together.
    pub fn io_counts(&self) -> IoCounts {
        self.state().total
    }

    /// Counts of each file that was touched, by name.
    pub fn io_counts_by_file(&self) -> BTreeMap<String, IoCounts> {
        self.state().files.clone()
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        let mut state = self.state();
        state.total = IoCounts::default();
        state.files.clear();
    }

    /// From now on keeps the disk as it is with each changing operation in flight, for [`SimDevice::crash_at`].
    pub fn keep_crash_points(&self) {
        self.state().crash_points = Some(Vec::new());
    }

    /// How many crash points are kept.
    pub fn crash_points(&self) -> usize {
        self.state().crash_points.as_ref().map_or(0, Vec::len)
    }

    /// Whether anything is un-synced at a kept crash point: if not, all plans give the same disk.
    pub fn is_pending_at(&self, operation: usize) -> bool {
        self.state().crash_points.as_ref().and_then(|p| p.get(operation)).is_some_and(Disk::is_pending)
    }

    /// The disk after a power cut at a kept crash point; `None` if there is no such point.
    pub fn crash_at(&self, crash: Crash) -> Option<SimDevice> {
        let state = self.state();
        let disk = state.crash_points.as_ref()?.get(crash.operation)?;
        Some(Self::with_disk(disk.crash(crash.plan, &mut Rng::new(crash.seed)), crash.seed))
    }

    /// The disk after a power cut now.
    pub fn crash(&self, plan: Plan, seed: u64) -> SimDevice {
        Self::with_disk(self.state().disk.crash(plan, &mut Rng::new(seed)), seed)
    }

    /// A copy of the disk as it is, pending changes included, without faults and counts.
    pub fn fork(&self) -> SimDevice {
        Self::with_disk(self.state().disk.clone(), 0)
    }

    fn with_disk(disk: Disk, seed: u64) -> Self {
        let state = State {
            disk,
            rng: Rng::new(seed ^ 0x0b5e_55ed),
            changes: 0,
            reads: 0,
            total: IoCounts::default(),
            files: BTreeMap::new(),
            faults: Vec::new(),
            capacity_bytes: u64::MAX,
            crash_points: None,
            locked: false,
            now_ns: 1_700_000_000_000_000_000,
        };
        SimDevice { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a test must not hide the disk from the report that follows.
        lock(&self.state)
    }
}

impl Device for SimDevice {
    fn describe(&self) -> String {
        "simulated".to_owned()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("simulated")
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut state = self.state();
        state.begin_read("list", "simulated", 0)?;
        Ok(state.disk.names().map(str::to_owned).collect())
    }

    fn create(&self, name: &str) -> Result<Arc<dyn DeviceFile>> {
        let mut state = self.state();
        if state.disk.find(name).is_some() {
            return Err(Error::AlreadyExists { what: "file", name: name.to_owned() });
        }
        let mut inode = None;
        state.change("create", name, Some(0), |disk| inode = Some(disk.create(name)))?;
        let inode = inode.ok_or_else(|| no_file(name))?;
        Ok(Arc::new(SimFile { device: self.clone(), name: name.to_owned(), inode, access: Access::Write }))
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn DeviceFile>> {
        let mut state = self.state();
        state.begin_read("open", name, 0)?;
        let inode = state.disk.find(name).ok_or_else(|| no_file(name))?;
        Ok(Arc::new(SimFile { device: self.clone(), name: name.to_owned(), inode, access }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        state.disk.find(from).ok_or_else(|| no_file(from))?;
        state.change("rename", from, Some(0), |disk| disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        state.disk.find(name).ok_or_else(|| no_file(name))?;
        state.change("remove", name, None, |disk| disk.remove(name))
    }

    fn sync_directory(&self) -> Result<()> {
        self.state().change("sync", "simulated", None, Disk::sync_directory)
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        let mut state = self.state();
        if std::mem::replace(&mut state.locked, true) {
            return Err(Error::Locked { path: self.path(), pid: std::process::id() });
        }
        Ok(Box::new(SimLock(self.clone())))
    }

    fn random_128(&self) -> Result<u128> {
        let mut state = self.state();
        Ok(u128::from(state.rng.next()) << 64 | u128::from(state.rng.next()))
    }

    fn now_ns(&self) -> u64 {
        let mut state = self.state();
        state.now_ns += 1_000_000;
        state.now_ns
    }
}

impl State {
    fn count(&mut self, name: &str, add: impl Fn(&mut IoCounts)) {
        add(&mut self.total);
        match self.files.get_mut(name) {
            Some(counts) => add(counts),
            None => add(self.files.entry(name.to_owned()).or_default()),
        }
    }

    /// Applies one changing operation, unless a fault strikes. `grows` is what it needs of the capacity, `None` if
    /// it needs no space at all.
    fn change(
        &mut self,
        op: &'static str,
        name: &str,
        grows: Option<u64>,
        apply: impl FnOnce(&mut Disk),
    ) -> Result<()> {
        let fault = self.begin_change(grows.is_some());
        if let Some(kind) = fault {
            if kind == FaultKind::Crash {
                // The operation is in flight: it may reach the disk, but nobody hears of it.
                if op != "sync" {
                    apply(&mut self.disk);
                }
            }
            return Err(kind.error(op, name, grows.unwrap_or(0)));
        }
        let grows = grows.unwrap_or(0);
        if grows > 0 && self.disk.used_bytes().saturating_add(grows) > self.capacity_bytes {
            return Err(FaultKind::Enospc.error(op, name, grows));
        }
        if op == "sync" {
            self.keep_crash_point();
            apply(&mut self.disk);
        } else {
            apply(&mut self.disk);
            self.keep_crash_point();
        }
        Ok(())
    }

    /// A crash point is the disk with the operation in flight: a sync's promise is not yet given, anything else is
    /// pending.
    fn keep_crash_point(&mut self) {
        if let Some(points) = &mut self.crash_points {
            points.push(self.disk.clone());
        }
    }

    fn begin_change(&mut self, needs_space: bool) -> Option<FaultKind> {
        let index = self.changes;
        self.changes += 1;
        // A machine that stopped stays stopped, whatever other fault would strike.
        let crash = |f: &&Fault| f.kind == FaultKind::Crash && f.strikes(index, false);
        if let Some(fault) = self.faults.iter().find(crash) {
            return (index == fault.operation).then_some(FaultKind::Crash).or(Some(FaultKind::Eio));
        }
        let strikes = |f: &&Fault| f.strikes(index, false) && (f.kind != FaultKind::Enospc || needs_space);
        self.faults.iter().find(strikes).map(|f| f.kind)
    }

    fn begin_read(&mut self, op: &'static str, name: &str, blocks: u64) -> Result<()> {
        let index = self.reads;
        self.reads += 1;
        let stopped = self
            .faults
            .iter()
            .any(|f| f.kind == FaultKind::Crash && !f.on_reads && self.changes > f.operation);
        let kind = self.faults.iter().find(|f| f.strikes(index, true)).map(|f| f.kind);
        if let Some(kind) = kind.or(stopped.then_some(FaultKind::Crash)) {
            let kind = if kind == FaultKind::Enospc { FaultKind::Eio } else { kind };
            return Err(kind.error(op, name, 0));
        }
        if blocks > 0 {
            self.count(name, |c| {
                c.reads += 1;
                c.blocks_read += blocks;
            });
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimLock(SimDevice);

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

#[derive(Debug)]
struct SimFile {
    device: SimDevice,
    name: String,
    inode: u64,
    access: Access,
}

impl SimFile {
    fn writable(&self, op: &'static str) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(Error::Io {
                op,
                path: PathBuf::from(&self.name),
                source: std::io::ErrorKind::PermissionDenied.into(),
            }),
        }
    }
}

impl DeviceFile for SimFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> Result<u64> {
        let mut state = self.device.state();
        state.begin_read("stat", &self.name, 0)?;
        Ok(state.disk.bytes(self.inode))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        assert_aligned(offset, into.len());
        let mut state = self.device.state();
        state.begin_read("read", &self.name, (into.len() / BLOCK_BYTES) as u64)?;
        let bytes = state.disk.bytes(self.inode);
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > bytes) {
            return Err(past_the_end(&self.name, offset, into.len(), bytes as usize));
        }
        state.disk.read(self.inode, offset, into);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        assert_aligned(offset, data.len());
        self.writable("write")?;
        let mut state = self.device.state();
        let end = offset + data.len() as u64;
        let grows = end.saturating_sub(state.disk.bytes(self.inode));
        let result =
            state.change("write", &self.name, Some(grows), |disk| disk.write(self.inode, offset, data));
        let short = |e: &Error| matches!(e, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::WriteZero);
        if result.as_ref().is_err_and(short) {
            let half = data.len() / BLOCK_BYTES / 2 * BLOCK_BYTES;
            state.disk.write(self.inode, offset, &data[..half]);
        }
        if result.is_ok() {
            state.count(&self.name, |c| {
                c.writes += 1;
                c.blocks_written += (data.len() / BLOCK_BYTES) as u64;
            });
        }
        result
    }

    fn read_many(
        &self,
        requests: &[ReadRequest],
        _depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            buffer.resize(request.bytes as usize, 0);
            self.read(request.offset, &mut buffer)?;
            done(i, &buffer)?;
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        assert_aligned(bytes, 0);
        self.writable("set the length of")?;
        let mut state = self.device.state();
        let grows = bytes.saturating_sub(state.disk.bytes(self.inode));
        let grows = (grows > 0).then_some(grows);
        state.change("set the length of", &self.name, grows, |disk| disk.set_len(self.inode, bytes))
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.device.state();
        state.change("sync", &self.name, None, |disk| disk.sync(self.inode))?;
        state.count(&self.name, |c| c.syncs += 1);
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
