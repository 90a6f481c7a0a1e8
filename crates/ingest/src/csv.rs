//! CSV as RFC 4180 has it, read as the `csv` crate reads it, with three differences: only a newline ends a record (a
//! carriage return before it goes), a quote that is never closed makes the row malformed, and rows may be longer or
//! shorter than the header as long as the wanted fields are there.

use crate::Result;
use crate::batch::Span;
use crate::boundary::after_quoted;
use crate::layout::Columns;
use crate::rows::Rows;
use memchr::memchr2;

/// The names in a header record.
pub(crate) fn header(record: &[u8], delimiter: u8) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let mut name = Vec::new();
        let Some(field) = Field::at(record, at, delimiter) else {
            names.push(String::from_utf8_lossy(&record[at..]).into_owned());
            return names;
        };
        field.append_to(record, &mut name);
        names.push(String::from_utf8_lossy(&name).into_owned());
        match record.get(field.end) {
            Some(&byte) if byte == delimiter => at = field.end + 1,
            _ => return names,
        }
    }
}

pub(crate) fn parse(delimiter: u8, columns: &Columns, rows: &mut Rows) -> Result<()> {
    let text = rows.text;
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            [b'\n', ..] => at += 1,
            [b'\r', b'\n', ..] => at += 2,
            [b'\r'] => break,
            _ => {
                rows.begin();
                match record(text, at, delimiter, columns, rows) {
                    Some(end) => {
                        rows.end(at..text.len().min(end))?;
                        at = end;
                    }
                    None => return rows.bad(at..text.len(), || "a quote is never closed".into()),
                }
            }
        }
    }
    Ok(())
}

/// Takes the wanted fields of the record at `at`; returns the start of the next, or `None` if a quote is not closed.
#[inline]
fn record(text: &[u8], at: usize, delimiter: u8, columns: &Columns, rows: &mut Rows) -> Option<usize> {
    let (mut at, mut column) = (at, 0);
    let mut wanted = columns.wanted.as_slice();
    while let [(next, _), ..] = wanted {
        let field = Field::at(text, at, delimiter)?;
        if *next == column {
            let span = field.span(text, &mut rows.out.arena);
            while let [(number, slot), rest @ ..] = wanted
                && *number == column
            {
                // An arena past its bounds leaves the field missing, and the row malformed.
                rows.out.fields[*slot] = span.unwrap_or(Span::MISSING);
                wanted = rest;
            }
        }
        match text.get(field.end) {
            Some(&byte) if byte == delimiter => at = field.end + 1,
            _ => return Some(field.end + 1),
        }
        column += 1;
    }
    record_end(text, at, delimiter)
}

/// The end of the record that has a field starting at `at`.
#[inline]
fn record_end(text: &[u8], field_start: usize, delimiter: u8) -> Option<usize> {
    let mut at = field_start;
    loop {
        let Some(hop) = memchr2(b'"', b'\n', &text[at..]) else { return Some(text.len()) };
        at += hop;
        if text[at] == b'\n' {
            return Some(at + 1);
        }
        let opens = at == field_start || text[at - 1] == delimiter;
        at = if opens { after_quoted(text, at)? } else { at + 1 };
    }
}

/// A field in the text.
struct Field {
    /// First byte, behind an opening quote.
    start: usize,
    /// Behind the last byte: the closing quote's place, or the field's end.
    close: usize,
    /// Where the delimiter or newline is, or the end of the text.
    end: usize,
    /// Behind the last byte that counts: `end` without a carriage return before a newline.
    trimmed: usize,
    quoted: bool,
}

impl Field {
    /// The field that starts at `at`; `None` if its quote is never closed.
    #[inline]
    fn at(text: &[u8], at: usize, delimiter: u8) -> Option<Self> {
        let quoted = text.get(at) == Some(&b'"');
        let from = if quoted { after_quoted(text, at)? } else { at };
        let end = memchr2(delimiter, b'\n', &text[from..]).map_or(text.len(), |hop| from + hop);
        let last = text.get(end) != Some(&delimiter);
        let trimmed = end - usize::from(last && end > from && text[end - 1] == b'\r');
        let (start, close) = if quoted { (at + 1, from - 1) } else { (at, trimmed) };
        Some(Self { start, close, end, trimmed, quoted })
    }

    /// The field's bytes: in the text, or unescaped in the arena.
    #[inline]
    fn span(&self, text: &[u8], arena: &mut Vec<u8>) -> Option<Span> {
        let plain = !self.quoted
            || self.close + 1 == self.trimmed
                && memchr::memchr(b'"', &text[self.start..self.close]).is_none();
        if plain {
            return Some(Span::text(self.start, self.close - self.start));
        }
        let start = arena.len();
        self.append_to(text, arena);
        Span::arena_from(start, arena)
    }

    /// Appends the field's bytes: doubled quotes as one, and what follows the closing quote as it is.
    fn append_to(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut inner = &text[self.start..self.close];
        while self.quoted
            && let Some(quote) = memchr::memchr(b'"', inner)
        {
            out.extend_from_slice(&inner[..=quote]);
            inner = inner.get(quote + 2..).unwrap_or_default();
        }
        out.extend_from_slice(inner);
        if self.quoted {
            out.extend_from_slice(&text[self.close + 1..self.trimmed]);
        }
    }
}
