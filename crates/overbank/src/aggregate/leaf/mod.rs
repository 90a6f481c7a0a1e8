//! A range of hashes: pages of groups, and records that wait to be taken into them.
//!
//! ```text
//!   full chunks ─▶ pending ──apply──▶ a group is there: its state is changed where it lies
//!                                └──▶ it is not: misses ──compact──▶ sorted, merged with the pages, new pages
//! ```
//!
//! Invariants:
//! 1. Each key is in the pages once at most; in the misses and among what is pending any number of times.
//! 2. A merge gives the memory of each page back as soon as it has read it: it needs a few blocks more than what comes out of it.
//! 3. To each [`Moment`] that it is pinned to it is what it was then, if the chunks that came later are left out.
//!    Pins are in the order of these chunks.

mod backlog;
mod compact;
mod moments;

use backlog::LastGathered;
pub(super) use backlog::{Gather, GatherLimits, HashPart};

use super::alphabet::Alphabet;
use super::backlog::Backlog;
use super::group::{GroupHasher, KeyState};
use super::options::Shares;
use super::page::{EntryCursor, Page, PageHead, bucket_of, change_words, fingerprint_of};
use super::pool::{BLOCK_BYTES, Block, Pool};
use super::record::{Chunk, Record, append_copy};
use super::scratches::{Scratch, Scratches};
use super::state::{Aggregate, Row, Shape, State, StateMut, WORDS_MAX};
use super::symbols::{SharedSymbols, Symbols};
use crate::Result;
use crate::error::invalid;
use moments::Pin;
use std::sync::Arc;

pub(super) use moments::{Moment, no_room};

/// Records whose groups are looked for together, so that their cache misses are under way at once.
const PROBES: usize = 16;

/// Where a record is in its chunk takes so many bits: in a longer one there is nothing but a record at 0.
const LG_BLOCK_BYTES: u32 = BLOCK_BYTES.ilog2();
/// Chunks that wait for a leaf, pending or missing, at most: numbers of misses take what is left of 32 bits.
pub(super) const WAITING_MAX: usize = 1 << (u32::BITS - LG_BLOCK_BYTES - 2);

/// With less memory, keys have no symbols: these, and their training, take more than what stands beside the pool.
const SYMBOLS_POOL_BYTES_MIN: usize = 24 << 20;

/// What all leaves have in common.
#[derive(Debug)]
pub(super) struct Ground<A> {
    pub(super) aggregate: Arc<A>,
    pub(super) hasher: GroupHasher,
    pub(super) pool: Arc<Pool>,
    pub(super) symbols: SharedSymbols,
    /// Behind the locks of leaves.
    pub(super) scratches: Scratches,
    /// Chunks whose records are put in order at a time, where there may be any number.
    missing_blocks_max: usize,
    /// What the last leaf was like whose records on flash became groups.
    gathered: LastGathered,
}

impl<A: Aggregate> Ground<A> {
    /// # Errors
    /// `InvalidOption` for an aggregate of too many words.
    pub(super) fn new(aggregate: Arc<A>, hasher: GroupHasher, shares: &Shares) -> Result<Ground<A>> {
        let Shares { pool_bytes, missing_blocks_max, .. } = *shares;
        let shape = Shape::of(&*aggregate);
        let words = shape.row_words.max(shape.state_words);
        if words > WORDS_MAX {
            let why = format!("rows and states have at most {WORDS_MAX}");
            return invalid("an aggregate's words", words, why);
        }
        let symbols = SharedSymbols::new(pool_bytes >= SYMBOLS_POOL_BYTES_MIN);
        let gathered = LastGathered::default();
        let pool = Arc::new(Pool::new(pool_bytes));
        let scratches = Scratches::new(shape, shares.scratches);
        Ok(Ground { aggregate, hasher, pool, symbols, scratches, missing_blocks_max, gathered })
    }
}

impl<A: Aggregate> Ground<A> {
    /// What rows and states look like. Asked of the aggregate wherever it is needed, so that it is a constant there if it is one here.
    #[inline(always)]
    pub(super) fn shape(&self) -> Shape {
        Shape::of(&*self.aggregate)
    }
}

/// A range of hashes.
#[derive(Debug)]
pub(super) struct Leaf {
    lg_buckets: u32,
    /// Of the keys, or of the codes that they have by `symbols`.
    alphabet: Alphabet,
    symbols: Option<Arc<Symbols>>,
    pages: Vec<Sheet>,
    /// The first bucket of each page but the first, whose is 0, and behind them one that is greater than all.
    firsts: Vec<u32>,
    groups: usize,
    /// How often the pages were written.
    rewritten: u64,
    /// How often they were taken away.
    taken: u64,
    pending: Vec<Chunk>,
    misses: Vec<Chunk>,
    /// Its records go to flash when room is needed, and are taken into pages later.
    is_away: bool,
    /// Those that are there.
    backlog: Option<Backlog>,
    pins: Vec<Pin>,
}

/// A page, and where its columns are.
#[derive(Debug)]
struct Sheet {
    block: Block,
    head: PageHead,
}

impl Sheet {
    #[inline(always)]
    fn page(&self, state_words: usize) -> Page<'_> {
        Page::with_head(&self.block, self.head, state_words)
    }
}

/// Where the group of a record may be.
#[derive(Clone, Copy, Default, Debug)]
struct Probe<'c> {
    key: &'c [u8],
    /// Where the record begins in its chunk.
    at: usize,
    hash: u32,
    is_state: bool,
    page: usize,
    /// The entries of the bucket.
    begin: usize,
    end: usize,
    /// The first of them that has the fingerprint.
    entry: Option<usize>,
    /// The bit of the page where its key begins.
    key_bit: usize,
}

impl Leaf {
    pub(super) fn new() -> Leaf {
        Leaf {
            lg_buckets: 0,
            alphabet: Alphabet::empty(),
            symbols: None,
            pages: Vec::new(),
            firsts: Vec::new(),
            groups: 0,
            rewritten: 0,
            taken: 0,
            pending: Vec::new(),
            misses: Vec::new(),
            is_away: false,
            backlog: None,
            pins: Vec::new(),
        }
    }

    /// Bytes beside those of the pool.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Leaf>()
            + self.pages.capacity() * size_of::<Sheet>()
            + self.firsts.capacity() * 4
            + (self.pending.capacity() + self.misses.capacity()) * size_of::<Chunk>()
            + self.backlog.as_ref().map_or(0, Backlog::memory_bytes)
    }

    /// Groups in the pages.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Whether nothing was ever pushed, or all of it was taken away.
    pub(super) fn is_empty(&self) -> bool {
        let is_in_memory = !self.pages.is_empty() || !self.pending.is_empty() || !self.misses.is_empty();
        !is_in_memory && self.backlog.is_none()
    }

    /// How often the pages were written.
    pub(super) fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// How often the pages were taken away.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes of the pages.
    pub(super) fn page_bytes(&self) -> usize {
        self.pages.iter().map(|sheet| sheet.block.len()).sum()
    }

    /// Takes the pages away, as a leaf for which nothing waits; what waits here stays.
    pub(super) fn take_pages(&mut self) -> Leaf {
        let empty = Leaf {
            alphabet: self.alphabet.clone(),
            symbols: self.symbols.clone(),
            rewritten: self.rewritten + 1,
            taken: self.taken + 1,
            pending: std::mem::take(&mut self.pending),
            misses: std::mem::take(&mut self.misses),
            is_away: self.is_away,
            backlog: self.backlog.take(),
            ..Leaf::new()
        };
        std::mem::replace(self, empty)
    }

    /// Gives the memory of the pages back.
    pub(super) fn drop_pages(&mut self, pool: &Pool) {
        self.groups = 0;
        self.pages.drain(..).for_each(|sheet| pool.give(sheet.block));
    }

    /// What the keys of its pages are packed by.
    pub(super) fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Makes a key of what was read of a page, by way of `read`.
    #[inline]
    pub(super) fn decode(&self, key: &mut Vec<u8>, read: &mut Vec<u8>) {
        decode(self.symbols.as_deref(), key, read);
    }

    /// A page.
    pub(super) fn page(&self, at: usize, shape: Shape) -> Option<Page<'_>> {
        self.pages.get(at).map(|sheet| sheet.page(shape.state_words))
    }

    /// Pages of groups.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Chunks that were not looked at.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Chunks of records whose groups are not in the pages.
    pub(super) fn misses(&self) -> usize {
        self.misses.len()
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        self.pending.push(chunk);
    }

    /// The last page that begins with this bucket or before it, or the first, of some pages.
    #[inline(always)]
    fn page_of(&self, bucket: u32) -> usize {
        let firsts = &self.firsts[..];
        // Hashes are spread evenly, or else are searched for. Whether it is the page before or behind is as good as random: no branch is
        // made of that.
        let pages = (firsts.len() as u64).wrapping_sub(1);
        let mut at = (u64::from(bucket).wrapping_mul(pages) >> self.lg_buckets) as usize;
        at = at.wrapping_sub(usize::from(firsts[at] > bucket));
        at = at.wrapping_add(usize::from(firsts[at.wrapping_add(1)] <= bucket));
        if firsts[at] <= bucket && bucket < firsts[at.wrapping_add(1)] {
            return at;
        }
        firsts.partition_point(|&first| first <= bucket) - 1
    }

    /// The page and the entry of a key, as it is coded here.
    #[inline(never)]
    fn find(&self, state_words: usize, hash: u32, key: &[u8]) -> Option<(usize, usize)> {
        let bucket = bucket_of(hash, self.lg_buckets);
        let fingerprint = fingerprint_of(hash, self.lg_buckets);
        if self.pages.is_empty() {
            return None;
        }
        let mut at = self.page_of(bucket);
        loop {
            let page = self.pages[at].page(state_words);
            if let Some(entry) = page.find(bucket, fingerprint, key, &self.alphabet) {
                return Some((at, entry));
            }
            // The bucket may begin in the page before.
            if self.pages[at].head.first_bucket != bucket {
                return None;
            }
            at = at.checked_sub(1)?;
        }
    }

    /// Takes what is pending into the groups that are there; the rest are misses.
    pub(super) fn apply<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        if !self.pins.is_empty() {
            self.keep_for_moments(ground, scratch);
        }
        for chunk in std::mem::take(&mut self.pending) {
            if ground.shape().has_tail || self.pages.is_empty() {
                chunk.records(ground.shape()).for_each(|(_, record)| self.miss(record.whole, ground));
            } else if let Some(symbols) = self.symbols.clone() {
                self.apply_coded(&chunk, &symbols, ground, scratch);
            } else {
                self.apply_chunk(&chunk, ground, scratch);
            }
            ground.pool.give(chunk.block);
        }
    }

    /// Takes records into their groups, of which there are some in pages, without tails: what is far in memory is on its way for some
    /// records at once.
    fn apply_chunk<A: Aggregate>(&mut self, chunk: &Chunk, ground: &Ground<A>, scratch: &mut Scratch) {
        let mut probes = [Probe::default(); PROBES];
        let mut at = 0;
        while at < chunk.used {
            let mut count = 0usize;
            for probe in &mut probes {
                if at == chunk.used {
                    break;
                }
                let record = chunk.record_at(at, ground.shape());
                let page = self.prefetch_page_of(record.hash, ground.shape());
                let (key, hash, is_state) = (record.key, record.hash, record.is_state);
                *probe = Probe { key, at, hash, is_state, page, ..Probe::default() };
                at = at.wrapping_add(record.whole.len());
                count = count.wrapping_add(1);
            }
            self.take_all(&mut probes[..count], chunk, ground, scratch);
        }
    }

    /// As [`Leaf::apply_chunk`], where keys are coded by symbols.
    fn apply_coded<A: Aggregate>(
        &mut self,
        chunk: &Chunk,
        symbols: &Symbols,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) {
        let mut coded = std::mem::take(&mut scratch.coded);
        let mut at = 0;
        while at < chunk.used {
            coded.clear();
            let mut ends = [0; PROBES];
            let mut probes = [Probe::default(); PROBES];
            let mut count = 0usize;
            for (probe, end) in probes.iter_mut().zip(&mut ends) {
                if at == chunk.used {
                    break;
                }
                let record = chunk.record_at(at, ground.shape());
                let page = self.prefetch_page_of(record.hash, ground.shape());
                symbols.encode(record.key, &mut coded);
                *end = coded.len();
                let (hash, is_state) = (record.hash, record.is_state);
                *probe = Probe { at, hash, is_state, page, ..Probe::default() };
                at = at.wrapping_add(record.whole.len());
                count = count.wrapping_add(1);
            }
            let mut begin = 0;
            for (probe, end) in probes.iter_mut().zip(ends).take(count) {
                probe.key = &coded[begin..end];
                begin = end;
            }
            self.take_all(&mut probes[..count], chunk, ground, scratch);
        }
        scratch.coded = coded;
    }

    /// Has on its way what is known of a hash's page; which page that is.
    #[inline(always)]
    fn prefetch_page_of(&self, hash: u32, shape: Shape) -> usize {
        let bucket = bucket_of(hash, self.lg_buckets);
        let page = self.page_of(bucket);
        self.pages[page].page(shape.state_words).prefetch_bucket(bucket);
        page
    }

    /// Takes some records into their groups, whose keys and pages are known; the rest are misses.
    #[inline(always)]
    fn take_all<A: Aggregate>(
        &mut self,
        probes: &mut [Probe<'_>],
        chunk: &Chunk,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) {
        for probe in &mut *probes {
            let page = self.pages[probe.page].page(ground.shape().state_words);
            (probe.begin, probe.end) = page.entries_of(bucket_of(probe.hash, self.lg_buckets));
            page.prefetch_fingerprints(probe.begin);
        }
        for probe in &mut *probes {
            let page = self.pages[probe.page].page(ground.shape().state_words);
            let fingerprint = fingerprint_of(probe.hash, self.lg_buckets);
            probe.entry = page.candidate(probe.begin, probe.end, fingerprint);
            if let Some(entry) = probe.entry {
                let bucket = bucket_of(probe.hash, self.lg_buckets);
                probe.key_bit = page.key_bit(bucket, probe.begin, entry, &self.alphabet);
                page.prefetch_entry(entry, probe.key_bit);
            }
        }
        for probe in probes {
            if !self.take(probe, chunk, ground, scratch) {
                self.miss(chunk.record_at(probe.at, ground.shape()).whole, ground);
            }
        }
    }

    /// Takes a record into its group; `false` if that is not there, or its page has no room for the words.
    #[inline(always)]
    fn take<A: Aggregate>(
        &mut self,
        probe: &Probe<'_>,
        chunk: &Chunk,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) -> bool {
        let shape = ground.shape();
        let bucket = bucket_of(probe.hash, self.lg_buckets);
        let page = self.pages[probe.page].page(shape.state_words);
        let (at, entry) = match probe.entry {
            Some(entry) if page.is_of(entry, probe.key_bit, probe.key, &self.alphabet) => (probe.page, entry),
            // Nothing of the fingerprint is in this page, and the bucket is in no other.
            None if page.first_bucket() != bucket => return false,
            _ => match self.find(shape.state_words, probe.hash, probe.key) {
                Some(found) => found,
                None => return false,
            },
        };
        // What the row says beside its key, if it says anything.
        let record = if probe.is_state || shape.row_words > 0 {
            chunk.record_at(probe.at, shape)
        } else {
            Record::default()
        };
        self.change(at, entry, record, ground, scratch)
    }

    /// Takes a record into the group that is there; `false` if its page has no room for the words.
    #[inline(always)]
    fn change<A: Aggregate>(
        &mut self,
        at: usize,
        entry: usize,
        record: Record<'_>,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) -> bool {
        let shape = ground.shape();
        let (states, read) = scratch.words.split_at_mut(shape.state_words.wrapping_mul(2));
        let Sheet { block, head } = &mut self.pages[at];
        change_words(block, *head, shape.state_words, entry, states, |words| {
            take_in(ground, record, StateMut { words, tail: &mut scratch.tail }, read);
        })
    }

    #[inline]
    fn miss<A: Aggregate>(&mut self, record: &[u8], ground: &Ground<A>) {
        append_copy(&mut self.misses, record, |bytes| ground.pool.take_for(bytes));
    }

    /// Takes all records into the pages.
    pub(super) fn settle<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        // Any number of records wait for a leaf that is away, and what puts them in order has its share of the memory. No moment is pinned
        // where groups go to flash.
        let most = ground.missing_blocks_max.max(1);
        while self.is_away && self.pins.is_empty() && self.pending.len() > most {
            let later = self.pending.split_off(most);
            self.settle_all(ground, scratch);
            self.pending = later;
        }
        self.settle_all(ground, scratch);
    }

    /// As [`Leaf::settle`], all at once.
    fn settle_all<A: Aggregate>(&mut self, ground: &Ground<A>, scratch: &mut Scratch) {
        self.apply(ground, scratch);
        if !self.misses.is_empty() {
            self.compact(ground, scratch);
        }
    }

    /// What is known of a key, in pages and records; `false` if nothing is.
    pub(super) fn get<A: Aggregate>(
        &self,
        ground: &Ground<A>,
        hash: u32,
        key: &[u8],
        scratch: &mut Scratch,
        group: &mut KeyState,
    ) -> bool {
        self.get_before(self.pending.len(), ground, hash, key, scratch, group)
    }

    /// As [`Leaf::get`], of the first `chunks` of what is pending.
    fn get_before<A: Aggregate>(
        &self,
        chunks: usize,
        ground: &Ground<A>,
        hash: u32,
        key: &[u8],
        scratch: &mut Scratch,
        group: &mut KeyState,
    ) -> bool {
        let mut is_known = false;
        let coded = match &self.symbols {
            Some(symbols) => {
                scratch.coded.clear();
                symbols.encode(key, &mut scratch.coded);
                &scratch.coded
            }
            None => key,
        };
        if let Some((page, entry)) = self.find(ground.shape().state_words, hash, coded) {
            self.pages[page].page(ground.shape().state_words).read(entry, &self.alphabet, group);
            self.decode(&mut group.key, &mut scratch.read);
            is_known = true;
        }
        for chunk in self.misses.iter().chain(&self.pending[..chunks]) {
            is_known |= get_from(chunk, ground, hash, key, &mut scratch.words, group, is_known);
        }
        is_known
    }

    /// Decodes page `at`: its groups behind `groups`.
    pub(super) fn read_page(&self, at: usize, shape: Shape, into: &mut Vec<KeyState>) -> bool {
        let Some(page) = self.pages.get(at) else { return false };
        let (page, mut cursor, mut group) =
            (page.page(shape.state_words), EntryCursor::default(), KeyState::default());
        let mut read = Vec::new();
        while cursor.next(page, &self.alphabet, &mut group) {
            self.decode(&mut group.key, &mut read);
            into.push(group.clone());
        }
        true
    }

    /// The first page that may have a hash, by its bits within the leaf, or one that follows.
    pub(super) fn first_page_of(&self, within: u64) -> usize {
        let bucket = bucket_of((within >> 32) as u32, self.lg_buckets);
        self.pages.partition_point(|page| page.head.first_bucket < bucket).saturating_sub(1)
    }
}

/// Makes a key of what has it by symbols, if there are any, by way of `read`.
#[inline]
fn decode(symbols: Option<&Symbols>, key: &mut Vec<u8>, read: &mut Vec<u8>) {
    if let Some(symbols) = symbols {
        read.clear();
        symbols.decode(key, read);
        std::mem::swap(key, read);
    }
}

/// Adds what a chunk says of a key to `group`, which is that of the key if `is_known`; whether there was anything.
pub(super) fn get_from<A: Aggregate>(
    chunk: &Chunk,
    ground: &Ground<A>,
    hash: u32,
    key: &[u8],
    words: &mut [u64],
    group: &mut KeyState,
    mut is_known: bool,
) -> bool {
    let mut is_here = false;
    for (_, record) in chunk.records(ground.shape()) {
        if record.hash != hash || record.key != key {
            continue;
        }
        begin(ground, group, key, is_known);
        is_known = true;
        take_in(ground, record, StateMut { words: &mut group.words, tail: &mut group.tail }, words);
        is_here = true;
    }
    is_here
}

/// Makes `group` that of a key without rows, unless it is known.
fn begin<A: Aggregate>(ground: &Ground<A>, group: &mut KeyState, key: &[u8], is_known: bool) {
    if !is_known {
        group.key = key.to_vec();
        group.words = vec![0; ground.shape().state_words];
        group.tail.clear();
        ground.aggregate.start(StateMut { words: &mut group.words, tail: &mut group.tail });
    }
}

/// Takes a state of a key into `group`, which is that of the key if `is_known`.
pub(super) fn merge_into<A: Aggregate>(
    ground: &Ground<A>,
    group: &mut KeyState,
    key: &[u8],
    state: State<'_>,
    is_known: bool,
) {
    begin(ground, group, key, is_known);
    ground.aggregate.merge(StateMut { words: &mut group.words, tail: &mut group.tail }, state);
}

/// Takes a record into a state.
#[inline]
fn take_in<A: Aggregate>(ground: &Ground<A>, record: Record<'_>, state: StateMut<'_>, words: &mut [u64]) {
    let (count, bytes) = record.read(ground.shape(), words);
    let words = &words[..count];
    if record.is_state {
        ground.aggregate.merge(state, State { words, tail: bytes });
    } else {
        ground.aggregate.update(state, Row { words, bytes });
    }
}

#[inline]
fn record_of(chunks: &[Chunk], place: u64, shape: Shape) -> Record<'_> {
    let place = place as u32 as usize;
    chunks[place >> LG_BLOCK_BYTES].record_at(place % BLOCK_BYTES, shape)
}
