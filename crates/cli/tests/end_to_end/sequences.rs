//! `kmers` of sequences that memory does not hold, against maps that the tests fill.

use crate::announced::{killed, points};
use crate::command::{Run, overbank};
use crate::stream::{Random, file};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;

/// Letters of a sequence, now and then one that is none of DNA, or a small one.
fn letters(random: &mut Random, count: usize) -> Vec<u8> {
    let letter = |random: &mut Random| match random.below(2000) {
        0 => b'N',
        1..60 => b"acgt"[random.below(4) as usize],
        _ => b"ACGT"[random.below(4) as usize],
    };
    (0..count).map(|_| letter(random)).collect()
}

/// The k-mers of whole sequences, as `--sort kmer` writes them.
fn counted(sequences: &[Vec<u8>], length: usize) -> String {
    let mut counts = BTreeMap::<Vec<u8>, u64>::new();
    for sequence in sequences {
        let is_kmer = |kmer: &&[u8]| kmer.iter().all(|letter| b"ACGT".contains(letter));
        sequence
            .to_ascii_uppercase()
            .windows(length)
            .filter(is_kmer)
            .for_each(|kmer| *counts.entry(kmer.to_vec()).or_default() += 1);
    }
    let line = |(kmer, count): (&Vec<u8>, &u64)| format!("{},{count}\n", String::from_utf8_lossy(kmer));
    "kmer,count\n".to_owned() + &counts.iter().map(line).collect::<String>()
}

/// A long sequence in one line, others in lines of 70 letters with other line ends, an empty one, one without a name and without an end.
fn genome(long: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut random = Random(23);
    let sequences = [long, 100_000, 0, 3, 40_000].map(|count| letters(&mut random, count)).to_vec();
    let mut text = b">1 a chromosome\n".to_vec();
    text.extend(&sequences[0]);
    for (number, sequence) in sequences.iter().enumerate().skip(1) {
        text.extend(if number == 4 { b"\n>\n".to_vec() } else { format!("\n>{number} x\n").into_bytes() });
        let end: &[u8] = if number == 1 { b"\r\n" } else { b"\n" };
        text.extend(sequence.chunks(70).collect::<Vec<_>>().join(end));
    }
    (text, sequences)
}

fn kmers(words: &str) -> Run {
    overbank("kmers -q --seed 1 --memory 32MiB --sort kmer").args(words)
}

#[test]
fn the_least_memory_is_enough_for_a_chromosome() {
    let place = tempfile::tempdir().unwrap();
    let (text, sequences) = genome(3_000_000);
    let expected = counted(&sequences, 6);
    let plain = file(place.path(), "genome.fa", &text);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).unwrap();
    let packed = file(place.path(), "genome.fa.gz", encoder.finish().unwrap());
    assert!(kmers("-k 6 -j 1").with(&plain).run().text() == expected);
    assert!(kmers("-k 6 -j 8").with(&packed).run().text() == expected);
    assert!(kmers("-k 6 --format fasta").fed(text).run().text() == expected, "through a pipe");
}

#[test]
fn kmers_over_the_end_of_a_chunk_are_counted_once_wherever_a_run_was_killed() {
    let place = tempfile::tempdir().unwrap();
    let (text, sequences) = genome(400_000);
    let path = file(place.path(), "genome.fa", text);
    let expected = counted(&sequences, 8);
    let stored = |store: &std::path::Path| kmers("-k 8 --commit-every 0 --store").with(store).with(&path);
    let points = points(stored(&place.path().join("whole")).output_to(Stdio::null()));
    let mut random = Random(5);
    for run in 0..4 {
        let store = place.path().join(format!("store{run}"));
        killed(stored(&store).output_to(Stdio::null()), random.below(points), &mut random);
        killed(stored(&store).with("--resume").output_to(Stdio::null()), random.below(points), &mut random);
        assert!(stored(&store).with("--resume").run().text() == expected, "run {run}");
    }
    overbank("kmers -q -k 7 --resume --store")
        .with(place.path().join("whole"))
        .with(&path)
        .run()
        .fails_naming(&["another command", "kmers --length 8"]);
}

#[test]
fn sequences_of_other_formats_are_rows() {
    let fastq = "@\nACGT\n+\nIIII\n@a\nACG\n+\nIII\n";
    let expected = "kmer,count\nACG,2\nCGT,1\n";
    assert_eq!(kmers("-k 3 --format fastq").fed(fastq).run().text(), expected);
    assert_eq!(kmers("-k 3").fed("acgt\nACG\n").run().text(), expected);
    assert_eq!(kmers("-k 3 --format csv --key s").fed("n,s\n1,ACGT\n2,ACG\n").run().text(), expected);
    assert_eq!(kmers("-k 3 --format fasta").fed("").run().text(), "kmer,count\n");
    let headless = kmers("-k 3 --format fasta").fed("ACGT\n>1\nACGT\n").run();
    assert_eq!(headless.out, "kmer,count\nACG,1\nCGT,1\n");
    assert!(headless.err.contains("1 malformed row"), "{}", headless.err);
}
