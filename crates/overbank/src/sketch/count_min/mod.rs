//! Count-min: how often a key occurred, never too low, and too high by little.
//!
//! ```text
//!   KeyHash ─▶ page (range of the hash) ─▶ one cell in each of `depth` rows
//!   update: all of them += weight          estimate: the least of them
//! ```
//!
//! 1. Without saturation each cell is the exact total weight of the keys that map to it, so the sum of a row
//!    of a page is the total weight of the page.
//! 2. An estimate is never below the true count. (A saturated one says so: its upper bound is `u64::MAX`.)
//! 3. Cells saturate. `saturated` is set iff a cell stands at its maximum.
//! 4. The state does not depend on order, batches, shards or the tree of merges.
//!
//! | operation                     | CPU                | memory touched            |
//! |-------------------------------|--------------------|---------------------------|
//! | `update`, `estimate`          | O(depth)           | `depth` cells of one page |
//! | `bounds`                      | O(columns)         | row 0 of one page         |
//! | `error_bound`, `total_weight` | O(pages · columns) | row 0 of all pages        |
//! | `merge`, `to_bytes`           | O(cells)           | all                       |
//! | the sketch                    | –                  | `cells · size_of::<C>()`  |
//!
//! Source: Cormode and Muthukrishnan, "An improved data stream summary" (2005); pages, hash localisation and
//! Theorem 1: Goswami et al., "Buffered count-min sketch on SSD" (ESA 2018), sections 3 and 4.
//!
//! Deviations: Theorem 1 bounds the load of a page by that of balls in bins, which a single heavy key breaks.
//! The page's own load is known (invariant 1), so the bounds given here are Markov's inequality on that load:
//! they hold for every stream and every n. Theorem 1's figure is [`Layout::theorem_1_error`]. Inside a page
//! the rows lie one after the other, so that a row is one slice.

mod cell;
pub mod layout;
pub(crate) mod small;

pub use cell::Cell;
pub use layout::Layout;

use super::CountBounds;
use super::format::{self, Decoder, Encoder, HEADER_BYTES, corrupt};
use super::hash_id::{HashId, require_equal};
use super::stream::{self, Reader};
use crate::bits::prefetch::prefetch;
use crate::{Error, KeyHash, Result};

/// Where the saturation flag is in the payload, and where the cells begin.
const SATURATED_AT: usize = size_of::<u64>() + 3 * size_of::<u32>();
const SHAPE_BYTES: usize = SATURATED_AT + 4;
const _: () = assert!(SHAPE_BYTES == 24);
/// Cells that are written or read at a time.
const PIECE_CELLS: usize = 4096;

/// Estimates how often each key occurred, in cells of `u32` or `u64`.
///
/// ```
/// use overbank::{HashKind, KeyHasher, Seed, sketch::CountMin};
///
/// let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
/// let mut clicks = CountMin::<u32>::with_error(0.001, 0.01, &hasher)?;
/// clicks.update(hasher.hash(b"/index.html"), 3);
/// clicks.update(hasher.hash(b"/about.html"), 1);
/// assert_eq!(clicks.estimate(hasher.hash(b"/index.html")), 3);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountMin<C: Cell> {
    layout: Layout,
    hash_id: HashId,
    saturated: bool,
    cells: Vec<C>,
}

/// Calls `$call::<C, D>` with the depth as a constant: the constants of the rows are then folded away.
macro_rules! with_depth {
    ($depth:expr, $call:ident $arguments:tt) => {
        with_depth!(@ $depth, $call $arguments, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $depth:expr, $call:ident $arguments:tt, $($d:literal)*) => {
        match $depth {
            $($d => with_depth!(@call $call, $d, $arguments),)*
            _ => with_depth!(@call $call, 16, $arguments),
        }
    };
    (@call $call:ident, $d:literal, ($($argument:expr),*)) => { $call::<C, $d>($($argument),*) };
}

impl<C: Cell> CountMin<C> {
    /// An empty sketch of `layout`, for keys hashed under `hash_id`.
    pub fn new(layout: Layout, hash_id: impl Into<HashId>) -> Self {
        let cells = vec![C::ZERO; layout.cells()];
        Self { layout, hash_id: hash_id.into(), saturated: false, cells }
    }

    /// The classic sketch of one page; see [`Layout::with_error`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn with_error(epsilon: f64, delta: f64, hash_id: impl Into<HashId>) -> Result<Self> {
        Ok(Self::new(Layout::with_error(epsilon, delta)?, hash_id))
    }

    /// `pages` pages of `depth` rows of `columns` cells.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn with_shape(pages: u64, columns: u32, depth: u32, hash_id: impl Into<HashId>) -> Result<Self> {
        Ok(Self::new(Layout::with_shape(pages, columns, depth)?, hash_id))
    }

    /// Pages of one block body in at most `bytes`, a multiple of `shards` of them; see [`Layout::with_bytes`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub fn with_bytes(bytes: usize, depth: u32, shards: usize, hash_id: impl Into<HashId>) -> Result<Self> {
        Ok(Self::new(Layout::with_bytes(bytes, depth, C::BYTES, shards as u64)?, hash_id))
    }

    /// Adds `weight` to a key.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, weight: u64) {
        self.saturated |= add(&mut self.cells, &self.layout, 0, hash, weight);
    }

    /// Adds `weights[i]` to `hashes[i]`; without weights, 1 to each. Keys in hash order touch the pages in
    /// order.
    ///
    /// # Panics
    /// If there are weights, but not one for each key.
    pub fn update_batch(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) {
        self.saturated |= add_batch(&mut self.cells, &self.layout, 0, hashes, weights);
    }

    /// Splits the pages into `shards` disjoint ranges of the hash, for as many threads.
    ///
    /// Shard `i` takes exactly the keys with `range_of(high, shards) == i`: for a power of two, those whose
    /// top bits are `i`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `shards` divides the number of pages.
    pub fn split_mut(&mut self, shards: usize) -> Result<CountMinShards<'_, C>> {
        let pages = self.layout.pages() as usize;
        if shards == 0 || !pages.is_multiple_of(shards) {
            let why = format!("it must divide the {pages} pages; round them with Layout::localised");
            return Err(Error::InvalidOption { name: "shards", value: shards.to_string(), why });
        }
        let (layout, each) = (self.layout, pages / shards);
        let slices = self.cells.chunks_exact_mut(each * layout.page_cells()).enumerate();
        let shards = slices
            .map(|(i, cells)| CountMinShard { layout, first_page: i * each, saturated: false, cells })
            .collect();
        Ok(CountMinShards { shards, saturated: &mut self.saturated })
    }

    /// The least of a key's cells: at least its true count, unless that cell stands at its maximum.
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        let base = self.layout.page_of(hash) * self.layout.page_cells();
        least(&self.cells[base..base + self.layout.page_cells()], &self.layout, hash)
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`.
    ///
    /// # Accuracy
    /// `upper` is certain. `lower` fails with probability at most `1 - confidence` over the choice of the seed,
    /// for a key chosen without looking at the sketch: each row's error has an expectation of at most
    /// `page weight / columns`, so by Markov all `depth` rows are off by `b` times that with probability
    /// `b^-depth`.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        let estimate = self.estimate(hash);
        let error = self.markov_error(self.page_weight(self.layout.page_of(hash)), confidence);
        let upper = if estimate == C::MAX.count() { u64::MAX } else { estimate };
        CountBounds { lower: estimate.saturating_sub(error), estimate, upper }
    }

    /// [`CountBounds::lower`] of [`bounds`](Self::bounds).
    pub fn lower_bound(&self, hash: KeyHash, confidence: f64) -> u64 {
        self.bounds(hash, confidence).lower
    }

    /// What the true count cannot exceed: the estimate, or `u64::MAX` where its cells are saturated.
    pub fn upper_bound(&self, hash: KeyHash) -> u64 {
        let estimate = self.estimate(hash);
        if estimate == C::MAX.count() { u64::MAX } else { estimate }
    }

    /// An error that no fixed key's estimate exceeds with probability `confidence`, whatever the stream: that
    /// of the fullest page.
    pub fn error_bound(&self, confidence: f64) -> u64 {
        let fullest = (0..self.layout.pages() as usize).map(|page| self.page_weight(page)).max();
        self.markov_error(fullest.unwrap_or(0), confidence)
    }

    /// The total weight, or a lower bound of it once [`saturated`](Self::saturated).
    pub fn total_weight(&self) -> u64 {
        let pages = 0..self.layout.pages() as usize;
        pages.fold(0, |total: u64, page| total.saturating_add(self.page_weight(page)))
    }

    /// Whether a cell stands at its maximum, so that estimates may be too low.
    pub fn saturated(&self) -> bool {
        self.saturated
    }

    /// Adds another sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.hash_id.require(other.hash_id)?;
        require_equal("the number of pages", self.layout.pages(), other.layout.pages())?;
        require_equal("the number of columns", self.layout.columns(), other.layout.columns())?;
        require_equal("the depth", self.layout.depth(), other.layout.depth())?;
        for (cell, &more) in self.cells.iter_mut().zip(&other.cells) {
            *cell = cell.plus(more.count());
            self.saturated |= *cell == C::MAX;
        }
        Ok(())
    }

    /// The sketch as bytes: header, pages u64, columns u32, depth u32, cell size u32, saturated u8, 3 zeros,
    /// cells.
    pub fn to_bytes(&self) -> Vec<u8> {
        stream::collect(self.encoded_bytes(), |sink| self.write_to(sink))
    }

    /// How many bytes [`to_bytes`](Self::to_bytes) has.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + SHAPE_BYTES + self.cells.len() * C::BYTES
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) piece by piece, without a second copy of the sketch.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write_to(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let pieces = 1 + self.cells.len().div_ceil(PIECE_CELLS);
        let put = |piece: usize, encoder: &mut Encoder| match piece.checked_sub(1) {
            None => {
                encoder.u64(self.layout.pages());
                encoder.u32(self.layout.columns());
                encoder.u32(self.layout.depth());
                encoder.u32(C::BYTES as u32);
                encoder.u8(self.saturated.into());
                encoder.raw(&[0; 3]);
            }
            Some(piece) => {
                let cells = self.cells.iter().skip(piece * PIECE_CELLS).take(PIECE_CELLS);
                cells.for_each(|cell| cell.put(encoder.bytes_mut()));
            }
        };
        stream::write(format::COUNT_MIN, Some(self.hash_id), pieces, &put, sink)
    }

    /// The sketch back from its bytes, which may come from anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::UnsupportedVersion`], or [`Error::Incompatible`] for another structure's
    /// bytes or another cell size.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Decoder::open(bytes, format::COUNT_MIN)?;
        Self::read_from(bytes.len(), &mut stream::source_of(bytes))
    }

    /// The sketch back from `total_bytes` bytes that `source` gives in order, without a second copy of it.
    ///
    /// # Errors
    /// Those of `source`, and those of [`from_bytes`](Self::from_bytes). Memory is allocated only after the shape was
    /// found to fit `total_bytes`. The checksum is compared last, so damaged bytes may be another error than a wrong one.
    pub fn read_from(total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Self> {
        let mut reader = Reader::open(total_bytes, source, format::COUNT_MIN)?;
        let cell_bytes = reader.left().saturating_sub(SHAPE_BYTES);
        let mut shape = reader.piece(SHAPE_BYTES)?;
        let hash_id = shape.hash_id()?;
        let (pages, columns, depth) = (shape.u64()?, shape.u32()?, shape.u32()?);
        require_equal("the size of a cell", C::BYTES as u32, shape.u32()?)?;
        let saturated = shape.u8()?;
        shape.zeros(3)?;
        let layout = Layout::with_shape(pages, columns, depth);
        let layout = layout.map_err(|why| shape.impossible("the shape", "a valid one", why))?;
        if layout.cells_checked().and_then(|cells| cells.checked_mul(C::BYTES)) != Some(cell_bytes) {
            let expected = format!("one of {cell_bytes} bytes of cells");
            return Err(shape.impossible("the shape", expected, format!("{layout:?}")));
        }
        let mut cells: Vec<C> = Vec::with_capacity(layout.cells());
        while reader.left() > 0 {
            let mut piece = reader.piece(reader.left().min(PIECE_CELLS * C::BYTES))?;
            cells.extend(piece.raw(piece.left())?.chunks_exact(C::BYTES).map(C::get));
        }
        reader.finish()?;
        let expected = cells.contains(&C::MAX);
        if saturated != u8::from(expected) {
            let at = HEADER_BYTES + SATURATED_AT;
            return Err(corrupt(at, "the saturation flag", u8::from(expected), saturated));
        }
        Ok(Self { layout, hash_id, saturated: expected, cells })
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The hash that this sketch's keys were hashed with.
    pub fn hash_id(&self) -> HashId {
        self.hash_id
    }

    /// How much memory the sketch holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.cells.capacity() * C::BYTES
    }

    /// The weight of the keys of one page: the sum of its row 0.
    fn page_weight(&self, page: usize) -> u64 {
        let base = page * self.layout.page_cells();
        let row = &self.cells[base..base + self.layout.columns() as usize];
        row.iter().fold(0, |total: u64, cell| total.saturating_add(cell.count()))
    }

    fn markov_error(&self, page_weight: u64, confidence: f64) -> u64 {
        let failure = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0);
        let factor = failure.powf(-1.0 / f64::from(self.layout.depth()));
        // Errors are whole: one above the floor is above Markov's bound.
        (factor * page_weight as f64 / f64::from(self.layout.columns())).floor() as u64
    }
}

/// The shards of one sketch. When they are dropped, the sketch knows whether one of them saturated a cell.
#[derive(Debug)]
pub struct CountMinShards<'a, C: Cell> {
    shards: Vec<CountMinShard<'a, C>>,
    saturated: &'a mut bool,
}

impl<'a, C: Cell> CountMinShards<'a, C> {
    /// The shards, in hash order: lend each to one thread.
    pub fn as_mut_slice(&mut self) -> &mut [CountMinShard<'a, C>] {
        &mut self.shards
    }
}

impl<C: Cell> Drop for CountMinShards<'_, C> {
    fn drop(&mut self) {
        *self.saturated |= self.shards.iter().any(|shard| shard.saturated);
    }
}

/// The pages of one range of the hash, lent to one thread by [`CountMin::split_mut`].
#[derive(Debug)]
pub struct CountMinShard<'a, C: Cell> {
    layout: Layout,
    first_page: usize,
    saturated: bool,
    cells: &'a mut [C],
}

impl<C: Cell> CountMinShard<'_, C> {
    /// Adds `weight` to a key of this shard's range.
    ///
    /// # Panics
    /// If the key is not of this range.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, weight: u64) {
        self.saturated |= add(self.cells, &self.layout, self.first_page, hash, weight);
    }

    /// As [`CountMin::estimate`], for a key of this shard's range.
    ///
    /// # Panics
    /// If the key is not of this range.
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        let base = (self.layout.page_of(hash) - self.first_page) * self.layout.page_cells();
        least(&self.cells[base..base + self.layout.page_cells()], &self.layout, hash)
    }

    /// Where the counters of a key are, in a layout of depth `D`: for callers that want them fetched before they need them.
    #[inline]
    pub(crate) fn places<const D: usize>(&self, hash: KeyHash) -> [usize; D] {
        debug_assert_eq!(self.layout.depth() as usize, D);
        places(&self.layout, self.first_page, hash)
    }

    /// Asks for the counters in `places`.
    #[inline]
    pub(crate) fn prefetch<const D: usize>(&self, places: &[usize; D]) {
        for &place in places {
            prefetch(self.cells, place);
        }
    }

    /// [`estimate`](Self::estimate) of the key whose counters are in `places`.
    #[inline]
    pub(crate) fn estimate_at<const D: usize>(&self, places: &[usize; D]) -> u64 {
        places.iter().fold(C::MAX, |least, &place| least.min(self.cells[place])).count()
    }

    /// [`update`](Self::update) of the key whose counters are in `places`.
    #[inline]
    pub(crate) fn update_at<const D: usize>(&mut self, places: &[usize; D], weight: u64) {
        self.saturated |= add_at(self.cells, places, weight);
    }

    /// As [`CountMin::update_batch`], for keys of this shard's range.
    ///
    /// # Panics
    /// If a key is not of this range, or there are weights, but not one for each key.
    pub fn update_batch(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) {
        self.saturated |= add_batch(self.cells, &self.layout, self.first_page, hashes, weights);
    }
}

#[inline]
fn add<C: Cell>(cells: &mut [C], layout: &Layout, first_page: usize, hash: KeyHash, weight: u64) -> bool {
    with_depth!(layout.depth(), add_key(cells, layout, first_page, hash, weight))
}

#[inline]
fn least<C: Cell>(page: &[C], layout: &Layout, hash: KeyHash) -> u64 {
    with_depth!(layout.depth(), least_rows(page, layout.columns(), hash.fold()))
}

fn add_batch<C: Cell>(
    cells: &mut [C],
    layout: &Layout,
    first_page: usize,
    hashes: &[KeyHash],
    weights: Option<&[u64]>,
) -> bool {
    assert!(weights.is_none_or(|weights| weights.len() == hashes.len()), "one weight for each key");
    with_depth!(layout.depth(), add_keys(cells, layout, first_page, hashes, weights))
}

fn add_keys<C: Cell, const D: usize>(
    cells: &mut [C],
    layout: &Layout,
    first_page: usize,
    hashes: &[KeyHash],
    weights: Option<&[u64]>,
) -> bool {
    let hashes = hashes.iter().copied();
    match weights {
        None => add_rows::<C, D>(cells, layout, first_page, hashes.map(|hash| (hash, 1))),
        Some(weights) => add_rows::<C, D>(cells, layout, first_page, hashes.zip(weights.iter().copied())),
    }
}

/// How many keys' cells are fetched together: about as many cache misses as a core keeps in flight.
const TOGETHER: usize = 16;

fn add_rows<C: Cell, const D: usize>(
    cells: &mut [C],
    layout: &Layout,
    first_page: usize,
    mut rows: impl Iterator<Item = (KeyHash, u64)>,
) -> bool {
    let mut saturated = false;
    let mut keys = [([0usize; D], 0u64); TOGETHER];
    loop {
        let mut count = 0;
        let mut fetched = C::ZERO;
        for (key, (hash, weight)) in keys.iter_mut().zip(&mut rows) {
            *key = (places::<D>(layout, first_page, hash), weight);
            // The loads of different keys depend on nothing, so their misses overlap; the adds would wait one by one.
            fetched = key.0.iter().fold(fetched, |fetched, &place| fetched.max(cells[place]));
            count += 1;
        }
        std::hint::black_box(fetched);
        for (places, weight) in &keys[..count] {
            saturated |= add_at(cells, places, *weight);
        }
        if count < TOGETHER {
            return saturated;
        }
    }
}

fn add_key<C: Cell, const D: usize>(
    cells: &mut [C],
    layout: &Layout,
    first_page: usize,
    hash: KeyHash,
    weight: u64,
) -> bool {
    add_at(cells, &places::<D>(layout, first_page, hash), weight)
}

/// Where a key's cells are, row by row.
#[inline(always)]
fn places<const D: usize>(layout: &Layout, first_page: usize, hash: KeyHash) -> [usize; D] {
    let base = layout.page_of(hash).wrapping_sub(first_page).wrapping_mul(layout.page_cells());
    let columns = layout.columns() as usize;
    let mut row_start = base;
    keyhash::columns::<D>(hash.fold(), u64::from(layout.columns())).map(|column| {
        let place = row_start.wrapping_add(column as usize);
        row_start = row_start.wrapping_add(columns);
        place
    })
}

/// Adds to a key's cells; whether they stand at their maximum now.
#[inline(always)]
fn add_at<C: Cell, const D: usize>(cells: &mut [C], places: &[usize; D], weight: u64) -> bool {
    let mut most = C::ZERO;
    for &place in places {
        let cell = &mut cells[place];
        *cell = cell.plus(weight);
        most = most.max(*cell);
    }
    most == C::MAX
}

#[inline]
fn least_rows<C: Cell, const D: usize>(page: &[C], columns: u32, fold: u64) -> u64 {
    let places = keyhash::columns::<D>(fold, u64::from(columns));
    let mut least = C::MAX;
    for (row, &place) in places.iter().enumerate() {
        least = least.min(page[row * columns as usize + place as usize]);
    }
    least.count()
}

#[cfg(test)]
mod tests;
