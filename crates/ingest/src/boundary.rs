//! Where records end: at every newline or NUL, or in CSV at every newline that is not quoted.
//!
//! A quote opens a quoted field only where a field starts; within it, two quotes are one. That is the reading of
//! the `csv` crate and of RFC 4180; a quote inside an unquoted field is an ordinary byte.

use memchr::{memchr, memchr_iter, memrchr};

/// What ends a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Every one of these bytes.
    Byte(u8),
    /// A newline outside quotes, with this byte between fields.
    Unquoted(u8),
}

impl Boundary {
    /// The end of the last whole record in `text`, which starts with a record.
    pub(crate) fn last(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Byte(byte) => memrchr(byte, text).map(|at| at + 1),
            Self::Unquoted(delimiter) => last_unquoted(text, delimiter),
        }
    }

    /// The byte that ends lines, which are what positions and messages count.
    pub(crate) fn line_end(self) -> u8 {
        match self {
            Self::Byte(byte) => byte,
            Self::Unquoted(_) => b'\n',
        }
    }

    /// A search for the end of one record, fed piece by piece.
    pub(crate) fn search(self) -> Search {
        Search { boundary: self, state: State::FieldStart }
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
}

impl Search {
    /// The place in `piece` behind the newline that ends the record, if it is there.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Option<usize> {
        let delimiter = match self.boundary {
            Boundary::Byte(byte) => return memchr(byte, piece).map(|at| at + 1),
            Boundary::Unquoted(delimiter) => delimiter,
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
}
