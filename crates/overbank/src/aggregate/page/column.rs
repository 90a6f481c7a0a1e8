//! A column of words of the page that is being written, and how it is to be written.

use super::format::{EXCEPTION_BYTES, Page, PageColumn, escape, fits, number_at, put_number};
use std::ops::Range;

const WIDTHS: [usize; 5] = [0, 1, 2, 4, 8];

/// Words, and a plan for them.
#[derive(Debug)]
pub(super) struct Column {
    words: Vec<u64>,
    pub(super) base: u64,
    pub(super) width: usize,
    /// Words that do not fit.
    exceptions: usize,
}

impl Column {
    pub(super) fn new() -> Column {
        Column { words: Vec::new(), base: 0, width: 1, exceptions: 0 }
    }

    /// Bytes that it keeps.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Column>() + self.words.capacity() * 8
    }

    /// Forgets the words, not the plan: as a rule the next page is like this one.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.exceptions = 0;
    }

    /// Bytes that a word takes beside its place in the column.
    #[inline(always)]
    pub(super) fn bytes_beside(&self, word: u64) -> usize {
        if fits(word.wrapping_sub(self.base), self.width) { 0 } else { EXCEPTION_BYTES }
    }

    /// Adds a word; the bytes that it takes.
    #[inline(always)]
    pub(super) fn push(&mut self, word: u64) -> usize {
        let beside = self.bytes_beside(word);
        self.words.push(word);
        self.exceptions = self.exceptions.wrapping_add(usize::from(beside > 0));
        self.width.wrapping_add(beside)
    }

    /// Whether all these words of a page fit, and none is an exception there.
    #[inline(always)]
    pub(super) fn has_all(&self, page: &Page<'_>, from: PageColumn, run: Range<usize>) -> bool {
        let shift = from.base.wrapping_sub(self.base);
        let is_here = |code: u64, most: u64| code != most && fits(shift.wrapping_add(code), self.width);
        match from.width {
            1 => page.codes(from, run).iter().all(|&code| is_here(code.into(), u8::MAX.into())),
            // Nothing but the base, unless some word outgrew it.
            0 => !page.has_exceptions() && fits(shift, self.width),
            width => {
                let escape = escape(width);
                page.codes(from, run).chunks_exact(width).all(|code| {
                    let code = number_at(code, 0, width);
                    escape != Some(code) && fits(shift.wrapping_add(code), self.width)
                })
            }
        }
    }

    /// Adds these words of a page, all of which fit.
    #[inline(always)]
    pub(super) fn push_all(&mut self, page: &Page<'_>, from: PageColumn, run: Range<usize>) {
        let codes = page.codes(from, run.clone());
        let word = |code: u64| from.base.wrapping_add(code);
        match from.width {
            0 => self.words.extend(run.map(|_| word(0))),
            1 => self.words.extend(codes.iter().map(|&code| word(code.into()))),
            width => {
                self.words.extend(codes.chunks_exact(width).map(|code| word(number_at(code, 0, width))));
            }
        }
    }

    /// Chooses base and width of the shortest column of these words; the bytes that it takes.
    pub(super) fn plan(&mut self, is_fixed: bool) -> usize {
        let (mut least, mut most) = (u64::MAX, 0);
        for &word in &self.words {
            (least, most) = (least.min(word), most.max(word));
        }
        // A word that is not 0 will change: to begin with no byte for it would cost an exception at once.
        let is_idle = most == 0 || is_fixed && least == most;
        let of_least = WIDTHS.into_iter().find(|&width| match width {
            0 => is_idle,
            _ => fits(most.wrapping_sub(least), width),
        });
        let width = of_least.unwrap_or(8);
        let entries = self.words.len();
        let mut best = (if width == 8 { 0 } else { least }, width, 0);
        let bytes = |choice: &(u64, usize, usize)| choice.1 * entries + choice.2 * EXCEPTION_BYTES;
        // From 0 on, with exceptions; a byte a word without any is as short as that can be.
        if width > 1 {
            let of_zero = WIDTHS[1..].iter().map(|&width| {
                let above = self.words.iter().filter(|&&word| !fits(word, width)).count();
                (0, width, above)
            });
            best = [best].into_iter().chain(of_zero).min_by_key(bytes).unwrap_or(best);
        }
        (self.base, self.width, self.exceptions) = best;
        bytes(&best)
    }

    /// Writes the codes, escapes for what does not fit.
    pub(super) fn write(&self, into: &mut [u8]) {
        match (self.width, self.exceptions) {
            (0, _) => {}
            (1, 0) => {
                for (byte, word) in into.iter_mut().zip(&self.words) {
                    *byte = word.wrapping_sub(self.base) as u8;
                }
            }
            (width, _) => {
                let escape = escape(width).unwrap_or_default();
                for (bytes, word) in into.chunks_exact_mut(width).zip(&self.words) {
                    let difference = word.wrapping_sub(self.base);
                    put_number(bytes, 0, width, if fits(difference, width) { difference } else { escape });
                }
            }
        }
    }

    /// The words that do not fit, with the numbers of their entries.
    pub(super) fn exceptions(&self) -> impl Iterator<Item = (usize, u64)> {
        let words = if self.exceptions == 0 { &[] } else { &self.words[..] };
        let does_not_fit = |(_, word): &(usize, u64)| self.bytes_beside(*word) > 0;
        words.iter().copied().enumerate().filter(does_not_fit)
    }
}
