//! What commands that read a stream share: its input, and the machine's means that it may use.

use clap::{Args, ValueEnum, ValueHint};
use overbank_ingest::{Delimiter, Format, KeyForm};
use std::path::PathBuf;

/// Which rows, and what is their key.
#[derive(Args, Debug)]
pub(crate) struct InputArguments {
    /// Files, quoted globs, or - for standard input; plain, gzip, zstd, xz, bzip2 or lz4
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// The key: a field number, a CSV or Parquet column, a JSON path; several make one key, and one with a comma in it is put in
    /// double quotes [default: the whole line]
    #[arg(short, long, value_name = "FIELD", value_parser = parse_fields)]
    key: Vec<Fields>,

    /// Keys that are integers are numbers, as programs hash them by hash_u64, and not their decimal digits
    #[arg(long)]
    integers: bool,

    /// How rows and fields are written
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) format: FormatName,

    /// The byte between fields of delimited or CSV input, such as ';' or '\t' [default: tab, or comma for CSV]
    #[arg(short, long, value_name = "BYTE", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,

    /// CSV input, and .tsv, has no header row; name its columns by number
    #[arg(long)]
    pub(crate) no_header: bool,

    /// A NUL byte ends a row instead of a newline; for lines and fields, not CSV or JSON
    #[arg(short = 'z', long)]
    pub(crate) null: bool,

    /// What becomes of rows that lack a key field, or have null, an array or an object there [default: keep them in their place
    /// for dedup; drop them elsewhere]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) missing: Option<MissingName>,

    /// Stop at the first malformed row instead of counting it and leaving it out
    #[arg(long)]
    pub(crate) strict: bool,

    /// Write the rows that are left out, malformed or without a key, to this file as they came; it is replaced, or gone on with
    /// under --resume and --append
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) rejects: Option<PathBuf>,

    /// What to do when an input turns out damaged, cut short or of an unknown kind, once its rows up to there are read: stop, or
    /// go on with the next one; the exit code is 2 either way
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) on_error: OnError,
}

impl InputArguments {
    /// The fields that make the key.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.key.iter().flat_map(|fields| fields.0.iter().cloned()).collect()
    }

    /// What of a key is hashed.
    pub(crate) fn key_form(&self) -> KeyForm {
        form_of(self.integers)
    }
}

/// What `--integers` says of keys.
pub(super) fn form_of(integers: bool) -> KeyForm {
    if integers { KeyForm::Numbers } else { KeyForm::Text }
}

/// What becomes of rows without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingName {
    /// They pass through in their place
    Keep,
    /// They are left out, and counted
    Drop,
    /// The first one is an error
    Error,
}

/// What happens after an input that cannot be read further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// The command ends
    #[default]
    Stop,
    /// The next input is read
    Next,
}

impl OnError {
    pub(crate) fn is_next(self) -> bool {
        self == Self::Next
    }
}

/// The fields of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields(pub(super) Vec<String>);

/// Fields with commas between them, as a row of CSV has them.
pub(super) fn parse_fields(text: &str) -> Result<Fields, String> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let mut field = String::new();
        rest = match rest.strip_prefix('"') {
            None => {
                let (plain, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                field.push_str(plain);
                behind
            }
            Some(mut quoted) => loop {
                let (part, behind) = quoted.split_once('"').ok_or("a quote is never closed")?;
                field.push_str(part);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        quoted = more;
                    }
                    None => break behind,
                }
            },
        };
        if field.is_empty() {
            return Err("a field's name is empty".to_owned());
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if rest.is_empty() => return Ok(Fields(fields)),
            None => return Err("only a comma may follow a quoted name".to_owned()),
        }
    }
}

/// How much of the machine, and which hash.
#[derive(Args, Debug)]
pub(crate) struct MachineArguments {
    /// The memory that everything together may use; the program itself takes up to 8 MiB beside it
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = crate::units::parse_bytes)]
    pub(crate) memory: u64,

    /// Threads that read and count, fewer where the memory has no room for them; the answer does not depend on it [default: one a
    /// core, at most 8]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,

    /// Fix the hash seed, so that summaries built apart can be merged [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Hash function: xxh3 is fastest; siphash withstands keys chosen by an attacker
    #[arg(long, value_enum, default_value_t)]
    pub(crate) hash: HashName,

    /// No progress on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The formats by the names a user types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// By the file's extension: .csv and .tsv have a header, .jsonl, .ndjson and .json are JSON lines, .fa, .fasta, .fq, .fastq and the
    /// like are FASTA and FASTQ; else lines, or fields between blanks where all keys are numbers
    #[default]
    Auto,
    /// The whole line is the key
    Lines,
    /// Fields with one byte between them, tab by default, without quotes or header
    Delimited,
    /// Fields with runs of blanks between them
    Whitespace,
    /// CSV with quotes, and a header unless --no-header
    Csv,
    /// One JSON object a line
    Jsonl,
    /// Parquet
    Parquet,
    /// FASTA: the key is the id, up to the first blank; fields are id, description and sequence
    Fasta,
    /// FASTQ of four lines a record, as fasta, with quality
    Fastq,
    /// Length-prefixed: key length, key, value length, value; lengths are 4 bytes, little-endian
    Raw,
}

impl FormatName {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The name of a format whose rows do not end where a byte says so.
    pub(crate) fn name_if_quoted(self) -> Option<String> {
        (!matches!(self, Self::Auto | Self::Lines | Self::Delimited | Self::Whitespace)).then(|| self.name())
    }

    /// The reader's format, with the delimiter and header that were asked for.
    pub(crate) fn format(self, delimiter: Option<u8>, header: bool) -> Result<Format, String> {
        let takes_delimiter = matches!(self, Self::Delimited | Self::Csv);
        match delimiter {
            Some(_) if !takes_delimiter => {
                Err(format!("--delimiter is for --format delimited or csv, not {}", self.name()))
            }
            _ => Ok(match self {
                Self::Auto => Format::Auto,
                Self::Lines => Format::Lines,
                Self::Delimited => Format::Delimited(Delimiter::Byte(delimiter.unwrap_or(b'\t'))),
                Self::Whitespace => Format::Delimited(Delimiter::Whitespace),
                Self::Csv => Format::Csv { delimiter: delimiter.unwrap_or(b','), header },
                Self::Jsonl => Format::JsonLines,
                Self::Parquet => Format::Parquet,
                Self::Fasta => Format::Fasta,
                Self::Fastq => Format::Fastq,
                Self::Raw => Format::Raw,
            }),
        }
    }
}

/// The hash functions by the names a user types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HashName {
    /// XXH3-128
    #[default]
    Xxh3,
    /// SipHash-1-3
    Siphash,
}

impl From<HashName> for overbank::HashKind {
    fn from(name: HashName) -> Self {
        match name {
            HashName::Xxh3 => Self::Xxh3,
            HashName::Siphash => Self::SipHash13,
        }
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        "space" => Ok(b' '),
        _ => match text.as_bytes() {
            [byte] if !matches!(byte, b'\n' | b'\r' | b'"') => Ok(*byte),
            _ => Err("it must be one byte, such as ; or \\t, and not a quote or a line end".to_owned()),
        },
    }
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        let fields = |text| parse_fields(text).map(|fields| fields.0);
        assert_eq!(fields("a,b c"), Ok(vec!["a".into(), "b c".into()]));
        assert_eq!(fields(r#""a,b",c"#), Ok(vec!["a,b".into(), "c".into()]));
        assert_eq!(fields(r#""a ""b""""#), Ok(vec![r#"a "b""#.into()]));
        assert_eq!(fields(r#"a"b"#), Ok(vec![r#"a"b"#.into()]));
        for bad in ["", ",", "a,", "a,,b", r#""a"#, r#""a"b"#, r#""""#] {
            assert!(fields(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn delimiters_are_one_byte() {
        assert_eq!(parse_delimiter("\\t"), Ok(b'\t'));
        assert_eq!(parse_delimiter(";"), Ok(b';'));
        assert!(parse_delimiter("ab").is_err());
        assert!(FormatName::Jsonl.format(Some(b';'), true).unwrap_err().contains("jsonl"));
    }
}
