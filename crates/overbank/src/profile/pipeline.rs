//! Many threads over one stream, with the same result as one thread.
//!
//! ```text
//!            next (one at a time)      parse (side by side)         apply (in stream order, shard by shard)
//!   stream ──▶ chunk 0 ─────────────▶ rows by hash range ──▶ shard 0 ▶ shard 1 ▶ shard 2 …
//!              chunk 1 ─────────────▶ rows by hash range ─────▶ shard 0 ▶ shard 1 …     one step behind
//! ```
//!
//! Invariants:
//! 1. A shard sees the chunks in stream order, whatever the number of threads: each chunk waits for its turn.
//! 2. Shards are ranges of the hash, so two chunks are applied at once only to disjoint state: no other lock is needed.
//! 3. When a chunk fails to be read or parsed, every earlier chunk is applied whole and no later one at all.

use crate::device::thread;
use crate::lock::{into_inner, lock};
use keyhash::KeyHash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

/// The rows of one parsed chunk.
pub trait Rows {
    /// The hash of every row's key.
    fn hashes(&self) -> &[KeyHash];
}

/// A chunk's rows grouped by shard, each group in stream order. The hashes are copied along, so that a shard reads its
/// own from end to end; fetching each from its row cost a cache miss a row, a quarter of a profile's time.
#[derive(Debug, Default)]
pub struct Groups {
    rows: Vec<u32>,
    hashes: Vec<KeyHash>,
    starts: Vec<u32>,
}

/// The rows of one shard and their hashes, in stream order.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Row numbers within the chunk.
    pub rows: &'a [u32],
    /// The hash of each.
    pub hashes: &'a [KeyHash],
}

impl Groups {
    /// Groups `hashes` into `1 << lg_shards` ranges of the hash.
    ///
    /// # Panics
    /// If there are 2³² hashes or more; chunks are far smaller.
    pub fn assign(&mut self, hashes: &[KeyHash], lg_shards: u32) {
        let shards = 1usize << lg_shards;
        let shard_of = |hash: &KeyHash| shard_of(*hash, lg_shards);
        u32::try_from(hashes.len()).expect("a chunk has fewer than 2^32 rows");
        self.starts.clear();
        self.starts.resize(shards + 1, 0);
        for hash in hashes {
            self.starts[shard_of(hash) + 1] += 1;
        }
        for shard in 0..shards {
            self.starts[shard + 1] += self.starts[shard];
        }
        // What is left of the last chunk is overwritten: every place is some row's.
        self.rows.resize(hashes.len(), 0);
        self.hashes.resize(hashes.len(), KeyHash::default());
        let mut at = self.starts.clone();
        for (row, hash) in hashes.iter().enumerate() {
            let next = &mut at[shard_of(hash)];
            self.rows[*next as usize] = row as u32;
            self.hashes[*next as usize] = *hash;
            *next += 1;
        }
    }

    /// The rows of one shard.
    pub fn shard(&self, shard: usize) -> Group<'_> {
        let range = self.starts[shard] as usize..self.starts[shard + 1] as usize;
        Group { rows: &self.rows[range.clone()], hashes: &self.hashes[range] }
    }
}

/// The shard of a hash: its top `lg_shards` bits.
#[inline]
pub fn shard_of(hash: KeyHash, lg_shards: u32) -> usize {
    (hash.high() >> 1 >> (63 - lg_shards)) as usize
}

/// A shard's state with the number of the chunk that may touch it next.
struct Gate<S> {
    state: Mutex<(u64, S)>,
    turned: Condvar,
}

/// The turn that no chunk has: the stream ended early.
const STOPPED: u64 = u64::MAX;

/// What the threads do with a stream's chunks.
pub trait Stages: Sync {
    /// A piece of the stream, cut at a row's end.
    type Chunk: Send;
    /// A chunk's rows, reused from chunk to chunk.
    type Rows: Rows + Default;
    /// The state that owns one range of the hash.
    type Shard: Send;
    /// What a thread adds up for itself, in any order.
    type Tally: Send;
    /// Why the stream may end early.
    type Error: Send;

    /// Turns a chunk into rows; called by many threads.
    ///
    /// # Errors
    /// Ends the stream before this chunk.
    fn parse(&self, chunk: Self::Chunk, rows: &mut Self::Rows) -> Result<(), Self::Error>;

    /// Applies a group of rows to its shard; what other threads need not see goes to the thread's own tally.
    fn apply(&self, shard: &mut Self::Shard, tally: &mut Self::Tally, rows: &Self::Rows, group: Group<'_>);

    /// Accounts the rows of a chunk that every shard has seen. No shard is held.
    ///
    /// # Errors
    /// Ends the stream. Chunks behind this one may have been applied, so the state is then of no use.
    fn finish(&self, tally: &mut Self::Tally, rows: &Self::Rows) -> Result<(), Self::Error>;
}

/// Runs a stream through `shards` with a thread for each of `tallies` (this one is the first, and a
/// thread that cannot be started is done without), until `next` yields `None` or something fails.
///
/// `next` yields the chunks in order, one call at a time.
///
/// # Errors
/// The error of the earliest chunk that failed; the shards then hold everything before it.
///
/// # Panics
/// If the number of shards is not a power of two, or if a stage panics.
pub fn run<G: Stages>(
    stages: &G,
    next: impl FnMut() -> Result<Option<G::Chunk>, G::Error> + Send,
    shards: Vec<G::Shard>,
    tallies: &mut [G::Tally],
) -> Result<(), G::Error> {
    assert!(shards.len().is_power_of_two(), "shards are the ranges of the hash's top bits");
    let crew = Crew {
        lg_shards: shards.len().ilog2(),
        stages,
        source: Mutex::new((next, 0u64)),
        gates: shards
            .into_iter()
            .map(|state| Gate { state: Mutex::new((0, state)), turned: Condvar::new() })
            .collect(),
        failure: Mutex::new(None),
        stopping: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let Some((own, others)) = tallies.split_first_mut() else { return };
        for tally in others {
            // Fewer threads make the same pass; the tally of one that is not there stays as it was.
            if thread::start_scoped(scope, "overbank-pass", || crew.work(tally)).is_err() {
                break;
            }
        }
        crew.work(own);
    });
    match into_inner(crew.failure) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// What the threads of one run share.
struct Crew<'a, G: Stages, N> {
    stages: &'a G,
    lg_shards: u32,
    /// The stream, and the number of the chunk that it yields next.
    source: Mutex<(N, u64)>,
    gates: Vec<Gate<G::Shard>>,
    /// The earliest failure and its chunk's number.
    failure: Mutex<Option<(u64, G::Error)>>,
    stopping: AtomicBool,
}

impl<G: Stages, N: FnMut() -> Result<Option<G::Chunk>, G::Error>> Crew<'_, G, N> {
    /// One thread's loop.
    fn work(&self, tally: &mut G::Tally) {
        let mut rows = G::Rows::default();
        let mut groups = Groups::default();
        while let Some((number, chunk)) = self.take() {
            let mut turn = Turn { gates: &self.gates, number, reached: 0 };
            if let Err(error) = self.stages.parse(chunk, &mut rows) {
                return self.fail(number, error);
            }
            groups.assign(rows.hashes(), self.lg_shards);
            let mut apply = |shard, state: &mut G::Shard| {
                self.stages.apply(state, tally, &rows, groups.shard(shard));
            };
            if !turn.take_each(&mut apply) {
                return;
            }
            if let Err(error) = self.stages.finish(tally, &rows) {
                return self.fail(number, error);
            }
        }
    }

    /// The next chunk and its number; `None` at the end, however it came.
    fn take(&self) -> Option<(u64, G::Chunk)> {
        // A poisoned source means that another thread panicked: its panic is passed on when the threads are joined.
        let mut guard = self.source.lock().ok()?;
        if self.stopping.load(Ordering::Relaxed) {
            return None;
        }
        let (next, taken) = &mut *guard;
        let number = *taken;
        match next() {
            Ok(Some(chunk)) => {
                *taken += 1;
                Some((number, chunk))
            }
            Ok(None) => {
                self.stopping.store(true, Ordering::Relaxed);
                None
            }
            Err(error) => {
                self.fail(number, error);
                None
            }
        }
    }

    fn fail(&self, number: u64, error: G::Error) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut first = lock(&self.failure);
        if first.as_ref().is_none_or(|(earliest, _)| number < *earliest) {
            *first = Some((number, error));
        }
    }
}

/// One chunk's walk through the gates. Dropped before its end, it stops every later chunk at the gates it did not pass.
struct Turn<'a, S> {
    gates: &'a [Gate<S>],
    number: u64,
    reached: usize,
}

impl<S> Turn<'_, S> {
    /// Calls `visit` for every shard as its turn comes; false if an earlier chunk stopped the stream.
    fn take_each(&mut self, mut visit: impl FnMut(usize, &mut S)) -> bool {
        while self.reached < self.gates.len() {
            let gate = &self.gates[self.reached];
            let Some(mut guard) = self.wait(gate) else { return false };
            visit(self.reached, &mut guard.1);
            guard.0 = self.number + 1;
            drop(guard);
            gate.turned.notify_all();
            self.reached += 1;
        }
        true
    }

    /// Waits for this chunk's turn; `None` once the stream has stopped.
    fn wait<'g>(&self, gate: &'g Gate<S>) -> Option<std::sync::MutexGuard<'g, (u64, S)>> {
        let guard = gate.state.lock().ok()?;
        let guard =
            gate.turned.wait_while(guard, |(turn, _)| *turn != self.number && *turn != STOPPED).ok()?;
        (guard.0 != STOPPED).then_some(guard)
    }
}

impl<S> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        for gate in &self.gates[self.reached..] {
            // A poisoned gate stops its visitors by itself; those that wait on it must be woken.
            if let Some(mut guard) = self.wait(gate) {
                guard.0 = STOPPED;
            }
            gate.turned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Numbers(Vec<KeyHash>);
    impl Rows for Numbers {
        fn hashes(&self) -> &[KeyHash] {
            &self.0
        }
    }

    /// Keeps every shard's history; a chunk is its index.
    struct Replay<'s> {
        chunks: &'s [Vec<u64>],
        fail_at: Option<usize>,
    }

    impl<'s> Stages for Replay<'s> {
        type Chunk = usize;
        type Rows = Numbers;
        type Shard = &'s mut Vec<u64>;
        type Tally = u64;
        type Error = usize;

        fn parse(&self, chunk: usize, rows: &mut Numbers) -> Result<(), usize> {
            assert_ne!(chunk, 1000, "planted");
            if self.fail_at == Some(chunk) {
                return Err(chunk);
            }
            rows.0 =
                self.chunks.get(chunk).into_iter().flatten().map(|&high| KeyHash::new(high, 0)).collect();
            Ok(())
        }

        fn apply(&self, history: &mut &'s mut Vec<u64>, _: &mut u64, rows: &Numbers, group: Group<'_>) {
            assert!(group.rows.iter().map(|&row| rows.0[row as usize]).eq(group.hashes.iter().copied()));
            history.extend(group.hashes.iter().map(|hash| hash.high()));
        }

        fn finish(&self, tally: &mut u64, rows: &Numbers) -> Result<(), usize> {
            *tally += rows.0.len() as u64;
            Ok(())
        }
    }

    /// What one thread does, plainly.
    fn model(chunks: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut histories = vec![Vec::new(); 8];
        for &high in chunks.iter().flatten() {
            histories[(high >> 61) as usize].push(high);
        }
        histories
    }

    #[test]
    fn with_fewer_threads_than_tallies_the_shards_see_the_same() {
        let chunks: Vec<Vec<u64>> =
            (0..40u64).map(|i| (0..50).map(|j| (i * 50 + j) << 52).collect()).collect();
        for granted in 0..3 {
            let mut histories = vec![Vec::new(); 8];
            let mut tallies = [0; 4];
            let mut next = 0..chunks.len();
            let stages = Replay { chunks: &chunks, fail_at: None };
            crate::device::thread::refusal::after(granted, || {
                run(&stages, || Ok(next.next()), histories.iter_mut().collect(), &mut tallies).unwrap();
            });
            assert_eq!(histories, model(&chunks));
            assert_eq!(tallies.iter().sum::<u64>(), 2000);
        }
    }

    proptest! {
        #[test]
        fn shards_see_stream_order_for_any_thread_count(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 0..50), 0..20),
            threads in 1usize..6,
            fail_at in proptest::option::of(0usize..20),
        ) {
            let mut tallies = vec![0u64; threads];
            let mut at = 0;
            let next = || {
                at += 1;
                Ok((at <= chunks.len()).then(|| at - 1))
            };
            let mut histories = vec![Vec::new(); 8];
            let replay = Replay { chunks: &chunks, fail_at };
            let outcome = run(&replay, next, histories.iter_mut().collect(), &mut tallies);
            let good = fail_at.map_or(chunks.len(), |at| at.min(chunks.len()));
            prop_assert_eq!(outcome.err(), fail_at.filter(|at| *at < chunks.len()));
            prop_assert_eq!(histories, model(&chunks[..good]));
            prop_assert_eq!(tallies.iter().sum::<u64>(), chunks[..good].iter().map(|c| c.len() as u64).sum::<u64>());
        }
    }

    #[test]
    fn a_panic_ends_every_thread() {
        let outcome = std::panic::catch_unwind(|| {
            let mut at = 0;
            let next = || {
                at += 1;
                Ok(Some(at))
            };
            let mut histories = vec![Vec::new(); 4];
            run(&Replay { chunks: &[], fail_at: None }, next, histories.iter_mut().collect(), &mut [0; 3])
        });
        assert!(outcome.is_err());
    }
}
