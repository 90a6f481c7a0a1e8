//! Records that wait: keys with what rows or states say of them, one behind the other in blocks.
//!
//! ```text
//!   ┼ head ┼ hash ┼ key's length ┼ key ┼ words, each: length, bytes ┼ length of bytes ┼ bytes ┼
//!     u8     u32    u32                   u8, 0..=8                   u32
//!                   if head says so                                   only for aggregates with tails
//!
//!   head   bit 7: a state, not a row    bits 0..=6: the key's length; 127: it follows
//!   hash   the 32 bits behind those that name the leaf
//! ```
//!
//! The bytes never leave the process that wrote them.

use super::pool::{BLOCK_BYTES, Block};
use super::state::{Row, Shape, State};

const STATE: u8 = 1 << 7;
const LONG: u8 = STATE - 1;
const HASH_AT: usize = 1;
/// Head and hash.
const HEAD_BYTES: usize = HASH_AT + 4;

/// A block of records.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) block: Block,
    pub(super) used: usize,
}

/// A record that was found in a chunk.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Record<'a> {
    pub(super) hash: u32,
    pub(super) is_state: bool,
    pub(super) key: &'a [u8],
    /// Words, and bytes or a tail.
    payload: &'a [u8],
    /// All of it, to be copied.
    pub(super) whole: &'a [u8],
}

/// What is to become a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    is_state: bool,
    key: &'a [u8],
    words: &'a [u64],
    bytes: &'a [u8],
}

impl<'a> Content<'a> {
    #[inline(always)]
    pub(super) fn of_row(key: &'a [u8], row: Row<'a>) -> Self {
        Content { is_state: false, key, words: row.words, bytes: row.bytes }
    }

    #[inline(always)]
    pub(super) fn of_state(key: &'a [u8], state: State<'a>) -> Self {
        Content { is_state: true, key, words: state.words, bytes: state.tail }
    }

    /// Bytes of its record.
    #[inline(always)]
    pub(super) fn record_bytes(&self, has_tail: bool) -> usize {
        let length = if self.key.len() < usize::from(LONG) { 0 } else { 4 };
        let words: usize = self.words.iter().map(|&word| 1 + word_bytes(word)).sum();
        5 + length + self.key.len() + words + if has_tail { 4 + self.bytes.len() } else { 0 }
    }
}

/// Bytes of a number without its leading zeros.
#[inline]
fn word_bytes(word: u64) -> usize {
    8 - word.leading_zeros() as usize / 8
}

impl Chunk {
    pub(super) fn new(block: Block) -> Chunk {
        Chunk { block, used: 0 }
    }

    /// Whether this many bytes more fit.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.block.len() - self.used >= bytes
    }

    /// Adds a record that fits.
    #[inline(always)]
    pub(super) fn push(&mut self, hash: u32, content: Content<'_>, has_tail: bool) {
        let Content { is_state, key, words, bytes } = content;
        let (head, mut rest) = self.block[self.used..].split_at_mut(HEAD_BYTES);
        let state = if is_state { STATE } else { 0 };
        let is_long = key.len() >= usize::from(LONG);
        head[0] = state | if is_long { LONG } else { key.len() as u8 };
        head[HASH_AT..].copy_from_slice(&hash.to_le_bytes());
        let room = rest.len();
        if is_long {
            rest = put(rest, &(key.len() as u32).to_le_bytes());
        }
        rest = put(rest, key);
        for &word in words {
            let bytes = word_bytes(word);
            rest = put(rest, &[bytes as u8]);
            rest = put(rest, &word.to_le_bytes()[..bytes]);
        }
        if has_tail {
            rest = put(rest, &(bytes.len() as u32).to_le_bytes());
            rest = put(rest, bytes);
        }
        self.used = self.used.wrapping_add(HEAD_BYTES).wrapping_add(room.wrapping_sub(rest.len()));
    }

    /// Adds a copy of a record that fits.
    #[inline]
    pub(super) fn push_copy(&mut self, record: &[u8]) {
        put(&mut self.block[self.used..], record);
        self.used += record.len();
    }

    /// The record at `at`, which is where one begins; the next one begins behind it.
    #[inline(always)]
    pub(super) fn record_at(&self, at: usize, shape: Shape) -> Record<'_> {
        record_at(&self.block[..self.used], at, shape)
    }

    /// All of them, with their places.
    #[inline(always)]
    pub(super) fn records(&self, shape: Shape) -> impl Iterator<Item = (usize, Record<'_>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.used).then(|| {
                let record = self.record_at(at, shape);
                let begin = at;
                at += record.whole.len();
                (begin, record)
            })
        })
    }
}

/// Writes `bytes` to the front of `into`; the rest of it.
#[inline(always)]
fn put<'a>(into: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (place, rest) = into.split_at_mut(bytes.len());
    copy(bytes, place);
    rest
}

/// Copies bytes to as many: a few, as a rule, for which two copies of one length that overlap are quicker than a call.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        8..=16 => copy_by::<8>(from, to),
        17..=32 => copy_by::<16>(from, to),
        4..8 => copy_by::<4>(from, to),
        2..4 => copy_by::<2>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies `N` to 2 `N` bytes.
#[inline(always)]
fn copy_by<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut()) {
        *to = *from;
    }
}

#[inline(always)]
fn record_at(bytes: &[u8], begin: usize, shape: Shape) -> Record<'_> {
    let all = &bytes[begin..];
    let (head, mut rest) = all.split_at(HEAD_BYTES);
    let is_state = head[0] & STATE != 0;
    let hash = u32_at(head, HASH_AT);
    let mut key_bytes = usize::from(head[0] & LONG);
    if key_bytes == usize::from(LONG) {
        key_bytes = u32_at(rest, 0) as usize;
        rest = &rest[4..];
    }
    let (key, payload) = rest.split_at(key_bytes);
    let mut end = 0;
    for _ in 0..if is_state { shape.state_words } else { shape.row_words } {
        end += 1 + usize::from(payload[end]);
    }
    if shape.has_tail {
        end += 4 + u32_at(payload, end) as usize;
    }
    let (payload, behind) = payload.split_at(end);
    Record { hash, is_state, key, payload, whole: &all[..all.len().wrapping_sub(behind.len())] }
}

impl<'a> Record<'a> {
    /// Puts the words into `words`, which has as many places as there are at least, and returns how many there are and the bytes.
    #[inline(always)]
    pub(super) fn read(&self, shape: Shape, words: &mut [u64]) -> (usize, &'a [u8]) {
        let count = if self.is_state { shape.state_words } else { shape.row_words };
        let mut at = 0;
        for word in &mut words[..count] {
            let bytes = usize::from(self.payload[at]);
            *word = self.payload[at + 1..at + 1 + bytes].iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
            at += 1 + bytes;
        }
        (count, if shape.has_tail { &self.payload[at + 4..] } else { &[] })
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Adds a record to the last of some chunks, or to a new one that `take` gives memory for.
#[inline]
pub(super) fn append_copy(chunks: &mut Vec<Chunk>, record: &[u8], take: impl FnOnce(usize) -> Block) {
    match chunks.last_mut() {
        Some(last) if last.has_room(record.len()) => last.push_copy(record),
        _ => {
            let mut chunk = Chunk::new(take(record.len().max(BLOCK_BYTES)));
            chunk.push_copy(record);
            chunks.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back(
            has_tail: bool,
            records in prop::collection::vec(
                (any::<u32>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..200), any::<[u64; 3]>(), 0u32..64, any::<Vec<u8>>()),
                0..8,
            ),
        ) {
            let shape = Shape { row_words: 2, state_words: 3, has_tail };
            let contents: Vec<_> = records.iter().map(|(hash, is_state, key, words, shift, bytes)| {
                let words: Vec<u64> = words.iter().map(|word| word >> shift).take(if *is_state { 3 } else { 2 }).collect();
                (*hash, *is_state, key, words, if has_tail { &bytes[..] } else { &[] })
            }).collect();
            let content = |(_, is_state, key, words, bytes): &(u32, bool, &Vec<u8>, Vec<u64>, &[u8])| {
                let (key, words, bytes): (&[u8], &[u64], &[u8]) = (key, words, bytes);
                // Their lives end with this closure's argument: what is returned is a length.
                Content { is_state: *is_state, key, words, bytes }.record_bytes(has_tail)
            };
            let total: usize = contents.iter().map(content).sum();
            let mut chunk = Chunk::new(vec![0xaa; total].into());
            for (hash, is_state, key, words, bytes) in &contents {
                let content = Content { is_state: *is_state, key, words, bytes };
                prop_assert!(chunk.has_room(content.record_bytes(has_tail)));
                chunk.push(*hash, content, has_tail);
            }
            prop_assert_eq!(chunk.used, total);
            let mut found = 0;
            for ((_, record), (hash, is_state, key, words, bytes)) in chunk.records(shape).zip(&contents) {
                let mut back = [0; 3];
                let (count, tail) = record.read(shape, &mut back);
                prop_assert_eq!((record.hash, record.is_state, record.key), (*hash, *is_state, &key[..]));
                prop_assert_eq!((&back[..count], tail), (&words[..], *bytes));
                found += 1;
            }
            prop_assert_eq!(found, contents.len());
        }
    }
}
