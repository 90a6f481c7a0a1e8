//! A run, or a part of one, in compressed columns.
//!
//! ```text
//!   byte 0        4     5   8         12            16           20            24
//!        checksum │ form│ 0 │ objects │ hash bytes  │ size bytes │ payload     │ hashes │ sizes │ payload
//!        crc32c   │ u8  │ 0 │ u32     │ u32         │ u32        │ bytes, u32  │
//!        of what follows
//!
//!   form bit 0    columns are coded:  hashes in blocks of 128, as differences in as many bits as they need; the last ones as varints
//!                                     sizes as pairs of varints: a size, and how often it comes in a row
//!                 or plain:           hashes and sizes of 32 bits each
//!   form bit 1    a codec compressed: the payload, where columns are coded
//!                                     hashes, sizes and payload as one, where they are plain
//! ```
//!
//! Fragments never leave the process. They are checked all the same: a codec may be the user's.
//!
//! Invariants:
//! 1. What is decoded is what was encoded, or `Corrupt`.
//! 2. A fragment has one object or more.
//!
//! Source: Amur et al., section 4.2 (Column-Specialized Compression). Deviation: differences are bit-packed by blocks.

use super::codec::Codec;
use super::run::Run;
use crate::bits::varint;
use crate::bits::{BLOCK_VALUES, decode_deltas, encode_deltas};
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes;
use crate::{Error, Result};
use std::ops::Range;

const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
const COLUMNS_CODED: u8 = 1;
const PACKED: u8 = 2;

/// How fragments are compressed.
#[derive(Debug)]
pub(super) struct Compressor {
    pub(super) codec: Option<Box<dyn Codec>>,
    pub(super) codes_columns: bool,
}

/// Bytes of a fragment, and what the tree must know of them.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) bytes: Box<[u8]>,
    pub(super) objects: usize,
    /// As a buffer counts them.
    pub(super) raw_bytes: usize,
    pub(super) first_hash: u32,
    pub(super) last_hash: u32,
}

impl Compressor {
    /// Encodes some objects of a run, at least one. `scratch` is room for bytes.
    pub(super) fn encode(&self, run: &Run, objects: Range<usize>, scratch: &mut Scratch) -> Fragment {
        let (hashes, payload) = (&run.hashes[objects.clone()], &run.payload[run.payload_range(&objects)]);
        let sizes = objects.clone().map(|i| run.object(i).len() as u32);
        let bytes = &mut scratch.bytes;
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        if self.codes_columns {
            encode_hashes(hashes, bytes);
        } else {
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
        }
        let hash_bytes = bytes.len() - HEADER_BYTES;
        if self.codes_columns {
            encode_sizes(sizes, bytes);
        } else {
            sizes.for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        }
        let size_bytes = bytes.len() - HEADER_BYTES - hash_bytes;
        let mut form = if self.codes_columns { COLUMNS_CODED } else { 0 };
        let packed_from = if self.codes_columns { bytes.len() } else { HEADER_BYTES };
        if !self.codes_columns && self.codec.is_some() {
            bytes.extend_from_slice(payload);
            scratch.body.clear();
            scratch.body.extend_from_slice(&bytes[HEADER_BYTES..]);
        }
        if let Some(codec) = &self.codec {
            let raw = if self.codes_columns { payload } else { &scratch.body };
            bytes.truncate(packed_from);
            let is_less = codec.compress(raw, bytes) && bytes.len() - packed_from < raw.len();
            form |= if is_less { PACKED } else { 0 };
            if !is_less {
                bytes.truncate(packed_from);
                bytes.extend_from_slice(raw);
            }
        } else {
            bytes.extend_from_slice(payload);
        }
        let numbers = [objects.len(), hash_bytes, size_bytes, payload.len()];
        bytes[CHECKSUM_BYTES] = form;
        for (i, number) in numbers.into_iter().enumerate() {
            bytes[8 + 4 * i..12 + 4 * i].copy_from_slice(&(number as u32).to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[CHECKSUM_BYTES..]);
        bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Fragment {
            bytes: bytes.as_slice().into(),
            objects: objects.len(),
            raw_bytes: run.raw_bytes(&objects),
            first_hash: hashes.first().copied().unwrap_or(0),
            last_hash: hashes.last().copied().unwrap_or(0),
        }
    }

    /// Appends the objects of a fragment to `into`.
    ///
    /// # Errors
    /// `Corrupt`; `OutOfMemory`. `into` then ends in anything.
    pub(super) fn decode(&self, fragment: &[u8], into: &mut Run, scratch: &mut Scratch) -> Result<()> {
        let mut fields = ByteReader::new(fragment);
        let checksum = fields.u32()?;
        let computed = crc32c::crc32c(&fragment[CHECKSUM_BYTES..]);
        if checksum != computed {
            return Err(corrupt_bytes(0, "the checksum of a fragment", computed, checksum));
        }
        let form = fields.u8()?;
        fields.zeros(3)?;
        let (objects, hash_bytes) = (fields.u32()? as usize, fields.u32()? as usize);
        let (size_bytes, payload_bytes) = (fields.u32()? as usize, fields.u32()? as usize);
        if form > COLUMNS_CODED | PACKED || form & PACKED != 0 && self.codec.is_none() {
            return Err(fields.corrupt("the form of a fragment", "one of this tree", form));
        }
        let stored = fields.take_rest();
        let start = into.len();
        let payload_at = into.payload.len();
        if form & COLUMNS_CODED != 0 {
            let (Some(hashes), Some(sizes), Some(payload)) = (
                stored.get(..hash_bytes),
                stored.get(hash_bytes..hash_bytes + size_bytes),
                stored.get(hash_bytes + size_bytes..),
            ) else {
                return Err(fields.corrupt(
                    "the columns of a fragment",
                    stored.len(),
                    hash_bytes + size_bytes,
                ));
            };
            // A block of 128 hashes takes two bytes at least, so what is reserved here is at most 64 times what there is.
            if hash_bytes < objects / BLOCK_VALUES * 2 + objects % BLOCK_VALUES {
                return Err(fields.corrupt("the objects of a fragment", "as many as its hashes", objects));
            }
            into.reserve(objects, payload_bytes)?;
            decode_hashes(hashes, objects, &mut into.hashes)?;
            decode_sizes(sizes, objects, payload_at, payload_bytes, &mut into.ends)?;
            self.unpack(form, payload, payload_bytes, &mut into.payload)?;
        } else {
            if (hash_bytes, size_bytes) != (objects.saturating_mul(4), objects.saturating_mul(4)) {
                return Err(fields.corrupt(
                    "plain columns of a fragment",
                    "four bytes an object",
                    hash_bytes,
                ));
            }
            let body_bytes = hash_bytes + size_bytes + payload_bytes;
            let body = if form & PACKED == 0 {
                stored
            } else {
                scratch.body.clear();
                self.unpack(form, stored, body_bytes, &mut scratch.body)?;
                &scratch.body[..]
            };
            if body.len() != body_bytes {
                return Err(corrupt_bytes(HEADER_BYTES, "the length of a fragment", body_bytes, body.len()));
            }
            into.reserve(objects, payload_bytes)?;
            let (hashes, rest) = body.split_at(hash_bytes);
            let (sizes, payload) = rest.split_at(size_bytes);
            into.hashes.extend(words(hashes));
            into.check_from(start)?;
            let sizes = words(sizes).map(|size| (u64::from(size), 1));
            extend_ends(sizes, objects, payload_at, payload_bytes, &mut into.ends)?;
            into.payload.extend_from_slice(payload);
        }
        Ok(())
    }

    /// Appends exactly `bytes` bytes to `into`.
    fn unpack(&self, form: u8, stored: &[u8], bytes: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        let refused = |found: String| {
            corrupt_bytes(HEADER_BYTES, "the payload of a fragment", format!("{bytes} bytes"), found)
        };
        match &self.codec {
            Some(codec) if form & PACKED != 0 => {
                into.try_reserve(bytes).map_err(|_| Error::OutOfMemory {
                    what: "a buffer of the tree".to_owned(),
                    wanted_bytes: bytes,
                })?;
                into.resize(start + bytes, 0);
                match codec.decompress(stored, &mut into[start..]) {
                    true => Ok(()),
                    false => Err(refused(format!("what {codec:?} refuses"))),
                }
            }
            _ if stored.len() == bytes => {
                into.extend_from_slice(stored);
                Ok(())
            }
            _ => Err(refused(stored.len().to_string())),
        }
    }
}

/// Room for bytes that a thread keeps.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
    body: Vec<u8>,
}

impl Scratch {
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.body.capacity()
    }
}

/// Full blocks, and then a varint for each of the others.
fn encode_hashes(hashes: &[u32], into: &mut Vec<u8>) {
    let (blocks, rest) = hashes.as_chunks::<BLOCK_VALUES>();
    let mut previous = 0;
    for block in blocks {
        encode_deltas(u64::from(previous), &block.map(u64::from), into);
        previous = block[BLOCK_VALUES - 1];
    }
    for &hash in rest {
        varint::push(u64::from(hash - previous), into);
        previous = hash;
    }
}

fn decode_hashes(mut bytes: &[u8], objects: usize, into: &mut Vec<u32>) -> Result<()> {
    let refused = |found: u64| {
        Err(corrupt_bytes(HEADER_BYTES, "the hashes of a fragment", format!("{objects} of 32 bits"), found))
    };
    let mut previous = 0;
    let mut values = [0; BLOCK_VALUES];
    for _ in 0..objects / BLOCK_VALUES {
        let taken = decode_deltas(previous, bytes, &mut values)?;
        bytes = &bytes[taken..];
        previous = values[BLOCK_VALUES - 1];
        if previous > u64::from(u32::MAX) {
            return refused(previous);
        }
        into.extend(values.iter().map(|&value| value as u32));
    }
    for _ in 0..objects % BLOCK_VALUES {
        let hash = varint::take(&mut bytes).and_then(|delta| previous.checked_add(delta));
        match hash.filter(|&hash| hash <= u64::from(u32::MAX)) {
            Some(hash) => previous = hash,
            None => return refused(previous),
        }
        into.push(previous as u32);
    }
    match bytes.len() {
        0 => Ok(()),
        more => refused(more as u64),
    }
}

fn encode_sizes(sizes: impl Iterator<Item = u32>, into: &mut Vec<u8>) {
    let (mut size, mut times) = (0, 0u64);
    let push = |size: u32, times: u64, into: &mut Vec<u8>| {
        if times > 0 {
            varint::push(u64::from(size), into);
            varint::push(times, into);
        }
    };
    for next in sizes {
        if next != size {
            push(size, times, into);
            (size, times) = (next, 0);
        }
        times += 1;
    }
    push(size, times, into);
}

fn decode_sizes(
    mut bytes: &[u8],
    objects: usize,
    payload_at: usize,
    payload_bytes: usize,
    into: &mut Vec<u32>,
) -> Result<()> {
    let mut is_whole = true;
    let pairs = std::iter::from_fn(|| {
        if bytes.is_empty() {
            return None;
        }
        let pair = varint::take(&mut bytes).zip(varint::take(&mut bytes));
        is_whole = pair.is_some();
        pair
    });
    extend_ends(pairs, objects, payload_at, payload_bytes, into)?;
    match is_whole {
        true => Ok(()),
        false => {
            Err(corrupt_bytes(HEADER_BYTES, "the sizes of a fragment", "pairs of numbers", "a part of one"))
        }
    }
}

/// Appends the ends of objects of sizes that come so often each; they must be as many, and as long, as said.
fn extend_ends(
    sizes: impl Iterator<Item = (u64, u64)>,
    objects: usize,
    payload_at: usize,
    payload_bytes: usize,
    into: &mut Vec<u32>,
) -> Result<()> {
    let end = (payload_at + payload_bytes) as u64;
    let refused = |what: &'static str, expected: u64, found: u64| {
        Err(corrupt_bytes(HEADER_BYTES, what, expected, found))
    };
    if end > u64::from(u32::MAX) {
        return refused("the bytes of fragments together", u64::from(u32::MAX), end);
    }
    let (mut at, mut left) = (payload_at as u64, objects as u64);
    for (size, times) in sizes {
        // Neither product nor sum can pass 64 bits: both factors are 32 bits where the check lets them.
        if times > left || size > end - at || size * times > end - at {
            return refused("the sizes of a fragment", left, times);
        }
        for _ in 0..times {
            at += size;
            into.push(at as u32);
        }
        left -= times;
    }
    match (left, at == end) {
        (0, true) => Ok(()),
        _ => refused("the sizes of a fragment, added up", end, at),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}
