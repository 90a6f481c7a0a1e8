//! Estimates: the page, its pending records and the buffers, put together on a copy. Nothing is written, and no lock is held across a
//! read.
//!
//! ```text
//!   keys ─▶ in page order, in rounds (rounds.rs) ─▶ cut (table.rs) ─▶ read pages ─▶ + records of the page in each log ─▶ + buffers ─▶ least
//! ```
//!
//! 1. An estimate is what the in-RAM sketch of the same layout would say after the same updates: every update made before
//!    it counts, wherever it waits.
//! 2. Pages and blocks of logs that lie near each other are read in one request.

use super::flash::{READ_DEPTH, read_blocks};
use super::format::NO_EXTENT;
use super::log::Log;
use super::page::{self, Updates, Weighted};
use super::shape::Shape;
use super::sketch::Sketch;
use super::table::Cut;
use crate::Result;
use crate::device::{BLOCK_BYTES, FileRead, ReadRequest};

/// Up to this many blocks are read at once and the logs' kept until the pages are there; more fill the device's queue log by
/// log.
const TOGETHER_BLOCKS: usize = 256;

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

impl View<'_> {
    /// The pages, which ascend, as they would be if everything were applied, and the weight of the whole sketch; `None` if it is not of
    /// this generation any more.
    pub(super) fn compose(&self, pages: &[u64], blocks: &mut [u8]) -> Result<Option<u64>> {
        let Some(cut) = Cut::take(&self.sketch.table, &self.sketch.slots, self.generation, pages) else {
            return Ok(None);
        };
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

impl Composer<'_> {
    fn compose(&self, blocks: &mut [u8]) -> Result<()> {
        let logs = &self.cut.logs;
        let wanted: Vec<Vec<u64>> = logs.iter().map(|log| self.blocks_of(log)).collect();
        let log_blocks = wanted.iter().map(Vec::len).sum::<usize>();
        if log_blocks > 0 && log_blocks + self.pages.len() <= TOGETHER_BLOCKS {
            self.read_together(&wanted, log_blocks, blocks)?;
        } else {
            self.read_pages(blocks)?;
            let mut records = Records::default();
            for (log, wanted) in logs.iter().zip(&wanted) {
                let wanted: Vec<(u64, usize)> = wanted.iter().map(|&number| (number, 0)).collect();
                read_blocks(&*log.file, &wanted, |number, _, block| {
                    self.add_log_block(log, number, block, blocks, &mut records)
                })?;
            }
        }
        self.cut.waiting().for_each(|updates| self.add(updates, blocks));
        Ok(())
    }

    /// Reads the pages, one block each. Zeros where nothing was written.
    fn read_pages(&self, blocks: &mut [u8]) -> Result<()> {
        let Some(file) = self.cut.file() else {
            blocks[..self.pages.len() * BLOCK_BYTES].fill(0);
            return Ok(());
        };
        let mut wanted = Vec::with_capacity(self.pages.len());
        for (at, (&page, &place)) in self.pages.iter().zip(&self.cut.places).enumerate() {
            if place.extent == NO_EXTENT {
                blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
            } else {
                wanted.push((file.block_of(place, page), at));
            }
        }
        wanted.sort_unstable();
        read_blocks(file.file(), &wanted, |number, at, block| {
            file.check(block, number, self.pages[at], self.cut.places[at])?;
            blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
            Ok(())
        })
    }

    /// Reads pages and their records in all logs at once: a lone estimate waits for one read, not for one of each log.
    fn read_together(&self, wanted: &[Vec<u64>], log_blocks: usize, blocks: &mut [u8]) -> Result<()> {
        let request =
            |number: u64| ReadRequest { offset: number * BLOCK_BYTES as u64, bytes: BLOCK_BYTES as u32 };
        let logs = &self.cut.logs;
        let mut reads = Vec::with_capacity(self.pages.len() + log_blocks);
        let mut page_of_read = Vec::with_capacity(self.pages.len());
        for (at, (&page, &place)) in self.pages.iter().zip(&self.cut.places).enumerate() {
            match self.cut.file().filter(|_| place.extent != NO_EXTENT) {
                Some(file) => {
                    let number = file.block_of(place, page);
                    reads.push(FileRead { file: file.file(), request: request(number) });
                    page_of_read.push((at, file, number));
                }
                None => blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].fill(0),
            }
        }
        for (log, wanted) in logs.iter().zip(wanted) {
            reads
                .extend(wanted.iter().map(|&number| FileRead { file: &*log.file, request: request(number) }));
        }
        let mut held = vec![0; log_blocks * BLOCK_BYTES];
        self.sketch.files.read_many(&reads, READ_DEPTH, &mut |i, bytes| match page_of_read.get(i) {
            Some(&(at, file, number)) => {
                file.check(bytes, number, self.pages[at], self.cut.places[at])?;
                blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(bytes);
                Ok(())
            }
            None => {
                held[(i - page_of_read.len()) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(bytes);
                Ok(())
            }
        })?;
        let numbers = logs.iter().zip(wanted).flat_map(|(log, of)| of.iter().map(move |&n| (log, n)));
        let mut records = Records::default();
        for ((log, number), block) in numbers.zip(held.chunks_exact(BLOCK_BYTES)) {
            self.add_log_block(log, number, block, blocks, &mut records)?;
        }
        Ok(())
    }

    /// The blocks of a log that may hold what the groups of the pages do not hold yet, in order.
    fn blocks_of(&self, log: &Log) -> Vec<u64> {
        let mut wanted: Vec<u64> = Vec::new();
        for (at, &page) in self.pages.iter().enumerate() {
            if !self.is_news(log, at) {
                continue;
            }
            for number in log.blocks_of(page) {
                if wanted.last().is_none_or(|&last| last < number as u64) {
                    wanted.push(number as u64);
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
        log.decode(self.shape, block, number, units, weighted)?;
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
