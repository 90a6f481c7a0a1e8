//! Flow sizes by any part of the key: a CocoSketch on the framework.
//!
//! ```text
//!   packet ─ high() ─▶ block ─ fold() ─▶ one slot in each of `D` rows of it
//!
//!   one of them has the flow:   its count += weight
//!   none has:                   the least count of them, c, becomes c + weight, and the slot the flow's with probability
//!                               weight / (c + weight)
//!   from τ on:                  the slot's flow and count go to the aggregator, which does the same with them
//! ```
//!
//! 1. Each packet adds its weight to one count, and each message brings what it takes: the counts of all slots, and of the messages on
//!    their way, sum to the total weight.
//! 2. Whoever's slot it is after an addition, the flow's expected weight is what came of it: so it is of what arrives at the aggregator,
//!    and of what is left at the workers, and an answer adds them. Slots of one flow are summed, never taken one for another.
//!
//! Source: "CocoSketch" (SIGCOMM 2021), section 4; OctoSketch, section 4.4.

use super::blocks::Blocks;
use super::bucketed::{All, Bucketed, NoLight, over, summed};
use super::gatherer::Gatherer;
use super::key::{Hashed, Key};
use super::message::CELLS_MAX;
use super::post::Claim;
use super::stand::Stand;
use super::{MonitorOptions, Packet, Polled, WorkerStats};
use crate::Result;
use crate::error::invalid;
use crate::sketch::coco::{interval, mix, takes};
use crate::sketch::{CocoSketch, CountBounds, HashId};
use keyhash::{KeyHash, range_of};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// Columns of a block's row. Two flows of one block meet in both of two rows with probability 1 / 256, so a heavy flow has a slot of its
/// own but for one in `256 columns / (16 heavy flows)`; and a block of two rows, which is read at one moment, is 16 cache lines.
const BLOCK_COLUMNS: u32 = 16;

/// Packets whose slots are asked for together: with this many a worker of the paper's shape, which no longer fits a core's cache, took 34
/// million packets a CPU-second where without it took 12, both beside a loaded machine.
const FETCHED_AT_ONCE: usize = 16;

/// A CocoSketch of `D` rows (the paper has 2), for flows whose keys are of type `K`.
///
/// ```
/// use overbank::monitor::{FlowParts, MonitorOptions, Packet, PartsMonitor};
/// use overbank::{HashKind, KeyHasher, Seed};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let packet = |from: u8, to: u8| Packet { hash: hasher.hash(&[from, to]), key: [from, to], weight: 1 };
/// let PartsMonitor { workers, mut aggregator, reader } =
///     MonitorOptions::new(2).start_parts(FlowParts::<[u8; 2], 2>::new(1 << 10, hasher)?)?;
/// std::thread::scope(|scope| {
///     for mut worker in workers {
///         scope.spawn(move || (0..100).for_each(|i| worker.insert(packet(i % 2, i % 10))));
///     }
/// });
/// aggregator.poll(|| 0);
/// assert_eq!(reader.size(packet(1, 7).hash, 0.99).estimate, 20);
/// let by_source = reader.by_part(0, 0, |flow| flow[0]).unwrap();
/// assert_eq!(by_source[&1], 100);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlowParts<K, const D: usize> {
    columns: u32,
    blocks: u32,
    /// Columns of a block's row.
    width: u32,
    hash_id: HashId,
    random: u64,
    keys: PhantomData<fn() -> K>,
}

/// What [`MonitorOptions::start_parts`] gives.
#[derive(Debug)]
pub struct PartsMonitor<K: Key, const D: usize> {
    /// One for each thread that receives packets.
    pub workers: Vec<PartsWorker<K, D>>,
    /// For one thread more.
    pub aggregator: PartsAggregator<K, D>,
    /// For any number of threads.
    pub reader: PartsReader<K, D>,
}

/// Inserts, on one thread: no lock and no hashing. Insertions count at once: a query that begins after one has returned finds it. What
/// a worker holds when it is dropped stays counted.
///
/// # Cost
/// An insertion reads `D` slots, each of a cache line where keys have up to 8 bytes, and writes one; one in about τ of them a message.
/// Nothing is allocated.
#[derive(Debug)]
pub struct PartsWorker<K: Key, const D: usize> {
    stand: Stand<FlowParts<K, D>>,
    random: u64,
}

/// Applies what the workers send. One thread calls [`poll`](Self::poll) again and again; queries do not need it to run.
#[derive(Debug)]
pub struct PartsAggregator<K: Key, const D: usize> {
    gatherer: Gatherer<FlowParts<K, D>>,
}

/// Answers, and writes nothing: no lock is taken, and neither a worker nor the aggregator waits for it, nor it for them.
///
/// # Accuracy
/// Every packet whose insertion had returned when the call began is in one of the counts that an answer is made of, once. A flow's estimate
/// is right on average over the generators' numbers; so is that of any set of flows chosen by what they are. Its variance, of a flow or
/// set that weighs `f`, is at most `2 f N / columns` where all packets weigh `N`: `f N / columns` are that of one sketch of all traffic,
/// here of what the aggregator applies, and as much at most comes of what flows do to each other at the workers before they are sent, which
/// is far less where τ is below `N / columns`.
#[derive(Debug)]
pub struct PartsReader<K: Key, const D: usize> {
    all: Arc<All<FlowParts<K, D>>>,
}

impl<K: Key, const D: usize> Clone for PartsReader<K, D> {
    fn clone(&self) -> Self {
        Self { all: Arc::clone(&self.all) }
    }
}

impl<K: Key, const D: usize> FlowParts<K, D> {
    /// `D` rows of about `columns` slots, in blocks of up to 16 columns: `24 + 8 K::WORDS` bytes each for every worker and the aggregator,
    /// twice to change epochs.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) without columns or rows, with more than 16 rows, or with more than 2^28
    /// columns.
    pub fn new(columns: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        if columns == 0 || D == 0 || D > 16 || columns > 1 << 28 {
            return invalid("columns", columns, "choose 1 to 16 rows of 1 to 2^28 columns");
        }
        let blocks = columns.div_ceil(BLOCK_COLUMNS);
        debug_assert!(blocks as usize <= CELLS_MAX / 2);
        let width = columns.div_ceil(blocks);
        Ok(Self { columns, blocks, width, hash_id: hash_id.into(), random: 0, keys: PhantomData })
    }

    /// The same with other random numbers.
    pub fn with_random(self, number: u64) -> Self {
        Self { random: number, ..self }
    }

    /// Slots of a row, as asked for.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// The block of a flow.
    #[inline(always)]
    fn block_of(&self, hash: KeyHash) -> usize {
        range_of(hash.high(), self.blocks.into()) as usize
    }

    /// A flow's slots, numbered within its block.
    #[inline(always)]
    fn slots_of(&self, hash: KeyHash) -> [u32; D] {
        let mut first = 0;
        keyhash::columns::<D>(hash.fold(), self.width.into()).map(|column| {
            let slot = first + column as u32;
            first = first.wrapping_add(self.width);
            slot
        })
    }

    /// The slot of a flow in a block, or else that of the least count; what it counts, and whether it is the flow's.
    #[inline(always)]
    fn find(&self, blocks: &Blocks, block: usize, hash: KeyHash) -> (usize, u64, bool) {
        let (mut least, mut least_slot) = (u64::MAX, 0);
        let mut first = block.wrapping_mul(D).wrapping_mul(self.width as usize);
        for (row, column) in keyhash::columns::<D>(hash.fold(), self.width.into()).into_iter().enumerate() {
            let slot = first.wrapping_add(column as usize);
            let (count, identity) = blocks.head(slot);
            if identity == [hash.high(), hash.low()] && count > 0 {
                return (slot, count, true);
            }
            if row == 0 || count < least {
                (least, least_slot) = (count, slot);
            }
            first = first.wrapping_add(self.width as usize);
        }
        (least_slot, least, false)
    }

    /// Where a claim goes in a block: the slot, what it counts then, and the flow if it takes the slot.
    #[inline(always)]
    fn settle(
        &self,
        blocks: &Blocks,
        block: usize,
        random: &mut u64,
        claim: Claim<Hashed<K>>,
    ) -> (usize, u64, Option<Hashed<K>>) {
        let Claim { count: weight, flow } = claim;
        let (slot, count, is_own) = self.find(blocks, block, flow.hash);
        let sum = count.saturating_add(weight);
        let is_taken = !is_own && (count == 0 || takes(random, flow.hash.low(), sum, weight));
        (slot, sum, is_taken.then_some(flow))
    }
}

impl<K: Key, const D: usize> Bucketed for FlowParts<K, D> {
    type Key = K;
    type Light = NoLight;
    /// The state of the generator.
    type Own = u64;

    fn blocks(&self) -> usize {
        self.blocks as usize
    }

    fn block_slots(&self) -> usize {
        self.width as usize * D
    }

    fn light(&self) -> NoLight {
        NoLight
    }

    fn apply(
        all: &All<Self>,
        random: &mut u64,
        (worker, number): (usize, u64),
        block: usize,
        claim: Claim<Hashed<K>>,
    ) {
        let (slot, count, taker) = all.sketch.settle(&all.table.blocks, block, random, claim);
        all.table.apply(worker, number, (block, slot), count, taker, || ());
    }

    fn adopt(all: &All<Self>, random: &mut u64, epoch: u64, block: usize, claim: Claim<Hashed<K>>) {
        let archive = &all.archive[all.place(epoch)];
        let (slot, count, taker) = all.sketch.settle(archive, block, random, claim);
        archive.change(block, slot, count, taker, super::blocks::Moment::NONE, || ());
    }
}

impl MonitorOptions {
    /// Starts to monitor by a CocoSketch of this shape. [`heavy_keys`](Self::heavy_keys) has no meaning for it: every flow that has a
    /// slot is known.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    pub fn start_parts<K: Key, const D: usize>(self, sketch: FlowParts<K, D>) -> Result<PartsMonitor<K, D>> {
        self.require_valid(1)?;
        let all = All::new(sketch, self.workers, self.lg_ring, self.epochs_kept);
        let threshold = self.threshold(u8::MAX);
        // Numbers of its own for everybody who draws.
        let random = |who: usize| mix(mix(sketch.random) ^ who as u64);
        let gatherer = Gatherer::new(Arc::clone(&all), self.policy, threshold, random(0));
        let worker = |index: usize| PartsWorker {
            stand: Stand::new(Arc::clone(&all), index),
            random: random(1 + index),
        };
        let workers = (0..self.workers).map(worker).collect();
        Ok(PartsMonitor { workers, aggregator: PartsAggregator { gatherer }, reader: PartsReader { all } })
    }
}

impl<K: Key, const D: usize> PartsWorker<K, D> {
    /// Inserts one packet. Messages go to the aggregator eight at a time: call [`publish`](Self::publish) when there is nothing to do.
    #[inline]
    pub fn insert(&mut self, packet: Packet<K>) {
        let tau = self.stand.begin(1, packet.weight);
        self.count(packet, tau);
    }

    /// Inserts a batch, such as the packets of one receive call, and publishes.
    pub fn insert_batch(&mut self, packets: &[Packet<K>]) {
        let weight = packets.iter().fold(0u64, |sum, packet| sum.saturating_add(packet.weight));
        let tau = self.stand.begin(packets.len() as u64, weight);
        for packets in packets.chunks(FETCHED_AT_ONCE) {
            packets.iter().for_each(|packet| self.fetch(packet.hash));
            for &packet in packets {
                self.count(packet, tau);
            }
        }
        self.publish();
    }

    /// Lets the aggregator have what is due, with what a full ring kept back, as far as there is room now; and goes over to a new epoch if
    /// one has begun. To be called now and then by a worker that has nothing to insert: epochs end when all workers have left them.
    pub fn publish(&mut self) {
        self.stand.publish();
    }

    /// Sends every slot that holds anything, however little: for whoever asks the aggregator's own slots. Answers that read through need
    /// no flush. Stops where the ring is full; `from` is 0 at first, then what the last call returned, until it returns `None`. What it
    /// returned in an epoch that is over counts as 0.
    pub fn flush(&mut self, from: usize) -> Option<usize> {
        self.stand.flush(from)
    }

    /// Asks for the slots of a flow, which at the paper's shape are more than a core's cache holds.
    #[inline(always)]
    fn fetch(&self, hash: KeyHash) {
        let Stand { all, index, first_block, .. } = &self.stand;
        let block = first_block.wrapping_add(all.sketch.block_of(hash));
        let first = block.wrapping_mul(all.sketch.block_slots());
        for slot in all.sketch.slots_of(hash) {
            all.posts[*index].blocks.prefetch(first.wrapping_add(slot as usize));
        }
    }

    #[inline(always)]
    fn count(&mut self, packet: Packet<K>, tau: u8) {
        let Packet { hash, key, weight } = packet;
        if weight == 0 {
            return;
        }
        let Stand { all, index, seat, first_block, .. } = &mut self.stand;
        let (sketch, post) = (&all.sketch, &all.posts[*index]);
        let block = first_block.wrapping_add(sketch.block_of(hash));
        let claim = Claim { count: weight, flow: Hashed { hash, key } };
        let (slot, count, taker) = sketch.settle(&post.blocks, block, &mut self.random, claim);
        post.put(seat, (block, slot), count, taker, tau);
    }
}

impl<K: Key, const D: usize> PartsAggregator<K, D> {
    /// Takes what waits, up to some hundred messages a worker, and sets τ if a window has ended. `clock` gives nanoseconds that do not go
    /// back.
    pub fn poll(&mut self, clock: impl Fn() -> u64) -> Polled {
        self.gatherer.poll(clock)
    }

    /// Begins a new epoch, and returns its number; `None` while the one before the current is still being settled. Workers go over at
    /// their next insertion or [`publish`](PartsWorker::publish).
    pub fn begin_epoch(&mut self) -> Option<u64> {
        self.gatherer.begin_epoch()
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.gatherer.tau()
    }

    /// The highest threshold of this epoch.
    pub fn tau_max(&self) -> u8 {
        self.gatherer.tau_max()
    }

    /// How many messages were applied.
    pub fn messages(&self) -> u64 {
        self.gatherer.messages()
    }
}

impl<K: Key, const D: usize> PartsReader<K, D> {
    /// The current epoch: 0 at first.
    pub fn epoch(&self) -> u64 {
        self.all.base.control().0
    }

    /// The threshold.
    pub fn tau(&self) -> u8 {
        self.all.base.control().1
    }

    /// The shape of the sketch that is kept.
    pub fn sketch(&self) -> &FlowParts<K, D> {
        &self.all.sketch
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.all.posts.len()
    }

    /// An epoch's total weight, with what is being inserted just now; `None` where the epoch is not kept any more, or has not begun.
    pub fn total_weight(&self, epoch: u64) -> Option<u64> {
        self.all.base.total_weight(epoch)
    }

    /// What each worker has done.
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.all.base.worker_stats()
    }

    /// How much a flow weighs in the current epoch, with bounds that hold for it with probability `confidence`: Chebyshev's inequality
    /// for the variance that stands above. `u64::MAX` says that no bound is known: weights have come to the end of their type.
    pub fn size(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        loop {
            let epoch = self.epoch();
            if let Some(size) = self.size_in(epoch, epoch, hash, confidence) {
                return size;
            }
        }
    }

    /// As [`size`](Self::size), over the epochs `first..=last`; `None` where one of them is not kept any more, or has not begun, or
    /// `last` is before `first`.
    pub fn size_in(&self, first: u64, last: u64, hash: KeyHash, confidence: f64) -> Option<CountBounds> {
        let (block, wanted) = (self.all.sketch.block_of(hash), self.all.sketch.slots_of(hash));
        let mut estimate = 0u64;
        over(first, last, |epoch| {
            let held = self.all.block(epoch, block, &wanted)?;
            let own = held.iter().filter(|held| held.1.hash == hash);
            estimate = own.fold(estimate, |sum, held| sum.saturating_add(held.0));
            Some(())
        })?;
        self.part_bounds(first, last, estimate, confidence)
    }

    /// How much the flows weigh over the epochs `first..=last` that have the same part, by that part; `None` as for
    /// [`size_in`](Self::size_in). Parts that are absent weigh 0.
    ///
    /// # Accuracy
    /// Of each flow at a moment of the call, not of all at one. Use [`part_bounds`](Self::part_bounds) for the interval.
    ///
    /// # Cost
    /// One pass over the slots of all; `part` is asked once for each in use.
    pub fn by_part<P: Ord>(
        &self,
        first: u64,
        last: u64,
        mut part: impl FnMut(K) -> P,
    ) -> Option<BTreeMap<P, u64>> {
        let mut sums = BTreeMap::new();
        over(first, last, |epoch| {
            for (count, flow) in self.all.slots(epoch)? {
                let sum: &mut u64 = sums.entry(part(flow.key)).or_default();
                *sum = sum.saturating_add(count);
            }
            Some(())
        })?;
        Some(sums)
    }

    /// The interval around an estimate over the epochs `first..=last`, of a flow or of a part.
    pub fn part_bounds(&self, first: u64, last: u64, estimate: u64, confidence: f64) -> Option<CountBounds> {
        let weight = self.all.base.total_weight_of(first, last)?;
        if weight == u64::MAX {
            return Some(CountBounds { lower: 0, estimate, upper: u64::MAX });
        }
        let variance = 2.0 * weight as f64 / f64::from(self.all.sketch.columns);
        let (lower, upper) = interval(variance, estimate, confidence);
        Some(CountBounds { lower, estimate, upper: upper.min(weight.max(estimate)) })
    }

    /// The `count` heaviest flows over the epochs `first..=last`, with their estimates, heaviest first; equal ones in the order of their
    /// hashes. `None` as for [`size_in`](Self::size_in).
    ///
    /// # Cost
    /// One pass over the slots of all.
    pub fn top(&self, first: u64, last: u64, count: usize) -> Option<Vec<(Hashed<K>, u64)>> {
        let flows = self.flows(first, last)?;
        Some(flows.into_iter().take(count).map(|(weight, flow)| (flow, weight)).collect())
    }

    /// The flows of the epochs `first..=last` as a sketch, to be asked, merged or stored, with [`Key::BYTES`] bytes of each key; `None` as
    /// for [`size_in`](Self::size_in).
    ///
    /// # Accuracy
    /// Its total weight is that of the packets, and its estimates are right on average. They vary more than those of the reader itself,
    /// as what aggregator and workers hold is put into the slots of one, the heaviest flows first. `number` begins its random numbers
    /// ([`CocoSketch::with_random`]).
    ///
    /// # Errors
    /// Those of [`CocoSketch::new`].
    pub fn flow_sketch(&self, first: u64, last: u64, number: u64) -> Result<Option<CocoSketch>> {
        let shape = &self.all.sketch;
        let mut sketch =
            CocoSketch::new(shape.columns, D as u32, K::BYTES, shape.hash_id)?.with_random(number);
        let Some(flows) = self.flows(first, last) else { return Ok(None) };
        flows.into_iter().for_each(|(count, flow)| sketch.update(flow.hash, &flow.key.to_bytes(), count));
        Ok(Some(sketch))
    }

    /// As [`size`](Self::size) of the current epoch, by the aggregator's slots alone, without what the workers hold: the paper's answer.
    pub fn applied_size(&self, hash: KeyHash) -> u64 {
        let (block, wanted) = (self.all.sketch.block_of(hash), self.all.sketch.slots_of(hash));
        let applied = |epoch: u64| {
            let mut held: Vec<(u64, Hashed<K>)> = Vec::new();
            self.all.table.blocks.read(self.all.first_block(epoch) + block, &wanted, &mut held, || ());
            held.iter().filter(|held| held.1.hash == hash).fold(0u64, |sum, held| sum.saturating_add(held.0))
        };
        loop {
            let epoch = self.epoch();
            if let Some(size) = self.all.base.while_live(epoch, || applied(epoch)) {
                return size;
            }
        }
    }

    fn flows(&self, first: u64, last: u64) -> Option<Vec<(u64, Hashed<K>)>> {
        let mut flows = Vec::new();
        over(first, last, |epoch| {
            flows.append(&mut self.all.slots(epoch)?);
            Some(())
        })?;
        Some(summed(flows))
    }
}
