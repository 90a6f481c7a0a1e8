//! The pages on flash: groups in extents of a file that is written in place, but never over what a commit needs.
//!
//! ```text
//!   table:    group 0 ─▶ extent 2      file:  │ extent 0 │ extent 1 │ extent 2 │ extent 3 │
//!             group 1 ─▶ extent 0               group 1    free       group 0    what the last commit
//!                                                                                names for group 0
//! ```
//!
//! 1. An extent that the last commit names, or one under way, or that a group has now, is not free; writes go to free extents only.
//! 2. A group's slot changes after its new extent is written whole. Its sequence says which logs it holds: those up to
//!    it. A log is applied to a group only if the group's sequence is below the log's.
//! 3. A group without an extent is all zeros and is not read.

use super::format::{NO_EXTENT, Slot, require};
use super::place::Shape;
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile, ReadRequest};
use crate::lock::{into_inner, lock};
use crate::store::{FileId, FileRef, Files};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Reads in flight at a time: the depth at which the devices measured here reach their rate.
pub(super) const READ_DEPTH: usize = 128;
/// Longest coalesced read in blocks: a device keeps 4 MiB for reads in flight from call to call, which is 128 of these, and
/// at that depth longer ones are no faster.
const RUN_BLOCKS: u64 = 8;
/// Blocks that nobody asked for and that are read all the same, where that saves a request: a random read at full depth
/// takes about as long as four blocks of a sequential one (9 against 2 microseconds on the device measured here).
const GAP_BLOCKS: u64 = 4;

/// The groups of a sketch on flash.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) shape: Shape,
    pub(super) file: Option<PagesFile>,
    pub(super) table: Vec<Slot>,
    /// What the last commit names.
    pub(super) committed: Vec<u32>,
    /// What the commit under way names, or one that failed.
    prepared: Option<Vec<u32>>,
    pub(super) space: Space,
    pub(super) is_synced: bool,
}

#[derive(Debug)]
pub(super) struct PagesFile {
    id: FileId,
    file: Arc<dyn DeviceFile>,
    owner: BlockOwner,
    path: PathBuf,
}

/// The extents of a pages file.
#[derive(Default, Debug)]
pub(super) struct Space {
    free: Vec<u32>,
    /// Extents that groups have left while a commit is under way: it may name them. `None` where none is.
    left: Option<Vec<u32>>,
    /// Extents that were handed out at some time.
    taken: u32,
    /// Extents up to the last one that was written whole: the file has these.
    written: u32,
}

impl Space {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.taken += 1;
            self.taken - 1
        })
    }

    /// A group has left an extent that the last commit does not name.
    fn leave(&mut self, extent: u32) {
        self.left.as_mut().unwrap_or(&mut self.free).push(extent);
    }

    /// Nothing is being written now: extents behind the file's end are forgotten.
    pub(super) fn trim(&mut self) {
        self.taken = self.written;
        self.free.retain(|&extent| extent < self.written);
    }
}

impl Pages {
    pub(super) fn new(shape: Shape) -> Self {
        let groups = shape.groups();
        Pages {
            shape,
            file: None,
            table: vec![Slot::EMPTY; groups],
            committed: vec![NO_EXTENT; groups],
            prepared: None,
            space: Space::default(),
            is_synced: true,
        }
    }

    /// The pages of the last commit; `file_ref` is `None` where no group was ever written.
    pub(super) fn open(
        files: &Files,
        shape: Shape,
        file_ref: Option<FileRef>,
        table: Vec<Slot>,
        extents: u32,
    ) -> Result<Self> {
        let open = |file_ref: FileRef| {
            let (id, owner, path) = (file_ref.id, files.owner(file_ref.id), files.path(file_ref.id));
            Ok::<_, Error>(PagesFile { id, file: files.open(&file_ref)?, owner, path })
        };
        let committed: Vec<u32> = table.iter().map(|slot| slot.extent).collect();
        let mut is_free = vec![true; extents as usize];
        for &extent in committed.iter().filter(|&&extent| extent != NO_EXTENT) {
            is_free[extent as usize] = false;
        }
        // Low extents last, so that they are taken first and the file stays short.
        let free = (0..extents).rev().filter(|&extent| is_free[extent as usize]).collect();
        let file = file_ref.map(open).transpose()?;
        let space = Space { free, left: None, taken: extents, written: extents };
        Ok(Pages { shape, file, table, committed, prepared: None, space, is_synced: true })
    }

    pub(super) fn table(&self) -> &[Slot] {
        &self.table
    }

    pub(super) fn extents(&self) -> u32 {
        self.space.written
    }

    /// The file as a commit names it.
    pub(super) fn file_ref(&self) -> Option<FileRef> {
        let bytes = u64::from(self.extents()) * self.shape.group_bytes() as u64;
        // A file whose first write failed holds nothing.
        let file = self.file.as_ref().filter(|_| self.extents() > 0);
        file.map(|file| FileRef { id: file.id, bytes, xxh3: 0 })
    }

    /// Gives the file up.
    pub(super) fn discard(self, files: &Files) {
        if let Some(file) = self.file {
            files.retire(file.id);
        }
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| !self.is_synced) {
            file.file.sync()?;
        }
        self.is_synced = true;
        Ok(())
    }

    /// The present table is that of the commit under way.
    pub(super) fn prepare(&mut self) {
        self.prepared = Some(self.table.iter().map(|slot| slot.extent).collect());
        self.space.left = Some(Vec::new());
    }

    /// The commit under way has failed: what only it named is free.
    pub(super) fn call_off(&mut self) {
        self.prepared = None;
        self.space.free.extend(self.space.left.take().unwrap_or_default());
    }

    /// What the commit under way names is what the last commit does now; what only the one before needed is free.
    pub(super) fn committed(&mut self) {
        // Pages that took the place of those of the commit have none.
        let Some(prepared) = self.prepared.take() else { return };
        let mut left = self.space.left.take().unwrap_or_default();
        for (old, new) in self.committed.iter_mut().zip(prepared) {
            if *old != new {
                if *old != NO_EXTENT {
                    left.push(*old);
                }
                *old = new;
            }
        }
        let named: BTreeSet<u32> =
            if left.is_empty() { BTreeSet::new() } else { self.committed.iter().copied().collect() };
        self.space.free.extend(left.into_iter().filter(|extent| !named.contains(extent)));
    }

    /// Blocks of the last commit.
    pub(super) fn live_blocks(&self) -> Vec<Range<u64>> {
        let live = |(group, &extent): (usize, &u32)| {
            let pages = self.shape.pages_of(group);
            let first = u64::from(extent) * u64::from(self.shape.group_pages);
            (extent != NO_EXTENT).then(|| first..first + (pages.end - pages.start))
        };
        self.committed.iter().enumerate().filter_map(live).collect()
    }

    /// Reads pages into `into`, one block each, in the order of `pages`, which ascend. Zeros where nothing was written.
    pub(super) fn read(&self, pages: &[u64], into: &mut [u8]) -> Result<()> {
        let shape = self.shape;
        let Some(file) = &self.file else {
            into[..pages.len() * BLOCK_BYTES].fill(0);
            return Ok(());
        };
        let mut wanted = Vec::with_capacity(pages.len());
        for (i, &page) in pages.iter().enumerate() {
            let slot = self.table[(page / u64::from(shape.group_pages)) as usize];
            if slot.extent == NO_EXTENT {
                into[i * BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
            } else {
                wanted.push((block_of(shape, slot, page), i));
            }
        }
        wanted.sort_unstable();
        read_blocks(&*file.file, &wanted, |_, i, block| {
            self.accept(pages[i], block, &mut into[i * BLOCK_BYTES..][..BLOCK_BYTES])
        })
    }

    /// The file and block of a page; `None` where nothing was written, which is all zeros.
    pub(super) fn place_of(&self, page: u64) -> Option<(&dyn DeviceFile, u64)> {
        let (slot, file) = (self.slot_of(page), self.file.as_ref()?);
        (slot.extent != NO_EXTENT).then(|| (&*file.file, block_of(self.shape, slot, page)))
    }

    /// Checks what was read at the place of a page, and takes it.
    pub(super) fn accept(&self, page: u64, block: &[u8], into: &mut [u8]) -> Result<()> {
        if let Some(file) = &self.file {
            let slot = self.slot_of(page);
            check(file, block, block_of(self.shape, slot, page), page, slot)?;
            into.copy_from_slice(block);
        }
        Ok(())
    }

    pub(super) fn slot_of(&self, page: u64) -> Slot {
        self.table[(page / u64::from(self.shape.group_pages)) as usize]
    }

    /// Writes a group to a free extent; on any error the old one is still the group's.
    pub(super) fn store(
        &mut self,
        files: &Files,
        group: usize,
        blocks: &mut [u8],
        sequence: u64,
    ) -> Result<()> {
        self.is_synced = false;
        let shape = self.shape;
        let space = Mutex::new(std::mem::take(&mut self.space));
        let file = self.file_to_write(files);
        let stored = file.and_then(|file| file.write(shape, &space, group, blocks, sequence));
        self.space = into_inner(space);
        self.space.trim();
        let old = std::mem::replace(&mut self.table[group], stored?);
        if old.extent != NO_EXTENT && old.extent != self.committed[group] {
            self.space.leave(old.extent);
        }
        Ok(())
    }

    /// The file, made if there is none.
    pub(super) fn file_to_write(&mut self, files: &Files) -> Result<&PagesFile> {
        let made = match self.file.take() {
            Some(file) => file,
            None => {
                let (id, file) = files.create()?;
                PagesFile { id, file, owner: files.owner(id), path: files.path(id) }
            }
        };
        Ok(self.file.insert(made))
    }
}

impl PagesFile {
    /// Reads a group into `blocks`; zeros where it was never written.
    pub(super) fn load(&self, shape: Shape, group: usize, slot: Slot, blocks: &mut [u8]) -> Result<()> {
        let pages = shape.pages_of(group);
        if slot.extent == NO_EXTENT {
            blocks.fill(0);
            return Ok(());
        }
        let first = block_of(shape, slot, pages.start);
        let bytes = (pages.end - pages.start) as usize * BLOCK_BYTES;
        self.file.read(first * BLOCK_BYTES as u64, &mut blocks[..bytes])?;
        for (i, block) in blocks[..bytes].chunks_exact(BLOCK_BYTES).enumerate() {
            check(self, block, first + i as u64, pages.start + i as u64, slot)?;
        }
        Ok(())
    }

    /// Writes a group to a free extent and says where it is; on any error the extent is free again.
    pub(super) fn write(
        &self,
        shape: Shape,
        space: &Mutex<Space>,
        group: usize,
        blocks: &mut [u8],
        sequence: u64,
    ) -> Result<Slot> {
        let lock = || lock(&space);
        let extent = lock().take();
        let pages = shape.pages_of(group);
        let first = u64::from(extent) * u64::from(shape.group_pages);
        // Whole extents, so that the file's length is a multiple of theirs.
        for (i, block) in blocks.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let page = pages.start + i as u64;
            if page >= pages.end {
                block.fill(0);
            }
            block::seal(block, self.owner, first + i as u64, Seal { tag: page as u32, sequence });
        }
        let written = self.file.write(first * BLOCK_BYTES as u64, blocks);
        let mut space = lock();
        if let Err(error) = written {
            space.free.push(extent);
            return Err(error);
        }
        space.written = space.written.max(extent + 1);
        Ok(Slot { extent, sequence })
    }
}

/// Gives an extent back that neither the last commit names nor a group has.
pub(super) fn give_back(space: &Mutex<Space>, extent: u32) {
    lock(space).leave(extent);
}

fn block_of(shape: Shape, slot: Slot, page: u64) -> u64 {
    let group_pages = u64::from(shape.group_pages);
    u64::from(slot.extent) * group_pages + page % group_pages
}

fn check(file: &PagesFile, block: &[u8], number: u64, page: u64, slot: Slot) -> Result<()> {
    let seal = block::check(block, file.owner, number, &file.path)?;
    require(&file.path, number, "page", u64::from(page as u32), seal.tag.into())?;
    require(&file.path, number, "sequence of the group", slot.sequence, seal.sequence)
}

/// Reads the blocks of `wanted`, (number, tag) in ascending order, in as few requests as pay; calls
/// `done(number, tag, block)` for each, in any order.
pub(super) fn read_blocks(
    file: &dyn DeviceFile,
    wanted: &[(u64, usize)],
    mut done: impl FnMut(u64, usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut requests: Vec<ReadRequest> = Vec::new();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < wanted.len() {
        let first = wanted[at].0;
        let mut end = at + 1;
        while end < wanted.len()
            && wanted[end].0 - wanted[end - 1].0 <= GAP_BLOCKS
            && wanted[end].0 - first < RUN_BLOCKS
        {
            end += 1;
        }
        let blocks = wanted[end - 1].0 - first + 1;
        requests.push(ReadRequest {
            offset: first * BLOCK_BYTES as u64,
            bytes: blocks as u32 * BLOCK_BYTES as u32,
        });
        ranges.push(at..end);
        at = end;
    }
    file.read_many(&requests, READ_DEPTH, &mut |request, bytes| {
        let first = requests[request].offset / BLOCK_BYTES as u64;
        for &(number, tag) in &wanted[ranges[request].clone()] {
            let at = (number - first) as usize * BLOCK_BYTES;
            done(number, tag, &bytes[at..at + BLOCK_BYTES])?;
        }
        Ok(())
    })
}
