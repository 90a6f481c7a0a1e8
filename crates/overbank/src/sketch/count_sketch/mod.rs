//! Count sketch: how often a key occurred, too high as often as too low, also where occurrences are taken back.
//!
//! ```text
//!   KeyHash ─ fold() ─▶ one cell in each of `depth` rows          low() ─ bit r ─▶ the sign of row r
//!   update: each of them += sign * weight                         estimate: the median of sign * cell
//! ```
//!
//! 1. While the absolute weights sum to at most `i64::MAX`, each cell is the exact sum of the signed weights of its keys,
//!    and the absolute values of a row's cells sum to at most that. Beyond it cells stop at the ends of their type, the sketch
//!    is [`saturated`](CountSketch::saturated), and no bound is known. No cell wraps.
//! 2. A sketch is linear: that of two streams is the sum of theirs, and that of their difference is the difference.
//! 3. Unless it is saturated, the state does not depend on order, batches or the tree of merges.
//!
//! | operation                       | CPU             | memory touched   |
//! |---------------------------------|-----------------|------------------|
//! | `update`, `estimate`            | O(depth)        | `depth` cells    |
//! | `bounds`, `error_bound`         | O(cells)        | all              |
//! | `merge`, `subtract`, `to_bytes` | O(cells)        | all              |
//! | the sketch                      | –               | 8 bytes a cell   |
//!
//! Source: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams" (ICALP 2002).
//!
//! Deviations: the paper's sketch keeps a heap of the heavy keys. Here that is [`SpaceSaving::admit`](super::SpaceSaving::admit)
//! with this sketch's estimates, as in [`UnivMon`](super::UnivMon). Its constants (8 and 256 times the inverse square of the error)
//! are those of a proof; the bounds given here count how likely it is that half of the rows err together, by Chebyshev's inequality for
//! each row, and take the second moment from the sketch itself.

use super::depth::{DEPTH_MAX, require_depth, with_depth};
use super::format::{self, Decoder, Encoder};
use super::hash_id::{HashId, require_equal};
use super::median;
use crate::error::invalid;
use crate::{KeyHash, Result};

/// What the absolute weights may sum to: then no cell leaves its type.
const WEIGHT_MAX: u64 = i64::MAX as u64;
/// The shape's fields in the payload.
const SHAPE_BYTES: usize = 2 * size_of::<u32>() + size_of::<u64>();

/// A count that may be negative, with the interval that holds the true one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignedBounds {
    /// The true count is not below this; `i64::MIN` says that no bound is known.
    pub lower: i64,
    /// The sketch's estimate.
    pub estimate: i64,
    /// The true count is not above this; `i64::MAX` says that no bound is known.
    pub upper: i64,
}

/// Estimates how often each key occurred, without bias; weights may be negative.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::CountSketch};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut stock = CountSketch::new(1024, 5, &hasher)?;
/// stock.update(hasher.hash(b"apples"), 300);
/// stock.update(hasher.hash(b"pears"), 40);
/// stock.update(hasher.hash(b"apples"), -100);
/// assert_eq!(stock.estimate(hasher.hash(b"apples")), 200);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountSketch {
    pub(crate) columns: u32,
    pub(crate) depth: u32,
    hash_id: HashId,
    /// The sum of the absolute weights; stops at `u64::MAX`.
    pub(crate) total_weight: u64,
    /// Row after row.
    pub(crate) cells: Vec<i64>,
}

impl CountSketch {
    /// An empty sketch of `depth` rows of `columns` cells, for keys hashed under `hash_id`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) where one is 0, `depth` is above 16, or memory cannot hold it.
    pub fn new(columns: u32, depth: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        require_depth(depth)?;
        let Some(cells) = cells_of(columns, depth).filter(|&cells| cells > 0) else {
            return invalid("columns", columns, "each row needs at least one, and memory must hold them");
        };
        Ok(Self { columns, depth, hash_id: hash_id.into(), total_weight: 0, cells: vec![0; cells] })
    }

    /// The sketch of these cells, row after row, whose keys' absolute weights sum to `total_weight`, that something else counted. A key's
    /// cell of row `r` is that of count-min ([`CountMin::from_cells`](super::CountMin::from_cells)); its weight is taken off where bit
    /// `r` of `hash.low()` is set.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or [`Error::Incompatible`](crate::Error::Incompatible) for another number of cells.
    pub fn from_cells(
        columns: u32,
        depth: u32,
        hash_id: HashId,
        total_weight: u64,
        cells: Vec<i64>,
    ) -> Result<Self> {
        let empty = Self::new(columns, depth, hash_id)?;
        require_equal("the number of cells", empty.cells.len(), cells.len())?;
        Ok(Self { total_weight, cells, ..empty })
    }

    /// The sketch whose estimates are off by more than `epsilon * L2` with probability at most `delta`, where L2 is the root of the
    /// sum of the squared counts: `columns = ceil(8 / epsilon^2)`, and the fewest rows, an odd number, that do.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) unless `2^-14 <= epsilon < 1` and `0.0002 <= delta < 1`.
    pub fn with_error(epsilon: f64, delta: f64, hash_id: impl Into<HashId>) -> Result<Self> {
        if !(2f64.powi(-14)..1.0).contains(&epsilon) {
            return invalid("epsilon", epsilon, "choose a share of the L2 norm from 2^-14 to below 1");
        }
        let columns = (8.0 / (epsilon * epsilon)).ceil();
        let row_failure = 1.0 / (columns * epsilon * epsilon);
        let depth =
            (1..=DEPTH_MAX).step_by(2).find(|&depth| median::median_failure(depth, row_failure) <= delta);
        match depth {
            Some(depth) if delta < 1.0 => Self::new(columns as u32, depth, hash_id),
            _ => invalid("delta", delta, "choose a failure probability from 0.0002 to below 1"),
        }
    }

    /// Adds `weight`, which may be negative, to a key.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, weight: i64) {
        self.total_weight = self.total_weight.saturating_add(weight.unsigned_abs());
        let (cells, columns) = (&mut self.cells[..], self.columns);
        if self.total_weight > WEIGHT_MAX {
            return add_saturating(cells, columns, hash, weight);
        }
        with_depth!(self.depth, add(cells, columns, hash, weight));
    }

    /// Adds `weights[i]` to `hashes[i]`; without weights, 1 to each.
    ///
    /// # Panics
    /// If there are weights, but not one for each key.
    pub fn update_batch(&mut self, hashes: &[KeyHash], weights: Option<&[i64]>) {
        assert!(weights.is_none_or(|weights| weights.len() == hashes.len()), "one weight for each key");
        let sum = match weights {
            None => hashes.len() as u64,
            Some(weights) => {
                weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(weight.unsigned_abs()))
            }
        };
        if self.total_weight.saturating_add(sum) > WEIGHT_MAX {
            for (i, &hash) in hashes.iter().enumerate() {
                self.update(hash, weights.map_or(1, |weights| weights[i]));
            }
            return;
        }
        self.total_weight += sum;
        with_depth!(self.depth, add_all(&mut self.cells, self.columns, hashes, weights));
    }

    /// The median of what a key's rows say; of an even number of rows, the mean of the middle two, rounded towards zero.
    ///
    /// # Accuracy
    /// Without bias (the median of an odd number of rows, each without bias and symmetric); see [`bounds`](Self::bounds).
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> i64 {
        with_depth!(self.depth, median_of_rows(&self.cells, self.columns, hash))
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`: [`error_bound`](Self::error_bound) to
    /// either side.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> SignedBounds {
        self.bounds_within(hash, self.error_bound(confidence))
    }

    /// [`bounds`](Self::bounds), given the [`error_bound`](Self::error_bound).
    pub(crate) fn bounds_within(&self, hash: KeyHash, error: u64) -> SignedBounds {
        let estimate = self.estimate(hash);
        match i64::try_from(error) {
            Err(_) => SignedBounds { lower: i64::MIN, estimate, upper: i64::MAX },
            Ok(error) => SignedBounds {
                lower: estimate.saturating_sub(error),
                estimate,
                upper: estimate.saturating_add(error),
            },
        }
    }

    /// How much a key's estimate is off at most, with probability `confidence`; `u64::MAX` where the sketch is saturated.
    ///
    /// # Accuracy
    /// Fails with probability at most `1 - confidence` over the choice of the seed, for a key chosen without looking at the
    /// sketch. Half of that is for the key: a row is off by more than `b * L2 / sqrt(columns)` with probability `1 / b^2`
    /// (Chebyshev; the variance of a row is at most `L2^2 / columns`), and the median only if half of the rows are. The other half
    /// is for L2, which is taken from the rows' sums of squares, whose variance is at most `2 L2^4 / columns`. No bound exceeds
    /// the total weight, which is certain.
    pub fn error_bound(&self, confidence: f64) -> u64 {
        if self.saturated() {
            return u64::MAX;
        }
        let failure = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0) / 2.0;
        let row_failure = median::row_failure(self.depth, failure);
        let columns = f64::from(self.columns);
        let short = (2.0 / (columns * row_failure)).sqrt();
        let total = self.total_weight as f64;
        let second_moment = match short < 1.0 {
            true => (self.second_moment() / (1.0 - short)).min(total * total),
            false => total * total,
        };
        let error = (second_moment / (columns * row_failure)).sqrt();
        // The mean of two rows is rounded.
        let rounded = u64::from(self.depth.is_multiple_of(2));
        (error.floor() as u64).saturating_add(rounded).min(self.total_weight)
    }

    /// An estimate of the sum of the squared counts, without bias in each row: the median of the rows.
    ///
    /// # Accuracy
    /// The standard error of a row is at most `sqrt(2 / columns)` of the truth (Alon, Matias and Szegedy, 1996).
    pub fn second_moment(&self) -> f64 {
        let rows = self.cells.chunks_exact(self.columns as usize);
        let mut sums: Vec<f64> =
            rows.map(|row| row.iter().map(|&cell| (cell as f64).powi(2)).sum()).collect();
        median::median_of(&mut sums)
    }

    /// The sum of the absolute values of all weights; stops at `u64::MAX`.
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// Whether more weight came than cells can be relied on to count, so that no bound is known.
    pub fn saturated(&self) -> bool {
        self.total_weight > WEIGHT_MAX
    }

    /// Adds another sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// [`Error::Incompatible`](crate::Error::Incompatible) where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.combine(other, i64::saturating_add)
    }

    /// Subtracts another sketch: estimates are then those of how much more often a key occurred here than there.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub fn subtract(&mut self, other: &Self) -> Result<()> {
        self.combine(other, i64::saturating_sub)
    }

    /// The sketch as bytes: header, columns u32, depth u32, total weight u64, cells i64, row after row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload_bytes = SHAPE_BYTES + size_of_val(&self.cells[..]);
        let mut encoder = Encoder::new(format::COUNT_SKETCH, Some(self.hash_id), payload_bytes);
        self.put(&mut encoder);
        encoder.seal()
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion), or
    /// [`Error::Incompatible`](crate::Error::Incompatible) for another structure's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::open(bytes, format::COUNT_SKETCH)?;
        let hash_id = decoder.hash_id()?;
        let sketch = Self::read(&mut decoder, hash_id)?;
        decoder.require_left(Some(0))?;
        Ok(sketch)
    }

    /// Appends the payload.
    pub(super) fn put(&self, encoder: &mut Encoder) {
        encoder.u32(self.columns);
        encoder.u32(self.depth);
        encoder.u64(self.total_weight);
        self.cells.iter().for_each(|cell| encoder.raw(&cell.to_le_bytes()));
    }

    /// Reads what [`put`](Self::put) appended.
    pub(super) fn read(decoder: &mut Decoder<'_>, hash_id: HashId) -> Result<Self> {
        let (columns, depth) = (decoder.u32()?, decoder.u32()?);
        let total_weight = decoder.u64()?;
        let cells = cells_of(columns, depth).filter(|&cells| cells > 0 && depth <= DEPTH_MAX);
        let Some(cells) = cells.filter(|&cells| cells <= decoder.left() / size_of::<i64>()) else {
            let expected = format!("at most {DEPTH_MAX} rows in {} bytes of cells", decoder.left());
            return Err(decoder.corrupt("the shape", expected, format!("{depth} rows of {columns}")));
        };
        let mut sketch = Self { columns, depth, hash_id, total_weight, cells: Vec::with_capacity(cells) };
        let (words, _) = decoder.take(cells * size_of::<i64>())?.as_chunks();
        sketch.cells.extend(words.iter().map(|word| i64::from_le_bytes(*word)));
        if !sketch.saturated() {
            for row in sketch.cells.chunks_exact(columns as usize) {
                let sum: u128 = row.iter().map(|cell| u128::from(cell.unsigned_abs())).sum();
                if sum > u128::from(total_weight) {
                    let expected = format!("at most {total_weight}");
                    return Err(decoder.corrupt("the sum of a row's absolute cells", expected, sum));
                }
            }
        }
        Ok(sketch)
    }

    /// Columns of a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.cells.capacity() * size_of::<i64>()
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) -> Result<()> {
        self.require_equal_shape(other)?;
        self.total_weight = self.total_weight.saturating_add(other.total_weight);
        for (cell, &there) in self.cells.iter_mut().zip(&other.cells) {
            *cell = with(*cell, there);
        }
        Ok(())
    }

    pub(super) fn require_equal_shape(&self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of columns", self.columns, other.columns)?;
        require_equal("the depth", self.depth, other.depth)
    }
}

/// `weight` with the sign of a key in a row. Given the fold, which decides the columns, the bits of `low()` are still uniform.
#[inline]
pub(crate) fn signed(hash: KeyHash, row: usize, weight: i64) -> i64 {
    let negative = ((hash.low() >> row) & 1) as i64;
    // Never `i64::MIN`: that is beyond the weights that cells are exact for.
    (weight ^ negative.wrapping_neg()).wrapping_add(negative)
}

fn cells_of(columns: u32, depth: u32) -> Option<usize> {
    let cells = usize::try_from(columns).ok()?.checked_mul(depth as usize)?;
    cells.checked_mul(size_of::<i64>()).filter(|&bytes| bytes <= isize::MAX as usize).map(|_| cells)
}

/// Adds to a key's cells, none of which can leave its type.
#[inline(always)]
fn add<const D: usize>(cells: &mut [i64], columns: u32, hash: KeyHash, weight: i64) {
    let places = keyhash::columns::<D>(hash.fold(), u64::from(columns));
    for (row, &place) in places.iter().enumerate() {
        let cell = &mut cells[row * columns as usize + place as usize];
        *cell = cell.wrapping_add(signed(hash, row, weight));
    }
}

fn add_all<const D: usize>(cells: &mut [i64], columns: u32, hashes: &[KeyHash], weights: Option<&[i64]>) {
    match weights {
        None => hashes.iter().for_each(|&hash| add::<D>(cells, columns, hash, 1)),
        Some(weights) => {
            hashes.iter().zip(weights).for_each(|(&hash, &weight)| add::<D>(cells, columns, hash, weight));
        }
    }
}

#[cold]
fn add_saturating(cells: &mut [i64], columns: u32, hash: KeyHash, weight: i64) {
    for (row, cells) in cells.chunks_exact_mut(columns as usize).enumerate() {
        let cell = &mut cells[keyhash::column(hash.fold(), row as u32, u64::from(columns)) as usize];
        *cell = match signed(hash, row, 1) < 0 {
            true => cell.saturating_sub(weight),
            false => cell.saturating_add(weight),
        };
    }
}

#[inline]
fn median_of_rows<const D: usize>(cells: &[i64], columns: u32, hash: KeyHash) -> i64 {
    let places = keyhash::columns::<D>(hash.fold(), u64::from(columns));
    median_of(
        std::array::from_fn::<_, D, _>(|row| cells[row * columns as usize + places[row] as usize]),
        hash,
    )
}

/// The median of what a key's cells, one of each row, say of it.
#[inline]
pub(crate) fn median_of<const D: usize>(mut cells: [i64; D], hash: KeyHash) -> i64 {
    for (row, cell) in cells.iter_mut().enumerate() {
        // What stands at the end of its type stays there.
        *cell = if signed(hash, row, 1) < 0 { cell.saturating_neg() } else { *cell };
    }
    cells.sort_unstable();
    match D % 2 {
        1 => cells[D / 2],
        _ => ((i128::from(cells[D / 2 - 1]) + i128::from(cells[D / 2])) / 2) as i64,
    }
}

#[cfg(test)]
mod tests;
