//! What a simulated disk holds: the content programs see, the content that is durable, and what is pending in between.
//!
//! ```text
//!            live  ◀── every operation at once
//!   pending changes: [write][set_len][write] per file     [create][rename][remove] for the directory
//!         durable  ◀── DeviceFile::sync, Device::sync_directory
//! ```
//!
//! Invariants:
//! 1. A clone is cheap: blocks are shared until written, so a disk can be kept for every operation of a workload.
//! 2. A file's data and length become durable by its own sync; its name by the directory's. Neither implies the other.
//! 3. A crash image holds only durable state: nothing is pending on it.

use super::crash::{Plan, Rng};
use crate::device::BLOCK_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECTOR_BYTES: usize = 512;

type Block = Arc<[u8; BLOCK_BYTES]>;
type InodeId = u64;

/// The state of a simulated disk at one instant.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    inodes: BTreeMap<InodeId, Arc<Inode>>,
    names: BTreeMap<Arc<str>, InodeId>,
    durable_names: BTreeMap<Arc<str>, InodeId>,
    pending_names: Vec<NameChange>,
    next_inode: InodeId,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Content,
    durable: Content,
    pending: Vec<Change>,
}

/// Blocks that were never written are `None` and read as zeros.
#[derive(Clone, Debug, Default)]
struct Content {
    blocks: Vec<Option<Block>>,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    SetLen(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create { name: Arc<str>, inode: InodeId },
    Rename { from: Arc<str>, to: Arc<str>, inode: InodeId },
    Remove { name: Arc<str>, inode: InodeId },
}

impl Disk {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    pub(super) fn find(&self, name: &str) -> Option<InodeId> {
        self.names.get(name).copied()
    }

    pub(super) fn create(&mut self, name: &str) -> InodeId {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Arc::default());
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name), inode);
        self.pending_names.push(NameChange::Create { name, inode });
        inode
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let Some((from, inode)) = self.names.remove_entry(from) else { return };
        let to: Arc<str> = to.into();
        self.names.insert(Arc::clone(&to), inode);
        self.pending_names.push(NameChange::Rename { from, to, inode });
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some((name, inode)) = self.names.remove_entry(name) else { return };
        self.pending_names.push(NameChange::Remove { name, inode });
    }

    pub(super) fn sync_directory(&mut self) {
        self.pending_names.clear();
        self.durable_names.clone_from(&self.names);
    }

    pub(super) fn bytes(&self, inode: InodeId) -> u64 {
        self.inodes.get(&inode).map_or(0, |inode| inode.live.bytes)
    }

    /// Bytes of all files that have a name.
    pub(super) fn used_bytes(&self) -> u64 {
        self.names.values().map(|&inode| self.bytes(inode)).sum()
    }

    pub(super) fn read(&self, inode: InodeId, offset: u64, into: &mut [u8]) {
        let Some(inode) = self.inodes.get(&inode) else { return };
        let first = offset as usize / BLOCK_BYTES;
        for (i, out) in into.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            match inode.live.blocks.get(first + i) {
                Some(Some(block)) => out.copy_from_slice(&**block),
                _ => out.fill(0),
            }
        }
    }

    pub(super) fn write(&mut self, inode: InodeId, offset: u64, data: &[u8]) {
        let Some(inode) = self.inodes.get_mut(&inode).map(Arc::make_mut) else { return };
        inode.live.write(offset, data);
        inode.pending.push(Change::Write { offset, data: data.into() });
    }

    pub(super) fn set_len(&mut self, inode: InodeId, bytes: u64) {
        let Some(inode) = self.inodes.get_mut(&inode).map(Arc::make_mut) else { return };
        inode.live.set_len(bytes);
        inode.pending.push(Change::SetLen(bytes));
    }

    pub(super) fn sync(&mut self, inode: InodeId) {
        let Some(inode) = self.inodes.get_mut(&inode).map(Arc::make_mut) else { return };
        inode.durable = inode.live.clone();
        inode.pending.clear();
    }

    /// Whether anything could be lost.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending_names.is_empty() || self.inodes.values().any(|inode| !inode.pending.is_empty())
    }

    /// Flips one stored bit: damage behind the program's back. False if there is no such place.
    pub(super) fn flip_bit(&mut self, name: &str, bit: u64) -> bool {
        let (byte, block) = ((bit / 8) as usize, (bit / 8) as usize / BLOCK_BYTES);
        let inode = self.find(name).and_then(|id| self.inodes.get_mut(&id)).map(Arc::make_mut);
        let Some(inode) = inode.filter(|inode| (byte as u64) < inode.live.bytes) else { return false };
        for content in [&mut inode.live, &mut inode.durable] {
            if let Some(slot) = content.blocks.get_mut(block) {
                let block = slot.get_or_insert_with(zero_block);
                Arc::make_mut(block)[byte % BLOCK_BYTES] ^= 1 << (bit % 8);
            }
        }
        true
    }

    /// A disk as a power cut could leave this one.
    pub(super) fn crash(&self, plan: Plan, rng: &mut Rng) -> Disk {
        let mut names = self.durable_names.clone();
        for change in &self.pending_names {
            if plan.keeps_name(rng) {
                change.apply(&mut names);
            }
        }
        let mut inodes = BTreeMap::new();
        for &id in names.values() {
            if let Some(inode) = self.inodes.get(&id) {
                let content = inode.crash(plan, rng);
                inodes.insert(
                    id,
                    Arc::new(Inode { live: content.clone(), durable: content, pending: Vec::new() }),
                );
            }
        }
        Disk {
            inodes,
            durable_names: names.clone(),
            names,
            pending_names: Vec::new(),
            next_inode: self.next_inode,
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<Arc<str>, InodeId>) {
        match self {
            NameChange::Create { name, inode } => {
                names.insert(Arc::clone(name), *inode);
            }
            NameChange::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(Arc::clone(to), *inode);
            }
            NameChange::Remove { name, inode } => {
                if names.get(name) == Some(inode) {
                    names.remove(name);
                }
            }
        }
    }
}

impl Inode {
    fn crash(&self, plan: Plan, rng: &mut Rng) -> Content {
        if self.pending.is_empty() || plan.keeps_no_data() {
            return self.durable.clone();
        }
        if plan.keeps_all_data() {
            return self.live.clone();
        }
        let lengths = self.pending.iter().scan(self.durable.bytes, |bytes, change| {
            *bytes = match change {
                Change::Write { offset, data } => (*bytes).max(offset + data.len() as u64),
                Change::SetLen(bytes) => *bytes,
            };
            Some(*bytes)
        });
        let lengths: Vec<u64> = std::iter::once(self.durable.bytes).chain(lengths).collect();
        let mut order: Vec<usize> = (0..self.pending.len()).collect();
        if plan.reorders() {
            rng.shuffle(&mut order);
        }
        let mut content = self.durable.clone();
        let torn = rng.below(order.len() as u64) as usize;
        for (position, change) in order.into_iter().map(|i| &self.pending[i]).enumerate() {
            match change {
                Change::SetLen(bytes) if plan.keeps_operation(rng) => content.set_len(*bytes),
                Change::SetLen(_) => {}
                Change::Write { offset, data } => {
                    content.write_torn(*offset, data, plan, position == torn, rng);
                }
            }
        }
        // The length lives in other blocks than the data: any length that the file had is possible.
        content.set_len(lengths[rng.below(lengths.len() as u64) as usize]);
        content
    }
}

impl Content {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let first = offset as usize / BLOCK_BYTES;
        let end = first + data.len() / BLOCK_BYTES;
        if self.blocks.len() < end {
            self.blocks.resize(end, None);
        }
        for (slot, chunk) in self.blocks[first..end].iter_mut().zip(data.chunks_exact(BLOCK_BYTES)) {
            let mut block = [0; BLOCK_BYTES];
            block.copy_from_slice(chunk);
            *slot = Some(Arc::new(block));
        }
        self.bytes = self.bytes.max(offset + data.len() as u64);
    }

    /// Writes the sectors that `plan` keeps; in the torn write, one of the lost sectors becomes garbage.
    fn write_torn(&mut self, offset: u64, data: &[u8], plan: Plan, torn: bool, rng: &mut Rng) {
        if !plan.tears_sectors() {
            if plan.keeps_operation(rng) {
                self.write(offset, data);
            }
            return;
        }
        let sectors = data.len() / SECTOR_BYTES;
        let garbage = (torn && plan.leaves_garbage()).then(|| rng.below(sectors as u64) as usize);
        let first = offset as usize / BLOCK_BYTES;
        let end = first + data.len() / BLOCK_BYTES;
        if self.blocks.len() < end {
            self.blocks.resize(end, None);
            self.bytes = self.bytes.max(offset + data.len() as u64);
        }
        for (sector, source) in data.chunks_exact(SECTOR_BYTES).enumerate() {
            let kept = plan.keeps_operation(rng);
            if !kept && garbage != Some(sector) {
                continue;
            }
            let at = sector * SECTOR_BYTES;
            let slot = self.blocks[first + at / BLOCK_BYTES].get_or_insert_with(zero_block);
            let target = &mut Arc::make_mut(slot)[at % BLOCK_BYTES..][..SECTOR_BYTES];
            if garbage == Some(sector) {
                target.fill_with(|| rng.next() as u8);
            } else {
                target.copy_from_slice(source);
            }
        }
    }

    fn set_len(&mut self, bytes: u64) {
        self.blocks.resize(bytes as usize / BLOCK_BYTES, None);
        self.bytes = bytes;
    }
}

fn zero_block() -> Block {
    Arc::new([0; BLOCK_BYTES])
}
