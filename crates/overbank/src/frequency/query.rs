//! Estimates: the page, its pending records and the buffers, put together on a copy. Nothing is written, and no lock is held across a
//! read.
//!
//! ```text
//!   keys ─▶ in page order, in rounds ─▶ cut (table.rs) ─▶ read pages ─▶ + records of the page in each log ─▶ + buffers ─▶ least
//! ```
//!
//! 1. An estimate is what the in-RAM sketch of the same layout would say after the same updates: every update made before
//!    it counts, wherever it waits.
//! 2. Pages and blocks of logs that lie near each other are read in one request.

use super::format::NO_EXTENT;
use super::log::Log;
use super::page::{self, Updates, Weighted};
use super::shape::Shape;
use super::sketch::Sketch;
use super::table::Cut;
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::lock::lock;
use crate::segment::reads::{self, Coalesce};

/// Up to this many blocks are read at once and the logs' kept until the pages are there; more fill the device's queue log by
/// log.
const TOGETHER_BLOCKS: usize = 256;

/// How pages and blocks of logs are read. At 128 reads in flight the devices measured here reach their rate, and at that depth reads of
/// more than 8 blocks are no faster: a device keeps 4 MiB for reads in flight from call to call, which is as many. Blocks that nobody
/// asked for are read along where that saves a request: a random read at full depth takes about as long as four blocks of a sequential
/// one (9 against 2 microseconds on the device measured here).
const COALESCE: Coalesce =
    Coalesce { longest_blocks: 8, gap_blocks: 4, depth: 128, in_flight_bytes: 4 << 20 };

/// The updates of one block of a log.
#[derive(Default)]
struct Records {
    units: Vec<u64>,
    weighted: Vec<Weighted>,
}

/// One generation of a sketch, to be asked page by page.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) sketch: &'a Sketch,
    pub(super) shape: Shape,
    pub(super) generation: u64,
}

impl Sketch {
    /// The sketch as its present generation is.
    pub(super) fn view(&self) -> View<'_> {
        let table = lock(&self.table);
        View { sketch: self, shape: table.shape, generation: table.generation }
    }
}

impl View<'_> {
    /// The pages, which ascend, as they would be if everything were applied, and the weight of the whole sketch; `None` if it is not of
    /// this generation any more.
    pub(super) fn compose(&self, pages: &[u64], blocks: &mut [u8]) -> Result<Option<u64>> {
        let Sketch { table, slots, .. } = self.sketch;
        let Some(cut) = Cut::take(table, slots, Some(self.generation), pages) else { return Ok(None) };
        Composer { sketch: self.sketch, shape: cut.shape, cut: &cut, pages }.compose(blocks)?;
        Ok(Some(cut.total_weight))
    }

    /// As [`compose`](Self::compose), for whoever holds the sketch's turns: its generation stays.
    pub(super) fn compose_still(&self, pages: &[u64], blocks: &mut [u8]) -> Result<()> {
        let composed = self.compose(pages, blocks)?;
        debug_assert!(composed.is_some(), "another generation while the turns are held");
        Ok(())
    }
}

/// Puts together the pages of one cut.
struct Composer<'a> {
    sketch: &'a Sketch,
    shape: Shape,
    cut: &'a Cut,
    pages: &'a [u64],
}

/// One block that a round reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Want {
    /// In the pages file, or in the log of this number less one.
    file: usize,
    number: u64,
    /// For which of the round's pages; of a log's block, where it is kept meanwhile.
    at: usize,
}

impl Composer<'_> {
    fn compose(&self, blocks: &mut [u8]) -> Result<()> {
        let logs = &self.cut.logs;
        let of_pages = self.clear_and_list(blocks);
        let of_logs: Vec<Vec<Want>> = (1..=logs.len()).map(|file| self.blocks_of(file)).collect();
        let log_blocks = of_logs.iter().map(Vec::len).sum::<usize>();
        let mut records = Records::default();
        if log_blocks > 0 && log_blocks + of_pages.len() <= TOGETHER_BLOCKS {
            // A lone estimate waits for one read, not for one of each log.
            let mut wanted = of_pages;
            wanted.extend(of_logs.into_iter().flatten().enumerate().map(|(at, want)| Want { at, ..want }));
            let mut held = vec![0; log_blocks * BLOCK_BYTES];
            self.read(&wanted, &mut |want, block| {
                if want.file == 0 {
                    return self.take_page(want, block, blocks);
                }
                held[want.at * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
                Ok(())
            })?;
            for want in wanted.iter().filter(|want| want.file > 0) {
                let block = &held[want.at * BLOCK_BYTES..][..BLOCK_BYTES];
                self.add_log_block(&logs[want.file - 1], want.number, block, blocks, &mut records)?;
            }
        } else {
            self.read(&of_pages, &mut |want, block| self.take_page(want, block, blocks))?;
            // Log by log: no removal overtakes what was added in a log before it.
            for (log, wanted) in logs.iter().zip(&of_logs) {
                self.read(wanted, &mut |want, block| {
                    self.add_log_block(log, want.number, block, blocks, &mut records)
                })?;
            }
        }
        self.cut.waiting().for_each(|updates| self.add(updates, blocks));
        Ok(())
    }

    fn read(&self, wanted: &[Want], done: &mut dyn FnMut(&Want, &[u8]) -> Result<()>) -> Result<()> {
        let place = |want: &Want| match (want.file, self.cut.file()) {
            (0, Some(file)) => (file.file(), want.number),
            (file, _) => self.cut.logs[file.saturating_sub(1)].place_of(want.number),
        };
        if wanted.is_empty() {
            return Ok(());
        }
        reads::read_blocks(&self.sketch.files, COALESCE, wanted, place, done)
    }

    /// The pages that are on flash, in the order in which they lie there; the others are all zeros.
    fn clear_and_list(&self, blocks: &mut [u8]) -> Vec<Want> {
        let mut wanted = Vec::with_capacity(self.pages.len());
        for (at, (&page, &place)) in self.pages.iter().zip(&self.cut.places).enumerate() {
            match self.cut.file().filter(|_| place.extent != NO_EXTENT) {
                Some(file) => wanted.push(Want { file: 0, number: file.block_of(place, page), at }),
                None => blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].fill(0),
            }
        }
        wanted.sort_unstable();
        wanted
    }

    /// Checks what was read at the place of a page, and takes it.
    fn take_page(&self, want: &Want, block: &[u8], blocks: &mut [u8]) -> Result<()> {
        if let Some(file) = self.cut.file() {
            file.check(block, want.number, self.pages[want.at], self.cut.places[want.at])?;
            blocks[want.at * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
        }
        Ok(())
    }

    /// The blocks of log `file - 1` that may hold what the groups of the pages do not hold yet, in order.
    fn blocks_of(&self, file: usize) -> Vec<Want> {
        let log = &self.cut.logs[file - 1];
        let mut wanted = Vec::<Want>::new();
        for (at, &page) in self.pages.iter().enumerate() {
            if !self.is_news(log, at) {
                continue;
            }
            for number in log.blocks_of(page) {
                if wanted.last().is_none_or(|last| last.number < number) {
                    wanted.push(Want { file, number, at });
                }
            }
        }
        wanted
    }

    /// Whether the group of page number `at` does not hold a log yet.
    fn is_news(&self, log: &Log, at: usize) -> bool {
        self.cut.places[at].sequence < log.sequence
    }

    /// Adds what a block of a log holds for the pages.
    fn add_log_block(
        &self,
        log: &Log,
        number: u64,
        block: &[u8],
        blocks: &mut [u8],
        Records { units, weighted }: &mut Records,
    ) -> Result<()> {
        let entries = self.shape.entry_layout();
        units.clear();
        weighted.clear();
        log.decode(block, number, units, weighted)?;
        let updates = Updates { units, weighted };
        let ends = units.first().into_iter().chain(units.last());
        let ends = ends.chain(weighted.first().map(|w| &w[0])).chain(weighted.last().map(|w| &w[0]));
        let span = ends.map(|&entry| entries.page(entry));
        let (first, last) = span.fold((u64::MAX, 0), |(first, last), page| (first.min(page), last.max(page)));
        let from = self.pages.partition_point(|&page| page < first);
        let to = self.pages.partition_point(|&page| page <= last);
        self.add_to(from..to.max(from), updates, blocks, |at| self.is_news(log, at));
        Ok(())
    }

    fn add(&self, updates: Updates<'_>, blocks: &mut [u8]) {
        if !updates.is_empty() {
            self.add_to(0..self.pages.len(), updates, blocks, |_| true);
        }
    }

    /// Adds updates to those of the pages number `range` that `wants` them.
    fn add_to(
        &self,
        range: std::ops::Range<usize>,
        updates: Updates<'_>,
        blocks: &mut [u8],
        wants: impl Fn(usize) -> bool,
    ) {
        let entries = self.shape.entry_layout();
        let mut rest = updates;
        for at in range {
            let page = self.pages[at];
            rest = rest.split_below(entries, page).1;
            let (here, behind) = rest.split_below(entries, page + 1);
            if !here.is_empty() && wants(at) {
                page::add(&mut blocks[at * BLOCK_BYTES..][..BLOCK_BYTES], self.shape, page, here);
            }
            rest = behind;
        }
    }
}
