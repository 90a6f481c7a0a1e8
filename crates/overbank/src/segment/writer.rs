//! Writes a segment as a stream.

use super::fences::Borders;
use super::format::{
    BLOCKS_MAX, DATA_TAG, FOOTER_TAG, Footer, INDEX_TAG, IndexKind, META_TAG, VERSION, page_sequence,
};
use super::index::{BlockIndex, Collected};
use super::quantised::Pages;
use super::{BODY_BYTES, Quanta, Segment, SegmentKind};
use crate::device::behind::Pieces;
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile};
use crate::error::invalid;
use crate::store::{FileId, FileRef, Files};
use crate::{Error, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// One write to the device: as long as the requests that the kernel cuts a write into. Longer ones are not measured yet.
const WRITE_BYTES: usize = 1 << 20;

/// A finished segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// What a commit's record names; with the whole file's length and XXH3-128.
    pub file: FileRef,
    /// Data blocks.
    pub blocks: u64,
    /// Entries in them.
    pub entries: u64,
}

/// Writes one segment from its first block to its last.
///
/// Dropped before [`SegmentWriter::finish`], it removes its file.
#[derive(Debug)]
pub struct SegmentWriter {
    files: Files,
    id: FileId,
    file: Arc<dyn DeviceFile>,
    owner: BlockOwner,
    kind: SegmentKind,
    collected: Collected,
    entries: u64,
    sealed: Sealed,
    finished: bool,
    version: u16,
}

impl SegmentWriter {
    /// Begins a segment in a new file of the store.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    #[cfg(any(test, feature = "internals"))]
    pub fn create(files: &Files, kind: SegmentKind) -> Result<Self> {
        Self::create_behind(files, kind, false)
    }

    /// [`SegmentWriter::create`]; if `is_behind`, a thread writes a mebibyte while the next is filled.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    pub fn create_behind(files: &Files, kind: SegmentKind, is_behind: bool) -> Result<Self> {
        Self::create_pieces(files, kind, WRITE_BYTES, is_behind)
    }

    /// [`SegmentWriter::create`] that writes `piece_bytes`, a multiple of 4096 above 0, at a time; if `is_behind`, a thread writes a piece
    /// while the next is filled.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    pub fn create_pieces(
        files: &Files,
        kind: SegmentKind,
        piece_bytes: usize,
        is_behind: bool,
    ) -> Result<Self> {
        Self::create_collecting(files, kind, Collected::Fences(Borders::default()), piece_bytes, is_behind)
    }

    /// [`SegmentWriter::create_pieces`] of a segment whose pages begin where `quanta` do: it takes pages, [`SegmentWriter::push_page_of`],
    /// and its index names the one page of a hash.
    ///
    /// # Errors
    /// What [`Files::create`] says.
    pub fn create_quantised(
        files: &Files,
        kind: SegmentKind,
        quanta: Quanta,
        piece_bytes: usize,
        is_behind: bool,
    ) -> Result<Self> {
        Self::create_collecting(files, kind, Collected::Quantised(Pages::new(quanta)), piece_bytes, is_behind)
    }

    fn create_collecting(
        files: &Files,
        kind: SegmentKind,
        collected: Collected,
        piece_bytes: usize,
        is_behind: bool,
    ) -> Result<Self> {
        let (id, file) = files.create()?;
        let sealed = Sealed::new(Arc::clone(&file), piece_bytes, is_behind);
        Ok(Self {
            files: files.clone(),
            id,
            file,
            owner: files.owner(id),
            kind,
            collected,
            entries: 0,
            sealed,
            finished: false,
            version: VERSION,
        })
    }

    /// Has it end as one of an older version does.
    #[cfg(test)]
    pub(super) fn of_version(mut self, version: u16) -> Self {
        self.version = version;
        self
    }

    /// Adds a block of `entries` entries whose hashes, their 64 most significant bits, go from `first_hash` to
    /// `last_hash`. `body` has at most [`BODY_BYTES`]; the rest of the block is zeros.
    ///
    /// # Cost
    /// A copy, a CRC32C and an XXH3 of 4 KiB; every 256th call writes 1 MiB.
    ///
    /// # Errors
    /// `InvalidOption` if the block is too long, or out of order; `Full` or `Io` from the device.
    pub fn push_block(&mut self, first_hash: u64, last_hash: u64, entries: u64, body: &[u8]) -> Result<()> {
        if body.len() > BODY_BYTES {
            return Err(Error::InvalidOption {
                name: "a block",
                value: format!("{} bytes", body.len()),
                why: format!("a body has at most {BODY_BYTES} bytes"),
            });
        }
        self.push_block_with(first_hash, last_hash, entries, |whole| put_body(whole, body))
    }

    /// As [`push_block`](Self::push_block), with a body that `fill` composes in its place: all [`BODY_BYTES`] of it, for what was there is
    /// of some earlier block.
    ///
    /// # Errors
    /// As [`push_block`](Self::push_block).
    pub fn push_block_with(
        &mut self,
        first_hash: u64,
        last_hash: u64,
        entries: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let Collected::Fences(borders) = &mut self.collected else {
            return invalid("a block", "one by itself", "a segment with a quantised index takes pages");
        };
        let last = if borders.len() == 0 { 0 } else { borders.last_hash() };
        if first_hash < last || last_hash < first_hash {
            return Err(Error::InvalidOption {
                name: "a block's hashes",
                value: format!("{first_hash:#x} to {last_hash:#x}"),
                why: format!("blocks come in hash order, after {last:#x}"),
            });
        }
        has_room(borders.len() as u64, 1)?;
        self.sealed.push(self.owner, DATA_TAG, 0, fill)?;
        borders.push(first_hash, last_hash);
        self.entries += entries;
        Ok(())
    }

    /// As [`push_page_of`](Self::push_page_of), of a body in one part and in as few blocks as it fits.
    ///
    /// # Errors
    /// As there.
    #[cfg(any(test, feature = "internals"))]
    pub fn push_page(&mut self, first_hash: u64, last_hash: u64, entries: u64, body: &[u8]) -> Result<()> {
        self.push_page_of(first_hash, last_hash, entries, &[body], 1)
    }

    /// Adds a page of `entries` entries whose hashes, their 64 most significant bits, go from `first_hash` to `last_hash`: as many blocks
    /// as `parts`, one behind the other, fill, but a multiple of `unit`, each with the next [`BODY_BYTES`] of it; the rest of the last
    /// ones is zeros.
    ///
    /// # Cost
    /// A copy, a CRC32C and an XXH3 of each block; a byte or two of RAM until the segment is finished.
    ///
    /// # Errors
    /// `InvalidOption` if `first_hash` is outside the quanta, or not in a later quantum than the last hash of the page before, or if
    /// the segment has fences; `Full` or `Io` from the device.
    pub fn push_page_of(
        &mut self,
        first_hash: u64,
        last_hash: u64,
        entries: u64,
        parts: &[&[u8]],
        unit: u64,
    ) -> Result<()> {
        let Collected::Quantised(pages) = &mut self.collected else {
            return invalid("a page", "one of blocks", "a segment with fences takes single blocks");
        };
        pages.check(first_hash, last_hash)?;
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let blocks = (bytes.div_ceil(BODY_BYTES) as u64).max(1).next_multiple_of(unit);
        has_room(pages.blocks(), blocks)?;
        let mut parts = parts.iter().copied();
        let mut rest: &[u8] = &[];
        for place in 0..blocks {
            let sequence = page_sequence(place, blocks);
            self.sealed.push(self.owner, DATA_TAG, sequence, |whole| {
                let mut filled = 0;
                while filled < whole.len() {
                    if rest.is_empty() {
                        let Some(next) = parts.next() else { break };
                        rest = next;
                    }
                    let (now, behind) = rest.split_at(rest.len().min(whole.len() - filled));
                    whole[filled..filled + now.len()].copy_from_slice(now);
                    (filled, rest) = (filled + now.len(), behind);
                }
                whole[filled..].fill(0);
            })?;
        }
        pages.push(first_hash, last_hash, blocks);
        self.entries += entries;
        Ok(())
    }

    /// Data blocks so far.
    pub fn blocks(&self) -> u64 {
        self.collected.blocks()
    }

    /// Writes the index, the structure's own `meta` bytes and the footer, and syncs the file.
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub fn finish(mut self, meta: &[u8]) -> Result<SegmentInfo> {
        let (file, footer, _) = self.write_rest(meta)?;
        self.file.sync()?;
        self.finished = true;
        Ok(SegmentInfo { file, blocks: footer.blocks, entries: footer.entries })
    }

    /// As [`finish`](Self::finish), but the segment is open, without that anything is read back, and not durable before
    /// [`Segment::sync`].
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub fn finish_open(mut self, meta: &[u8]) -> Result<Segment> {
        let (file_ref, footer, index) = self.write_rest(meta)?;
        self.finished = true;
        Ok(Segment::written(Arc::clone(&self.file), self.owner, file_ref, footer, index, meta))
    }

    /// Writes what follows the data.
    fn write_rest(&mut self, meta: &[u8]) -> Result<(FileRef, Footer, BlockIndex)> {
        let index = self.collected.index();
        let encoded = index.encode();
        let index_kind = match &index {
            BlockIndex::Fences(_) => IndexKind::Fences,
            BlockIndex::Quantised(_) => IndexKind::Quantised { bytes: encoded.len() as u64 },
        };
        let (first_hash, last_hash) = self.collected.hashes();
        let footer = Footer {
            version: self.version.min(index_kind.version(self.blocks())),
            kind: self.kind,
            blocks: self.blocks(),
            entries: self.entries,
            first_hash,
            last_hash,
            meta_bytes: meta.len() as u64,
            index: index_kind,
        };
        let mut last = footer.encode();
        if let Some(tail_bytes) = footer.tail_bytes() {
            let (whole, tail) = encoded.split_at(encoded.len() - tail_bytes as usize);
            self.push_part(INDEX_TAG, whole)?;
            last.extend_from_slice(tail);
            last.extend_from_slice(meta);
        } else {
            self.push_part(INDEX_TAG, &encoded)?;
            self.push_part(META_TAG, meta)?;
        }
        self.push_part(FOOTER_TAG, &last)?;
        self.sealed.flush()?;
        self.sealed.pieces.finish()?;
        // 0 stands for a file that is written in place.
        let xxh3 = self.sealed.hash.digest128().max(1);
        let bytes = self.sealed.number() * BLOCK_BYTES as u64;
        Ok((FileRef { id: self.id, bytes, xxh3 }, footer, index))
    }

    fn push_part(&mut self, tag: u32, bytes: &[u8]) -> Result<()> {
        bytes
            .chunks(BODY_BYTES)
            .try_for_each(|body| self.sealed.push(self.owner, tag, 0, |whole| put_body(whole, body)))
    }
}

/// Whether `more` blocks may follow so many.
fn has_room(blocks: u64, more: u64) -> Result<()> {
    if blocks.saturating_add(more) <= BLOCKS_MAX {
        return Ok(());
    }
    let why = format!("a segment has at most {BLOCKS_MAX} blocks");
    invalid("a block", format!("number {blocks}, and {more} in a row"), why)
}

/// Puts a body that may be shorter than a block's, and zeros behind it.
fn put_body(whole: &mut [u8], body: &[u8]) {
    let (front, padding) = whole.split_at_mut(body.len());
    front.copy_from_slice(body);
    padding.fill(0);
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What is on its way arrives before the file goes.
            let _ = self.sealed.pieces.finish();
            // If this fails too, the store removes the file when it is next opened for writing.
            let _ = self.files.discard(self.id);
        }
    }
}

/// Seals blocks and writes them in large pieces.
struct Sealed {
    pieces: Pieces,
    piece_bytes: usize,
    /// Bytes of the piece that hold blocks.
    filled: usize,
    hash: Xxh3,
}

impl Sealed {
    fn new(file: Arc<dyn DeviceFile>, piece_bytes: usize, is_behind: bool) -> Self {
        let pieces = Pieces::new(file, piece_bytes, is_behind);
        Self { pieces, piece_bytes, filled: 0, hash: Xxh3::new() }
    }

    /// Blocks sealed so far.
    fn number(&self) -> u64 {
        (self.pieces.written_bytes() + self.filled as u64) / BLOCK_BYTES as u64
    }

    fn push(
        &mut self,
        owner: BlockOwner,
        tag: u32,
        sequence: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let number = self.number();
        let block = &mut self.pieces.piece()[self.filled..self.filled + BLOCK_BYTES];
        fill(&mut block[..BODY_BYTES]);
        block::seal(block, owner, number, Seal { tag, sequence });
        self.filled += BLOCK_BYTES;
        if self.filled == self.piece_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.filled);
        if bytes == 0 {
            return Ok(());
        }
        self.hash.update(&self.pieces.piece()[..bytes]);
        self.pieces.hand_over(bytes)
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} blocks)", self.number())
    }
}
