//! Results in batches: in hash order, or sorted in little memory.
//!
//! Sorting goes through all groups and keeps the first ones, as many as its memory holds; then it goes through them again for those behind
//! the last one, until none are left out. So it needs no room on disk, and the first n of many are one pass.

use crate::Result;
use crate::cell::Cell;
use crate::table::Table;
use arrow_array::RecordBatch;
use overbank::aggregate::{Columns, GroupScan, Groups};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Bytes of a group that is kept to be sorted, beside its values: two vectors and a key.
const KEPT_BYTES: usize = 96;

/// An order of results: by one column, with NULLs behind all values; equal ones by their keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    column: String,
    is_descending: bool,
}

impl Order {
    /// The least first.
    pub fn ascending(column: impl Into<String>) -> Order {
        Order { column: column.into(), is_descending: false }
    }

    /// The greatest first.
    pub fn descending(column: impl Into<String>) -> Order {
        Order { column: column.into(), is_descending: true }
    }

    /// The column of the results.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Whether the greatest is first.
    pub fn is_descending(&self) -> bool {
        self.is_descending
    }
}

/// Results, a batch after another.
pub struct TableBatches {
    table: Arc<Table>,
    source: Source,
}

pub(crate) enum Source {
    Hashes(Box<GroupScan<Columns>>),
    Sorted(Box<Sorted>),
}

/// Groups that are gone through as often as need be.
pub(crate) struct Sorted {
    groups: Groups<Columns>,
    column: usize,
    is_descending: bool,
    /// How many more are wanted.
    left: u64,
    /// The groups of the last pass that were not given yet, the last first.
    kept: Vec<Kept>,
    /// The last one that was given.
    last: Option<Kept>,
    /// Whether the last pass left some out.
    has_more: bool,
}

/// A group in its place in the order.
#[derive(Clone)]
struct Kept {
    cells: Vec<Cell>,
    key: Vec<u8>,
    column: usize,
    is_descending: bool,
}

impl std::fmt::Debug for TableBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBatches").field("schema", &self.table.schema).finish_non_exhaustive()
    }
}

impl TableBatches {
    pub(crate) fn new(table: Arc<Table>, source: Source) -> TableBatches {
        TableBatches { table, source }
    }

    fn next_rows(&mut self) -> Result<Vec<Vec<Cell>>> {
        let most = self.table.options.batch_rows;
        let mut rows = Vec::new();
        while rows.len() < most {
            let row = match &mut self.source {
                Source::Hashes(scan) => match scan.next_group()? {
                    Some(group) => self.table.cells(group)?,
                    None => break,
                },
                Source::Sorted(sorted) => match sorted.next(&self.table)? {
                    Some(cells) => cells,
                    None => break,
                },
            };
            rows.push(row);
        }
        Ok(rows)
    }
}

impl Iterator for TableBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self.next_rows() {
            Ok(rows) if rows.is_empty() => None,
            Ok(rows) => Some(self.table.batch(&rows)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Source {
    pub(crate) fn sorted(groups: Groups<Columns>, column: usize, is_descending: bool, left: u64) -> Source {
        let (kept, last, has_more) = (Vec::new(), None, true);
        Source::Sorted(Box::new(Sorted { groups, column, is_descending, left, kept, last, has_more }))
    }
}

impl Sorted {
    fn next(&mut self, table: &Table) -> Result<Option<Vec<Cell>>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.kept.is_empty() && self.has_more {
            self.pass(table)?;
        }
        let Some(next) = self.kept.pop() else { return Ok(None) };
        self.left -= 1;
        if self.kept.is_empty() && self.has_more {
            self.last = Some(next.clone());
        }
        Ok(Some(next.cells))
    }

    /// Goes through all groups for the next ones.
    fn pass(&mut self, table: &Table) -> Result<()> {
        let mut heap: BinaryHeap<Kept> = BinaryHeap::new();
        let (mut bytes, mut has_more) = (0, false);
        let mut scan = self.groups.scan()?;
        while let Some(group) = scan.next_group()? {
            let cells = table.cells(group)?;
            let next = Kept {
                cells,
                key: group.key.clone(),
                column: self.column,
                is_descending: self.is_descending,
            };
            if self.last.as_ref().is_some_and(|last| next <= *last) {
                continue;
            }
            if has_more && heap.peek().is_some_and(|greatest| next > *greatest) {
                continue;
            }
            bytes += next.memory_bytes();
            heap.push(next);
            while heap.len() > 1 && (bytes > table.options.sort_bytes || heap.len() as u64 > self.left) {
                bytes -= heap.pop().map_or(0, |greatest| greatest.memory_bytes());
                has_more = true;
            }
        }
        self.has_more = has_more;
        self.kept = heap.into_sorted_vec();
        self.kept.reverse();
        Ok(())
    }
}

impl Kept {
    fn memory_bytes(&self) -> usize {
        KEPT_BYTES + self.key.len() + self.cells.iter().map(Cell::memory_bytes).sum::<usize>()
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, others) = (&self.cells[self.column], &other.cells[self.column]);
        let by_null = (*own == Cell::Null).cmp(&(*others == Cell::Null));
        let by_value = if self.is_descending { others.order(own) } else { own.order(others) };
        by_null.then(by_value).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Kept {}
