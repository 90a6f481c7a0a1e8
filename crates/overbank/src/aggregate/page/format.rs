//! The bytes of a page.
//!
//! ```text
//!   0         2         4              8             12          13         14           16         20         24        28        32
//!   ┼ entries ┼ buckets ┼ first bucket ┼ key's bytes ┼ key width ┼ tail's … ┼ exceptions ┼ keys at ┼ words at ┼ exc. at ┼ tails ┼
//!     u16       u16       u32            u32           u8              u8           u16          u32        u32        u32       u32
//!
//!   a word's head   base u64 │ width u8          an exception   entry u16 │ word u16 │ value u64
//! ```

use std::ops::Range;

pub(super) const HEADER_BYTES: usize = 32;
pub(super) const WORD_HEAD_BYTES: usize = 9;
pub(super) const EXCEPTION_BYTES: usize = 12;
/// In place of a length where keys differ in theirs.
pub(super) const LENGTHS_DIFFER: u32 = u32::MAX;

pub(super) const ENTRIES_AT: usize = 0;
pub(super) const BUCKETS_AT: usize = 2;
pub(super) const FIRST_BUCKET_AT: usize = 4;
pub(super) const KEY_BYTES_AT: usize = 8;
pub(super) const LENGTH_WIDTH_AT: usize = 12;
pub(super) const TAIL_WIDTH_AT: usize = 13;
pub(super) const EXCEPTIONS_AT: usize = 14;
pub(super) const KEYS_AT: usize = 16;
pub(super) const WORDS_AT: usize = 20;
pub(super) const EXCEPTIONS_START_AT: usize = 24;
pub(super) const TAILS_AT: usize = 28;

#[inline(always)]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u16::from_le_bytes(*chunk).into(),
        None => 0,
    }
}

#[inline(always)]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u32::from_le_bytes(*chunk),
        None => 0,
    }
}

#[inline(always)]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    }
}

/// A number of `width` bytes, 0 to 8.
#[inline(always)]
pub(super) fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    match width {
        0 => 0,
        1 => bytes[at].into(),
        2 => u16_at(bytes, at) as u64,
        4 => u32_at(bytes, at).into(),
        _ => u64_at(bytes, at),
    }
}

#[inline(always)]
pub(super) fn put_number(bytes: &mut [u8], at: usize, width: usize, number: u64) {
    bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
}

/// What stands for an exception in a column of `width` bytes; `None` where every number fits.
#[inline(always)]
pub(super) fn escape(width: usize) -> Option<u64> {
    if width == 8 { None } else { Some((1 << (8 * width)) - 1) }
}

/// Whether a word's difference to the base of a column of `width` bytes, wrapping, is kept in the column.
#[inline(always)]
pub(super) fn fits(difference: u64, width: usize) -> bool {
    match width {
        // Nothing but the base.
        0 => difference == 0,
        8 => true,
        _ => difference < (1 << (8 * width)) - 1,
    }
}

/// Where the columns of a page are: what its leaf has at hand of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct PageHead {
    pub(in crate::aggregate) first_bucket: u32,
    buckets: u16,
    fingerprints_at: u16,
    keys_at: u16,
    /// Bytes of each key, or [`LENGTHS_DIFFER`].
    key_bytes: u32,
    words_at: u32,
}

impl PageHead {
    /// That of a page, as its header says.
    #[inline(always)]
    pub(in crate::aggregate) fn of(bytes: &[u8], state_words: usize) -> PageHead {
        const NONE: &[u8; HEADER_BYTES] = &[0; HEADER_BYTES];
        let header = bytes.first_chunk().unwrap_or(NONE);
        let buckets = u16_at(header, BUCKETS_AT);
        let key_bytes = u32_at(header, KEY_BYTES_AT);
        let fingerprints_at = ends_at(state_words)
            .wrapping_add(buckets.wrapping_mul(bucket_bytes(key_bytes == LENGTHS_DIFFER)));
        PageHead {
            first_bucket: u32_at(header, FIRST_BUCKET_AT),
            buckets: buckets as u16,
            fingerprints_at: fingerprints_at as u16,
            keys_at: u32_at(header, KEYS_AT) as u16,
            key_bytes,
            words_at: u32_at(header, WORDS_AT),
        }
    }
}

/// A page, where its columns are.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct Page<'a> {
    pub(super) bytes: &'a [u8],
    head: PageHead,
    pub(super) state_words: usize,
}

/// A column of words.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageColumn {
    pub(super) base: u64,
    pub(super) width: usize,
    pub(super) at: usize,
}

impl<'a> Page<'a> {
    #[inline(always)]
    pub(in crate::aggregate) fn new(bytes: &'a [u8], state_words: usize) -> Page<'a> {
        Page { bytes, head: PageHead::of(bytes, state_words), state_words }
    }

    /// A page whose head is known.
    #[inline(always)]
    pub(in crate::aggregate) fn with_head(bytes: &'a [u8], head: PageHead, state_words: usize) -> Page<'a> {
        Page { bytes, head, state_words }
    }

    /// How many entries there are.
    #[inline(always)]
    pub(in crate::aggregate) fn entries(&self) -> usize {
        u16_at(self.bytes, ENTRIES_AT)
    }

    /// How many buckets there are, from the first on.
    #[inline(always)]
    pub(super) fn buckets(&self) -> usize {
        self.head.buckets.into()
    }

    #[inline(always)]
    pub(in crate::aggregate) fn first_bucket(&self) -> u32 {
        self.head.first_bucket
    }

    #[inline(always)]
    pub(super) fn fingerprints_at(&self) -> usize {
        self.head.fingerprints_at.into()
    }

    /// Bytes of each key; `None` where they differ.
    #[inline(always)]
    pub(super) fn key_bytes(&self) -> Option<usize> {
        (self.head.key_bytes != LENGTHS_DIFFER).then_some(self.head.key_bytes as usize)
    }

    #[inline(always)]
    pub(super) fn keys_at(&self) -> usize {
        self.head.keys_at.into()
    }

    /// Whether keys differ in their lengths.
    #[inline(always)]
    pub(super) fn lengths_differ(&self) -> bool {
        self.head.key_bytes == LENGTHS_DIFFER
    }

    /// Where bucket `at` of this page has its end.
    #[inline(always)]
    pub(super) fn end_at(&self, at: usize) -> usize {
        ends_at(self.state_words).wrapping_add(at.wrapping_mul(bucket_bytes(self.lengths_differ())))
    }

    /// Where the entries of bucket `at` of this page begin and end.
    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> (usize, usize) {
        // The end of the bucket before stands before the end of this one.
        let (begin, end) = if self.lengths_differ() {
            let both = u64_at(self.bytes, self.end_at(at).wrapping_sub(4));
            (both as u16, (both >> 32) as u16)
        } else {
            let both = u32_at(self.bytes, self.end_at(at).wrapping_sub(2));
            (both as u16, (both >> 16) as u16)
        };
        (if at == 0 { 0 } else { begin.into() }, end.into())
    }

    /// Where the entries of a bucket begin and end; empty where the page has none of it.
    #[inline(always)]
    pub(in crate::aggregate) fn entries_of(&self, bucket: u32) -> (usize, usize) {
        let at = bucket.wrapping_sub(self.first_bucket()) as usize;
        if at < self.buckets() { self.bucket(at) } else { (0, 0) }
    }

    /// The bit of the page at which the keys of a bucket that it has begin, where keys differ in their lengths.
    #[inline(always)]
    pub(super) fn start_of(&self, bucket: u32) -> usize {
        let at = bucket.wrapping_sub(self.first_bucket()) as usize;
        let start = u16_at(self.bytes, self.end_at(at).wrapping_add(2));
        self.keys_at().wrapping_mul(8).wrapping_add(start)
    }

    /// The fingerprints of some entries.
    #[inline(always)]
    pub(super) fn fingerprints(&self, begin: usize, end: usize) -> &'a [u8] {
        let at = self.fingerprints_at();
        self.bytes.get(at.wrapping_add(begin)..at.wrapping_add(end)).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn words_at(&self) -> usize {
        self.head.words_at as usize
    }

    /// Bytes of a key.
    #[inline(always)]
    pub(super) fn length(&self, entry: usize) -> usize {
        if !self.lengths_differ() {
            return self.head.key_bytes as usize;
        }
        let width = self.length_width();
        number_at(self.bytes, self.lengths_at().wrapping_add(entry.wrapping_mul(width)), width) as usize
    }

    /// Where the lengths of keys begin, where these differ.
    #[inline(always)]
    pub(super) fn lengths_at(&self) -> usize {
        self.fingerprints_at().wrapping_add(self.entries())
    }

    /// Bytes of a length; 0 where keys do not differ in theirs.
    #[inline(always)]
    pub(super) fn length_width(&self) -> usize {
        usize::from(self.bytes[LENGTH_WIDTH_AT])
    }

    /// Bytes of the keys of some entries.
    #[inline]
    pub(super) fn all_lengths(&self, run: Range<usize>) -> usize {
        match self.key_bytes() {
            Some(bytes) => bytes.wrapping_mul(run.len()),
            None => self.sum_of_lengths(run.start, run.end),
        }
    }

    /// The first entry from `from` on that stands behind all of lesser buckets and fingerprints, and whether it has these.
    #[inline]
    pub(in crate::aggregate) fn place_of(&self, from: usize, bucket: u32, fingerprint: u8) -> (usize, bool) {
        if bucket < self.first_bucket() {
            return (from, false);
        }
        if (bucket - self.first_bucket()) as usize >= self.buckets() {
            return (self.entries(), false);
        }
        let (begin, end) = self.entries_of(bucket);
        let fingerprints = self.fingerprints(begin, end);
        let less = fingerprints.iter().map(|&found| usize::from(found < fingerprint)).sum::<usize>();
        let at = from.max(begin + less);
        (at, at < end && fingerprints[at - begin] == fingerprint)
    }

    /// The columns of words, from the first on.
    #[inline(always)]
    pub(super) fn columns(&self) -> impl Iterator<Item = PageColumn> {
        let (bytes, entries) = (self.bytes, self.entries());
        let mut column_at = self.head.words_at as usize;
        (0..self.state_words).map(move |i| {
            let (base, width) = head(bytes, i);
            let at = column_at;
            column_at = at.wrapping_add(width.wrapping_mul(entries));
            PageColumn { base, width, at }
        })
    }

    /// The codes of some entries in a column.
    #[inline(always)]
    pub(super) fn codes(&self, column: PageColumn, run: Range<usize>) -> &'a [u8] {
        let (begin, end) = (run.start.wrapping_mul(column.width), run.end.wrapping_mul(column.width));
        self.bytes.get(column.at.wrapping_add(begin)..column.at.wrapping_add(end)).unwrap_or_default()
    }

    /// The words of an entry.
    #[inline(always)]
    pub(in crate::aggregate) fn words(&self, entry: usize, words: &mut [u64]) {
        for (i, (column, word)) in self.columns().zip(words).enumerate() {
            let code =
                number_at(self.bytes, column.at.wrapping_add(entry.wrapping_mul(column.width)), column.width);
            *word = if escape(column.width) == Some(code) {
                self.escaped_word(entry, i, column.base.wrapping_add(code))
            } else {
                column.base.wrapping_add(code)
            };
        }
    }

    /// A word whose code is the escape: an exception, or else what it says in a column of no bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn escaped_word(self, entry: usize, word: usize, otherwise: u64) -> u64 {
        self.exception(entry, word).map_or(otherwise, |at| u64_at(self.bytes, at + 4))
    }

    #[inline]
    pub(super) fn has_exceptions(&self) -> bool {
        u16_at(self.bytes, EXCEPTIONS_AT) > 0
    }

    /// Where an exception begins.
    fn exception(&self, entry: usize, word: usize) -> Option<usize> {
        let start = u32_at(self.bytes, EXCEPTIONS_START_AT) as usize;
        let count = u16_at(self.bytes, EXCEPTIONS_AT);
        (0..count)
            .map(|i| start + EXCEPTION_BYTES * i)
            .find(|&at| u16_at(self.bytes, at) == entry && u16_at(self.bytes, at + 2) == word)
    }

    /// Exceptions for which there is room.
    fn exceptions_left(&self) -> usize {
        let tails_at = u32_at(self.bytes, TAILS_AT) as usize;
        let limit = if tails_at == 0 { self.bytes.len() } else { tails_at };
        let start = u32_at(self.bytes, EXCEPTIONS_START_AT) as usize;
        (limit - start) / EXCEPTION_BYTES - u16_at(self.bytes, EXCEPTIONS_AT)
    }
}

/// What a page has for each bucket: its end, and behind that, where keys differ in their lengths, the bit at which its keys begin.
#[inline(always)]
pub(super) fn bucket_bytes(lengths_differ: bool) -> usize {
    if lengths_differ { 4 } else { 2 }
}

/// Where the ends of buckets begin.
#[inline(always)]
pub(super) fn ends_at(state_words: usize) -> usize {
    HEADER_BYTES.wrapping_add(WORD_HEAD_BYTES.wrapping_mul(state_words))
}

/// Base and width of a column.
#[inline(always)]
fn head(bytes: &[u8], word: usize) -> (u64, usize) {
    let at = ends_at(word);
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<WORD_HEAD_BYTES>()) {
        Some(head) => (u64_at(head, 0), head[8].into()),
        None => (0, 0),
    }
}

/// Where a word of an entry goes.
enum Place {
    /// As a number in its column.
    Column,
    /// To the exception that begins there.
    Exception(usize),
    NewException,
}

fn place_of(page: &Page<'_>, entry: usize, i: usize, word: u64) -> Place {
    let (base, width) = head(page.bytes, i);
    let known = || page.exception(entry, i);
    match (fits(word.wrapping_sub(base), width), width) {
        (true, 1..) => Place::Column,
        (true, _) => known().map_or(Place::Column, Place::Exception),
        (false, _) => known().map_or(Place::NewException, Place::Exception),
    }
}

/// Makes `new` the words of an entry, which are `old` now; `false`, and nothing is changed, where they do not fit.
#[inline(never)]
fn set_words(bytes: &mut [u8], state_words: usize, entry: usize, old: &[u64], new: &[u64]) -> bool {
    let page = Page::new(bytes, state_words);
    let mut wanted = 0;
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        if old != new && matches!(place_of(&page, entry, i, *new), Place::NewException) {
            wanted += 1;
        }
    }
    if wanted > 0 && wanted > page.exceptions_left() {
        return false;
    }
    let entries = page.entries();
    let mut column_at = u32_at(bytes, WORDS_AT) as usize;
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        let (base, width) = head(bytes, i);
        if old != new {
            let at = column_at + entry * width;
            match place_of(&Page::new(bytes, state_words), entry, i, *new) {
                Place::Column => put_number(bytes, at, width, new.wrapping_sub(base)),
                Place::Exception(exception) => {
                    put_number(bytes, at, width, escape(width).unwrap_or(0));
                    put_number(bytes, exception + 4, 8, *new);
                }
                Place::NewException => {
                    let count = u16_at(bytes, EXCEPTIONS_AT);
                    let start = u32_at(bytes, EXCEPTIONS_START_AT) as usize;
                    put_number(bytes, at, width, escape(width).unwrap_or(0));
                    put_exception(bytes, start + EXCEPTION_BYTES * count, entry, i, *new);
                    put_number(bytes, EXCEPTIONS_AT, 2, count as u64 + 1);
                }
            }
        }
        column_at += width * entries;
    }
    true
}

pub(super) fn put_exception(bytes: &mut [u8], at: usize, entry: usize, word: usize, value: u64) {
    put_number(bytes, at, 2, entry as u64);
    put_number(bytes, at + 2, 2, word as u64);
    put_number(bytes, at + 4, 8, value);
}

/// Changes the words of an entry as `change` does; `false`, and nothing is changed, where the page has no room for them. `scratch` has room
/// for two states.
#[inline(always)]
pub(in crate::aggregate) fn change_words(
    bytes: &mut [u8],
    page_head: PageHead,
    state_words: usize,
    entry: usize,
    scratch: &mut [u64],
    change: impl FnOnce(&mut [u64]),
) -> bool {
    if state_words == 1 {
        let (base, width) = head(bytes, 0);
        if width == 1 {
            let at = (page_head.words_at as usize).wrapping_add(entry);
            let code = bytes[at];
            let old = match code {
                u8::MAX => Page::new(bytes, 1).escaped_word(entry, 0, base.wrapping_add(u64::from(code))),
                _ => base.wrapping_add(u64::from(code)),
            };
            let mut new = [old];
            change(&mut new);
            let difference = new[0].wrapping_sub(base);
            if difference < u64::from(u8::MAX) {
                bytes[at] = difference as u8;
                return true;
            }
            return set_words(bytes, 1, entry, &[old], &new);
        }
    }
    let (old, new) = scratch[..2 * state_words].split_at_mut(state_words);
    Page::with_head(bytes, page_head, state_words).words(entry, old);
    new.copy_from_slice(old);
    change(new);
    set_words(bytes, state_words, entry, old, new)
}
