//! The k-mers of sequences.

use super::pass::{First, Grouping, Take};
use super::session::Definition;
use super::text::Texts;
use crate::failure::Failure;
use overbank_ingest::{Batch, ColumnOption, Options};

/// The name of the column of k-mers.
const RESULT: &str = "kmer";

/// Strings of `length` letters of A, C, G and T.
pub(super) struct Kmers {
    pub(super) length: usize,
    /// Whether one and its reverse complement are the same.
    pub(super) is_canonical: bool,
}

impl Kmers {
    /// Calls `take` with the k-mers of a sequence, or of a piece of one: pieces have all but one letter of a k-mer in common.
    fn kmers(
        &self,
        sequence: &[u8],
        take: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let letters: Vec<u8> = sequence.to_ascii_uppercase();
        let complements: Vec<u8> = letters.iter().rev().map(|&letter| complement(letter)).collect();
        // Letters in a row, up to the one at hand, that are of DNA.
        let mut run = 0;
        for end in 1..=letters.len() {
            run = if complement(letters[end - 1]) == 0 { 0 } else { run + 1 };
            if run < self.length {
                continue;
            }
            let forward = &letters[end - self.length..end];
            let backward = &complements[letters.len() - end..letters.len() - end + self.length];
            let kmer = if self.is_canonical && backward < forward { backward } else { forward };
            // It is of four letters.
            take(std::str::from_utf8(kmer).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The letter that pairs with one; 0 for what is none of DNA.
fn complement(letter: u8) -> u8 {
    match letter {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' => b'A',
        _ => 0,
    }
}

impl Grouping for Kmers {
    fn ask(&self, options: &mut Options) {
        if options.keys.is_empty() {
            options.sequence_overlap = Some(self.length - 1);
        }
    }

    fn settle(&self, _: &mut [ColumnOption], _: &First<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn definition(&self, _: &[ColumnOption]) -> Definition {
        Texts::definition(RESULT)
    }

    fn command(&self) -> String {
        format!("kmers --length {}{}", self.length, if self.is_canonical { " --canonical" } else { "" })
    }

    fn each(&self, _: &[ColumnOption], rows: &Batch, take: Take<'_>) -> Result<(), Failure> {
        let mut texts = Texts::new(RESULT, take);
        for sequence in rows.keys() {
            self.kmers(sequence, &mut |kmer| texts.push(kmer))?;
        }
        texts.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kmers(sequence: &[u8], length: usize, is_canonical: bool) -> Vec<String> {
        let mut all = Vec::new();
        let take = &mut |kmer: &str| {
            all.push(kmer.to_owned());
            Ok(())
        };
        Kmers { length, is_canonical }.kmers(sequence, take).unwrap();
        all
    }

    fn reverse_complement(kmer: &str) -> String {
        kmer.bytes().rev().map(|letter| char::from(complement(letter))).collect()
    }

    #[test]
    fn other_letters_part_sequences() {
        assert_eq!(kmers(b"acgNTTa", 2, false), ["AC", "CG", "TT", "TA"]);
        assert_eq!(kmers(b"acgNTTa", 2, true), ["AC", "CG", "AA", "TA"]);
        assert_eq!(kmers(b"AC", 3, true), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn a_strand_and_its_complement_have_the_same_canonical_kmers(sequence in "[ACGT]{0,60}", length in 1usize..12) {
            let mut own = kmers(sequence.as_bytes(), length, true);
            let mut other = kmers(reverse_complement(&sequence).as_bytes(), length, true);
            own.sort();
            other.sort();
            prop_assert_eq!(&own, &other);
            prop_assert!(own.iter().all(|kmer| *kmer <= reverse_complement(kmer)));
            let plain: Vec<&[u8]> = sequence.as_bytes().windows(length).collect();
            let found = kmers(sequence.as_bytes(), length, false);
            prop_assert_eq!(found.iter().map(String::as_bytes).collect::<Vec<_>>(), plain);
        }
    }
}
