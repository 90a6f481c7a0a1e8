//! Lines of fields without quoting.

use crate::Result;
use crate::layout::Columns;
use crate::rows::Rows;
use crate::{Delimiter, batch::Span};
use memchr::{memchr, memchr2};

pub(crate) fn parse(delimiter: Delimiter, columns: &Columns, rows: &mut Rows) -> Result<()> {
    let (text, has_return) = (rows.text, rows.line_end == b'\n');
    let mut start = 0;
    while start < text.len() {
        let end = memchr(rows.line_end, &text[start..]).map_or(text.len(), |hop| start + hop);
        rows.begin();
        let last = end - usize::from(has_return && end > start && text[end - 1] == b'\r');
        match delimiter {
            Delimiter::Byte(byte) => split_bytes(text, start, last, byte, columns, &mut rows.out.fields),
            Delimiter::Whitespace => split_blanks(text, start, last, columns, &mut rows.out.fields),
        }
        rows.end(start..text.len().min(end + 1))?;
        start = end + 1;
    }
    Ok(())
}

fn split_bytes(text: &[u8], start: usize, end: usize, byte: u8, columns: &Columns, fields: &mut [Span]) {
    let mut wanted = columns.wanted.iter().peekable();
    let (mut at, mut column) = (start, 0);
    while wanted.peek().is_some() {
        let stop = memchr(byte, &text[at..end]).map_or(end, |hop| at + hop);
        while let Some(&(_, slot)) = wanted.next_if(|&&(number, _)| number == column) {
            fields[slot] = Span::text(at, stop - at);
        }
        if stop == end {
            return;
        }
        (at, column) = (stop + 1, column + 1);
    }
}

fn split_blanks(text: &[u8], start: usize, end: usize, columns: &Columns, fields: &mut [Span]) {
    let mut wanted = columns.wanted.iter().peekable();
    let (mut at, mut column) = (start, 0);
    while wanted.peek().is_some() {
        while at < end && matches!(text[at], b' ' | b'\t') {
            at += 1;
        }
        if at == end {
            return;
        }
        let stop = memchr2(b' ', b'\t', &text[at..end]).map_or(end, |hop| at + hop);
        while let Some(&(_, slot)) = wanted.next_if(|&&(number, _)| number == column) {
            fields[slot] = Span::text(at, stop - at);
        }
        (at, column) = (stop, column + 1);
    }
}
