//! Rows of hostile inputs against an independent reader that holds the whole input: each row that goes in comes out, is dropped as a
//! repeat, has no key, or is rejected; and the exit code says when no row could be used.

use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a row is.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Key(Vec<u8>),
    /// It lacks a key; whether the field was there at all.
    Missing(bool),
    Malformed,
}

type Rows = Vec<(Vec<u8>, Kind)>;

/// A format with the words that ask for it, and its obvious reader.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Lines,
    Nul,
    Semicolons,
    Blanks,
    Csv,
    Json,
}

impl Shape {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Lines => &["--format", "lines"],
            Self::Nul => &["-z"],
            Self::Semicolons => &["--format", "delimited", "-d", ";", "-k", "2"],
            Self::Blanks => &["-k", "2"],
            Self::Csv => &["--format", "csv", "--no-header", "-k", "2"],
            Self::Json => &["--format", "jsonl", "-k", "k"],
        }
    }

    fn read(self, text: &[u8]) -> Rows {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let field = |field: Option<Vec<u8>>| field.map_or(Kind::Missing(false), Kind::Key);
        match self {
            Self::Lines => lines(text, b'\n', |line| Some(Kind::Key(line.to_vec()))),
            Self::Nul => lines(text, 0, |line| Some(Kind::Key(line.to_vec()))),
            Self::Semicolons => {
                lines(text, b'\n', |line| Some(field(line.split(|&b| b == b';').nth(1).map(<[u8]>::to_vec))))
            }
            Self::Blanks => lines(text, b'\n', |line| {
                let mut words = line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty());
                Some(field(words.nth(1).map(<[u8]>::to_vec)))
            }),
            Self::Csv => csv(text),
            Self::Json => lines(text, b'\n', json),
        }
    }
}

/// Rows between `end`s; a row of which `kind` says nothing is none.
fn lines(text: &[u8], end: u8, kind: impl Fn(&[u8]) -> Option<Kind>) -> Rows {
    let rows = text.split_inclusive(|&byte| byte == end);
    rows.filter_map(|row| {
        let mut line = row.strip_suffix(&[end]).unwrap_or(row);
        if end == b'\n' {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        Some((row.to_vec(), kind(line)?))
    })
    .collect()
}

fn json(line: &[u8]) -> Option<Kind> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    Some(match serde_json::from_slice::<Value>(line) {
        Err(_) => Kind::Malformed,
        Ok(value) => match value.get("k") {
            None => Kind::Missing(false),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) => Kind::Missing(true),
            Some(Value::String(text)) => Kind::Key(text.as_bytes().to_vec()),
            Some(other) => Kind::Key(other.to_string().into_bytes()),
        },
    })
}

/// One byte after the other.
fn csv(text: &[u8]) -> Rows {
    let (mut rows, mut at) = (Rows::new(), 0);
    while at < text.len() {
        let start = at;
        let (mut fields, mut is_quoted, mut is_start, mut ended) = (vec![Vec::new()], false, true, false);
        while at < text.len() && !ended {
            let (byte, next) = (text[at], text.get(at + 1).copied());
            at += 1;
            let field: &mut Vec<u8> = fields.last_mut().unwrap();
            match byte {
                b'"' if is_quoted && next == Some(b'"') => {
                    field.push(b'"');
                    at += 1;
                }
                b'"' if is_quoted => is_quoted = false,
                _ if is_quoted => field.push(byte),
                b'"' if is_start => is_quoted = true,
                b'\n' => ended = true,
                b'\r' if next.is_none_or(|next| next == b'\n') => {}
                b',' => {
                    fields.push(Vec::new());
                    is_start = true;
                    continue;
                }
                _ => field.push(byte),
            }
            is_start = false;
        }
        let row = &text[start..at];
        if matches!(row, b"\n" | b"\r\n" | b"\r") {
            continue;
        }
        let kind = match (is_quoted, fields.get(1)) {
            (true, _) => Kind::Malformed,
            (false, Some(field)) => Kind::Key(field.clone()),
            (false, None) => Kind::Missing(false),
        };
        rows.push((row.to_vec(), kind));
    }
    rows
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
    /// Gzip that lacks its end.
    Cut,
}

fn pack(text: &[u8], packing: Packing) -> Vec<u8> {
    match packing {
        Packing::Plain => text.to_vec(),
        Packing::Zstd => zstd::encode_all(text, 1).unwrap(),
        Packing::Gzip | Packing::Cut => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            let mut packed = encoder.finish().unwrap();
            if packing == Packing::Cut {
                packed.truncate(packed.len() * 3 / 4);
            }
            packed
        }
    }
}

/// Runs the command with bytes at both ends.
pub(crate) fn run<S: AsRef<OsStr>>(words: &[S], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overbank"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails early does not read to the end.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

fn concat<'r>(rows: impl Iterator<Item = &'r (Vec<u8>, Kind)>) -> Vec<u8> {
    rows.flat_map(|(row, _)| row.clone()).collect()
}

fn inputs() -> impl Strategy<Value = (Shape, Vec<u8>)> {
    let over = |alphabet: &'static [u8]| prop::collection::vec(prop::sample::select(alphabet), 0..300);
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let tables = over(b"ab;; \t,,\"\"\r\n\n\0\xff");
    let json_row = prop::sample::select(vec![
        &br#"{"k":"a"}"#[..],
        br#"{"k":"\u0061"}"#,
        br#"{"k":1}"#,
        br#"{"k":"1","x":[1,{"k":2}]}"#,
        br#"{"k":true}"#,
        br#"{"k":null}"#,
        br#"{"k":[1]}"#,
        br#"{"k":{}}"#,
        br#"{"x":"a"}"#,
        br#"["k"]"#,
        b"7",
        br#"{"k":"a"#,
        br#"{"k":"\ud800"}"#,
        b"{\"k\":\"\xff\"}",
        b"no json",
        b" ",
        b"",
        b"\0",
        b"\xef\xbb\xbf{}",
    ]);
    let json = prop::collection::vec((json_row, prop::sample::select(vec![&b"\n"[..], b"\r\n"])), 0..40);
    let json = json.prop_map(|rows| rows.into_iter().flat_map(|(row, end)| [row, end].concat()).collect());
    let marked = |text: BoxedStrategy<Vec<u8>>| {
        (any::<bool>(), text)
            .prop_map(|(marked, text)| [if marked { &b"\xef\xbb\xbf"[..] } else { b"" }, &text].concat())
    };
    use Shape::{Blanks, Csv, Json, Lines, Nul, Semicolons};
    let any_shape = prop::sample::select(vec![Lines, Nul, Semicolons, Blanks, Csv]);
    prop_oneof![
        (any_shape.clone(), marked(bytes.boxed())),
        (any_shape, marked(tables.boxed())),
        (Just(Json), marked(json.boxed())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_comes_out_or_is_accounted_for(
        (shape, text) in inputs(),
        packing in prop::sample::select(&[Packing::Plain, Packing::Plain, Packing::Gzip, Packing::Zstd, Packing::Cut][..]),
        keeps in any::<bool>(),
        threads in prop::sample::select(&["1", "3"][..]),
    ) {
        let rows = shape.read(&text);
        let place = tempfile::tempdir().unwrap();
        let (input, rejects) = (place.path().join("input"), place.path().join("rejects"));
        std::fs::write(&input, pack(&text, packing)).unwrap();
        let mut words = vec!["dedup", "--memory", "32MiB", "--keys", "1e6", "--error", "1e-12", "--json", "-q", "-j", threads];
        words.extend(["--missing", if keeps { "keep" } else { "drop" }]);
        words.extend(shape.words());
        words.extend(["--rejects", rejects.to_str().unwrap(), input.to_str().unwrap()]);
        let ran = run(&words, b"");
        let err = String::from_utf8(ran.stderr).unwrap();
        let rejected = std::fs::read(&rejects).unwrap();
        if packing == Packing::Cut {
            prop_assert_eq!(ran.status.code(), Some(2), "{}", err);
            prop_assert!(err.contains("cut short"), "{}", err);
            // The rows before the cut, and nothing else: some first part of all rows, sorted as ever.
            let whole = (0..=rows.len()).any(|count| {
                let (out, out_rejects, _) = expected(&rows[..count], keeps);
                (&out, &out_rejects) == (&ran.stdout, &rejected)
            });
            prop_assert!(whole, "{:?} {:?}", ran.stdout.escape_ascii(), rejected.escape_ascii());
            return Ok(());
        }
        let (out, out_rejects, counts) = expected(&rows, keeps);
        prop_assert_eq!(&ran.stdout, &out, "{:?} instead of {:?}", ran.stdout.escape_ascii(), out.escape_ascii());
        prop_assert_eq!(&rejected, &out_rejects, "{:?}", rejected.escape_ascii());
        let [keyed, kept, missing, malformed] = counts;
        prop_assert_eq!(kept + (keyed - kept) + missing + malformed, rows.len() as u64);
        let seen = rows.iter().any(|(_, kind)| matches!(kind, Kind::Missing(true)));
        let is_useless = keyed == 0 && (malformed > 0 && missing == 0 || missing > 0 && !seen);
        prop_assert_eq!(ran.status.code(), Some(if is_useless { 2 } else { 0 }), "{}", err);
        prop_assert_eq!(err.contains("malformed row"), malformed > 0, "{}", err);
        prop_assert_eq!(err.contains("without a key"), missing > 0, "{}", err);
        if !is_useless {
            let report: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
            let told = ["rows", "kept", "missing", "malformed"].map(|name| report[name].as_u64().unwrap());
            prop_assert_eq!(told, counts);
            prop_assert_eq!(report["dropped"].as_u64().unwrap(), keyed - kept);
        }
    }
}

/// What dedup prints and rejects, and how many rows have a key, are kept of these, have none, are malformed.
fn expected(rows: &[(Vec<u8>, Kind)], keeps: bool) -> (Vec<u8>, Vec<u8>, [u64; 4]) {
    let (mut seen, mut counts) = (HashSet::new(), [0; 4]);
    let (mut out, mut rejects) = (Vec::new(), Vec::new());
    for row in rows {
        match &row.1 {
            Kind::Key(key) => {
                counts[0] += 1;
                if seen.insert(key.clone()) {
                    counts[1] += 1;
                    out.push(row);
                }
            }
            Kind::Missing(_) => {
                counts[2] += 1;
                if keeps { &mut out } else { &mut rejects }.push(row);
            }
            Kind::Malformed => {
                counts[3] += 1;
                rejects.push(row);
            }
        }
    }
    (concat(out.into_iter()), concat(rejects.into_iter()), counts)
}
