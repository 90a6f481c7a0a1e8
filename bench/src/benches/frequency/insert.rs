//! Inserts: from an empty sketch to everything applied and synced, each sample in a process and a memory cgroup of its own.

use super::classic::Classic;
use super::ours::{self, Ours};
use super::paper::Paper;
use super::rival::{Cell, Rival, write_zeros};
use super::stream::{Law, Stream, check};
use super::{Shape, hasher};
use crate::{Case, Clock, Metric, Readahead, Result, Run, digest_u64s};
use overbank::device::BLOCK_BYTES;
use std::path::Path;
use std::time::{Duration, Instant};

/// Updates between two looks at the time; the slowest rival does a hundred a second.
const PART_KEYS: usize = 16;

/// The paper's design first: ratios are to it.
pub(super) fn contest(run: &mut Run<'_>, shape: Shape, law: Law) -> Result<()> {
    let (scratch, testdata, elements) = (run.scratch()?, run.testdata(), shape.elements());
    let stream = || Stream::open(law, elements, &testdata);
    // What a default costs need be seen once a size.
    let has_readahead = law == Law::Uniform && shape.cell == Cell::Eight;

    let sample_ours = |clock: &mut Clock, writers: usize| {
        let (folder, stream) = (tempfile::tempdir_in(&scratch)?, stream()?);
        let ours = Ours::create(folder.path(), shape)?;
        let before = io_bytes();
        let digest = ours::insert(clock, &ours, &stream, writers)?;
        note_blocks(clock, before, elements);
        clock.note(Metric::FlashBytes, folder_bytes(folder.path())? as f64);
        Ok(digest)
    };
    let sample_rival = |clock: &mut Clock, open: &dyn Fn(&Path) -> Result<Box<dyn Rival>>| {
        let (folder, stream) = (tempfile::tempdir_in(&scratch)?, stream()?);
        let file = folder.path().join("sketch");
        write_zeros(&file, shape.sketch_bytes)?;
        let mut rival = open(&file)?;
        let before = io_bytes();
        let digest = insert(clock, &mut *rival, &stream, shape.patience)?;
        note_blocks(clock, before, rival.applied());
        clock.note(Metric::FlashBytes, folder_bytes(folder.path())? as f64);
        Ok(digest)
    };
    let paper = |file: &Path| -> Result<Box<dyn Rival>> {
        Ok(Box::new(Paper::open(file, shape.cell, shape.buffer_bytes())?))
    };
    let classic = |readahead| {
        move |file: &Path| -> Result<Box<dyn Rival>> {
            Ok(Box::new(Classic::open(file, shape.cell, readahead)?))
        }
    };

    let mut contest = run
        .contest(Case::Insert)
        .param("workload", law.name())
        .param("sketch_mib", shape.sketch_bytes >> 20)
        .param("cell_bytes", shape.cell.bytes())
        .param("buffer_mib", shape.buffer_bytes() >> 20)
        .param("elements", elements)
        .ops(usize::try_from(elements)?)
        .memory_limit(shape.ram_bytes)
        .costly()
        .approximate("paper", |clock| sample_rival(clock, &paper))
        .exact("overbank", |clock| sample_ours(clock, 1));
    // Threads whose keys are made outside the clock would wait for each other.
    if !matches!(law, Law::Zipf(_)) {
        contest = contest.exact("overbank_2", |clock| sample_ours(clock, 2));
    }
    contest = contest.approximate("classic", |clock| sample_rival(clock, &classic(Readahead::Off)));
    if has_readahead {
        contest = contest
            .approximate("classic_readahead", |clock| sample_rival(clock, &classic(Readahead::Default)));
    }
    contest.finish()
}

/// One sample of a rival, as far as it comes in `patience`.
fn insert(clock: &mut Clock, rival: &mut dyn Rival, stream: &Stream, patience: Duration) -> Result<u64> {
    let (mut keys, mut left, hasher) = (Vec::new(), patience, hasher());
    for chunk in 0..stream.chunks() {
        if !stream.is_timed() {
            stream.fill(chunk, &mut keys);
        }
        let started = Instant::now();
        clock.time(|| -> Result<()> {
            if stream.is_timed() {
                stream.fill(chunk, &mut keys);
            }
            for part in keys.chunks(PART_KEYS) {
                if started.elapsed() >= left {
                    break;
                }
                for key in part {
                    rival.insert(hasher.hash(&key.to_le_bytes()))?;
                }
            }
            Ok(())
        })?;
        left = left.saturating_sub(started.elapsed());
        if left.is_zero() {
            break;
        }
    }
    clock.time(|| rival.finish(Instant::now() + left))?;
    clock.did(rival.applied());
    let (hashes, counts) = stream.witnesses(rival.applied());
    let estimates = hashes.iter().map(|&hash| rival.estimate(hash)).collect::<Result<Vec<u64>>>()?;
    check("a rival", &estimates, &counts)?;
    Ok(digest_u64s(estimates))
}

/// What this process has read from and written to block devices, in bytes; `None` where the kernel does not tell.
fn io_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some(field("read_bytes:")? + field("write_bytes:")?)
}

fn note_blocks(clock: &mut Clock, before: Option<u64>, ops: u64) {
    if let (Some(before), Some(after)) = (before, io_bytes()) {
        let blocks = (after - before) as f64 / BLOCK_BYTES as f64;
        clock.note(Metric::BlocksPerOp, blocks / ops.max(1) as f64);
    }
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
