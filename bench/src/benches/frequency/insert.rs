//! Inserts: from an empty sketch to everything applied and synced, each sample in a process and a memory cgroup of its own.

use super::classic::Classic;
use super::ours::{self, Ours};
use super::paper::Paper;
use super::rival::{Cell, Rival};
use super::stream::{Law, Stream, check};
use super::{Shape, TRACE_FILE, hasher};
use crate::{
    BlockCount, Case, Clock, Metric, Readahead, Result, Run, digest_u64s, folder_bytes, write_zeros,
};
use rustix::fs::{major, minor};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Updates between two looks at the time; the slowest rival does a hundred a second.
const PART_KEYS: usize = 16;

/// The paper's design first: ratios are to it.
pub(super) fn contest(run: &mut Run<'_>, shape: Shape, law: Law) -> Result<()> {
    let (scratch, elements) = (run.scratch()?, shape.elements());
    let trace = scratch.join(TRACE_FILE);
    let stream = || Stream::open(law, elements, &trace);
    // What a default costs need be seen once a size.
    let has_readahead = law == Law::Uniform && shape.cell == Cell::Eight;

    let sample_ours = |clock: &mut Clock, writers: usize| {
        let (folder, stream) = (tempfile::tempdir_in(&scratch)?, stream()?);
        let ours = Ours::create(folder.path(), shape, writers)?;
        let blocks = BlockCount::start();
        let digest = ours::insert(clock, &ours, &stream, writers)?;
        blocks.note(clock, elements);
        clock.note(Metric::FlashBytes, folder_bytes(folder.path())? as f64);
        Ok(digest)
    };
    let sample_rival = |clock: &mut Clock, open: &dyn Fn(&Path) -> Result<Box<dyn Rival>>| {
        let (folder, stream) = (tempfile::tempdir_in(&scratch)?, stream()?);
        let file = folder.path().join("sketch");
        write_zeros(&file, shape.sketch_bytes)?;
        let mut rival = open(&file)?;
        let blocks = BlockCount::start();
        let digest = insert(clock, &mut *rival, &stream, shape.patience)?;
        blocks.note(clock, rival.applied());
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

    let keys_alone = |clock: &mut Clock| {
        let (stream, mut sum) = (stream()?, 0u64);
        clock.time(|| {
            ours::insert_chunks(&stream, &AtomicU64::new(0), &mut |batch| {
                sum = batch.iter().fold(sum, |sum, hash| sum.wrapping_add(hash.fold()));
                Ok(())
            })
        })?;
        Ok(sum)
    };

    let mut contest = run
        .contest(Case::Insert)
        .param("workload", law.name())
        .param("sketch_mib", shape.sketch_bytes >> 20)
        .param("cell_bytes", shape.cell.bytes())
        .param("buffer_mib", shape.buffer_bytes() >> 20)
        .param("pending_a_writer", shape.pending())
        .param("elements", elements)
        .ops(usize::try_from(elements)?)
        .memory_limit(shape.ram_bytes)
        .costly()
        .approximate("paper", |clock| sample_rival(clock, &paper))
        .exact("overbank", |clock| sample_ours(clock, 1))
        .exact("overbank_2", |clock| sample_ours(clock, 2))
        .approximate("classic", |clock| sample_rival(clock, &classic(Readahead::Off)));
    if has_readahead {
        contest = contest
            .param("readahead_kib", readahead_kib(&scratch))
            .approximate("classic_readahead", |clock| sample_rival(clock, &classic(Readahead::Default)));
    }
    if law != Law::Uniform {
        contest = contest.approximate("keys_alone", keys_alone);
    }
    contest.finish()
}

/// One sample of a rival, as far as it comes in `patience`.
fn insert(clock: &mut Clock, rival: &mut dyn Rival, stream: &Stream, patience: Duration) -> Result<u64> {
    clock.time(|| {
        let until = Instant::now() + patience;
        insert_until(rival, stream, until)?;
        rival.finish(until)
    })?;
    clock.did(rival.applied());
    let (hashes, counts) = stream.witnesses(rival.applied())?;
    let estimates = hashes.iter().map(|&hash| rival.estimate(hash)).collect::<Result<Vec<u64>>>()?;
    check("a rival", &estimates, &counts)?;
    Ok(digest_u64s(estimates))
}

fn insert_until(rival: &mut dyn Rival, stream: &Stream, until: Instant) -> Result<()> {
    let (mut keys, hasher) = (Vec::new(), hasher());
    for chunk in 0..stream.chunks() {
        stream.fill(chunk, &mut keys)?;
        for part in keys.chunks(PART_KEYS) {
            if Instant::now() >= until {
                return Ok(());
            }
            for key in part {
                rival.insert(hasher.hash(&key.to_le_bytes()))?;
            }
        }
    }
    Ok(())
}

/// How far the kernel reads ahead on the device of `folder`, unless advised otherwise; `None` where it does not tell.
fn readahead_kib(folder: &Path) -> Option<u64> {
    let device = std::fs::metadata(folder).ok()?.dev();
    let place = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device));
    std::fs::read_to_string(place).ok()?.trim().parse().ok()
}
