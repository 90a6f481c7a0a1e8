//! Count-min: how often a key occurred, never too low, and too high by little.
//!
//! ```text
//!   KeyHash ─▶ page (range of the hash) ─▶ one cell in each of `depth` rows
//!   update: all of them += weight          estimate: the least of them
//! ```
//!
//! 1. Without saturation each cell is the exact total weight of the keys that map to it, so the sum of a row
//!    of a page is the total weight of the page.
//! 2. A page whose `u32` cells cannot count so far becomes wide ([`wide`]): its columns count in pairs, as `u64`.
//! 3. An estimate is never below the true count; `u64::MAX` says that no bound is known.
//! 4. Cells of 64 bits saturate, and those of `u32` where a row has but one. `saturated` is set iff a cell stands at
//!    its maximum.
//! 5. The state does not depend on order, batches, shards or the tree of merges.
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
mod wide;

pub use cell::Cell;
pub use layout::Layout;

use super::CountBounds;
use super::depth::with_depth;
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
    overflow: Overflow,
    /// Which pages are wide.
    wide: Vec<bool>,
    cells: Vec<C>,
}

/// What large counts have done to some pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Overflow {
    /// One of them is wide.
    widened: bool,
    /// A cell stands at its maximum.
    saturated: bool,
}

impl Overflow {
    fn add(&mut self, other: Self) {
        self.widened |= other.widened;
        self.saturated |= other.saturated;
    }
}

impl CountMin<u64> {
    /// The sketch of one page of these cells, row after row, that something else counted: a switch, a program in the kernel. A key's cell
    /// of row `r` is [`column`](keyhash::column)`(hash.fold(), r, columns)`, of `2^k` columns the first `k` bits of that row's product.
    ///
    /// # Errors
    /// Those of [`with_shape`](Self::with_shape), or [`Error::Incompatible`] for another number of cells.
    pub fn from_cells(columns: u32, depth: u32, hash_id: HashId, cells: Vec<u64>) -> Result<Self> {
        let layout = Layout::with_shape(1, columns, depth)?;
        require_equal("the number of cells", layout.cells(), cells.len())?;
        let overflow = Overflow { widened: false, saturated: cells.contains(&u64::MAX) };
        Ok(Self { layout, hash_id, overflow, wide: vec![false], cells })
    }
}

impl CountMin<u32> {
    /// The sketch of one page of two columns or more that counts this much in their cells, row after row.
    ///
    /// # Errors
    /// As [`CountMin::from_cells`].
    pub(crate) fn from_counts(columns: u32, depth: u32, hash_id: HashId, counts: &[u64]) -> Result<Self> {
        let mut sketch = Self::with_shape(1, columns, depth, hash_id)?;
        require_equal("the number of cells", sketch.cells.len(), counts.len())?;
        if counts.iter().all(|&count| count < u32::MAX.into()) {
            sketch.cells = counts.iter().map(|&count| count as u32).collect();
            return Ok(sketch);
        }
        (sketch.wide[0], sketch.overflow.widened) = (true, true);
        let rows = sketch.cells.chunks_exact_mut(columns as usize);
        for (row, counts) in rows.zip(counts.chunks_exact(columns as usize)) {
            for (column, &count) in (0..).zip(counts) {
                sketch.overflow.saturated |= wide::add(row, column, count);
            }
        }
        Ok(sketch)
    }
}

impl<C: Cell> CountMin<C> {
    /// An empty sketch of `layout`, for keys hashed under `hash_id`.
    pub fn new(layout: Layout, hash_id: impl Into<HashId>) -> Self {
        let cells = vec![C::ZERO; layout.cells()];
        let wide = vec![false; layout.pages() as usize];
        Self { layout, hash_id: hash_id.into(), overflow: Overflow::default(), wide, cells }
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
        self.change(|all| all.update(hash, weight));
    }

    /// Adds `weights[i]` to `hashes[i]`; without weights, 1 to each. Keys in hash order touch the pages in
    /// order.
    ///
    /// # Panics
    /// If there are weights, but not one for each key.
    pub fn update_batch(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) {
        self.change(|all| all.update_batch(hashes, weights));
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
        let slices = self.cells.chunks_exact_mut(each * layout.page_cells());
        let slices = slices.zip(self.wide.chunks_exact_mut(each)).enumerate();
        let shards = slices
            .map(|(i, (cells, wide))| {
                let overflow = Overflow { widened: wide.contains(&true), saturated: false };
                CountMinShard { layout, first_page: i * each, overflow, wide, cells }
            })
            .collect();
        Ok(CountMinShards { shards, overflow: &mut self.overflow })
    }

    /// The least of a key's cells: at least its true count; `u64::MAX` where they stand at their maximum.
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        least(&self.layout, 0, self.overflow, &self.wide, &self.cells, hash)
    }

    /// The estimate, with bounds that hold for this key with probability `confidence`.
    ///
    /// # Accuracy
    /// `upper` is certain, and `u64::MAX` where none is known. `lower` fails with probability at most `1 - confidence`
    /// over the choice of the seed, for a key chosen without looking at the sketch: each row's error has an expectation of
    /// at most `page weight / columns`, so by Markov all `depth` rows are off by `b` times that with probability
    /// `b^-depth`; by twice or, at the end of an odd row, three times as much in a wide page (Doob's inequality, as in
    /// `frequency/bounds.rs`). In a page with a saturated cell, `lower` is 0.
    pub fn bounds(&self, hash: KeyHash, confidence: f64) -> CountBounds {
        let estimate = self.estimate(hash);
        let page = self.layout.page_of(hash);
        let lower = self.page_weight(page).map_or(0, |weight| self.lower(hash, page, weight, confidence));
        CountBounds { lower: lower.min(estimate), estimate, upper: estimate }
    }

    /// [`CountBounds::lower`] of [`bounds`](Self::bounds).
    pub fn lower_bound(&self, hash: KeyHash, confidence: f64) -> u64 {
        self.bounds(hash, confidence).lower
    }

    /// What the true count cannot exceed: the estimate. `u64::MAX` says that no bound is known.
    pub fn upper_bound(&self, hash: KeyHash) -> u64 {
        self.estimate(hash)
    }

    /// An error that no fixed key's estimate exceeds with probability `confidence`, whatever the stream: that
    /// of the worst page; `u64::MAX` where a cell is saturated.
    pub fn error_bound(&self, confidence: f64) -> u64 {
        let columns = self.layout.columns();
        let error = |page: usize| {
            let span = if self.wide[page] { wide::span(columns, columns - 1) } else { 1 };
            self.page_weight(page).map_or(u64::MAX, |weight| self.markov_error(weight, span, confidence))
        };
        (0..self.layout.pages() as usize).map(error).max().unwrap_or(0)
    }

    /// The total weight, or a lower bound of it once [`saturated`](Self::saturated).
    pub fn total_weight(&self) -> u128 {
        (0..self.layout.pages() as usize).map(|page| self.row_0(page).0).sum()
    }

    /// Whether a cell stands at its maximum, so that some counts have no upper bound.
    pub fn saturated(&self) -> bool {
        self.overflow.saturated
    }

    /// Adds another sketch: the result is that of one sketch that saw both streams.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where hash, seed or shape differ; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.require_equal_shape(other.hash_id, &other.layout)?;
        for (page, cells) in other.cells.chunks_exact(other.layout.page_cells()).enumerate() {
            self.merge_page(page, cells, other.wide[page]);
        }
        Ok(())
    }

    /// As [`merge`](Self::merge), with the sketch of `total_bytes` bytes that `source` gives in order, a page at a time.
    ///
    /// # Errors
    /// Those of `source`, and those of [`from_bytes`](Self::from_bytes) and [`merge`](Self::merge). Pages may have been added by
    /// then: the sketch is of no use any more.
    pub(crate) fn merge_from(
        &mut self,
        total_bytes: usize,
        source: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut reader = Reader::open(total_bytes, source, format::COUNT_MIN)?;
        let head = Head::read::<C>(&mut reader)?;
        self.require_equal_shape(head.hash_id, &head.layout)?;
        let mut cells = Vec::with_capacity(self.layout.page_cells());
        for (page, &is_wide) in head.wide.iter().enumerate() {
            let bytes = self.layout.page_cells() * C::BYTES;
            cells.clear();
            cells.extend(reader.piece(bytes)?.take(bytes)?.chunks_exact(C::BYTES).map(C::get));
            self.merge_page(page, &cells, is_wide);
        }
        reader.finish()
    }

    /// The sketch as bytes: header, pages u64, columns u32, depth u32, cell size u32, saturated u8, 3 zeros; a bit a page,
    /// lowest first, that says whether it is wide; cells.
    pub fn to_bytes(&self) -> Vec<u8> {
        stream::collect(self.encoded_bytes(), |sink| self.write_to(sink))
    }

    /// How many bytes [`to_bytes`](Self::to_bytes) has.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + SHAPE_BYTES + self.wide.len().div_ceil(8) + self.cells.len() * C::BYTES
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) piece by piece, without a second copy of the sketch.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn write_to(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let pieces = 2 + self.cells.len().div_ceil(PIECE_CELLS);
        let put = |piece: usize, encoder: &mut Encoder| match piece {
            0 => {
                encoder.u64(self.layout.pages());
                encoder.u32(self.layout.columns());
                encoder.u32(self.layout.depth());
                encoder.u32(C::BYTES as u32);
                encoder.u8(self.overflow.saturated.into());
                encoder.raw(&[0; 3]);
            }
            1 => {
                let bits =
                    |pages: &[bool]| pages.iter().rev().fold(0, |bits, &wide| bits << 1 | u8::from(wide));
                self.wide.chunks(8).for_each(|pages| encoder.u8(bits(pages)));
            }
            piece => {
                let cells = self.cells.iter().skip((piece - 2) * PIECE_CELLS).take(PIECE_CELLS);
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
        let Head { layout, hash_id, saturated, wide } = Head::read::<C>(&mut reader)?;
        let columns = layout.columns();
        let mut cells: Vec<C> = Vec::with_capacity(layout.cells());
        while reader.left() > 0 {
            let mut piece = reader.piece(reader.left().min(PIECE_CELLS * C::BYTES))?;
            cells.extend(piece.take_rest().chunks_exact(C::BYTES).map(C::get));
        }
        reader.finish()?;
        let overflow = Overflow { widened: wide.contains(&true), saturated };
        let sketch = Self { layout, hash_id, overflow, wide, cells };
        let expected = sketch.has_full_cell();
        if saturated != expected {
            let at = HEADER_BYTES + SATURATED_AT;
            return Err(corrupt(at, "the saturation flag", expected, saturated));
        }
        let mut pages = sketch.cells.chunks_exact(layout.page_cells()).zip(&sketch.wide);
        // A narrow cell that could have gone wide never stands at its maximum.
        let is_valid = |(page, &is_wide): (&[C], &bool)| match is_wide {
            true => wide::is_valid(page, columns),
            false => !wide::is_possible::<C>(columns) || !page.contains(&C::MAX),
        };
        if !pages.all(is_valid) {
            let at = HEADER_BYTES + SHAPE_BYTES + sketch.wide.len().div_ceil(8);
            return Err(corrupt(at, "the cells", "wide where they are full", "others"));
        }
        Ok(sketch)
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
        size_of::<Self>() + self.wide.capacity() + self.cells.capacity() * C::BYTES
    }

    /// Changes cells as the one shard that there is.
    #[inline]
    fn change(&mut self, change: impl FnOnce(&mut CountMinShard<'_, C>)) {
        let (layout, overflow) = (self.layout, self.overflow);
        let (wide, cells) = (&mut self.wide[..], &mut self.cells[..]);
        let mut all = CountMinShard { layout, first_page: 0, overflow, wide, cells };
        change(&mut all);
        self.overflow = all.overflow;
    }

    fn require_equal_shape(&self, hash_id: HashId, layout: &Layout) -> Result<()> {
        self.hash_id.require(hash_id)?;
        require_equal("the number of pages", self.layout.pages(), layout.pages())?;
        require_equal("the number of columns", self.layout.columns(), layout.columns())?;
        require_equal("the depth", self.layout.depth(), layout.depth())
    }

    /// Adds another sketch's page.
    fn merge_page(&mut self, page: usize, from: &[C], from_is_wide: bool) {
        let columns = self.layout.columns();
        let cells = &mut self.cells[page * self.layout.page_cells()..][..self.layout.page_cells()];
        let fits = |(cell, more): (&C, &C)| cell.plus(more.count()) < C::MAX;
        let is_narrow = !self.wide[page] && !from_is_wide;
        if is_narrow && (!wide::is_possible::<C>(columns) || cells.iter().zip(from).all(fits)) {
            for (cell, &more) in cells.iter_mut().zip(from) {
                *cell = cell.plus(more.count());
                self.overflow.saturated |= *cell == C::MAX;
            }
            return;
        }
        if !std::mem::replace(&mut self.wide[page], true) {
            wide::widen(cells, columns);
        }
        let mut from = from.to_vec();
        if !from_is_wide {
            wide::widen(&mut from, columns);
        }
        let saturated = wide::merge(cells, &from, columns);
        self.overflow.add(Overflow { widened: true, saturated });
    }

    /// The weight of the keys of one page; `None` where a cell of its row 0 has stopped counting.
    fn page_weight(&self, page: usize) -> Option<u128> {
        let (sum, is_full) = self.row_0(page);
        (!is_full).then_some(sum)
    }

    /// The sum of a page's row 0, and whether one of its cells stands at its maximum. The rows of a page sum to the same.
    fn row_0(&self, page: usize) -> (u128, bool) {
        let base = page * self.layout.page_cells();
        let row = &self.cells[base..base + self.layout.columns() as usize];
        let add = |(sum, is_full): (u128, bool), (count, full): (u64, bool)| {
            (sum + u128::from(count), is_full | full)
        };
        if self.wide[page] {
            wide::cells(row).map(|count| (count, count == u64::MAX)).fold((0, false), add)
        } else {
            row.iter().map(|&cell| (cell.count(), cell == C::MAX)).fold((0, false), add)
        }
    }

    /// What the cells of a row of the first page count.
    pub(crate) fn row_counts(&self, row: u32) -> Vec<u64> {
        let columns = self.layout.columns() as usize;
        let cells = &self.cells[row as usize * columns..][..columns];
        match self.wide[0] {
            true => wide::cells(cells).collect(),
            false => cells.iter().map(|&cell| bound(cell)).collect(),
        }
    }

    fn has_full_cell(&self) -> bool {
        let columns = self.layout.columns() as usize;
        let mut pages = self.cells.chunks_exact(self.layout.page_cells()).zip(&self.wide);
        pages.any(|(page, &is_wide)| match is_wide {
            true => page.chunks_exact(columns).any(|row| wide::cells(row).any(|count| count == u64::MAX)),
            false => page.contains(&C::MAX),
        })
    }

    /// The least that a row gives.
    fn lower(&self, hash: KeyHash, page: usize, page_weight: u128, confidence: f64) -> u64 {
        let (base, columns) = (page * self.layout.page_cells(), self.layout.columns());
        let lower = |row: u32| {
            let cells = &self.cells[base + (row * columns) as usize..][..columns as usize];
            let column = keyhash::column(hash.fold(), row, u64::from(columns)) as u32;
            let (count, span) = if self.wide[page] {
                (wide::get(cells, column), wide::span(columns, column))
            } else {
                (cells[column as usize].count(), 1)
            };
            count.saturating_sub(self.markov_error(page_weight, span, confidence))
        };
        (0..self.layout.depth()).map(lower).min().unwrap_or(0)
    }

    fn markov_error(&self, page_weight: u128, span: u32, confidence: f64) -> u64 {
        let failure = (1.0 - confidence).clamp(f64::MIN_POSITIVE, 1.0);
        let factor = failure.powf(-1.0 / f64::from(self.layout.depth()));
        // Errors are whole: one above the floor is above Markov's bound.
        (factor * page_weight as f64 * f64::from(span) / f64::from(self.layout.columns())).floor() as u64
    }
}

/// What a sketch's bytes say before its cells.
struct Head {
    layout: Layout,
    hash_id: HashId,
    saturated: bool,
    wide: Vec<bool>,
}

impl Head {
    /// Reads it, and finds its shape to fit the bytes that follow.
    fn read<C: Cell>(reader: &mut Reader<'_>) -> Result<Self> {
        let rest_bytes = reader.left().saturating_sub(SHAPE_BYTES);
        let mut shape = reader.piece(SHAPE_BYTES)?;
        let hash_id = shape.hash_id()?;
        let (pages, columns, depth) = (shape.u64()?, shape.u32()?, shape.u32()?);
        require_equal("the size of a cell", C::BYTES as u32, shape.u32()?)?;
        let saturated = shape.u8()?;
        if saturated > 1 {
            return Err(shape.corrupt("the saturation flag", "0 or 1", saturated));
        }
        shape.zeros(3)?;
        let layout = Layout::with_shape(pages, columns, depth);
        let layout = layout.map_err(|why| shape.corrupt("the shape", "a valid one", why))?;
        let mark_bytes = (pages as usize).div_ceil(8);
        let cell_bytes = layout.cells_checked().and_then(|cells| cells.checked_mul(C::BYTES));
        if cell_bytes.and_then(|bytes| bytes.checked_add(mark_bytes)) != Some(rest_bytes) {
            let expected = format!("one of {rest_bytes} bytes of marks and cells");
            return Err(shape.corrupt("the shape", expected, format!("{layout:?}")));
        }
        let mut marks = reader.piece(mark_bytes)?;
        let bytes = marks.take(mark_bytes)?;
        let is_wide = |page: usize| bytes[page / 8] >> (page % 8) & 1 == 1;
        let wide: Vec<bool> = (0..pages as usize).map(is_wide).collect();
        let beyond = (pages as usize..8 * mark_bytes).any(is_wide);
        if beyond || wide.contains(&true) && !wide::is_possible::<C>(columns) {
            return Err(marks.corrupt("the marks of wide pages", "pages of pairs of cells", "others"));
        }
        Ok(Self { layout, hash_id, saturated: saturated == 1, wide })
    }
}

/// The shards of one sketch. When they are dropped, the sketch knows what large counts have done to them.
#[derive(Debug)]
pub struct CountMinShards<'a, C: Cell> {
    shards: Vec<CountMinShard<'a, C>>,
    overflow: &'a mut Overflow,
}

impl<'a, C: Cell> CountMinShards<'a, C> {
    /// The shards, in hash order: lend each to one thread.
    pub fn as_mut_slice(&mut self) -> &mut [CountMinShard<'a, C>] {
        &mut self.shards
    }
}

impl<C: Cell> Drop for CountMinShards<'_, C> {
    fn drop(&mut self) {
        self.shards.iter().for_each(|shard| self.overflow.add(shard.overflow));
    }
}

/// The pages of one range of the hash, lent to one thread by [`CountMin::split_mut`].
#[derive(Debug)]
pub struct CountMinShard<'a, C: Cell> {
    layout: Layout,
    first_page: usize,
    overflow: Overflow,
    wide: &'a mut [bool],
    cells: &'a mut [C],
}

impl<C: Cell> CountMinShard<'_, C> {
    /// Adds `weight` to a key of this shard's range.
    ///
    /// # Panics
    /// If the key is not of this range.
    #[inline]
    pub fn update(&mut self, hash: KeyHash, weight: u64) {
        with_depth!(self.layout.depth(), add_key<C>(self, hash, weight));
    }

    /// As [`CountMin::estimate`], for a key of this shard's range.
    ///
    /// # Panics
    /// If the key is not of this range.
    #[inline]
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        least(&self.layout, self.first_page, self.overflow, self.wide, self.cells, hash)
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
        if self.overflow.widened {
            return self.estimate_large(places);
        }
        bound(places.iter().fold(C::MAX, |least, &place| least.min(self.cells[place])))
    }

    /// [`update`](Self::update) of the key whose counters are in `places`.
    #[inline]
    pub(crate) fn update_at<const D: usize>(&mut self, places: &[usize; D], weight: u64) {
        add_at(self, places, weight);
    }

    /// As [`CountMin::update_batch`], for keys of this shard's range.
    ///
    /// # Panics
    /// If a key is not of this range, or there are weights, but not one for each key.
    pub fn update_batch(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) {
        assert!(weights.is_none_or(|weights| weights.len() == hashes.len()), "one weight for each key");
        with_depth!(self.layout.depth(), add_keys<C>(self, hashes, weights));
    }

    /// The estimate of a key's cells where a page may be wide.
    #[cold]
    fn estimate_large(&self, places: &[usize]) -> u64 {
        let (page_cells, columns) = (self.layout.page_cells(), self.layout.columns());
        let page = places[0] / page_cells;
        if !self.wide[page] {
            return bound(places.iter().fold(C::MAX, |least, &place| least.min(self.cells[place])));
        }
        let rows = self.cells[page * page_cells..][..page_cells].chunks_exact(columns as usize);
        let counts =
            rows.zip(places).map(|(row, place)| wide::get(row, (place % page_cells) as u32 % columns));
        counts.min().unwrap_or(0)
    }

    /// Adds to a key's cells where one of them cannot take it as it is, or where a page is wide.
    #[cold]
    fn add_large(&mut self, places: &[usize], weight: u64) {
        let (page_cells, columns) = (self.layout.page_cells(), self.layout.columns());
        let page = places[0] / page_cells;
        let cells = &mut self.cells[page * page_cells..][..page_cells];
        let places = places.iter().map(|place| place % page_cells);
        if !self.wide[page] {
            let is_full = |place: usize| cells[place].plus(weight) == C::MAX;
            if !wide::is_possible::<C>(columns) || !places.clone().any(is_full) {
                for place in places {
                    cells[place] = cells[place].plus(weight);
                    self.overflow.saturated |= cells[place] == C::MAX;
                }
                return;
            }
            wide::widen(cells, columns);
            self.wide[page] = true;
            self.overflow.widened = true;
        }
        for (row, place) in cells.chunks_exact_mut(columns as usize).zip(places) {
            self.overflow.saturated |= wide::add(row, place as u32 % columns, weight);
        }
    }
}

#[inline]
fn least<C: Cell>(
    layout: &Layout,
    first_page: usize,
    overflow: Overflow,
    wide: &[bool],
    cells: &[C],
    hash: KeyHash,
) -> u64 {
    let page = layout.page_of(hash) - first_page;
    let base = page * layout.page_cells();
    let cells = &cells[base..base + layout.page_cells()];
    if overflow.widened && wide[page] {
        return least_wide(cells, layout.columns(), hash.fold());
    }
    with_depth!(layout.depth(), least_rows<C>(cells, layout.columns(), hash.fold()))
}

fn add_keys<C: Cell, const D: usize>(
    shard: &mut CountMinShard<'_, C>,
    hashes: &[KeyHash],
    weights: Option<&[u64]>,
) {
    let hashes = hashes.iter().copied();
    match weights {
        None => add_rows::<C, D>(shard, hashes.map(|hash| (hash, 1))),
        Some(weights) => add_rows::<C, D>(shard, hashes.zip(weights.iter().copied())),
    }
}

/// How many keys' cells are fetched together: about as many cache misses as a core keeps in flight.
const TOGETHER: usize = 16;

fn add_rows<C: Cell, const D: usize>(
    shard: &mut CountMinShard<'_, C>,
    mut rows: impl Iterator<Item = (KeyHash, u64)>,
) {
    let mut keys = [([0usize; D], 0u64); TOGETHER];
    loop {
        let mut count = 0;
        let mut fetched = C::ZERO;
        for (key, (hash, weight)) in keys.iter_mut().zip(&mut rows) {
            *key = (places::<D>(&shard.layout, shard.first_page, hash), weight);
            // The loads of different keys depend on nothing, so their misses overlap; the adds would wait one by one.
            fetched = key.0.iter().fold(fetched, |fetched, &place| fetched.max(shard.cells[place]));
            count += 1;
        }
        std::hint::black_box(fetched);
        for (places, weight) in &keys[..count] {
            add_at(shard, places, *weight);
        }
        if count < TOGETHER {
            return;
        }
    }
}

fn add_key<C: Cell, const D: usize>(shard: &mut CountMinShard<'_, C>, hash: KeyHash, weight: u64) {
    add_at(shard, &places::<D>(&shard.layout, shard.first_page, hash), weight);
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

/// Adds to a key's cells.
#[inline(always)]
fn add_at<C: Cell, const D: usize>(shard: &mut CountMinShard<'_, C>, places: &[usize; D], weight: u64) {
    let before = places.map(|place| shard.cells[place]);
    let most = before.iter().fold(C::ZERO, |most, &cell| most.max(cell));
    if shard.overflow.widened || most.plus(weight) == C::MAX {
        return shard.add_large(places, weight);
    }
    for (&place, cell) in places.iter().zip(before) {
        shard.cells[place] = cell.plus(weight);
    }
}

#[inline]
fn least_rows<C: Cell, const D: usize>(page: &[C], columns: u32, fold: u64) -> u64 {
    let places = keyhash::columns::<D>(fold, u64::from(columns));
    let mut least = C::MAX;
    for (row, &place) in places.iter().enumerate() {
        least = least.min(page[row * columns as usize + place as usize]);
    }
    bound(least)
}

fn least_wide<C: Cell>(page: &[C], columns: u32, fold: u64) -> u64 {
    let rows = page.chunks_exact(columns as usize).zip(0..);
    let count =
        |(cells, row): (&[C], u32)| wide::get(cells, keyhash::column(fold, row, columns.into()) as u32);
    rows.map(count).min().unwrap_or(0)
}

/// What the columns of a narrow cell have not weighed more than; `u64::MAX` where that is not known.
#[inline]
fn bound<C: Cell>(cell: C) -> u64 {
    if cell == C::MAX { u64::MAX } else { cell.count() }
}

#[cfg(test)]
mod tests;
