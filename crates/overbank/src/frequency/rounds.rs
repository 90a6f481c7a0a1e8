//! Many keys at once, in page order: the next round of pages is read while one is answered.
//!
//! ```text
//!   keys ─▶ (entry, number), sorted ─▶ │ round 0 │ round 1 │ …      so many pages a round that two of them fit the RAM
//!                                          │ read, on a thread ─▶ answered here while round 1 is read
//! ```
//!
//! 1. A page that several keys share is read once.
//! 2. The answers do not depend on the cut into rounds, or on the thread.

use super::bounds::Reading;
use super::place::{Place, Shape};
use super::query::View;
use crate::batch::{HashOrdered, Sorter};
use crate::device::{BLOCK_BYTES, thread};
use crate::{KeyHash, Result};
use std::cell::OnceCell;
use std::sync::mpsc::sync_channel;

/// The least RAM of two rounds in bytes: enough pages to keep 128 reads in flight for a while.
pub(super) const ROUNDS_BYTES: usize = 256 * BLOCK_BYTES;

/// Calls `each(key, what its page says of it)` for every key, in any order. `is_ahead`: rounds are read on a thread.
pub(super) fn answer(
    view: &View<'_>,
    hashes: &[KeyHash],
    is_ahead: bool,
    each: &mut dyn FnMut(usize, Reading<'_>),
) -> Result<()> {
    let place = view.shape.place();
    let number_bits = u64::BITS - (hashes.len() as u64).leading_zeros();
    if number_bits <= place.spare_bits() {
        // The number fits into the entry's zeros: half the memory, and a faster sort.
        let numbers = (1u64 << number_bits) - 1;
        let asked = hashes.iter().zip(0u64..).map(|(&hash, i)| place.entry(hash) | i).collect();
        answer_as(view, asked, |asked: &u64| (asked & !numbers, (asked & numbers) as usize), is_ahead, each)
    } else {
        let asked = hashes.iter().zip(0u64..).map(|(&hash, i)| [place.entry(hash), i]).collect();
        answer_as(view, asked, |&[entry, i]: &[u64; 2]| (entry, i as usize), is_ahead, each)
    }
}

fn answer_as<T: HashOrdered + Sync>(
    view: &View<'_>,
    mut asked: Vec<T>,
    parts: impl Fn(&T) -> (u64, usize) + Sync,
    is_ahead: bool,
    each: &mut dyn FnMut(usize, Reading<'_>),
) -> Result<()> {
    Sorter::new().sort(&mut asked, &mut Vec::new());
    let shape = view.shape;
    let entry = |asked: &T| parts(asked).0;
    let rounds = || Rounds { rest: &asked, entry, place: shape.place(), pages_max: round_pages(shape) };
    let mut answer = |round: &Round<'_, T>, blocks: &[u8]| {
        let (mut at, mut weight) = (usize::MAX, OnceCell::new());
        for asked in round.asked {
            let (entry, i) = parts(asked);
            let page = shape.place().page(entry);
            if at == usize::MAX || round.pages[at] != page {
                at = at.wrapping_add(1);
                weight = OnceCell::new();
            }
            let block = &blocks[at * BLOCK_BYTES..][..BLOCK_BYTES];
            each(i, Reading { shape, block, entry, weight: &weight, total_weight: view.total_weight });
        }
    };
    let is_long = asked.len() > round_pages(shape);
    let is_answered = is_ahead && is_long && answer_behind(view, rounds(), &mut answer)?;
    if !is_answered {
        let mut blocks = Vec::new();
        for round in rounds() {
            compose(view, &round, &mut blocks)?;
            answer(&round, &blocks);
        }
    }
    Ok(())
}

/// Answers a round while a thread reads the next; false if there is no such thread, and then nothing was answered.
fn answer_behind<'a, T: Sync + 'a>(
    view: &View<'_>,
    rounds: impl Iterator<Item = Round<'a, T>> + Send,
    answer: &mut impl FnMut(&Round<'_, T>, &[u8]),
) -> Result<bool> {
    std::thread::scope(|scope| {
        let (full, to_answer) = sync_channel(1);
        let (give_back, empty) = sync_channel(2);
        for _ in 0..2 {
            // The channel has room for both.
            let _ = give_back.send(Vec::new());
        }
        let read = move || {
            for (round, mut blocks) in rounds.zip(empty) {
                let composed = compose(view, &round, &mut blocks);
                let is_over = composed.is_err();
                if full.send(composed.map(|()| (round, blocks))).is_err() || is_over {
                    break;
                }
            }
        };
        if thread::start_scoped(scope, "overbank-ask", read).is_err() {
            return Ok(false);
        }
        for composed in to_answer {
            let (round, blocks) = composed?;
            answer(&round, &blocks);
            // After the last round nobody takes it.
            let _ = give_back.send(blocks);
        }
        Ok(true)
    })
}

fn compose<T>(view: &View<'_>, round: &Round<'_, T>, blocks: &mut Vec<u8>) -> Result<()> {
    let bytes = round.pages.len() * BLOCK_BYTES;
    if blocks.len() < bytes {
        blocks.resize(bytes, 0);
    }
    view.compose(&round.pages, &mut blocks[..bytes])
}

/// Estimates have the RAM that a merge has for two groups, for neither runs beside the other.
fn round_pages(shape: Shape) -> usize {
    (2 * shape.group_bytes()).max(ROUNDS_BYTES) / BLOCK_BYTES / 2
}

/// Some of the keys, and the pages that they are in.
struct Round<'a, T> {
    asked: &'a [T],
    pages: Vec<u64>,
}

/// Cuts sorted keys into rounds of at most so many pages.
struct Rounds<'a, T, E> {
    rest: &'a [T],
    entry: E,
    place: Place,
    pages_max: usize,
}

impl<'a, T, E: Fn(&T) -> u64> Iterator for Rounds<'a, T, E> {
    type Item = Round<'a, T>;

    fn next(&mut self) -> Option<Round<'a, T>> {
        let mut pages: Vec<u64> = Vec::new();
        let mut taken = 0;
        for asked in self.rest {
            let page = self.place.page((self.entry)(asked));
            if pages.last() != Some(&page) {
                if pages.len() == self.pages_max {
                    break;
                }
                pages.push(page);
            }
            taken += 1;
        }
        let (asked, rest) = self.rest.split_at(taken);
        self.rest = rest;
        (taken > 0).then_some(Round { asked, pages })
    }
}
