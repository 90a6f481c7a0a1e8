//! Opens a segment and reads its blocks.

use super::format::{DATA_TAG, FOOTER_BYTES, FOOTER_TAG, Footer, INDEX_TAG, META_TAG, place_in_page};
use super::index::BlockIndex;
use super::{BODY_BYTES, Scan, SegmentKind};
use crate::bytes::ByteReader;
use crate::device::block::{self, BlockOwner};
use crate::device::{AlignedBuf, BLOCK_BYTES, DeviceFile};
use crate::error::corrupt;
use crate::store::{FileRef, Files};
use crate::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much is read at a time where a part is read in a row.
#[cfg(any(test, feature = "internals"))]
const STREAM_BYTES: usize = 1 << 20;

/// An open segment. Shared by all threads; it stays readable after its file is removed.
#[derive(Debug)]
pub struct Segment {
    file: Arc<dyn DeviceFile>,
    owner: BlockOwner,
    file_ref: FileRef,
    footer: Footer,
    index: BlockIndex,
    meta: Vec<u8>,
    is_synced: AtomicBool,
}

impl Segment {
    /// Opens the segment that a [`SegmentWriter`](super::SegmentWriter) finished, and reads its index and meta bytes.
    ///
    /// # Cost
    /// A block read; of more than some 900 data blocks, or 4,008 bytes of meta, one more for every 952 data blocks and for every 4,080
    /// bytes of meta.
    ///
    /// # Errors
    /// `Incompatible` if it is of another structure, seed or hash than `kind`; `UnsupportedVersion`; `Corrupt`.
    pub fn open(files: &Files, file_ref: &FileRef, kind: SegmentKind) -> Result<Self> {
        Self::open_since(files, file_ref, kind, kind.structure.version)
    }

    /// As [`Segment::open`], of any version of the structure from `oldest_version` up to `kind`'s; [`Segment::kind`] tells which one
    /// it is.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub fn open_since(
        files: &Files,
        file_ref: &FileRef,
        kind: SegmentKind,
        oldest_version: u16,
    ) -> Result<Self> {
        let file = files.open(file_ref)?;
        let owner = files.owner(file_ref.id);
        let path = Path::new(file.name());
        let blocks = file_ref.bytes / BLOCK_BYTES as u64;
        if blocks == 0 || !file_ref.bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(corrupt(
                path,
                0,
                "file length in bytes",
                "a multiple of 4096, not 0",
                file_ref.bytes,
            ));
        }
        let last = read_part(&*file, owner, blocks - 1..blocks, BODY_BYTES as u64, FOOTER_TAG)?;
        let footer = Footer::decode(&last, file_ref.bytes, path)?;
        same_kind(kind, oldest_version, footer.kind)?;
        let index_at = footer.blocks;
        let meta_at = index_at + footer.index_blocks();
        let tail_bytes = footer.tail_bytes();
        let whole_bytes = footer.index_bytes() - tail_bytes.unwrap_or(0);
        let mut index = read_part(&*file, owner, index_at..meta_at, whole_bytes, INDEX_TAG)?;
        let meta = if let Some(tail_bytes) = tail_bytes {
            // The footer has seen to it that there are so many bytes.
            let rest = last.get(FOOTER_BYTES..).unwrap_or_default();
            let (tail, rest) = rest.split_at(tail_bytes as usize);
            index.extend_from_slice(tail);
            rest[..footer.meta_bytes as usize].to_vec()
        } else {
            let meta_end = meta_at + footer.meta_blocks();
            read_part(&*file, owner, meta_at..meta_end, footer.meta_bytes, META_TAG)?
        };
        let hashes = (footer.first_hash, footer.last_hash);
        let index_at = index_at * BLOCK_BYTES as u64;
        let index = BlockIndex::decode(footer.index, &index, footer.blocks, hashes, index_at, path)?;
        let is_synced = AtomicBool::new(true);
        Ok(Self { file, owner, file_ref: *file_ref, footer, index, meta, is_synced })
    }

    /// What a writer has just written; not durable yet.
    pub(super) fn written(
        file: Arc<dyn DeviceFile>,
        owner: BlockOwner,
        file_ref: FileRef,
        footer: Footer,
        index: BlockIndex,
        meta: &[u8],
    ) -> Self {
        let is_synced = AtomicBool::new(false);
        Self { file, owner, file_ref, footer, index, meta: meta.to_vec(), is_synced }
    }

    /// Makes it durable, unless it is. A failed sync is not tried again: the store is poisoned.
    ///
    /// # Errors
    /// What the device says.
    pub fn sync(&self) -> Result<()> {
        if !self.is_synced.load(Ordering::Acquire) {
            self.file.sync()?;
            self.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What it is of.
    pub fn kind(&self) -> SegmentKind {
        self.footer.kind
    }

    /// The file, as a commit's record names it.
    pub fn file_ref(&self) -> FileRef {
        self.file_ref
    }

    /// Data blocks.
    pub fn blocks(&self) -> u64 {
        self.footer.blocks
    }

    /// Entries, as the writer counted them.
    pub fn entries(&self) -> u64 {
        self.footer.entries
    }

    /// The least and the greatest hash; `None` if it is empty.
    pub fn hash_range(&self) -> Option<(u64, u64)> {
        (self.footer.blocks > 0).then_some((self.footer.first_hash, self.footer.last_hash))
    }

    /// The structure's own bytes.
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Gives the structure's own bytes away, where it keeps what they say in another form.
    pub(crate) fn take_meta(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.meta)
    }

    /// RAM that the index and the meta bytes take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.meta.capacity()
    }

    /// The blocks that may hold `hash` (its 64 most significant bits): none if it is outside the segment's range. Under fences, one,
    /// and rarely more; under a quantised index, all blocks of one page. A hash that is in the segment is in them.
    ///
    /// # Cost
    /// Two cache misses, no I/O.
    pub fn find(&self, hash: u64) -> Range<u64> {
        self.index.find(hash)
    }

    /// Has on its way what a [`Segment::find`] of this hash will read: asked some 16 hashes ahead, the cache misses of a batch are
    /// under way together.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// How many data blocks, from the first on, may hold a hash below `hash`: no other does.
    ///
    /// # Cost
    /// Two cache misses, no I/O.
    pub fn blocks_below(&self, hash: u64) -> u64 {
        self.index.begin_below(hash)
    }

    /// Reads data blocks with up to `depth` reads in flight; `done(i, body)` is called for `numbers[i]` as it arrives, in
    /// any order. Sorting and leaving out repetitions is the caller's.
    ///
    /// # Cost
    /// One block read a number; `depth` blocks of RAM, and 16 bytes a number.
    ///
    /// # Errors
    /// `InvalidOption` for a number that is no data block; `Corrupt`; what `done` fails with.
    #[cfg(any(test, feature = "internals"))]
    pub fn read_blocks(
        &self,
        numbers: &[u64],
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(bad) = numbers.iter().find(|&&number| number >= self.footer.blocks) {
            return Err(Error::InvalidOption {
                name: "block",
                value: bad.to_string(),
                why: format!("the segment has {} blocks", self.footer.blocks),
            });
        }
        let requests: Vec<_> = numbers
            .iter()
            .map(|&n| crate::device::ReadRequest {
                offset: n * BLOCK_BYTES as u64,
                bytes: BLOCK_BYTES as u32,
            })
            .collect();
        let path = Path::new(self.file.name());
        self.file.read_many(&requests, depth, &mut |i, bytes| {
            done(i, body(bytes, self.owner, numbers[i], DATA_TAG, path)?)
        })
    }

    /// Where data block `number` is, for [`super::reads::read_blocks`]; what that reads goes to [`Segment::body_of`].
    pub(crate) fn place_of(&self, number: u64) -> (&dyn DeviceFile, u64) {
        (&*self.file, number)
    }

    /// The body of data block `number`, read as `bytes`, once its seal is checked.
    pub(crate) fn body_of<'b>(&self, number: u64, bytes: &'b [u8]) -> Result<&'b [u8]> {
        body(bytes, self.owner, number, DATA_TAG, self.path())
    }

    /// The body of the page that data blocks `blocks` are, read as `bytes`, once their seals are checked: in `bytes` where it is one block,
    /// put together in `joined` where there are more.
    ///
    /// # Errors
    /// `Corrupt`, also where the blocks are not exactly one page.
    pub fn page_of<'b>(
        &self,
        blocks: Range<u64>,
        bytes: &'b [u8],
        joined: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let (first, count) = (blocks.start, blocks.end - blocks.start);
        joined.clear();
        for (place, bytes) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
            let number = first + place as u64;
            let (body, sequence) = sealed_body(bytes, self.owner, number, DATA_TAG, self.path())?;
            let found = place_in_page(sequence);
            if found != (place as u64, count) {
                return Err(other_page(number, place as u64, count, found, self.path()));
            }
            if count == 1 {
                return Ok(body);
            }
            joined.extend_from_slice(body);
        }
        Ok(joined)
    }

    /// The blocks of the page that data block `number`, read as `bytes`, is of, as its seal says: what tells it without the index.
    ///
    /// # Errors
    /// `Corrupt`, also where there are no such blocks.
    pub(crate) fn page_around(&self, number: u64, bytes: &[u8]) -> Result<Range<u64>> {
        let (_, sequence) = sealed_body(bytes, self.owner, number, DATA_TAG, self.path())?;
        let (place, count) = place_in_page(sequence);
        let blocks = number.checked_sub(place).map(|first| first..first + count);
        blocks.filter(|blocks| blocks.contains(&number) && blocks.end <= self.footer.blocks).ok_or_else(
            || {
                let expected = format!("one of a page among {} blocks", self.footer.blocks);
                let found = format!("{place} of {count}");
                corrupt(
                    self.path(),
                    number * BLOCK_BYTES as u64,
                    "a block's place in its page",
                    expected,
                    found,
                )
            },
        )
    }

    /// Goes through all pages in order, `piece_bytes` at a time (a thread reads ahead if `is_ahead`), and makes the index again from them
    /// alone: `page` is called with each page's blocks and body, and tells its first hash.
    ///
    /// # Cost
    /// A scan.
    ///
    /// # Errors
    /// `Corrupt`, also where the index that was made is not the one that is there; what `page` fails with; `InvalidOption` for a segment
    /// with fences, which do not follow from first hashes alone.
    pub fn rebuild(
        &self,
        piece_bytes: usize,
        is_ahead: bool,
        mut page: impl FnMut(Range<u64>, &[u8]) -> Result<u64>,
    ) -> Result<()> {
        let BlockIndex::Quantised(index) = &self.index else {
            return crate::error::invalid("an index", "fences", "only a quantised one can be made again");
        };
        let mut pages = index.no_pages();
        let mut scan = self.scan_pieces(0..self.footer.blocks, piece_bytes, is_ahead)?;
        let mut is_in_order = true;
        while let Some((blocks, body)) = scan.next_page()? {
            let count = blocks.end - blocks.start;
            let first_hash = page(blocks, body)?;
            is_in_order = is_in_order && pages.check(first_hash, first_hash).is_ok();
            if is_in_order {
                pages.push(first_hash, first_hash, count);
            }
        }
        if is_in_order && index.is_of(&pages) {
            return Ok(());
        }
        let at = self.footer.blocks * BLOCK_BYTES as u64;
        Err(corrupt(self.path(), at, "the block index", "that of the pages", "another"))
    }

    /// The file's name, for messages.
    pub(crate) fn path(&self) -> &Path {
        Path::new(self.file.name())
    }

    /// Goes through data blocks `range` in order.
    ///
    /// # Errors
    /// `InvalidOption` if the range is not inside the segment.
    #[cfg(any(test, feature = "internals"))]
    pub fn scan(&self, range: Range<u64>) -> Result<Scan> {
        self.scan_pieces(range, STREAM_BYTES, false)
    }

    /// [`Segment::scan`] that reads `piece_bytes`, a multiple of 4096, at a time; if `is_ahead`, a thread reads the next
    /// ones while these are used.
    ///
    /// # Errors
    /// As [`Segment::scan`].
    pub fn scan_pieces(&self, range: Range<u64>, piece_bytes: usize, is_ahead: bool) -> Result<Scan> {
        if range.start > range.end || range.end > self.footer.blocks {
            return Err(Error::InvalidOption {
                name: "block range",
                value: format!("{range:?}"),
                why: format!("the segment has {} blocks", self.footer.blocks),
            });
        }
        Ok(Scan::new(Arc::clone(&self.file), self.owner, range, piece_bytes, is_ahead))
    }

    /// Reads the whole file and checks every seal, and the whole-file hash.
    ///
    /// # Cost
    /// All blocks, once, in order; 1 MiB of RAM.
    ///
    /// # Errors
    /// `Corrupt` at the first damage.
    #[cfg(any(test, feature = "internals"))]
    pub fn verify(&self) -> Result<()> {
        let path = Path::new(self.file.name());
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        let bytes_max = usize::try_from(self.file_ref.bytes).unwrap_or(usize::MAX);
        let mut buffer = AlignedBuf::zeroed(STREAM_BYTES.min(bytes_max));
        let mut at = 0;
        while at < self.file_ref.bytes {
            let piece = &mut buffer[..(self.file_ref.bytes - at).min(STREAM_BYTES as u64) as usize];
            self.file.read(at, piece)?;
            for (i, bytes) in piece.chunks_exact(BLOCK_BYTES).enumerate() {
                block::check(bytes, self.owner, at / BLOCK_BYTES as u64 + i as u64, path)?;
            }
            hash.update(piece);
            at += piece.len() as u64;
        }
        let found = hash.digest128().max(1);
        if found != self.file_ref.xxh3 {
            let (expected, found) = (format!("{:#034x}", self.file_ref.xxh3), format!("{found:#034x}"));
            return Err(corrupt(path, 0, "whole-file hash", expected, found));
        }
        Ok(())
    }
}

/// The body of a block that was read, once its seal and its part are checked.
pub(super) fn body<'a>(
    bytes: &'a [u8],
    owner: BlockOwner,
    number: u64,
    tag: u32,
    path: &Path,
) -> Result<&'a [u8]> {
    sealed_body(bytes, owner, number, tag, path).map(|(body, _)| body)
}

/// [`body`], and the sequence that its seal says.
pub(super) fn sealed_body<'a>(
    bytes: &'a [u8],
    owner: BlockOwner,
    number: u64,
    tag: u32,
    path: &Path,
) -> Result<(&'a [u8], u64)> {
    let seal = block::check(bytes, owner, number, path)?;
    if seal.tag != tag {
        let at = number * BLOCK_BYTES as u64;
        return Err(corrupt(path, at, "block tag", format!("{tag:#010x}"), format!("{:#010x}", seal.tag)));
    }
    Ok((&bytes[..BODY_BYTES], seal.sequence))
}

/// The error where block `number` is not the one at `place` of a page of `blocks`, but another, as its seal says.
pub(super) fn other_page(number: u64, place: u64, blocks: u64, found: (u64, u64), path: &Path) -> Error {
    let told = |(place, blocks): (u64, u64)| format!("{place} of {blocks}");
    let at = number * BLOCK_BYTES as u64;
    corrupt(path, at, "a block's place in its page", told((place, blocks)), told(found))
}

/// The first `bytes` bytes of the bodies of `blocks`, what follows being zero. The file is known to be that long.
fn read_part(
    file: &dyn DeviceFile,
    owner: BlockOwner,
    blocks: Range<u64>,
    bytes: u64,
    tag: u32,
) -> Result<Vec<u8>> {
    let path = Path::new(file.name());
    let mut out = Vec::new();
    // On 32 bits a part may be longer than memory can be.
    let mut left = usize::try_from(bytes)
        .map_err(|_| Error::OutOfMemory { what: "a part of a segment".into(), wanted_bytes: usize::MAX })?;
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    for number in blocks {
        let at = number * BLOCK_BYTES as u64;
        file.read(at, &mut block)?;
        let (part, padding) = body(&block, owner, number, tag, path)?.split_at(left.min(BODY_BYTES));
        out.extend_from_slice(part);
        left -= part.len();
        let mut padding = ByteReader::from_offset(padding, part.len());
        padding.only_zeros_left().map_err(|error| error.in_file_from(path, at))?;
    }
    Ok(out)
}

fn same_kind(wanted: SegmentKind, oldest_version: u16, found: SegmentKind) -> Result<()> {
    let differs = |what, expected: String, found: String| Err(Error::Incompatible { what, expected, found });
    if wanted.structure.id != found.structure.id {
        return differs("the structure", wanted.structure.id.to_string(), found.structure.id.to_string());
    }
    if wanted.hash_kind != found.hash_kind {
        return differs("the hash", format!("{:?}", wanted.hash_kind), format!("{:?}", found.hash_kind));
    }
    if wanted.seed_fingerprint != found.seed_fingerprint {
        let hex = |seed: u64| format!("{seed:016x}");
        return differs("the seed", hex(wanted.seed_fingerprint), hex(found.seed_fingerprint));
    }
    if !(oldest_version..=wanted.structure.version).contains(&found.structure.version) {
        return Err(Error::UnsupportedVersion {
            what: format!("a segment of structure {}", found.structure.id),
            found: found.structure.version.into(),
            supported: wanted.structure.version.into(),
        });
    }
    Ok(())
}
