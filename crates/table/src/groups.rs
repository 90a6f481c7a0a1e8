//! Groups of the rows of record batches.

use crate::cell::{as_plain, plain};
use crate::plan::index_of;
use crate::results::{Order, Source, TableBatches};
use crate::table::{Table, write_keys};
use crate::{Call, Error, Result, SumOverflow, TableOptions};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use overbank::aggregate::{Columns, Groups, GroupsOptions};
use overbank::store::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the rows of each key come to: record batches in, record batches out. A handle, whose clones are the same groups; any number of
/// threads insert and ask at once.
///
/// ```
/// use arrow_array::{Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
/// use overbank_table::{Call, Order, TableGroups, TableOptions};
/// use std::sync::Arc;
///
/// let fruit = StringArray::from(vec![Some("pear"), Some("fig"), None, Some("pear")]);
/// let batch = RecordBatch::try_from_iter([
///     ("fruit", Arc::new(fruit) as _),
///     ("amount", Arc::new(Int64Array::from(vec![Some(3), None, Some(7), Some(4)])) as _),
/// ])?;
/// let calls = Call::parse_list("count, sum(amount)")?;
/// let sales = TableGroups::new(&batch.schema(), &["fruit"], &calls, TableOptions::new())?;
/// sales.insert(&batch)?;
/// let sorted = sales.sorted(&Order::descending("sum(amount)"))?.next().ok_or("nothing")??;
/// let sums: Vec<_> = sorted["sum(amount)"].as_primitive::<Int64Type>().iter().collect();
/// assert_eq!(sums, [Some(7), Some(7), None]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TableGroups {
    table: Arc<Table>,
    groups: Groups<Columns>,
}

impl std::fmt::Debug for TableGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableGroups").field("schema", &self.table.schema).finish_non_exhaustive()
    }
}

impl TableGroups {
    /// Groups, in memory, of the rows of batches with this `schema`, by the columns `by`; without any, all rows are one group. `calls` is
    /// what is computed of each.
    ///
    /// # Errors
    /// `NoSuchColumn`; `Unsupported` for a column whose type cannot be a key, or taken by its function; `Call` for two results of one name;
    /// what [`Groups::new`] says.
    pub fn new<S: AsRef<str>>(
        schema: &Schema,
        by: &[S],
        calls: &[Call],
        options: TableOptions,
    ) -> Result<TableGroups> {
        Self::made(Table::new(schema, by, calls, options)?, Groups::new)
    }

    /// As [`TableGroups::new`], of groups that go to files of `scratch` where memory is full, which are gone with the groups.
    ///
    /// # Errors
    /// As there, and [`Groups::spilling`].
    pub fn spilling<S: AsRef<str>>(
        schema: &Schema,
        by: &[S],
        calls: &[Call],
        options: TableOptions,
        scratch: &Store,
    ) -> Result<TableGroups> {
        let table = Table::new(schema, by, calls, options)?;
        Self::made(table, |columns, options| Groups::spilling(columns, options, scratch))
    }

    /// As [`TableGroups::new`], of the groups of this name in a store, whose commits keep them.
    ///
    /// # Errors
    /// As there, and [`Store::groups`].
    pub fn stored<S: AsRef<str>>(
        schema: &Schema,
        by: &[S],
        calls: &[Call],
        options: TableOptions,
        store: &Store,
        name: &str,
    ) -> Result<TableGroups> {
        let table = Table::new(schema, by, calls, options)?;
        Self::made(table, |columns, options| store.groups(name, columns, options))
    }

    /// The schema of the results of such groups, of which none are made.
    ///
    /// # Errors
    /// As [`TableGroups::new`].
    pub fn results<S: AsRef<str>>(
        schema: &Schema,
        by: &[S],
        calls: &[Call],
        sum_overflow: SumOverflow,
    ) -> Result<SchemaRef> {
        let options = TableOptions::new().sum_overflow(sum_overflow);
        Ok(Table::new(schema, by, calls, options)?.schema)
    }

    fn made(
        table: Table,
        make: impl FnOnce(Columns, GroupsOptions) -> overbank::Result<Groups<Columns>>,
    ) -> Result<TableGroups> {
        let groups = make(table.plan.columns.clone(), table.options.groups.clone())?;
        Ok(TableGroups { table: Arc::new(table), groups })
    }

    /// The schema of the results: the columns of the key, then one a call.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.schema)
    }

    /// Takes the rows of a batch. `first`, `last` and `list` take the rows of batches in the order in which they are inserted.
    ///
    /// # Cost
    /// A key is written, a row packed and both copied, some 100 ns; beside that as [`Groups::insert_many`].
    ///
    /// # Errors
    /// `Mismatch` for a batch of another schema; what [`Groups::insert_many`] says.
    pub fn insert(&self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        self.insert_at(batch, self.table.next_place.fetch_add(rows, Ordering::Relaxed))
    }

    /// As [`TableGroups::insert`], of a batch whose first row has this place in the stream, and the others the next ones: for batches that
    /// come side by side, and whose order is known.
    ///
    /// # Errors
    /// As there.
    pub fn insert_at(&self, batch: &RecordBatch, place: u64) -> Result<()> {
        let table = &self.table;
        table.check(batch)?;
        let keys = table.keys.iter().map(|key| as_plain(batch.column(key.index), &key.plain));
        let (keys, ends) = write_keys(&table.forms, &keys.collect::<Result<Vec<_>>>()?, batch.num_rows())?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let keys: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &keys[start..end]).collect();
        let rows = table.rows(batch, place)?;
        Ok(self.groups.insert_batch(&keys, &rows)?)
    }

    /// All groups in the order of their keys' hashes, which is no order to people. It goes beside threads that insert, and has the rows
    /// that were inserted before.
    ///
    /// # Errors
    /// As [`Groups::scan`].
    pub fn batches(&self) -> Result<TableBatches> {
        let source = Source::Hashes(Box::new(self.groups.scan()?));
        Ok(TableBatches::new(Arc::clone(&self.table), source))
    }

    /// All groups in an order.
    ///
    /// # Cost
    /// The groups are gone through as often as [`TableOptions::sort_bytes`] are too few for all of them.
    ///
    /// # Errors
    /// `NoSuchColumn` for a column that is none of the results; as [`Groups::scan`].
    pub fn sorted(&self, order: &Order) -> Result<TableBatches> {
        self.top(u64::MAX, order)
    }

    /// The first `n` groups in an order.
    ///
    /// # Errors
    /// As [`TableGroups::sorted`].
    pub fn top(&self, n: u64, order: &Order) -> Result<TableBatches> {
        let column = index_of(&self.table.schema, order.column())?;
        let source = Source::sorted(self.groups.clone(), column, order.is_descending(), n);
        Ok(TableBatches::new(Arc::clone(&self.table), source))
    }

    /// The groups of some keys, a row each in their order: `keys` has the columns of the key, by name. Where no row had a key, counts are 0
    /// and everything else is NULL.
    ///
    /// # Errors
    /// `NoSuchColumn` or `Mismatch` where `keys` are not as the schema has them; as [`Groups::get`].
    pub fn get(&self, keys: &RecordBatch) -> Result<RecordBatch> {
        let table = &self.table;
        let mut columns = Vec::new();
        for (key, field) in table.keys.iter().zip(table.schema.fields()) {
            let column = keys.column(index_of(&keys.schema(), field.name())?);
            if plain(column.data_type()).map(|(plain, _)| plain).as_ref() != Some(&key.plain) {
                return Err(Error::Mismatch {
                    column: field.name().clone(),
                    expected: key.plain.to_string(),
                    found: column.data_type().to_string(),
                });
            }
            columns.push(as_plain(column, &key.plain)?);
        }
        let (bytes, ends) = write_keys(&table.forms, &columns, keys.num_rows())?;
        let mut rows = Vec::with_capacity(ends.len());
        let mut start = 0;
        for end in ends {
            rows.push(match self.groups.get(&bytes[start..end])? {
                Some(group) => table.cells(&group)?,
                None => table.absent(&bytes[start..end])?,
            });
            start = end;
        }
        table.batch(&rows)
    }

    /// How many groups there are.
    ///
    /// # Errors
    /// As [`Groups::count`].
    pub fn count(&self) -> Result<u64> {
        Ok(self.groups.count()?)
    }

    /// Bytes that the groups hold now.
    pub fn memory_bytes(&self) -> usize {
        self.groups.memory_bytes()
    }
}
