//! The words of texts, and what n words or characters follow each other.

use super::pass::{First, Grouping, Take};
use super::session::Definition;
use super::text::Texts;
use crate::arguments::WordArguments;
use crate::failure::Failure;
use overbank_ingest::{Batch, ColumnOption, Options};
use std::borrow::Cow;
use std::collections::VecDeque;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// So many words that follow each other.
    Words(usize),
    /// So many characters.
    Characters(usize),
}

/// The words of texts, or what is made of them.
pub(super) struct Words {
    result: &'static str,
    has_letters: bool,
    is_lowercase: bool,
    piece: Piece,
}

impl Words {
    /// Counts pieces, by the name `result`.
    pub(super) fn new(result: &'static str, arguments: &WordArguments, piece: Piece) -> Words {
        Words { result, has_letters: arguments.letters, is_lowercase: arguments.lowercase, piece }
    }

    /// Calls `take` with the pieces of a text.
    fn pieces(&self, text: &str, take: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        let text = if self.is_lowercase { Cow::Owned(text.to_lowercase()) } else { Cow::Borrowed(text) };
        match self.piece {
            Piece::Characters(length) => characters(&text, length, take),
            Piece::Words(length) if self.has_letters => {
                let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
                ngrams(words, length, take)
            }
            Piece::Words(length) => ngrams(text.split_whitespace(), length, take),
        }
    }
}

fn ngrams<'t>(
    words: impl Iterator<Item = &'t str>,
    length: usize,
    take: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut last = VecDeque::with_capacity(length);
    let mut ngram = String::new();
    for word in words {
        if length == 1 {
            take(word)?;
            continue;
        }
        if last.len() == length {
            last.pop_front();
        }
        last.push_back(word);
        if last.len() == length {
            ngram.clear();
            for (i, word) in last.iter().enumerate() {
                if i > 0 {
                    ngram.push(' ');
                }
                ngram.push_str(word);
            }
            take(&ngram)?;
        }
    }
    Ok(())
}

fn characters(
    text: &str,
    length: usize,
    take: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let starts = text.char_indices().map(|(at, _)| at);
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).skip(length);
    for (start, end) in starts.zip(ends) {
        take(&text[start..end])?;
    }
    Ok(())
}

impl Grouping for Words {
    fn ask(&self, _: &mut Options) {}

    fn settle(&self, _: &mut [ColumnOption], _: &First<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn definition(&self, _: &[ColumnOption]) -> Definition {
        Texts::definition(self.result)
    }

    fn command(&self) -> String {
        format!(
            "{}s of {:?}, letters {}, lowercase {}",
            self.result, self.piece, self.has_letters, self.is_lowercase
        )
    }

    fn each(&self, _: &[ColumnOption], rows: &Batch, take: Take<'_>) -> Result<(), Failure> {
        let mut texts = Texts::new(self.result, take);
        for key in rows.keys() {
            // Other bytes end a word, and are part of none.
            for chunk in key.utf8_chunks() {
                self.pieces(chunk.valid(), &mut |piece| texts.push(piece))?;
            }
        }
        texts.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, letters: bool, lowercase: bool, piece: Piece) -> Vec<String> {
        let words = Words::new("word", &WordArguments { letters, lowercase }, piece);
        let mut all = Vec::new();
        let take = &mut |piece: &str| {
            all.push(piece.to_owned());
            Ok(())
        };
        words.pieces(text, take).unwrap();
        all
    }

    #[test]
    fn words_are_what_blanks_or_other_signs_part() {
        let text = " To be,\tor not — to BE? ";
        assert_eq!(pieces(text, false, false, Piece::Words(1)), ["To", "be,", "or", "not", "—", "to", "BE?"]);
        assert_eq!(pieces(text, true, true, Piece::Words(1)), ["to", "be", "or", "not", "to", "be"]);
        assert_eq!(
            pieces(text, true, true, Piece::Words(3)),
            ["to be or", "be or not", "or not to", "not to be"]
        );
        assert_eq!(pieces("a b", false, false, Piece::Words(3)), Vec::<String>::new());
        assert_eq!(pieces("Größe", false, true, Piece::Characters(2)), ["gr", "rö", "öß", "ße"]);
        assert_eq!(pieces("ab", false, false, Piece::Characters(2)), ["ab"]);
        assert_eq!(pieces("a", false, false, Piece::Characters(2)), Vec::<String>::new());
    }
}
