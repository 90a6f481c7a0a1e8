//! The bytes of a page of a run: a block's body.
//!
//! ```text
//!   0      1      2         4                8              12            16                    48
//!   ┼ kind ┼ zero ┼ entries ┼ heads' bytes   ┼ keys' bytes  ┼ tails' bytes ┼ bytes that occur    ┼ heads │ keys │ tails │ zeros
//!     u8     u8     u16       u32              u32            u32            256 bits
//!
//!   a head, of each entry    its key's bytes │ its words │ its tail's bytes, for states that have one      each a LEB128 number
//!   keys                     codes of all keys, one behind the other, as `alphabet` packs them
//!
//!   An entry that is longer than a block is a page of its own, cut to blocks:
//!   kind 1   the page's first BODY_BYTES              kind 2   its next ones:  0      1       4      8
//!                                                                              ┼ kind ┼ zeros ┼ part ┼ bytes │ zeros
//!                                                                                u8             u32, 1, 2, …
//! ```
//!
//! All numbers are little-endian, and as short as can be: a page's bytes follow from its entries.

use crate::aggregate::alphabet::{Alphabet, ByteSet};
use crate::aggregate::code_bits::CodeBits;
use crate::aggregate::group::KeyState;
use crate::aggregate::state::{Shape, State};
use crate::bits::varint;
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes;
use crate::segment::BODY_BYTES;
use crate::{Error, Result};

/// A page of one block, the first block of one that has more, and one of those that follow.
pub(super) const WHOLE: u8 = 0;
pub(super) const BEGIN: u8 = 1;
pub(super) const PART: u8 = 2;

pub(super) const HEADER_BYTES: usize = 48;
/// What stands before the bytes of a block that goes on with a page.
pub(super) const PART_HEADER_BYTES: usize = 8;
const _: () = assert!(HEADER_BYTES + PART_HEADER_BYTES < BODY_BYTES);

/// The longest page: offsets are 32 bits.
pub(super) const PAGE_BYTES_MAX: usize = 1 << 31;
const ENTRIES_MAX: usize = u16::MAX as usize;

/// Gathers the entries of a page.
#[derive(Debug)]
pub(super) struct PageBuilder {
    shape: Shape,
    entries: usize,
    heads: Vec<u8>,
    keys: Vec<u8>,
    tails: Vec<u8>,
    occurs: ByteSet,
    /// Of the entry that is tried.
    head: Vec<u8>,
    /// The keys' codes, when they are written.
    packed: CodeBits,
}

impl PageBuilder {
    pub(super) fn new(shape: Shape) -> PageBuilder {
        PageBuilder {
            shape,
            entries: 0,
            heads: Vec::new(),
            keys: Vec::new(),
            tails: Vec::new(),
            occurs: ByteSet::default(),
            head: Vec::new(),
            packed: CodeBits::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Adds an entry; `false`, and nothing is changed, where the page has others and no room for it.
    pub(super) fn push(&mut self, key: &[u8], state: State<'_>) -> bool {
        self.head.clear();
        varint::push(key.len() as u64, &mut self.head);
        state.words.iter().for_each(|&word| varint::push(word, &mut self.head));
        if self.shape.has_tail {
            varint::push(state.tail.len() as u64, &mut self.head);
        }
        let mut occurs = ByteSet::default();
        occurs.insert_all(key);
        let occurs = self.occurs.joined(occurs);
        let keys = packed_bytes(self.keys.len() + key.len(), occurs);
        let bytes =
            HEADER_BYTES + self.heads.len() + self.head.len() + keys + self.tails.len() + state.tail.len();
        if self.entries > 0 && (bytes > BODY_BYTES || self.entries == ENTRIES_MAX) {
            return false;
        }
        self.entries += 1;
        self.heads.extend_from_slice(&self.head);
        self.keys.extend_from_slice(key);
        self.tails.extend_from_slice(state.tail);
        self.occurs = occurs;
        true
    }

    /// Bytes of the page that [`PageBuilder::write`] makes.
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.heads.len() + packed_bytes(self.keys.len(), self.occurs) + self.tails.len()
    }

    /// Writes the page to `page`, all of it, and begins the next one.
    pub(super) fn write(&mut self, page: &mut [u8]) {
        let bytes = self.bytes();
        let keys_bytes = packed_bytes(self.keys.len(), self.occurs);
        page.fill(0);
        page[0] = if bytes > BODY_BYTES { BEGIN } else { WHOLE };
        page[2..4].copy_from_slice(&(self.entries as u16).to_le_bytes());
        let lengths = [self.heads.len(), keys_bytes, self.tails.len()];
        for (place, length) in page[4..16].chunks_exact_mut(4).zip(lengths) {
            place.copy_from_slice(&(length as u32).to_le_bytes());
        }
        for (place, word) in page[16..HEADER_BYTES].chunks_exact_mut(8).zip(self.occurs.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let keys_at = HEADER_BYTES + self.heads.len();
        page[HEADER_BYTES..keys_at].copy_from_slice(&self.heads);
        let tails_at = keys_at + keys_bytes;
        self.packed.clear();
        Alphabet::of_set(self.occurs).pack(&self.keys, &mut self.packed);
        self.packed.write(&mut page[keys_at..tails_at]);
        page[tails_at..tails_at + self.tails.len()].copy_from_slice(&self.tails);
        self.entries = 0;
        self.heads.clear();
        self.keys.clear();
        self.tails.clear();
        self.occurs = ByteSet::default();
    }
}

fn packed_bytes(symbols: usize, occurs: ByteSet) -> usize {
    (symbols * occurs.code_bits() as usize).div_ceil(8)
}

/// What a page says of itself, once that is known to fit its bytes.
#[derive(Clone, Debug)]
pub(super) struct PageCursor {
    shape: Shape,
    alphabet: Alphabet,
    entries_left: usize,
    /// What was not read yet, by places in the page.
    heads: (usize, usize),
    key_bit: usize,
    keys_end: usize,
    tails: (usize, usize),
}

/// The lengths that the header of a page has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    entries: usize,
    heads: usize,
    keys: usize,
    tails: usize,
}

impl Lengths {
    /// Reads a page's header; what it says is not compared with anything yet.
    ///
    /// # Errors
    /// `Corrupt` for bytes that begin no page.
    pub(super) fn of(bytes: &[u8]) -> Result<Lengths> {
        let mut fields = ByteReader::new(bytes);
        let kind = fields.u8()?;
        if kind != WHOLE && kind != BEGIN {
            return Err(corrupt_bytes(0, "the kind of a page of groups", "0 or 1", kind));
        }
        fields.zeros(1)?;
        let entries = usize::from(fields.u16()?);
        let [heads, keys, tails] = [fields.u32()?, fields.u32()?, fields.u32()?].map(|bytes| bytes as usize);
        let lengths = Lengths { entries, heads, keys, tails };
        let is_one = kind == WHOLE || entries == 1;
        let is_long = lengths.page_bytes() > BODY_BYTES;
        if entries == 0 || !is_one || is_long != (kind == BEGIN) || lengths.page_bytes() > PAGE_BYTES_MAX {
            let found = format!("kind {kind}, {lengths:?}");
            return Err(corrupt_bytes(2, "the lengths of a page of groups", "those of its kind", found));
        }
        Ok(lengths)
    }

    /// Bytes of the whole page.
    pub(super) fn page_bytes(&self) -> usize {
        // Three lengths of 32 bits.
        HEADER_BYTES + self.heads + self.keys + self.tails
    }
}

impl PageCursor {
    /// Begins to read a page, which may have zeros behind it.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no page.
    pub(super) fn new(page: &[u8], shape: Shape) -> Result<PageCursor> {
        let lengths = Lengths::of(page)?;
        let mut fields = ByteReader::new(page);
        fields.take(16)?;
        let occurs = ByteSet::of_words([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]);
        fields.counted("the bytes of a page of groups", (lengths.page_bytes() - HEADER_BYTES) as u64, 1)?;
        let heads_end = HEADER_BYTES + lengths.heads;
        let keys_end = heads_end + lengths.keys;
        let tails_end = keys_end + lengths.tails;
        ByteReader::from_offset(page.get(tails_end..).unwrap_or_default(), tails_end).only_zeros_left()?;
        if !shape.has_tail && lengths.tails > 0 {
            return Err(corrupt_bytes(12, "the bytes of tails", 0, lengths.tails));
        }
        Ok(PageCursor {
            shape,
            alphabet: Alphabet::of_set(occurs),
            entries_left: lengths.entries,
            heads: (HEADER_BYTES, heads_end),
            key_bit: heads_end * 8,
            keys_end,
            tails: (keys_end, tails_end),
        })
    }

    /// Reads the next entry of the page that the cursor was made for; `false` at the end.
    ///
    /// # Errors
    /// `Corrupt`. The cursor is then of no use.
    pub(super) fn next(&mut self, page: &[u8], into: &mut KeyState) -> Result<bool> {
        if self.entries_left == 0 {
            return self.check_end().map(|()| false);
        }
        self.entries_left -= 1;
        let key_bytes = self.number(page)?;
        let code_bits = self.alphabet.code_bits() as usize;
        let room = (self.keys_end * 8).saturating_sub(self.key_bit) / code_bits;
        if key_bytes > room as u64 {
            return Err(self.corrupt("the bytes of a key", format!("at most {room}"), key_bytes));
        }
        into.key.clear();
        self.alphabet.unpack(page, self.key_bit, key_bytes as usize, &mut into.key);
        self.key_bit += key_bytes as usize * code_bits;
        into.words.clear();
        for _ in 0..self.shape.state_words {
            into.words.push(self.number(page)?);
        }
        into.tail.clear();
        if self.shape.has_tail {
            let (at, end) = self.tails;
            let length = self.number(page)?;
            match page.get(at..end).filter(|rest| length <= rest.len() as u64) {
                Some(rest) => into.tail.extend_from_slice(&rest[..length as usize]),
                None => {
                    return Err(self.corrupt("the bytes of a tail", format!("at most {}", end - at), length));
                }
            }
            self.tails.0 += length as usize;
        }
        Ok(true)
    }

    /// Nothing may be left where all entries were read.
    fn check_end(&self) -> Result<()> {
        let left = (
            self.heads.1 - self.heads.0,
            self.keys_end.saturating_sub(self.key_bit.div_ceil(8)),
            self.tails.1 - self.tails.0,
        );
        if left == (0, 0, 0) {
            Ok(())
        } else {
            Err(self.corrupt("what is behind the last entry", "nothing", format!("{left:?}")))
        }
    }

    /// A LEB128 number of a head, in as few bytes as can be.
    #[inline]
    fn number(&mut self, page: &[u8]) -> Result<u64> {
        let (at, end) = self.heads;
        let rest = page.get(at..end).unwrap_or_default();
        let mut behind = rest;
        if let Some(number) = varint::take(&mut behind) {
            let length = rest.len() - behind.len();
            if length == varint::length(number) {
                self.heads.0 += length;
                return Ok(number);
            }
        }
        Err(self.corrupt(
            "a number of an entry",
            "64 bits in as few bytes as can be",
            format!("{:02x?}", rest.get(..10).unwrap_or(rest)),
        ))
    }

    #[cold]
    fn corrupt(&self, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
        corrupt_bytes(self.heads.0, what, expected, found)
    }
}
