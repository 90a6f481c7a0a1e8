//! Merge of sorted inputs into one in hash order: many by a loser tree, two slices by a loop without branches
//! to guess.
//!
//! ```text
//!            winner: the input whose head comes next
//!               │
//!             [loser]                 each inner node keeps the input that lost the match there
//!            ╱       ╲
//!        [loser]   [loser]            advancing the winner replays one path from its leaf to the root:
//!        ╱    ╲     ╱    ╲            lg k comparisons a record
//!      in 0  in 1  in 2  in 3
//! ```
//!
//! Invariants:
//! 1. Of equal hashes, the record of the input with the lower index comes first; within an input, order is
//!    kept.
//! 2. An exhausted input loses every match.
//!
//! | cost of n records from k inputs | |
//! |---|---|
//! | CPU | [`Merge`]: n lg k comparisons; [`merge_two`]: n |
//! | RAM | one record and two words an input |
//!
//! Source: Knuth, The Art of Computer Programming 3, section 5.4.1 (a tree of losers).

use super::order::HashOrdered;

/// Merges sorted iterators into one sorted iterator, stable by input index.
///
/// ```
/// use overbank::batch::{Combine, Merge};
/// let inputs = [vec![(1u64, 10), (4, 1)], vec![(1, 5), (2, 7)]];
/// let sums = Combine::new(Merge::new(inputs), |sum: &mut (u64, i32), next| sum.1 += next.1);
/// assert_eq!(sums.collect::<Vec<_>>(), [(1, 15), (2, 7), (4, 1)]);
/// ```
#[derive(Debug)]
pub struct Merge<I: Iterator> {
    inputs: Vec<I>,
    heads: Vec<Option<I::Item>>,
    /// `losers[1..]` are the inner nodes, node `i` above `2 i` and `2 i + 1`; `losers[0]` is the winner. Leaf
    /// `i` is node `i + inputs.len()`.
    losers: Vec<u32>,
}

impl<I: Iterator<Item: HashOrdered>> Merge<I> {
    /// Starts a merge of inputs that are each in hash order; takes the first record of each.
    ///
    /// # Panics
    /// When there are 2^31 inputs or more.
    pub fn new<S: IntoIterator<IntoIter = I, Item = I::Item>>(inputs: impl IntoIterator<Item = S>) -> Self {
        let mut inputs: Vec<I> = inputs.into_iter().map(IntoIterator::into_iter).collect();
        assert!(inputs.len() < 1 << 31, "inputs are numbered in 31 bits");
        let heads: Vec<_> = inputs.iter_mut().map(Iterator::next).collect();
        let k = inputs.len();
        let mut merge = Self { inputs, heads, losers: vec![0; k.max(1)] };
        // Winners of all nodes, from the leaves up; each inner node keeps the loser.
        let mut winners: Vec<u32> = (0..2 * k).map(|node| node.saturating_sub(k) as u32).collect();
        for node in (1..k).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let right_wins = merge.beats(right as usize, left as usize);
            winners[node] = if right_wins { right } else { left };
            merge.losers[node] = if right_wins { left } else { right };
        }
        merge.losers[0] = winners.get(1).copied().unwrap_or(0);
        merge
    }

    /// Whether input `a` comes before input `b`.
    #[inline(always)]
    fn beats(&self, a: usize, b: usize) -> bool {
        match (&self.heads[a], &self.heads[b]) {
            (Some(x), Some(y)) => x.precedes(y) || (a < b && !y.precedes(x)),
            (x, _) => x.is_some(),
        }
    }
}

impl<I: Iterator<Item: HashOrdered>> Iterator for Merge<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        let mut winner = self.losers[0] as usize;
        let record = (*self.heads.get(winner)?)?;
        self.heads[winner] = self.inputs[winner].next();
        let mut node = (winner + self.inputs.len()) / 2;
        while node > 0 {
            let rival = self.losers[node] as usize;
            if self.beats(rival, winner) {
                self.losers[node] = winner as u32;
                winner = rival;
            }
            node /= 2;
        }
        self.losers[0] = winner as u32;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = self.heads.iter().flatten().count();
        self.inputs.iter().fold((waiting, Some(waiting)), |(least, most), input| {
            let (l, m) = input.size_hint();
            (least.saturating_add(l), most.zip(m).and_then(|(a, b)| a.checked_add(b)))
        })
    }
}

/// Joins neighbours of equal hash in a sorted iterator: `join(&mut first, next)` in their order.
#[derive(Debug)]
pub struct Combine<I: Iterator, F> {
    sorted: I,
    waiting: Option<I::Item>,
    join: F,
}

impl<I: Iterator<Item: HashOrdered>, F: FnMut(&mut I::Item, I::Item)> Combine<I, F> {
    /// Starts on an iterator in hash order.
    pub fn new(mut sorted: I, join: F) -> Self {
        Self { waiting: sorted.next(), sorted, join }
    }
}

impl<I: Iterator<Item: HashOrdered>, F: FnMut(&mut I::Item, I::Item)> Iterator for Combine<I, F> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        let mut first = self.waiting?;
        loop {
            self.waiting = self.sorted.next();
            match self.waiting {
                Some(next) if next.same_hash(&first) => (self.join)(&mut first, next),
                _ => return Some(first),
            }
        }
    }
}

/// Joins neighbours of equal hash in place, and returns how many records remain, at the front of `sorted`.
pub fn combine_in_place<T: HashOrdered>(sorted: &mut [T], mut join: impl FnMut(&mut T, T)) -> usize {
    let mut kept = 0;
    for i in 0..sorted.len() {
        let record = sorted[i];
        if kept > 0 && sorted[kept - 1].same_hash(&record) {
            join(&mut sorted[kept - 1], record);
        } else {
            sorted[kept] = record;
            kept += 1;
        }
    }
    kept
}

/// Merges two sorted slices; of equal hashes, `a`'s come first.
///
/// # Panics
/// When `into` is not as long as both together.
pub fn merge_two<T: HashOrdered>(a: &[T], b: &[T], into: &mut [T]) {
    assert_eq!(a.len() + b.len(), into.len(), "a place for each record");
    let (mut i, mut j) = (0usize, 0usize);
    // While both have records, which one comes next is a value and not a jump: on hashes a jump is guessed
    // wrong half the time.
    while i < a.len() && j < b.len() {
        // At least this many steps end neither input.
        let steps = (a.len() - i).min(b.len() - j);
        for place in &mut into[i + j..][..steps] {
            let (x, y) = (a[i], b[j]);
            let take_y = y.precedes(&x);
            *place = if take_y { y } else { x };
            i = i.wrapping_add(usize::from(!take_y));
            j = j.wrapping_add(usize::from(take_y));
        }
    }
    let (rest_a, rest_b) = (&a[i..], &b[j..]);
    into[i + j..][..rest_a.len()].copy_from_slice(rest_a);
    into[i + j + rest_a.len()..].copy_from_slice(rest_b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Record = (u64, (usize, usize));

    /// Sorted inputs over few hashes, each record marked with its input and place.
    fn inputs() -> impl Strategy<Value = Vec<Vec<Record>>> {
        prop::collection::vec(prop::collection::vec(prop_oneof![0u64..20, any::<u64>()], 0..50), 0..10)
            .prop_map(|inputs| {
                let mark = |(i, mut hashes): (usize, Vec<u64>)| {
                    hashes.sort_unstable();
                    hashes.into_iter().enumerate().map(|(j, hash)| (hash, (i, j))).collect()
                };
                inputs.into_iter().enumerate().map(mark).collect()
            })
    }

    proptest! {
        #[test]
        fn merge_is_a_stable_sort_of_all_inputs(inputs in inputs()) {
            let mut expected = inputs.concat();
            expected.sort_by_key(|record| record.0);
            let merge = Merge::new(inputs);
            prop_assert_eq!(merge.size_hint(), (expected.len(), Some(expected.len())));
            prop_assert_eq!(merge.collect::<Vec<_>>(), expected);
        }

        #[test]
        fn two_slices_merge_as_many(mut inputs in inputs()) {
            inputs.resize(2, Vec::new());
            let mut found = vec![Record::default(); inputs[0].len() + inputs[1].len()];
            merge_two(&inputs[0], &inputs[1], &mut found);
            prop_assert_eq!(found, Merge::new(inputs).collect::<Vec<_>>());
        }

        #[test]
        fn combining_sums_what_is_equal(inputs in inputs()) {
            let mut sums = std::collections::BTreeMap::<u64, u64>::new();
            inputs.iter().flatten().for_each(|record| *sums.entry(record.0).or_default() += record.1.1 as u64 + 1);
            let weigh = |inputs: Vec<Vec<Record>>| -> Vec<Vec<(u64, u64)>> {
                inputs.into_iter().map(|i| i.into_iter().map(|r| (r.0, r.1.1 as u64 + 1)).collect()).collect()
            };
            let join = |sum: &mut (u64, u64), next: (u64, u64)| sum.1 += next.1;
            let combined: Vec<_> = Combine::new(Merge::new(weigh(inputs.clone())), join).collect();
            prop_assert_eq!(&combined, &sums.into_iter().collect::<Vec<_>>());

            let mut flat: Vec<_> = Merge::new(weigh(inputs)).collect();
            let kept = combine_in_place(&mut flat, join);
            prop_assert_eq!(&flat[..kept], &combined[..]);
        }
    }
}
