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
//! 4. What the shards and the rows are is not known here.
//!
//! | operation | CPU | RAM |
//! |---|---|---|
//! | a row, of several shards | one pass that counts and one that copies its hash | 20 B, of the chunks that are under way |
//! | a row, of one shard | 0: its group is the chunk as it stands | 0 |
//! | a chunk | a lock a shard | its rows |

mod groups;
#[cfg(test)]
mod tests;
mod turns;

pub use groups::Group;
pub(crate) use groups::shard_of;

use crate::device::thread;
use crate::lock::{into_inner, lock};
use groups::Groups;
use keyhash::KeyHash;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use turns::{Gate, Turn};

/// The rows of one parsed chunk.
pub trait Rows {
    /// The hash of every row's key.
    fn hashes(&self) -> &[KeyHash];
}

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
        gates: shards.into_iter().map(Gate::new).collect(),
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
            let mut turn = Turn::new(&self.gates, number);
            if let Err(error) = self.stages.parse(chunk, &mut rows) {
                return self.fail(number, error);
            }
            let hashes = rows.hashes();
            groups.assign(hashes, self.lg_shards);
            let mut apply = |shard, state: &mut G::Shard| {
                self.stages.apply(state, tally, &rows, groups.shard(shard, hashes));
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
