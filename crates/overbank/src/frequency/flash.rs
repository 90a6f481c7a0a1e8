//! The pages on flash: groups in extents of a file that is written in place, but never over what somebody may still read.
//!
//! ```text
//!   table:    group 0 ─▶ extent 2      file:  │ extent 0 │ extent 1 │ extent 2 │ extent 3 │
//!             group 1 ─▶ extent 0               group 1    free       group 0    what the last commit
//!                                                                                names for group 0
//! ```
//!
//! 1. An extent is held by the table of groups, by the last commit and the one under way, and by readers; writes go to extents that
//!    nobody holds. Who holds extents for a while has a [`Pin`] and need not remember to let go.
//! 2. A group's place changes after its new extent is written whole. Its sequence says which logs it holds: those up to it. A log is
//!    applied to a group only if the group's sequence is below the log's.
//! 3. A group without an extent is all zeros and is not read.
//! 4. Only the holder of the upkeep's lock writes extents; anybody reads what is pinned.

use super::format::{GroupPlace, NO_EXTENT, require};
use super::shape::Shape;
use crate::Result;
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile};
use crate::lock::lock;
use crate::store::{FileId, FileRef, Files};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The file that holds the groups of a sketch.
#[derive(Debug)]
pub(super) struct PagesFile {
    shape: Shape,
    id: FileId,
    file: Arc<dyn DeviceFile>,
    owner: BlockOwner,
    path: PathBuf,
    space: Mutex<Space>,
    is_synced: AtomicBool,
}

/// The extents of a pages file.
#[derive(Default, Debug)]
struct Space {
    /// How many hold each extent.
    holds: Vec<u32>,
    /// The extents that nobody holds.
    free: Vec<u32>,
    /// Extents up to the last one that was written whole: the file has these.
    written: u32,
}

impl Space {
    /// A free extent, held by the caller.
    fn take(&mut self) -> u32 {
        let extent = self.free.pop().unwrap_or_else(|| {
            self.holds.push(0);
            self.holds.len() as u32 - 1
        });
        self.hold(extent);
        extent
    }

    fn hold(&mut self, extent: u32) {
        if let Some(holds) = self.holds.get_mut(extent as usize) {
            *holds += 1;
        }
    }

    fn release(&mut self, extent: u32) {
        let Some(holds) = self.holds.get_mut(extent as usize) else { return };
        *holds -= 1;
        if *holds == 0 {
            self.free.push(extent);
        }
    }
}

/// Extents that stay as they are while this lives.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) file: Arc<PagesFile>,
    /// May have [`NO_EXTENT`], which is nothing.
    pub(super) extents: Vec<u32>,
}

impl Pin {
    /// Holds `extents` of `file`, which somebody else holds now.
    pub(super) fn new(file: &Arc<PagesFile>, extents: Vec<u32>) -> Self {
        let mut space = lock(&file.space);
        extents.iter().filter(|&&extent| extent != NO_EXTENT).for_each(|&extent| space.hold(extent));
        drop(space);
        Pin { file: Arc::clone(file), extents }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut space = lock(&self.file.space);
        // From the back, so that the lowest are taken first and the file stays short.
        let extents = self.extents.iter().rev().filter(|&&extent| extent != NO_EXTENT);
        extents.for_each(|&extent| space.release(extent));
    }
}

impl PagesFile {
    pub(super) fn create(files: &Files, shape: Shape) -> Result<Arc<Self>> {
        let (id, file) = files.create()?;
        let (owner, path) = (files.owner(id), files.path(id));
        let (space, is_synced) = (Mutex::default(), AtomicBool::new(true));
        Ok(Arc::new(PagesFile { shape, id, file, owner, path, space, is_synced }))
    }

    /// The file of the last commit, with its number of extents; nobody holds them yet.
    pub(super) fn open(files: &Files, shape: Shape, file_ref: &FileRef, extents: u32) -> Result<Arc<Self>> {
        let file = files.open(file_ref)?;
        // The file has these extents, so the lists are not longer than what was written.
        let free = (0..extents).rev().collect();
        let space = Space { holds: vec![0; extents as usize], free, written: extents };
        Ok(Arc::new(PagesFile {
            shape,
            id: file_ref.id,
            file,
            owner: files.owner(file_ref.id),
            path: files.path(file_ref.id),
            space: Mutex::new(space),
            is_synced: AtomicBool::new(true),
        }))
    }

    /// Holds what a table that was read back names, for that table.
    pub(super) fn hold_all(&self, places: &[GroupPlace]) {
        let mut space = lock(&self.space);
        for place in places.iter().filter(|place| place.extent != NO_EXTENT) {
            space.hold(place.extent);
        }
        let Space { holds, free, .. } = &mut *space;
        free.retain(|&extent| holds[extent as usize] == 0);
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn file(&self) -> &dyn DeviceFile {
        &*self.file
    }

    /// How many extents it has.
    pub(super) fn extents(&self) -> u32 {
        lock(&self.space).written
    }

    /// The file as a commit names it; `None` if its first write failed, so that it holds nothing.
    pub(super) fn file_ref(&self) -> Option<FileRef> {
        let bytes = u64::from(self.extents()) * self.shape.group_bytes() as u64;
        (bytes > 0).then_some(FileRef { id: self.id, bytes, xxh3: 0 })
    }

    pub(super) fn sync(&self) -> Result<()> {
        if !self.is_synced.load(Ordering::Acquire) {
            self.file.sync()?;
            self.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Lets go of an extent that the table named.
    pub(super) fn release(&self, extent: u32) {
        if extent != NO_EXTENT {
            lock(&self.space).release(extent);
        }
    }

    /// Forgets extents behind the file's end. Nothing is being written now.
    pub(super) fn trim(&self) {
        let mut space = lock(&self.space);
        let written = space.written;
        space.holds.truncate(written as usize);
        space.free.retain(|&extent| extent < written);
    }

    /// Reads a group into `blocks`; zeros where it was never written.
    pub(super) fn load(&self, group: usize, place: GroupPlace, blocks: &mut [u8]) -> Result<()> {
        let pages = self.shape.pages_of(group);
        if place.extent == NO_EXTENT {
            blocks.fill(0);
            return Ok(());
        }
        let first = self.block_of(place, pages.start);
        let bytes = (pages.end - pages.start) as usize * BLOCK_BYTES;
        self.file.read(first * BLOCK_BYTES as u64, &mut blocks[..bytes])?;
        for (i, block) in blocks[..bytes].chunks_exact(BLOCK_BYTES).enumerate() {
            self.check(block, first + i as u64, pages.start + i as u64, place)?;
        }
        Ok(())
    }

    /// Writes a group to a free extent and says where it is: held, for the table. On any error the extent is free again.
    pub(super) fn write(&self, group: usize, blocks: &mut [u8], sequence: u64) -> Result<GroupPlace> {
        self.is_synced.store(false, Ordering::Release);
        let extent = lock(&self.space).take();
        let pages = self.shape.pages_of(group);
        let first = u64::from(extent) * u64::from(self.shape.group_pages);
        // Whole extents, so that the file's length is a multiple of theirs.
        for (i, block) in blocks.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let page = pages.start + i as u64;
            if page >= pages.end {
                block.fill(0);
            }
            block::seal(block, self.owner, first + i as u64, Seal { tag: page as u32, sequence });
        }
        let written = self.file.write(first * BLOCK_BYTES as u64, blocks);
        let mut space = lock(&self.space);
        if let Err(error) = written {
            space.release(extent);
            return Err(error);
        }
        space.written = space.written.max(extent + 1);
        Ok(GroupPlace { extent, sequence })
    }

    /// The number of a page's block.
    pub(super) fn block_of(&self, place: GroupPlace, page: u64) -> u64 {
        let group_pages = u64::from(self.shape.group_pages);
        u64::from(place.extent) * group_pages + page % group_pages
    }

    /// Refuses what was read as block `number`, if it is not that of the page.
    pub(super) fn check(&self, block: &[u8], number: u64, page: u64, place: GroupPlace) -> Result<()> {
        let seal = block::check(block, self.owner, number, &self.path)?;
        require(&self.path, number, "page", u64::from(page as u32), seal.tag.into())?;
        require(&self.path, number, "sequence of the group", place.sequence, seal.sequence)
    }
}

/// Blocks of the extents that a commit names, group by group.
pub(super) fn live_blocks(shape: Shape, extents: &[u32]) -> Vec<Range<u64>> {
    let live = |(group, &extent): (usize, &u32)| {
        let pages = shape.pages_of(group);
        let first = u64::from(extent) * u64::from(shape.group_pages);
        (extent != NO_EXTENT).then(|| first..first + (pages.end - pages.start))
    };
    extents.iter().enumerate().filter_map(live).collect()
}
