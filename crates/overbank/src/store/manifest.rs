//! The manifest log: one snapshot, then one record a commit.
//!
//! ```text
//!   │ snapshot: chunk chunk … │ commit c+1: chunk │ commit c+2: chunk │ torn │
//!                                                                     └ valid_bytes: the next append starts here
//! ```
//!
//! Invariants:
//! 1. A commit is durable when its record is: the append is the commit point.
//! 2. Each chunk is written twice. A record is whole if of each chunk one copy is.
//! 3. A record that is not whole ends the log, unless a later commit's chunk stands behind it: that is `Corrupt`.
//! 4. A log that ends before the superblock's mark is `Corrupt`: those records were durable once.
//! 5. Two records with the same commit number never share a log: a failed append is cut off before the next.
//!
//! | | block reads | block writes |
//! |---|---|---|
//! | append | 0 | 2 a 4072 bytes of record |
//! | read | all chunks once; both copies only where one fails | 0 |

use super::format::{CHUNK_BYTES, Chunk, MANIFEST_TAG, ManifestRecord, Superblock};
use crate::device::block::{self, BlockOwner, Seal};
use crate::device::{BLOCK_BYTES, DeviceFile};
use crate::{Error, Result};
use std::path::Path;

/// Both copies of a chunk.
const PAIR_BYTES: usize = 2 * BLOCK_BYTES;

/// A manifest as it was read.
#[derive(Debug)]
pub(super) struct Log {
    /// The snapshot and the commits after it, in order; never empty.
    pub(super) records: Vec<ManifestRecord>,
    /// Where the last whole record ends, in bytes.
    pub(super) valid_bytes: u64,
    /// Where the snapshot ends, in bytes.
    pub(super) snapshot_bytes: u64,
    /// Length of the file, in bytes: more than `valid_bytes` if the tail is torn.
    pub(super) file_bytes: u64,
}

/// The blocks of a record that starts at byte `at` of manifest file `owner`.
pub(super) fn encode(record: &ManifestRecord, owner: BlockOwner, at: u64) -> Vec<u8> {
    let payload = record.encode();
    let count = payload.len().div_ceil(CHUNK_BYTES);
    let mut out = vec![0; count * PAIR_BYTES];
    let seal = Seal { tag: MANIFEST_TAG, sequence: record.commit };
    let first = at / BLOCK_BYTES as u64;
    let pairs = out.chunks_exact_mut(PAIR_BYTES).zip(payload.chunks(CHUNK_BYTES));
    for (index, (pair, part)) in pairs.enumerate() {
        for (copy, block) in pair.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let chunk = Chunk { index: index as u32, count: count as u32 };
            chunk.encode(part, block);
            block::seal(block, owner, first + (2 * index + copy) as u64, seal);
        }
    }
    out
}

/// Reads the log of `superblock` up to its last whole record.
///
/// # Errors
/// `Corrupt` if the snapshot is not whole, a record is damaged with a later one behind it, the log ends before the
/// superblock's mark, or a record contradicts its place.
pub(super) fn read(file: &dyn DeviceFile, superblock: &Superblock, path: &Path) -> Result<Log> {
    let Superblock { epoch, mark_bytes, .. } = *superblock;
    let owner = superblock.manifest_owner();
    let mut chunks = Chunks { file, path, owner, file_bytes: file.len_bytes()?, pair: vec![0; PAIR_BYTES] };
    let mut log =
        Log { records: Vec::new(), valid_bytes: 0, snapshot_bytes: 0, file_bytes: chunks.file_bytes };
    while log.valid_bytes < log.file_bytes {
        let commit = log.records.last().map(|record| record.commit.saturating_add(1));
        let Some(payload) = chunks.record(log.valid_bytes, commit)? else {
            chunks.no_later_commit(log.valid_bytes, commit)?;
            break;
        };
        let record = ManifestRecord::decode(&payload, path, log.valid_bytes)?;
        let is_first = log.records.is_empty();
        let in_place = record.epoch == epoch
            && record.is_snapshot == is_first
            && commit.is_none_or(|commit| record.commit == commit);
        if !in_place {
            let expected = format!("epoch {epoch}, commit {commit:?}");
            let found = format!("epoch {}, commit {}", record.epoch, record.commit);
            return Err(chunks.corrupt(log.valid_bytes, "manifest record", expected, found));
        }
        log.valid_bytes += (payload.len() / CHUNK_BYTES * PAIR_BYTES) as u64;
        if is_first {
            log.snapshot_bytes = log.valid_bytes;
        }
        log.records.push(record);
    }
    if log.records.is_empty() {
        return Err(chunks.corrupt(0, "manifest snapshot", "whole".to_owned(), "damaged".to_owned()));
    }
    if log.valid_bytes < mark_bytes {
        let (expected, found) = (format!("at least {mark_bytes}"), log.valid_bytes.to_string());
        return Err(chunks.corrupt(log.valid_bytes, "length of the whole records in bytes", expected, found));
    }
    Ok(log)
}

/// Verifies both copies of every chunk up to `valid_bytes`; returns the number of blocks.
pub(super) fn verify(
    file: &dyn DeviceFile,
    owner: BlockOwner,
    valid_bytes: u64,
    damaged: &mut dyn FnMut(u64, Error),
) -> Result<u64> {
    let mut block = vec![0; BLOCK_BYTES];
    let blocks = valid_bytes / BLOCK_BYTES as u64;
    for number in 0..blocks {
        let at = number * BLOCK_BYTES as u64;
        file.read(at, &mut block)?;
        if let Err(error) = block::check(&block, owner, number, Path::new(file.name())) {
            damaged(at, error);
        }
    }
    Ok(blocks)
}

struct Chunks<'a> {
    file: &'a dyn DeviceFile,
    path: &'a Path,
    owner: BlockOwner,
    file_bytes: u64,
    pair: Vec<u8>,
}

impl Chunks<'_> {
    /// The payload, in whole chunks, of the record at byte `at`; `None` if it is not whole. `commit` is the only
    /// number it may have, `None` for any.
    fn record(&mut self, at: u64, commit: Option<u64>) -> Result<Option<Vec<u8>>> {
        let mut payload = Vec::new();
        let mut first = None;
        let mut index = 0;
        loop {
            let Some((seal, chunk, part)) = self.chunk(at + u64::from(index) * PAIR_BYTES as u64)? else {
                return Ok(None);
            };
            let (sequence, count) = *first.get_or_insert((seal.sequence, chunk.count));
            let belongs = chunk == Chunk { index, count } && seal.sequence == sequence;
            if !belongs || commit.is_some_and(|commit| commit != sequence) {
                return Ok(None);
            }
            payload.extend_from_slice(part);
            index += 1;
            if index >= count {
                return Ok(Some(payload));
            }
        }
    }

    /// The chunk at byte `at`, from whichever copy is whole.
    fn chunk(&mut self, at: u64) -> Result<Option<(Seal, Chunk, &[u8])>> {
        let left = self.file_bytes.saturating_sub(at).min(PAIR_BYTES as u64) as usize;
        let pair = &mut self.pair[..left / BLOCK_BYTES * BLOCK_BYTES];
        self.file.read(at, pair)?;
        let number = at / BLOCK_BYTES as u64;
        for (copy, block) in pair.chunks_exact(BLOCK_BYTES).enumerate() {
            let seal = block::valid(block, self.owner, number + copy as u64);
            if let Some(seal) = seal.filter(|seal| seal.tag == MANIFEST_TAG) {
                return Ok(Chunk::decode(block).map(|(chunk, part)| (seal, chunk, part)));
            }
        }
        Ok(None)
    }

    /// Refuses the log if anything behind `at` belongs to a commit after `commit`: then `at` is not a torn tail.
    fn no_later_commit(&mut self, at: u64, commit: Option<u64>) -> Result<()> {
        let mut behind = at;
        while behind < self.file_bytes {
            let sequence = self.chunk(behind)?.map(|(seal, ..)| seal.sequence);
            if let Some(later) = sequence.filter(|&sequence| commit.is_none_or(|commit| sequence > commit)) {
                let expected = format!("whole, since commit {later} follows it");
                return Err(self.corrupt(at, "manifest record", expected, "damaged".to_owned()));
            }
            behind += PAIR_BYTES as u64;
        }
        Ok(())
    }

    fn corrupt(&self, at: u64, what: &'static str, expected: String, found: String) -> Error {
        Error::Corrupt { path: self.path.to_path_buf(), at, what, expected, found }
    }
}
