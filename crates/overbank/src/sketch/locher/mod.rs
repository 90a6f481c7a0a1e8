//! Locher's sketch: which sources have the most distinct items (super-spreaders), and how many.
//!
//! ```text
//!   source ─ fold() ─▶ one cell in each of `depth` rows         cell: 16 registers of 4 bits, a small HyperLogLog
//!   source and item ─▶ register and rank, others in each row    register = max(register, rank)
//!
//!   row's estimate:  the cell's   -   what all other cells of the row say, on average
//!   estimate:        the median of the rows
//!   top:             the sources of the highest estimates, kept as they come
//! ```
//!
//! 1. The cells depend on the set of (source, item) pairs only: not on order, repeats, or how they were merged.
//! 2. An empty cell's estimate is 0, so a row's sum over all cells, empty ones included, is the sum that the rule asks for. It is
//!    kept as whole numbers: it depends on the cells only, and is not a sum of rounding errors.
//! 3. A rank of 15 says "at least this": some 200,000 items of a cell are told apart.
//!
//! | operation             | CPU                                    | memory touched        |
//! |-----------------------|----------------------------------------|-----------------------|
//! | `update`, changes nothing | O(depth)                           | `depth` words         |
//! | `update`, else        | O(depth), and O(top) where a source gets in | the top's slots  |
//! | `estimate`            | O(depth)                               | `depth` words         |
//! | `bounds`, `merge`     | O(cells)                               | all                   |
//! | the sketch            | –                                      | 8 bytes a cell, and the top |
//!
//! Source: Locher, "Finding heavy distinct hitters in data streams" (SPAA 2011), the sketch-based algorithm.
//!
//! Deviations: a cell's estimate is Ertl's, as [`HyperLogLog`](super::HyperLogLog) has it, which holds from no item to a full
//! cell, less its bias of some percent at 16 registers; the raw estimate would be 11 items for an empty cell. A source is
//! offered to the top when one of its cells changed, since otherwise nothing new is known of it.

use super::depth::{DEPTH_MAX, require_depth, with_depth};
use super::format::{self, Decoder, Encoder};
use super::hash_id::{HashId, require_equal};
use super::hyperloglog::{sigma, tau};
use super::median;
use super::top_keys::{TopKey, TopKeys};
use crate::error::invalid;
use crate::{KeyHash, Result};
use std::sync::LazyLock;

/// Registers of a cell.
pub(crate) const REGISTERS: usize = 16;
/// The highest rank that 4 bits hold.
const RANK_MAX: u64 = 15;
/// The standard error of a cell's estimate as a share of its items: 1.04 / sqrt(16), and what the least sketches have more.
const CELL_ERROR: f64 = 0.28;
/// Estimates are added up and compared as multiples of its inverse.
const SCALE: f64 = 65536.0;

/// A number of distinct items, with the interval that holds the true one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DistinctBounds {
    /// The true number is not below this.
    pub lower: f64,
    /// The sketch's estimate.
    pub estimate: f64,
    /// The true number is not above this; infinite where no bound is known.
    pub upper: f64,
}

/// A source that has many distinct items, as [`Locher::top`] lists it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spreader<'a> {
    /// The hash of the source: what identifies it.
    pub hash: KeyHash,
    /// Its first bytes.
    pub key: &'a [u8],
    /// Whether the source's key is longer than `key`.
    pub truncated: bool,
    /// How many distinct items it has.
    pub items: f64,
}

/// Finds the sources with the most distinct items.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::Locher};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut spreaders = Locher::new(1024, 3, 10, 16, &hasher)?;
/// for port in 0..1000u16 {
///     spreaders.update(hasher.hash(b"scanner"), b"scanner", hasher.hash(&port.to_le_bytes()));
///     spreaders.update(hasher.hash(b"client"), b"client", hasher.hash(b"443"));
/// }
/// let top = spreaders.top(1);
/// assert_eq!(top[0].key, b"scanner");
/// assert!((400.0..2500.0).contains(&top[0].items));
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Locher {
    columns: u32,
    depth: u32,
    hash_id: HashId,
    /// Row after row; register `i` is bits `4 i` to `4 i + 3`.
    pub(crate) cells: Vec<u64>,
    /// What the cells of a row estimate together, scaled.
    sums: Vec<u64>,
    top: TopKeys,
}

impl Locher {
    /// An empty sketch of `depth` rows of `columns` cells that keeps `top` sources, and up to `key_bytes_max` bytes of each.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `2 <= columns < 2^28`, `1 <= depth <= 16`, `1 <= top <= 2^24`,
    /// `key_bytes_max < 2^15`, and memory can hold it.
    pub fn new(
        columns: u32,
        depth: u32,
        top: usize,
        key_bytes_max: usize,
        hash_id: impl Into<HashId>,
    ) -> Result<Self> {
        require_depth(depth)?;
        let Some(cells) = cells_of(columns, depth) else {
            let why = format!("choose 2 to {COLUMNS_MAX} for each row, and no more than memory holds");
            return invalid("columns", columns, why);
        };
        let top = TopKeys::new(top, key_bytes_max)?;
        let (cells, sums) = (vec![0; cells], vec![0; depth as usize]);
        Ok(Self { columns, depth, hash_id: hash_id.into(), cells, sums, top })
    }

    /// The sketch of these cells, row after row, that keeps the `top` best of the sources in `keys`, given by hash and bytes, of up to
    /// `key_bytes_max` bytes.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or [`Error::Incompatible`](crate::Error::Incompatible) for another number of cells.
    pub(crate) fn from_cells(
        columns: u32,
        depth: u32,
        hash_id: HashId,
        cells: Vec<u64>,
        top: usize,
        key_bytes_max: usize,
        keys: &[(KeyHash, Vec<u8>)],
    ) -> Result<Self> {
        let empty = Self::new(columns, depth, top, key_bytes_max, hash_id)?;
        require_equal("the number of cells", empty.cells.len(), cells.len())?;
        let mut sketch = Self { sums: sums_of(&cells, columns), cells, ..empty };
        let slots = keys.iter().map(|(hash, key)| TopKey { hash: *hash, key, truncated: false });
        sketch.top = sketch.best_of(slots.collect())?;
        Ok(sketch)
    }

    /// Takes one item of a source in; `key` are the source's bytes, of which the first are kept if it is one of the best.
    ///
    /// # Cost
    /// One word read in each row, rarely written. Never allocates.
    #[inline]
    pub fn update(&mut self, source: KeyHash, key: &[u8], item: KeyHash) {
        if with_depth!(self.depth, raise(&mut self.cells, &mut self.sums, self.columns, source, item)) {
            self.offer(source, key);
        }
    }

    /// How many distinct items a source has, where nothing is known of it: 0.
    ///
    /// # Accuracy
    /// See [`bounds`](Self::bounds). At 16 registers a row errs by about 28 % of what is in the cell; the median of three, by about 19 %.
    pub fn estimate(&self, source: KeyHash) -> f64 {
        let mut rows = self.rows(source).map(|(cell, noise)| cell - noise).collect::<Vec<_>>();
        median::median_of(&mut rows).max(0.0)
    }

    /// The estimate, with bounds that hold for this source with probability `confidence`.
    ///
    /// # Accuracy
    /// Over the choice of the seed, for a source chosen without looking at the sketch: the interval is the median of the rows',
    /// which fails only where half of the rows do, and a row's is Chebyshev's inequality for the cell's estimate and for what other
    /// sources have in it, whose spread is that over the cells of the row. Cells whose registers are full have no upper bound.
    pub fn bounds(&self, source: KeyHash, confidence: f64) -> DistinctBounds {
        let failure = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0);
        // Half of a row's failures for the cell, half for the others.
        let deviations = (2.0 / median::row_failure(self.depth, failure)).sqrt();
        let cells = self.cells.chunks_exact(self.columns as usize);
        let (mut lowers, mut uppers) = (Vec::new(), Vec::new());
        for ((row, (cell, noise)), cells) in self.rows(source).enumerate().zip(cells) {
            let mean = self.sums[row] as f64 / SCALE / f64::from(self.columns);
            let squares: f64 = cells.iter().map(|&cell| (estimate_of(cell) - mean).powi(2)).sum();
            let others = deviations * (squares / f64::from(self.columns)).sqrt();
            lowers.push(cell / (1.0 + deviations * CELL_ERROR) - noise - others);
            let shrink = 1.0 - deviations * CELL_ERROR;
            let is_full = cell >= FULL;
            uppers.push(if is_full || shrink <= 0.0 {
                f64::INFINITY
            } else {
                cell / shrink - noise + others
            });
        }
        let estimate = self.estimate(source);
        let (lower, upper) = (median::median_of(&mut lowers).max(0.0), median::median_of(&mut uppers));
        DistinctBounds { lower: lower.min(estimate), estimate, upper: upper.max(estimate) }
    }

    /// The `k` sources of the highest estimates of those that are kept, highest first; equal ones in the order of their hashes.
    pub fn top(&self, k: usize) -> Vec<Spreader<'_>> {
        let slots = self.top.iter().map(|slot| (self.score(slot.hash), slot));
        let mut best: Vec<(u64, TopKey<'_>)> = slots.collect();
        best.sort_unstable_by(|(a, here), (b, there)| b.cmp(a).then(here.hash.cmp(&there.hash)));
        best.truncate(k);
        let spreaders = best.into_iter().map(|(score, TopKey { hash, key, truncated, .. })| Spreader {
            hash,
            key,
            truncated,
            items: score as f64 / SCALE,
        });
        spreaders.collect()
    }

    /// How many distinct pairs of a source and an item there were, by the median of the rows' sums.
    pub fn pairs(&self) -> f64 {
        median::median_of(&mut self.sums.iter().map(|&sum| sum as f64 / SCALE).collect::<Vec<_>>())
    }

    /// Takes in the pairs of another sketch. The cells are then those of one sketch that saw both streams; the sources that are kept are
    /// the best of those that either kept.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of columns", self.columns, other.columns)?;
        require_equal("the depth", self.depth, other.depth)?;
        require_equal("the number of sources that are kept", self.top.capacity(), other.top.capacity())?;
        require_equal(
            "the number of bytes kept of a key",
            self.top.key_bytes_max(),
            other.top.key_bytes_max(),
        )?;
        for (cell, &there) in self.cells.iter_mut().zip(&other.cells) {
            *cell = greater_ranks(*cell, there);
        }
        self.sums = sums_of(&self.cells, self.columns);
        self.top = self.best_of(self.top.iter().chain(other.top.iter()).collect())?;
        Ok(())
    }

    /// The sketch as bytes: header, columns u32, depth u32; cells u64, row after row; the slots of the sources that are kept: their
    /// number u32, key_bytes_max u32, slots in use u32, zero u32, then hash u128, score u64 (items times 65536), key length u16 (bit 15:
    /// truncated), key bytes padded with zeros, of each. Free slots are zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload_bytes = SHAPE_BYTES + size_of_val(&self.cells[..]) + self.top.encoded_bytes();
        let mut encoder = Encoder::new(format::LOCHER, Some(self.hash_id), payload_bytes);
        encoder.u32(self.columns);
        encoder.u32(self.depth);
        self.cells.iter().for_each(|&cell| encoder.u64(cell));
        self.top.put(&mut encoder);
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::LOCHER)?;
        let hash_id = decoder.hash_id()?;
        let (columns, depth) = (decoder.u32()?, decoder.u32()?);
        let cells = cells_of(columns, depth).filter(|_| (1..=DEPTH_MAX).contains(&depth));
        let Some(cells) = cells.filter(|&cells| cells <= decoder.left() / size_of::<u64>()) else {
            let left = decoder.left();
            let expected = format!("at most {DEPTH_MAX} rows of 2 to {COLUMNS_MAX} cells in {left} bytes");
            return Err(decoder.corrupt("the shape", expected, format!("{depth} rows of {columns}")));
        };
        let (words, _) = decoder.take(cells * size_of::<u64>())?.as_chunks();
        let cells: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let top = TopKeys::read(&mut decoder)?;
        decoder.require_left(Some(0))?;
        let sums = sums_of(&cells, columns);
        Ok(Self { columns, depth, hash_id, cells, sums, top })
    }

    /// Cells of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How many sources are kept.
    pub fn sources_max(&self) -> usize {
        self.top.capacity()
    }

    /// How many bytes of a source's key are kept.
    pub fn key_bytes_max(&self) -> usize {
        self.top.key_bytes_max()
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        let words = (self.cells.capacity() + self.sums.capacity()) * size_of::<u64>();
        size_of::<Self>() + words + self.top.memory_bytes()
    }

    /// Gives a source the place among the best that its cells say.
    pub(crate) fn offer(&mut self, source: KeyHash, key: &[u8]) {
        self.top.offer(source, self.score(source), key);
    }

    /// As many of these sources as are kept, the best first, each once.
    fn best_of(&self, slots: Vec<TopKey<'_>>) -> Result<TopKeys> {
        let mut slots: Vec<(u64, TopKey<'_>)> =
            slots.into_iter().map(|slot| (self.score(slot.hash), slot)).collect();
        slots.sort_unstable_by(|(a, here), (b, there)| b.cmp(a).then(here.hash.cmp(&there.hash)));
        slots.dedup_by_key(|(_, slot)| slot.hash);
        let mut top = TopKeys::new(self.top.capacity(), self.top.key_bytes_max())?;
        for (score, slot) in slots.into_iter().take(self.top.capacity()) {
            top.offer_kept(slot.hash, score, slot.key, slot.truncated);
        }
        Ok(top)
    }

    /// Of each row: what the source's cell says, and what is in it of others, on average.
    fn rows(&self, source: KeyHash) -> impl Iterator<Item = (f64, f64)> {
        let columns = self.columns;
        let rows = self.cells.chunks_exact(columns as usize).zip(&self.sums).enumerate();
        rows.map(move |(row, (cells, &sum))| {
            let cell = cells[keyhash::column(source.fold(), row as u32, columns.into()) as usize];
            let others = sum - scaled(cell);
            (estimate_of(cell), others as f64 / SCALE / f64::from(columns - 1))
        })
    }

    fn score(&self, source: KeyHash) -> u64 {
        (self.estimate(source) * SCALE) as u64
    }
}

/// The shape's fields in the payload.
const SHAPE_BYTES: usize = 2 * size_of::<u32>();

/// The cells of a shape, where a row's sum and memory can hold them.
fn cells_of(columns: u32, depth: u32) -> Option<usize> {
    if !(2..=COLUMNS_MAX).contains(&columns) {
        return None;
    }
    let cells = usize::try_from(columns).ok()?.checked_mul(depth as usize)?;
    cells.checked_mul(size_of::<u64>()).filter(|&bytes| bytes <= isize::MAX as usize).map(|_| cells)
}

/// Takes a pair in, in each row; whether anything changed.
#[inline(always)]
fn raise<const D: usize>(
    cells: &mut [u64],
    sums: &mut [u64],
    columns: u32,
    source: KeyHash,
    item: KeyHash,
) -> bool {
    let places = keyhash::columns::<D>(source.fold(), u64::from(columns));
    let ranks = ranks_of::<D>(source, item);
    let mut changed = false;
    for row in 0..D {
        let cell = &mut cells[row * columns as usize + places[row] as usize];
        let (register, rank) = ranks[row];
        if rank > rank_in(*cell, register) {
            raise_register(cell, &mut sums[row], register, rank);
            changed = true;
        }
    }
    changed
}

/// The register of a cell and the rank that a pair brings, in each row.
#[inline(always)]
pub(crate) fn ranks_of<const D: usize>(source: KeyHash, item: KeyHash) -> [(u32, u64); D] {
    // 32 bits a row of the pair: 4 for the register, the rest for the rank. A row's upper bits depend on all bits of the pair.
    let pairs = keyhash::columns::<D>(item.fold() ^ source.low().rotate_left(32), 1 << 32);
    pairs.map(|pair| {
        let bits = pair as u32;
        (bits >> 28, u64::from((bits << 4).leading_zeros() + 1).min(RANK_MAX))
    })
}

/// The cell of these ranks, one of each register.
#[inline]
pub(crate) fn cell_of(ranks: &[u64]) -> u64 {
    ranks.iter().rev().fold(0, |cell, &rank| cell << 4 | rank & RANK_MAX)
}

/// How many items a source's cells hold, those of others with it: the median of the rows.
pub(crate) fn median_items<const D: usize>(cells: [u64; D]) -> f64 {
    median::median_of(&mut cells.map(estimate_of))
}

#[inline]
fn rank_in(cell: u64, register: u32) -> u64 {
    cell >> (4 * register) & RANK_MAX
}

/// Gives a register of a cell a rank, and the row's sum what that adds.
#[cold]
fn raise_register(cell: &mut u64, sum: &mut u64, register: u32, rank: u64) {
    *sum -= scaled(*cell);
    *cell = *cell & !(RANK_MAX << (4 * register)) | rank << (4 * register);
    *sum += scaled(*cell);
}

/// Each register's greater rank.
fn greater_ranks(here: u64, there: u64) -> u64 {
    (0..REGISTERS as u32).fold(0, |cell, register| {
        cell | rank_in(here, register).max(rank_in(there, register)) << (4 * register)
    })
}

fn sums_of(cells: &[u64], columns: u32) -> Vec<u64> {
    cells.chunks_exact(columns as usize).map(|row| row.iter().map(|&cell| scaled(cell)).sum()).collect()
}

/// A cell's estimate as a whole number, so that sums do not depend on their order: 2^36 at most, so that those of a row of
/// [`COLUMNS_MAX`] sum to less than 2^64.
fn scaled(cell: u64) -> u64 {
    (estimate_of(cell) * SCALE) as u64
}

/// From here on a cell's registers tell little.
const FULL: f64 = 200_000.0;
/// What a cell whose registers are all full counts as.
const CELL_MAX: f64 = (1u64 << 20) as f64;
/// The most columns: so many full cells a row's sum can hold.
const COLUMNS_MAX: u32 = (u64::MAX / (CELL_MAX * SCALE) as u64) as u32;
const _: () = assert!(COLUMNS_MAX == (1 << 28) - 1);

/// `16 sigma(i / 16)` of `i` empty registers, and `16 tau(1 - i / 16)` of `i` full ones.
static ENDS: LazyLock<[(f64, f64); REGISTERS + 1]> = LazyLock::new(|| {
    let m = REGISTERS as f64;
    std::array::from_fn(|i| (m * sigma(i as f64 / m), m * tau(1.0 - i as f64 / m)))
});

/// How many items a cell has: Ertl (2017), Algorithm 6, with 16 registers and q = 14, less the bias that so few registers have.
///
/// The estimate is a quotient by something that varies, so it is too high by about the relative variance: that of linear counting,
/// `((e^t - t - 1) / (2 t) + 1 / 2) / 16` at `t` items a register, and from there on that of HyperLogLog, `1.08 / 16`. What is left
/// is below 1.6 %.
fn estimate_of(cell: u64) -> f64 {
    let (mut empty, mut full) = (0, 0);
    // The sum of 2^-rank over ranks of 1 to 14, in units of 2^-14.
    let mut sum = 0u32;
    for register in 0..REGISTERS as u32 {
        match rank_in(cell, register) {
            0 => empty += 1,
            RANK_MAX => full += 1,
            rank => sum += 1 << (14 - rank),
        }
    }
    if full == REGISTERS {
        return CELL_MAX;
    }
    let (m, (few, many)) = (REGISTERS as f64, (ENDS[empty].0, ENDS[full].1));
    let z = few + (f64::from(sum) + many) / 16384.0;
    let estimate = m * m / (2.0 * std::f64::consts::LN_2 * z);
    let t = estimate / m;
    let variance = if t == 0.0 { 0.0 } else { ((t.exp() - t - 1.0) / (2.0 * t) + 0.5).min(1.08) };
    (estimate / (1.0 + variance / m)).min(CELL_MAX)
}

#[cfg(test)]
mod tests;
