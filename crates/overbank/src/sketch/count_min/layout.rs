//! Where a key's counters lie: pages of one block, each a small count-min sketch.
//!
//! ```text
//!   high ──range_of(·, pages)──▶ page          fold ──column(·, row, columns)──▶ one column a row
//!
//!   page 0                    page 1
//!   ┌──────────────────────┐  ┌──────────────────────┐
//!   │ row 0: columns cells │  │ row 0: columns cells │  …     page order is hash order
//!   │ row 1                │  │ row 1                │
//!   │ …        depth rows  │  │ …                    │
//!   └──────────────────────┘  └──────────────────────┘
//! ```
//!
//! 1. A key's `depth` counters lie in one page; the page is a range of the hash.
//! 2. `cells = pages * depth * columns` fits a `usize` together with its bytes.
//! 3. A classic count-min sketch is the layout of one page.
//!
//! Cost: two multiplications for the page, two for each row.
//!
//! Source: buffered count-min sketch, section 3 (column-first pages, hash localisation) and 5.2 (sizing).

pub use crate::sketch::depth::DEPTH_MAX;

use crate::error::invalid;
use crate::sketch::depth::require_depth;
use crate::{KeyHash, Result};
use keyhash::range_of;

/// What a device block of 4096 bytes leaves for cells: with depth 5 and u32 cells, exactly 204 columns.
pub const BLOCK_BODY_BYTES: usize = 4080;
/// From here on the least of the cells is within 0.2 % of the average one.
const POISSON_MEAN_MAX: f64 = 1e6;

const CELL_BYTES_MAX: usize = 8;

/// The shape of a count-min sketch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pages: u64,
    columns: u32,
    depth: u32,
}

impl Layout {
    /// `pages` pages of `depth` rows of `columns` cells.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where one is 0, `depth` is above [`DEPTH_MAX`], or memory cannot hold it.
    pub fn with_shape(pages: u64, columns: u32, depth: u32) -> Result<Self> {
        if columns == 0 {
            return invalid("columns", columns, "each row needs at least one");
        }
        require_depth(depth)?;
        let layout = Self { pages, columns, depth };
        if pages == 0 || layout.cells_checked().is_none() {
            return invalid("pages", pages, "there must be at least one, and memory must hold them");
        }
        Ok(layout)
    }

    /// The classic sketch, one page: `columns = ceil(e / epsilon)`, `depth = ceil(ln(1 / delta))`.
    ///
    /// An estimate is then too high by `epsilon * n` or more with probability at most `delta`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `2^-30 <= epsilon < 1` and `e^-16 <= delta < 1`.
    pub fn with_error(epsilon: f64, delta: f64) -> Result<Self> {
        if !(2f64.powi(-30)..1.0).contains(&epsilon) {
            return invalid("epsilon", epsilon, "choose a share of the stream from 2^-30 to below 1");
        }
        let depth = (1.0 / delta).ln().ceil();
        if !(delta > 0.0 && delta < 1.0 && depth <= f64::from(DEPTH_MAX)) {
            return invalid("delta", delta, "choose a failure probability from e^-16 to below 1");
        }
        Self::with_shape(1, (std::f64::consts::E / epsilon).ceil() as u32, depth as u32)
    }

    /// Pages of one block body that fill at most `bytes`, as many as a multiple of `page_multiple`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where `bytes` does not hold `page_multiple` pages.
    pub fn with_bytes(bytes: usize, depth: u32, cell_bytes: usize, page_multiple: u64) -> Result<Self> {
        let multiple = page_multiple.max(1);
        let pages = (bytes / BLOCK_BODY_BYTES) as u64 / multiple * multiple;
        if pages == 0 {
            let why = format!("it must hold {multiple} pages of {BLOCK_BODY_BYTES} bytes");
            return invalid("bytes", bytes, why);
        }
        Self::with_shape(pages, block_columns(depth, cell_bytes), depth)
    }

    /// The same width cut into pages of one block body: as many pages as hold at least the columns of
    /// `self`, rounded up to a multiple of `page_multiple`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where memory cannot hold it.
    pub fn localised(self, cell_bytes: usize, page_multiple: u64) -> Result<Self> {
        let columns = block_columns(self.depth, cell_bytes);
        let pages = self.width().div_ceil(u64::from(columns).max(1));
        let pages = pages.checked_next_multiple_of(page_multiple.max(1)).unwrap_or(0);
        Self::with_shape(pages, columns, self.depth)
    }

    /// How many pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Columns of one page.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Columns of all pages together: the `c` of the papers.
    pub fn width(&self) -> u64 {
        self.pages * u64::from(self.columns)
    }

    /// Cells of one page.
    #[inline]
    pub fn page_cells(&self) -> usize {
        self.columns as usize * self.depth as usize
    }

    /// Cells of all pages.
    pub fn cells(&self) -> usize {
        self.pages as usize * self.page_cells()
    }

    /// The page of a key.
    #[inline]
    pub fn page_of(&self, hash: KeyHash) -> usize {
        range_of(hash.high(), self.pages) as usize
    }

    /// The number of elements of weight 1 that keep the expected overestimate at `overestimate`:
    /// `n = C * O / (D * e)` (section 5.2).
    pub fn elements_for(&self, overestimate: f64) -> f64 {
        self.width() as f64 * overestimate / std::f64::consts::E
    }

    /// Theorem 1: the error that an estimate reaches with probability at most `e^-depth + pages^-c`, after
    /// `n` distinct keys of weight 1.
    ///
    /// `n * epsilon * (1 + sqrt(2 (c + 1) k ln k / n))` with `epsilon = e / width`. It assumes that no key
    /// weighs much; [`CountMin::error_bound`](super::CountMin::error_bound) holds for every stream.
    pub fn theorem_1_error(&self, n: f64, c: f64) -> f64 {
        let k = self.pages as f64;
        let localisation = (2.0 * (c + 1.0) * k * k.ln() / n).sqrt();
        n * std::f64::consts::E / self.width() as f64 * (1.0 + localisation)
    }

    /// The average overestimate after `n` distinct keys of weight 1: that of the least of `depth` cells, each of which holds
    /// about a Poisson number of other keys, `n / width` on average.
    ///
    /// # Accuracy
    /// Within 2 % where pages are full; streams whose keys repeat have greater errors, up to `n / width`.
    pub fn average_error(&self, n: f64) -> f64 {
        let mean = n / self.width() as f64;
        if mean > POISSON_MEAN_MAX {
            return mean;
        }
        // E[least] = sum over t >= 1 of P(cell >= t)^depth; terms beyond 12 standard deviations do not matter.
        let end = (mean + 12.0 * mean.sqrt() + 24.0).ceil();
        let (mut at_least, mut ln_mass, mut sum) = (1.0f64, -mean, 0.0);
        let mut t = 0.0;
        while t < end {
            at_least = (at_least - ln_mass.exp()).max(0.0);
            t += 1.0;
            ln_mass += (mean / t).ln();
            sum += at_least.powi(self.depth as i32);
        }
        sum
    }

    pub(super) fn cells_checked(&self) -> Option<usize> {
        let page = usize::try_from(self.columns).ok()?.checked_mul(self.depth as usize)?;
        let cells = page.checked_mul(usize::try_from(self.pages).ok()?)?;
        cells.checked_mul(CELL_BYTES_MAX).filter(|&bytes| bytes <= isize::MAX as usize).map(|_| cells)
    }
}

/// The columns that fit one block body.
fn block_columns(depth: u32, cell_bytes: usize) -> u32 {
    (BLOCK_BODY_BYTES / cell_bytes.max(1)) as u32 / depth.max(1)
}
