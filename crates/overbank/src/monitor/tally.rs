//! The aggregator's counters, and how queries put them together with those of the workers.
//!
//! ```text
//!   table    │ 96 │ 40 │ 0 │ …         what messages brought, 64 bits each
//!   applied  │ 2·812 │ 2·790 + 1 │ …   a number a worker: twice the messages applied, or one more while one is
//!   intent   52                        what the counter will hold when the message under way is applied
//! ```
//!
//! 1. The aggregator alone writes. From the odd number on the message counts as applied: its counter then is `intent`, whatever the
//!    table says yet.
//! 2. A read joins the table as it was at one moment with what each worker held, at one moment of its own, beyond the messages that the
//!    table had by then: no message is counted twice, and none is missed. All these moments lie within the call. So, for counters that
//!    only grow, a read is not below what one sketch that saw all traffic would say when the call began, and not above what it would
//!    say at the end.
//! 3. A read repeats only if one of its counters was sent or applied meanwhile, or as many messages of one worker as its ring has slots:
//!    the messages that the read began with are then gone. A thread that stops, wherever it is, holds nobody up.
//!
//! Cost: `O(workers · (places + messages that wait))`.

use super::lane::Lane;
use super::message;
use super::ring::Padded;
use super::rule::Rule;
use super::sync::{AtomicU64, Ordering, fence, spin_loop};

/// More workers than this are more than one aggregator serves.
pub(super) const WORKERS_MAX: usize = 128;

/// What the aggregator and queries share.
#[derive(Debug)]
pub(super) struct Tally {
    table: Box<[AtomicU64]>,
    applied: Padded<Box<[AtomicU64]>>,
    intent: Padded<AtomicU64>,
}

impl Tally {
    /// Counters that are all zero.
    pub(super) fn new(cells: usize, workers: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { table: zeros(cells), applied: Padded(zeros(workers)), intent: Padded(AtomicU64::new(0)) }
    }

    /// Applies message `number` of a worker; what the counter holds then.
    #[inline]
    pub(super) fn apply<R: Rule>(&self, worker: usize, number: u64, word: u64) -> u64 {
        let place = &self.table[message::cell(word)];
        let sum = R::join(place.load(Ordering::Relaxed), R::unpack(message::value(word)));
        if R::CLEARS {
            let applied = &self.applied.0[worker];
            // Whoever reads this intent for an older one will find the older message's number even, or later.
            fence(Ordering::Release);
            self.intent.0.store(sum, Ordering::Relaxed);
            applied.store(2 * number + 1, Ordering::Release);
            // Whoever sees the new sum will see the number odd, or later.
            fence(Ordering::Release);
            place.store(sum, Ordering::Relaxed);
            applied.store(2 * (number + 1), Ordering::Release);
        } else {
            place.store(sum, Ordering::Relaxed);
        }
        sum
    }

    /// What messages brought to a counter.
    #[inline]
    pub(super) fn applied(&self, cell: usize) -> u64 {
        self.table[cell].load(Ordering::Relaxed)
    }

    /// Raises a counter to a sum that no message brought.
    pub(super) fn raise(&self, cell: usize, sum: u64) {
        self.table[cell].store(sum, Ordering::Relaxed);
    }

    /// Empties a counter of an epoch that is over.
    pub(super) fn clear(&self, cell: usize) {
        self.table[cell].store(0, Ordering::Relaxed);
    }

    /// `sums[i]` = counter `places[i]` as if one sketch had seen all traffic.
    pub(super) fn read<R: Rule>(&self, lanes: &[Lane], places: &[u32], sums: &mut [u64]) {
        self.read_raised::<R>(lanes, places, sums, None);
    }

    /// As [`read`](Self::read), of counters of which one has been [raised](Self::raise) to a sum, whether or not this is seen yet.
    pub(super) fn read_raised<R: Rule>(
        &self,
        lanes: &[Lane],
        places: &[u32],
        sums: &mut [u64],
        raised: Option<(u64, u64)>,
    ) {
        let mut numbers = [0; WORKERS_MAX];
        let numbers = &mut numbers[..lanes.len()];
        loop {
            let is_table_whole = self.read_table::<R>(lanes, places, numbers, sums);
            if let Some((cell, sum)) = raised {
                let raised = places.iter().zip(&mut *sums).filter(|at| u64::from(*at.0) == cell);
                raised.for_each(|at| *at.1 = sum.max(*at.1));
            }
            let is_whole = is_table_whole
                && lanes.iter().zip(&*numbers).all(|(lane, &applied)| lane.read::<R>(places, applied, sums));
            if is_whole {
                return;
            }
            spin_loop();
        }
    }

    /// The table's part, and how many messages of each worker are in it; false if it changed meanwhile.
    fn read_table<R: Rule>(
        &self,
        lanes: &[Lane],
        places: &[u32],
        numbers: &mut [u64],
        sums: &mut [u64],
    ) -> bool {
        if R::CLEARS {
            for (number, applied) in numbers.iter_mut().zip(&self.applied.0) {
                *number = applied.load(Ordering::Acquire);
            }
        }
        for (sum, &place) in sums.iter_mut().zip(places) {
            *sum = self.applied(place as usize);
        }
        if !R::CLEARS {
            return true;
        }
        let intent = self.intent.0.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        for ((number, applied), lane) in numbers.iter_mut().zip(&self.applied.0).zip(lanes) {
            // Acquires, for the worker's sequence must not seem older than what was applied of it.
            let (before, after) = (*number, applied.load(Ordering::Acquire));
            let (from, to) = (before / 2, after.div_ceil(2));
            if before == after {
                for number in from..to {
                    let cell = message::cell(lane.ring.first_word(number)) as u32;
                    places.iter().zip(&mut *sums).filter(|at| *at.0 == cell).for_each(|at| *at.1 = intent);
                }
            } else if (from..to).any(|number| lane.is_about(number, places)) {
                return false;
            }
            if from < to && !lane.ring.has_kept(from) {
                return false;
            }
            *number = to;
        }
        true
    }
}
