//! Looks up what stands under keys: runs whose fingerprints end in a few bits of a value, a maplet.
//!
//! ```text
//!   fingerprint   │ of the key, p − v bits │ value, v bits │        so all entries of a key are neighbours, in order of their values
//!
//!   sorted prefixes ─fences─▶ the blocks from value 0 to the last of each key ─▶ reads ─▶ (question, value, count) ─sort─▶ sums
//! ```
//!
//! | k keys, l runs | CPU | block reads |
//! |---|---|---|
//! | [`values_many`] | O(k l + e lg e) for e entries found | k l at most, and one more where a border between blocks divides a key: one of about a thousand |

use super::decode::Prober;
use super::format::fingerprint_max;
use super::inputs::Source;
use super::query::{Group, check_order, read_groups};
use super::{FingerprintSegment, RunKind};
use crate::Result;
use crate::error::invalid;
use crate::store::Files;
use std::ops::{Range, RangeInclusive};

/// What stands under each of some keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundValues {
    /// Where the entries of each key begin, and where the last ones end.
    starts: Vec<usize>,
    entries: Vec<(u64, i64)>,
}

impl FoundValues {
    /// How many keys were asked for.
    #[cfg(any(test, feature = "internals"))]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether none was.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values under the `i`-th key, ascending, with their counts over all sources, none of them 0.
    ///
    /// # Panics
    /// If fewer keys were asked for.
    pub fn of(&self, i: usize) -> &[(u64, i64)] {
        &self.entries[self.starts[i]..self.starts[i + 1]]
    }
}

/// A value of a key in one source: the question, the value, the count.
type Found = (usize, u64, i64);

/// Finds what `sources` have under the keys whose hashes begin with `prefixes`, which are left-aligned and ascend or repeat. The last
/// `value_bits` bits of a source's fingerprints are a value, those before are of the key; sources may differ in the latter. Up to
/// `depth` reads are in flight; runs on flash are of `files`.
///
/// # Cost
/// Seldom more than a block read a run and prefix, each block once. RAM: 40 bytes a block and 24 an entry that is found, and the reads
/// in flight.
///
/// # Errors
/// `InvalidOption` for prefixes out of order, or a source whose fingerprints have no more bits than a value; `Corrupt`; what the device
/// says.
pub fn values_many(
    files: &Files,
    sources: &[Source<'_>],
    value_bits: u32,
    prefixes: &[u64],
    depth: usize,
) -> Result<FoundValues> {
    check_order(prefixes)?;
    let (mut runs, mut groups, mut found): (Vec<&FingerprintSegment>, _, _) =
        (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        let keys = Keys::new(source.kind(), value_bits)?;
        match source {
            Source::Flash(run) => {
                let front = run.front();
                let blocks = |prefix, range| match &front {
                    Some(front) if !front.may_have(prefix) => 0..0,
                    _ => run.blocks_of(&range),
                };
                keys.groups(runs.len(), prefixes, blocks, &mut groups);
                runs.push(run);
            }
            Source::Memory(run) => {
                let mut own = Vec::new();
                let blocks = |_, range| {
                    let blocks = run.blocks_of(&range);
                    blocks.start as u64..blocks.end as u64
                };
                keys.groups(0, prefixes, blocks, &mut own);
                for Group { block, asked, .. } in own {
                    keys.find(run.body(block as usize), prefixes, asked, &mut found)?;
                }
            }
        }
    }
    read_groups(files, &runs, &groups, depth, &mut |run, body, asked| {
        Keys::new(run.kind(), value_bits)?.find(body, prefixes, asked, &mut found)
    })?;
    Ok(sum(prefixes.len(), found))
}

/// How the keys of a source are asked for.
#[derive(Clone, Copy)]
struct Keys {
    kind: RunKind,
    /// The bits of a value, all ones.
    values: u64,
}

impl Keys {
    fn new(kind: RunKind, value_bits: u32) -> Result<Self> {
        if value_bits >= kind.fingerprint_bits {
            let why = format!("fingerprints of {} bits have at least one of the key", kind.fingerprint_bits);
            return invalid("value_bits", value_bits, why);
        }
        Ok(Keys { kind, values: (1 << value_bits) - 1 })
    }

    /// The fingerprints of a key with any value.
    fn range(&self, prefix: u64) -> RangeInclusive<u64> {
        let fingerprint = self.kind.fingerprint_of(prefix);
        fingerprint & !self.values..=fingerprint | self.values
    }

    /// The blocks that have to be asked, and what.
    fn groups(
        &self,
        run: usize,
        prefixes: &[u64],
        blocks: impl Fn(u64, RangeInclusive<u64>) -> Range<u64>,
        groups: &mut Vec<Group>,
    ) {
        let own = groups.len();
        for (i, &prefix) in prefixes.iter().enumerate() {
            for block in blocks(prefix, self.range(prefix)) {
                Group::ask(groups, own, run, block, i..i + 1);
            }
        }
    }

    /// Appends what a block has under those of `prefixes` that are `asked`.
    fn find(&self, body: &[u8], prefixes: &[u64], asked: Range<usize>, found: &mut Vec<Found>) -> Result<()> {
        let sign = self.kind.sign;
        let mut prober = Prober::new(body, fingerprint_max(self.kind.fingerprint_bits))?;
        for i in asked {
            let range = self.range(prefixes[i]);
            prober.each_within(&range, |fingerprint, count| {
                found.push((i, fingerprint & self.values, sign.signed(count)))
            })?;
        }
        Ok(())
    }
}

/// Adds up the counts of each question's values.
fn sum(questions: usize, mut found: Vec<Found>) -> FoundValues {
    found.sort_unstable_by_key(|&(i, value, _)| (i, value));
    let mut values = FoundValues { starts: Vec::with_capacity(questions + 1), entries: Vec::new() };
    for same in found.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
        let (i, value, _) = same[0];
        let count = same.iter().fold(0i64, |sum, entry| sum.saturating_add(entry.2));
        if count != 0 {
            values.starts.resize(values.starts.len().max(i + 1), values.entries.len());
            values.entries.push((value, count));
        }
    }
    values.starts.resize(questions + 1, values.entries.len());
    values
}
