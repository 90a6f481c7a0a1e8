//! Random reads of 4 KiB at a chosen depth: both engines of the file device beside fio on the same file.
//!
//! fio reports the time of its reads alone, without its start, so its rounds stand in the contest like the others.
//! Every round reads other places. The file holds random words, so nothing on the way can fake a hole.

use crate::{Bench, Case, Clock, Fio, Random, Result, Run};
use overbank::device::{
    Access, AlignedBuf, BLOCK_BYTES, Device, DeviceFile, Direct, Engine, FileDevice, FileOptions, ReadRequest,
};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// The registered bench.
pub(super) const BENCH: Bench = Bench {
    name: "device",
    about: "4 KiB random reads a second at depths 1, 32 and 128, beside fio",
    engines: &["overbank", "overbank_threads", "fio"],
    run,
};

const FILE: &str = "blocks";
const WRITE_BYTES: usize = 1 << 20;

fn run(run: &mut Run<'_>) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let file_bytes: u64 = run.pick([8 << 20, 1 << 30, 4 << 30]);
    write_blocks(scratch.path(), file_bytes)?;
    let fio = Fio::find(&scratch.path().join(FILE));
    if let Err(why) = &fio {
        run.say(&format!("fio is left out: {why}"));
    }
    let mut engines = Vec::new();
    for (name, engine) in [("overbank", Engine::IoUring), ("overbank_threads", Engine::Threads)] {
        let open =
            |direct| FileDevice::open(scratch.path(), FileOptions::new().engine(engine).direct(direct));
        match open(Direct::On).or_else(|_| open(Direct::Off)) {
            Ok(device) => engines.push((name, device.describe(), device.open(FILE, Access::Read)?)),
            Err(error) => run.say(&format!("{name} is left out: {error}")),
        }
    }
    for depth in [1, 32, 128] {
        // At depth 1 a read takes as long as at 32, and fewer of them suffice.
        let reads: usize = run.pick([128, 20_000, 100_000]) / if depth == 1 { 4 } else { 1 };
        let mut contest = run
            .contest(Case::Read)
            .ops(reads)
            .param("depth", depth)
            .param("read_bytes", BLOCK_BYTES)
            .param("file_bytes", file_bytes);
        for (name, describe, file) in &engines {
            let round = Cell::new(0);
            contest = contest.param(name, describe.as_str()).exact(name, move |clock| {
                round.set(round.get() + 1);
                read_randomly(&**file, file_bytes, reads, depth, round.get(), clock)
            });
        }
        if let Ok(fio) = &fio {
            contest = contest.exact("fio", move |clock| fio.read_randomly(reads, depth, clock));
        }
        contest.finish()?;
    }
    Ok(())
}

/// Fills the file with random words; each block begins with its number.
fn write_blocks(directory: &Path, file_bytes: u64) -> Result<()> {
    let device = FileDevice::open(directory, FileOptions::new())?;
    let file: Arc<dyn DeviceFile> = device.create(FILE)?;
    let mut random = Random::new(1);
    let mut piece = AlignedBuf::zeroed(WRITE_BYTES);
    for at in (0..file_bytes).step_by(WRITE_BYTES) {
        piece.as_chunks_mut().0.iter_mut().for_each(|word| *word = random.next_u64().to_le_bytes());
        for (i, block) in piece.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            block[..8].copy_from_slice(&(at / BLOCK_BYTES as u64 + i as u64).to_le_bytes());
        }
        file.write(at, &piece)?;
    }
    file.sync()?;
    Ok(())
}

/// Reads; the digest is how many blocks were the right ones.
fn read_randomly(
    file: &dyn DeviceFile,
    file_bytes: u64,
    reads: usize,
    depth: usize,
    seed: u64,
    clock: &mut Clock,
) -> Result<u64> {
    let blocks = file_bytes / BLOCK_BYTES as u64;
    let mut random = Random::new(seed);
    let requests: Vec<ReadRequest> = (0..reads)
        .map(|_| random.next_u64() % blocks)
        .map(|block| ReadRequest { offset: block * BLOCK_BYTES as u64, bytes: BLOCK_BYTES as u32 })
        .collect();
    let mut right = 0;
    clock.time(|| {
        file.read_many(&requests, depth, &mut |i, bytes| {
            let number = (requests[i].offset / BLOCK_BYTES as u64).to_le_bytes();
            right += u64::from(bytes.starts_with(&number));
            Ok(())
        })
    })?;
    Ok(right)
}
