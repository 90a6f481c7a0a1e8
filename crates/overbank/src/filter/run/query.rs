//! Looks fingerprints up in several runs: one block a run and fingerprint, all in one wave of reads.
//!
//! ```text
//!   sorted fingerprints ─fences─▶ groups: a block and the questions to it ─▶ reads of neighbouring blocks ─▶ counts, added up
//! ```

use super::decode::Prober;
use super::reader::{Run, in_file};
use crate::device::BLOCK_BYTES;
use crate::store::Files;
use crate::{Error, Result};
use std::ops::Range;

/// The most blocks of one read: dense questions are read as in a sweep, sparse ones a block at a time.
const READ_BLOCKS: usize = 16;

/// A block, and the questions that it may answer.
struct Group {
    run: usize,
    block: u64,
    asked: Range<usize>,
}

/// Adds to `counts[i]` the counts that `fingerprints[i]` has in `runs`, up to `depth` reads being in flight. `fingerprints` ascend or
/// repeat, and `runs` are of `files`.
///
/// # Cost
/// At most a block read a run and fingerprint, each block once; neighbouring ones in reads of up to 64 KiB. RAM: 40 bytes a block, and
/// the reads in flight.
///
/// # Errors
/// `InvalidOption` for fingerprints out of order or too long, or another number of counts; `Corrupt`; what the device says. The counts
/// are then of no use.
pub fn count_many(
    files: &Files,
    runs: &[&Run],
    fingerprints: &[u64],
    depth: usize,
    counts: &mut [i64],
) -> Result<()> {
    check_questions(runs, fingerprints, counts.len())?;
    let mut groups = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        find_groups(at, run, fingerprints, &mut groups);
    }
    let (mut reads, mut pieces) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < groups.len() {
        let piece = first..first + neighbours(&groups[first..]);
        let Group { run, block, .. } = groups[first];
        reads.push(runs[run].segment.read_of(block..block + piece.len() as u64));
        first = piece.end;
        pieces.push(piece);
    }
    files.read_many(&reads, depth, &mut |i, bytes| {
        for (group, bytes) in groups[pieces[i].clone()].iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
            let run = runs[group.run];
            let body = run.segment.body_of(group.block, bytes)?;
            let prober = Prober::new(body, run.max());
            let at = group.block * BLOCK_BYTES as u64;
            let mut prober = prober.map_err(|error| in_file(error, run.segment.path(), at))?;
            let asked = group.asked.clone();
            for (count, &fingerprint) in counts[asked.clone()].iter_mut().zip(&fingerprints[asked]) {
                *count = count.saturating_add(prober.count(fingerprint));
            }
        }
        Ok(())
    })
}

fn find_groups(at: usize, run: &Run, fingerprints: &[u64], groups: &mut Vec<Group>) {
    let own = groups.len();
    for (i, &fingerprint) in fingerprints.iter().enumerate() {
        for block in run.block_of(fingerprint) {
            // Nearly always the last group's block, or one behind it.
            match groups[own..].iter_mut().rev().take_while(|group| group.block >= block).last() {
                Some(group) if group.block == block => group.asked.end = i + 1,
                _ => groups.push(Group { run: at, block, asked: i..i + 1 }),
            }
        }
    }
}

/// How many groups from the first on are neighbouring blocks that one read takes.
fn neighbours(groups: &[Group]) -> usize {
    let is_next = |pair: &&[Group]| pair[0].run == pair[1].run && pair[0].block + 1 == pair[1].block;
    1 + groups.windows(2).take(READ_BLOCKS - 1).take_while(is_next).count()
}

fn check_questions(runs: &[&Run], fingerprints: &[u64], counts: usize) -> Result<()> {
    let invalid = |name, value, why: &str| Err(Error::InvalidOption { name, value, why: why.to_owned() });
    if counts != fingerprints.len() {
        return invalid("counts", counts.to_string(), "there is one for each fingerprint");
    }
    if let Some(pair) = fingerprints.windows(2).find(|pair| pair[0] > pair[1]) {
        return invalid(
            "a fingerprint",
            format!("{:#x}", pair[1]),
            "fingerprints to look up ascend; sort them",
        );
    }
    let last = fingerprints.last().copied().unwrap_or(0);
    if runs.iter().any(|run| last > run.max()) {
        return invalid(
            "a fingerprint",
            format!("{last:#x}"),
            "it has more bits than the run's fingerprints",
        );
    }
    Ok(())
}
