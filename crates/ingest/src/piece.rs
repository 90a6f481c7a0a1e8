//! Pieces of sequences: where a chunk of FASTA ends within a record, and what the piece behind it repeats.
//!
//! ```text
//! chunks   │>id␊ACGTA│CG␊GT␊│T          with an overlap of 2 letters
//! leads              TA     GT
//! pieces         ACGTA TACGGT GTT       every three letters in a row are in exactly one
//! ```
//!
//! 1. A piece is its lead and the letters of its chunk. The lead is the end of the sequence before the chunk, at most the overlap long: so
//!    each `overlap + 1` letters in a row are in the piece of the chunk that the last of them lies in, and in no other.
//! 2. A carriage return is part of a line end if a newline follows, else a letter. Where a chunk ends with one, that is not known yet: the
//!    lead has it on top of the overlap, and what follows tells.
//! 3. A header is never parted, for its first byte alone tells it from a sequence.

use memchr::{memchr, memrchr, memrchr_iter};

/// Where a chunk of FASTA ends, or the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) part: Part,
    /// Whether a line ends here, or the input starts.
    pub(crate) at_line_start: bool,
    /// The end of the sequence that comes before, without line ends.
    pub(crate) lead: Vec<u8>,
}

/// What a place lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing but blanks came yet.
    Blank,
    /// Text without a header.
    Headless,
    /// A sequence.
    Sequence,
}

impl Place {
    /// The start of an input.
    pub(crate) fn start() -> Self {
        Self { part: Part::Blank, at_line_start: true, lead: Vec::new() }
    }

    /// The place behind `text`, which starts here and parts no header.
    pub(crate) fn after(&self, text: &[u8], overlap: usize) -> Self {
        let header = memrchr_iter(b'>', text).find(|&at| self.starts_line(text, at));
        let part = match self.part {
            _ if header.is_some() => Part::Sequence,
            Part::Blank if !text.trim_ascii().is_empty() => Part::Headless,
            part => part,
        };
        let at_line_start = text.last().map_or(self.at_line_start, |&last| last == b'\n');
        if part != Part::Sequence {
            return Self { part, at_line_start, lead: Vec::new() };
        }
        let mut lead = match header {
            Some(at) => {
                let behind = memchr(b'\n', &text[at..]).map_or(text.len(), |hop| at + hop + 1);
                Self { part, at_line_start: true, lead: Vec::new() }.end_of(&text[behind..], overlap)
            }
            None => self.end_of(text, overlap),
        };
        let has_open_return = !at_line_start && lead.last() == Some(&b'\r');
        let repeated = overlap + usize::from(has_open_return);
        lead.drain(..lead.len().saturating_sub(repeated));
        Self { part, at_line_start, lead }
    }

    /// Where the first header line in `text`, which starts here, begins; its end if there is none.
    pub(crate) fn first_header(&self, text: &[u8]) -> usize {
        let mut headers = memchr::memchr_iter(b'>', text);
        headers.find(|&at| self.starts_line(text, at)).unwrap_or(text.len())
    }

    /// The letters of the lead that the pieces before have already.
    pub(crate) fn repeated(&self) -> usize {
        self.lead.len() - usize::from(self.has_open_return())
    }

    /// Appends the lead and the letters of `text`, which starts here and has no header, to `out`.
    pub(crate) fn append_piece(&self, text: &[u8], out: &mut Vec<u8>) {
        self.append_letters(text, out);
        if text.last().is_some_and(|&last| last == b'\r') {
            out.pop();
        }
    }

    fn has_open_return(&self) -> bool {
        !self.at_line_start && self.lead.last() == Some(&b'\r')
    }

    fn starts_line(&self, text: &[u8], at: usize) -> bool {
        at.checked_sub(1).map_or(self.at_line_start, |before| text[before] == b'\n')
    }

    /// At least the last `overlap` letters up to the end of `text`, which starts here and has no header, and a carriage return behind
    /// them; of less there are all. It looks at no more of `text` than that takes.
    fn end_of(&self, text: &[u8], overlap: usize) -> Vec<u8> {
        // One more is the carriage return; a line that begins anywhere else than it does has the same letters up to its end.
        let wanted = overlap + 1;
        let (mut start, mut letters) = (text.len(), 0);
        while start > 0 && letters < wanted {
            let end = start - usize::from(text[start - 1] == b'\n');
            let line = memrchr(b'\n', &text[..end]).map_or(0, |newline| newline + 1);
            // The last of them may be the return of a line end.
            start = line.max(end.saturating_sub(wanted + 1));
            letters += (end - start).saturating_sub(1);
        }
        let mut out = Vec::new();
        if start == 0 {
            self.append_letters(text, &mut out);
        } else {
            let inner = Self { part: self.part, at_line_start: true, lead: Vec::new() };
            inner.append_letters(&text[start..], &mut out);
        }
        out
    }

    /// Appends the lead and `text` without line ends; a carriage return at the end of `text` stays.
    fn append_letters(&self, text: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lead);
        if self.has_open_return() && text.first() == Some(&b'\n') {
            out.pop();
        }
        let mut rest = text;
        while let Some(newline) = memchr(b'\n', rest) {
            let line = &rest[..newline];
            out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            rest = &rest[newline + 1..];
        }
        out.extend_from_slice(rest);
    }
}

/// The end of what may be cut off `text`, which starts at the start of a line or not: all of it, but for a header that it does not end.
pub(crate) fn last_end(text: &[u8], at_line_start: bool) -> Option<usize> {
    let line = memrchr(b'\n', text).map(|newline| newline + 1);
    let is_header = (line.is_some() || at_line_start) && text.get(line.unwrap_or(0)) == Some(&b'>');
    if is_header { line } else { Some(text.len()).filter(|&end| end > 0) }
}
