//! What a caller may choose: the sketch's size in the papers' four ways, and what it costs to run.

use super::shape::{self, Shape};
use crate::error::invalid;
use crate::sketch::count_min::Layout;
use crate::{Error, Result};

/// How many pages a group has unless told otherwise: 2 MiB, which a second-level cache holds and which a device writes at
/// its full rate.
const GROUP_PAGES: u32 = 512;

/// More threads than this add nothing side by side on any machine that we know of.
const WRITERS_MAX: usize = 1024;

/// Size and behaviour of a [`Frequency`](super::Frequency) sketch.
///
/// ```
/// use overbank::frequency::FrequencyOptions;
/// let layout = FrequencyOptions::new().error(1e-6, 0.01).layout()?;
/// assert_eq!((layout.depth(), layout.columns()), (5, 204));
/// assert!(layout.width() as f64 >= std::f64::consts::E / 1e-6);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FrequencyOptions {
    sizing: Option<Sizing>,
    cell_bits: Option<u32>,
    record_bytes: Option<u32>,
    group_pages: Option<u32>,
    is_conservative: Option<bool>,
    pub(super) pending: Option<usize>,
    pub(super) memory_bytes: Option<usize>,
    writers: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Sizing {
    Error { epsilon: f64, delta: f64 },
    Shape { width: u64, depth: u32 },
    Bytes { bytes: u64, depth: u32 },
    Elements { elements: f64, overestimate: f64, delta: f64 },
}

impl Default for FrequencyOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FrequencyOptions {
    /// The most [`pending`](Self::pending) logs.
    pub const PENDING_MAX: usize = 1024;

    /// For a new sketch: `epsilon = 1e-6`, `delta = 0.01`, cells of 32 bits, records of 4 bytes, up to 16 pending chunks a group, 32 MiB
    /// of RAM, one writer. For a stored one: what it was made with, and one writer.
    pub fn new() -> Self {
        Self {
            sizing: None,
            cell_bits: None,
            record_bytes: None,
            group_pages: None,
            is_conservative: None,
            pending: None,
            memory_bytes: None,
            writers: 1,
        }
    }

    /// An estimate is too high by `epsilon * n` with probability at most `delta`: `width = ceil(e / epsilon)`,
    /// `depth = ceil(ln(1 / delta))` (section 2.1).
    pub fn error(mut self, epsilon: f64, delta: f64) -> Self {
        self.sizing = Some(Sizing::Error { epsilon, delta });
        self
    }

    /// `depth` rows of at least `width` columns in all pages together.
    pub fn shape(mut self, width: u64, depth: u32) -> Self {
        self.sizing = Some(Sizing::Shape { width, depth });
        self
    }

    /// `depth` rows in at most `bytes` bytes of blocks, trailers included.
    pub fn bytes(mut self, bytes: u64, depth: u32) -> Self {
        self.sizing = Some(Sizing::Bytes { bytes, depth });
        self
    }

    /// As wide as `elements` updates of weight 1 need for an overestimate of at most `overestimate`, except with
    /// probability `delta`: `C = n * D * e / O` cells (section 5.2).
    pub fn elements(mut self, elements: f64, overestimate: f64, delta: f64) -> Self {
        self.sizing = Some(Sizing::Elements { elements, overestimate, delta });
        self
    }

    /// Bits of a cell: 32, or 64 for counts above 2^32 - 2; or 8 or 4, for cells that merge with their neighbours, by pairs
    /// up to 64 bits, where a count outgrows them.
    ///
    /// A block has 204 columns of 32 bits at depth 5, but 720 of 8 bits or 1296 of 4: use them for streams of many keys of
    /// which few are heavy, and 32 bits where most columns would come to count past 255 (or 15).
    ///
    /// # Accuracy
    /// Columns that share a cell share its errors: a merged cell of 16, 32 or 64 bits errs as one of a sketch with so many
    /// times fewer columns does, in [`error`](Self::error) and [`elements`](Self::elements) too.
    /// [`Frequency::bounds`](super::Frequency::bounds) knows the cells of each key and counts that in. Estimates are never
    /// too low. They do not depend on the order of additions; a merge is never undone, so after a removal or
    /// [`decay`](super::Frequency::decay) they may.
    ///
    /// Source: Ben Basat, Einziger, Mitzenmacher, Vargaftik, "SALSA: self-adjusting lean sketch" (ICDE 2021).
    pub fn cell_bits(mut self, bits: u32) -> Self {
        self.cell_bits = Some(bits);
        self
    }

    /// Bytes of a logged update: 4 keep 23 bits of a key inside its page, 8 keep 40.
    ///
    /// # Accuracy
    /// Two keys of one page that agree in these bits are one key to the sketch: for a fixed key, with probability at most
    /// 2^-23 (or 2^-40) for each other key of its page. [`Frequency::bounds`](super::Frequency::bounds) counts that in.
    pub fn record_bytes(mut self, bytes: u32) -> Self {
        self.record_bytes = Some(bytes);
        self
    }

    /// Pages that are read and written together; the default is 512, or 2 MiB.
    pub fn group_pages(mut self, pages: u32) -> Self {
        self.group_pages = Some(pages);
        self
    }

    /// Conservative updates: an update raises only those cells of its key that are below the key's new estimate.
    ///
    /// # Accuracy
    /// Estimates are never too low and never above those of the plain sketch, and much nearer to the truth; but they depend
    /// on the order of updates, [`Frequency::remove`](super::Frequency::remove) and
    /// [`Frequency::merge`](super::Frequency::merge) are refused, and lower bounds are wider, for a page's weight is then
    /// known only to a factor of `depth`.
    ///
    /// Source: Estan and Varghese, "New directions in traffic measurement and accounting" (SIGCOMM 2002).
    pub fn conservative(mut self, is_conservative: bool) -> Self {
        self.is_conservative = Some(is_conservative);
        self
    }

    /// Most chunks of logged updates that a group may have; while a pass is under way, one more for each writer. An estimate reads its
    /// page and about one block of each; updates rewrite the sketch once for every `chunks + 1` buffers. With 0 an estimate reads one
    /// block, but for those beside a pass.
    pub fn pending(mut self, chunks: usize) -> Self {
        self.pending = Some(chunks);
        self
    }

    /// What [`FrequencyOptions::pending`] was set to, or its default for a new sketch.
    pub fn pending_chunks(&self) -> usize {
        self.chunks()
    }

    /// RAM for the buffers of updates, a pass, the readers of pending chunks and estimates beside them; taken from the store's budget.
    /// A store that is open read-only takes two groups of pages, whatever the writer took, or what is set here.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// How many threads will add at the same time without waiting for each other, each with its own share of the memory. Not stored: a
    /// matter of the process. At least 1; the default is 1.
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers.max(1);
        self
    }

    /// Options of a sketch of this shape.
    pub(super) fn of(shape: Shape, pending: usize, memory_bytes: usize) -> Self {
        let bytes = shape.layout.pages() * crate::device::BLOCK_BYTES as u64;
        Self::new()
            .bytes(bytes, shape.layout.depth())
            .cell_bits(shape.cell_bits)
            .record_bytes(shape.record_bytes)
            .group_pages(shape.group_pages)
            .conservative(shape.is_conservative)
            .pending(pending)
            .memory_bytes(memory_bytes)
    }

    /// The layout that these options give.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn layout(&self) -> Result<Layout> {
        let cell_bits = self.cell_bits.unwrap_or(32);
        match self.sizing.unwrap_or(Sizing::Error { epsilon: 1e-6, delta: 0.01 }) {
            Sizing::Error { epsilon, delta } => {
                let classic = Layout::with_error(epsilon, delta)?;
                localised(classic.width(), classic.depth(), cell_bits)
            }
            Sizing::Shape { width, depth } => localised(width, depth, cell_bits),
            Sizing::Bytes { bytes, depth } => {
                let blocks = bytes / crate::device::BLOCK_BYTES as u64;
                let columns = columns_of_a_block(depth, cell_bits)?;
                Layout::with_shape(blocks, columns, depth)
            }
            Sizing::Elements { elements, overestimate, delta } => {
                if !(overestimate >= 1.0 && elements >= 1.0 && elements / overestimate < 1e18) {
                    return invalid(
                        "overestimate",
                        overestimate,
                        "choose at least 1, for at least 1 element",
                    );
                }
                let depth = Layout::with_error(0.5, delta)?.depth();
                let width = (elements * std::f64::consts::E / overestimate).ceil();
                localised(width as u64, depth, cell_bits)
            }
        }
    }

    /// The shape of a new sketch, if all options are in range.
    pub(super) fn to_shape(&self) -> Result<Shape> {
        self.require_in_range()?;
        let layout = self.layout()?;
        let (cell_bits, record_bytes) = (self.cell_bits.unwrap_or(32), self.record_bytes.unwrap_or(4));
        let shape = Shape::new(layout, cell_bits, record_bytes, self.group_pages_in(&layout, GROUP_PAGES))?;
        Ok(shape.conservative(self.is_conservative.unwrap_or(false)))
    }

    /// Refuses a stored sketch of another shape than what was set; what was not set is the stored one's.
    ///
    /// # Errors
    /// `Incompatible`, and `InvalidOption` for what no sketch can be.
    pub(super) fn require(&self, stored: Shape) -> Result<()> {
        self.require_in_range()?;
        let cell_bits = self.cell_bits.unwrap_or(stored.cell_bits);
        let layout = match self.sizing {
            Some(_) => Self { cell_bits: Some(cell_bits), ..self.clone() }.layout()?,
            None => stored.layout,
        };
        let record_bytes = self.record_bytes.unwrap_or(stored.record_bytes);
        let group_pages = self.group_pages_in(&layout, stored.group_pages);
        let expected = Shape { layout, cell_bits, record_bytes, group_pages, ..stored }
            .conservative(self.is_conservative.unwrap_or(stored.is_conservative));
        if expected == stored {
            return Ok(());
        }
        let (expected, found) = (format!("{expected:?}"), format!("{stored:?}"));
        Err(Error::Incompatible { what: "the shape", expected, found })
    }

    fn require_in_range(&self) -> Result<()> {
        if self.chunks() > Self::PENDING_MAX {
            return invalid("pending", self.chunks(), format!("choose at most {} chunks", Self::PENDING_MAX));
        }
        if self.writers > WRITERS_MAX {
            return invalid("writers", self.writers, format!("choose at most {WRITERS_MAX}"));
        }
        Ok(())
    }

    /// The pages of a group: as set, or `otherwise`. A group longer than the sketch would be written for nothing.
    fn group_pages_in(&self, layout: &Layout, otherwise: u32) -> u32 {
        let group_pages = self.group_pages.unwrap_or(otherwise);
        u64::from(group_pages).min(layout.pages().next_power_of_two()) as u32
    }

    pub(super) fn chunks(&self) -> usize {
        self.pending.unwrap_or(16)
    }

    pub(super) fn memory(&self) -> usize {
        self.memory_bytes.unwrap_or(32 << 20)
    }

    pub(super) fn writer_slots(&self) -> usize {
        self.writers
    }
}

fn localised(width: u64, depth: u32, cell_bits: u32) -> Result<Layout> {
    if width == 0 {
        return invalid("width", width, "a row has at least one column");
    }
    let columns = columns_of_a_block(depth, cell_bits)?;
    Layout::with_shape(width.div_ceil(columns.into()), columns, depth)
}

fn columns_of_a_block(depth: u32, cell_bits: u32) -> Result<u32> {
    // The layout's own check names the range of the depth.
    Layout::with_shape(1, 1, depth)?;
    match shape::columns_of_a_block(cell_bits, depth) {
        Some(columns) => Ok(columns),
        None => invalid("cell_bits", cell_bits, "choose 4, 8, 32 or 64"),
    }
}
