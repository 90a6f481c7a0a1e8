//! Goes through several runs at once, in RAM and on flash: each key once, with what its states come to.
//!
//! ```text
//!   │ a: 1 │ c: 2 │ ┐
//!   │ b: 5 │ c: 1 │ ├─▶ a: 1, b: 5, c: 3      of some ten sources the least is found by a look at the first bits of each
//!   │ d: 7 │        ┘
//! ```

use super::frozen::FrozenScan;
use super::group::KeyState;
use super::run::{RunRules, RunScan};
use super::state::{State, StateMut};
use crate::{KeyHash, Result};

/// Groups in the order of (hash, key), each key once.
#[derive(Debug)]
pub(super) enum Source {
    Memory(Box<FrozenScan>),
    Flash(Box<RunScan>),
}

impl Source {
    fn advance(&mut self) -> Result<bool> {
        match self {
            Source::Memory(scan) => scan.advance(),
            Source::Flash(scan) => scan.advance(),
        }
    }

    /// The group that it stands at.
    #[inline]
    fn group(&self) -> (KeyHash, &KeyState) {
        match self {
            Source::Memory(scan) => (scan.hash, &scan.group),
            Source::Flash(scan) => (scan.hash, &scan.group),
        }
    }
}

/// Several sources as one.
#[derive(Debug)]
pub(super) struct Merger {
    rules: RunRules,
    /// Those that have a next group.
    sources: Vec<Source>,
    /// The first bits of the hashes of their groups.
    firsts: Vec<u64>,
    /// The sources whose group is the one that the merger stands at, the first of which has its key.
    winners: Vec<usize>,
    /// What the group comes to, where there are several.
    merged: KeyState,
}

impl Merger {
    /// Of sources that stand before their first group.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(super) fn new(sources: Vec<Source>, rules: &RunRules) -> Result<Merger> {
        let mut merger = Merger {
            rules: rules.clone(),
            firsts: Vec::with_capacity(sources.len()),
            winners: Vec::with_capacity(sources.len()),
            sources: Vec::with_capacity(sources.len()),
            merged: KeyState::default(),
        };
        for mut source in sources {
            if source.advance()? {
                merger.firsts.push(source.group().0.high());
                merger.sources.push(source);
            }
        }
        Ok(merger)
    }

    /// Goes to the next group; whether there is one.
    ///
    /// # Errors
    /// `Corrupt`; what the device says. The merger is then of no use.
    pub(super) fn advance(&mut self) -> Result<bool> {
        // From behind, so that the places of those before stay.
        while let Some(winner) = self.winners.pop() {
            if self.sources[winner].advance()? {
                self.firsts[winner] = self.sources[winner].group().0.high();
            } else {
                self.sources.remove(winner);
                self.firsts.remove(winner);
            }
        }
        let Some(&least) = self.firsts.iter().min() else { return Ok(false) };
        self.find_winners(least);
        if let [first, others @ ..] = &self.winners[..]
            && !others.is_empty()
        {
            self.merged.clone_from(self.sources[*first].group().1);
            for &other in others {
                let state = StateMut { words: &mut self.merged.words, tail: &mut self.merged.tail };
                self.rules.aggregate.merge(state, self.sources[other].group().1.as_state());
            }
        }
        Ok(true)
    }

    /// Which sources have the least group; the first bits of its hash are `least`.
    fn find_winners(&mut self, least: u64) {
        for (at, &first) in self.firsts.iter().enumerate() {
            if first != least {
                continue;
            }
            let place = |at: usize| {
                let (hash, group) = self.sources[at].group();
                (hash, &group.key)
            };
            let order = self.winners.last().map(|&winner| place(at).cmp(&place(winner)));
            match order {
                None | Some(std::cmp::Ordering::Equal) => self.winners.push(at),
                Some(std::cmp::Ordering::Less) => {
                    self.winners.clear();
                    self.winners.push(at);
                }
                Some(std::cmp::Ordering::Greater) => {}
            }
        }
    }

    /// The group that it stands at, once it was advanced and there was one.
    #[inline]
    pub(super) fn group(&self) -> Option<(KeyHash, &[u8], State<'_>)> {
        let (hash, group) = self.sources[*self.winners.first()?].group();
        let state = if self.winners.len() > 1 { self.merged.as_state() } else { group.as_state() };
        Some((hash, &group.key, state))
    }
}
