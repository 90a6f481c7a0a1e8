//! Where records end: at every newline, or in CSV at every newline that is not quoted.
//!
//! A quote opens a quoted field only where a field starts; within it, two quotes are one. That is the reading of
//! the `csv` crate and of RFC 4180; a quote inside an unquoted field is an ordinary byte.

use memchr::{memchr, memrchr};

/// What ends a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Every newline.
    Newline,
    /// A newline outside quotes, with this byte between fields.
    Unquoted(u8),
}

impl Boundary {
    /// The end of the last whole record in `text`, which starts with a record.
    pub(crate) fn last(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Newline => memrchr(b'\n', text).map(|at| at + 1),
            Self::Unquoted(delimiter) => last_unquoted(text, delimiter),
        }
    }

    /// A search for the end of one record, fed piece by piece.
    pub(crate) fn search(self) -> Search {
        Search { boundary: self, state: State::FieldStart }
    }
}

/// Hops from quote to quote, so that text with few quotes goes by at the speed of memchr.
fn last_unquoted(text: &[u8], delimiter: u8) -> Option<usize> {
    let (mut at, mut last) = (0, None);
    loop {
        let quote = memchr(b'"', &text[at..]).map(|hop| at + hop);
        let plain = &text[at..quote.unwrap_or(text.len())];
        last = memrchr(b'\n', plain).map(|newline| at + newline + 1).or(last);
        let Some(quote) = quote else { return last };
        let opens = quote == 0 || text[quote - 1] == delimiter || text[quote - 1] == b'\n';
        at = match opens {
            false => quote + 1,
            true => match after_quoted(text, quote) {
                Some(close) => close,
                None => return last,
            },
        };
    }
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
        let Boundary::Unquoted(delimiter) = self.boundary else {
            return memchr(b'\n', piece).map(|at| at + 1);
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
