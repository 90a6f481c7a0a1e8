//! Looks hashes up in several runs: one block a run and hash, all in one wave of reads.
//!
//! ```text
//!   sorted prefixes ─▶ those in a run's range ─fences─▶ groups: a block and the questions to it ─▶ reads of neighbouring blocks ─▶
//!   counts, added up
//! ```

use super::RunKind;
use super::decode::Prober;
use super::format::fingerprint_max;
use super::reader::{FingerprintSegment, in_file};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::error::invalid;
use crate::store::Files;
use std::ops::Range;

/// The most blocks of one read: dense questions are read as in a sweep, sparse ones a block at a time.
const READ_BLOCKS: usize = 16;

/// The most bytes in flight: a sweep keeps a device at its sequential rate with fewer, longer reads.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// In dense batches, so many questions are put to a block at a time; it has room for a few times as many.
const STRIDE: usize = 8;

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

/// Adds to `counts[i]` the counts that the fingerprint of `prefixes[i]` has in `runs`, up to `depth` reads being in flight. `prefixes`,
/// each [`KeyHash::high`](crate::KeyHash::high) or its upper part, ascend or repeat; each run takes as many of their bits as its
/// fingerprints have, so runs of several lengths are asked at once. `runs` are of `files`.
///
/// # Cost
/// At most a block read a run and prefix, each block once; neighbouring ones in reads of up to 64 KiB. A run whose range has none of the
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
    let (mut reads, mut pieces) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < groups.len() {
        let piece = first..first + neighbours(&groups[first..]);
        let Group { run, block, .. } = groups[first];
        reads.push(runs[run].segment.read_of(block..block + piece.len() as u64));
        first = piece.end;
        pieces.push(piece);
    }
    let longest = pieces.iter().map(|piece| piece.len()).max().unwrap_or(1) * BLOCK_BYTES;
    files.read_many(&reads, depth.min(IN_FLIGHT_BYTES / longest), &mut |i, bytes| {
        for (group, bytes) in groups[pieces[i].clone()].iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
            let run = runs[group.run];
            let body = run.segment.body_of(group.block, bytes)?;
            answer(run, body, group.asked.clone())
                .map_err(|error| in_file(error, run.segment.path(), group.block * BLOCK_BYTES as u64))?;
        }
        Ok(())
    })
}

/// Adds the counts that a block of a run of `kind` has for ascending `prefixes`.
pub(super) fn add_counts(body: &[u8], kind: RunKind, prefixes: &[u64], counts: &mut [i64]) -> Result<()> {
    let mut prober = Prober::new(body, fingerprint_max(kind.fingerprint_bits))?;
    for (count, &prefix) in counts.iter_mut().zip(prefixes) {
        *count = count.saturating_add(prober.count(kind.fingerprint_of(prefix))?);
    }
    Ok(())
}

fn find_groups(at: usize, run: &FingerprintSegment, prefixes: &[u64], groups: &mut Vec<Group>) {
    let own = groups.len();
    // A level is often cut into runs of disjoint ranges: each is asked what it may know.
    let within = run.within(prefixes);
    let blocks_of = |i: usize| run.block_of(run.kind.fingerprint_of(prefixes[i]));
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

/// How many groups from the first on are neighbouring blocks that one read takes.
fn neighbours(groups: &[Group]) -> usize {
    let is_next = |pair: &&[Group]| pair[0].run == pair[1].run && pair[0].block + 1 == pair[1].block;
    1 + groups.windows(2).take(READ_BLOCKS - 1).take_while(is_next).count()
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
