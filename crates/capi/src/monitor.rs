//! Monitoring over many cores: workers in the caller's receive loops, an aggregator that is polled, readers for any thread.
//!
//! ```text
//!   your thread 0   overbank_worker_insert ──▶ ring ─┐
//!   your thread 1   overbank_worker_insert ──▶ ring ─┼─▶ overbank_aggregator_poll, in one of them or one more
//!   any thread      overbank_reader_flows ◀──────────┘    reads all of them, waits for none
//! ```

mod faces;
mod readers;

use crate::arrays::{one, slice, write, write_all};
use crate::error::overbank_status::*;
use crate::error::{Answer, call, fail};
use crate::hash::{hasher_of, hashes_of, overbank_hash, overbank_hasher};
use crate::object::{Opaque, change, give, release, share};
use crate::sketch::overbank_sketch;
use crate::sketch_query::{overbank_count, require_confidence};
use crate::store::{ask, work};
use faces::{AggregatorFace, ReaderFace, WorkerFace, start};
use overbank::monitor::{Allocation, KeyBytes, MonitorOptions};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a flow's key: a 5-tuple of IPv6 has 37.
pub const OVERBANK_FLOW_BYTES: usize = 39;

pub(crate) type Name = KeyBytes<OVERBANK_FLOW_BYTES>;

/// What is monitored, and how: all zero but `kind` and `hasher.kind` for the library's choices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_monitor_options {
    /// OVERBANK_COUNT_MIN, _COUNT_SKETCH, _COCO, _ELASTIC, _UNIVMON: flows and their sizes; _HYPERLOGLOG, _LOGLOG: how many there are;
    /// _DDSKETCH: quantiles of the packets' weights.
    pub kind: u32,
    /// Threads that receive packets; 0: 1.
    pub workers: u32,
    /// Counters of a row; 0: 65,536. Of _HYPERLOGLOG and _LOGLOG, the binary logarithm of the number of registers; 0: 14.
    pub columns: u32,
    /// Rows: 2 to 5; 0: 3. _COCO has 2, _UNIVMON 5, _ELASTIC 1.
    pub rows: u32,
    /// Buckets of _ELASTIC, levels of _UNIVMON; 0: 8192, or 8.
    pub parts: u32,
    /// Heavy keys that are kept; 0: 1024.
    pub heavy_keys: u32,
    /// Past epochs that are kept; 0: 1.
    pub epochs_kept: u32,
    /// The aggregator's share of a core, 0 to 1; 0: no limit.
    pub cpu_share: f64,
    /// How the packets' keys are hashed.
    pub hasher: overbank_hasher,
}

/// A packet. 64 bytes: a line of cache.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_packet {
    /// The hash of the flow's key: overbank_hash_keys.
    pub hash: overbank_hash,
    /// What it counts: 1, or its bytes.
    pub weight: u64,
    /// How many bytes of `key` are its own.
    pub key_len: u8,
    /// The flow's key; the rest is not looked at.
    pub key: [u8; OVERBANK_FLOW_BYTES],
}

/// A heavy flow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_flow {
    /// Its size.
    pub size: overbank_count,
    /// How many bytes of `key` are its own.
    pub key_len: u8,
    /// Its key; the rest is zero.
    pub key: [u8; OVERBANK_FLOW_BYTES],
}

/// What a poll did.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_polled {
    /// Messages applied.
    pub applied: u64,
    /// Messages that still wait.
    pub queue: u64,
    /// For how long to rest before the next poll: 0 unless the share of a core is limited.
    pub rest_ns: u64,
}

/// What a worker has done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_worker_stats {
    /// Packets inserted.
    pub elements: u64,
    /// How often a counter was due and its ring full, so that it was kept.
    pub kept: u64,
}

/// How a monitor is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_monitor_state {
    /// The current epoch: 0 at first.
    pub epoch: u64,
    /// Its total weight so far.
    pub total_weight: u64,
    /// The threshold at which counters are sent.
    pub tau: u32,
    /// How many workers there are.
    pub workers: u32,
}

/// Workers that nobody has taken yet, the aggregator and the reader.
pub struct overbank_monitor {
    _private: [u8; 0],
}

/// What is behind the handle.
pub(crate) struct Started {
    workers: Vec<Option<Box<dyn WorkerFace>>>,
    aggregator: Option<Box<dyn AggregatorFace>>,
    reader: Arc<dyn ReaderFace>,
}

impl Opaque for overbank_monitor {
    // Taken from one at a time, whoever takes.
    type Inner = Mutex<Started>;
    const TAG: u32 = u32::from_le_bytes(*b"moni");
    const NAME: &'static str = "monitor";
}

/// Counts packets: of one thread at a time.
pub struct overbank_worker {
    _private: [u8; 0],
}

impl Opaque for overbank_worker {
    type Inner = Box<dyn WorkerFace>;
    const TAG: u32 = u32::from_le_bytes(*b"work");
    const NAME: &'static str = "worker";
}

/// Takes what workers send: of one thread at a time.
pub struct overbank_aggregator {
    _private: [u8; 0],
}

impl Opaque for overbank_aggregator {
    type Inner = Box<dyn AggregatorFace>;
    const TAG: u32 = u32::from_le_bytes(*b"aggr");
    const NAME: &'static str = "aggregator";
}

/// Answers: of any number of threads.
pub struct overbank_reader {
    _private: [u8; 0],
}

impl Opaque for overbank_reader {
    type Inner = Arc<dyn ReaderFace>;
    const TAG: u32 = u32::from_le_bytes(*b"read");
    const NAME: &'static str = "reader";
}

fn or(chosen: u32, default: u32) -> u32 {
    if chosen == 0 { default } else { chosen }
}

/// Starts to monitor. The parts are taken by overbank_monitor_worker, _aggregator and _reader, and live on when this is freed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_monitor_start(
    options: *const overbank_monitor_options,
    out: *mut *mut overbank_monitor,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let options = one(options, "the options")?;
        let hasher = hasher_of(&raw const options.hasher)?;
        let mut chosen = MonitorOptions::new(or(options.workers, 1) as usize)
            .heavy_keys(or(options.heavy_keys, 1024) as usize)
            .epochs_kept(or(options.epochs_kept, 1) as usize);
        if options.cpu_share != 0.0 {
            chosen = chosen.policy(Allocation::CpuLimit { share: options.cpu_share });
        }
        Ok(Mutex::new(start(chosen, options, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Takes one thing out of a monitor.
fn taken<T>(monitor: &Mutex<Started>, take: impl FnOnce(&mut Started) -> Answer<T>) -> Answer<T> {
    take(&mut monitor.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes worker `index` out of the monitor: each once.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_monitor_worker(
    monitor: *const overbank_monitor,
    index: u32,
    out: *mut *mut overbank_worker,
) -> i32 {
    let take = |started: &mut Started| {
        let workers = started.workers.len();
        match started.workers.get_mut(index as usize).map(Option::take) {
            Some(Some(worker)) => Ok(worker),
            Some(None) => {
                fail(OVERBANK_INVALID, format!("worker {index} was taken before; each is taken once"))
            }
            None => fail(OVERBANK_INVALID, format!("index cannot be {index}: there are {workers} workers")),
        }
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(monitor, |monitor| taken(monitor, take))) })
}

/// Takes the aggregator out of the monitor: once.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_monitor_aggregator(
    monitor: *const overbank_monitor,
    out: *mut *mut overbank_aggregator,
) -> i32 {
    let take = |started: &mut Started| match started.aggregator.take() {
        Some(aggregator) => Ok(aggregator),
        None => fail(OVERBANK_INVALID, "the aggregator was taken before; there is one"),
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(monitor, |monitor| taken(monitor, take))) })
}

/// A reader of the monitor: any number.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_monitor_reader(
    monitor: *const overbank_monitor,
    out: *mut *mut overbank_reader,
) -> i32 {
    let take = |started: &mut Started| Ok(Arc::clone(&started.reader));
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(monitor, |monitor| taken(monitor, take))) })
}

/// Frees a monitor, and what was not taken out of it.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_monitor_free(monitor: *mut overbank_monitor) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(monitor) })
}

/// Inserts `n` packets, such as those of one receive call, and publishes. All of them or, where one is refused, none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_worker_insert(
    worker: *mut overbank_worker,
    packets: *const overbank_packet,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let packets = slice(packets, n, "packets")?;
        change(worker, |worker| worker.insert(packets))
    })
}

/// Lets the aggregator have what is due, and goes over to a new epoch: to be called by a worker that has nothing to insert.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_worker_publish(worker: *mut overbank_worker) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        work(worker, |worker| {
            worker.publish();
            Ok(())
        })
    }
}

/// Sends what the counters hold, as far as there is room; `is_done` is 1 once all is sent, else poll the aggregator and call again. Readers
/// need no flush: they look into the workers.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_worker_flush(worker: *mut overbank_worker, is_done: *mut u8) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { work(worker, |worker| write(is_done, u8::from(worker.flush()), "is_done")) }
}

/// Frees a worker. What it counted stays counted.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_worker_free(worker: *mut overbank_worker) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(worker) })
}

/// Takes what waits, up to some hundred messages a worker: to be called again and again. `polled` may be NULL.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_aggregator_poll(
    aggregator: *mut overbank_aggregator,
    polled: *mut overbank_polled,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        work(aggregator, |aggregator| {
            let did = aggregator.poll();
            if !polled.is_null() {
                let told = overbank_polled { applied: did.applied, queue: did.queue, rest_ns: did.rest_ns };
                write(polled, told, "polled")?;
            }
            Ok(())
        })
    }
}

/// Begins a new epoch, and tells its number. OVERBANK_BUSY while the one before the current is still being settled: poll, and try again.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_aggregator_begin_epoch(
    aggregator: *mut overbank_aggregator,
    epoch: *mut u64,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        work(aggregator, |aggregator| {
            write(epoch, 0, "epoch")?;
            match aggregator.begin_epoch() {
                Some(begun) => write(epoch, begun, "epoch"),
                None => fail(
                    OVERBANK_BUSY,
                    "the last epoch is still being settled; let workers publish, poll, and try again",
                ),
            }
        })
    }
}

/// Frees an aggregator. Readers go on to answer.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_aggregator_free(aggregator: *mut overbank_aggregator) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(aggregator) })
}

/// How the monitor is now.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_state(
    reader: *const overbank_reader,
    state: *mut overbank_monitor_state,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(reader, |reader| write(state, reader.state(), "state")) }
}

/// What each worker has done: `workers` of them, as the monitor's state tells.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_worker_stats(
    reader: *const overbank_reader,
    stats: *mut overbank_worker_stats,
    workers: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        ask(reader, |reader| {
            let all = reader.worker_stats();
            if all.len() != workers {
                return fail(
                    OVERBANK_INVALID,
                    format!("workers cannot be {workers}: there are {}", all.len()),
                );
            }
            let told = |did: overbank::monitor::WorkerStats| overbank_worker_stats {
                elements: did.elements,
                kept: did.kept,
            };
            write_all(stats, all.into_iter().map(told), "stats")
        })
    }
}

fn no_epoch<T>(first: u64, last: u64) -> Answer<T> {
    let why = format!(
        "the epochs {first} to {last} are not all kept, or have not begun; ask for newer ones, or keep more"
    );
    fail(OVERBANK_NOT_FOUND, why)
}

/// The sizes of `n` flows over the epochs `first` to `last`, with bounds: _COUNT_MIN, _COCO and _ELASTIC; others by their sketch. Of
/// _COUNT_MIN, `estimate` and `upper` are certain. OVERBANK_NOT_FOUND where an epoch is not kept any more.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_counts(
    reader: *const overbank_reader,
    first: u64,
    last: u64,
    hashes: *const overbank_hash,
    n: usize,
    confidence: f64,
    counts: *mut overbank_count,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        let hashes = hashes_of(hashes, n)?;
        share(reader, |reader| {
            let sizes = hashes.iter().map(|&hash| match reader.size(first, last, hash, confidence)? {
                Some(size) => Ok(size.into()),
                None => no_epoch(first, last),
            });
            let sizes: Vec<overbank_count> = sizes.collect::<Answer<_>>()?;
            write_all(counts, sizes.into_iter(), "counts")
        })
    })
}

/// The heaviest flows that are known of the epochs `first` to `last`, heaviest first, `capacity` at most; `count` tells how many. Of
/// _COUNT_MIN one epoch at a time.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_flows(
    reader: *const overbank_reader,
    first: u64,
    last: u64,
    confidence: f64,
    flows: *mut overbank_flow,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        share(reader, |reader| {
            let Some(found) = reader.flows(first, last, capacity, confidence)? else {
                return no_epoch(first, last);
            };
            write(count, found.len(), "count")?;
            write_all(flows, found.into_iter(), "flows")
        })
    })
}

/// The sketch of the epochs `first` to `last`, to be asked, merged and kept: of every kind.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_sketch(
    reader: *const overbank_reader,
    first: u64,
    last: u64,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        share(reader, |reader| match reader.sketch(first, last)? {
            Some(sketch) => Ok(sketch),
            None => no_epoch(first, last),
        })
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Frees a reader.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_reader_free(reader: *mut overbank_reader) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(reader) })
}

impl Started {
    fn new(
        workers: Vec<Box<dyn WorkerFace>>,
        aggregator: Box<dyn AggregatorFace>,
        reader: Arc<dyn ReaderFace>,
    ) -> Self {
        Self { workers: workers.into_iter().map(Some).collect(), aggregator: Some(aggregator), reader }
    }
}

/// So that `faces` can make them of any worker.
fn boxed<W>(workers: Vec<W>, counting: impl Fn(W) -> Box<dyn WorkerFace>) -> Vec<Box<dyn WorkerFace>> {
    workers.into_iter().map(counting).collect()
}

fn key_of(packet: &overbank_packet) -> Answer<Name> {
    let named = packet.key.get(..usize::from(packet.key_len)).and_then(Name::new);
    match named {
        Some(name) => Ok(name),
        None => {
            let why =
                format!("a packet's key cannot have {} bytes: {OVERBANK_FLOW_BYTES} at most", packet.key_len);
            fail(OVERBANK_INVALID, why)
        }
    }
}

impl overbank_flow {
    fn new(name: Name, size: overbank_count) -> Self {
        let mut key = [0; OVERBANK_FLOW_BYTES];
        let bytes = name.as_bytes();
        key[..bytes.len()].copy_from_slice(bytes);
        Self { size, key_len: bytes.len() as u8, key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_line_of_cache() {
        assert_eq!(size_of::<overbank_packet>(), 64);
    }
}
