//! Readers of text: any bytes, plain or compressed, are rows or counted as skipped, the same for any size of chunk.

use crate::{Target, Verdict};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
use overbank_ingest::{Batch, Delimiter, Error, Format, Options, Parser, Payload, Reader};
use std::cell::RefCell;
use std::io::Write;
use tempfile::NamedTempFile;

/// The target. Input: which format, then the bytes of the file.
pub const TARGET: Target = Target { name: "ingest", seeds, run };

/// The longest record, in bytes; both sizes of chunk are below it, so that they skip the same records.
const RECORD_BYTES_MAX: usize = 300;
const CHUNK_BYTES: [usize; 2] = [16, 256];
/// How many formats there are; the byte that chooses one also chooses what goes with its keys.
const FORMATS: u8 = 9;
/// The last format: FASTA in pieces, which overlap so far.
const PIECES: u8 = 8;
const OVERLAP: usize = 3;
/// Decompressed bytes after which an input is left: a bomb of 64 KiB holds 64 MB.
const TEXT_BYTES_MAX: u64 = 1 << 20;

fn seeds() -> Vec<Vec<u8>> {
    let lines = "one\ntwo\r\n\nthree";
    let fields = "a 1 2.5\nb\t2 -3\n  c 3 1e9\n";
    let csv = "name,hits,ms\n\"a, \"\"b\"\"\nc\",1,2\nd,2,3.5\n";
    let json = "{\"name\": \"a\\u0041\\n\", \"hits\": 1, \"ms\": 2.5, \"x\": [1, {\"y\": null}]}\n\n{\"hits\":2,\"name\":3,\"ms\":0}\n";
    let fasta = ">a x\nacgt\r\nac\n\n>b\n>c\ng";
    let fastq = "@a x\nacgt\n+\nIIII\n@b\nac\n+b\n@@\n";
    let raw = "\x01\0\0\0a\x03\0\0\0b\0c\0\0\0\0\0\0\0\0\x02\0\0\0de\0\0\0\0";
    let mut seeds = Vec::new();
    for (format, text) in [
        (0, lines),
        (1, fields),
        (2, csv),
        (3, csv),
        (4, json),
        (5, fasta),
        (6, fastq),
        (7, raw),
        (PIECES, fasta),
    ] {
        for packed in
            [text.as_bytes().to_vec(), gzip(text), zstd::encode_all(text.as_bytes(), 1).expect("memory")]
        {
            seeds.extend((0..4).map(|payload| [&[format + FORMATS * payload], &packed[..]].concat()));
        }
    }
    seeds
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// What a pass over an input yields.
#[derive(Debug, Default, PartialEq)]
struct Yield {
    hashes: Vec<KeyHash>,
    weights: Vec<u64>,
    values: Vec<u64>,
    payloads: Vec<Vec<u8>>,
    skipped: u64,
    bytes: u64,
}

fn run(data: &[u8]) -> Verdict {
    thread_local! {
        static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
    }
    let Some((&format, bytes)) = data.split_first() else { return Verdict::Refused };
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(super::file_in_ram);
        std::fs::write(file.path(), bytes).expect("the file is ours");
        let [small, large] = CHUNK_BYTES.map(|chunk_bytes| read(&options(format, chunk_bytes, file)));
        match (small, large) {
            (Ok(small), Ok(large)) => {
                if small.bytes <= TEXT_BYTES_MAX && large.bytes <= TEXT_BYTES_MAX {
                    assert_eq!(small, large, "the size of a chunk changes the answer");
                }
                Verdict::Accepted
            }
            (Err(small), Err(large)) => {
                // How much comes out before the damage depends on how much is decompressed at a time, and so does what its lengths say.
                let is_damage =
                    |error: &Error| matches!(error, Error::Damaged { .. } | Error::CutShort { .. });
                if !is_damage(&small) && !is_damage(&large) {
                    assert_eq!(
                        std::mem::discriminant(&small),
                        std::mem::discriminant(&large),
                        "{small} and {large}"
                    );
                }
                Verdict::Refused
            }
            // Reading was given up before the place that fails.
            (Ok(all), Err(_)) | (Err(_), Ok(all)) if all.bytes > TEXT_BYTES_MAX => Verdict::Refused,
            (small, large) => panic!("one size of chunk fails alone: {small:?} and {large:?}"),
        }
    })
}

fn options(format: u8, chunk_bytes: usize, file: &NamedTempFile) -> Options {
    let mut options = Options::new([file.path()]);
    (options.chunk_bytes, options.record_bytes_max) = (chunk_bytes, RECORD_BYTES_MAX);
    options.window_bytes_max = 1 << 20;
    let fields: &[&str] = match format % FORMATS {
        1 | 3 => &["1", "2", "3"],
        2 | 4 => &["name", "hits", "ms"],
        _ => &[],
    };
    options.payload = match (format / FORMATS % 4, format % FORMATS) {
        (0, _) | (_, PIECES) => Payload::None,
        (1, _) | (_, 7) => Payload::Natural,
        (2, 1 | 3) => Payload::Fields(vec!["3".to_owned(), "1".to_owned()]),
        (2, 4) => Payload::Fields(vec!["x".to_owned(), "name".to_owned()]),
        (2, 5 | 6) => Payload::Fields(vec!["sequence".to_owned(), "description".to_owned()]),
        _ => Payload::Row,
    };
    options.format = match format % FORMATS {
        0 => Format::Lines,
        1 => Format::Delimited(Delimiter::Whitespace),
        2 => Format::Csv { delimiter: b',', header: true },
        3 => Format::Csv { delimiter: b',', header: false },
        4 => Format::JsonLines,
        5 | PIECES => Format::Fasta,
        6 => Format::Fastq,
        _ => Format::Raw,
    };
    options.sequence_overlap = (format % FORMATS == PIECES).then_some(OVERLAP);
    if let [key, weight, value] = fields {
        options.keys = vec![(*key).to_owned()];
        (options.weight, options.value) = (Some((*weight).to_owned()), Some((*value).to_owned()));
    }
    options
}

fn read(options: &Options) -> Result<Yield, Error> {
    let mut reader = Reader::open(options.clone())?;
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(1));
    let parser = Parser::new(options, hasher);
    let mut batch = Batch::new();
    let mut all = Yield::default();
    while let Some(chunk) = reader.next_chunk()? {
        assert!(
            chunk.text().len() <= RECORD_BYTES_MAX.max(options.chunk_bytes),
            "{} bytes",
            chunk.text().len()
        );
        parser.parse(chunk, &mut batch)?;
        assert_eq!(batch.hashes().len(), batch.rows());
        assert_eq!(batch.keys().map(<[u8]>::len).sum::<usize>() as u64, batch.key_bytes());
        match options.sequence_overlap {
            // Where pieces end is another place for each size of chunk; what they are of is not.
            Some(overlap) => all.hashes.extend(
                batch.keys().flat_map(|piece| piece.windows(overlap + 1)).map(|run| hasher.hash(run)),
            ),
            None => all.hashes.extend(batch.hashes()),
        }
        all.weights.extend(batch.weights().into_iter().flatten());
        all.values.extend(batch.values().into_iter().flatten().map(|value| value.to_bits()));
        all.payloads.extend(batch.payloads().map(<[u8]>::to_vec));
        all.skipped += batch.skipped();
        all.bytes += batch.bytes();
        if all.bytes > TEXT_BYTES_MAX {
            break;
        }
    }
    Ok(all)
}
