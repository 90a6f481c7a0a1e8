//! Reads a whole run and compares all that it says of itself with what is in it.

use super::super::item::Item;
use super::super::page::{Page, PageBuilder, Sizes};
use super::codec::Unpacked;
use super::format::Counts;
use super::reader::RunSegment;
use crate::error::corrupt_bytes;
use crate::{KeyHash, Result};
use std::ops::Range;

/// Read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What was found so far.
struct Check<'a> {
    run: &'a RunSegment,
    counts: Counts,
    last: Option<(KeyHash, Vec<u8>)>,
    page: PageBuilder,
    again: Vec<u8>,
    unpacked: Vec<u8>,
}

impl RunSegment {
    /// Reads all pages of the file and checks every seal; that items are in order, each in the page that the index names, and passes
    /// the front and has its rank; that each page has the bytes that a writer makes of its items; that the index is that of the pages,
    /// and the counts those of the items.
    ///
    /// # Cost
    /// All blocks, once, in order; 1 MiB of RAM, and twice the longest page.
    ///
    /// # Errors
    /// `Corrupt` at the first damage.
    pub(crate) fn verify(&self) -> Result<()> {
        let (page, again, unpacked) = (PageBuilder::default(), Vec::new(), Vec::new());
        let mut check = Check { run: self, counts: Counts::default(), last: None, page, again, unpacked };
        self.file.segment.rebuild(PIECE_BYTES, false, |blocks, body| {
            let first = blocks.start;
            check.page(blocks, body).map_err(|error| self.file.in_page(error, first))
        })?;
        let (expected, mut found) = (self.counts(), check.counts);
        found.longest = expected.longest.and(found.longest);
        if expected != found {
            let error = corrupt_bytes(0, "a run's counts", format!("{expected:?}"), format!("{found:?}"));
            return Err(error.in_file_from(self.path(), self.file_ref().bytes));
        }
        Ok(())
    }
}

impl Check<'_> {
    /// Checks a page; its first hash.
    fn page(&mut self, blocks: Range<u64>, body: &[u8]) -> Result<u64> {
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let Unpacked { page: bytes, packed_bytes } = self.run.file.unpacker.unpack(body, &mut unpacked)?;
        let page = Page::of(bytes)?;
        let mut items = page.items(self.run.file.hasher);
        let (mut first, mut sizes) = (None, Sizes::default());
        while let Some(item) = items.next()? {
            self.item(&blocks, &item)?;
            sizes = sizes.with(&item);
            self.page.push(&item);
            first.get_or_insert(item.hash.high());
        }
        self.again.clear();
        self.page.encode(&sizes, &mut self.again);
        self.page.drop_first(page.items_count());
        let (start, behind) = bytes.split_at(page.bytes());
        let padding = packed_bytes.map_or(behind, |packed| &body[packed..]);
        let has_rest = packed_bytes.is_some() && !behind.is_empty();
        if start != self.again || has_rest || padding.iter().any(|&byte| byte != 0) {
            return Err(corrupt_bytes(0, "the bytes of a page", "those of its items, then zeros", "others"));
        }
        self.unpacked = unpacked;
        // A page has an item at least.
        Ok(first.unwrap_or(0))
    }

    fn item(&mut self, blocks: &Range<u64>, item: &Item<'_>) -> Result<()> {
        let is_behind =
            self.last.as_ref().is_none_or(|(hash, key)| (*hash, &key[..]) < (item.hash, item.key));
        let named = self.run.file.segment.find(item.hash.high());
        if !is_behind || named != *blocks {
            let expected = format!("behind {:?}, in blocks {named:?}", self.last.as_ref().map(|last| last.0));
            return Err(corrupt_bytes(
                0,
                "the place of an item",
                expected,
                format!("{:?}, in {blocks:?}", item.hash),
            ));
        }
        if self.run.file.front.as_ref().is_some_and(|front| !front.may_have(item.hash.high())) {
            return Err(corrupt_bytes(
                0,
                "a run's front",
                "one that all keys pass",
                format!("not {:?}", item.hash),
            ));
        }
        // Items of equal hashes share the first one's rank, or have ranks behind it.
        let is_first = self.last.as_ref().is_none_or(|last| last.0 != item.hash);
        let rank = self.run.rank(item.hash).filter(|_| is_first);
        if rank.is_some_and(|rank| rank != self.counts.items) {
            return Err(corrupt_bytes(0, "the rank of a key", self.counts.items, format!("{rank:?}")));
        }
        self.counts.add(item);
        let last = self.last.get_or_insert_default();
        last.0 = item.hash;
        last.1.clear();
        last.1.extend_from_slice(item.key);
        Ok(())
    }
}
