//! Raw records: a key and a value of any bytes, each behind its length. The reader cuts only whole records, so the parser meets no other.

use crate::Result;
use crate::batch::Span;
use crate::layout::Columns;
use crate::lengths::part;
use crate::rows::{Own, Rows};

pub(crate) fn parse(columns: &Columns, rows: &mut Rows) -> Result<()> {
    let (text, mut at) = (rows.text, 0);
    while let Some(key) = part(text, at)
        && let Some(value) = part(text, key.1)
    {
        let fields = [key, value].map(|(start, end)| Span::text(start, end - start));
        rows.begin();
        for &(field, slot) in &columns.wanted {
            rows.out.fields[slot] = fields[field];
        }
        rows.end_with(at..value.1, Own { key: Some(fields[0]), payload: fields[1] })?;
        at = value.1;
    }
    Ok(())
}
