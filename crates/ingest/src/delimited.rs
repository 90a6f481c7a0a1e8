//! Lines of fields without quoting.

use crate::Delimiter;
use crate::Result;
use crate::batch::{Span, resolve};
use crate::layout::Columns;
use crate::rows::Rows;
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
        if rows.has_escapes() && !unescape(rows) {
            rows.too_much(start..text.len().min(end + 1))?;
        } else {
            rows.end(start..text.len().min(end + 1))?;
        }
        start = end + 1;
    }
    Ok(())
}

/// Replaces the escapes in the fields of the row at hand; false where the arena is full.
fn unescape(rows: &mut Rows) -> bool {
    let text = rows.text;
    for slot in 0..rows.out.fields.len() {
        let field = rows.out.fields[slot];
        if field == Span::MISSING || memchr(b'\\', resolve(field, text, &[])).is_none() {
            continue;
        }
        let start = rows.out.arena.len();
        let mut rest = resolve(field, text, &[]);
        while let Some(at) = memchr(b'\\', rest) {
            rows.out.arena.extend_from_slice(&rest[..at]);
            let (byte, taken) = match rest.get(at + 1) {
                Some(b't') => (b'\t', 2),
                Some(b'n') => (b'\n', 2),
                Some(b'r') => (b'\r', 2),
                Some(b'\\') => (b'\\', 2),
                _ => (b'\\', 1),
            };
            rows.out.arena.push(byte);
            rest = &rest[at + taken..];
        }
        rows.out.arena.extend_from_slice(rest);
        match Span::arena_from(start, &rows.out.arena) {
            Some(span) => rows.out.fields[slot] = span,
            None => return false,
        }
    }
    true
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
