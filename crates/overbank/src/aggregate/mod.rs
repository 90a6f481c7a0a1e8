//! Group-by in compressed memory, and beyond it on flash: what the rows of each key come to, exactly.
//!
//! ```text
//!   rows ─▶ front: states of keys that come again soon
//!        ─▶ inserter: an open chunk a leaf ──full──▶ leaf: what is pending
//!                                                     │ apply: states of known groups change where they lie
//!                                                     ▼
//!                                                   misses ──compact: sort, merge──▶ pages in hash order, compressed by columns
//!                                                                                     │ memory is full: those of a section of leaves
//!                                                                                     ▼
//!                                                                                   runs on flash, which are merged in the background
//!
//!   get: leaf, and what waits for it        scan: all groups in hash order        top: the greatest by anything
//!   snapshot: the same, as it was at one moment
//! ```
//!
//! * `state`: the trait of what is computed, rows and states; `signed`: numbers in words.
//! * `columns`: the usual functions, several at once; `function`: which there are; `value`: what goes in and comes out; `rows`: rows of
//!   items, packed; `part`: what functions keep, and share; `tail`, `sections`: what of that has no fixed size; `float_sum`: sums of
//!   floats that do not depend on order; `moments`, `natural`: means and variances, rounded once.
//! * `pool`: the memory, in blocks; `record`: rows that wait, in chunks; `alphabet`, `code_bits`: keys in few bits a byte; `symbols`: text
//!   in about half of its bytes; `page`: groups, found and changed in compressed form; `leaf`: a range of hashes; `leaves`: all of them.
//! * `spill`, `flash`: what goes to flash, and when; `frozen`: pages on their way there; `run`: files of groups; `merger`: several of
//!   them as one; `table`: how the room `lsm` merges them; `saved`, `format`: commits.
//! * `snapshot`, `held`: what groups were at one moment, while rows come in.
//! * `front`: rows that are taken in before they are recorded; `inserter`, `shared`: threads; `query`, `scan`: questions; `group`: what
//!   they answer; `options`: how the memory is divided.
//! * `tree`: the published tree itself, over the same trait.
//!
//! Invariants:
//! 1. The answers are those of a map from keys to states, whatever the batches, threads and memory; also for different keys whose hashes
//!    are equal.
//! 2. A question sees all rows whose insertion has returned.
//! 3. The memory is as much as the options say: all records and groups are in blocks of one pool, and no buffer is made anew while
//!    rows come in.
//!
//! | n groups of r rows, m bytes for what waits | CPU | RAM |
//! |---|---|---|
//! | insert a row of a known group | a hash, a copy, a search in a page | |
//! | … of a new one | as that, and a share of rewriting n groups for each m bytes of new ones | |
//! | a group | | its key, packed; 9.3 bits; a byte or more a word |
//! | get | a search in a page, and of what waits for one leaf; a block read a run of the key's section | |
//! | snapshot | what inserters hold is given to the leaves; a leaf that changes is copied once; on flash, all groups are written | what changed, compressed |
//! | scan | some 20 ns a group, 40 more on flash | a page, and a piece of each run |
//!
//! What a function keeps of a group. A word takes as many bytes as the greatest of its neighbours needs: 0, 1, 2, 4 or 8. Functions that
//! keep the same keep it once: a count, a sum, a mean and a variance of a column are a count, a sum and a sum of squares. All functions
//! together have a word that says which of them saw an item.
//!
//! | function | words | bytes of the tail, at most |
//! |---|---|---|
//! | `CountRows`, `Count` | 1 | |
//! | `Sum` | 2 of `u64` and `i64`, 3 of `i128`, 6 of `f64` | |
//! | `Mean` | those of a sum and a count | |
//! | `Variance`, `Deviation` | those of a mean; 3 more, 5 of `i128`, 6 of `f64` | |
//! | `Min`, `Max`, `Any` | 1, 2 of `i128`; none of strings | 1 and the string |
//! | `First`, `Last` | as `Min`, and 1 for the place | 1 and the string |
//! | `BitAnd`, `BitOr`, `BitXor` | 1 | |
//! | `List` | 1 | an item and a byte or more each, `most` of them |
//! | `Distinct` | | an item each, `most` of them |
//! | `Top` | 1 | an item and some 6 each, `tracked` of them |
//! | `DistinctCount` | | 3 an item while they are few; 2^`lg_m` + 1 |
//! | `Quantile` | | 3 a bin in use; 30 KB, of 2048 bins and counts beyond 2^49 |
//! | `Bitmap` | 1 | 1 or 2 a number while they are few; `below` / 8 + 2 |
//!
//! Source: Amur et al., Memory-Efficient GroupBy-Aggregate using Compressed Buffer Trees, SoCC 2013. Deviations:
//! * The tree has one level below its root, and as many leaves as the memory is worth: with a pool of blocks instead of a buffer a node,
//!   deeper trees only copy more. The tree as the paper has it is [`BufferTree`]; [`GroupingPlan`] says what rows cost in either.
//! * A known group's state is changed in compressed memory. The paper rewrites a leaf for what comes, whether it is new or not; here nine
//!   of ten rows of a stream in which each key comes ten times rewrite nothing.
//! * Hashes are not stored. They are bits of the place, and the rest is computed again.

mod alphabet;
mod backlog;
mod code_bits;
mod columns;
mod flash;
mod float_sum;
mod format;
mod freeze;
mod front;
mod frozen;
mod function;
mod group;
mod held;
mod inserter;
mod leaf;
mod leaves;
mod merge_from;
mod merger;
mod moments;
mod natural;
mod options;
mod page;
mod part;
mod pool;
mod query;
mod record;
mod rows;
mod run;
mod saved;
mod scan;
mod scratches;
mod sections;
mod shared;
mod signed;
mod snapshot;
mod spill;
mod state;
mod symbols;
mod table;
mod tail;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub use columns::Columns;
pub use function::{Basis, Function, Overflow};
pub use group::KeyState;
pub use options::GroupsOptions;
pub use rows::RowBatch;
pub use scan::GroupScan;
pub use signed::{from_signed, signed};
pub use snapshot::{GroupsSnapshot, GroupsSnapshotScan};
pub use state::{Aggregate, Count, Row, State, StateMut, WORDS_MAX};
#[cfg(feature = "lz4")]
pub use tree::Lz4Codec;
#[cfg(feature = "zstd")]
pub use tree::ZstdCodec;
pub use tree::{
    BufferTree, BufferTreeOptions, BufferTreeScan, BufferTreeStats, Codec, GroupingCost, GroupingPlan,
};
pub use value::{ColumnType, Counted, Item, LeftOut, Value};

use crate::device::Device;
use crate::device::memory::MemoryDevice;
use crate::error::invalid;
use crate::lock::{lock, read};
use crate::store::Handle;
use crate::{HashKind, KeyHasher, Result, Seed};
use group::GroupHasher;
use leaf::Ground;
use saved::Core;
use shared::Shared;
use std::sync::Arc;

/// Rows that are inserted before another thread gets a chance to ask.
const PIECE_ROWS: usize = 1024;
/// What a record has beside its key and words.
const ROW_BYTES: usize = 16;

/// Groups in memory: a handle, whose clones are the same groups. Any number of threads insert and ask at once.
///
/// Where memory is plenty and most rows are new keys, [`BufferTree`] may take less time: see [`GroupingPlan`].
///
/// ```
/// use overbank::aggregate::{Count, Groups, GroupsOptions};
///
/// let words = Groups::new(Count, GroupsOptions::new().memory_bytes(16 << 20))?;
/// words.insert_many(&["to", "be", "or", "not", "to", "be"], &[])?;
/// assert_eq!(words.get(b"be")?.map(|group| group.words[0]), Some(2));
/// let top = words.top(1, |state| state.words[0])?;
/// assert_eq!((&top[0].key[..], top[0].words[0]), (&b"be"[..], 2));
/// let mut scan = words.scan()?;
/// let mut groups = 0;
/// while let Some(_group) = scan.next_group()? {
///     groups += 1;
/// }
/// assert_eq!(groups, 4);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Groups<A: Aggregate> {
    shared: Arc<Shared<A>>,
    /// Of those that a store commits.
    handle: Option<Handle<Core>>,
}

impl<A: Aggregate> Clone for Groups<A> {
    fn clone(&self) -> Self {
        Groups { shared: Arc::clone(&self.shared), handle: self.handle.clone() }
    }
}

impl<A: Aggregate> Groups<A> {
    /// Groups of which `aggregate` is computed; there are none yet.
    ///
    /// # Errors
    /// `InvalidOption` for options out of their range, and for an aggregate of more words than [`WORDS_MAX`].
    pub fn new(aggregate: A, options: GroupsOptions) -> Result<Groups<A>> {
        let shares = options.shares()?;
        let hasher = match options.chosen_hasher() {
            Some(hasher) => hasher,
            None => KeyHasher::new(HashKind::Xxh3, Seed(MemoryDevice::new().random_128()?)),
        };
        let hasher = GroupHasher::new(hasher, shares.lg_leaves);
        let ground = Ground::new(Arc::new(aggregate), hasher, &shares)?;
        Ok(Groups { shared: Shared::new(ground, &options, shares, None), handle: None })
    }

    fn shared(&self) -> &Arc<Shared<A>> {
        &self.shared
    }

    /// What is computed.
    pub fn aggregate(&self) -> &A {
        &self.shared.leaves.ground.aggregate
    }

    /// Takes rows in: row `i` is of the group of `keys[i]`, and has the words of `rows` from `i × row_words` on. A
    /// [snapshot](Groups::snapshot) has all of them or none, unless the call fails.
    ///
    /// # Cost
    /// Some 90 ns a row, where each key of 10 bytes comes ten times and all groups fit the memory.
    ///
    /// # Errors
    /// `InvalidOption` if there are not as many words as the keys need, or for a key that is too long; `BudgetExceeded` where the memory
    /// is full: what was inserted before the call is in, and so are the first of its rows.
    pub fn insert_many<K: AsRef<[u8]>>(&self, keys: &[K], rows: &[u64]) -> Result<()> {
        let row_words = self.shared.leaves.ground.shape().row_words;
        if rows.len() != keys.len() * row_words {
            let why = format!("{} keys need {} words each", keys.len(), row_words);
            return invalid("rows", rows.len(), why);
        }
        let row = |i: usize| {
            // Asked for here, so that it is a constant if it is one.
            let row_words = self.shared.leaves.ground.shape().row_words;
            let begin = i.wrapping_mul(row_words);
            Row { words: &rows[begin..begin.wrapping_add(row_words)], bytes: &[] }
        };
        self.insert_by(keys, row)
    }

    /// As [`Groups::insert_many`], of rows that have bytes, too.
    ///
    /// # Errors
    /// As there.
    pub fn insert_rows<K: AsRef<[u8]>>(&self, keys: &[K], rows: &[Row<'_>]) -> Result<()> {
        let row_words = self.shared.leaves.ground.shape().row_words;
        if rows.len() != keys.len() || rows.iter().any(|row| row.words.len() != row_words) {
            let why = format!("{} keys need as many rows, of {} words each", keys.len(), row_words);
            return invalid("rows", rows.len(), why);
        }
        self.insert_by(keys, |i| rows[i])
    }

    /// As [`Groups::insert_many`], of rows that were packed one behind the other.
    ///
    /// # Errors
    /// As there.
    pub fn insert_batch<K: AsRef<[u8]>>(&self, keys: &[K], rows: &RowBatch) -> Result<()> {
        let row_words = self.shared.leaves.ground.shape().row_words;
        if rows.len() != keys.len() || (0..rows.len()).any(|i| rows.row(i).words.len() != row_words) {
            let why = format!("{} keys need as many rows, of {} words each", keys.len(), row_words);
            return invalid("rows", rows.len(), why);
        }
        self.insert_by(keys, |i| rows.row(i))
    }

    fn insert_by<'r, K: AsRef<[u8]>>(&self, keys: &[K], row: impl Fn(usize) -> Row<'r>) -> Result<()> {
        let bytes = |i: usize| keys[i].as_ref().len().saturating_add(row(i).bytes.len());
        let longest = (0..keys.len()).map(bytes).max().unwrap_or(0);
        if longest > self.item_bytes_max() {
            let why =
                format!("a key and its row's bytes have at most {}; give more memory", self.item_bytes_max());
            return invalid("a key's bytes", longest, why);
        }
        let shared = &self.shared;
        let row_bytes = longest + ROW_BYTES + 8 * shared.leaves.ground.shape().row_words;
        let piece_rows = (shared.leaves.shares.piece_bytes / row_bytes).clamp(1, PIECE_ROWS);
        let _batch = read(&shared.batches);
        for (number, piece) in keys.chunks(piece_rows).enumerate() {
            shared.writable()?;
            shared.require_room()?;
            let first = number * piece_rows;
            shared.with_inserter(|inserter| {
                for (i, key) in piece.iter().enumerate() {
                    inserter.insert(&shared.leaves, key.as_ref(), row(first.wrapping_add(i)));
                }
            });
        }
        Ok(())
    }

    /// The most bytes of a key and its row's bytes.
    pub fn item_bytes_max(&self) -> usize {
        self.shared.memory_bytes / 64
    }

    /// Takes everything that waits into the groups: what comes after is quicker, until more rows come.
    ///
    /// # Errors
    /// `Closed` where a store was told to close the groups.
    pub fn finalize(&self) -> Result<()> {
        self.shared.usable()?;
        self.shared.settle();
        Ok(())
    }

    /// How many groups there are.
    ///
    /// # Cost
    /// That of [`Groups::finalize`]; of a scan, where groups are on flash.
    ///
    /// # Errors
    /// As [`Groups::scan`].
    pub fn count(&self) -> Result<u64> {
        self.finalize()?;
        if !self.shared.has_runs() {
            let groups = self.shared.leaves.all.iter().map(|leaf| lock(leaf).groups() as u64).sum();
            // Else those of a section may have gone to flash meanwhile.
            if !self.shared.has_runs() {
                return Ok(groups);
            }
        }
        let (mut scan, mut groups) = (self.scan()?, 0);
        while scan.next_group()?.is_some() {
            groups += 1;
        }
        Ok(groups)
    }

    /// Bytes that are held now.
    pub fn memory_bytes(&self) -> usize {
        self.shared.held_bytes()
    }

    /// How keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.shared.leaves.ground.hasher.hasher
    }
}
