//! What waits for a leaf and is in none of its pages goes there: both in order, merged to new pages.
//!
//! ```text
//!   misses, sorted     k2      k7 k7   k9
//!   pages            k1  k3 k4 … k8      k10        what stays is copied as bits, from one place of the misses to the next
//!   new pages        k1 k2 k3 k4 … k7 k8 k9 k10
//! ```
//!
//! Everything is read, hashed and packed again only where buckets, alphabet or symbols change, and where states have tails.

use super::{Ground, LG_BLOCK_BYTES, Leaf, Scratch, Sheet, decode, record_of, take_in};
use crate::KeyHash;
use crate::aggregate::alphabet::{Alphabet, ByteSet};
use crate::aggregate::group::KeyState;
use crate::aggregate::page::{EntryCursor, LG_BUCKETS_MAX, PageBuilder, PageHead, bucket_of, fingerprint_of};
use crate::aggregate::pool::Block;
use crate::aggregate::record::Chunk;
use crate::aggregate::state::{Aggregate, Row, State, StateMut};
use crate::aggregate::symbols::Symbols;
use std::cmp::Ordering;
use std::sync::Arc;

/// Groups a bucket, when it is chosen how many buckets there are.
const LG_BUCKET_GROUPS: u32 = 3;
/// There are others when buckets have twice as many groups as ever after that, for all groups are hashed again then.
const LG_BUCKET_GROUPS_MAX: u32 = 5;

/// Rows of a group that an aggregate has at once, and their words: with what it makes of them, some 64 KiB.
const ROWS_AT_ONCE: usize = 512;
const ROWS_WORDS: usize = 4096;
/// Of fewer rows each is taken in by itself: they are not put in order first.
const ROWS_AT_ONCE_MIN: usize = 4;

/// New keys of which a leaf finds out whether they are shorter by symbols: so many at least, and about so many at most.
const SAMPLE_MIN: usize = 64;
const SAMPLE_MAX: usize = 512;

impl Leaf {
    /// Merges the misses with the pages.
    pub(in crate::aggregate) fn compact<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        let alphabet = self.sort_misses(ground, scratch);
        let misses = std::mem::take(&mut self.misses);
        let other_symbols = self.other_symbols(ground, &misses, &scratch.index);
        let Scratch { words, index, builder, coded, read, old, merged, .. } = scratch;
        let lg_buckets = self.lg_buckets_for(self.groups + index.len());
        let is_alike = lg_buckets == self.lg_buckets
            && alphabet.is_none()
            && other_symbols.is_none()
            && !ground.shape().has_tail;
        let alphabet = match (&other_symbols, alphabet) {
            (Some(_), _) => Alphabet::of_all(),
            (None, Some(other)) => other,
            (None, None) => self.alphabet.clone(),
        };
        let symbols = other_symbols.or_else(|| self.symbols.clone());
        let pages = Vec::with_capacity(self.pages.len());
        let mut written = Written { pages, groups: 0, lg_buckets, alphabet, symbols, coded, builder };
        let pages = std::mem::take(&mut self.pages);
        let mut pages = Pages::new(pages, &self.alphabet, self.symbols.as_deref(), is_alike, old, read);
        let mut rest = &index[..];
        while let Some(&place) = rest.first() {
            let first = record_of(&misses, place, ground.shape());
            merged.key.clear();
            merged.key.extend_from_slice(first.key);
            // What stands before the first of the misses, and then its own group.
            if pages.write_before(first.hash, &merged.key, &mut written, ground) {
                std::mem::swap(merged, pages.group);
            } else {
                merged.words.clear();
                merged.words.resize(ground.shape().state_words, 0);
                merged.tail.clear();
                ground.aggregate.start(StateMut { words: &mut merged.words, tail: &mut merged.tail });
            }
            let is_of_first = |&&place: &&u64| {
                let record = record_of(&misses, place, ground.shape());
                record.hash == first.hash && record.key == first.key
            };
            let (own, more) = rest.split_at(1 + rest[1..].iter().take_while(is_of_first).count());
            if ground.shape().has_tail {
                take_in_all(ground, &misses, own, merged, words);
            } else {
                for &place in own {
                    let state = StateMut { words: &mut merged.words, tail: &mut merged.tail };
                    take_in(ground, record_of(&misses, place, ground.shape()), state, words);
                }
            }
            rest = more;
            written.push(first.hash, merged, ground);
        }
        pages.write_rest(&mut written, ground);
        let Written { pages, groups, alphabet, symbols, .. } = written.finish(ground);
        self.firsts.clear();
        self.firsts.push(0);
        self.firsts.extend(pages.iter().skip(1).map(|page| page.head.first_bucket));
        self.firsts.push(u32::MAX);
        (self.pages, self.groups, self.lg_buckets) = (pages, groups, lg_buckets);
        (self.alphabet, self.symbols) = (alphabet, symbols);
        self.rewritten += 1;
        misses.into_iter().for_each(|chunk| ground.pool.give(chunk.block));
    }

    /// Symbols by which keys as those of the misses are shorter than they are here. That is found out each time that the leaf was
    /// rewritten twice as often.
    fn other_symbols<A: Aggregate>(
        &self,
        ground: &Ground<A>,
        misses: &[Chunk],
        index: &[u64],
    ) -> Option<Arc<Symbols>> {
        if !(self.rewritten + 1).is_power_of_two() || index.len() < SAMPLE_MIN {
            return None;
        }
        let sample = index
            .iter()
            .step_by((index.len() / SAMPLE_MAX).max(1))
            .map(|&place| record_of(misses, place, ground.shape()).key);
        let own_bytes = match &self.symbols {
            Some(symbols) => symbols.coded_bytes(sample.clone()),
            None => {
                let mut bytes = ByteSet::default();
                sample.clone().for_each(|key| bytes.insert_all(key));
                let code_bits =
                    self.alphabet.with(bytes).map_or(self.alphabet.code_bits(), |with| with.code_bits());
                sample.clone().map(<[u8]>::len).sum::<usize>() * code_bits as usize / 8
            }
        };
        ground.symbols.shorter_than(sample, own_bytes, ground.pool.is_half_free())
    }

    /// The buckets for so many groups: as they are, unless they are too full.
    pub(super) fn lg_buckets_for(&self, groups: usize) -> u32 {
        if self.lg_buckets > 0 && groups >> LG_BUCKET_GROUPS_MAX < 1 << self.lg_buckets {
            return self.lg_buckets;
        }
        (groups >> LG_BUCKET_GROUPS).max(1).ilog2().min(LG_BUCKETS_MAX)
    }

    /// Puts the misses into the order of their hashes and keys; the alphabet of the keys, if these need another.
    fn sort_misses<A: Aggregate>(&self, ground: &Ground<A>, scratch: &mut Scratch) -> Option<Alphabet> {
        let Scratch { index, sorted, sorter, .. } = scratch;
        let mut bytes = ByteSet::default();
        index.clear();
        for (number, chunk) in self.misses.iter().enumerate() {
            for (at, record) in chunk.records(ground.shape()) {
                if !self.alphabet.has_all(record.key) {
                    bytes.insert_all(record.key);
                }
                index.push(u64::from(record.hash) << 32 | (number << LG_BLOCK_BYTES | at) as u64);
            }
        }
        sorter.sort(index, sorted);
        let key_of = |&place: &u64| record_of(&self.misses, place, ground.shape()).key;
        for alike in index.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            let (first, more) = (key_of(&alike[0]), &alike[1..]);
            if more.iter().any(|place| key_of(place) != first) {
                alike.sort_by(|a, b| {
                    let (a, b) = (key_of(a), key_of(b));
                    (ground.hasher.hash(a), a).cmp(&(ground.hasher.hash(b), b))
                });
            }
        }
        self.alphabet.with(bytes)
    }
}

/// Takes the records of one group into its state, in pieces: of each the aggregate has all rows at once.
fn take_in_all<A: Aggregate>(
    ground: &Ground<A>,
    misses: &[Chunk],
    places: &[u64],
    merged: &mut KeyState,
    words: &mut [u64],
) {
    let shape = ground.shape();
    let KeyState { words: own, tail, .. } = merged;
    for places in places.chunks(ROWS_AT_ONCE.min(ROWS_WORDS / shape.row_words.max(1))) {
        let records = places.iter().map(|&place| record_of(misses, place, shape));
        let (mut row_words, mut bytes) = (Vec::new(), Vec::new());
        for record in records {
            if record.is_state || places.len() < ROWS_AT_ONCE_MIN {
                take_in(ground, record, StateMut { words: own, tail }, words);
                continue;
            }
            let (count, of_row) = record.read(shape, words);
            row_words.extend_from_slice(&words[..count]);
            bytes.push(of_row);
        }
        if bytes.is_empty() {
            continue;
        }
        let words_of = |row: usize| &row_words[row * shape.row_words..(row + 1) * shape.row_words];
        let rows: Vec<Row<'_>> =
            bytes.iter().enumerate().map(|(row, &bytes)| Row { words: words_of(row), bytes }).collect();
        ground.aggregate.update_all(StateMut { words: own, tail }, &rows);
    }
}

/// Pages that are read for the last time.
struct Pages<'a> {
    pages: std::vec::IntoIter<Sheet>,
    page: Option<(Sheet, EntryCursor)>,
    alphabet: &'a Alphabet,
    symbols: Option<&'a Symbols>,
    read: &'a mut Vec<u8>,
    /// Whether what is written has the same buckets, alphabet and symbols.
    is_alike: bool,
    /// What was read and not written, if `hash` is there.
    group: &'a mut KeyState,
    hash: Option<KeyHash>,
    /// Where that is.
    place: EntryCursor,
}

impl<'a> Pages<'a> {
    fn new(
        pages: Vec<Sheet>,
        alphabet: &'a Alphabet,
        symbols: Option<&'a Symbols>,
        is_alike: bool,
        group: &'a mut KeyState,
        read: &'a mut Vec<u8>,
    ) -> Self {
        let (pages, place) = (pages.into_iter(), EntryCursor::default());
        Pages { pages, page: None, alphabet, symbols, read, is_alike, group, hash: None, place }
    }

    /// The page where the next group is; `None` at the end.
    #[inline]
    fn page<A: Aggregate>(&mut self, ground: &Ground<A>) -> Option<&mut (Sheet, EntryCursor)> {
        while self
            .page
            .as_ref()
            .is_none_or(|(page, cursor)| cursor.entry() == page.page(ground.shape().state_words).entries())
        {
            if let Some((page, _)) = self.page.take() {
                ground.pool.give(page.block);
            }
            self.page = Some((self.pages.next()?, EntryCursor::default()));
        }
        self.page.as_mut()
    }

    /// Reads the next group, if there is one and it was not read.
    fn read<A: Aggregate>(&mut self, ground: &Ground<A>) -> Option<KeyHash> {
        if self.hash.is_none() {
            self.page(ground)?;
            let (page, cursor) = self.page.as_mut()?;
            self.place = *cursor;
            cursor.next(page.page(ground.shape().state_words), self.alphabet, self.group);
            decode(self.symbols, &mut self.group.key, self.read);
            self.hash = Some(ground.hasher.hash(&self.group.key));
        }
        self.hash
    }

    /// Writes the groups that stand before a key of this hash; whether the key's own group comes then, which is read and not written.
    #[inline]
    fn write_before<A: Aggregate>(
        &mut self,
        hash: u32,
        key: &[u8],
        written: &mut Written<'_>,
        ground: &Ground<A>,
    ) -> bool {
        if self.is_alike && !self.copy_before(hash, written, ground) {
            return false;
        }
        self.write_read_before(key, written, ground)
    }

    /// As [`Pages::write_before`], one group at a time.
    fn write_read_before<A: Aggregate>(
        &mut self,
        key: &[u8],
        written: &mut Written<'_>,
        ground: &Ground<A>,
    ) -> bool {
        let hash = ground.hasher.hash(key);
        while let Some(own) = self.read(ground) {
            match (own, &self.group.key[..]).cmp(&(hash, key)) {
                Ordering::Less => {
                    let own = (ground.hasher.within(own) >> 32) as u32;
                    written.push(own, self.group, ground);
                    self.hash = None;
                }
                Ordering::Equal => {
                    self.hash = None;
                    return true;
                }
                Ordering::Greater => {
                    self.unread();
                    break;
                }
            }
        }
        false
    }

    /// Where groups are copied, the next of them is not to be read again and again.
    fn unread(&mut self) {
        if let Some((_, cursor)) = self.page.as_mut().filter(|_| self.is_alike) {
            *cursor = self.place;
            self.hash = None;
        }
    }

    /// Copies the groups of lesser buckets and fingerprints than those of a hash; whether there is one with the same.
    #[inline]
    fn copy_before<A: Aggregate>(
        &mut self,
        hash: u32,
        written: &mut Written<'_>,
        ground: &Ground<A>,
    ) -> bool {
        let bucket = bucket_of(hash, written.lg_buckets);
        let fingerprint = fingerprint_of(hash, written.lg_buckets);
        loop {
            let Some((page, cursor)) = self.page(ground) else { return false };
            let view = page.page(ground.shape().state_words);
            let (end, is_there) = view.place_of(cursor.entry(), bucket, fingerprint);
            let is_last = end == view.entries();
            self.copy_to(end, written, ground);
            if !is_last {
                return is_there;
            }
        }
    }

    /// Copies the groups of the page up to `end`.
    #[inline]
    fn copy_to<A: Aggregate>(&mut self, end: usize, written: &mut Written<'_>, ground: &Ground<A>) {
        let Some((page, cursor)) = &mut self.page else { return };
        let page = page.page(ground.shape().state_words);
        let begin = cursor.entry();
        while cursor.entry() < end {
            if !cursor.copy_some(page, end, self.alphabet, written.builder) {
                let (bucket, fingerprint) = cursor.place(page);
                cursor.next(page, self.alphabet, self.group);
                let KeyState { key, words, tail } = &*self.group;
                written.push_to(bucket, fingerprint, key, State { words, tail }, ground);
            }
        }
        written.groups += end - begin;
    }

    fn write_rest<A: Aggregate>(mut self, written: &mut Written<'_>, ground: &Ground<A>) {
        while self.is_alike && self.page(ground).is_some() {
            let end =
                self.page.as_ref().map_or(0, |(page, _)| page.page(ground.shape().state_words).entries());
            self.copy_to(end, written, ground);
        }
        while let Some(hash) = self.read(ground) {
            written.push((ground.hasher.within(hash) >> 32) as u32, self.group, ground);
            self.hash = None;
        }
    }
}

/// Pages that are written.
struct Written<'a> {
    pages: Vec<Sheet>,
    groups: usize,
    lg_buckets: u32,
    alphabet: Alphabet,
    symbols: Option<Arc<Symbols>>,
    /// The key that is written, by them.
    coded: &'a mut Vec<u8>,
    builder: &'a mut PageBuilder,
}

impl Written<'_> {
    #[inline]
    fn push<A: Aggregate>(&mut self, hash: u32, group: &KeyState, ground: &Ground<A>) {
        let (bucket, fingerprint) = (bucket_of(hash, self.lg_buckets), fingerprint_of(hash, self.lg_buckets));
        let state = group.as_state();
        match &self.symbols {
            None => self.push_to(bucket, fingerprint, &group.key, state, ground),
            Some(symbols) => {
                let mut coded = std::mem::take(self.coded);
                coded.clear();
                symbols.encode(&group.key, &mut coded);
                self.push_to(bucket, fingerprint, &coded, state, ground);
                *self.coded = coded;
            }
        }
        self.groups += 1;
    }

    /// Adds a group whose key is coded as keys are here.
    #[inline]
    fn push_to<A: Aggregate>(
        &mut self,
        bucket: u32,
        fingerprint: u8,
        key: &[u8],
        state: State<'_>,
        ground: &Ground<A>,
    ) {
        let take = |bytes| ground.pool.take_for(bytes);
        let page = self.builder.push(bucket, fingerprint, key, state, &self.alphabet, take);
        if let Some(block) = page {
            self.put(block, ground.shape().state_words);
        }
    }

    fn put(&mut self, block: Block, state_words: usize) {
        let head = PageHead::of(&block, state_words);
        self.pages.push(Sheet { block, head });
    }

    fn finish<A: Aggregate>(mut self, ground: &Ground<A>) -> Self {
        let last = self.builder.finish(&self.alphabet, |bytes| ground.pool.take_for(bytes));
        if let Some(block) = last {
            self.put(block, ground.shape().state_words);
        }
        self
    }
}
