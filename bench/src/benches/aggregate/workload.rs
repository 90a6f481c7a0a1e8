//! The workloads of the paper's section 5.1, at sizes that fit here.
//!
//! | name | of the paper | what |
//! |---|---|---|
//! | `uniform` | wordcount (uniform) | words of 10 random letters of 36, each drawn with equal probability |
//! | `binomial` | wordcount (binomial) | 6 + Binomial(54, 0.15) letters: 14.1 on average, as in section 5.3.1 |
//! | `zipf` | section 5.3.3 | 6 letters and more by Zipf's law (1.5), at most 60: 10.6 on average |
//! | `2gram` | 2-gram (gutenberg) | two words after one another of the text of `make data`; of a smoke run this project's own prose |
//! | `ecoli_copies` | k-mer (genomic) | windows of 25 bases as they stand |
//!
//! The copies are both strands of *E. coli* by turns, each but the first two with a base in 500 changed.
//! The sequence is as long as the records that are asked for want it: real as far as it goes, then copies with made-up changes, as reads
//! of a sequencer have them. At full size that is the whole genome and ten times both its strands.

use crate::{Random, Result, Zipf, digest::mix};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

/// What ends a piece of a sequence: no window reaches over it.
pub(super) const BREAK: u8 = b'\n';

/// Bases of a k-mer.
pub(super) const KMER: usize = 25;

/// Records of one kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) law: Law,
    /// The most records.
    pub(super) records: u64,
    /// The different keys that records are drawn of; of 2-grams about as many; of k-mers those of both strands without changes.
    pub(super) groups: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Law {
    /// Words of this many letters.
    Same(u8),
    /// Lengths by the binomial law of the paper.
    Binomial,
    /// Lengths by Zipf's law.
    Zipf,
    /// Words after one another.
    Bigrams,
    /// Windows of a genome.
    Kmers,
}

impl Law {
    /// The longest key.
    pub(super) const fn longest(self) -> usize {
        match self {
            Self::Same(length) => length as usize,
            Self::Binomial | Self::Zipf => LONGEST as usize,
            Self::Bigrams => u8::MAX as usize,
            Self::Kmers => KMER,
        }
    }
}

const SHORTEST: u64 = 6;
const LONGEST: u64 = 60;
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// One base in so many is changed in a copy.
const CHANGED: u64 = 500;

impl Workload {
    /// Memory in which our groups need no more: 10 bytes each, and the key as it is.
    pub(super) fn memory_bytes(self) -> usize {
        let key_bytes = match self.law {
            Law::Same(length) => u64::from(length),
            Law::Kmers => 10,
            Law::Binomial => 15,
            Law::Zipf | Law::Bigrams => 12,
        };
        let bytes = self.groups * (key_bytes + 10);
        (bytes.next_multiple_of(1 << 20) as usize).max(4 << 20)
    }

    /// The text of 2-grams; `None` where `make data` was not run.
    pub(super) fn text(data: &Path) -> Option<PathBuf> {
        Some(data.join("doc_words.txt")).filter(|path| path.exists())
    }

    /// Shows every record, in order.
    pub(super) fn each_record(self, data: &Path, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.law == Law::Bigrams {
            return self.each_bigram(data, visit);
        }
        let words = Words::new(self.law);
        let mut random = Random::new(1);
        let mut word = Vec::new();
        for _ in 0..self.records {
            words.write(random.below(self.groups), &mut word);
            visit(&word)?;
        }
        Ok(())
    }

    fn each_bigram(self, data: &Path, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut text: Box<dyn std::io::BufRead> = match Self::text(data) {
            Some(path) => Box::new(BufReader::with_capacity(1 << 20, File::open(path)?)),
            None => Box::new(PROSE.as_bytes()),
        };
        let (mut pair, mut line, mut shown) = (Vec::new(), Vec::new(), 0);
        while shown < self.records && text.read_until(b'\n', &mut line)? > 0 {
            for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                pair.push(b' ');
                pair.extend_from_slice(word);
                // A line that is no prose is no word either, and ends the pair.
                if !pair.starts_with(b" ") && pair.len() <= usize::from(u8::MAX) && shown < self.records {
                    visit(&pair)?;
                    shown += 1;
                }
                pair.clear();
                pair.extend_from_slice(word);
            }
            line.clear();
        }
        Ok(())
    }

    /// Writes a sequence of as many windows as there are records.
    pub(super) fn write_sequence(self, testdata: &Path, out: &mut impl Write) -> Result<()> {
        let mut genome = genome(&testdata.join("ecoli_MG1655-K12.fasta.gz"))?;
        genome.truncate(usize::try_from(self.groups / 2)?.max(KMER));
        let mut random = Random::new(25);
        let (mut left, mut copy) = (self.records, 0u64);
        while left > 0 {
            let mut strand = if copy % 2 == 0 { genome.clone() } else { other_strand(&genome) };
            strand.truncate(usize::try_from(left)?.saturating_add(KMER - 1));
            if copy >= 2 {
                change(&mut strand, &mut random);
            }
            out.write_all(&strand)?;
            out.write_all(&[BREAK])?;
            left -= (strand.len() - (KMER - 1)) as u64;
            copy += 1;
        }
        Ok(())
    }
}

/// The prose of a smoke run: what everybody has.
const PROSE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Words that depend on their number alone.
struct Words {
    law: Law,
    zipf: Zipf,
}

impl Words {
    fn new(law: Law) -> Self {
        Self { law, zipf: Zipf::new(LONGEST - SHORTEST + 1, 1.5) }
    }

    fn write(&self, number: u64, word: &mut Vec<u8>) {
        let mut random = Random::new(mix(number));
        let letters = match self.law {
            Law::Same(length) => u64::from(length),
            Law::Binomial => SHORTEST + (SHORTEST..LONGEST).filter(|_| random.below(100) < 15).count() as u64,
            _ => SHORTEST - 1 + self.zipf.sample(&mut random),
        };
        word.clear();
        word.extend((0..letters).map(|_| LETTERS[random.below(36) as usize]));
    }
}

/// The bases of a genome, without its header.
fn genome(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text)?;
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b">"));
    let bases = lines.flatten().map(u8::to_ascii_uppercase);
    Ok(bases.filter(|base| b"ACGT".contains(base)).collect())
}

fn other_strand(strand: &[u8]) -> Vec<u8> {
    let other = |base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        _ => b'A',
    };
    strand.iter().rev().map(other).collect()
}

/// Gives one base in [`CHANGED`] another value.
fn change(strand: &mut [u8], random: &mut Random) {
    let mut at = random.below(2 * CHANGED) as usize;
    while at < strand.len() {
        let others: Vec<u8> = b"ACGT".iter().copied().filter(|&base| base != strand[at]).collect();
        strand[at] = others[random.below(3) as usize];
        at += 1 + random.below(2 * CHANGED) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(law: Law) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let workload = Workload { name: "test", law, records: 20_000, groups: 2_000 };
        let keep = &mut |key: &[u8]| {
            records.push(key.to_vec());
            Ok(())
        };
        workload.each_record(Path::new("/nonexistent"), keep).expect("nothing is read");
        records
    }

    fn mean_length(records: &[Vec<u8>]) -> f64 {
        records.iter().map(Vec::len).sum::<usize>() as f64 / records.len() as f64
    }

    /// Of 2,000 words the mean length strays by 0.06 and 0.25 (one deviation): the limits are eight of them, and the seeds fixed.
    #[test]
    fn lengths_follow_their_laws() {
        assert!(records(Law::Same(10)).iter().all(|key| key.len() == 10));
        let binomial = mean_length(&records(Law::Binomial));
        assert!((binomial - 14.1).abs() < 0.5, "{binomial}");
        let zipf = mean_length(&records(Law::Zipf));
        assert!((zipf - 10.6).abs() < 2.0, "{zipf}");
        let distinct: std::collections::HashSet<_> = records(Law::Same(10)).into_iter().collect();
        assert!((1_990..=2_000).contains(&distinct.len()), "{}", distinct.len());
    }

    #[test]
    fn bigrams_are_pairs_of_words_that_stand_together() {
        let records = records(Law::Bigrams);
        assert!(records.len() > 1_000);
        let chained = records.windows(2).all(|pair| {
            let word = |key: &[u8], last: bool| {
                key.split(|&byte| byte == b' ').nth(usize::from(last)).map(<[u8]>::to_vec)
            };
            word(&pair[0], true) == word(&pair[1], false)
        });
        assert!(chained);
    }

    #[test]
    fn a_sequence_has_the_windows_that_are_asked_for() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
        for records in [1_000, 10_000_000] {
            let mut sequence = Vec::new();
            let workload = Workload { name: "test", law: Law::Kmers, records, groups: 1 << 40 };
            workload.write_sequence(&testdata, &mut sequence).expect("the genome ships with the project");
            let pieces: Vec<&[u8]> =
                sequence.split(|&base| base == BREAK).filter(|piece| !piece.is_empty()).collect();
            assert_eq!(pieces.iter().map(|piece| (piece.len() - (KMER - 1)) as u64).sum::<u64>(), records);
            if let [first, second, third] = pieces[..] {
                assert_eq!(other_strand(first), second);
                let changed = first.iter().zip(third).filter(|(one, other)| one != other).count() as u64;
                let expected = third.len() as u64 / CHANGED;
                assert!((expected / 2..expected * 2).contains(&changed), "{changed}");
            }
        }
    }
}
