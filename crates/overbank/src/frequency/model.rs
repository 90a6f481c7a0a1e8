//! The oracle: exact counts in a map, and from them what the cells must say. For plain cells, that is the in-RAM sketch of the
//! same layout; for small ones, a count of each column, and sums of them where one of them is too large.

use super::Frequency;
use super::shape::Shape;
use crate::sketch::CountMin;
use crate::sketch::count_min::Cell;
use crate::{KeyHash, KeyHasher};
use std::collections::BTreeMap;

type Counts = BTreeMap<KeyHash, u64>;

/// What a sketch should hold.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Model {
    pub(super) counts: Counts,
    /// What was added, removed since or not: no sum in the sketch was ever larger.
    added: Counts,
}

impl Model {
    pub(super) fn add(&mut self, hash: KeyHash, weight: u64) {
        for counts in [&mut self.counts, &mut self.added] {
            let count = counts.entry(hash).or_default();
            *count = count.saturating_add(weight);
        }
    }

    /// Adds all that another saw.
    pub(super) fn join(&mut self, other: &Model) {
        for (counts, more) in [(&mut self.counts, &other.counts), (&mut self.added, &other.added)] {
            more.iter().for_each(|(&hash, &count)| *counts.entry(hash).or_default() += count);
        }
    }

    /// Takes off at most what is there, and says how much.
    pub(super) fn remove(&mut self, hash: KeyHash, weight: u64) -> u64 {
        let count = self.counts.entry(hash).or_default();
        let taken = weight.min(*count);
        *count -= taken;
        taken
    }

    /// The estimates that a plain `sketch` must give for `hashes`, whatever the order. With small cells and removals they
    /// are those of the order with the most merges: all additions first.
    pub(super) fn estimates(&self, sketch: &Frequency, hasher: &KeyHasher, hashes: &[KeyHash]) -> Vec<u64> {
        match sketch.sketch.shape().cell_bits {
            32 => self.in_ram::<u32>(sketch, hasher, hashes),
            64 => self.in_ram::<u64>(sketch, hasher, hashes),
            _ => self.in_columns(sketch, hashes, &self.added),
        }
    }

    /// As [`estimates`](Self::estimates), but with the fewest merges: as if what was removed had never been there.
    pub(super) fn least_estimates(
        &self,
        sketch: &Frequency,
        hasher: &KeyHasher,
        hashes: &[KeyHash],
    ) -> Vec<u64> {
        match sketch.sketch.shape().cell_bits {
            32 | 64 => self.estimates(sketch, hasher, hashes),
            _ => self.in_columns(sketch, hashes, &self.counts),
        }
    }

    fn in_ram<C: Cell>(&self, sketch: &Frequency, hasher: &KeyHasher, hashes: &[KeyHash]) -> Vec<u64> {
        let entries = sketch.sketch.shape().entry_layout();
        let mut exact = CountMin::<C>::new(sketch.sketch.shape().layout, hasher);
        self.counts.iter().for_each(|(&hash, &count)| exact.update(entries.stand_in(hash), count));
        hashes.iter().map(|&hash| exact.estimate(entries.stand_in(hash))).collect()
    }

    /// Small cells whose merges are those that the counts `merged_by` need.
    fn in_columns(&self, sketch: &Frequency, hashes: &[KeyHash], merged_by: &Counts) -> Vec<u64> {
        let (now, then) = (
            Columns::new(sketch.sketch.shape(), &self.counts),
            Columns::new(sketch.sketch.shape(), merged_by),
        );
        let row = |hash, row| now.sum(hash, row, then.block(hash, row));
        let rows = 0..sketch.sketch.shape().layout.depth();
        hashes.iter().map(|&hash| rows.clone().map(|r| row(hash, r)).min().unwrap_or(0)).collect()
    }
}

/// The exact count of every column of every row of every page.
struct Columns {
    shape: Shape,
    counts: Vec<u64>,
}

impl Columns {
    fn new(shape: Shape, counts: &Counts) -> Self {
        let mut columns = Columns { shape, counts: vec![0; shape.layout.cells()] };
        for (&hash, &count) in counts {
            for row in 0..shape.layout.depth() {
                let at = columns.at(hash, row);
                columns.counts[at] = columns.counts[at].saturating_add(count);
            }
        }
        columns
    }

    /// Rows are whole words, so blocks of columns are aligned in the one long list of columns as they are in their words.
    fn at(&self, hash: KeyHash, row: u32) -> usize {
        let (entries, layout) = (self.shape.entry_layout(), self.shape.layout);
        let entry = entries.entry(hash);
        let column = keyhash::column(entries.fold(entry), row, layout.columns().into());
        let row = entries.page(entry) * u64::from(layout.depth()) + u64::from(row);
        (row * u64::from(layout.columns()) + column) as usize
    }

    /// The sum of the columns in the block of `columns` columns around a key's.
    fn sum(&self, hash: KeyHash, row: u32, columns: usize) -> u64 {
        self.sum_at(self.at(hash, row) / columns * columns, columns)
    }

    fn sum_at(&self, first: usize, columns: usize) -> u64 {
        self.counts[first..first + columns].iter().fold(0, |sum: u64, &count| sum.saturating_add(count))
    }

    /// The columns of a key's cell: the largest block around its column of which one half has outgrown half of its bits.
    fn block(&self, hash: KeyHash, row: u32) -> usize {
        let (at, bits) = (self.at(hash, row), self.shape.cell_bits as usize);
        let mut block = 1;
        let mut columns = 2;
        while columns * bits <= 64 {
            let (half, first) = (columns / 2, at / columns * columns);
            let most = self.sum_at(first, half).max(self.sum_at(first + half, half));
            if most >> (half * bits) > 0 {
                block = columns;
            }
            columns *= 2;
        }
        block
    }
}
