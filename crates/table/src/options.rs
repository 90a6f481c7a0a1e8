//! Options of a table's groups.

use crate::plan::SumOverflow;
use overbank::aggregate::GroupsOptions;

/// Bytes of a value that a function keeps.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Options of [`TableGroups`](crate::TableGroups).
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(crate) groups: GroupsOptions,
    pub(crate) sum_overflow: SumOverflow,
    pub(crate) batch_rows: usize,
    pub(crate) value_bytes_max: usize,
    pub(crate) sort_bytes: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TableOptions {
    /// Groups of [`GroupsOptions::new`], 8192 rows a batch, sums of integers that are an error beyond 64 bits, and 8 MiB to sort in.
    pub fn new() -> Self {
        TableOptions {
            groups: GroupsOptions::new(),
            sum_overflow: SumOverflow::Error,
            batch_rows: 8192,
            value_bytes_max: VALUE_BYTES_MAX,
            sort_bytes: 8 << 20,
        }
    }

    /// The memory, threads and hashes of the groups.
    pub fn groups(mut self, groups: GroupsOptions) -> Self {
        self.groups = groups;
        self
    }

    /// What becomes of sums of integers that do not fit 64 bits.
    pub fn sum_overflow(mut self, sum_overflow: SumOverflow) -> Self {
        self.sum_overflow = sum_overflow;
        self
    }

    /// Rows of a batch of results at most, at least one.
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The most bytes of a text or binary value that a function keeps; a longer one is an error.
    pub fn value_bytes_max(mut self, bytes: usize) -> Self {
        self.value_bytes_max = bytes;
        self
    }

    /// The memory that sorted results are sorted in, beside that of the groups: the less it is, the more often the groups are gone through.
    pub fn sort_bytes(mut self, bytes: usize) -> Self {
        self.sort_bytes = bytes;
        self
    }
}
