//! FASTA and FASTQ: named sequences.
//!
//! ```text
//! >id description          @id description
//! ACGTACGT                 ACGTACGT            line ends within a sequence of FASTA are no part of it
//! ACGT                     +
//!                          IIIIIIII            a record of FASTQ has four lines, the last as long as the sequence
//! ```
//!
//! As pieces of sequences ([`crate::Options::sequence_overlap`]), a chunk of FASTA starts and ends anywhere but in a header:
//! [`Place`] has what the first piece goes on with.
//!
//! The id ends at the first blank or tab. Empty lines around records are no rows; other text before the first `>` is a malformed one.

use crate::Result;
use crate::batch::{Span, resolve};
use crate::layout::Columns;
use crate::piece::{Part, Place};
use crate::rows::{Own, Rows};
use memchr::{memchr, memchr2};
use std::ops::Range;

/// What is said where the arena is full.
const TOO_MUCH: &str = "the chunk's sequences take more than 2 GiB";
const HEADLESS: &str = "what stands before the first > is no record";

pub(crate) fn parse(columns: &Columns, rows: &mut Rows) -> Result<()> {
    if let Some(place) = rows.place() {
        return parse_pieces(place, rows);
    }
    let (text, mut start) = (rows.text, 0);
    while start < text.len() {
        let end = record_end(text, start);
        record(columns, start..end, rows)?;
        start = end;
    }
    Ok(())
}

fn parse_pieces(place: &Place, rows: &mut Rows) -> Result<()> {
    let text = rows.text;
    let mut start = place.first_header(text);
    if start > 0 {
        first_piece(place, 0..start, rows)?;
    }
    while start < text.len() {
        let (end, header) = (record_end(text, start), line(text, start, text.len()));
        match sequence(text, header.next..end, &mut rows.out.arena) {
            Some(letters) => piece(letters, start..end, rows)?,
            None => rows.bad(start..end, || TOO_MUCH.into())?,
        }
        start = end;
    }
    Ok(())
}

/// What stands before the first header of a chunk: it goes on with what came before.
fn first_piece(place: &Place, row: Range<usize>, rows: &mut Rows) -> Result<()> {
    let text = &rows.text[row.clone()];
    match place.part {
        Part::Blank if text.trim_ascii().is_empty() => Ok(()),
        Part::Blank => rows.bad(row, || HEADLESS.into()),
        // It is counted already.
        Part::Headless => {
            rows.reject(row);
            Ok(())
        }
        Part::Sequence => {
            let start = rows.out.arena.len();
            place.append_piece(text, &mut rows.out.arena);
            if rows.out.arena.len() - start <= place.repeated() {
                rows.out.arena.truncate(start);
                return Ok(());
            }
            match Span::arena_from(start, &rows.out.arena) {
                Some(letters) => piece(letters, row, rows),
                None => rows.bad(row, || TOO_MUCH.into()),
            }
        }
    }
}

/// Hands on a piece of a sequence, if it has letters.
fn piece(letters: Span, row: Range<usize>, rows: &mut Rows) -> Result<()> {
    if resolve(letters, rows.text, &rows.out.arena).is_empty() {
        return Ok(());
    }
    rows.begin();
    rows.end_with(row, Own { key: Some(letters), payload: Span::EMPTY })
}

/// The start of the next line that begins with `>`.
fn record_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(hop) = memchr(b'\n', &text[at..]) {
        at += hop + 1;
        if text.get(at) == Some(&b'>') {
            return at;
        }
    }
    text.len()
}

fn record(columns: &Columns, row: Range<usize>, rows: &mut Rows) -> Result<()> {
    let text = rows.text;
    if text[row.clone()].trim_ascii().is_empty() {
        return Ok(());
    }
    if text[row.start] != b'>' {
        return rows.bad(row, || HEADLESS.into());
    }
    let first = line(text, row.start, row.end);
    let [id, description] = name(text, row.start + 1..first.bare);
    let Some(sequence) = sequence(text, first.next..row.end, &mut rows.out.arena) else {
        return rows.bad(row, || TOO_MUCH.into());
    };
    end(columns, row, &[id, description, Some(sequence)], rows)
}

/// The lines in `place` without their ends: in the text if there is one, else joined in the arena; `None` where that is full.
fn sequence(text: &[u8], place: Range<usize>, arena: &mut Vec<u8>) -> Option<Span> {
    let first = line(text, place.start, place.end);
    if first.next == place.end {
        return Some(Span::text(place.start, first.bare - place.start));
    }
    let start = arena.len();
    let mut at = place.start;
    while at < place.end {
        let line = line(text, at, place.end);
        arena.extend_from_slice(&text[at..line.bare]);
        at = line.next;
    }
    Span::arena_from(start, arena)
}

pub(crate) fn parse_fastq(columns: &Columns, rows: &mut Rows) -> Result<()> {
    let (text, mut start) = (rows.text, 0);
    while start < text.len() {
        let (mut lines, mut found, mut at) = ([0..0, 0..0, 0..0, 0..0], 0, start);
        while found < lines.len() && at < text.len() {
            let line = line(text, at, text.len());
            lines[found] = at..line.bare;
            (found, at) = (found + 1, line.next);
        }
        fastq_record(columns, start..at, &lines[..found], rows)?;
        start = at;
    }
    Ok(())
}

/// A record of these lines; fewer than four are what is left of one at the end of a text that was cut.
fn fastq_record(columns: &Columns, row: Range<usize>, lines: &[Range<usize>], rows: &mut Rows) -> Result<()> {
    let text = rows.text;
    if text[row.clone()].trim_ascii().is_empty() {
        return Ok(());
    }
    let begins = |line: &Range<usize>, mark| text[line.clone()].first() == Some(&mark);
    let [name_line, sequence, plus, quality] = lines else {
        return rows.bad(row, || {
            format!("the text ends in line {} of a record of FASTQ, which has four", lines.len())
        });
    };
    if !begins(name_line, b'@') || !begins(plus, b'+') {
        return rows
            .bad(row, || "a record of FASTQ has four lines, the first with @ and the third with +".into());
    }
    if sequence.len() != quality.len() {
        let lengths = [sequence, quality].map(ExactSizeIterator::len);
        return rows
            .bad(row, || format!("the sequence is {} long and its quality {}", lengths[0], lengths[1]));
    }
    let [id, description] = name(text, name_line.start + 1..name_line.end);
    let [sequence, quality] = [sequence, quality].map(|place| Some(Span::text(place.start, place.len())));
    end(columns, row, &[id, description, sequence, quality], rows)
}

/// Hands on the fields of a record, which has a key of its own if it has an id.
fn end(columns: &Columns, row: Range<usize>, fields: &[Option<Span>], rows: &mut Rows) -> Result<()> {
    rows.begin();
    for &(field, slot) in &columns.wanted {
        rows.out.fields[slot] = fields[field].unwrap_or(Span::MISSING);
    }
    let key = if rows.has_sequences() { fields[2] } else { fields[0] };
    rows.end_with(row, Own { key, payload: fields[2].unwrap_or(Span::EMPTY) })
}

/// The id of a record, if it has one, and the rest of the line.
fn name(text: &[u8], place: Range<usize>) -> [Option<Span>; 2] {
    let length = memchr2(b' ', b'\t', &text[place.clone()]).unwrap_or(place.len());
    let rest = (place.start + length + 1).min(place.end);
    let id = (length > 0).then(|| Span::text(place.start, length));
    [id, Some(Span::text(rest, place.end - rest))]
}

/// A line in the text.
struct Line {
    /// Behind its last byte, its end not counted.
    bare: usize,
    /// Where the next one starts.
    next: usize,
}

/// The line at `at`, which `end` ends at the latest.
#[inline]
fn line(text: &[u8], at: usize, end: usize) -> Line {
    match memchr(b'\n', &text[at..end]) {
        Some(hop) => {
            let newline = at + hop;
            let has_return = newline > at && text[newline - 1] == b'\r';
            Line { bare: newline - usize::from(has_return), next: newline + 1 }
        }
        None => {
            let has_return = end > at && text[end - 1] == b'\r';
            Line { bare: end - usize::from(has_return), next: end }
        }
    }
}
