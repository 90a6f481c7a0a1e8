//! The bytes of a forest, within those of whoever has one.
//!
//! ```text
//! byte 0  len u64               8  buckets u64
//!     16  first hash u64       24  last hash u64
//!     32  huffman_keys_max u32 36  kind of detail u32     40  number of detail u32     44  average keys u32
//!     48  bits of tries u64    56  number of escapes u64  64  line: slope, intercept, i32 each
//!     72  groups, 64 B each: a 24th of the buckets        then escapes, 16 B each      then tries, bytes
//! ```
//!
//! 1. Little-endian. The detail is 0 and `skip_keys_min`, or 1 and the items of a block. What groups hold is in `directory.rs`, what tries
//!    hold in `mod.rs`; an escape is bucket, keys, bits in 8, 4 and 4 bytes.
//! 2. What is read is laid out anew and compared: each trie must end where the next begins. So equal forests have equal bytes.

use super::averages::Averages;
use super::directory::{Directory, Escape, GROUP_BUCKETS, Group, Line, Load};
use super::forest::{BUCKET_KEYS_MAX, Forest};
use super::places::Places;
use super::read::TrieReader;
use super::{Detail, HUFFMAN_KEYS_MAX, TrieShape};
use crate::Result;
use crate::bits::word::{append_le_bytes, words_from_le_bytes};
use crate::bytes::ByteReader;

const FIELDS_BYTES: usize = 72;
const GROUP_BYTES: usize = size_of::<Group>();
const ESCAPE_BYTES: usize = 16;
const _: () = assert!(GROUP_BYTES == 64);

impl Forest {
    /// How many bytes [`encode`](Self::encode) appends.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let (groups, escapes) = (self.directory.groups().len(), self.directory.escapes().len());
        let tries = self.bytes.len() - TrieReader::BEHIND_BYTES;
        FIELDS_BYTES + groups * GROUP_BYTES + escapes * ESCAPE_BYTES + tries
    }

    /// Appends the forest's bytes.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.reserve(self.encoded_bytes());
        let (first, last) = self.places.range().into_inner();
        let (directory, line) = (&self.directory, self.directory.line());
        let (kind, number) = match self.shape.detail {
            Detail::Keys { skip_keys_min } => (0, skip_keys_min),
            Detail::Blocks { items } => (1, items),
        };
        for word in [self.len, self.places.buckets(), first, last] {
            into.extend(word.to_le_bytes());
        }
        for half in [self.shape.huffman_keys_max, kind, number, directory.average_keys()] {
            into.extend(half.to_le_bytes());
        }
        for word in [self.trie_bits, directory.escapes().len() as u64] {
            into.extend(word.to_le_bytes());
        }
        for half in [line.slope, line.intercept] {
            into.extend(half.to_le_bytes());
        }
        for Group(words) in directory.groups() {
            append_le_bytes(words, into);
        }
        for Escape { bucket, load } in directory.escapes() {
            into.extend(bucket.to_le_bytes());
            into.extend(load.keys.to_le_bytes());
            into.extend(load.bits.to_le_bytes());
        }
        into.extend_from_slice(&self.bytes[..self.bytes.len() - TrieReader::BEHIND_BYTES]);
    }

    /// The forest that all that is left are the bytes of.
    ///
    /// # Cost
    /// One pass that decodes every trie.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt).
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let (len, buckets) = (reader.u64()?, reader.u64()?);
        let range = reader.u64()?..=reader.u64()?;
        let (huffman_keys_max, kind, number) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let average_keys = reader.u32()?;
        let (trie_bits, escapes) = (reader.u64()?, reader.u64()?);
        let line = Line { slope: reader.i32()?, intercept: reader.i32()? };
        let detail = match kind {
            0 if number >= 2 => Detail::Keys { skip_keys_min: number },
            1 if number >= 1 => Detail::Blocks { items: number },
            _ => {
                return Err(reader.corrupt(
                    "the detail of tries",
                    "0 and 2 or more, or 1 and 1 or more",
                    kind,
                ));
            }
        };
        if !(1..=HUFFMAN_KEYS_MAX).contains(&huffman_keys_max) {
            let expected = format!("1 to {HUFFMAN_KEYS_MAX}");
            return Err(reader.corrupt("the most keys of a Huffman code", expected, huffman_keys_max));
        }
        let shape = TrieShape { huffman_keys_max, detail };
        let places = Places::new(range.clone(), buckets);
        if range.is_empty() || places.buckets() != buckets {
            return Err(reader.corrupt("the number of buckets", places.buckets(), buckets));
        }
        if average_keys > BUCKET_KEYS_MAX {
            let expected = format!("at most {BUCKET_KEYS_MAX}");
            return Err(reader.corrupt("the keys of a bucket", expected, average_keys));
        }
        let groups = buckets.div_ceil(GROUP_BUCKETS);
        let body_bytes = u128::from(groups) * GROUP_BYTES as u128
            + u128::from(escapes) * ESCAPE_BYTES as u128
            + u128::from(trie_bits.div_ceil(8));
        reader.require_left(usize::try_from(body_bytes).ok())?;
        let groups = words_from_le_bytes(reader.take(groups as usize * GROUP_BYTES)?);
        let groups = groups.as_chunks().0.iter().map(|words| Group(*words)).collect();
        let escapes = (0..escapes).map(|_| decode_escape(reader)).collect::<Result<Vec<_>>>()?;
        let tries_at = reader.clone();
        let tries = reader.take_rest();
        let mut bytes = Vec::with_capacity(tries.len() + TrieReader::BEHIND_BYTES);
        bytes.extend_from_slice(tries);
        bytes.resize(tries.len() + TrieReader::BEHIND_BYTES, 0);
        let directory = Directory::of_parts(average_keys, line, groups, escapes);
        let averages = Averages::new(shape);
        let forest = Self { shape, places, directory, averages, bytes, trie_bits, len };
        forest.verify(&tries_at)?;
        Ok(forest)
    }

    /// Whether each trie ends where the next begins, and directory and filling are what the tries make them.
    fn verify(&self, tries_at: &ByteReader<'_>) -> Result<()> {
        let (reader, items) = (self.reader(), u64::from(self.shape.block_items()));
        let mut loads = Vec::with_capacity(self.places.buckets() as usize);
        let (mut rank, mut start) = (0u64, 0);
        for bucket in 0..self.places.buckets() {
            let (found, is_last) = (self.directory.get(bucket), bucket + 1 == self.places.buckets());
            let end = if is_last { self.trie_bits } else { self.directory.get(bucket + 1).at_bit };
            let is_here = (found.first_rank, found.at_bit) == (rank, start);
            let is_sound = is_here && start <= end && end <= self.trie_bits && found.keys <= BUCKET_KEYS_MAX;
            if !is_sound || !reader.check(start, end, found.keys, (rank % items) as u32) {
                let expected = format!("of {} hashes, up to bit {end}", found.keys);
                return Err(tries_at.corrupt("a trie", expected, format!("other bits from {start}")));
            }
            loads.push(Load { keys: found.keys, bits: (end - start) as u32 });
            (rank, start) = (rank + u64::from(found.keys), end);
        }
        if rank != self.len {
            return Err(tries_at.corrupt("the number of hashes", rank, self.len));
        }
        if Directory::of(&loads) != self.directory {
            return Err(tries_at.corrupt("the directory of tries", "what their sizes make it", "another"));
        }
        let filling = match (self.trie_bits % 8, self.bytes.iter().rev().nth(TrieReader::BEHIND_BYTES)) {
            (1.., Some(byte)) => byte >> (self.trie_bits % 8),
            _ => 0,
        };
        if filling != 0 {
            return Err(tries_at.corrupt("the filling of the last byte", 0, filling));
        }
        Ok(())
    }
}

fn decode_escape(reader: &mut ByteReader<'_>) -> Result<Escape> {
    let escape = Escape { bucket: reader.u64()?, load: Load { keys: reader.u32()?, bits: reader.u32()? } };
    if escape.load.keys > BUCKET_KEYS_MAX {
        let expected = format!("at most {BUCKET_KEYS_MAX}");
        return Err(reader.corrupt("the keys of a bucket", expected, escape.load.keys));
    }
    Ok(escape)
}
