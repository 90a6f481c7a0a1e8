//! One worker's counters, 8 bits each, its queue, and what a query sees of both.
//!
//! ```text
//!   cells   │ 3 │ 0 │ 9 │ 255 │ …      below τ; up to 255 while the ring is full
//!   spill   │   │   │   │ 812 │ …      64 bits each; allocated when a counter first outgrows its byte
//!   ring    (cell 7: 12) (cell 2: 12)  what left the cells and is not applied yet
//!   rest    0                          what the counter holds when the message under way has left it
//! ```
//!
//! 1. A counter's content is its cell and its spill together. An addition changes one of the two, by one store.
//! 2. A counter and its spill are cleared together, while the ring's sequence says that the message that holds their sum is being
//!    staged. From the odd number on the sum is in the message and not in the counter, whatever the cells say: the counter holds `rest`,
//!    which is 0 unless the sum has more bits than a message.
//! 3. Nothing wraps and nothing is lost where the ring is full: the counter stays, and what the byte has no room for goes to the spill.
//!    What the ring has room for later is sent with the next addition to that counter, or by [`publish`](Lane::publish), as far as
//!    [`Owed`] remembers it. A rest is sent in the same way. In a batch, elements after one that found the ring full do not try it, up to
//!    [`PATIENCE`] of them: their counters grow, and nothing is noted of them.
//! 4. While an eighth of the ring waits, the rest of it is for what tells the aggregator most ([`Recent`]): flows that it has not heard
//!    of, if they have come twice, and those that have come as often again as it has heard. The others' counters stay. And at the begin
//!    of an epoch one element in [`PATIENCE`] of a batch sends such flows below τ ([`Limit::early`]).
//! 5. For every addition that had ended when a read began, the read finds its weight once: in the cell, in the spill, or in a message
//!    that the reader was not told to have been applied. Of additions that go on meanwhile it finds any, each whole or not at all.
//!
//! A read repeats only if one of the very counters that it reads was sent meanwhile, or as many messages of any as the ring has slots: so
//! somebody else went on, and the larger the ring, the seldomer. Readers write nothing.

use super::key::Key;
use super::message;
use super::owed::Owed;
use super::recent::Recent;
use super::ring::{Ring, Sender};
use super::rule::Rule;
use super::sync::{AtomicU8, AtomicU64, OnceLock, Ordering, fence, spin_loop};

/// So many counters are read together at most.
pub(super) const PLACES_MAX: usize = 64;

/// After so many elements of a batch a full ring is tried again: those of one receive call.
pub(super) const PATIENCE: usize = 32;

/// What a flow has come to that is worth a place in a crowded ring: most of those that have come once will not come again.
pub(super) const NEWS_MIN: u8 = 2;

/// After so many counters that a crowded ring kept back, those of some five elements, the rest of [`PATIENCE`] do not try it.
const HELD: u32 = 16;

/// When a counter is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// When it reaches this.
    pub(super) tau: u8,
    /// When it reaches this too, if it was sent lately.
    pub(super) again: u8,
    /// Whether the ring is tried, or known to be full.
    pub(super) tries: bool,
    /// Whether it is sent though the ring is crowded, however little it tells.
    pub(super) insists: bool,
}

impl Limit {
    pub(super) fn new(tau: u8) -> Self {
        Self { tau, again: 0, tries: true, insists: false }
    }

    /// For a counter that goes at this threshold in any case.
    pub(super) fn insistent(tau: u8) -> Self {
        Self { insists: true, ..Self::new(tau) }
    }

    /// For a counter that was not sent lately, `first`; for others τ, or less if it has come to twice what was sent.
    pub(super) fn early(first: u8, tau: u8) -> Self {
        Self { again: tau, ..Self::new(first) }
    }

    /// For the elements after one that found the ring full.
    pub(super) fn patient<R: Rule>() -> Self {
        Self { tries: false, ..Self::new(R::TAU_MAX) }
    }
}

/// What a worker, the aggregator and queries share.
#[derive(Debug)]
pub(super) struct Lane {
    cells: Box<[AtomicU8]>,
    spill: OnceLock<Box<[AtomicU64]>>,
    rest: AtomicU64,
    pub(super) ring: Ring,
}

/// What the worker alone has.
#[derive(Debug)]
pub(super) struct Writer<K> {
    pub(super) sender: Sender,
    /// How many spills of this epoch are in use.
    spilled: usize,
    /// How often a counter that was to be sent was kept.
    pub(super) kept: u64,
    /// How many counters a crowded ring kept back, modulo [`HELD`].
    held: u32,
    /// Counters that are cleared and were sent with a key.
    recent: Recent,
    /// Counters that are cleared, were to be sent, and were not; of others, for whom.
    owed: Owed<K>,
    /// Counters that are not cleared, were to be sent, and were not: a bit each.
    raised: Box<[u64]>,
    raised_count: usize,
}

impl<K: Key> Writer<K> {
    /// Forgets what it knows of its counters, which from now on are others and all zero.
    pub(super) fn turn(&mut self) {
        self.spilled = 0;
        self.recent.clear();
        self.owed.clear();
        self.raised.fill(0);
        self.raised_count = 0;
    }
}

impl Lane {
    /// Counters that are all zero, and a ring of `2^lg_slots - 1` messages.
    pub(super) fn new(cells: usize, lg_slots: u32, key_words: usize) -> Self {
        let cells = (0..cells).map(|_| AtomicU8::new(0)).collect();
        let ring = Ring::new(lg_slots, key_words);
        Self { cells, spill: OnceLock::new(), rest: AtomicU64::new(0), ring }
    }

    /// For the worker, before it begins.
    pub(super) fn writer<R: Rule, K: Key>(&self) -> Writer<K> {
        let keyed = if R::CLEARS || K::WORDS > 0 { self.cells.len() } else { 0 };
        let kept = if R::CLEARS { 0 } else { self.cells.len() };
        Writer {
            sender: Sender::default(),
            spilled: 0,
            kept: 0,
            held: 0,
            recent: Recent::new(R::CLEARS && K::WORDS > 0),
            owed: Owed::new(keyed),
            raised: vec![0; kept.div_ceil(64)].into(),
            raised_count: 0,
        }
    }

    /// The `count` counters from `first` on, for an epoch.
    #[inline]
    pub(super) fn half(&self, first: usize, count: usize) -> Half<'_> {
        Half { lane: self, cells: &self.cells[first..][..count], first }
    }

    /// Sends a counter with `amount` more and clears it, up to what a message has no room for, or keeps it if the ring is full; whether
    /// there was room.
    fn send<R: Rule, K: Key>(
        &self,
        writer: &mut Writer<K>,
        cell: usize,
        amount: u64,
        key: Option<K>,
    ) -> bool {
        let place = &self.cells[cell];
        let spill = self.spill.get().filter(|_| writer.spilled > 0).map(|spill| &spill[cell]);
        let spilled = spill.map_or(0, |spill| spill.load(Ordering::Relaxed));
        let sum = R::join(R::widen(place.load(Ordering::Relaxed)), amount);
        if self.ring.has_room(&mut writer.sender) {
            let (value, rest) = R::pack(R::join(sum, spilled));
            let key = writer.owed.settle(cell, key, R::size(amount));
            if key.is_some() {
                writer.recent.note(cell, R::size(R::unpack(value)), R::TAU_MAX / 2 + 1);
            }
            if rest == 0 {
                self.stage(writer, cell, value, 0, key);
                place.store(0, Ordering::Relaxed);
                if let Some(spill) = spill.filter(|_| spilled != 0) {
                    spill.store(0, Ordering::Relaxed);
                    writer.spilled -= 1;
                }
                self.ring.complete(&mut writer.sender);
            } else {
                self.send_part::<R, K>(writer, cell, value, rest, key);
            }
            return true;
        }
        writer.kept += 1;
        if let Some(key) = key {
            writer.owed.keep(cell, key, R::size(amount));
        }
        self.keep::<R, K>(writer, cell, amount);
        false
    }

    /// Adds to a counter that is not sent.
    fn keep<R: Rule, K: Key>(&self, writer: &mut Writer<K>, cell: usize, amount: u64) {
        let place = &self.cells[cell];
        match R::narrow(R::join(R::widen(place.load(Ordering::Relaxed)), amount)) {
            Some(byte) => place.store(byte, Ordering::Relaxed),
            None => {
                let spilled = self.spill.get().map_or(0, |spill| spill[cell].load(Ordering::Relaxed));
                self.spill(writer, cell, R::join(spilled, amount));
            }
        }
    }

    /// Sends a counter as far as a message has room: the counter then holds `rest`.
    #[cold]
    fn send_part<R: Rule, K: Key>(
        &self,
        writer: &mut Writer<K>,
        cell: usize,
        value: u64,
        rest: u64,
        key: Option<K>,
    ) {
        self.stage(writer, cell, value, rest, key);
        let (byte, spill) = R::narrow(rest).map_or((0, rest), |byte| (byte, 0));
        self.cells[cell].store(byte, Ordering::Relaxed);
        self.spill(writer, cell, spill);
        self.ring.complete(&mut writer.sender);
        if let Some(key) = key {
            writer.owed.keep(cell, key, R::size(rest));
        }
    }

    /// Stages a message that leaves `rest` in its counter.
    #[inline]
    fn stage<K: Key>(&self, writer: &mut Writer<K>, cell: usize, value: u64, rest: u64, key: Option<K>) {
        if self.rest.load(Ordering::Relaxed) != rest {
            // Whoever reads this rest for an older one will find the older message completed.
            fence(Ordering::Release);
            self.rest.store(rest, Ordering::Relaxed);
        }
        self.ring.stage(&mut writer.sender, cell, value, key);
    }

    /// Puts beside a byte what it has no room for.
    fn spill<K>(&self, writer: &mut Writer<K>, cell: usize, value: u64) {
        let spill = match self.spill.get() {
            Some(spill) => spill,
            None => self.allocate_spill(),
        };
        let before = spill[cell].load(Ordering::Relaxed);
        spill[cell].store(value, Ordering::Relaxed);
        writer.spilled = writer.spilled + usize::from(value != 0) - usize::from(before != 0);
    }

    #[cold]
    fn allocate_spill(&self) -> &[AtomicU64] {
        self.spill.get_or_init(|| self.cells.iter().map(|_| AtomicU64::new(0)).collect())
    }

    /// Raises a counter that is not cleared when sent, and sends it, or notes that this is still to be done.
    fn raise<R: Rule, K: Key>(&self, writer: &mut Writer<K>, cell: usize, amount: u64, key: K) {
        let Some(byte) = R::narrow(amount) else { return };
        self.cells[cell].store(byte, Ordering::Relaxed);
        if self.ring.has_room(&mut writer.sender) {
            self.ring.stage(&mut writer.sender, cell, R::widen(byte), Some(key));
            self.ring.complete(&mut writer.sender);
            return;
        }
        writer.kept += 1;
        if K::WORDS > 0 {
            // About so many elements it takes to come to this rank.
            writer.owed.keep(cell, key, 1u64.checked_shl(byte.into()).unwrap_or(u64::MAX));
        }
        let (word, bit) = (&mut writer.raised[cell / 64], 1 << (cell % 64));
        writer.raised_count += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Sends what could not be sent before, as far as there is room, and publishes all.
    pub(super) fn publish<R: Rule, K: Key>(&self, writer: &mut Writer<K>) {
        // Each counter once at most, which bounds the time however much it holds.
        for _ in 0..if R::CLEARS { writer.owed.slots() } else { 0 } {
            if writer.owed.is_empty() || !self.ring.has_room(&mut writer.sender) {
                break;
            }
            if let Some(cell) = writer.owed.step() {
                self.send::<R, K>(writer, cell, 0, None);
            }
        }
        let mut words = 0..writer.raised.len();
        while writer.raised_count > 0
            && self.ring.has_room(&mut writer.sender)
            && let Some(word) = words.next()
        {
            while writer.raised[word] != 0 && self.ring.has_room(&mut writer.sender) {
                let bit = writer.raised[word].trailing_zeros() as usize;
                self.send_raised::<R, K>(writer, 64 * word + bit);
                writer.raised[word] &= !(1 << bit);
                writer.raised_count -= 1;
            }
        }
        self.ring.publish(&mut writer.sender);
    }

    /// Sends counters `first..end` that hold anything, until the ring is full; where it stopped, or `end`.
    pub(super) fn flush<R: Rule, K: Key>(&self, writer: &mut Writer<K>, first: usize, end: usize) -> usize {
        for cell in first..end {
            while self.content::<R>(cell) != 0 {
                if !self.ring.has_room(&mut writer.sender) {
                    return cell;
                }
                if !R::CLEARS {
                    self.send_raised::<R, K>(writer, cell);
                    break;
                }
                self.send::<R, K>(writer, cell, 0, None);
            }
        }
        self.ring.publish(&mut writer.sender);
        end
    }

    /// Sends a counter that is not cleared, for which there is room, with the key that it is owed for, if any.
    fn send_raised<R: Rule, K: Key>(&self, writer: &mut Writer<K>, cell: usize) {
        let value = R::widen(self.cells[cell].load(Ordering::Relaxed));
        let key = writer.owed.settle(cell, None, 0);
        self.ring.stage(&mut writer.sender, cell, value, key);
        self.ring.complete(&mut writer.sender);
    }

    /// Joins to `sums[i]` what counter `places[i]` held beyond the first `applied` messages, at most [`PLACES_MAX`] of them; false, and
    /// nothing is changed, where those messages are gone by now: `applied` was told too long ago.
    pub(super) fn read<R: Rule>(&self, places: &[u32], applied: u64, sums: &mut [u64]) -> bool {
        let mut held = [0; PLACES_MAX];
        let held = &mut held[..places.len()];
        if !R::CLEARS {
            // What was ever sent is still here.
            for (sum, &place) in sums.iter_mut().zip(places) {
                *sum = R::join(*sum, R::widen(self.cells[place as usize].load(Ordering::Relaxed)));
            }
            return true;
        }
        loop {
            let before = self.ring.sequence();
            for (held, &place) in held.iter_mut().zip(places) {
                *held = self.content::<R>(place as usize);
            }
            let rest = self.rest.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            let after = self.ring.sequence();
            let (from, to) = (before / 2, after.div_ceil(2));
            if to - applied > self.ring.slots() {
                return false;
            }
            if before == after {
                for number in from..to {
                    let cell = message::cell(self.ring.first_word(number)) as u32;
                    places.iter().zip(&mut *held).filter(|at| *at.0 == cell).for_each(|at| *at.1 = rest);
                }
            } else if (from..to).any(|number| self.is_about(number, places)) {
                spin_loop();
                continue;
            }
            for number in applied..to {
                let word = self.ring.first_word(number);
                let cell = message::cell(word) as u32;
                for at in places.iter().zip(&mut *held).filter(|at| *at.0 == cell) {
                    *at.1 = R::join(*at.1, R::unpack(message::value(word)));
                }
            }
            if !self.ring.has_kept(applied) {
                return false;
            }
            sums.iter_mut().zip(held).for_each(|(sum, held)| *sum = R::join(*sum, *held));
            return true;
        }
    }

    /// Whether message `number` is about one of these counters; or anything, if it is gone.
    #[inline]
    pub(super) fn is_about(&self, number: u64, places: &[u32]) -> bool {
        places.contains(&(message::cell(self.ring.first_word(number)) as u32))
    }

    /// What a counter holds and has not sent.
    #[inline]
    pub(super) fn content<R: Rule>(&self, cell: usize) -> u64 {
        let byte = R::widen(self.cells[cell].load(Ordering::Relaxed));
        let Some(spill) = self.spill.get() else { return byte };
        R::join(byte, spill[cell].load(Ordering::Relaxed))
    }

    /// Empties a counter of an epoch that is over: the worker does not look at it before it is told of a new one.
    pub(super) fn clear(&self, cell: usize) {
        self.cells[cell].store(0, Ordering::Relaxed);
        if let Some(spill) = self.spill.get() {
            spill[cell].store(0, Ordering::Relaxed);
        }
    }
}

/// The counters of one epoch, which are half of a lane's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half<'a> {
    lane: &'a Lane,
    cells: &'a [AtomicU8],
    /// Where they begin.
    first: usize,
}

impl Half<'_> {
    /// Changes a counter, and sends it if that is due; if the ring is full, `next` becomes the limit of the next elements.
    #[inline(always)]
    pub(super) fn change<R: Rule, K: Key>(
        self,
        writer: &mut Writer<K>,
        cell: usize,
        amount: u64,
        limit: Limit,
        next: &mut Limit,
        key: K,
    ) {
        let place = &self.cells[cell];
        let before = place.load(Ordering::Relaxed);
        if !R::CLEARS {
            // A rank seldom rises, which the processor foresees, unlike a comparison with the threshold. And what is not written stays in
            // other cores' caches.
            if R::join(R::widen(before), amount) != R::widen(before) {
                self.raise::<R, K>(writer, cell, amount, limit.tau, key);
            }
            return;
        }
        match R::add_below(before, amount, limit.tau) {
            Some(byte) => place.store(byte, Ordering::Relaxed),
            None if self.cross::<R, K>(writer, cell, amount, limit, key) => {}
            None => *next = Limit::patient::<R>(),
        }
    }

    /// Raises a counter that is not cleared.
    #[cold]
    #[inline(never)]
    fn raise<R: Rule, K: Key>(self, writer: &mut Writer<K>, cell: usize, amount: u64, tau: u8, key: K) {
        match R::add_below(self.cells[cell].load(Ordering::Relaxed), amount, tau) {
            Some(byte) => self.cells[cell].store(byte, Ordering::Relaxed),
            None => self.lane.raise::<R, K>(writer, self.first + cell, amount, key),
        }
    }

    /// Changes a counter that reaches the threshold and is cleared; whether the next elements are to try the ring, too. Cold, so that the
    /// loop which calls it keeps the processor's registers.
    #[cold]
    #[inline(never)]
    fn cross<R: Rule, K: Key>(
        self,
        writer: &mut Writer<K>,
        cell: usize,
        amount: u64,
        limit: Limit,
        key: K,
    ) -> bool {
        let place = self.first + cell;
        if !limit.tries {
            self.lane.keep::<R, K>(writer, place, amount);
            return false;
        }
        let is_crowded = K::WORDS > 0 && !limit.insists && self.lane.ring.is_crowded(&mut writer.sender);
        let least = match writer.recent.again(place) {
            0 if is_crowded => NEWS_MIN,
            again if is_crowded => again,
            again => again.min(limit.again),
        };
        let byte = &self.cells[cell];
        if least > limit.tau
            && let Some(sum) = R::add_below(byte.load(Ordering::Relaxed), amount, least)
        {
            byte.store(sum, Ordering::Relaxed);
            writer.kept += u64::from(is_crowded);
            writer.held = (writer.held + u32::from(is_crowded)) % HELD;
            return !is_crowded || writer.held > 0;
        }
        self.lane.send::<R, K>(writer, place, amount, Some(key))
    }
}
