//! All fingerprints of a filter, in hash order, each with how often it is in; and how many different keys that makes.
//!
//! ```text
//!   runs of 20 bits    ├── f: 2 ───────────────────────┤├── g: 1 ──────────────┤
//!   runs of 24 bits      ├ f.3: −1 ┤      ├ f.9: 1 ┤                              removals and inserts that came when the filter had grown
//!   net                                    f.9: 1,      f: 1,      g: 1           a tombstone takes from the fingerprint it begins with
//! ```
//!
//! A filter that grew has fingerprints of several lengths. A removal has the length of its time, and takes from the entry of its key,
//! which may be a shorter one: the nearest that it begins with. So no count is below 0, and the sum of the counts of all
//! fingerprints that a key's hash begins with is how often the key is in, as a lookup says it.

use super::Filter;
use super::query::View;
use crate::Result;
use crate::filter::run::{Entries, MergedCursor, RunKind, Source};
use std::collections::{BTreeSet, VecDeque};

/// So many entries are looked through for [`Filter::distinct`]: all of most filters, in a fraction of a second, and of larger
/// ones a sample that leaves an error of 0.6 % at most.
const SAMPLE_ENTRIES: u64 = 1 << 22;
/// A normal variable is farther from its mean than so many standard deviations once in 10^9.
const DEVIATIONS: f64 = 6.11;

/// A fingerprint that is in a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// Its bits, left-aligned: the hashes of its keys begin with them.
    pub prefix: u64,
    /// How many bits it has.
    pub bits: u32,
    /// The value beside it; 0 in a filter without values.
    pub value: u16,
    /// How often it is in, at least once.
    pub count: u64,
}

/// All fingerprints of a filter at a moment; from [`Filter::fingerprints`].
///
/// Each comes once, with a count above 0, in hash order; one that others begin with comes behind these.
#[derive(Debug)]
pub struct CountedFingerprints {
    lengths: Vec<Length>,
    /// Entries whose hashes are not passed yet, each within those before it.
    open: Vec<Open>,
    ready: VecDeque<Leaf>,
}

/// How many different keys are in a filter; see [`Filter::distinct`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DistinctKeys {
    /// The most likely number.
    pub estimate: u64,
    /// No fewer.
    pub lower: u64,
    /// No more.
    pub upper: u64,
}

/// Entries of one length.
#[derive(Debug)]
struct Length {
    bits: u32,
    value_bits: u32,
    cursor: MergedCursor,
    window: Entries,
    /// What of the window is to come, the next one last.
    rest: Vec<(u64, i64)>,
}

/// An entry, whose longer ones are still to come.
#[derive(Clone, Copy, Debug)]
struct Open {
    prefix: u64,
    bits: u32,
    value: u16,
    count: i64,
    /// Whether a longer one is in.
    has_longer: bool,
}

/// A fingerprint that is in, and whether it has no longer one that is in.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    fingerprint: Fingerprint,
    is_longest: bool,
}

impl Iterator for CountedFingerprints {
    type Item = Result<Fingerprint>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose().map(|leaf| leaf.map(|leaf| leaf.fingerprint))
    }
}

impl CountedFingerprints {
    /// Those whose first `skip_bits` bits are 0, which no length is shorter than.
    fn of(view: &View, kind: RunKind, value_bits: u32, skip_bits: u32) -> Result<Self> {
        let lengths = lengths(view).into_iter().map(|entry_bits| {
            let kind = RunKind { fingerprint_bits: entry_bits, ..kind };
            let last = ((1u128 << (entry_bits - skip_bits)) - 1) as u64;
            let cursor = MergedCursor::within(kind, &of_length(view, entry_bits), 0..=last)?;
            let (window, rest) = (Entries::default(), Vec::new());
            Ok(Length { bits: entry_bits - value_bits, value_bits, cursor, window, rest })
        });
        Ok(CountedFingerprints {
            lengths: lengths.collect::<Result<_>>()?,
            open: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    fn advance(&mut self) -> Result<Option<Leaf>> {
        loop {
            if let Some(leaf) = self.ready.pop_front() {
                return Ok(Some(leaf));
            }
            let mut next: Option<(Open, usize)> = None;
            for (at, length) in self.lengths.iter_mut().enumerate() {
                let Some(entry) = length.peek()? else { continue };
                let place = |one: &Open| (one.prefix, one.bits, one.value);
                if next.as_ref().is_none_or(|(least, _)| place(&entry) < place(least)) {
                    next = Some((entry, at));
                }
            }
            let Some((entry, at)) = next else {
                if self.open.is_empty() {
                    return Ok(None);
                }
                self.close(|_| true);
                continue;
            };
            self.lengths[at].rest.pop();
            self.close(|open| (entry.prefix ^ open.prefix).leading_zeros() < open.bits);
            self.open.push(entry);
        }
    }

    /// Ends the entries, the longest first, whose hashes are passed.
    fn close(&mut self, is_passed: impl Fn(&Open) -> bool) {
        while let Some(entry) = self.open.pop_if(|open| is_passed(open)) {
            let Open { prefix, bits, value, count, has_longer } = entry;
            let shorter = self.open.iter_mut().rfind(|open| open.value == value && open.bits < bits);
            if let Some(shorter) = shorter {
                shorter.count = shorter.count.saturating_add(count.min(0));
                shorter.has_longer |= has_longer || count > 0;
            }
            if count > 0 {
                let fingerprint = Fingerprint { prefix, bits, value, count: count as u64 };
                self.ready.push_back(Leaf { fingerprint, is_longest: !has_longer });
            }
        }
    }
}

impl Length {
    /// The next entry.
    fn peek(&mut self) -> Result<Option<Open>> {
        if self.rest.is_empty() {
            self.window.clear();
            if !self.cursor.next_window(&mut self.window)? {
                return Ok(None);
            }
            self.rest.extend(self.window.iter());
            self.rest.reverse();
        }
        Ok(self.rest.last().map(|&(entry, count)| Open {
            prefix: entry >> self.value_bits << (64 - self.bits),
            bits: self.bits,
            value: (entry & ((1 << self.value_bits) - 1)) as u16,
            count,
            has_longer: false,
        }))
    }
}

impl Filter {
    /// Goes through all fingerprints, as they are at this moment.
    ///
    /// # Cost
    /// Reads all runs once. RAM: 256 KiB a run.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub fn fingerprints(&self) -> Result<CountedFingerprints> {
        CountedFingerprints::of(&self.view()?, self.shared().kind, self.shared().options.value_bits, 0)
    }

    /// How many different keys are in the filter. Keys that have one fingerprint count as one: of n keys n times the false-positive
    /// rate at most.
    ///
    /// # Cost
    /// Reads the whole filter up to 4 M entries, and of a larger one a range of the hashes with 2 to 4 M.
    ///
    /// # Accuracy
    /// Exact for a small filter that did not outgrow its expected keys. In one that did, a key may be in with a longer fingerprint
    /// once more, and the bounds leave both open. Of a larger one, the bounds hold but for once in 10^9.
    ///
    /// # Errors
    /// As [`Filter::fingerprints`].
    pub fn distinct(&self) -> Result<DistinctKeys> {
        self.distinct_by(SAMPLE_ENTRIES)
    }

    /// As [`Filter::distinct`], from a sample of at most so many entries.
    pub(super) fn distinct_by(&self, sample_entries: u64) -> Result<DistinctKeys> {
        let view = self.view()?;
        let value_bits = self.shared().options.value_bits;
        let entries: u64 = (view.packed.iter().map(|run| run.fingerprints()))
            .chain(view.runs.iter().map(|run| run.fingerprints()))
            .sum();
        let shortest = lengths(&view).first().map_or(0, |bits| bits - value_bits);
        let skip_bits = entries.div_ceil(sample_entries).next_power_of_two().ilog2().min(shortest);
        let mut fingerprints = CountedFingerprints::of(&view, self.shared().kind, value_bits, skip_bits)?;
        let (mut longest, mut all) = (0u64, 0u64);
        while let Some(leaf) = fingerprints.advance()? {
            longest += u64::from(leaf.is_longest);
            all += 1;
        }
        if skip_bits == 0 {
            return Ok(DistinctKeys { estimate: longest, lower: longest, upper: all });
        }
        // How many of all are in a range is a binomial variable, no wider than a Poisson one; these are the means of which the count
        // is no farther than so many deviations.
        let mean = |count: u64, sign: f64| {
            let (count, half) = (count as f64, DEVIATIONS * DEVIATIONS / 2.0);
            count + half + sign * DEVIATIONS * (count + half / 2.0).sqrt()
        };
        let share = f64::from(2).powi(skip_bits as i32);
        Ok(DistinctKeys {
            estimate: longest << skip_bits,
            lower: ((mean(longest, -1.0) * share) as u64).max(longest),
            upper: (mean(all, 1.0) * share).ceil() as u64,
        })
    }

    /// Everything, logs included.
    pub(super) fn view(&self) -> Result<View> {
        self.shared().usable()?;
        self.shared().freeze_all()?;
        Ok(View::of(&self.shared().state()))
    }
}

/// The lengths of the entries that there are, values among them.
pub(super) fn lengths(view: &View) -> BTreeSet<u32> {
    view.sources().iter().map(|source| source.kind().fingerprint_bits).collect()
}

pub(super) fn of_length(view: &View, bits: u32) -> Vec<Source<'_>> {
    view.sources().into_iter().filter(|source| source.kind().fingerprint_bits == bits).collect()
}
