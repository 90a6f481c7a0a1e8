//! Batches of reads through io_uring.
//!
//! ```text
//!   slab   │ slot 0 │ slot 1 │ … │ slot depth-1 │      one buffer, kept from batch to batch
//!              ▲ push a read     │ completion: check length, call back, push the slot's next read
//! ```
//!
//! Invariants:
//! 1. A slot's memory is the kernel's from the push of its read until its completion is reaped, and the callback's
//!    after that. Nobody else touches it.
//! 2. [`Lease`] counts what is in flight and waits for it before the slab can be reused or freed, on every way out:
//!    the end, an error, a panic of the callback.
//! 3. No more than [`DEPTH_MAX`] reads are in flight, half of what the completion queue holds, so that it never overflows.
//! 4. Only reads enter a ring.
//! 5. A ring that the kernel serves no more while it holds reads is left to it, with its slab, until the process ends: nobody
//!    can say when the memory is free. Its batch is an error, and later batches are read without rings.
//! 6. A ring is neither used nor freed by a fork of the process that made it: its memory is not there.

use super::reads::{Begun, Reads};
use crate::device::{AlignedBuf, Process};
use crate::lock::{into_inner, lock};
use crate::{Error, Result};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The ring's submission entries, and so the most reads in flight of one batch.
const DEPTH_MAX: usize = 256;
/// Completions come in bursts as long as the queue. Reads queued while one is worked off are submitted in groups of this
/// many, so that the device starts on the first before the last is ready: fio reads 71-74 k blocks a second at depth 32
/// when it submits one by one, and 60-67 k when it submits a burst at once (ext4 on a virtual disk).
const SUBMIT_EVERY: usize = 4;
/// A ring keeps its slab for the next batch up to this size: 128 reads of 32 KiB.
const SLAB_KEPT_BYTES: usize = 4 << 20;
/// Rings kept for the next batches. Threads beyond that make and drop a ring a batch.
const RINGS_KEPT: usize = 16;

pub(super) struct RingPool {
    idle: Mutex<Vec<Ring>>,
    /// A ring has failed for good.
    is_broken: AtomicBool,
    owner: Process,
}

struct Ring {
    uring: IoUring,
    slab: AlignedBuf,
}

/// A ring taken out of the pool for one batch.
struct Lease<'a> {
    pool: &'a RingPool,
    /// `None` only while it is dropped.
    ring: Option<Ring>,
    in_flight: usize,
}

/// What a slot is reading.
#[derive(Clone, Copy, Default)]
struct Slot {
    request: usize,
    filled: usize,
}

/// Completions are handled when the caller enters the kernel anyway, not by interrupting it; older kernels
/// do not know the flag.
fn new_uring(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder().dontfork().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))
}

impl RingPool {
    /// Rings for this process, if it may use io_uring: makes one and lets the kernel answer one entry.
    pub(super) fn open() -> std::io::Result<Self> {
        let mut uring = new_uring(2)?;
        let mut offered = io_uring::Probe::new();
        uring.submitter().register_probe(&mut offered)?;
        if !offered.is_supported(opcode::Read::CODE) {
            return Err(Errno::OPNOTSUPP.into());
        }
        // SAFETY: an entry that does nothing refers to no memory.
        unsafe { uring.submission().push(&opcode::Nop::new().build()) }.map_err(std::io::Error::other)?;
        loop {
            match uring.submit_and_wait(1) {
                Ok(_) => break,
                Err(e) if e.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                Err(e) => return Err(e),
            }
        }
        uring.completion().next().ok_or(Errno::IO)?;
        Ok(Self::new())
    }

    fn new() -> Self {
        Self { idle: Mutex::default(), is_broken: AtomicBool::new(false), owner: Process::current() }
    }

    /// Does all of `reads`, none longer than `longest` bytes, with up to `depth` in flight; none where there is no ring.
    pub(super) fn read_many(
        &self,
        reads: &Reads<'_>,
        longest: usize,
        depth: usize,
        done: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<Begun> {
        self.owner.require_current(&reads.file(0).path)?;
        let depth = depth.min(DEPTH_MAX);
        let Some(mut lease) = self.lease(depth * longest) else { return Ok(Begun::No) };
        // All access to the slab during the batch goes through this pointer, so that no reference spans a slot
        // that the kernel is filling.
        let slab = lease.slab_pointer();
        let mut slots = vec![Slot::default(); depth];
        // Queues what is left of a slot's read.
        let push = |lease: &mut Lease<'_>, slot: usize, Slot { request, filled }: Slot| {
            let (file, request) = (reads.file(request), reads.request(request));
            let fd = types::Fd(file.file.as_raw_fd());
            // SAFETY: `slot < depth` and `filled <= request.bytes <= longest`, so the place is inside the slab of
            // at least `depth * longest` bytes.
            let place = unsafe { slab.add(slot * longest + filled) };
            let rest = request.bytes - filled as u32;
            let entry = opcode::Read::new(fd, place, rest)
                .offset(request.offset.saturating_add(filled as u64))
                .build()
                .user_data(slot as u64);
            // SAFETY: the `rest` bytes at `place` stay inside the slot by the line above, live until the lease has
            // reaped the read (invariant 2), and nothing else touches them till then (invariant 1). The
            // descriptor is open as long as `reads` borrows its file, which outlives the lease.
            unsafe { lease.push(&entry) };
        };
        let mut completed: Vec<(usize, i32)> = Vec::with_capacity(depth);
        let mut next = depth;
        let mut failure: Option<Error> = None;
        for (slot, state) in slots.iter_mut().enumerate() {
            *state = Slot { request: slot, filled: 0 };
            push(&mut lease, slot, *state);
        }
        while lease.in_flight > 0 {
            let path = || reads.file(0).path.clone();
            let failed = |source: std::io::Error| {
                let why = format!("io_uring failed ({source}); try again, reads go on without it");
                Error::Io { op: "read", path: path(), source: std::io::Error::new(source.kind(), why) }
            };
            lease.wait_for_one().map_err(failed)?;
            lease.reap(|slot, outcome| completed.push((slot, outcome)));
            let mut queued = 0;
            for (slot, outcome) in completed.drain(..) {
                if failure.is_some() {
                    continue;
                }
                let (file, request) = (reads.file(slots[slot].request), reads.request(slots[slot].request));
                let bytes = request.bytes as usize;
                let advance = match usize::try_from(outcome) {
                    Ok(read) if slots[slot].filled + read == bytes => read,
                    Ok(read) => file.progress(read),
                    Err(_) => match Errno::from_raw_os_error(-outcome) {
                        Errno::INTR | Errno::AGAIN => {
                            push(&mut lease, slot, slots[slot]);
                            continue;
                        }
                        errno => {
                            failure = Some(file.read_failed(request.offset, bytes, errno.into()));
                            continue;
                        }
                    },
                };
                slots[slot].filled += advance;
                if slots[slot].filled < bytes {
                    if advance == 0 {
                        failure = Some(file.past_end(request.offset, bytes));
                    } else {
                        push(&mut lease, slot, slots[slot]);
                    }
                    continue;
                }
                // SAFETY: the slot lies inside the slab, was zeroed when the slab was made, and its read was
                // reaped, so until it is pushed again only this slice refers to it.
                let content = unsafe { std::slice::from_raw_parts(slab.add(slot * longest), bytes) };
                failure = done(slots[slot].request, content).err();
                if failure.is_none() && next < reads.len() {
                    slots[slot] = Slot { request: next, filled: 0 };
                    push(&mut lease, slot, slots[slot]);
                    next += 1;
                    queued += 1;
                    if queued % SUBMIT_EVERY == 0 {
                        lease.submit().map_err(failed)?;
                    }
                }
            }
        }
        failure.map_or(Ok(Begun::Yes), Err)
    }

    /// A ring; `None` where none can be made, for lack of descriptors or memory, or since one has failed.
    fn lease(&self, slab_bytes: usize) -> Option<Lease<'_>> {
        if self.is_broken.load(Ordering::Relaxed) {
            return None;
        }
        let kept = lock(&self.idle).pop();
        let mut ring = match kept {
            Some(ring) => ring,
            None => Ring { uring: new_uring(DEPTH_MAX as u32).ok()?, slab: AlignedBuf::default() },
        };
        if ring.slab.len() < slab_bytes {
            ring.slab = AlignedBuf::zeroed(slab_bytes);
        }
        Some(Lease { pool: self, ring: Some(ring), in_flight: 0 })
    }
}

impl Lease<'_> {
    fn ring(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("the ring is taken only by drop")
    }

    fn slab_pointer(&mut self) -> *mut u8 {
        self.ring().slab.as_mut_ptr()
    }

    /// Queues a read; the kernel sees it at the next wait.
    ///
    /// # Safety
    /// The memory of `entry` must be writable and untouched until it is reaped, at the latest when the lease drops.
    unsafe fn push(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: the caller vouches for the entry's memory.
        let pushed = unsafe { self.ring().uring.submission().push(entry) };
        pushed.expect("no more reads are in flight than the queue has entries");
        self.in_flight += 1;
    }

    /// Submits what was pushed; what the kernel does not take now goes with the next wait.
    fn submit(&mut self) -> std::io::Result<()> {
        match self.ring().uring.submit() {
            Ok(_) => Ok(()),
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// Submits what was pushed, and waits until something has completed.
    fn wait_for_one(&mut self) -> std::io::Result<()> {
        loop {
            #[cfg(test)]
            if tests::WAITS_FAIL.get() {
                return Err(Errno::BADF.into());
            }
            match self.ring().uring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(e) => match Errno::from_io_error(&e) {
                    Some(Errno::INTR) => {}
                    // The kernel wants completions reaped, or memory back, before it takes more.
                    Some(Errno::BUSY | Errno::AGAIN) => {
                        if !self.ring().uring.completion().is_empty() {
                            return Ok(());
                        }
                        std::thread::yield_now();
                    }
                    _ => return Err(e),
                },
            }
        }
    }

    /// Hands on what has completed, as (slot, bytes read or the negated error number).
    fn reap(&mut self, mut each: impl FnMut(usize, i32)) {
        let mut reaped = 0;
        for entry in self.ring().uring.completion() {
            each(entry.user_data() as usize, entry.result());
            reaped += 1;
        }
        self.in_flight -= reaped;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.wait_for_one().is_err() {
                // The kernel may still write to the slab and will not say when it has finished, so it is never freed.
                self.pool.is_broken.store(true, Ordering::Relaxed);
                std::mem::forget(self.ring.take());
                return;
            }
            self.reap(|_, _| ());
        }
        let Some(mut ring) = self.ring.take() else { return };
        if ring.slab.len() > SLAB_KEPT_BYTES {
            ring.slab = AlignedBuf::default();
        }
        let mut idle = lock(&self.pool.idle);
        if idle.len() < RINGS_KEPT {
            idle.push(ring);
        }
    }
}

impl Drop for RingPool {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // What unmaps a ring would unmap whatever this process has there.
            std::mem::forget(into_inner(std::mem::take(&mut self.idle)));
        }
    }
}

impl std::fmt::Debug for RingPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RingPool")
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{BLOCK_BYTES, Device, FileDevice, FileOptions, ReadRequest};
    use crate::{Error, device::Engine};
    use std::cell::Cell;

    thread_local! {
        /// Whether the kernel seems to serve this thread's rings no more.
        pub(super) static WAITS_FAIL: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn a_ring_that_fails_for_good_is_an_error_and_then_reads_go_on_without() {
        let scratch = tempfile::tempdir().unwrap();
        let Ok(device) = FileDevice::open(scratch.path(), FileOptions::new().engine(Engine::IoUring)) else {
            eprintln!("skipped: no io_uring here");
            return;
        };
        let file = device.create("f").unwrap();
        file.write(0, &[7; 8 * BLOCK_BYTES]).unwrap();
        let requests: Vec<ReadRequest> =
            (0..8).map(|i| ReadRequest { offset: i * 4096, bytes: BLOCK_BYTES as u32 }).collect();
        let read = || {
            let mut seen = 0;
            file.read_many(&requests, 4, &mut |_, bytes| {
                assert!(bytes.iter().all(|&byte| byte == 7));
                seen += 1;
                Ok(())
            })
            .map(|()| seen)
        };
        assert_eq!(read().unwrap(), 8);
        WAITS_FAIL.set(true);
        let error = read().unwrap_err();
        assert!(
            matches!(error, Error::Io { op: "read", .. }) && error.to_string().contains("io_uring"),
            "{error}"
        );
        assert_eq!(read().unwrap(), 8, "by one place after the other");
        WAITS_FAIL.set(false);
    }
}
