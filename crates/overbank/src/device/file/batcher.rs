//! How batches of reads are carried out: through rings, on threads, or where neither can be had one read after the other.

use super::opened::check_aligned;
use super::pool::ThreadPool;
use super::reads::{Begun, Reads};
use super::ring::RingPool;
use super::{Engine, FileOptions};
use crate::device::AlignedBuf;
use crate::{Error, Result};

/// What carries out batches of reads.
#[derive(Debug)]
pub(super) enum Batcher {
    Rings(RingPool),
    Threads(ThreadPool),
}

impl Batcher {
    /// What the options ask for, as far as the kernel or the container allows it.
    pub(super) fn choose(options: &FileOptions) -> Result<Self> {
        let rings = || match options.refuse_io_uring || options.portable {
            true => Err(std::io::ErrorKind::PermissionDenied.into()),
            false => RingPool::open(),
        };
        let threads = || Batcher::Threads(ThreadPool::new(options.threads_max));
        match options.engine {
            Engine::Threads => Ok(threads()),
            Engine::Auto => Ok(rings().map_or_else(|_| threads(), Batcher::Rings)),
            Engine::IoUring => rings().map(Batcher::Rings).map_err(|e| Error::InvalidOption {
                name: "engine",
                value: "io_uring".into(),
                why: format!(
                    "the kernel or the container refuses it, or this build is without it ({e}); choose auto or threads"
                ),
            }),
        }
    }

    /// What it is, for `describe`.
    pub(super) fn describe(&self) -> String {
        match self {
            Batcher::Rings(_) => "io_uring".to_owned(),
            Batcher::Threads(pool) => format!("up to {} threads", pool.threads_max()),
        }
    }

    /// Does all of `reads`; as [`Device::read_many`](crate::device::Device::read_many).
    pub(super) fn read_many(
        &self,
        reads: &Reads<'_>,
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for i in 0..reads.len() {
            check_aligned(reads.request(i).offset, reads.request(i).bytes as usize)?;
        }
        let (longest, depth) = (reads.longest(), depth.min(reads.len()));
        if depth > 1 && longest > 0 {
            let begun = match self {
                Batcher::Rings(rings) => rings.read_many(reads, longest, depth, done)?,
                Batcher::Threads(pool) => pool.read_many(reads, longest, depth, done)?,
            };
            if begun == Begun::Yes {
                return Ok(());
            }
        }
        let mut buffer = AlignedBuf::zeroed(longest);
        for i in 0..reads.len() {
            let into = &mut buffer[..reads.request(i).bytes as usize];
            reads.file(i).read_exact(reads.request(i).offset, into)?;
            done(i, into)?;
        }
        Ok(())
    }
}
