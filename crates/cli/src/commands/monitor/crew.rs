//! The threads that count, the one that gathers, and what a report reads of them.
//!
//! ```text
//!   batch ─▶ Hand ─┬─▶ Counters: one of each sketch ── messages ─▶ Basket, one of each sketch ◀── polls ── Gatherer
//!   batch ─▶ Hand ─┤                                                  │
//!   batch ─▶ Hand ─┴─▶ Tally: exact counts, under its lock            └─ read through ─▶ Crew::readers
//! ```
//!
//! 1. `gate` holds the number of the epoch. A hand counts a batch under its read lock, so a batch is of one epoch in all sketches.
//! 2. An epoch ends when the gatherer takes the gate's write lock, and begins the next one of every sketch. Hands find the new number
//!    with their next batch, or when they are asked to [`turn`](Hand::turn), and put what they counted of the old one to `ended`.
//! 3. A hand that finds a ring full and may wait polls that sketch itself, unless another does just now: it waits for work, never for a
//!    thread that does not run.
//! 4. An epoch is over when every hand has turned and every sketch has settled: it is then read as it will stay.

use super::shape::Shape;
use super::sketches::{self, Counters, Gathers, Readers, Slice};
use super::tally::Tally;
use crate::arguments::Measure;
use crate::failure::Failure;
use crate::report::{Readings, SKETCHES, Span};
use overbank::KeyHasher;
use overbank_ingest::capture::{FlowBatch, FlowKind};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

/// Packets that are counted between two looks at τ.
const SLICE: usize = 256;
/// Of so many packets of each hand and epoch of a capture, the gatherer hears of every one: where they are few, all flows have names.
const KNOWN: usize = 1 << 14;
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
    baskets: [Basket; SKETCHES.len()],
    begun: Instant,
    /// How often the gatherer has polled all sketches, or [`GONE`].
    polls: AtomicU64,
}

/// What gathers one sketch, and what it said last.
struct Basket {
    sketch: Mutex<Box<dyn Gathers>>,
    tau: AtomicU8,
    queue: AtomicU64,
    messages: AtomicU64,
}

/// The side of the thread that gathers.
pub(super) struct Gatherer<'c>(&'c Crew);

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
    ) -> Result<(Self, Workers), Failure> {
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
            baskets: gathering.map(Basket::new),
            begun: Instant::now(),
            polls: AtomicU64::new(0),
        };
        Ok((crew, Workers(counters)))
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
        let polls = self.polls.load(Ordering::Acquire).saturating_add(2);
        loop {
            let (now, readings) = (self.polls.load(Ordering::Acquire), self.readings());
            if now >= polls && readings.queue == 0 || now == GONE {
                return readings;
            }
            std::thread::sleep(REST);
        }
    }

    /// Nanoseconds since it was made.
    fn clock(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Makes room in the rings of a sketch, or lets whoever does have the processor; whether there is still a gatherer.
    fn wait_for(&self, sketch: usize) -> bool {
        let basket = &self.baskets[sketch];
        match basket.sketch.try_lock() {
            Ok(mut sketch) => _ = basket.poll(&mut **sketch, &|| self.clock()),
            Err(TryLockError::Poisoned(sketch)) => {
                _ = basket.poll(&mut **sketch.into_inner(), &|| self.clock())
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
        self.polls.load(Ordering::Acquire) != GONE
    }

    pub(super) fn readings(&self) -> Readings {
        let sum = |of: fn(&Basket) -> &AtomicU64| {
            self.baskets.iter().map(|basket| of(basket).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        Readings {
            taus: self.baskets.each_ref().map(|basket| Some(basket.tau.load(Ordering::Relaxed))),
            queue: sum(|basket| &basket.queue),
            messages: sum(|basket| &basket.messages),
            kept: self.readers.kept(),
        }
    }

    /// For the thread that gathers.
    pub(super) fn gatherer(&self) -> Gatherer<'_> {
        Gatherer(self)
    }
}

impl Basket {
    fn new(sketch: Box<dyn Gathers>) -> Self {
        let tau = AtomicU8::new(sketch.tau());
        Self { sketch: Mutex::new(sketch), tau, queue: AtomicU64::new(0), messages: AtomicU64::new(0) }
    }

    /// Polls its sketch; how many messages were applied.
    fn poll(&self, sketch: &mut dyn Gathers, clock: &dyn Fn() -> u64) -> u64 {
        let polled = sketch.poll(clock);
        self.tau.store(sketch.tau(), Ordering::Relaxed);
        self.queue.store(polled.queue, Ordering::Relaxed);
        self.messages.store(sketch.messages(), Ordering::Relaxed);
        polled.applied
    }
}

impl Workers {
    /// One hand for each thread. A patient one waits, and gathers meanwhile, where a ring is full: not beside one that may end an epoch
    /// while it counts a batch, which waits for that.
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
                self.counters.insert_patiently(&self.slice, tau_max, |sketch| crew.wait_for(sketch));
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

impl Gatherer<'_> {
    /// Takes messages until nobody can ask for a turn any more. `wake` has hands turn that have nothing to count.
    pub(super) fn gather(self, turns: &Receiver<Turn>, wake: impl Fn()) {
        let Self(crew) = self;
        let mut turning: Option<Turn> = None;
        let mut looks = 0;
        loop {
            let poll = |basket: &Basket| basket.poll(&mut **lock(&basket.sketch), &|| crew.clock());
            let applied: u64 = crew.baskets.iter().map(poll).sum();
            crew.polls.fetch_add(1, Ordering::Release);
            looks = if applied == 0 { (looks + 1).min(LOOKS) } else { 0 };
            let is_idle = looks >= LOOKS;
            if turning.is_some() {
                let has_turned = crew.turned.load(Ordering::Acquire) == crew.threads();
                let is_settling = |basket: &Basket| lock(&basket.sketch).is_settling();
                if has_turned && !crew.baskets.iter().any(is_settling) {
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
                    self.begin_epoch();
                    turning = Some(over);
                    wake();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Between two batches of every hand. The epoch before is settled, as whoever asks for a turn waits for its end.
    fn begin_epoch(&self) {
        let Self(crew) = self;
        let mut gate = crew.gate.write().unwrap_or_else(PoisonError::into_inner);
        crew.turned.store(0, Ordering::Relaxed);
        crew.baskets.iter().for_each(|basket| lock(&basket.sketch).begin_epoch());
        *gate += 1;
    }
}

/// However it ends, nobody waits for another poll.
impl Drop for Gatherer<'_> {
    fn drop(&mut self) {
        self.0.polls.store(GONE, Ordering::Release);
    }
}
