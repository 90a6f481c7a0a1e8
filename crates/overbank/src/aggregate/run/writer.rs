//! Writes a run.

use super::RunSegment;
use super::format::{BEGIN, HEADER_BYTES, PAGE_BYTES_MAX, PART, PART_HEADER_BYTES, PageBuilder};
use super::meta::RunRules;
use crate::aggregate::state::State;
use crate::error::invalid;
use crate::segment::{BODY_BYTES, SegmentWriter};
use crate::store::Files;
use crate::{KeyHash, Result};

/// Writes a run from its first group to its last.
///
/// Dropped before [`RunWriter::finish`], it removes its file.
#[derive(Debug)]
pub(in crate::aggregate) struct RunWriter {
    files: Files,
    rules: RunRules,
    piece_bytes: usize,
    /// None before the first page is full: a lane that has no groups makes no file.
    segment: Option<SegmentWriter>,
    page: PageBuilder,
    /// Hashes of the page's first entry and of the last one.
    first: u64,
    last: KeyHash,
    long: Vec<u8>,
}

impl RunWriter {
    /// Begins a run that is written `piece_bytes` at a time, a multiple of 4096.
    pub(in crate::aggregate) fn new(files: &Files, rules: &RunRules, piece_bytes: usize) -> RunWriter {
        RunWriter {
            files: files.clone(),
            rules: rules.clone(),
            piece_bytes,
            segment: None,
            page: PageBuilder::new(rules.shape),
            first: 0,
            last: KeyHash::default(),
            long: Vec::new(),
        }
    }

    /// Adds a group, behind all that were added by (hash, key).
    ///
    /// # Errors
    /// `InvalidOption` for a group of 2 GiB; `Full` or `Io` from the device.
    #[inline]
    pub(in crate::aggregate) fn push(&mut self, hash: KeyHash, key: &[u8], state: State<'_>) -> Result<()> {
        debug_assert!(hash >= self.last, "groups come in hash order");
        if key.len() + state.tail.len() > PAGE_BYTES_MAX / 2 {
            let why = format!("a key and its state have at most {} bytes on flash", PAGE_BYTES_MAX / 2);
            return invalid("a group's bytes", key.len() + state.tail.len(), why);
        }
        if !self.page.push(key, state) {
            self.write_page()?;
            self.page.push(key, state);
        }
        if self.page.entries() == 1 {
            self.first = hash.high();
        }
        self.last = hash;
        Ok(())
    }

    fn write_page(&mut self) -> Result<()> {
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => {
                let kind = self.rules.segment_kind();
                none.insert(SegmentWriter::create_pieces(&self.files, kind, self.piece_bytes, false)?)
            }
        };
        let (first, last, entries) = (self.first, self.last.high(), self.page.entries() as u64);
        let bytes = self.page.bytes();
        if bytes <= BODY_BYTES {
            let page = &mut self.page;
            return segment.push_block_with(first, last, entries, |body| page.write(body));
        }
        self.long.clear();
        self.long.resize(bytes, 0);
        self.page.write(&mut self.long);
        debug_assert!(self.long[0] == BEGIN && self.long.len() > HEADER_BYTES);
        let (begin, rest) = self.long.split_at(BODY_BYTES);
        segment.push_block(first, last, entries, begin)?;
        for (part, bytes) in rest.chunks(BODY_BYTES - PART_HEADER_BYTES).enumerate() {
            segment.push_block_with(first, last, 0, |body| {
                body.fill(0);
                body[0] = PART;
                body[4..PART_HEADER_BYTES].copy_from_slice(&(part as u32 + 1).to_le_bytes());
                body[PART_HEADER_BYTES..PART_HEADER_BYTES + bytes.len()].copy_from_slice(bytes);
            })?;
        }
        // Such entries are rare: what one took is not kept for the next.
        self.long = Vec::new();
        Ok(())
    }

    /// Ends the run, syncs its file, and opens it; `None` where nothing was added, and no file.
    ///
    /// # Errors
    /// `Full` or `Io` from the device.
    pub(in crate::aggregate) fn finish(mut self) -> Result<Option<RunSegment>> {
        if !self.page.is_empty() {
            self.write_page()?;
        }
        let Some(writer) = self.segment.take() else { return Ok(None) };
        let segment = writer.finish_open(&self.rules.id().encode())?;
        segment.sync()?;
        RunSegment::of(segment, self.rules).map(Some)
    }
}
