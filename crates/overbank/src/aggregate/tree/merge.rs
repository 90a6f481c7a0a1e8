//! Merges sorted runs, all at once.
//!
//! ```text
//!   run 0 ─▶ (hash, 0) ─┐
//!   run 1 ─▶ (hash, 1) ─┴─▶ lesser ─┐
//!   run 2 ─▶ (hash, 2) ─┐           ├─▶ least ─▶ objects of one hash ─▶ one object a key
//!   run 3 ─▶ (hash, 3) ─┴─▶ lesser ─┘
//! ```
//!
//! The tree holds losers: the least object's successor is compared with one of them a level.
//!
//! | k runs, n objects | CPU | RAM |
//! |---|---|---|
//! | merge | n lg k comparisons of 64 bits, n copies of an object | 8 bytes a run |
//!
//! Source: Amur et al., section 3.3 (Emptying Internal and Leaf Nodes); Knuth, The Art of Computer Programming, volume 3, 5.4.1 (trees of
//! losers).

use super::super::state::{Aggregate, Shape};
use super::combine::Combiner;
use super::run::Run;
use crate::Result;
use crate::bits::prefetch::prefetch;

/// Merges the runs that lie one after the other in `input`, each up to one of `ends`, and appends one object for each key to `into`.
///
/// # Errors
/// `Corrupt` for bytes that are no object; `OutOfMemory`; `CapacityExceeded` past what a run holds.
pub(super) fn merge<A: Aggregate>(
    aggregate: &A,
    shape: Shape,
    input: &Run,
    ends: &[usize],
    into: &mut Run,
) -> Result<()> {
    into.reserve(input.len(), input.payload.len())?;
    let mut combiner = Combiner::new(aggregate, shape);
    let mut sources = Sources::new(input, ends);
    while let Some((hash, first)) = sources.next(input) {
        match sources.peek() {
            Some(next) if next == hash => {
                combiner.add(input.object(first));
                while let Some(i) = sources.next_of(hash, input) {
                    combiner.add(input.object(i));
                }
                combiner.combine(hash, into)?;
            }
            _ => into.push(hash, input.object(first))?,
        }
    }
    into.count_bytes();
    Ok(())
}

/// No object: hashes have 32 bits, and sources are fewer.
const NONE: u64 = u64::MAX;
/// How far ahead in a run its objects are asked for.
const AHEAD: usize = 4;

/// A hash and its source, in the order of which objects come.
#[derive(Debug)]
struct Sources {
    /// The next object of each source, and its end.
    cursors: Vec<(usize, usize)>,
    /// 0: the least; from 1 on the losers of the tree.
    losers: Vec<u64>,
}

impl Sources {
    fn new(input: &Run, ends: &[usize]) -> Sources {
        let mut start = 0;
        let mut cursors: Vec<(usize, usize)> = ends
            .iter()
            .map(|&end| {
                let cursor = (start, end);
                start = end;
                cursor
            })
            .collect();
        cursors.resize(ends.len().next_power_of_two(), (0, 0));
        let mut sources = Sources { losers: vec![NONE; cursors.len()], cursors };
        let least = sources.play(1, input);
        sources.losers[0] = least;
        sources
    }

    /// Fills the tree below a node, and says who wins there.
    fn play(&mut self, node: usize, input: &Run) -> u64 {
        if node >= self.losers.len() {
            return self.entry(node - self.losers.len(), input);
        }
        let (a, b) = (self.play(2 * node, input), self.play(2 * node + 1, input));
        self.losers[node] = a.max(b);
        a.min(b)
    }

    #[inline(always)]
    fn entry(&self, source: usize, input: &Run) -> u64 {
        let (next, end) = self.cursors[source];
        if next < end { u64::from(input.hashes[next]) << 32 | source as u64 } else { NONE }
    }

    /// The hash of the next object.
    #[inline(always)]
    fn peek(&self) -> Option<u32> {
        let least = self.losers[0];
        (least != NONE).then_some((least >> 32) as u32)
    }

    /// The next object if it has this hash.
    #[inline(always)]
    fn next_of(&mut self, hash: u32, input: &Run) -> Option<usize> {
        (self.peek() == Some(hash)).then(|| self.next(input).map(|(_, i)| i)).flatten()
    }

    #[inline(always)]
    fn next(&mut self, input: &Run) -> Option<(u32, usize)> {
        let hash = self.peek()?;
        let source = self.losers[0] as u32 as usize;
        let object = self.cursors[source].0;
        self.cursors[source].0 = object + 1;
        if let Some(&at) = input.ends.get(object + AHEAD) {
            prefetch(&input.payload, at as usize);
        }
        let mut winner = self.entry(source, input);
        let mut node = (source + self.losers.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            self.losers[node] = winner.max(loser);
            winner = winner.min(loser);
            node /= 2;
        }
        self.losers[0] = winner;
        Some((hash, object))
    }
}
