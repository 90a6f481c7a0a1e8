//! The real samples give what is known of them.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::drain;
use overbank_ingest::{Format, Options, Payload, Reader};
use std::collections::HashSet;
use std::path::Path;

#[test]
fn real_samples_give_the_rows_that_they_are_known_for() {
    // (file, lines, distinct lines)
    for (name, lines, distinct) in
        [("hsts_hosts.txt.zst", 161_019, 161_019), ("ecoli_MG1655-K12.fasta.gz", 66_283, 66_249)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
        let mut options = Options::new([path]);
        options.format = Format::Lines;
        let (all, _) = drain(Reader::open(options.clone()).unwrap(), &options);
        assert_eq!(all.rows.len(), lines, "{name}");
        assert_eq!(all.rows.iter().map(|row| &row.key).collect::<HashSet<_>>().len(), distinct, "{name}");
    }
}

#[test]
fn a_genome_is_one_record_without_its_line_ends() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ecoli_MG1655-K12.fasta.gz");
    let mut options = Options::new([path]);
    options.payload = Payload::Natural;
    let (all, _) = drain(Reader::open(options.clone()).unwrap(), &options);
    assert_eq!(all.rows.len(), 1);
    let sequence = all.rows[0].payload.as_ref().unwrap();
    assert!(sequence.iter().all(|base| b"ACGTRYKMSWBDHVN".contains(base)));
    assert_eq!(sequence.len(), 4_639_675);
}
