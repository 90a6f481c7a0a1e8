//! The threads that count, the one that gathers, and what a report reads of them.
//!
//! ```text
//!   batch ─▶ Hand ─┬─▶ Counters: one of each sketch ── messages ─▶ Gatherer
//!   batch ─▶ Hand ─┤                                                  │
//!   batch ─▶ Hand ─┴─▶ Tally: exact counts, under its lock            └─ read through ─▶ Crew::readers
//! ```
//!
//! 1. `gate` holds the number of the epoch. A hand counts a batch under its read lock, so a batch is of one epoch in all sketches.
//! 2. An epoch ends when the gatherer takes the gate's write lock, and begins the next one of every sketch. Hands find the new number
//!    with their next batch, or when they are asked to [`turn`](Hand::turn), and put what they counted of the old one to `ended`.
//! 3. An epoch is over when every hand has turned and every sketch has settled: it is then read as it will stay.

use super::shape::Shape;
use super::sketches::{self, Counters, Gathering, Readers, Slice};
use super::tally::Tally;
use crate::arguments::Measure;
use crate::failure::Failure;
use crate::report::{Readings, SKETCHES, Span};
use overbank::KeyHasher;
use overbank_ingest::capture::{FlowBatch, FlowKind};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Packets that are counted between two looks at τ.
const SLICE: usize = 256;
/// Of so many packets of each hand and epoch of a capture, the gatherer hears of every one: where they are few, all flows have names.
const KNOWN: usize = 1024;
/// Looks at empty rings before the gatherer rests.
const LOOKS: u32 = 64;
/// How long it does.
const REST: Duration = Duration::from_micros(100);

/// The number of the last poll, when there is nobody any more who polls.
const GONE: u64 = u64::MAX;

/// A lock whose holder cannot have left anything half-done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all threads share.
pub(super) struct Crew {
    pub(super) shape: Shape,
    pub(super) hasher: KeyHasher,
    pub(super) kind: FlowKind,
    pub(super) by: Measure,
    pub(super) readers: Readers,
    gate: RwLock<u64>,
    /// What each hand counted, and of which epoch.
    tallies: Vec<Mutex<(u64, Tally)>>,
    /// What the hands that have left the epoch that ends had counted in it.
    ended: Mutex<Tally>,
    /// Hands that are in the epoch of the gate.
    turned: AtomicUsize,
    /// When the packets were that were counted of the current epoch.
    span: Mutex<Option<Span>>,
    gauges: Gauges,
}

/// What the gatherer says of itself.
#[derive(Default)]
struct Gauges {
    taus: [AtomicU8; SKETCHES.len()],
    queue: AtomicU64,
    messages: AtomicU64,
    polls: AtomicU64,
}

/// The gatherer's side.
pub(super) struct Gatherer(Gathering);

/// One thread's side.
pub(super) struct Hand<'c> {
    crew: &'c Crew,
    index: usize,
    epoch: u64,
    counters: Counters,
    slice: Slice,
    /// Whether it waits where a ring is full, and of how many packets of the epoch the gatherer has not heard then.
    is_patient: bool,
    known_left: usize,
}

/// What the threads count in, before they are started.
pub(super) struct Workers(Vec<Counters>);

impl Crew {
    /// Everything for so many threads, which fit the shape.
    pub(super) fn new(
        shape: Shape,
        threads: usize,
        hasher: KeyHasher,
        kind: FlowKind,
        by: Measure,
    ) -> Result<(Self, Workers, Gatherer), Failure> {
        let (readers, counters, gathering) = sketches::start(&shape, threads, &hasher)?;
        let crew = Self {
            shape,
            hasher,
            kind,
            by,
            readers,
            gate: RwLock::new(0),
            tallies: (0..threads).map(|_| Mutex::default()).collect(),
            ended: Mutex::default(),
            turned: AtomicUsize::new(threads),
            span: Mutex::new(None),
            gauges: Gauges::default(),
        };
        Ok((crew, Workers(counters), Gatherer(gathering)))
    }

    /// How many threads count.
    pub(super) fn threads(&self) -> usize {
        self.tallies.len()
    }

    /// Whether flows have ports, which fragments lack.
    pub(super) fn has_ports(&self) -> bool {
        [FlowKind::SOURCE_PORT, FlowKind::DESTINATION_PORT].iter().any(|port| port.is_part_of(self.kind))
    }

    /// The number of the epoch.
    pub(super) fn epoch(&self) -> u64 {
        *self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all threads have counted of this epoch, if it is the current one.
    pub(super) fn tally(&self, epoch: u64) -> Tally {
        let mut all = Tally::default();
        for tally in &self.tallies {
            let (of, tally) = &*lock(tally);
            if *of == epoch {
                all.add(tally);
            }
        }
        all
    }

    /// What was counted of the epoch that has ended.
    pub(super) fn take_ended(&self) -> Tally {
        std::mem::take(&mut *lock(&self.ended))
    }

    /// When the packets were that were counted of the current epoch.
    pub(super) fn span(&self) -> Option<Span> {
        *lock(&self.span)
    }

    pub(super) fn note_span(&self, span: Option<Span>) {
        *lock(&self.span) = span;
    }

    /// The readings once nothing waits for the gatherer any more of what was published before. To be asked while nobody counts.
    pub(super) fn drained(&self) -> Readings {
        // The poll under way may have looked at a ring before something came to it.
        let polls = self.gauges.polls.load(Ordering::Acquire).saturating_add(2);
        loop {
            let (now, readings) = (self.gauges.polls.load(Ordering::Acquire), self.readings());
            if now >= polls && readings.queue == 0 || now == GONE {
                return readings;
            }
            std::thread::sleep(REST);
        }
    }

    /// Lets the gatherer have the processor; whether there is still one.
    fn waits(&self) -> bool {
        std::thread::yield_now();
        self.gauges.polls.load(Ordering::Acquire) != GONE
    }

    pub(super) fn readings(&self) -> Readings {
        let Gauges { taus, queue, messages, .. } = &self.gauges;
        Readings {
            taus: taus.each_ref().map(|tau| tau.load(Ordering::Relaxed)),
            queue: queue.load(Ordering::Relaxed),
            messages: messages.load(Ordering::Relaxed),
            kept: self.readers.kept(),
        }
    }
}

impl Workers {
    /// One hand for each thread. A patient one waits for the gatherer where a ring is full: not beside one that may end an epoch while it
    /// counts a batch, which waits for that.
    pub(super) fn hands(self, crew: &Crew, is_patient: bool) -> Vec<Hand<'_>> {
        let hand = |(index, counters)| Hand {
            crew,
            index,
            epoch: 0,
            counters,
            slice: Slice::default(),
            is_patient,
            known_left: KNOWN,
        };
        self.0.into_iter().enumerate().map(hand).collect()
    }
}

impl Hand<'_> {
    /// Counts a batch.
    pub(super) fn count(&mut self, batch: &FlowBatch) {
        let crew = self.crew;
        let gate = crew.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.go_over(*gate);
        let mut counted = Tally { packets: *batch.counts(), ..Tally::default() };
        for slice in batch.packets().chunks(SLICE) {
            self.slice.clear();
            for packet in slice {
                self.slice.push(packet, &crew.hasher, crew.kind, crew.by);
                counted.count(packet.wire_bytes);
            }
            if self.is_patient {
                let tau_max = if self.known_left > 0 { 1 } else { u8::MAX };
                self.counters.insert_patiently(&self.slice, tau_max, || crew.waits());
                self.known_left = self.known_left.saturating_sub(slice.len());
            } else {
                self.counters.insert(&self.slice);
            }
        }
        lock(&crew.tallies[self.index]).1.add(&counted);
    }

    /// Goes over to a new epoch if one has begun, and lets the gatherer have what is due.
    pub(super) fn turn(&mut self) {
        let crew = self.crew;
        let gate = crew.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.go_over(*gate);
        self.counters.publish();
    }

    /// Leaves what it counted of the epoch before.
    fn go_over(&mut self, epoch: u64) {
        if self.epoch == epoch {
            return;
        }
        let (_, left) =
            std::mem::replace(&mut *lock(&self.crew.tallies[self.index]), (epoch, Tally::default()));
        lock(&self.crew.ended).add(&left);
        self.counters.publish();
        (self.epoch, self.known_left) = (epoch, KNOWN);
        self.crew.turned.fetch_add(1, Ordering::Release);
    }
}

/// A request to end the epoch; the sender is told once it is over.
pub(super) type Turn = SyncSender<()>;

/// Asks for the end of the epoch, and waits for it; whether the gatherer is still there.
pub(super) fn end_epoch(turns: &Sender<Turn>) -> bool {
    let (over, is_over) = std::sync::mpsc::sync_channel(1);
    turns.send(over).is_ok() && is_over.recv().is_ok()
}

impl Gatherer {
    /// Takes messages until nobody can ask for a turn any more. `wake` has hands turn that have nothing to count.
    pub(super) fn gather(mut self, crew: &Crew, turns: &Receiver<Turn>, wake: impl Fn()) {
        let began = Instant::now();
        let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut turning: Option<Turn> = None;
        // However it ends, nobody waits for another poll.
        let _end = End(&crew.gauges);
        let mut looks = 0;
        loop {
            let gauges = &crew.gauges;
            let (mut applied, mut queue, mut messages) = (0, 0, 0u64);
            for (sketch, tau) in self.0.iter_mut().zip(&gauges.taus) {
                let polled = sketch.poll(&clock);
                applied += polled.applied;
                queue += polled.queue;
                messages = messages.wrapping_add(sketch.messages());
                tau.store(sketch.tau(), Ordering::Relaxed);
            }
            gauges.queue.store(queue, Ordering::Relaxed);
            gauges.messages.store(messages, Ordering::Relaxed);
            gauges.polls.fetch_add(1, Ordering::Release);
            looks = if applied == 0 { (looks + 1).min(LOOKS) } else { 0 };
            let is_idle = looks >= LOOKS;
            if turning.is_some() {
                let has_turned = crew.turned.load(Ordering::Acquire) == crew.threads();
                if has_turned && self.0.iter().all(|sketch| !sketch.is_settling()) {
                    // Who asked may have gone since.
                    let _ = turning.take().map(|over| over.send(()));
                } else if is_idle && !has_turned {
                    std::thread::park_timeout(REST);
                }
                continue;
            }
            let asked = match is_idle {
                true => turns.recv_timeout(REST),
                false => turns.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            };
            match asked {
                Ok(over) => {
                    self.begin_epoch(crew);
                    turning = Some(over);
                    wake();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Between two batches of every hand. The epoch before is settled, as whoever asks for a turn waits for its end.
    fn begin_epoch(&mut self, crew: &Crew) {
        let mut gate = crew.gate.write().unwrap_or_else(PoisonError::into_inner);
        crew.turned.store(0, Ordering::Relaxed);
        self.0.iter_mut().for_each(|sketch| sketch.begin_epoch());
        *gate += 1;
    }
}

struct End<'g>(&'g Gauges);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.polls.store(GONE, Ordering::Release);
    }
}
