//! Goes through several sorted sources at once: each key once, with what its items come to.
//!
//! ```text
//!   oldest ─▶ │ a: 1 │ c: 2 │            heap of the sources' next items
//!             │ b: 5 │ c: +1 │     ─▶    a: 1, b: 5, c: 3
//!   newest ─▶ │ b: deleted │             b is left out only if nothing is older than all sources
//! ```

use super::frozen::FrozenScan;
use super::item::{Item, Value};
use super::operator::{Combined, combine};
use super::rules::{Repeats, Rules};
use super::run::{RunScan, RunSegment};
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
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanOptions {
    pub(super) piece_bytes: usize,
    /// A thread reads on while what was read is used.
    pub(super) is_ahead: bool,
}

/// Several sources as one.
#[derive(Debug)]
pub(super) struct Merger {
    /// The oldest first.
    sources: Vec<Source>,
    /// Sources that have an item, and its hash; the least first, a binary heap.
    heap: Vec<(KeyHash, u32)>,
    /// Those whose items were handed out, to be advanced: the first of the heap, or these.
    is_first_used: bool,
    used: Vec<u32>,
    rules: Rules,
    /// Nothing is older than the sources: what is deleted is left out, and every other item is a value.
    is_oldest: bool,
    scratch: Vec<u8>,
    spare: Vec<u8>,
    /// Keys that several sources had, if somebody counts them.
    repeats: Option<Repeats>,
}

/// What the items of a key come to so far.
#[derive(Clone, Copy)]
enum Kept {
    /// The item of a source; as a value, whatever it is.
    Of(u32, bool),
    /// What `scratch` has, as a value or an operand.
    Put,
    Operand,
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
            self.scan = Some(next.scan(self.range.clone(), self.how.piece_bytes, self.how.is_ahead)?);
        }
    }
}

impl Merger {
    /// Of `sources`, the oldest first.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn new(sources: Vec<Source>, rules: &Rules, is_oldest: bool) -> Result<Self> {
        let mut merger = Merger {
            heap: Vec::with_capacity(sources.len()),
            sources,
            is_first_used: false,
            used: Vec::new(),
            rules: rules.clone(),
            is_oldest,
            scratch: Vec::new(),
            spare: Vec::new(),
            repeats: rules.begin_repeats(),
        };
        for at in 0..merger.sources.len() {
            if let Some(hash) = merger.sources[at].advance()? {
                merger.push(hash, at as u32);
            }
        }
        Ok(merger)
    }

    /// The next key, with what its items come to.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        loop {
            self.advance()?;
            let Some(&(hash, first)) = self.heap.first() else { return Ok(None) };
            let has_equal = self.heap[1..].iter().take(2).any(|other| other.0 == hash);
            let kept = if has_equal { self.fold(hash, first) } else { Kept::Of(first, false) };
            if !has_equal {
                self.is_first_used = true;
            }
            if !self.is_oldest {
                return Ok(Some(self.item(hash, first, kept)));
            }
            if let Kept::Of(source, _) = kept
                && let Value::Deleted = self.sources[source as usize].item(hash).value
            {
                continue;
            }
            let item = self.item(hash, first, kept);
            return Ok(Some(Item { value: item.value.as_put(), ..item }));
        }
    }

    /// Tells of keys that came twice, when all was merged.
    pub(super) fn finish(self) {
        self.rules.add_repeats(self.repeats);
    }

    /// Has the sources go on whose items were handed out.
    fn advance(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_first_used) {
            let at = self.heap[0].1;
            match self.sources[at as usize].advance()? {
                Some(hash) => {
                    self.heap[0].0 = hash;
                    self.sift_down();
                }
                None => {
                    self.pop();
                }
            }
        }
        while let Some(at) = self.used.pop() {
            if let Some(hash) = self.sources[at as usize].advance()? {
                self.push(hash, at);
            }
        }
        Ok(())
    }

    /// Takes all sources that stand at the key of the first one; what their items come to.
    fn fold(&mut self, hash: KeyHash, first: u32) -> Kept {
        let mut kept = Kept::Of(first, false);
        self.pop();
        self.used.push(first);
        while let Some(&(_, next)) = self.heap.first().filter(|next| next.0 == hash) {
            let item = self.sources[next as usize].item(hash);
            if item.key != self.sources[first as usize].item(hash).key {
                break;
            }
            if let Some(repeats) = &mut self.repeats {
                repeats.note(item.key);
            }
            // Not `scratch`: the older value may lie there.
            let mut spare = std::mem::take(&mut self.spare);
            let (older, newer) =
                (self.item(hash, first, kept).value, self.sources[next as usize].item(hash).value);
            let combined = combine(self.rules.operator, older, newer, &mut spare);
            self.spare = spare;
            kept = match combined {
                Combined::Older => kept,
                Combined::Newer => Kept::Of(next, false),
                Combined::NewerAsPut => Kept::Of(next, true),
                Combined::Put | Combined::Operand => {
                    std::mem::swap(&mut self.spare, &mut self.scratch);
                    if combined == Combined::Put { Kept::Put } else { Kept::Operand }
                }
            };
            self.pop();
            self.used.push(next);
        }
        kept
    }

    /// The item of the key at which the source `first` stands.
    fn item(&self, hash: KeyHash, first: u32, kept: Kept) -> Item<'_> {
        let item = |source: u32| self.sources[source as usize].item(hash);
        match kept {
            Kept::Of(source, false) => item(source),
            Kept::Of(source, true) => {
                let item = item(source);
                Item { value: item.value.as_put(), ..item }
            }
            Kept::Put => Item { value: Value::Put(&self.scratch), ..item(first) },
            Kept::Operand => Item { value: Value::Operand(&self.scratch), ..item(first) },
        }
    }

    /// Whether the item of the heap's place `a` comes before that of `b`; of one key, the older one.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let ((hash, one), (other_hash, other)) = (self.heap[a], self.heap[b]);
        if hash != other_hash {
            return hash < other_hash;
        }
        let key = |source: u32| self.sources[source as usize].item(hash).key;
        (key(one), one) < (key(other), other)
    }

    fn push(&mut self, hash: KeyHash, source: u32) {
        self.heap.push((hash, source));
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn pop(&mut self) {
        self.heap.swap_remove(0);
        self.sift_down();
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}
