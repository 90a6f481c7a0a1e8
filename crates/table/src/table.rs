//! What a table's groups are of: the columns of its keys, what its functions look at, and the schema of the results.

use crate::cell::{Cell, Cells, Form, array, as_plain, plain};
use crate::plan::{Plan, index_of};
use crate::{Call, Error, Result, TableOptions, key};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overbank::aggregate::{ColumnType, Item, KeyState, RowBatch};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What the groups are of.
pub(crate) struct Table {
    pub(crate) keys: Vec<KeyColumn>,
    pub(crate) forms: Vec<Form>,
    pub(crate) plan: Plan,
    /// Of the results: the keys, then the calls.
    pub(crate) schema: SchemaRef,
    /// Of what comes in.
    input: SchemaRef,
    pub(crate) options: TableOptions,
    /// The place of the next row that comes without one.
    pub(crate) next_place: AtomicU64,
}

/// A column of the key.
pub(crate) struct KeyColumn {
    /// Its place in the schema.
    pub(crate) index: usize,
    pub(crate) plain: DataType,
}

impl Table {
    pub(crate) fn new<S: AsRef<str>>(
        schema: &Schema,
        by: &[S],
        calls: &[Call],
        options: TableOptions,
    ) -> Result<Table> {
        let (mut keys, mut forms, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for name in by.iter().map(AsRef::as_ref) {
            let index = index_of(schema, name)?;
            let field = schema.field(index);
            let Some((plain, form)) = plain(field.data_type()) else {
                return Err(Error::Unsupported {
                    column: name.to_owned(),
                    data_type: field.data_type().clone(),
                    what: "a key".to_owned(),
                    remedy: "flatten it or choose another column",
                });
            };
            fields.push(Field::new(name, plain.clone(), true));
            forms.push(form);
            keys.push(KeyColumn { index, plain });
        }
        let plan = Plan::new(schema, calls, options.sum_overflow, options.value_bytes_max)?;
        fields.extend(plan.fields());
        for (i, field) in fields.iter().enumerate() {
            if fields[..i].iter().any(|other| other.name() == field.name()) {
                let why = if i < keys.len() {
                    "the key has this column twice; name it once"
                } else {
                    "two results have this name; give one of them another: sum(x) as total"
                };
                return Err(Error::Call { text: field.name().clone(), why: why.to_owned() });
            }
        }
        let (schema, input) = (Arc::new(Schema::new(fields)), Arc::new(schema.clone()));
        Ok(Table { keys, forms, plan, schema, input, options, next_place: AtomicU64::new(0) })
    }

    /// Refuses a batch of another schema; only the columns that are looked at matter.
    pub(crate) fn check(&self, batch: &RecordBatch) -> Result<()> {
        let looked_at =
            self.keys.iter().map(|key| key.index).chain(self.plan.inputs.iter().map(|input| input.index));
        for index in looked_at {
            let expected = self.input.field(index);
            let found = batch.schema_ref().fields().get(index);
            if found.is_none_or(|found| {
                found.name() != expected.name() || found.data_type() != expected.data_type()
            }) {
                return Err(Error::Mismatch {
                    column: expected.name().clone(),
                    expected: expected.data_type().to_string(),
                    found: found.map_or("nothing".to_owned(), |found| {
                        format!("{} {}", found.name(), found.data_type())
                    }),
                });
            }
        }
        Ok(())
    }

    /// What the functions look at.
    pub(crate) fn rows(&self, batch: &RecordBatch, place: u64) -> Result<RowBatch> {
        let inputs = &self.plan.inputs;
        let arrays = inputs.iter().map(|input| as_plain(batch.column(input.index), &input.plain));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let columns = cells_of(&arrays)?;
        let (mut rows, mut items) = (RowBatch::new(), Vec::with_capacity(inputs.len()));
        for row in 0..batch.num_rows() {
            items.clear();
            items.extend(
                inputs.iter().zip(&columns).map(|(input, cells)| item(input.column_type, cells, row)),
            );
            self.plan.columns.push_row(place + row as u64, &items, &mut rows)?;
        }
        Ok(rows)
    }

    /// The results of a group: those of its key, then those of the calls.
    pub(crate) fn cells(&self, group: &KeyState) -> Result<Vec<Cell>> {
        let mut cells = key::read(&self.forms, &group.key)?;
        cells.extend(self.plan.cells(self.plan.columns.values(group.as_state())?));
        Ok(cells)
    }

    /// The results of a key that no row had.
    pub(crate) fn absent(&self, key: &[u8]) -> Result<Vec<Cell>> {
        let mut cells = key::read(&self.forms, key)?;
        cells.extend(self.plan.absent());
        Ok(cells)
    }

    /// Rows of results as a batch.
    pub(crate) fn batch(&self, rows: &[Vec<Cell>]) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (i, field) in self.schema.fields().iter().enumerate() {
            let cells: Vec<Cell> = rows.iter().map(|row| row[i].clone()).collect();
            columns.push(array(&cells, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn cells_of(arrays: &[ArrayRef]) -> Result<Vec<Cells<'_>>> {
    let cells = arrays.iter().map(|array| Cells::of(array.as_ref() as &dyn Array));
    cells.map(|cells| cells.ok_or(Error::Foreign { what: "type" })).collect()
}

/// The keys of rows, one behind the other, and where each ends.
pub(crate) fn write_keys(forms: &[Form], arrays: &[ArrayRef], rows: usize) -> Result<(Vec<u8>, Vec<usize>)> {
    let columns = cells_of(arrays)?;
    let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(rows));
    for row in 0..rows {
        key::append(forms, &columns, row, &mut keys);
        ends.push(keys.len());
    }
    Ok((keys, ends))
}

#[inline]
fn item<'a>(column_type: ColumnType, cells: &Cells<'a>, row: usize) -> Item<'a> {
    if cells.is_null(row) {
        return Item::Null;
    }
    match column_type {
        ColumnType::Float => Item::Float(cells.float(row)),
        ColumnType::Bytes => Item::Bytes(cells.bytes(row)),
        ColumnType::Wide => Item::Wide(cells.whole(row)),
        // Both are of 64 bits.
        ColumnType::Unsigned => Item::Unsigned(cells.whole(row) as u64),
        _ => Item::Signed(cells.whole(row) as i64),
    }
}
