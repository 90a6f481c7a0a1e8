//! Looks hashes up in several runs: one block a run and hash, those of all runs of insertions in one wave of reads, and then, for what
//! is there, those of the runs of removals.
//!
//! ```text
//!   sorted prefixes ─▶ those in a run's range ─fences─▶ groups: a block and the questions to it ─▶ reads of neighbouring blocks ─▶
//!   counts, added up ─▶ those above 0 ─▶ the same, of removals ─▶ taken off
//! ```

use super::decode::Prober;
use super::format::fingerprint_max;
use super::reader::{FingerprintSegment, in_file};
use super::{RunKind, Sign};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::segment::reads::{Coalesce, read_blocks};
use crate::store::Files;
use std::ops::Range;

/// Dense questions are read as in a sweep, 64 KiB at a time, sparse ones a block at a time; 4 MiB in flight keep a device at its
/// sequential rate.
const READS: Coalesce = Coalesce { longest_blocks: 16, gap_blocks: 1, depth: 1, in_flight_bytes: 4 << 20 };

/// In dense batches, so many questions are put to a block at a time; it has room for a few times as many.
const STRIDE: usize = 8;

/// So many questions ahead, the line of a front is asked for: in a sparse batch each is a cache miss.
const FRONT_AHEAD: usize = 12;

/// A block, and the questions that it may answer.
pub(super) struct Group {
    pub(super) run: usize,
    pub(super) block: u64,
    pub(super) asked: Range<usize>,
}

/// Takes a block's body, the run that it is of, and which questions it is asked.
type Answer<'a> = dyn FnMut(&FingerprintSegment, &[u8], Range<usize>) -> Result<()> + 'a;

impl Group {
    /// Puts questions to a block; `groups` from `own` on are of the same run, and were asked nothing behind them.
    pub(super) fn ask(groups: &mut Vec<Group>, own: usize, run: usize, block: u64, asked: Range<usize>) {
        // Nearly always the last group's block, or one behind it.
        match groups[own..].iter_mut().rev().take_while(|group| group.block >= block).last() {
            Some(group) if group.block == block => group.asked.end = asked.end,
            _ => groups.push(Group { run, block, asked }),
        }
    }
}

#[cfg(any(test, feature = "internals"))]
impl FingerprintSegment {
    /// Whether the fingerprint of each of `prefixes`, which ascend or repeat, has a count above 0 in this run; see
    /// [`super::count_many`].
    ///
    /// # Errors
    /// As [`super::count_many`].
    pub fn contains_many(&self, files: &Files, prefixes: &[u64], depth: usize) -> Result<Vec<bool>> {
        let mut counts = vec![0; prefixes.len()];
        count_many(files, &[self], prefixes, depth, &mut counts)?;
        Ok(counts.into_iter().map(|count| count > 0).collect())
    }
}

/// Adds to `counts[i]` the counts that the fingerprint of `prefixes[i]` has in `runs`, up to `depth` reads being in flight. `prefixes`,
/// each [`KeyHash::high`](crate::KeyHash::high) or its upper part, ascend or repeat; each run takes as many of their bits as its
/// fingerprints have, so runs of several lengths are asked at once. `runs` are of `files`. Removals are taken off what is above 0 by
/// then, so runs of them are read for such fingerprints only, in a second wave: a count that is not above 0 says "not there", no more.
///
/// # Cost
/// At most a block read a run and prefix, each block once, none where the run's front says that the prefix is not there;
/// neighbouring ones in reads of up to 64 KiB. A run whose range has none of the
/// prefixes costs two binary searches. RAM: 40 bytes a block, and the reads in flight.
///
/// # Errors
/// `InvalidOption` for prefixes out of order, or another number of counts; `Corrupt`; what the device says. The counts are then of no
/// use.
pub fn count_many(
    files: &Files,
    runs: &[&FingerprintSegment],
    prefixes: &[u64],
    depth: usize,
    counts: &mut [i64],
) -> Result<()> {
    check_questions(prefixes, counts.len())?;
    let (insertions, removals): (Vec<&FingerprintSegment>, Vec<&FingerprintSegment>) =
        runs.iter().partition(|run| run.kind.sign == Sign::Insertions);
    add_all(files, &insertions, prefixes, depth, counts)?;
    let is_there = |&i: &usize| counts[i] > 0;
    let there: Vec<usize> = match removals.is_empty() {
        true => return Ok(()),
        false => (0..counts.len()).filter(is_there).collect(),
    };
    let asked: Vec<u64> = there.iter().map(|&i| prefixes[i]).collect();
    let mut left: Vec<i64> = there.iter().map(|&i| counts[i]).collect();
    add_all(files, &removals, &asked, depth, &mut left)?;
    there.iter().zip(left).for_each(|(&i, left)| counts[i] = left);
    Ok(())
}

/// Adds to `counts` what `runs` have of ascending `prefixes`, all in one wave of reads.
fn add_all(
    files: &Files,
    runs: &[&FingerprintSegment],
    prefixes: &[u64],
    depth: usize,
    counts: &mut [i64],
) -> Result<()> {
    let mut groups = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        find_groups(at, run, prefixes, &mut groups);
    }
    read_groups(files, runs, &groups, depth, &mut |run, body, asked| {
        add_counts(body, run.kind, &prefixes[asked.clone()], &mut counts[asked])
    })
}

/// Reads the blocks of `groups`, neighbouring ones together, and has `answer` take each with the run that it is of and what it is asked.
pub(super) fn read_groups(
    files: &Files,
    runs: &[&FingerprintSegment],
    groups: &[Group],
    depth: usize,
    answer: &mut Answer<'_>,
) -> Result<()> {
    let place = |group: &Group| runs[group.run].segment.place_of(group.block);
    let how = Coalesce { depth, ..READS };
    read_blocks(files, how, groups, place, &mut |group, bytes| {
        let run = runs[group.run];
        let body = run.segment.body_of(group.block, bytes)?;
        answer(run, body, group.asked.clone())
            .map_err(|error| in_file(error, run.segment.path(), group.block * BLOCK_BYTES as u64))
    })
}

/// Adds the counts that a block of a run of `kind` has for ascending `prefixes`.
pub(super) fn add_counts(body: &[u8], kind: RunKind, prefixes: &[u64], counts: &mut [i64]) -> Result<()> {
    let mut prober = Prober::new(body, fingerprint_max(kind.fingerprint_bits))?;
    for (count, &prefix) in counts.iter_mut().zip(prefixes) {
        let found = prober.count(kind.fingerprint_of(prefix))?;
        *count = count.saturating_add(kind.sign.signed(found));
    }
    Ok(())
}

fn find_groups(at: usize, run: &FingerprintSegment, prefixes: &[u64], groups: &mut Vec<Group>) {
    let own = groups.len();
    // A level is often cut into runs of disjoint ranges: each is asked what it may know.
    let within = run.within(prefixes);
    let blocks_of = |i: usize| run.block_of(run.kind.fingerprint_of(prefixes[i]));
    if let Some(front) = run.front() {
        for i in within.clone() {
            if let Some(&soon) = prefixes.get(i + FRONT_AHEAD) {
                front.prefetch(soon);
            }
            if front.may_have(prefixes[i]) {
                blocks_of(i).for_each(|block| Group::ask(groups, own, at, block, i..i + 1));
            }
        }
        return;
    }
    let mut i = within.start;
    while i < within.end {
        let blocks = blocks_of(i);
        // In a sweep, the questions up to one in the same block are in it too: the fences need not be asked for each.
        let ahead = i + STRIDE;
        let is_dense = ahead < within.end && blocks.end == blocks.start + 1 && blocks_of(ahead) == blocks;
        let next = if is_dense { ahead } else { i + 1 };
        for block in blocks {
            Group::ask(groups, own, at, block, i..next);
        }
        i = next;
    }
}

/// Prefixes ascend or repeat, and there is an answer for each.
pub(super) fn check_questions(prefixes: &[u64], answers: usize) -> Result<()> {
    if answers != prefixes.len() {
        return invalid("counts", answers, format!("there is one for each of {} prefixes", prefixes.len()));
    }
    check_order(prefixes)
}

/// Prefixes ascend or repeat.
pub(super) fn check_order(prefixes: &[u64]) -> Result<()> {
    match prefixes.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => invalid("a prefix", format!("{:#x}", pair[1]), "prefixes to look up ascend; sort them"),
        None => Ok(()),
    }
}
