//! What the device gives to whoever asks for blocks of 4 KiB at random places of a file, at the depth of the look-ups.

use super::asking::Asking;
use crate::{Clock, Random, Result, open_direct};
use overbank::device::{Access, AlignedBuf, BLOCK_BYTES, Device as _, FileDevice, FileOptions, ReadRequest};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The most reads that one call keeps in flight.
const DEPTH_MAX: u64 = 128;

/// Reads as many blocks as there are look-ups: each thread one at a time, or as many at once as a batch has, 128 at most.
pub(super) fn read(clock: &mut Clock, path: &Path, asking: Asking) -> Result<u64> {
    let blocks = (path.metadata()?.len() / BLOCK_BYTES as u64).max(1);
    let share = asking.lookups / asking.threads;
    if asking.batch > 1 {
        let folder = path.parent().ok_or("a file without a folder")?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file without a name")?;
        let file = FileDevice::open(folder, FileOptions::new())?.open(name, Access::Read)?;
        let mut random = Random::new(asking.seed);
        let mut requests =
            || ReadRequest { offset: random.below(blocks) * BLOCK_BYTES as u64, bytes: BLOCK_BYTES as u32 };
        let requests: Vec<ReadRequest> = (0..asking.lookups).map(|_| requests()).collect();
        let depth = asking.batch.min(DEPTH_MAX) as usize;
        clock.time(|| file.read_many(&requests, depth, &mut |_, _| Ok(())))?;
        return Ok(asking.lookups);
    }
    clock.time(|| {
        std::thread::scope(|scope| -> Result<()> {
            let work = |thread: u64| -> Result<()> {
                let file = open_direct(path, OpenOptions::new().read(true))?;
                let (mut block, mut random) =
                    (AlignedBuf::zeroed(BLOCK_BYTES), Random::new(asking.seed << 8 | thread));
                for _ in 0..share {
                    file.read_exact_at(&mut block, random.below(blocks) * BLOCK_BYTES as u64)?;
                }
                Ok(())
            };
            let threads: Vec<_> =
                (0..asking.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a reader panicked")?)
        })
    })?;
    Ok(asking.lookups)
}
