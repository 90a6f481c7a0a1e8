//! Where records end: at every newline or NUL, in CSV at every newline that is not quoted, in FASTA before every line that starts with
//! `>`, in FASTQ behind every fourth line, and where lengths say so in raw records. Pieces of sequences end anywhere but in a header.
//!
//! A quote opens a quoted field only where a field starts; within it, two quotes are one. That is the reading of
//! the `csv` crate and of RFC 4180; a quote inside an unquoted field is an ordinary byte.

use crate::lengths::{self, RawSearch};
use crate::piece;
use memchr::{memchr, memchr_iter, memrchr, memrchr_iter};

/// What ends a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Every one of these bytes.
    Byte(u8),
    /// A newline outside quotes, with this byte between fields.
    Unquoted(u8),
    /// The start of a line that begins with `>`.
    Header,
    /// Any place in a sequence, not in a line that starts with `>`. Whether the text starts with a line.
    Piece(bool),
    /// Every fourth newline.
    FourthLine,
    /// Two lengths in front of what they count.
    Lengths,
}

/// Lines of a record of FASTQ.
const FASTQ_LINES: usize = 4;

impl Boundary {
    /// The end of the last whole record in `text`, which starts with a record.
    pub(crate) fn last(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Byte(byte) => memrchr(byte, text).map(|at| at + 1),
            Self::Unquoted(delimiter) => last_unquoted(text, delimiter),
            Self::Header => memrchr_iter(b'>', text).find(|&at| at > 0 && text[at - 1] == b'\n'),
            Self::Piece(at_line_start) => piece::last_end(text, at_line_start),
            Self::FourthLine => {
                let odd = memchr_iter(b'\n', text).count() % FASTQ_LINES;
                memrchr_iter(b'\n', text).nth(odd).map(|newline| newline + 1)
            }
            Self::Lengths => lengths::last_end(text),
        }
    }

    /// How many lines end in `text`, or raw records: what positions and messages count. Raw records are whole from the first on.
    pub(crate) fn lines(self, text: &[u8]) -> u64 {
        match self {
            Self::Lengths => lengths::ends(text).count() as u64,
            _ => memchr_iter(self.line_end(), text).count() as u64,
        }
    }

    /// The end of line `lines` of `text` where more lines end behind it; of raw records likewise.
    pub(crate) fn after_lines(self, text: &[u8], lines: usize) -> Option<usize> {
        if let Self::Lengths = self {
            let mut ends = lengths::ends(text).skip(lines - 1);
            return ends.next().filter(|_| ends.next().is_some());
        }
        if self.lines(text) <= lines as u64 {
            return None;
        }
        memchr_iter(self.line_end(), text).nth(lines - 1).map(|newline| newline + 1)
    }

    /// Whether a line ends in `text`, which starts with a record, or a raw record.
    pub(crate) fn ends_in(self, text: &[u8]) -> bool {
        match self {
            Self::Lengths => lengths::ends(text).next().is_some(),
            _ => text.contains(&self.line_end()),
        }
    }

    /// Whether an input is text, which may begin with a byte order mark, and whose last record needs no end.
    pub(crate) fn is_text(self) -> bool {
        self != Self::Lengths
    }

    fn line_end(self) -> u8 {
        match self {
            Self::Byte(byte) => byte,
            _ => b'\n',
        }
    }

    /// A search for the end of one record, fed piece by piece.
    pub(crate) fn search(self) -> Search {
        let state = match self {
            Self::Lengths => State::Raw(RawSearch::new()),
            Self::FourthLine => State::Lines(0),
            _ => State::FieldStart,
        };
        Search { boundary: self, state }
    }
}

/// Mostly the last newline of all, which one pass over the quotes tells.
fn last_unquoted(text: &[u8], delimiter: u8) -> Option<usize> {
    let newline = memrchr(b'\n', text)?;
    match quoted_field_around(newline, text, delimiter) {
        None => Some(newline + 1),
        Some(open) => last_between_quoted(&text[..open], delimiter),
    }
}

/// Where the quoted field opens that encloses byte `place` of `text`.
fn quoted_field_around(place: usize, text: &[u8], delimiter: u8) -> Option<usize> {
    let (mut open, mut closed) = (None, None);
    for quote in memchr_iter(b'"', &text[..place]) {
        open = match (open, closed) {
            (Some(start), _) => {
                closed = Some((start, quote));
                None
            }
            // Two quotes in a quoted field are one: the first did not close it.
            (None, Some((start, close))) if quote == close + 1 => Some(start),
            (None, _) => opens(quote, text, delimiter).then_some(quote),
        };
    }
    open
}

/// Looks for newlines from quoted field to quoted field, all of which are closed.
fn last_between_quoted(text: &[u8], delimiter: u8) -> Option<usize> {
    let (mut at, mut last) = (0, None);
    loop {
        let quote = memchr(b'"', &text[at..]).map(|hop| at + hop);
        let plain = &text[at..quote.unwrap_or(text.len())];
        last = memrchr(b'\n', plain).map(|newline| at + newline + 1).or(last);
        let Some(quote) = quote else { return last };
        at = match opens(quote, text, delimiter) {
            false => quote + 1,
            true => match after_quoted(text, quote) {
                Some(close) => close,
                None => return last,
            },
        };
    }
}

/// Whether a quote that is not within a quoted field opens one.
fn opens(quote: usize, text: &[u8], delimiter: u8) -> bool {
    quote == 0 || text[quote - 1] == delimiter || text[quote - 1] == b'\n'
}

/// The place behind the quote that closes the field opened at `open`; `None` if none does.
pub(crate) fn after_quoted(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += memchr(b'"', &text[at..])? + 1;
        if text.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

/// A search for the end of one record; it remembers the state between pieces.
pub(crate) struct Search {
    boundary: Boundary,
    state: State,
}

enum State {
    FieldStart,
    Unquoted,
    Quoted,
    QuoteInQuoted,
    /// The last byte was a newline.
    LineStart,
    /// So many lines have ended.
    Lines(usize),
    Raw(RawSearch),
}

impl Search {
    /// The place in `piece` behind the last byte of the record, if it is there. Where only what follows tells, that has to be there too.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Option<usize> {
        let delimiter = match self.boundary {
            Boundary::Byte(byte) => return memchr(byte, piece).map(|at| at + 1),
            Boundary::Unquoted(delimiter) => delimiter,
            // Only a header is looked for the end of.
            Boundary::Piece(_) => return memchr(b'\n', piece).map(|at| at + 1),
            Boundary::Header => return self.feed_to_header(piece),
            Boundary::FourthLine => return self.feed_four_lines(piece),
            Boundary::Lengths => match &mut self.state {
                State::Raw(search) => return search.feed(piece),
                _ => return None,
            },
        };
        for (at, &byte) in piece.iter().enumerate() {
            self.state = match (&self.state, byte) {
                (State::Quoted, b'"') => State::QuoteInQuoted,
                (State::Quoted, _) => State::Quoted,
                (State::QuoteInQuoted, b'"') => State::Quoted,
                (_, b'\n') => return Some(at + 1),
                (State::FieldStart, b'"') => State::Quoted,
                _ if byte == delimiter => State::FieldStart,
                _ => State::Unquoted,
            };
        }
        None
    }

    /// How long the record is at least, where its own bytes have said so by now.
    pub(crate) fn least_bytes(&self) -> Option<u64> {
        match &self.state {
            State::Raw(search) => Some(search.least_bytes()),
            _ => None,
        }
    }

    fn feed_to_header(&mut self, piece: &[u8]) -> Option<usize> {
        let at_line_start = matches!(self.state, State::LineStart);
        let starts_line = |&at: &usize| if at == 0 { at_line_start } else { piece[at - 1] == b'\n' };
        let end = memchr_iter(b'>', piece).find(starts_line);
        if let Some(&last) = piece.last() {
            self.state = if last == b'\n' { State::LineStart } else { State::FieldStart };
        }
        end
    }

    fn feed_four_lines(&mut self, piece: &[u8]) -> Option<usize> {
        let State::Lines(passed) = &mut self.state else { return None };
        for newline in memchr_iter(b'\n', piece) {
            *passed += 1;
            if *passed == FASTQ_LINES {
                return Some(newline + 1);
            }
        }
        None
    }
}
