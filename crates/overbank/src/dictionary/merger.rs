//! Goes through several sorted sources at once: each key once, with what its items come to.
//!
//! ```text
//!   oldest ─▶ │ a: 1 │ c: 2 │  ┐         a tree of the sources' next items: each node has
//!             │ b: 5 │ c: +1 │ ├─▶ ● ─▶  the source that lost there, the root's winner is next
//!   newest ─▶ │ d: deleted │   ┘         a: 1, b: 5, c: 3; d is left out only if nothing is older than all sources
//! ```
//!
//! Sources are compared by the first 64 bits of their hashes, one comparison a level, and by the rest where these are equal.

use super::frozen::FrozenScan;
use super::item::{Item, Value};
use super::operator::{Combined, combine};
use super::rules::{Repeats, Rules};
use super::run::{RunScan, RunSegment};
use crate::device::pool::BufferPool;
use crate::{KeyHash, Result};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Items in the order of (hash, key), each key once.
#[derive(Debug)]
pub(super) enum Source {
    /// A run in RAM.
    Frozen(FrozenScan),
    /// Pieces of a run on flash, one after the other.
    Pieces(Box<Pieces>),
}

/// Pieces of a run on flash, in hash order.
#[derive(Debug)]
pub(super) struct Pieces {
    rest: VecDeque<Arc<RunSegment>>,
    scan: Option<RunScan>,
    range: RangeInclusive<u64>,
    how: ScanOptions,
}

/// How pieces are read.
#[derive(Clone, Debug)]
pub(super) struct ScanOptions {
    pub(super) piece_bytes: usize,
    /// A thread reads on while what was read is used.
    pub(super) is_ahead: bool,
    /// Where the memory of what is read comes from.
    pub(super) pool: Option<Arc<BufferPool>>,
}

/// Several sources as one.
#[derive(Debug)]
pub(super) struct Merger {
    /// The oldest first.
    sources: Vec<Source>,
    /// The hash of each source's next item, and its first 64 bits, the greatest of a source that has none.
    hashes: Vec<Option<KeyHash>>,
    firsts: Vec<u64>,
    /// The sources are the leaves behind the nodes 1, 2, …: each node has the one that lost there.
    losers: Vec<u32>,
    winner: usize,
    /// The winner's item was handed out.
    is_used: bool,
    rules: Rules,
    /// Nothing is older than the sources: what is deleted is left out, and every other item is a value.
    is_oldest: bool,
    held: Held,
    spare: Vec<u8>,
    /// Keys that several sources had, if somebody counts them.
    repeats: Option<Repeats>,
}

/// What the items of a key come to that several sources may have: these have gone on.
#[derive(Debug)]
struct Held {
    hash: KeyHash,
    key: Vec<u8>,
    /// Its bytes are in `bytes`.
    kind: Value<'static>,
    bytes: Vec<u8>,
}

impl Source {
    pub(super) fn pieces(
        pieces: impl IntoIterator<Item = Arc<RunSegment>>,
        range: &RangeInclusive<u64>,
        how: ScanOptions,
    ) -> Self {
        let rest = pieces.into_iter().collect();
        Source::Pieces(Box::new(Pieces { rest, scan: None, range: range.clone(), how }))
    }

    /// Goes to the first item, or to the next one; its hash, if there is one.
    fn advance(&mut self) -> Result<Option<KeyHash>> {
        match self {
            Source::Frozen(scan) => Ok(scan.advance()),
            Source::Pieces(pieces) => pieces.advance(),
        }
    }

    /// The item that it stands at, whose hash is known.
    fn item(&self, hash: KeyHash) -> Item<'_> {
        let item = match self {
            Source::Frozen(scan) => scan.item(hash),
            Source::Pieces(pieces) => pieces.scan.as_ref().and_then(RunScan::item),
        };
        item.unwrap_or(Item { hash, key: &[], value: Value::Deleted })
    }
}

impl Pieces {
    fn advance(&mut self) -> Result<Option<KeyHash>> {
        loop {
            if let Some(scan) = &mut self.scan {
                if scan.advance()? {
                    return Ok(scan.item().map(|item| item.hash));
                }
                self.scan = None;
            }
            let Some(next) = self.rest.pop_front() else { return Ok(None) };
            let ScanOptions { piece_bytes, is_ahead, ref pool } = self.how;
            let scan = next.scan(self.range.clone(), piece_bytes, is_ahead)?;
            self.scan = Some(scan.pooled(pool.clone()));
        }
    }
}

impl Held {
    fn set_value(&mut self, value: Value<'_>) {
        self.kind = value.with_bytes(&[]);
        self.bytes.clear();
        self.bytes.extend_from_slice(value.bytes());
    }

    fn item(&self) -> Item<'_> {
        Item { hash: self.hash, key: &self.key, value: self.kind.with_bytes(&self.bytes) }
    }
}

impl Merger {
    /// Of `sources`, the oldest first.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn new(sources: Vec<Source>, rules: &Rules, is_oldest: bool) -> Result<Self> {
        let count = sources.len();
        let held =
            Held { hash: KeyHash::default(), key: Vec::new(), kind: Value::Deleted, bytes: Vec::new() };
        let mut merger = Merger {
            sources,
            hashes: vec![None; count],
            firsts: vec![u64::MAX; count],
            losers: vec![0; count],
            winner: 0,
            is_used: false,
            rules: rules.clone(),
            is_oldest,
            held,
            spare: Vec::new(),
            repeats: rules.begin_repeats(),
        };
        (0..count).try_for_each(|source| merger.go_on(source))?;
        // The winners below each node, from the leaves up.
        let mut winners: Vec<usize> = vec![0; count];
        winners.extend(0..count);
        for node in (1..count).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            let is_first = merger.is_before(one, other);
            winners[node] = if is_first { one } else { other };
            merger.losers[node] = if is_first { other } else { one } as u32;
        }
        merger.winner = winners.get(1).copied().unwrap_or(0);
        Ok(merger)
    }

    /// The next key, with what its items come to.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    #[inline]
    pub(super) fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        let mut is_held;
        loop {
            if std::mem::take(&mut self.is_used) {
                self.advance()?;
            }
            let Some(hash) = self.hashes.get(self.winner).copied().flatten() else { return Ok(None) };
            is_held = self.has_equal();
            if is_held {
                self.fold(hash)?;
            } else {
                self.is_used = true;
            }
            if !self.is_oldest || !matches!(self.item(is_held).value, Value::Deleted) {
                break;
            }
        }
        let item = self.item(is_held);
        Ok(Some(if self.is_oldest { Item { value: item.value.as_put(), ..item } } else { item }))
    }

    /// The item that is held, or that of the winner.
    #[inline]
    fn item(&self, is_held: bool) -> Item<'_> {
        if is_held {
            return self.held.item();
        }
        self.sources[self.winner].item(self.hashes[self.winner].unwrap_or_default())
    }

    /// Has a source go on to its next item.
    #[inline]
    fn go_on(&mut self, source: usize) -> Result<()> {
        let hash = self.sources[source].advance()?;
        self.hashes[source] = hash;
        self.firsts[source] = hash.map_or(u64::MAX, |hash| hash.high());
        Ok(())
    }

    /// Has the winner go on, and finds the next one.
    #[inline]
    fn advance(&mut self) -> Result<()> {
        let mut winner = self.winner;
        self.go_on(winner)?;
        let mut node = (self.sources.len() + winner) / 2;
        while node > 0 {
            let other = self.losers[node] as usize;
            if self.is_before(other, winner) {
                self.losers[node] = winner as u32;
                winner = other;
            }
            node /= 2;
        }
        self.winner = winner;
        Ok(())
    }

    /// Whether a source may stand at the winner's key too: the second one lost to the winner.
    #[inline]
    fn has_equal(&self) -> bool {
        let first = self.firsts[self.winner];
        let mut node = (self.sources.len() + self.winner) / 2;
        while node > 0 {
            if self.firsts[self.losers[node] as usize] == first {
                return true;
            }
            node /= 2;
        }
        false
    }

    /// Has all sources go on that stand at the winner's key, and holds what their items come to.
    #[cold]
    fn fold(&mut self, hash: KeyHash) -> Result<()> {
        let first = self.sources[self.winner].item(hash);
        self.held.hash = hash;
        self.held.key.clear();
        self.held.key.extend_from_slice(first.key);
        self.held.set_value(first.value);
        self.advance()?;
        while self.hashes[self.winner] == Some(hash) {
            let item = self.sources[self.winner].item(hash);
            if item.key != self.held.key {
                break;
            }
            if let Some(repeats) = &mut self.repeats {
                repeats.note(item.key);
            }
            let combined = combine(self.rules.operator, self.held.item().value, item.value, &mut self.spare);
            match combined {
                Combined::Older => {}
                Combined::Newer => self.held.set_value(item.value),
                Combined::NewerAsPut => self.held.set_value(item.value.as_put()),
                Combined::Put | Combined::Operand => {
                    std::mem::swap(&mut self.spare, &mut self.held.bytes);
                    let is_put = combined == Combined::Put;
                    self.held.kind = if is_put { Value::Put(&[]) } else { Value::Operand(&[]) };
                }
            }
            self.advance()?;
        }
        Ok(())
    }

    /// Tells of keys that came twice, when all was merged.
    pub(super) fn finish(self) {
        self.rules.add_repeats(self.repeats);
    }

    /// Whether the next item of source `a` comes before that of `b`; of one key, the older one.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (one, other) = (self.firsts[a], self.firsts[b]);
        if one == other { self.is_before_by_rest(a, b) } else { one < other }
    }

    #[cold]
    fn is_before_by_rest(&self, a: usize, b: usize) -> bool {
        let (Some(one), Some(other)) = (self.hashes[a], self.hashes[b]) else {
            return self.hashes[a].is_some();
        };
        let key = |source: usize, hash: KeyHash| self.sources[source].item(hash).key;
        (one, key(a, one), a) < (other, key(b, other), b)
    }
}
