//! Many keys at once, in page order: the next round of pages is read while one is answered.
//!
//! ```text
//!   keys ─▶ (entry, number), sorted ─▶ │ round 0 │ round 1 │ …      so many pages a round that two of them fit the RAM
//!                                          │ read, on a thread ─▶ answered here while round 1 is read
//! ```
//!
//! 1. A page that several keys share is read once.
//! 2. The answers do not depend on how the keys are divided into rounds, or on the thread. Each round is a cut of its own: of what is
//!    added while it is asked, a later round may see more.
//! 3. Rounds are read ahead where they have several keys a page, and there may be threads; else each is read and answered in turn.
//! 4. One call at a time has long rounds; others that come meanwhile have short ones, so that the memory that readers take does not
//!    grow by a group each.

use super::bounds::Reading;
use super::query::View;
use super::shape::{EntryLayout, Shape};
use crate::batch::{HashOrdered, Sorter};
use crate::bits::prefetch::prefetch;
use crate::device::{BLOCK_BYTES, thread};
use crate::lock::try_lock;
use crate::{KeyHash, Result};
use std::cell::OnceCell;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;

/// The least RAM of two rounds in bytes: enough pages to keep 128 reads in flight for a while.
pub(super) const ROUNDS_BYTES: usize = 256 * BLOCK_BYTES;
/// Pages of a short round.
const SHORT_PAGES: usize = 128;
/// With fewer keys a page, answers take so little beside the reads that a thread and a second buffer for these cost more than they bring:
/// an answer takes about 50 ns, a page in a sweep some microseconds.
const DENSE_KEYS: usize = 4;
/// Answers go to places all over the batch, and writing there waited for caches: so many keys before one is answered, its place is asked
/// for. In batches of 2^20, a key took 84 ns of CPU then instead of 137 (`overbank-bench frequency --quick`).
const PREFETCH_AHEAD: usize = 16;

/// Puts what `answer` makes of what a key's page says into `answers`, for every key, at its place in `hashes`. False if the sketch came
/// to be of another generation meanwhile: then what was put there is void.
pub(super) fn answer<A>(
    view: &View<'_>,
    hashes: &[KeyHash],
    answers: &mut [A],
    answer: &mut impl FnMut(&Reading<'_>) -> A,
) -> Result<bool> {
    let entries = view.shape.entry_layout();
    let number_bits = u64::BITS - (hashes.len() as u64).leading_zeros();
    if number_bits <= entries.spare_bits() {
        // The number fits into the entry's zeros: half the memory, and a faster sort.
        let numbers = (1u64 << number_bits) - 1;
        let asked = hashes.iter().zip(0u64..).map(|(&hash, i)| entries.entry(hash) | i).collect();
        let parts = |asked: &u64| (asked & !numbers, (asked & numbers) as usize);
        answer_as(view, asked, parts, answers, answer)
    } else {
        let asked = hashes.iter().zip(0u64..).map(|(&hash, i)| [entries.entry(hash), i]).collect();
        let parts = |&[entry, i]: &[u64; 2]| (entry, i as usize);
        answer_as(view, asked, parts, answers, answer)
    }
}

fn answer_as<T: HashOrdered + Sync, A>(
    view: &View<'_>,
    mut asked: Vec<T>,
    parts: impl Fn(&T) -> (u64, usize) + Sync,
    answers: &mut [A],
    answer: &mut impl FnMut(&Reading<'_>) -> A,
) -> Result<bool> {
    Sorter::new().sort(&mut asked, &mut Vec::new());
    let (shape, entries) = (view.shape, view.shape.entry_layout());
    let entry = |asked: &T| parts(asked).0;
    // Short batches need no long rounds.
    let long = (asked.len() > SHORT_PAGES).then(|| try_lock(&view.sketch.memory.long_rounds)).flatten();
    let pages_max = if long.is_some() { round_pages(shape) } else { SHORT_PAGES };
    let rounds = || Rounds { rest: &asked, entry, entries, pages_max };
    let mut answer_round = |round: &Round<'_, T>, blocks: &[u8], total_weight: u64| {
        let (mut at, mut weight) = (usize::MAX, OnceCell::new());
        for (number, asked) in round.asked.iter().enumerate() {
            if let Some(later) = round.asked.get(number + PREFETCH_AHEAD) {
                prefetch(answers, parts(later).1);
            }
            let (entry, i) = parts(asked);
            let page = entries.page(entry);
            if at == usize::MAX || round.pages[at] != page {
                at = at.wrapping_add(1);
                weight = OnceCell::new();
            }
            let block = &blocks[at * BLOCK_BYTES..][..BLOCK_BYTES];
            answers[i] = answer(&Reading { shape, block, entry, weight: &weight, total_weight });
        }
    };
    let is_long = asked.len() > pages_max;
    view.sketch.slots.iter().for_each(|slot| slot.sort_tail(is_long));
    let is_dense =
        || rounds().next().is_some_and(|round| round.asked.len() >= DENSE_KEYS * round.pages.len());
    let is_ahead = is_long && view.sketch.lanes_max.load(Ordering::Relaxed) > 1 && is_dense();
    if is_ahead && let Some(is_answered) = answer_behind(view, rounds(), &mut answer_round)? {
        return Ok(is_answered);
    }
    let mut blocks = Vec::new();
    for round in rounds() {
        let Some(total_weight) = compose(view, &round, &mut blocks)? else { return Ok(false) };
        answer_round(&round, &blocks, total_weight);
    }
    Ok(true)
}

/// Answers a round while a thread reads the next; `None` if there is no such thread, and then nothing was answered.
fn answer_behind<'a, T: Sync + 'a>(
    view: &View<'_>,
    rounds: impl Iterator<Item = Round<'a, T>> + Send,
    answer: &mut impl FnMut(&Round<'_, T>, &[u8], u64),
) -> Result<Option<bool>> {
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
                let is_over = !matches!(composed, Ok(Some(_)));
                let composed = composed.map(|weight| weight.map(|weight| (round, blocks, weight)));
                if full.send(composed).is_err() || is_over {
                    break;
                }
            }
        };
        if thread::start_scoped(scope, "overbank-ask", read).is_err() {
            return Ok(None);
        }
        for composed in to_answer {
            let Some((round, blocks, total_weight)) = composed? else { return Ok(Some(false)) };
            answer(&round, &blocks, total_weight);
            // After the last round nobody takes it.
            let _ = give_back.send(blocks);
        }
        Ok(Some(true))
    })
}

fn compose<T>(view: &View<'_>, round: &Round<'_, T>, blocks: &mut Vec<u8>) -> Result<Option<u64>> {
    let bytes = round.pages.len() * BLOCK_BYTES;
    if blocks.len() < bytes {
        blocks.resize(bytes, 0);
    }
    view.compose(&round.pages, &mut blocks[..bytes])
}

/// Long rounds: two of them take two groups, or [`ROUNDS_BYTES`].
pub(super) fn round_pages(shape: Shape) -> usize {
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
    entries: EntryLayout,
    pages_max: usize,
}

impl<'a, T, E: Fn(&T) -> u64> Iterator for Rounds<'a, T, E> {
    type Item = Round<'a, T>;

    fn next(&mut self) -> Option<Round<'a, T>> {
        let mut pages: Vec<u64> = Vec::new();
        let mut taken = 0;
        for asked in self.rest {
            let page = self.entries.page((self.entry)(asked));
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
