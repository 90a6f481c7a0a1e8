//! The compressed buffer tree as it was published: group-by in memory that grows with the groups.
//!
//! ```text
//!   rows ─▶ buffers of the root ─sort, aggregate─▶ run ─┐                       not compressed
//!                                                       │ by ranges of hashes
//!              ┌──────────────────────┬─────────────────┴────┐
//!        inner: fragments       inner: fragments       inner: fragments         compressed
//!              │ full: decompress, merge, aggregate
//!       ┌──────┼──────┐
//!     leaf   leaf   leaf: fragments          full: the same, and split where more than half of a buffer is left
//! ```
//!
//! [`Groups`](super::Groups) is what this library makes of the idea: one level of leaves, states that change in compressed memory, and
//! memory that is promised. This is the published shape with all its knobs, for comparison, and for whoever has memory to spare: a row is
//! looked at only in large, sorted, sequential pieces. [`GroupingPlan`] weighs both.
//!
//! * `object`: a partial aggregation object in bytes; `run`: objects in hash order; `root`: a buffer of the
//!   root, and its sort; `combine`: objects of one key become one; `merge`: of many runs.
//! * `codec`: the compressor, which the user may replace; `fragment`: columns, compressed.
//! * `nodes`: the (a,b)-tree; `schedule`: the stages of the pipeline and the queues between them; `workers`: threads, and what they do.
//! * `scan`: all groups; `stats`: what was done; `options`: the knobs; `plan`: the model of costs.
//!
//! Invariants:
//! 1. The answers are those of a map from keys to states, whatever the knobs, batches and threads; also for different keys of one hash.
//! 2. [`BufferTree::finalize`] leaves one object for each key, in the leaves, in hash order.
//! 3. Who inserts waits only where all buffers of a root are full. A thread that fails is an error for everybody who calls.
//!
//! | n groups, r rows of t bytes (the key, the state, 8 more); B: a buffer; h: levels below the root | CPU | RAM |
//! |---|---|---|
//! | insert | a hash, a copy; of a share of the rows, a sort, and h or more times a merge, a compression, a decompression | |
//! | leaves | each is rewritten for every B/2 bytes or more that come to it | n compressed objects |
//! | inner nodes | | less than B a node, compressed: objects of keys that are elsewhere, too |
//! | roots | | 4 B a tree |
//! | workers | | 2 B each, of the node that it empties |
//! | finalize | every node that is not empty, once | |
//! | scan | a decompression | a leaf |
//!
//! Source: Amur et al., Memory-Efficient GroupBy-Aggregate using Compressed Buffer Trees, SoCC 2013: sections 3.1 (objects), 3.2
//! (interface), 3.3 (operation), 4.1 (pipeline, root buffers, trees), 4.2 (serialization, columns). Deviations:
//! * A full leaf that shrinks to less than half of a buffer as it is merged is not split, so that leaves of keys that come often stay few.
//! * Colliding keys are put in the order of the keys, instead of in a hash table: the order of all groups is then the same every time.
//! * Nodes of many children split when their buffers are empty; the paper does not say how inner nodes split.
//! * Workers serve all stages, and all trees.
//! * Trees are ranges of hashes, so that a scan of all of them is in hash order.
//! * Hashes are coded as differences in blocks of as many bits as they need; the compressor is LZ4.

mod codec;
mod combine;
mod fragment;
mod merge;
mod nodes;
mod object;
mod options;
mod plan;
mod root;
mod run;
mod scan;
mod schedule;
mod stats;
#[cfg(test)]
mod tests;
mod workers;

pub use codec::Codec;
#[cfg(feature = "lz4")]
pub use codec::Lz4Codec;
#[cfg(feature = "zstd")]
pub use codec::ZstdCodec;
pub use options::BufferTreeOptions;
pub use plan::{GroupingCost, GroupingPlan};
pub use scan::BufferTreeScan;
pub use stats::BufferTreeStats;

use super::group::GroupHasher;
use super::state::{Aggregate, Row, Shape, State, StateMut, WORDS_MAX};
use crate::device::Device;
use crate::device::memory::MemoryDevice;
use crate::error::invalid;
use crate::lock::lock;
use crate::{HashKind, KeyHasher, Result, Seed};
use root::RootBuffer;
use schedule::Schedule;
use stats::add;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use workers::Workers;

/// Rows that are hashed before they go to their trees.
const PIECE_ROWS: usize = 1024;
/// Bytes of a key and a tail, so that a buffer with one more than fits stays below 4 GiB.
const ITEM_BYTES_MAX: usize = 1 << 30;

/// A compressed buffer tree, or several: a handle, whose clones are the same trees. Any number of threads insert.
///
/// Its memory grows with the groups; for memory that is promised, see [`Groups`](super::Groups).
///
/// ```
/// use overbank::aggregate::{BufferTree, BufferTreeOptions, Count};
///
/// let words = BufferTree::new(Count, BufferTreeOptions::new().buffer_bytes(1 << 20).workers(2))?;
/// words.insert_many(&["to", "be", "or", "not", "to", "be"], &[])?;
/// let mut scan = words.scan()?;
/// let mut twice = 0;
/// while let Some(group) = scan.next_group()? {
///     twice += u64::from(group.words[0] == 2);
/// }
/// assert_eq!(twice, 2);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct BufferTree<A: Aggregate> {
    workers: Arc<Workers<A>>,
}

impl<A: Aggregate> Clone for BufferTree<A> {
    fn clone(&self) -> Self {
        BufferTree { workers: Arc::clone(&self.workers) }
    }
}

impl<A: Aggregate> BufferTree<A> {
    /// A tree of which `aggregate` is computed; there are no groups yet. Where the system refuses threads, it has fewer workers.
    ///
    /// # Errors
    /// `InvalidOption` for options out of their range, and for an aggregate of more words than [`WORDS_MAX`].
    pub fn new(aggregate: A, options: BufferTreeOptions) -> Result<BufferTree<A>> {
        let hasher = match options.chosen_hasher() {
            Some(hasher) => hasher,
            None => KeyHasher::new(HashKind::Xxh3, Seed(MemoryDevice::new().random_128()?)),
        };
        Self::with_hasher(aggregate, options, GroupHasher::new(hasher, 0))
    }

    fn with_hasher(aggregate: A, options: BufferTreeOptions, hasher: GroupHasher) -> Result<BufferTree<A>> {
        let shape = Shape::of(&aggregate);
        let words = shape.row_words.max(shape.state_words);
        if words > WORDS_MAX {
            let why = format!("rows and states have at most {WORDS_MAX}");
            return invalid("an aggregate's words", words, why);
        }
        let clock = options.chosen_clock();
        let (knobs, compressor) = options.into_parts()?;
        let workers = Workers::start(aggregate, shape, hasher, knobs, compressor, clock);
        Ok(BufferTree { workers: Arc::new(workers) })
    }

    /// What is computed.
    pub fn aggregate(&self) -> &A {
        &self.workers.shared.aggregate
    }

    /// How keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.workers.shared.hasher.hasher
    }

    /// Takes rows in: row `i` is of the group of `keys[i]`, and has the words of `rows` from `i × row_words` on.
    ///
    /// # Cost
    /// A hash and a copy a row, and the wait for a root's buffer where all are full.
    ///
    /// # Errors
    /// `InvalidOption` if there are not as many words as the keys need, or for a key that is too long; `WorkerFailed` if a thread failed,
    /// now or before.
    pub fn insert_many<K: AsRef<[u8]>>(&self, keys: &[K], rows: &[u64]) -> Result<()> {
        let row_words = self.workers.shared.shape.row_words;
        if rows.len() != keys.len() * row_words {
            let why = format!("{} keys need {row_words} words each", keys.len());
            return invalid("rows", rows.len(), why);
        }
        let row = |i: usize| Row { words: &rows[i * row_words..(i + 1) * row_words], bytes: &[] };
        self.insert_by_rows(keys, row)
    }

    /// As [`BufferTree::insert_many`], of rows that have bytes, too.
    ///
    /// # Errors
    /// As there.
    pub fn insert_rows<K: AsRef<[u8]>>(&self, keys: &[K], rows: &[Row<'_>]) -> Result<()> {
        let row_words = self.workers.shared.shape.row_words;
        if rows.len() != keys.len() || rows.iter().any(|row| row.words.len() != row_words) {
            let why = format!("{} keys need as many rows, of {row_words} words each", keys.len());
            return invalid("rows", rows.len(), why);
        }
        self.insert_by_rows(keys, |i| rows[i])
    }

    /// Takes in what is known of groups: the paper's `insert` of partial aggregation objects.
    ///
    /// # Errors
    /// As [`BufferTree::insert_many`].
    pub fn insert_states<K: AsRef<[u8]>>(&self, keys: &[K], states: &[State<'_>]) -> Result<()> {
        let shape = self.workers.shared.shape;
        let fits = |state: &State<'_>| {
            state.words.len() == shape.state_words && (shape.has_tail || state.tail.is_empty())
        };
        if states.len() != keys.len() || !states.iter().all(fits) {
            let why = format!("{} keys need as many states, of {} words each", keys.len(), shape.state_words);
            return invalid("states", states.len(), why);
        }
        self.insert_by(
            keys,
            |i| states[i].tail.len(),
            |i, buffer, hash, key| buffer.push(hash, key, states[i]),
        )
    }

    fn insert_by_rows<'r, K: AsRef<[u8]>>(&self, keys: &[K], row: impl Fn(usize) -> Row<'r>) -> Result<()> {
        let shared = &self.workers.shared;
        let (mut words, mut tail) = ([0; WORDS_MAX], Vec::new());
        let words = &mut words[..shared.shape.state_words];
        let push = |i: usize, buffer: &mut RootBuffer, hash: u32, key: &[u8]| {
            words.fill(0);
            tail.clear();
            shared.aggregate.start(StateMut { words, tail: &mut tail });
            shared.aggregate.update(StateMut { words, tail: &mut tail }, row(i));
            buffer.push(hash, key, State { words, tail: &tail });
        };
        self.insert_by(keys, |i| row(i).bytes.len(), push)
    }

    /// Calls `push` for each key with its number, its hash, and the buffer where it belongs.
    fn insert_by<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        more_bytes: impl Fn(usize) -> usize,
        mut push: impl FnMut(usize, &mut RootBuffer, u32, &[u8]),
    ) -> Result<()> {
        let shared = &self.workers.shared;
        let item_bytes = |i: usize| keys[i].as_ref().len() + more_bytes(i);
        if let Some(i) = (0..keys.len()).find(|&i| item_bytes(i) > ITEM_BYTES_MAX) {
            let why = format!("a key and its row's bytes have at most {ITEM_BYTES_MAX}");
            return invalid("a key's bytes", keys[i].as_ref().len(), why);
        }
        drop(shared.wait_until(lock(&shared.schedule), |_| true)?);
        let mut hashes = [0; PIECE_ROWS];
        for (number, piece) in keys.chunks(PIECE_ROWS).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(piece) {
                *hash = (shared.hasher.hash(key.as_ref()).high() >> 32) as u32;
            }
            for tree in 0..shared.buffers.len() {
                let mut buffer = lock(&shared.buffers[tree]);
                for (i, key) in piece.iter().enumerate() {
                    if shared.tree_of(hashes[i]) != tree {
                        continue;
                    }
                    push(number * PIECE_ROWS + i, &mut buffer, hashes[i], key.as_ref());
                    if buffer.raw_bytes() >= shared.knobs.buffer_bytes {
                        self.hand_over(tree, &mut buffer)?;
                    }
                }
            }
            add(&shared.counters.rows, piece.len());
        }
        Ok(())
    }

    /// Has a root's buffer emptied, and puts an empty one in its place, once there is one.
    fn hand_over(&self, tree: usize, buffer: &mut RootBuffer) -> Result<()> {
        let shared = &self.workers.shared;
        let mut full = std::mem::replace(buffer, RootBuffer::new(&shared.held));
        full.count_bytes();
        let mut schedule = lock(&shared.schedule);
        schedule.hand_over(tree, full);
        shared.wake();
        add(&shared.counters.insertion_waits, usize::from(!schedule.has_buffer(tree)));
        let mut schedule = shared.wait_until(schedule, |schedule| schedule.has_buffer(tree))?;
        if let Some(free) = schedule.free_buffer(tree) {
            *buffer = free;
        }
        Ok(())
    }

    /// Empties all nodes but the leaves, the topmost first, so that there is one object a key: the paper's `finalize`. Rows can come in
    /// afterwards as before.
    ///
    /// # Cost
    /// Rewrites every leaf that anything came to. Other threads' rows wait meanwhile.
    ///
    /// # Errors
    /// `WorkerFailed` if a thread failed, now or before.
    pub fn finalize(&self) -> Result<()> {
        self.finalized(|_| ())
    }

    /// Looks at the trees when they are finalized, and no row comes in.
    fn finalized<T>(&self, look: impl FnOnce(&Schedule) -> T) -> Result<T> {
        let shared = &self.workers.shared;
        let mut buffers: Vec<_> = shared.buffers.iter().map(lock).collect();
        for (tree, buffer) in buffers.iter_mut().enumerate() {
            if buffer.len() > 0 {
                self.hand_over(tree, buffer)?;
            }
        }
        let mut schedule = lock(&shared.schedule);
        loop {
            schedule = shared.wait_until(schedule, Schedule::is_at_rest)?;
            if !schedule.force_next_level() {
                return Ok(look(&schedule));
            }
            shared.wake();
        }
    }

    /// Finalizes, and goes through all groups in hash order, as they are then.
    ///
    /// # Errors
    /// As [`BufferTree::finalize`].
    pub fn scan(&self) -> Result<BufferTreeScan<A>> {
        let fragments = self.finalized(Schedule::leaf_fragments)?;
        Ok(BufferTreeScan::new(Arc::clone(&self.workers), fragments))
    }

    /// Finalizes, and says how many groups there are.
    ///
    /// # Errors
    /// As [`BufferTree::finalize`].
    pub fn count(&self) -> Result<u64> {
        self.finalized(|schedule| {
            schedule.leaf_fragments().iter().map(|fragment| fragment.objects as u64).sum()
        })
    }

    /// Bytes that are held now: fragments, buffers, and what threads work in. It grows with the groups.
    pub fn memory_bytes(&self) -> usize {
        let shared = &self.workers.shared;
        shared.buffers.iter().for_each(|buffer| lock(buffer).count_bytes());
        let trees: usize = lock(&shared.schedule).trees().map(|tree| tree.memory_bytes()).sum();
        trees + shared.held.load(Ordering::Relaxed)
    }

    /// What was done so far.
    pub fn stats(&self) -> BufferTreeStats {
        let shared = &self.workers.shared;
        let schedule = lock(&shared.schedule);
        let changes = schedule.changes();
        BufferTreeStats {
            spills: changes.spills,
            leaf_splits: changes.leaf_splits,
            inner_splits: changes.inner_splits,
            root_splits: changes.root_splits,
            nodes: schedule.trees().map(|tree| tree.node_count() as u64).sum(),
            height: schedule.trees().map(|tree| tree.height() as u64).max().unwrap_or(0),
            ..shared.counters.read()
        }
    }
}
