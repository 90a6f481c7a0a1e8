//! Estimates: the page, its pending records and the buffer, put together on a copy. Nothing is written.
//!
//! ```text
//!   keys ─▶ in page order, in rounds (rounds.rs) ─▶ read pages ─▶ + records of the page in each log ─▶ + buffers ─▶ least
//! ```
//!
//! 1. An estimate is what the in-RAM sketch of the same layout would say after the same updates: every update made before
//!    it counts, wherever it waits.
//! 2. Pages and blocks of logs that lie near each other are read in one request.

use super::flash::{Pages, READ_DEPTH, read_blocks};
use super::log::Log;
use super::page::{self, Updates, Weighted};
use super::place::Shape;
use crate::Result;
use crate::device::{BLOCK_BYTES, FileRead, ReadRequest};
use crate::store::Files;

/// Up to this many blocks are read at once and the logs' kept until the pages are there; more fill the device's queue log by
/// log.
const TOGETHER_BLOCKS: usize = 256;

/// The updates of one block of a log.
#[derive(Default)]
struct Records {
    units: Vec<u64>,
    weighted: Vec<Weighted>,
}

/// What an estimate looks at.
pub(super) struct View<'a> {
    pub(super) shape: Shape,
    pub(super) files: &'a Files,
    pub(super) pages: &'a Pages,
    pub(super) logs: &'a [Log],
    /// What waits in each buffer: in order, and not.
    pub(super) waiting: Vec<(Updates<'a>, Updates<'a>)>,
    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub(super) total_weight: u64,
}

impl View<'_> {
    /// The pages as they would be if everything were applied.
    pub(super) fn compose(&self, pages: &[u64], blocks: &mut [u8]) -> Result<()> {
        let wanted: Vec<Vec<u64>> = self.logs.iter().map(|log| self.blocks_of(log, pages)).collect();
        let log_blocks = wanted.iter().map(Vec::len).sum::<usize>();
        if log_blocks > 0 && log_blocks + pages.len() <= TOGETHER_BLOCKS {
            self.read_together(pages, &wanted, log_blocks, blocks)?;
        } else {
            self.pages.read(pages, blocks)?;
            for (log, wanted) in self.logs.iter().zip(&wanted) {
                let wanted: Vec<(u64, usize)> = wanted.iter().map(|&number| (number, 0)).collect();
                let mut records = Records::default();
                read_blocks(&*log.file, &wanted, |number, _, block| {
                    self.add_log_block(log, number, block, pages, blocks, &mut records)
                })?;
            }
        }
        for &(sorted, late) in &self.waiting {
            self.add(sorted, pages, blocks);
            self.add_unsorted(late, pages, blocks);
        }
        Ok(())
    }

    /// Reads pages and their records in all logs at once: a lone estimate waits for one read, not for one of each log.
    fn read_together(
        &self,
        pages: &[u64],
        wanted: &[Vec<u64>],
        log_blocks: usize,
        blocks: &mut [u8],
    ) -> Result<()> {
        let block =
            |number: u64| ReadRequest { offset: number * BLOCK_BYTES as u64, bytes: BLOCK_BYTES as u32 };
        let mut reads = Vec::with_capacity(pages.len() + log_blocks);
        let mut page_of_read = Vec::with_capacity(pages.len());
        for (at, &page) in pages.iter().enumerate() {
            if let Some((file, number)) = self.pages.place_of(page) {
                reads.push(FileRead { file, request: block(number) });
                page_of_read.push(at);
            } else {
                blocks[at * BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
            }
        }
        for (log, wanted) in self.logs.iter().zip(wanted) {
            reads.extend(wanted.iter().map(|&number| FileRead { file: &*log.file, request: block(number) }));
        }
        let mut held = vec![0; log_blocks * BLOCK_BYTES];
        self.files.read_many(&reads, READ_DEPTH, &mut |i, bytes| match page_of_read.get(i) {
            Some(&at) => self.pages.accept(pages[at], bytes, &mut blocks[at * BLOCK_BYTES..][..BLOCK_BYTES]),
            None => {
                held[(i - page_of_read.len()) * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(bytes);
                Ok(())
            }
        })?;
        let numbers = self.logs.iter().zip(wanted).flat_map(|(log, of)| of.iter().map(move |&n| (log, n)));
        let mut records = Records::default();
        for ((log, number), block) in numbers.zip(held.chunks_exact(BLOCK_BYTES)) {
            self.add_log_block(log, number, block, pages, blocks, &mut records)?;
        }
        Ok(())
    }

    /// The blocks of a log that may hold what the groups of `pages` do not hold yet, in order.
    fn blocks_of(&self, log: &Log, pages: &[u64]) -> Vec<u64> {
        let mut wanted: Vec<u64> = Vec::new();
        for &page in pages.iter().filter(|&&page| self.is_news(log, page)) {
            for number in log.blocks_of(page) {
                if wanted.last().is_none_or(|&last| last < number as u64) {
                    wanted.push(number as u64);
                }
            }
        }
        wanted
    }

    fn is_news(&self, log: &Log, page: u64) -> bool {
        self.pages.slot_of(page).sequence < log.sequence
    }

    /// Adds what a block of a log holds for `pages`.
    fn add_log_block(
        &self,
        log: &Log,
        number: u64,
        block: &[u8],
        pages: &[u64],
        blocks: &mut [u8],
        Records { units, weighted }: &mut Records,
    ) -> Result<()> {
        let place = self.shape.place();
        units.clear();
        weighted.clear();
        log.decode(self.shape, block, number, units, weighted)?;
        let updates = Updates { units, weighted };
        let entries = units.first().into_iter().chain(units.last());
        let entries = entries.chain(weighted.first().map(|w| &w[0])).chain(weighted.last().map(|w| &w[0]));
        let span = entries.map(|&entry| place.page(entry));
        let (first, last) = span.fold((u64::MAX, 0), |(first, last), page| (first.min(page), last.max(page)));
        let from = pages.partition_point(|&page| page < first);
        for (at, &page) in pages.iter().enumerate().skip(from).take_while(|&(_, &page)| page <= last) {
            if self.is_news(log, page) {
                let block = &mut blocks[at * BLOCK_BYTES..][..BLOCK_BYTES];
                page::add(block, self.shape, page, updates.of_pages(place, page, page + 1));
            }
        }
        Ok(())
    }

    fn add(&self, updates: Updates<'_>, pages: &[u64], blocks: &mut [u8]) {
        let place = self.shape.place();
        for (at, &page) in pages.iter().enumerate() {
            let here = updates.of_pages(place, page, page + 1);
            if !here.is_empty() {
                page::add(&mut blocks[at * BLOCK_BYTES..][..BLOCK_BYTES], self.shape, page, here);
            }
        }
    }

    fn add_unsorted(&self, updates: Updates<'_>, pages: &[u64], blocks: &mut [u8]) {
        let place = self.shape.place();
        let mut one = |page: u64, update: Updates<'_>| {
            if let Ok(at) = pages.binary_search(&page) {
                page::add(&mut blocks[at * BLOCK_BYTES..][..BLOCK_BYTES], self.shape, page, update);
            }
        };
        for unit in updates.units.chunks(1) {
            one(place.page(unit[0]), Updates { units: unit, weighted: &[] });
        }
        for weighted in updates.weighted.chunks(1) {
            one(place.page(weighted[0][0]), Updates { units: &[], weighted });
        }
    }
}
