//! Texts as record batches of one column, and the groups that count them.

use super::pass::Take;
use super::session::Definition;
use super::table::BATCH_ROWS;
use crate::failure::Failure;
use arrow_array::RecordBatch;
use arrow_array::builder::StringBuilder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overbank_table::{Call, CallFunction, SumOverflow};
use std::sync::Arc;

/// Texts that are counted, on their way.
pub(super) struct Texts<'t> {
    schema: SchemaRef,
    texts: StringBuilder,
    taken: u64,
    take: Take<'t>,
}

impl<'t> Texts<'t> {
    pub(super) fn new(name: &str, take: Take<'t>) -> Texts<'t> {
        Texts { schema: Arc::new(schema(name)), texts: StringBuilder::new(), taken: 0, take }
    }

    /// Groups of texts, by the name `name`, and how often each comes.
    pub(super) fn definition(name: &str) -> Definition {
        let count = Call { function: CallFunction::CountRows, column: None, name: "count".to_owned() };
        let (schema, overflow) = (schema(name), SumOverflow::Error);
        Definition { schema, by: vec![name.to_owned()], calls: vec![count], overflow }
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), Failure> {
        self.texts.append_value(text);
        if self.texts.values_slice().len() >= BATCH_ROWS * 8 { self.hand_over() } else { Ok(()) }
    }

    /// Hands over what is left.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<(), Failure> {
        let texts = self.texts.finish();
        let rows = texts.value_offsets().len() as u64 - 1;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(texts)]);
        (self.take)(&batch.map_err(|error| super::told(error.into()))?, self.taken)?;
        self.taken += rows;
        Ok(())
    }
}

fn schema(name: &str) -> Schema {
    Schema::new(vec![Field::new(name, DataType::Utf8, true)])
}
