//! Fingerprints in order, with their counts: what a decoded block, a merge's window and a writer's backlog are.

use super::format::COUNT_MAX;
use std::ops::RangeInclusive;

/// Ascending fingerprints, each once, and how the counts of some differ from 1.
///
/// Counts are signed: among insertions, a fingerprint that stands for `n` removals of what lies below it, a tombstone, has the count
/// `-n`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entries {
    pub(super) fingerprints: Vec<u64>,
    /// (index, count − 1) in order of the index, never with a count of 0 or 1.
    pub(super) deltas: Vec<(u32, i64)>,
}

/// A range of [`Entries`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) fingerprints: &'a [u64],
    /// Their indexes count from `first`.
    pub(super) deltas: &'a [(u32, i64)],
    pub(super) first: u32,
}

impl Entries {
    /// How many fingerprints.
    pub fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.fingerprints.is_empty()
    }

    /// The fingerprints, ascending.
    pub fn fingerprints(&self) -> &[u64] {
        &self.fingerprints
    }

    /// The fingerprints with their counts: below 0 for tombstones, never 0.
    pub fn iter(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.all().iter()
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.fingerprints.clear();
        self.deltas.clear();
    }

    pub(super) fn all(&self) -> Part<'_> {
        Part { fingerprints: &self.fingerprints, deltas: &self.deltas, first: 0 }
    }

    /// Appends a fingerprint above all others, or of a count that joins the last one's.
    pub(super) fn push(&mut self, fingerprint: u64, count: i64) {
        if count != 1 {
            self.deltas.push((self.len() as u32, clamp(count) - 1));
        }
        self.fingerprints.push(fingerprint);
    }

    /// Appends `sorted`, which is not empty, an occurrence each; if `repeats`, its first is the last one here once more, else above it.
    /// False if it is not in order. `twins` is scratch.
    pub(super) fn push_sorted(&mut self, sorted: &[u64], repeats: bool, twins: &mut Vec<u32>) -> bool {
        if !repeats && sorted.is_sorted_by(|one, next| one < next) {
            // The most frequent case, at the speed of a copy.
            self.fingerprints.extend_from_slice(sorted);
            return true;
        }
        let ascends = join_repetitions(&mut self.fingerprints, sorted, repeats, twins);
        for &twin in &*twins {
            match self.deltas.last_mut() {
                Some((i, delta)) if *i == twin => *delta = clamp(*delta + 2) - 1,
                _ => self.deltas.push((twin, 1)),
            }
        }
        ascends
    }

    pub(super) fn append(&mut self, part: Part<'_>) {
        let shift = (self.len() as u32).wrapping_sub(part.first);
        self.deltas.extend(part.deltas.iter().map(|&(i, delta)| (i.wrapping_add(shift), delta)));
        self.fingerprints.extend_from_slice(part.fingerprints);
    }

    /// Drops the first `n` fingerprints.
    pub(super) fn drop_front(&mut self, n: usize) {
        self.fingerprints.drain(..n);
        let before = self.deltas.partition_point(|delta| (delta.0 as usize) < n);
        self.deltas.drain(..before);
        self.deltas.iter_mut().for_each(|delta| delta.0 -= n as u32);
    }

    /// Leaves out, from fingerprint `from` on, what is not in `range`.
    pub(super) fn trim(&mut self, from: usize, range: &RangeInclusive<u64>) {
        let end = from + self.fingerprints[from..].partition_point(|fingerprint| fingerprint <= range.end());
        let start =
            from + self.fingerprints[from..end].partition_point(|fingerprint| fingerprint < range.start());
        self.fingerprints.truncate(end);
        self.fingerprints.drain(from..start);
        let place = |deltas: &[(u32, i64)], i: usize| deltas.partition_point(|delta| (delta.0 as usize) < i);
        self.deltas.truncate(place(&self.deltas, end));
        let moved = place(&self.deltas, from);
        self.deltas.drain(moved..place(&self.deltas, start));
        self.deltas[moved..].iter_mut().for_each(|delta| delta.0 -= (start - from) as u32);
    }

    /// Leaves out, from fingerprint `from` and delta `from_delta` on, what has a count that `is_kept` refuses; it is asked for counts
    /// other than 1 only.
    pub(super) fn retain(&mut self, from: usize, from_delta: usize, is_kept: impl Fn(i64) -> bool) {
        if self.deltas[from_delta..].iter().all(|&(_, delta)| is_kept(delta + 1)) {
            return;
        }
        let (mut kept, mut kept_deltas, mut read) = (from, from_delta, from);
        for at in from_delta..self.deltas.len() {
            let (i, delta) = self.deltas[at];
            let i = i as usize;
            self.fingerprints.copy_within(read..i, kept);
            kept += i - read;
            read = i + 1;
            if is_kept(delta + 1) {
                self.deltas[kept_deltas] = (kept as u32, delta);
                self.fingerprints[kept] = self.fingerprints[i];
                kept += 1;
                kept_deltas += 1;
            }
        }
        self.fingerprints.copy_within(read.., kept);
        kept += self.fingerprints.len() - read;
        self.fingerprints.truncate(kept);
        self.deltas.truncate(kept_deltas);
    }
}

impl<'a> Part<'a> {
    /// The fingerprints with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, i64)> + use<'a> {
        let mut deltas = self.deltas.iter().peekable();
        self.fingerprints.iter().zip(self.first..).map(move |(&fingerprint, i)| {
            let delta = deltas.next_if(|delta| delta.0 == i).map_or(0, |delta| delta.1);
            (fingerprint, 1 + delta)
        })
    }

    /// The fingerprints from `from` up to `to`, which are indexes into this part.
    pub(super) fn slice(&self, from: usize, to: usize) -> Part<'a> {
        let (low, high) = (self.first + from as u32, self.first + to as u32);
        let start = self.deltas.partition_point(|delta| delta.0 < low);
        let end = start + self.deltas[start..].partition_point(|delta| delta.0 < high);
        Part { fingerprints: &self.fingerprints[from..to], deltas: &self.deltas[start..end], first: low }
    }
}

/// How much of what there is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    pub(super) fingerprints: u64,
    /// Counts below 0.
    pub(super) tombstones: u64,
    /// The sum of those above 0.
    pub(super) occurrences: u64,
}

impl Totals {
    pub(super) fn add(&mut self, part: Part<'_>) {
        self.fingerprints += part.fingerprints.len() as u64;
        self.occurrences = self.occurrences.saturating_add(part.fingerprints.len() as u64);
        for &(_, delta) in part.deltas {
            if delta > 0 {
                self.occurrences = self.occurrences.saturating_add(delta as u64);
            } else {
                self.occurrences -= 1;
                self.tombstones += 1;
            }
        }
    }
}

/// Appends `sorted`, which is not empty, without its repetitions; the first is one if `repeats`. `twins` gets the index of each one
/// that was left out. False if they are not in order.
pub(super) fn join_repetitions(
    into: &mut Vec<u64>,
    sorted: &[u64],
    repeats: bool,
    twins: &mut Vec<u32>,
) -> bool {
    let start = into.len();
    into.resize(start + sorted.len(), 0);
    twins.resize(sorted.len(), 0);
    // The place of the last one, and the first that is compared with it.
    let (mut place, mut twin, rest) = if repeats {
        (start - 1, 0usize, sorted)
    } else {
        into[start] = sorted[0];
        (start, 0, &sorted[1..])
    };
    let (mut last, mut ascends) = (sorted[0], true);
    for &fingerprint in rest {
        let is_new = fingerprint != last;
        ascends &= last <= fingerprint;
        twins[twin] = place as u32;
        twin = twin.wrapping_add(usize::from(!is_new));
        place = place.wrapping_add(usize::from(is_new));
        into[place] = fingerprint;
        last = fingerprint;
    }
    into.truncate(place + 1);
    twins.truncate(twin);
    ascends
}

/// Counts stop here; nobody has that many equal keys.
pub(super) fn clamp(count: i64) -> i64 {
    count.clamp(-COUNT_MAX, COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries_of(counts: &[i64]) -> Entries {
        let mut entries = Entries::default();
        counts.iter().zip(0..).for_each(|(&count, i)| entries.push(i * 3, count));
        entries
    }

    proptest! {
        #[test]
        fn retaining_keeps_what_a_filter_keeps(counts in prop::collection::vec(-2i64..3, 0..60), from in 0usize..60) {
            let mut entries = entries_of(&counts);
            let from = from.min(counts.len());
            let from_delta = entries.deltas.partition_point(|delta| (delta.0 as usize) < from);
            let mut expected: Vec<(u64, i64)> = entries.iter().collect();
            entries.retain(from, from_delta, |count| count > 0);
            let mut at = 0;
            expected.retain(|&(_, count)| {
                at += 1;
                at <= from || count > 0
            });
            prop_assert_eq!(entries.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn parts_and_fronts_are_those_of_a_vector(
            counts in prop::collection::vec(-2i64..3, 1..60), ends: [prop::sample::Index; 2],
        ) {
            let entries = entries_of(&counts);
            let all: Vec<(u64, i64)> = entries.iter().collect();
            let mut ends = ends.map(|end| end.index(counts.len() + 1));
            ends.sort_unstable();
            let part = entries.all().slice(ends[0], ends[1]);
            let mut copy = entries_of(&counts[..3.min(counts.len())]);
            let before = copy.len();
            copy.append(part.slice(0, ends[1] - ends[0]));
            prop_assert_eq!(copy.iter().skip(before).collect::<Vec<_>>(), all[ends[0]..ends[1]].to_vec());
            let mut rest = entries.clone();
            rest.drop_front(ends[0]);
            prop_assert_eq!(rest.iter().collect::<Vec<_>>(), all[ends[0]..].to_vec());
        }
    }
}
