//! Where every byte of a store's own files lies; the only file that knows.
//!
//! ```text
//! directory   superblock        four slots, see below
//!             000001.man        manifest log: a snapshot, then one record a commit
//!             000017.seg        data files of the summaries; numbers are never user names
//!             reserve           space to give back when the disk is full
//!
//! superblock  │ slot 0 │ slot 1 │ slot 2 │ slot 3 │      one sealed block each (device::block, file 0, sequence =
//!             └── pair 0 ───────┴── pair 1 ───────┘      generation); generation g lives in pair g % 2, twice
//!
//! slot body   0        8       12     13    16         32      48           56      64         72     80        4080
//!             ├ magic ─┼ ver. ─┼ kind ┼ 0 0 0 ┼ store id ┼ seed ─┼ generation ─┼ epoch ┼ manifest ┼ mark ┼ zeros ──┤
//!             mark: bytes of the manifest that were durable when the slot was written; zeros in version 1
//!
//! manifest    │ chunk 0 │ chunk 0 │ chunk 1 │ chunk 1 │ …     every chunk twice: damage to one block is not a torn tail
//!
//! chunk body  0       4       8                                4080      (sealed, sequence = commit)
//!             ├ index ┼ count ┼ payload, zeros behind its end ──┤
//!
//! payload     0        4      5     8       16       24     32          40         44         52
//!             ├ bytes ─┼ kind ┼ 000 ┼ epoch ┼ commit ┼ time ┼ next file ┼ position ┼ removed ─┼ changed ─┼ …
//!             position: bytes u32, then the bytes. removed: count u32, then names. changed: count u32, then entries.
//!             name: bytes u16, then UTF-8. entry: name, structure u16, version u16, state (bytes u32, bytes),
//!             files (count u32, then id u64, bytes u64, XXH3-128 u128 each; 0 = written in place)
//!
//! blob        first block's body: payload bytes u64, then the payload; it runs on through the next bodies, zeros behind
//! ```
//!
//! All numbers are little-endian. A change to any byte bumps [`FORMAT_VERSION`].

use super::{Entry, FileId, FileRef, Record, Structure};
use crate::device::block::BODY_BYTES;
use crate::{Error, HashKind, Result, Seed};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The version of everything in this file. Version 1, which had no mark in its superblock, is read too.
pub const FORMAT_VERSION: u32 = 2;
/// The first version that this build reads.
pub(super) const FORMAT_VERSION_LEAST: u32 = 1;

pub(super) const SUPERBLOCK_NAME: &str = "superblock";
pub(super) const SUPERBLOCK_DRAFT_NAME: &str = "superblock.new";
pub(super) const RESERVE_NAME: &str = "reserve";
pub(super) const SUPERBLOCK_SLOTS: usize = 4;

pub(super) const SUPERBLOCK_TAG: u32 = u32::from_le_bytes(*b"OBsb");
pub(super) const MANIFEST_TAG: u32 = u32::from_le_bytes(*b"OBmf");
pub(super) const BLOB_TAG: u32 = u32::from_le_bytes(*b"OBbl");

const MAGIC: [u8; 8] = *b"OVERBANK";
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + size_of::<[u8; 8]>();
const HASH_KIND_AT: usize = VERSION_AT + size_of::<u32>();
const STORE_ID_AT: usize = HASH_KIND_AT + size_of::<[u8; 4]>();
const SEED_AT: usize = STORE_ID_AT + size_of::<u128>();
const GENERATION_AT: usize = SEED_AT + size_of::<u128>();
const EPOCH_AT: usize = GENERATION_AT + size_of::<u64>();
const MANIFEST_AT: usize = EPOCH_AT + size_of::<u64>();
const MARK_AT: usize = MANIFEST_AT + size_of::<u64>();
const SLOT_END: usize = MARK_AT + size_of::<u64>();
const _: () = assert!(SLOT_END == 80 && SLOT_END <= BODY_BYTES);

const CHUNK_HEADER_BYTES: usize = 2 * size_of::<u32>();
/// Payload bytes in one manifest chunk.
pub(super) const CHUNK_BYTES: usize = BODY_BYTES - CHUNK_HEADER_BYTES;
const _: () = assert!(CHUNK_BYTES == 4072);

pub(super) const BLOB_HEADER_BYTES: usize = size_of::<u64>();

/// Longest position that a commit takes, in bytes.
pub const POSITION_BYTES_MAX: usize = 64 << 10;
/// Longest inline state of a summary, in bytes.
pub const STATE_BYTES_MAX: usize = 64 << 10;
/// Longest name of a summary, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 255;

/// What a file's name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NamedFile {
    Manifest(FileId),
    Data(FileId),
}

pub(super) fn manifest_name(id: FileId) -> String {
    format!("{:06}.man", id.0)
}

pub(super) fn data_name(id: FileId) -> String {
    format!("{:06}.seg", id.0)
}

/// Reads a name that [`manifest_name`] or [`data_name`] wrote; anything else is not ours.
pub(super) fn parse_name(name: &str) -> Option<NamedFile> {
    let (digits, extension) = name.split_once('.')?;
    let id = FileId(digits.parse().ok()?);
    let file = match extension {
        "man" => NamedFile::Manifest(id),
        "seg" => NamedFile::Data(id),
        _ => return None,
    };
    let canonical = match file {
        NamedFile::Manifest(id) => manifest_name(id),
        NamedFile::Data(id) => data_name(id),
    };
    (canonical == name).then_some(file)
}

/// The contents of a superblock slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    pub(super) hash_kind: HashKind,
    pub(super) store_id: u128,
    pub(super) seed: Seed,
    pub(super) generation: u64,
    pub(super) epoch: u64,
    pub(super) manifest: FileId,
    /// The manifest had this many bytes, all of them durable, when this was written. It only grows, so a shorter one was cut.
    pub(super) mark_bytes: u64,
}

impl Superblock {
    /// Writes the body; the caller seals it.
    pub(super) fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[MAGIC_AT..VERSION_AT].copy_from_slice(&MAGIC);
        block[VERSION_AT..HASH_KIND_AT].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[HASH_KIND_AT] = self.hash_kind as u8;
        block[STORE_ID_AT..SEED_AT].copy_from_slice(&self.store_id.to_le_bytes());
        block[SEED_AT..GENERATION_AT].copy_from_slice(&self.seed.0.to_le_bytes());
        block[GENERATION_AT..EPOCH_AT].copy_from_slice(&self.generation.to_le_bytes());
        block[EPOCH_AT..MANIFEST_AT].copy_from_slice(&self.epoch.to_le_bytes());
        block[MANIFEST_AT..MARK_AT].copy_from_slice(&self.manifest.0.to_le_bytes());
        block[MARK_AT..SLOT_END].copy_from_slice(&self.mark_bytes.to_le_bytes());
    }

    /// The store id that an unverified slot claims: its seal can only be checked with it.
    pub(super) fn claimed_store_id(block: &[u8]) -> u128 {
        block.get(STORE_ID_AT..SEED_AT).and_then(|b| b.try_into().ok()).map_or(0, u128::from_le_bytes)
    }

    /// Whether the slot starts as a store's does, and the version it claims.
    pub(super) fn claimed_version(block: &[u8]) -> Option<u32> {
        let version = block.strip_prefix(&MAGIC)?.first_chunk()?;
        Some(u32::from_le_bytes(*version))
    }

    /// Reads a slot whose seal has been verified.
    pub(super) fn decode(block: &[u8], path: &Path, at: u64) -> Result<Self> {
        let mut cursor = Cursor { bytes: block, offset: 0, path, at };
        cursor.expect("magic", cursor.offset, |c| Ok(c.array::<8>()? == MAGIC))?;
        let version = cursor.u32()?;
        if !(FORMAT_VERSION_LEAST..=FORMAT_VERSION).contains(&version) {
            return Err(Error::UnsupportedVersion {
                what: path.display().to_string(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let hash_kind = match cursor.array::<4>()? {
            [1, 0, 0, 0] => HashKind::Xxh3,
            [2, 0, 0, 0] => HashKind::SipHash13,
            [kind, ..] => return Err(cursor.corrupt("hash kind", "1 or 2".to_owned(), kind.to_string())),
        };
        let store_id = u128::from_le_bytes(cursor.array()?);
        let seed = Seed(u128::from_le_bytes(cursor.array()?));
        let (generation, epoch, manifest) = (cursor.u64()?, cursor.u64()?, FileId(cursor.u64()?));
        let mark_bytes = if version < 2 { 0 } else { cursor.u64()? };
        cursor.zeros_until(BODY_BYTES)?;
        Ok(Superblock { hash_kind, store_id, seed, generation, epoch, manifest, mark_bytes })
    }
}

/// One record of the manifest: a snapshot holds everything, an edit what a commit changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ManifestRecord {
    pub(super) is_snapshot: bool,
    pub(super) epoch: u64,
    pub(super) commit: u64,
    pub(super) time_ns: u64,
    pub(super) next_file: u64,
    pub(super) position: Vec<u8>,
    pub(super) removed: Vec<String>,
    pub(super) changed: BTreeMap<String, Arc<Entry>>,
}

impl ManifestRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; size_of::<u32>()];
        out.extend([if self.is_snapshot { 1 } else { 2 }, 0, 0, 0]);
        for number in [self.epoch, self.commit, self.time_ns, self.next_file] {
            out.extend(number.to_le_bytes());
        }
        put_bytes(&mut out, &self.position);
        put_count(&mut out, self.removed.len());
        for name in &self.removed {
            put_name(&mut out, name);
        }
        put_count(&mut out, self.changed.len());
        for (name, entry) in &self.changed {
            put_name(&mut out, name);
            out.extend(entry.structure.id.to_le_bytes());
            out.extend(entry.structure.version.to_le_bytes());
            put_bytes(&mut out, &entry.record.state);
            put_count(&mut out, entry.record.files.len());
            for file in &entry.record.files {
                out.extend(file.id.0.to_le_bytes());
                out.extend(file.bytes.to_le_bytes());
                out.extend(file.xxh3.to_le_bytes());
            }
        }
        let bytes = out.len() as u32;
        out[..size_of::<u32>()].copy_from_slice(&bytes.to_le_bytes());
        out
    }

    /// Reads a payload whose blocks have been verified; zeros must follow its end. `at` is its place in the file.
    pub(super) fn decode(payload: &[u8], path: &Path, at: u64) -> Result<Self> {
        let mut cursor = Cursor { bytes: payload, offset: 0, path, at };
        let bytes = cursor.u32()? as usize;
        if bytes > payload.len() {
            return Err(cursor.corrupt(
                "payload bytes",
                format!("at most {}", payload.len()),
                bytes.to_string(),
            ));
        }
        let is_snapshot = match cursor.array::<4>()? {
            [1, 0, 0, 0] => true,
            [2, 0, 0, 0] => false,
            [kind, ..] => return Err(cursor.corrupt("record kind", "1 or 2".to_owned(), kind.to_string())),
        };
        let (epoch, commit, time_ns, next_file) =
            (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let position = cursor.bytes("position bytes", POSITION_BYTES_MAX)?;
        let mut removed = Vec::new();
        for _ in 0..cursor.u32()? {
            removed.push(cursor.name()?);
        }
        let mut changed = BTreeMap::new();
        for _ in 0..cursor.u32()? {
            let (name, entry) = (cursor.name()?, cursor.entry()?);
            changed.insert(name, Arc::new(entry));
        }
        cursor.expect("payload bytes", bytes, |c| Ok(c.offset == bytes))?;
        cursor.zeros_until(payload.len())?;
        Ok(ManifestRecord { is_snapshot, epoch, commit, time_ns, next_file, position, removed, changed })
    }
}

/// The header of a manifest chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunk {
    pub(super) index: u32,
    pub(super) count: u32,
}

impl Chunk {
    /// Writes the body of a chunk; the caller seals the block.
    pub(super) fn encode(self, payload: &[u8], block: &mut [u8]) {
        block.fill(0);
        block[..4].copy_from_slice(&self.index.to_le_bytes());
        block[4..CHUNK_HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        block[CHUNK_HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
    }

    /// Splits a block into the header and its payload; `None` if the block is too short.
    pub(super) fn decode(block: &[u8]) -> Option<(Self, &[u8])> {
        let (index, rest) = block.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let chunk = Chunk { index: u32::from_le_bytes(*index), count: u32::from_le_bytes(*count) };
        Some((chunk, rest.get(..CHUNK_BYTES)?))
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).expect("counts are limited far below 2^32").to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend(bytes);
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend(u16::try_from(name.len()).expect("names have at most 255 bytes").to_le_bytes());
    out.extend(name.as_bytes());
}

/// Whether `padding` is all zeros; by comparison, since every open checks a few pages of it.
pub(super) fn is_zero(padding: &[u8]) -> bool {
    const ZEROS: [u8; BODY_BYTES] = [0; BODY_BYTES];
    padding.chunks(ZEROS.len()).all(|part| *part == ZEROS[..part.len()])
}

/// Reads fields one after another; every step checks that the bytes are there before it takes them.
struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
    path: &'a Path,
    at: u64,
}

impl Cursor<'_> {
    fn take(&mut self, bytes: usize) -> Result<&[u8]> {
        let end = self.offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes.len()) {
            let left = self.bytes.len() - self.offset;
            return Err(self.corrupt("bytes left", format!("at least {bytes}"), left.to_string()));
        }
        let from = self.offset;
        self.offset += bytes;
        Ok(&self.bytes[from..self.offset])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self, what: &'static str, max: usize) -> Result<Vec<u8>> {
        let bytes = self.u32()? as usize;
        if bytes > max {
            return Err(self.corrupt(what, format!("at most {max}"), bytes.to_string()));
        }
        self.take(bytes).map(<[u8]>::to_vec)
    }

    fn name(&mut self) -> Result<String> {
        let bytes = usize::from(self.u16()?);
        let name = self.take(bytes)?.to_vec();
        String::from_utf8(name)
            .map_err(|e| self.corrupt("summary name", "UTF-8".to_owned(), format!("{:?}", e.as_bytes())))
    }

    fn entry(&mut self) -> Result<Entry> {
        let structure = Structure { id: self.u16()?, version: self.u16()? };
        let state = self.bytes("state bytes", STATE_BYTES_MAX)?;
        let mut files = Vec::new();
        for _ in 0..self.u32()? {
            let (id, bytes) = (FileId(self.u64()?), self.u64()?);
            files.push(FileRef { id, bytes, xxh3: u128::from_le_bytes(self.array()?) });
        }
        Ok(Entry { structure, record: Record { state, files } })
    }

    fn expect<T: ToString>(
        &mut self,
        what: &'static str,
        expected: T,
        holds: impl FnOnce(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        if holds(self)? {
            return Ok(());
        }
        Err(self.corrupt(what, expected.to_string(), format!("other, at {}", self.offset)))
    }

    fn zeros_until(&mut self, end: usize) -> Result<()> {
        let padding = self.take(end - self.offset)?;
        if is_zero(padding) {
            return Ok(());
        }
        Err(self.corrupt("padding", "zeros".to_owned(), "other bytes".to_owned()))
    }

    fn corrupt(&self, what: &'static str, expected: String, found: String) -> Error {
        let at = self.at.saturating_add(self.offset as u64);
        Error::Corrupt { path: self.path.to_path_buf(), at, what, expected, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = ManifestRecord> {
        let file = (any::<u64>(), any::<u64>(), any::<u128>()).prop_map(|(id, bytes, xxh3)| FileRef {
            id: FileId(id),
            bytes,
            xxh3,
        });
        let entry = (any::<u16>(), any::<u16>(), any::<Vec<u8>>(), prop::collection::vec(file, 0..4))
            .prop_map(|(id, version, state, files)| {
                Arc::new(Entry { structure: Structure { id, version }, record: Record { state, files } })
            });
        let names = prop::collection::vec("[a-zé ]{1,9}", 0..3);
        let changed = prop::collection::btree_map("[a-zé ]{1,9}", entry, 0..4);
        (any::<(bool, u64, u64, u64, u64, Vec<u8>)>(), names, changed).prop_map(|(head, removed, changed)| {
            let (is_snapshot, epoch, commit, time_ns, next_file, position) = head;
            ManifestRecord { is_snapshot, epoch, commit, time_ns, next_file, position, removed, changed }
        })
    }

    proptest! {
        #[test]
        fn a_record_decodes_to_itself(record in records(), padding in 0usize..5000) {
            let mut payload = record.encode();
            payload.resize(payload.len() + padding, 0);
            prop_assert_eq!(ManifestRecord::decode(&payload, Path::new("m"), 0).unwrap(), record);
        }

        #[test]
        fn damaged_records_are_corrupt_or_decode_but_never_panic(
            record in records(), cut in any::<prop::sample::Index>(), flips in any::<Vec<(prop::sample::Index, u8)>>()
        ) {
            let mut payload = record.encode();
            for (at, with) in flips {
                let at = at.index(payload.len());
                payload[at] ^= with;
            }
            payload.truncate(cut.index(payload.len() + 1));
            match ManifestRecord::decode(&payload, Path::new("m"), 0) {
                Ok(_) | Err(Error::Corrupt { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn only_our_own_names_parse() {
        assert_eq!(parse_name("000017.seg"), Some(NamedFile::Data(FileId(17))));
        assert_eq!(parse_name("12345678.man"), Some(NamedFile::Manifest(FileId(12345678))));
        for name in
            ["17.seg", "000017.SEG", "+00017.seg", "0000017.seg", "000017.seg.bak", "superblock", ".seg"]
        {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
