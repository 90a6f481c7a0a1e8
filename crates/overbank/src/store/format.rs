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
//!             version: a manifest has no record of a later one, and may have records of earlier ones
//!
//! manifest    │ chunk 0 │ chunk 0 │ chunk 1 │ chunk 1 │ …     every chunk twice: damage to one block is not a torn tail
//!
//! chunk body  0       4       8                                4080      (sealed, sequence = commit)
//!             ├ index ┼ count ┼ payload, zeros behind its end ──┤
//!
//! payload     0        4      5     8       16       24     32          40         44         52
//!             ├ bytes ─┼ kind ┼ 000 ┼ epoch ┼ commit ┼ time ┼ next file ┼ position ┼ removed ─┼ changed ─┼ …
//!             position: bytes u32, then the bytes. removed: count u32, then names. changed: count u32, then entries.
//!             kind: 3 a snapshot, 4 an edit; 1 and 2 are those of versions 1 and 2, whose entries have no place
//!             name: bytes u16, then UTF-8. entry: name, structure u16, version u16, place u8, and
//!               place 0: state (bytes u32, bytes), files (count u32, then the files)
//!               place 1: a file, whose blob is the record
//!             file: id u64, bytes u64, XXH3-128 u128; 0 = written in place
//!
//! blob        first block's body: payload bytes u64, then the payload; it runs on through the next bodies, zeros behind
//! record      as a blob: state bytes u64, state, count u64, then the files
//! ```
//!
//! All numbers are little-endian. A change to any byte bumps [`FORMAT_VERSION`].

use super::{Entry, FileId, FileRef, Record, Structure};
use crate::bytes::ByteReader;
use crate::device::block::BODY_BYTES;
use crate::error::corrupt_bytes;
use crate::{Error, HashKind, Result, Seed};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The version of everything in this file. Version 1, which had no mark in its superblock, and version 2, whose records were all in
/// the manifest, are read too; a store of theirs is of this version from its first commit on.
pub const FORMAT_VERSION: u32 = 3;
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

/// Bytes of a file in a record.
const FILE_BYTES: usize = 2 * size_of::<u64>() + size_of::<u128>();
/// Files of a record that are written or read at a time.
const FILES_AT_ONCE: usize = 256;

/// Longest position that a commit takes, in bytes.
pub const POSITION_BYTES_MAX: usize = 64 << 10;
/// Longest state of a summary in a manifest of version 1 or 2, in bytes.
const OLD_STATE_BYTES_MAX: usize = 64 << 10;
/// A record that takes more bytes than this is a blob of its own: one in the manifest is written twice, and again whenever the
/// manifest is. It is four blocks, below which a file of its own, with its sync, costs more than it saves.
pub(super) const SPILL_BYTES: usize = 16 << 10;
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
    /// That of the slot as it was read; what is written is always of the present one.
    pub(super) version: u32,
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
        Self::decode_body(block.get(..BODY_BYTES).unwrap_or(block), path)
            .map_err(|error| error.in_file_from(path, at))
    }

    fn decode_body(body: &[u8], path: &Path) -> Result<Self> {
        let mut reader = ByteReader::new(body);
        reader.magic("magic", MAGIC)?;
        let version = reader.u32()?;
        if !(FORMAT_VERSION_LEAST..=FORMAT_VERSION).contains(&version) {
            return Err(Error::UnsupportedVersion {
                what: path.display().to_string(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let hash_kind = match reader.array::<4>()? {
            [1, 0, 0, 0] => HashKind::Xxh3,
            [2, 0, 0, 0] => HashKind::SipHash13,
            [kind, ..] => return Err(reader.corrupt("hash kind", "1 or 2", kind)),
        };
        let (store_id, seed) = (reader.u128()?, Seed(reader.u128()?));
        let (generation, epoch, manifest) = (reader.u64()?, reader.u64()?, FileId(reader.u64()?));
        let mark_bytes = if version < 2 { 0 } else { reader.u64()? };
        reader.only_zeros_left()?;
        Ok(Superblock { version, hash_kind, store_id, seed, generation, epoch, manifest, mark_bytes })
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
    pub(super) changed: BTreeMap<String, Arc<Stored>>,
}

impl ManifestRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; size_of::<u32>()];
        out.extend([if self.is_snapshot { 3 } else { 4 }, 0, 0, 0]);
        for number in [self.epoch, self.commit, self.time_ns, self.next_file] {
            out.extend(number.to_le_bytes());
        }
        put_bytes(&mut out, &self.position);
        put_count(&mut out, self.removed.len());
        for name in &self.removed {
            put_name(&mut out, name);
        }
        put_count(&mut out, self.changed.len());
        for (name, stored) in &self.changed {
            let Entry { structure, record } = &stored.entry;
            put_name(&mut out, name);
            out.extend(structure.id.to_le_bytes());
            out.extend(structure.version.to_le_bytes());
            if let Some(spill) = &stored.spill {
                out.push(1);
                out.extend(file_bytes(spill));
            } else {
                out.push(0);
                put_bytes(&mut out, &record.state);
                put_count(&mut out, record.files.len());
                record.files.iter().for_each(|file| out.extend(file_bytes(file)));
            }
        }
        let bytes = out.len() as u32;
        out[..size_of::<u32>()].copy_from_slice(&bytes.to_le_bytes());
        out
    }

    /// Reads a payload whose blocks have been verified; zeros must follow its end. `at` is its place in the file. Records that are
    /// blobs of their own are empty yet.
    pub(super) fn decode(payload: &[u8], path: &Path, at: u64) -> Result<Self> {
        Self::decode_payload(payload).map_err(|error| error.in_file_from(path, at))
    }

    fn decode_payload(payload: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(payload);
        let bytes = reader.u32()? as usize;
        if bytes > payload.len() || bytes < size_of::<u32>() {
            return Err(reader.corrupt("payload bytes", format!("4 to {}", payload.len()), bytes));
        }
        let (is_snapshot, has_places) = match reader.array::<4>()? {
            [1, 0, 0, 0] => (true, false),
            [2, 0, 0, 0] => (false, false),
            [3, 0, 0, 0] => (true, true),
            [4, 0, 0, 0] => (false, true),
            [kind, ..] => return Err(reader.corrupt("record kind", "1 to 4", kind)),
        };
        let (epoch, commit, time_ns, next_file) =
            (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let position = take_bytes(&mut reader, "position bytes", POSITION_BYTES_MAX)?;
        let mut removed = Vec::new();
        for _ in 0..reader.u32()? {
            removed.push(take_name(&mut reader)?);
        }
        let mut changed = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let (name, stored) = (take_name(&mut reader)?, take_stored(&mut reader, has_places)?);
            changed.insert(name, Arc::new(stored));
        }
        if reader.at() != bytes {
            return Err(reader.corrupt("payload bytes", bytes, reader.at()));
        }
        reader.only_zeros_left()?;
        Ok(ManifestRecord { is_snapshot, epoch, commit, time_ns, next_file, position, removed, changed })
    }
}

/// A summary as the manifest has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    /// Empty of its record between reading the manifest and reading the blob.
    pub(super) entry: Entry,
    /// The blob that its record is, where that is too long for the manifest.
    pub(super) spill: Option<FileRef>,
}

impl Stored {
    /// All files that the manifest must keep for it.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.spill.iter().chain(&self.entry.record.files)
    }
}

/// Bytes that a record takes.
pub(super) fn record_bytes(record: &Record) -> usize {
    2 * size_of::<u64>() + record.state.len() + record.files.len() * FILE_BYTES
}

/// Gives the bytes of a record to `sink`, piece by piece.
pub(super) fn write_record(record: &Record, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    sink(&(record.state.len() as u64).to_le_bytes())?;
    sink(&record.state)?;
    sink(&(record.files.len() as u64).to_le_bytes())?;
    for files in record.files.chunks(FILES_AT_ONCE) {
        let bytes: Vec<u8> = files.iter().flat_map(file_bytes).collect();
        sink(&bytes)?;
    }
    Ok(())
}

/// Reads a record of `total_bytes` bytes from `source`, piece by piece; who gives them verifies their checksums.
pub(super) fn read_record(
    total_bytes: usize,
    source: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<Record> {
    const NUMBER_BYTES: usize = size_of::<u64>();
    let mut number = [0; NUMBER_BYTES];
    let Some(most_state_bytes) = total_bytes.checked_sub(2 * NUMBER_BYTES) else {
        return Err(corrupt_bytes(0, "bytes of a record", "at least 16", total_bytes));
    };
    source(&mut number)?;
    let state_bytes = u64::from_le_bytes(number);
    let state_bytes = usize::try_from(state_bytes)
        .ok()
        .filter(|&bytes| bytes <= most_state_bytes)
        .ok_or_else(|| corrupt_bytes(0, "state bytes", format!("at most {most_state_bytes}"), state_bytes))?;
    let mut state = vec![0; state_bytes];
    source(&mut state)?;
    source(&mut number)?;
    let (files_bytes, found) = (most_state_bytes - state_bytes, u64::from_le_bytes(number));
    if found.checked_mul(FILE_BYTES as u64) != Some(files_bytes as u64) {
        let expected = format!("as many as take {files_bytes} bytes");
        return Err(corrupt_bytes(NUMBER_BYTES + state_bytes, "number of files", expected, found));
    }
    let count = files_bytes / FILE_BYTES;
    let mut files = Vec::with_capacity(count);
    let mut piece = vec![0; files_bytes.min(FILES_AT_ONCE * FILE_BYTES)];
    while files.len() < count {
        let some = (count - files.len()).min(FILES_AT_ONCE);
        let bytes = &mut piece[..some * FILE_BYTES];
        source(bytes)?;
        let mut reader = ByteReader::new(bytes);
        for _ in 0..some {
            files.push(take_file(&mut reader)?);
        }
    }
    Ok(Record { state, files })
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

fn take_bytes(reader: &mut ByteReader<'_>, what: &'static str, max: usize) -> Result<Vec<u8>> {
    let bytes = reader.u32()? as usize;
    if bytes > max {
        return Err(reader.corrupt(what, format!("at most {max}"), bytes));
    }
    reader.take(bytes).map(<[u8]>::to_vec)
}

fn take_name(reader: &mut ByteReader<'_>) -> Result<String> {
    let bytes = usize::from(reader.u16()?);
    let name = reader.take(bytes)?.to_vec();
    String::from_utf8(name)
        .map_err(|error| reader.corrupt("summary name", "UTF-8", format!("{:?}", error.as_bytes())))
}

fn take_stored(reader: &mut ByteReader<'_>, has_place: bool) -> Result<Stored> {
    let structure = Structure { id: reader.u16()?, version: reader.u16()? };
    let place = if has_place { reader.u8()? } else { 0 };
    let (record, spill) = match place {
        0 => (take_record(reader, has_place)?, None),
        1 => (Record::default(), Some(take_file(reader)?)),
        _ => return Err(reader.corrupt("place of a record", "0 or 1", place)),
    };
    Ok(Stored { entry: Entry { structure, record }, spill })
}

fn take_record(reader: &mut ByteReader<'_>, is_present: bool) -> Result<Record> {
    let most = if is_present { SPILL_BYTES } else { OLD_STATE_BYTES_MAX };
    let state = take_bytes(reader, "state bytes", most)?;
    let count = reader.u32()?;
    let count = reader.counted("number of files", count, FILE_BYTES)?;
    let files = (0..count).map(|_| take_file(reader)).collect::<Result<_>>()?;
    Ok(Record { state, files })
}

fn take_file(reader: &mut ByteReader<'_>) -> Result<FileRef> {
    Ok(FileRef { id: FileId(reader.u64()?), bytes: reader.u64()?, xxh3: reader.u128()? })
}

fn file_bytes(file: &FileRef) -> [u8; FILE_BYTES] {
    let mut bytes = [0; FILE_BYTES];
    bytes[..8].copy_from_slice(&file.id.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&file.bytes.to_le_bytes());
    bytes[16..].copy_from_slice(&file.xxh3.to_le_bytes());
    bytes
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
        let spill = prop::option::of(file.clone());
        let entry = (any::<u16>(), any::<u16>(), any::<Vec<u8>>(), prop::collection::vec(file, 0..4), spill)
            .prop_map(|(id, version, state, files, spill)| {
                let record = if spill.is_some() { Record::default() } else { Record { state, files } };
                Arc::new(Stored { entry: Entry { structure: Structure { id, version }, record }, spill })
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

    proptest! {
        #[test]
        fn a_long_record_is_read_as_it_was_written_and_damage_is_corrupt(
            state: Vec<u8>, ids in prop::collection::vec(any::<(u64, u64, u128)>(), 0..600), cut in any::<prop::sample::Index>(),
            flip in any::<(prop::sample::Index, u8)>()
        ) {
            let files = ids.into_iter().map(|(id, bytes, xxh3)| FileRef { id: FileId(id), bytes, xxh3 }).collect();
            let record = Record { state, files };
            let mut bytes = Vec::new();
            write_record(&record, &mut |piece| { bytes.extend_from_slice(piece); Ok(()) }).unwrap();
            prop_assert_eq!(bytes.len(), record_bytes(&record));
            let read = |mut bytes: &[u8]| read_record(bytes.len(), &mut |into| {
                let (piece, rest) = bytes.split_at(into.len());
                into.copy_from_slice(piece);
                bytes = rest;
                Ok(())
            });
            prop_assert_eq!(read(&bytes).unwrap(), record);
            let cut = cut.index(bytes.len());
            let is_corrupt = matches!(read(&bytes[..cut]), Err(Error::Corrupt { .. }));
            prop_assert!(is_corrupt, "cut at {}", cut);
            let at = flip.0.index(bytes.len());
            bytes[at] ^= flip.1;
            let is_told = matches!(read(&bytes), Ok(_) | Err(Error::Corrupt { .. }));
            prop_assert!(is_told, "flipped at {}", at);
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
