//! The aggregator on a thread of its own.
//!
//! ```text
//!   ┌─▶ poll ── applied some ─────────────▶─┐
//!   │     └─── nothing ── spin, then rest ──┤     10 µs, 20 µs, … 1 ms, so that an idle monitor costs little
//!   │                                       │
//!   └──────── rest, if over its share ◀─────┘     under a CPU limit: until what it has worked is that share of the time
//! ```
//!
//! 1. The share is one of the processor's time that the system says this thread had; where it does not say, of the time between rests.
//! 2. Time that the thread could have worked and did not is credited, up to [`CREDIT_NS`], so that a burst is taken as it comes.
//! 3. Nobody waits for the thread but who stops it, and that takes one poll: rests end when it is told to stop.

use super::aggregator::Aggregator;
use super::monitored::Monitored;
use super::worker::Worker;
use crate::device::clock::{Clock, SystemClock};
use crate::device::thread;
use crate::lock::lock;
use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Polls without a message before the first rest: some microseconds.
const SPINS: u32 = 64;
/// The first rest; each one after it is twice as long.
const REST_MIN_NS: u64 = 10_000;
/// The longest rest, after which what waits is found.
const REST_MAX_NS: u64 = 1_000_000;
/// How much of the time that passed unused a limited thread may make up for.
const CREDIT_NS: u64 = 10_000_000;
/// A limited thread rests no shorter than this: waking up is work, too.
const PACE_NS: u64 = 50_000;

/// Polls an [`Aggregator`] until it is stopped, as often as there is something to do and its [`Allocation`](super::Allocation) allows.
///
/// Dropped, it stops as well, and the aggregator goes with it; answers are found without one.
///
/// ```
/// use overbank::monitor::{FlowSizes, Monitor, MonitorOptions, Packet, Poller};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |flow: u64| Packet { hash: hasher.hash_u64(flow), key: flow, weight: 1 };
/// let Monitor { mut workers, aggregator, reader } = MonitorOptions::new(2).start(FlowSizes::<u64, 3>::new(1 << 12)?)?;
/// let poller = Poller::start(aggregator).map_err(|refused| refused.source)?;
/// std::thread::scope(|scope| {
///     for worker in &mut workers {
///         scope.spawn(move || (0..1000).for_each(|i| worker.insert(packet(i % 10))));
///     }
/// });
/// let aggregator = poller.finish(workers)?;
/// assert!(aggregator.messages() > 0);
/// assert_eq!(reader.size(packet(7).hash, 0.99).estimate, 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Poller<S: Monitored> {
    orders: Arc<Orders>,
    /// `None` once it is stopped.
    thread: Option<JoinHandle<Option<Aggregator<S>>>>,
}

/// The system gave no thread.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no thread to poll on: {source}; poll the aggregator on a thread that there is")]
pub struct Refused<S: Monitored> {
    /// As it was.
    pub aggregator: Box<Aggregator<S>>,
    /// What the system said.
    pub source: std::io::Error,
}

/// What the thread is told.
#[derive(Debug, Default)]
struct Orders {
    is_stopped: AtomicBool,
    /// How many epochs should have begun.
    epochs: AtomicU64,
}

impl<S: Monitored> Poller<S> {
    /// Polls on a thread of its own from now on.
    ///
    /// # Errors
    /// [`Refused`], with the aggregator, where the system gives no thread.
    pub fn start(aggregator: Aggregator<S>) -> std::result::Result<Self, Refused<S>> {
        let orders = Arc::new(Orders::default());
        // Where no thread takes it, it is still here.
        let place = Arc::new(Mutex::new(Some(Box::new(aggregator))));
        let (theirs, taken) = (Arc::clone(&orders), Arc::clone(&place));
        let started = thread::start("overbank-monitor", None, move || {
            let mut aggregator = lock(&taken).take()?;
            run(&mut aggregator, &theirs, &SystemClock::new());
            Some(*aggregator)
        });
        match started {
            Ok(thread) => Ok(Self { orders, thread: Some(thread) }),
            Err(source) => {
                let aggregator = lock(&place).take().expect("no thread took it");
                Err(Refused { aggregator, source })
            }
        }
    }

    /// Asks for a new epoch: it begins once the one before the current is settled. [`Reader::epoch`](super::Reader::epoch) says when.
    pub fn begin_epoch(&self) {
        self.orders.epochs.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Stops the thread; the aggregator, which has applied what was published when it was told to stop.
    ///
    /// # Errors
    /// [`Error::WorkerFailed`] if the sketch panicked on the thread.
    pub fn stop(mut self) -> Result<Aggregator<S>> {
        self.orders.is_stopped.store(true, Ordering::Release);
        self.wake();
        let why = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Some(aggregator))) => return Ok(aggregator),
            Some(Err(panic)) => thread::panic_text(&*panic).to_owned(),
            _ => "it had no aggregator".to_owned(),
        };
        Err(Error::WorkerFailed { what: "a monitor's aggregator", why })
    }

    /// Stops the thread and takes over all that the workers hold, as [`Aggregator::drain`] does; the aggregator.
    ///
    /// # Errors
    /// Those of [`stop`](Self::stop) and of [`Aggregator::drain`].
    pub fn finish(self, workers: Vec<Worker<S>>) -> Result<Aggregator<S>> {
        let mut aggregator = self.stop()?;
        aggregator.drain(workers)?;
        Ok(aggregator)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl<S: Monitored> Drop for Poller<S> {
    fn drop(&mut self) {
        self.orders.is_stopped.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed by then, and nobody asked.
            let _ = thread.join();
        }
    }
}

/// What the thread does.
fn run<S: Monitored>(aggregator: &mut Aggregator<S>, orders: &Orders, clock: &impl Clock) {
    let mut pace = aggregator.policy().share().map(Pace::new);
    let (mut idle, mut begun, mut rested_ns) = (0, 0, 0u64);
    while !orders.is_stopped.load(Ordering::Acquire) {
        if begun < orders.epochs.load(Ordering::Relaxed) && aggregator.begin_epoch().is_some() {
            begun += 1;
        }
        let polled = aggregator.poll(|| clock.now_ns());
        idle = if polled.applied > 0 || aggregator.can_settle() { 0 } else { idle + 1 };
        let over_ns = pace.as_mut().map_or(0, |pace| {
            let now_ns = clock.now_ns();
            pace.over_ns(now_ns, clock.busy_ns().unwrap_or(now_ns.saturating_sub(rested_ns)))
        });
        let rest_ns = over_ns.max(idle_ns(idle));
        if rest_ns > 0 {
            let began_ns = clock.now_ns();
            clock.rest(rest_ns);
            rested_ns = rested_ns.saturating_add(clock.now_ns().saturating_sub(began_ns));
        } else if idle > 0 {
            std::hint::spin_loop();
        }
    }
    aggregator.take_published();
}

/// For how long to rest after so many polls that had nothing to do.
fn idle_ns(idle: u32) -> u64 {
    match idle.checked_sub(SPINS) {
        Some(doublings) => (REST_MIN_NS << doublings.min(16)).min(REST_MAX_NS),
        None => 0,
    }
}

/// Keeps a thread to its share of the time.
#[derive(Debug)]
struct Pace {
    share: f64,
    /// From when on it counts, and what the thread had worked by then.
    since: Option<(u64, u64)>,
}

impl Pace {
    fn new(share: f64) -> Self {
        Self { share, since: None }
    }

    /// For how long to rest until what the thread has worked is its share; 0 while that is not worth a rest.
    fn over_ns(&mut self, now_ns: u64, busy_ns: u64) -> u64 {
        let (then_ns, busy_then_ns) = *self.since.get_or_insert((now_ns, busy_ns));
        let filled_ns = (busy_ns.saturating_sub(busy_then_ns) as f64 / self.share) as u64;
        let passed_ns = now_ns.saturating_sub(then_ns);
        if passed_ns.saturating_sub(filled_ns) > CREDIT_NS {
            self.since = Some((now_ns - CREDIT_NS, busy_ns));
        }
        let over_ns = filled_ns.saturating_sub(passed_ns);
        if over_ns < PACE_NS { 0 } else { over_ns }
    }
}

#[cfg(test)]
mod tests;
