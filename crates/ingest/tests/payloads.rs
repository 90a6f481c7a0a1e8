//! What goes with a key, and the formats that have a key and a value of their own: against readers that hold the whole input, for any
//! chunk size and compression, whole and resumed behind every chunk; and inputs that are cut short or lie about their lengths.
#![allow(clippy::unwrap_used)]

mod naive;

use naive::check::{check, check_file, hasher};
use naive::{Compression, Outcome, Row, joined, split};
use overbank_ingest::{Batch, Delimiter, Error, Format, Missing, Options, Parser, Payload, Reader};
use parquet::data_type::{ByteArray, ByteArrayType};
use proptest::prelude::*;
use std::sync::Arc;

fn compressions() -> impl Strategy<Value = Compression> {
    use Compression::{Bzip2, Gzip, Lz4, Plain, Xz, Zstd};
    prop::sample::select(vec![Plain, Gzip, Zstd, Xz, Bzip2, Lz4])
}

fn bytes(alphabet: &'static [u8], most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(alphabet), 0..most)
}

fn options(format: Format, keys: &[&str], payload: Payload, chunk_bytes: usize) -> Options {
    let mut options = Options::new([""; 0]);
    options.format = format;
    options.keys = keys.iter().map(|&key| key.into()).collect();
    (options.payload, options.chunk_bytes, options.chunk_lines) = (payload, chunk_bytes, chunk_bytes % 5 + 1);
    options
}

fn fields(names: &[&str]) -> Payload {
    Payload::Fields(names.iter().map(|&name| name.into()).collect())
}

/// A row's payload of these fields, or the line of a row that lacks one of them or its key.
fn push(out: &mut Outcome, line: u64, key: Option<&[u8]>, payload: Option<Vec<u8>>) {
    match (key, payload) {
        (Some(key), Some(payload)) => out.rows.push(Row::with(key, &payload)),
        _ => out.bad_lines.push(line),
    }
}

/// Lines that a reader of FASTQ meets, in place and out of it.
const FASTQ_LINES: &[&[u8]] = &[b"@a x", b"@b", b"@ ", b"ac", b"g", b"+", b"+a", b"II", b"#", b"", b"a\r"];

/// Records of FASTA as a reader line by line finds them.
fn naive_fasta(text: &[u8]) -> Outcome {
    let mut out = Outcome::default();
    let mut at_hand: Option<(u64, Vec<u8>, Vec<u8>)> = None;
    let mut junk: Option<u64> = None;
    let close = |record: Option<(u64, Vec<u8>, Vec<u8>)>, out: &mut Outcome| {
        let Some((line, name, sequence)) = record else { return };
        let id = name.split(|byte| b" \t".contains(byte)).next().unwrap_or_default();
        push(out, line, (!id.is_empty()).then_some(id), Some(sequence));
    };
    for (line, _, bare) in split(text) {
        match (bare.strip_prefix(b">"), &mut at_hand) {
            (Some(name), _) => {
                close(at_hand.replace((line, name.to_vec(), Vec::new())), &mut out);
            }
            (None, Some((_, _, sequence))) => sequence.extend(bare),
            // One malformed record, which begins where the text does.
            (None, None) if !bare.trim_ascii().is_empty() => junk = Some(1),
            (None, None) => {}
        }
    }
    close(at_hand, &mut out);
    out.bad_lines.splice(0..0, junk);
    out
}

fn naive_fastq(text: &[u8]) -> Outcome {
    let mut out = Outcome::default();
    let lines: Vec<_> = split(text).collect();
    for record in lines.chunks(4) {
        if record.iter().all(|(_, _, bare)| bare.trim_ascii().is_empty()) {
            continue;
        }
        let row = match record {
            [(_, _, name), (_, _, sequence), (_, _, plus), (_, _, quality)]
                if name.starts_with(b"@") && plus.starts_with(b"+") && sequence.len() == quality.len() =>
            {
                let id = name[1..].split(|byte| b" \t".contains(byte)).next().unwrap_or_default();
                (!id.is_empty()).then_some((id, joined(&[sequence.to_vec(), quality.to_vec()])))
            }
            _ => None,
        };
        push(
            &mut out,
            record[0].0,
            row.as_ref().map(|(id, _)| *id),
            row.as_ref().map(|(_, both)| both.clone()),
        );
    }
    out
}

fn raw(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let part = |bytes: &Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    records.iter().flat_map(|(key, value)| [part(key), part(value)].concat()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lines_and_fields_have_payloads(
        text in bytes(b"12;;;\\\t\r\n", 150), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let mut whole = options(Format::Lines, &[], Payload::Row, chunk_bytes);
        let mut expected = naive::lines(&text);
        expected.rows.iter_mut().for_each(|row| row.payload = Some(row.key.clone()));
        check(&text, compression, &mut whole, &expected);

        let delimited = Format::Delimited(Delimiter::Byte(b';'));
        let (mut two, mut row, mut nothing) = (Outcome::default(), Outcome::default(), Outcome::default());
        for (line, _, bare) in split(&text) {
            let found: Vec<&[u8]> = bare.split(|&byte| byte == b';').collect();
            let pair = (found.len() > 2).then(|| joined(&[found[2].to_vec(), found[0].to_vec()]));
            push(&mut two, line, found.get(1).copied(), pair);
            push(&mut row, line, found.get(1).copied(), Some(bare.to_vec()));
            push(&mut nothing, line, found.get(1).copied(), Some(Vec::new()));
        }
        check(&text, compression, &mut options(delimited, &["2"], fields(&["3", "1"]), chunk_bytes), &two);
        check(&text, compression, &mut options(delimited, &["2"], Payload::Row, chunk_bytes), &row);
        check(&text, compression, &mut options(delimited, &["2"], Payload::Natural, chunk_bytes), &nothing);
    }

    #[test]
    fn escapes_in_fields_stand_for_their_bytes(
        pairs in prop::collection::vec((bytes(b"\t\n\r\\tn;a", 8), bytes(b"\t\n\r\\tr;b", 8)), 0..12), chunk_bytes in 1usize..64,
    ) {
        let escaped = |field: &Vec<u8>| {
            let escape = |&byte: &u8| match byte {
                b'\t' => b"\\t".to_vec(),
                b'\n' => b"\\n".to_vec(),
                b'\r' => b"\\r".to_vec(),
                b'\\' => b"\\\\".to_vec(),
                byte => vec![byte],
            };
            field.iter().flat_map(escape).collect::<Vec<_>>()
        };
        let text: Vec<u8> = pairs.iter().flat_map(|(key, value)| [&escaped(key)[..], b"\t", &escaped(value), b"\n"].concat()).collect();
        let tabs = Format::Delimited(Delimiter::Byte(b'\t'));
        let mut options = options(tabs, &["1"], fields(&["2"]), chunk_bytes);
        options.has_escapes = true;
        let rows = pairs.iter().map(|(key, value)| Row::with(key, value)).collect();
        check(&text, Compression::Plain, &mut options, &Outcome { rows, bad_lines: Vec::new() });
    }

    #[test]
    fn csv_fields_are_payloads_unquoted(
        rows in prop::collection::vec(("[a,\"\n]{0,4}", "[b,\"\r\n]{0,4}"), 0..12), chunk_bytes in 1usize..64,
    ) {
        let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
        let line = |(key, value): &(String, String)| format!("{},{}\n", quoted(key), quoted(value));
        let text = format!("k,v\n{}", rows.iter().map(line).collect::<String>());
        let csv = Format::Csv { delimiter: b',', header: true };
        let row = |payload: String, key: &String| Row::with(key.as_bytes(), payload.as_bytes());
        let values = rows.iter().map(|(key, value)| row(value.clone(), key)).collect();
        let wholes = rows.iter().map(|pair| row(line(pair).trim_end_matches('\n').to_owned(), &pair.0)).collect();
        for (payload, rows) in [(fields(&["v"]), values), (Payload::Row, wholes)] {
            let expected = Outcome { rows, bad_lines: Vec::new() };
            check(text.as_bytes(), Compression::Plain, &mut options(csv, &["k"], payload, chunk_bytes), &expected);
        }
    }

    #[test]
    fn records_of_fasta_are_those_of_a_reader_line_by_line(
        text in bytes(b">>acg \t\r\n\n\n", 120), compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let expected = naive_fasta(&text);
        check(&text, compression, &mut options(Format::Fasta, &[], Payload::Natural, chunk_bytes), &expected);
        let mut named = options(Format::Fasta, &["id"], fields(&["sequence"]), chunk_bytes);
        check(&text, compression, &mut named, &expected);
    }

    #[test]
    fn records_of_fastq_are_those_of_a_reader_line_by_line(
        lines in prop::collection::vec(prop::sample::select(FASTQ_LINES), 0..30),
        compression in compressions(), chunk_bytes in 1usize..64, is_ended: bool,
    ) {
        let text = [&lines.join(&b'\n')[..], if is_ended { &b"\n"[..] } else { b"" }].concat();
        let expected = naive_fastq(&text);
        let mut both = options(Format::Fastq, &[], fields(&["sequence", "quality"]), chunk_bytes);
        check(&text, compression, &mut both, &expected);
    }

    /// Its fourth line might be as empty as its sequence, but it is not there.
    #[test]
    fn a_record_of_fastq_that_is_cut_is_malformed(chunk_bytes in 1usize..64, lines in 1usize..4, is_ended: bool) {
        let record = [&b"@b"[..], b"", b"+"];
        let text = [&b"@a\nA\n+\nI\n"[..], &record[..lines].join(&b'\n')[..], if is_ended { b"\n" } else { b"" }].concat();
        let expected = Outcome { rows: vec![Row::with(b"a", b"A")], bad_lines: vec![5] };
        check(&text, Compression::Plain, &mut options(Format::Fastq, &[], Payload::Natural, chunk_bytes), &expected);
    }

    #[test]
    fn well_formed_records_of_fastq_come_whole(
        records in prop::collection::vec(("[a-c]{1,3}", "[ACGT]{0,9}"), 0..9), chunk_bytes in 1usize..64,
    ) {
        let text: String = records.iter().map(|(id, bases)| format!("@{id} x\n{bases}\n+\n{}\n", "@".repeat(bases.len()))).collect();
        let rows = records.iter().map(|(id, bases)| Row::with(id.as_bytes(), bases.as_bytes())).collect();
        let expected = Outcome { rows, bad_lines: Vec::new() };
        check(text.as_bytes(), Compression::Gzip, &mut options(Format::Fastq, &[], Payload::Natural, chunk_bytes), &expected);
    }

    #[test]
    fn raw_records_are_those_written_whatever_their_bytes(
        records in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        compression in compressions(), chunk_bytes in 1usize..64,
    ) {
        let rows = records.iter().map(|(key, value)| Row::with(key, value)).collect();
        let expected = Outcome { rows, bad_lines: Vec::new() };
        let text = raw(&records);
        check(&text, compression, &mut options(Format::Raw, &[], Payload::Natural, chunk_bytes), &expected);
        let turned = records.iter().map(|(key, value)| Row::with(value, &joined(&[key.clone(), value.clone()]))).collect();
        let expected = Outcome { rows: turned, bad_lines: Vec::new() };
        check(&text, compression, &mut options(Format::Raw, &["value"], fields(&["key", "value"]), chunk_bytes), &expected);
    }

    #[test]
    fn raw_records_cut_anywhere_give_those_before_and_say_where(
        records in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), prop::collection::vec(any::<u8>(), 0..9)), 1..9),
        place in any::<prop::sample::Index>(), chunk_bytes in 1usize..40,
    ) {
        let text = raw(&records);
        let cut = place.index(text.len());
        let whole = (0..=records.len()).rev().find(|&count| raw(&records[..count]).len() <= cut).unwrap();
        let start = raw(&records[..whole]).len();
        let (rows, outcome) = read(&text[..cut], chunk_bytes, 1 << 20);
        prop_assert_eq!(rows, &records[..whole]);
        match outcome {
            Ok(()) => prop_assert_eq!(start, cut),
            Err(Error::RecordCutOff { record, at, bytes, needed_bytes, .. }) => {
                prop_assert_eq!((record, at, bytes), (whole as u64 + 1, start as u64, (cut - start) as u64));
                prop_assert!(needed_bytes > bytes && needed_bytes <= (raw(&records[..whole + 1]).len() - start) as u64);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn any_bytes_are_raw_records_or_an_error(
        text in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => 0u8..6, 1 => any::<u8>()], 0..80), limit in 8usize..60,
    ) {
        // Whatever the size of a chunk below the limit, the outcome is the same, and nothing longer than the limit is held.
        let (rows, outcome) = read(&text, 1, limit);
        for chunk_bytes in [limit / 2 + 1, limit] {
            let (other, end) = read(&text, chunk_bytes, limit);
            prop_assert_eq!(&other, &rows);
            prop_assert_eq!(end.as_ref().err().map(cause), outcome.as_ref().err().map(cause));
        }
        prop_assert!(rows.iter().all(|(key, value)| key.len() + value.len() + 8 <= limit));
    }
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// What an error says, but how long a record is that is too long: that is as exact as the lengths of it that a chunk shows.
fn cause(error: &Error) -> String {
    match error {
        Error::RowTooLong { line, at, bytes, limit_bytes, .. } => {
            assert!(*bytes > *limit_bytes as u64);
            format!("record {line} at {at} is longer than {limit_bytes}")
        }
        error => error.to_string(),
    }
}

/// The raw records of `text`, and how reading them ends.
fn read(text: &[u8], chunk_bytes: usize, limit: usize) -> (Records, Result<(), Error>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, text).unwrap();
    let mut options = options(Format::Raw, &[], Payload::Natural, chunk_bytes);
    // The path is in messages.
    (options.inputs, options.record_bytes_max) = (vec![path.clone()], limit);
    let parser = Parser::new(&options, hasher());
    let (mut rows, mut batch) = (Vec::new(), Batch::new());
    let mut reader = Reader::open(options).unwrap();
    let outcome = loop {
        match reader.next_chunk() {
            Ok(None) => break Ok(()),
            Ok(Some(chunk)) => {
                assert!(chunk.text().len() <= limit.max(chunk_bytes));
                parser.parse(chunk, &mut batch).unwrap();
                rows.extend((0..batch.rows()).map(|i| (batch.key(i).to_vec(), batch.payload(i).to_vec())));
            }
            Err(error) => break Err(nameless(error)),
        }
    };
    (rows, outcome)
}

/// An error without the path of its input, which is another one each time.
fn nameless(error: Error) -> Error {
    match error {
        Error::RecordCutOff { record, at, bytes, needed_bytes, .. } => {
            Error::RecordCutOff { path: "x".into(), record, at, bytes, needed_bytes }
        }
        Error::RowTooLong { line, at, bytes, is_whole, is_quoted, limit_bytes, .. } => {
            Error::RowTooLong { path: "x".into(), line, at, bytes, is_whole, is_quoted, limit_bytes }
        }
        error => error,
    }
}

/// A length is believed before memory is asked for: 4 GiB of claims cost nothing.
#[test]
fn lengths_that_lie_are_refused_with_their_place() {
    let good = raw(&[(b"a".to_vec(), b"b".to_vec())]);
    let bad = [&good[..], &u32::MAX.to_le_bytes(), b"xyz"].concat();
    for chunk_bytes in [1, 11, 4096] {
        let (rows, outcome) = read(&bad, chunk_bytes, 1 << 20);
        assert_eq!(rows.len(), 1);
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::RowTooLong { line: 2, at: 10, bytes: 0x1_0000_0007, is_whole: false, .. }),
            "{error}"
        );
    }
}

/// First bytes that are the length of a key are no archive's, and hold no byte order mark.
#[test]
fn raw_records_may_begin_as_other_things_do() {
    for length in [0x9d1f_usize, 0xa01f, 0x8b1f, 0x00bf_bbef & 0xffff] {
        let records = vec![(vec![b'k'; length], b"v".to_vec())];
        let (rows, outcome) = read(&raw(&records), 1 << 20, 1 << 20);
        outcome.unwrap();
        assert!(rows == records, "{length}");
    }
    let records = vec![(vec![b'k'; 0x00bf_bbef], Vec::new())];
    let (rows, outcome) = read(&raw(&records), 1 << 20, 16 << 20);
    outcome.unwrap();
    assert!(rows == records);
}

#[test]
fn json_values_go_along_as_their_text() {
    let text = br#"{"k":1,"v":{"a": [1, 2]},"w":"x\ty"}
{"k":2,"v":[],"w":3}
{"k":3,"v":null,"w":4}
{"k":4,"w":5}
{"k":{},"v":1,"w":6}
"#;
    let rows = vec![Row::with(b"1", b"{\"a\": [1, 2]}\tx\\ty"), Row::with(b"2", b"[]\t3")];
    let expected = Outcome { rows, bad_lines: vec![3, 4, 5] };
    for chunk_bytes in [1, 50, 500] {
        let mut options = options(Format::JsonLines, &["k"], fields(&["v", "w"]), chunk_bytes);
        check(text, Compression::Plain, &mut options, &expected);
    }
}

#[test]
fn columns_of_parquet_are_payloads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let schema =
        parquet::schema::parser::parse_message_type("message m { required binary k; required binary v; }");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(file, Arc::new(schema.unwrap()), Arc::default())
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut expected = Outcome::default();
    for name in ["key", "value"] {
        let cells: Vec<ByteArray> =
            (0..500).map(|i| ByteArray::from(format!("{name} {i}").as_str())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&cells, None, None).unwrap();
        column.close().unwrap();
    }
    for i in 0..500 {
        expected.rows.push(Row::with(format!("key {i}").as_bytes(), format!("value {i}").as_bytes()));
    }
    group.close().unwrap();
    writer.close().unwrap();
    check_file(&path, &mut options(Format::Auto, &["k"], fields(&["v"]), 400), &expected);
    let mut whole = options(Format::Auto, &["k"], Payload::Row, 400);
    whole.inputs = vec![path];
    let error = Reader::open(whole).unwrap().next_chunk().unwrap_err();
    assert!(error.to_string().contains("name the fields"), "{error}");
}

#[test]
fn formats_are_known_by_their_endings() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("a.fa", ">x\nac\ngt\n"), ("b.fastq", "@x\nacgt\n+\nIIII\n"), ("c.FNA", ">x y\r\nacgt")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let expected = Outcome { rows: vec![Row::with(b"x", b"acgt")], bad_lines: Vec::new() };
        check_file(&path, &mut options(Format::Auto, &[], Payload::Natural, 100), &expected);
    }
}

#[test]
fn a_record_without_a_name_is_a_row_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.fa");
    std::fs::write(&path, "> a\nac\n>\n>b\n").unwrap();
    let mut options = options(Format::Fasta, &[], Payload::Natural, 100);
    options.inputs = vec![path];
    let parse = |options: &Options| {
        let mut batch = Batch::new();
        let chunk = Reader::open(options.clone()).unwrap().next_chunk().unwrap().unwrap();
        Parser::new(options, hasher()).parse(chunk, &mut batch).map(|()| batch)
    };
    let batch = parse(&options).unwrap();
    assert_eq!((batch.rows(), batch.missing(), batch.malformed()), (1, 2, 0));
    assert_eq!((batch.key(0), batch.payload(0)), (&b"b"[..], &b""[..]));
    options.missing = Missing::Error;
    assert!(matches!(parse(&options), Err(Error::MissingKey { line: 1, .. })));
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::new(["/dev/null"]);
        change(&mut options);
        Reader::open(options).map(drop).unwrap_err().to_string()
    };
    let none = refused(|options| options.payload = Payload::Fields(Vec::new()));
    assert!(none.contains("1 to 62 fields"), "{none}");
    let many = refused(|options| options.payload = Payload::Fields(vec!["a".to_owned(); 63]));
    assert!(many.contains("1 to 62 fields"), "{many}");
    let nul = refused(|options| (options.format, options.nul_ends_lines) = (Format::Fasta, true));
    assert!(nul.contains("NUL"), "{nul}");
    let mut lines = Options::new(["/dev/null"]);
    lines.has_escapes = true;
    let error = Reader::open(lines).unwrap().next_chunk().map(drop).unwrap_err();
    assert!(error.to_string().contains("only delimited fields"), "{error}");
    let mut raw = Options::new(["/dev/null"]);
    (raw.format, raw.payload) = (Format::Raw, Payload::Row);
    let error = Reader::open(raw).unwrap().next_chunk().map(drop).unwrap_err();
    assert!(error.to_string().contains("name the fields"), "{error}");
}
