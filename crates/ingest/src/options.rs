//! What to read and how: inputs, format, the fields that become key, weight, value and payload, and the memory bounds.

use crate::cell::ColumnType;
use crate::{Error, KeyForm, Result, SystemWaiter, Waiter};
use keyhash::{HashKind, KeyHasher, Seed};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What separates the fields of [`Format::Delimited`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// Exactly this byte, as `cut -d` has it: two in a row enclose an empty field.
    Byte(u8),
    /// Runs of blanks and tabs, those at the start ignored, as awk has it.
    Whitespace,
}

/// How the bytes of an input divide into rows and fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// By the first bytes (Parquet) and by the file name, a compression's ending taken off: `csv`, `tsv`,
    /// `jsonl`, `ndjson`, `json`, `parquet`, `fasta`, `fa`, `fna`, `faa`, `ffn`, `frn`, `fastq`, `fq`. Anything else, and
    /// stdin, is lines; where keys are asked for and all of them are numbers, it is fields between blanks.
    #[default]
    Auto,
    /// Each line is a key. An empty line is the empty key.
    Lines,
    /// Lines of fields, without quoting; keys are field numbers from 1. The last field has no carriage return.
    Delimited(Delimiter),
    /// RFC 4180: quoted fields may hold delimiters, newlines and doubled quotes. Empty lines are no rows.
    Csv {
        /// The byte between fields.
        delimiter: u8,
        /// Whether the first row names the columns; without it, keys are column numbers from 1.
        header: bool,
    },
    /// One JSON value a line; keys are paths (`user.id`, `/user/id`, `items[0].sku`). Blank lines are no rows.
    JsonLines,
    /// Parquet; keys are column names, those of nested groups joined by dots.
    Parquet,
    /// FASTA: a line that starts with `>`, then the lines of a sequence. Fields are `id`, which is what follows up to the first blank,
    /// `description`, the rest of that line, and `sequence`, without line ends; without a key asked for, it is `id`.
    Fasta,
    /// FASTQ of four lines a record. Fields are those of FASTA, and `quality`.
    Fastq,
    /// Raw records: key length u32, key, value length u32, value; little-endian, of any bytes. Fields are `key` and `value`; without a
    /// key asked for, it is `key`. A first key of 559,903 bytes makes the input look like gzip.
    Raw,
}

/// What goes with a key, as bytes: the value that a dictionary keeps of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    #[default]
    None,
    /// What the format itself has beside the key: the sequence of FASTA and FASTQ, the value of raw records; no bytes elsewhere.
    Natural,
    /// The row as it stands, without its line end. Parquet and raw records have no such thing.
    Row,
    /// These fields: one as it is, several as [`crate::join_key`] joins them. An array or an object of JSON is its text. A row that lacks
    /// one is malformed.
    Fields(Vec<String>),
}

impl Payload {
    fn fields(&self) -> &[String] {
        match self {
            Self::Fields(names) => names,
            _ => &[],
        }
    }
}

/// A field whose values batches have with their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOption {
    /// The field, as keys are named.
    pub name: String,
    /// What its values are. A row with another one is malformed.
    pub kind: ColumnType,
}

/// What becomes of a row without a key: one that lacks a key field, or has null, an array or an object there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is yielded beside the rows with keys ([`crate::Batch::keyless`]), in its place. Only with [`Options::keep_rows`].
    Keep,
    /// It is left out and counted ([`crate::Batch::missing`]).
    #[default]
    Drop,
    /// The first one is an error.
    Error,
}

/// What to read and how. The fields are public; [`Options::new`] has the defaults.
///
/// # Cost
/// Memory in use is at most `chunk_bytes` x (chunks in flight + 2), plus the decoder's window (gzip 32 KiB, bzip2 4 MiB, lz4
/// 12 MiB, zstd and xz as the input says but at most `window_bytes_max`), plus `record_bytes_max` x (chunks in flight + 2)
/// where records are longer than `chunk_bytes`. Parquet files take `parquet_bytes_max` on top.
#[derive(Clone, Debug)]
pub struct Options {
    /// Paths, patterns with `*`, `?`, `[…]` (expanded here, in byte order), and `-` for stdin; none means stdin.
    pub inputs: Vec<PathBuf>,
    /// The format, by default [`Format::Auto`].
    pub format: Format,
    /// The fields that make the key, in order; empty where the whole line is the key.
    pub keys: Vec<String>,
    /// What of a key is hashed. Default [`KeyForm::Text`].
    pub key_form: KeyForm,
    /// The field that holds the weight, a whole number from 0; without it no weights are yielded.
    pub weight: Option<String>,
    /// The field that holds the value, a finite number; without it no values are yielded.
    pub value: Option<String>,
    /// What goes with the key ([`crate::Batch::payload`]), at 8 bytes a row. Default nothing.
    pub payload: Payload,
    /// Fields that go with each row as values of a type, or NULL ([`crate::Batch::column`]). Rows have them instead of a key where none is
    /// asked for. NULL is an empty field of CSV and of delimited fields, null and what an object lacks in JSON, and null in Parquet.
    pub columns: Vec<ColumnOption>,
    /// Whether rows are only counted: each is an empty key that is not hashed, whatever the format. No field can be asked for beside it.
    pub bare_rows: bool,
    /// With it, the rows of FASTA are pieces of sequences, which begin with so many letters of the piece before, at most 4096: each
    /// `sequence_overlap + 1` letters in a row are in exactly one piece, where one is that long. A row then takes a chunk at most,
    /// however long its sequence is. Pieces are keys, and so are the whole sequences of FASTQ; records need no id, and those without
    /// letters are no rows. Fields cannot be asked for beside them. Default none: rows are records.
    pub sequence_overlap: Option<usize>,
    /// Whether tables have a header where [`Format::Auto`] finds CSV. Default true.
    pub header: bool,
    /// Whether a NUL byte ends a line instead of a newline; for lines and delimited fields only. A carriage return is then a
    /// byte like others.
    pub nul_ends_lines: bool,
    /// Whether `\t`, `\n`, `\r` and `\\` in delimited fields stand for a tab, a newline, a carriage return and a backslash; for
    /// [`Format::Delimited`] only. Any other backslash is a byte like others.
    pub has_escapes: bool,
    /// What becomes of rows without a key. Default [`Missing::Drop`].
    pub missing: Missing,
    /// Whether the first malformed row is an error; by default such rows are skipped and counted.
    pub strict: bool,
    /// Whether an input that cannot be read further is left at that, and the next one read. See [`crate::Reader::take_failures`].
    pub pass_failed_inputs: bool,
    /// How many bytes a chunk holds, more only where one record is longer. Default 1 MiB.
    pub chunk_bytes: usize,
    /// How many lines (rows of Parquet) a chunk holds at most, more only where one record has more. It bounds what a
    /// batch takes beside the text, about 50 bytes a row. Default 131,072.
    pub chunk_lines: usize,
    /// The longest record that is read (at least `chunk_bytes`); a longer one is [`Error::RowTooLong`]. Default 64 MiB.
    pub record_bytes_max: usize,
    /// The largest window that zstd or xz may ask for; a larger one is [`Error::WindowTooLarge`]. Default 128 MiB, as the `zstd`
    /// command has it; its levels up to 19 use 8 MiB, and `xz -9` uses 64 MiB. Rounded down to a power of two for zstd.
    pub window_bytes_max: usize,
    /// What the dictionaries, windows and buffers of a Parquet file may take together. An [`Error::DoesNotFit`] takes it for an
    /// eighth of all memory. Default 32 MiB.
    pub parquet_bytes_max: usize,
    /// Whether batches keep the rows as they stand in the input ([`crate::Batch::row`]), at 8 bytes a row; for Parquet, what names
    /// them to a [`crate::ParquetWriter`].
    pub keep_rows: bool,
    /// Whether batches know the rows' numbers ([`crate::Batch::ordinal`]), at 4 bytes a row.
    pub number_rows: bool,
    /// Whether batches keep the rows that yield no key ([`crate::Batch::rejects`]): malformed ones, and those that lack a key and
    /// are left out. Parquet is then refused.
    pub keep_rejects: bool,
    /// What makes live inputs (pipes, terminals) come out while they are read: a pipe that has nothing new for so long *pauses*
    /// ([`crate::Chunk::is_before_pause`]), and a chunk comes at the latest a quarter of it after the one before, with the whole
    /// records that came; it may be empty. After a pause, one comes about every second until the input goes on. By default, and
    /// from regular files, records wait until a chunk is full.
    pub pause: Option<Duration>,
    /// The clock, and what may call the reader away from an input that it waits for.
    pub waiter: Arc<dyn Waiter>,
    /// How many malformed rows of a batch, and how many without a key, are kept with line number and reason. Default 5.
    pub bad_rows_kept: usize,
}

/// The largest chunk or record: a key's place in a batch is 31 bits.
pub(crate) const BYTES_MAX: usize = 1 << 30;
/// The longest overlap of pieces: a position has it.
pub(crate) const OVERLAP_MAX: usize = 4096;
/// The most key fields; more is surely a mistake.
const KEY_FIELDS_MAX: usize = 64;
/// The most fields of a payload: with those of the key, a weight and a value, a bit each in 128.
const PAYLOAD_FIELDS_MAX: usize = 62;
/// The most columns.
const COLUMNS_MAX: usize = 64;
/// The most fields of a row: a bit each.
const FIELDS_MAX: usize = 128;

impl Options {
    /// Options for `inputs` with everything else at its default.
    pub fn new<I>(inputs: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<PathBuf>,
    {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            format: Format::Auto,
            keys: Vec::new(),
            key_form: KeyForm::Text,
            weight: None,
            value: None,
            payload: Payload::None,
            columns: Vec::new(),
            bare_rows: false,
            sequence_overlap: None,
            header: true,
            nul_ends_lines: false,
            has_escapes: false,
            missing: Missing::Drop,
            strict: false,
            pass_failed_inputs: false,
            chunk_bytes: 1 << 20,
            chunk_lines: 1 << 17,
            record_bytes_max: 64 << 20,
            window_bytes_max: 128 << 20,
            parquet_bytes_max: 32 << 20,
            keep_rows: false,
            keep_rejects: false,
            number_rows: false,
            pause: None,
            waiter: Arc::new(SystemWaiter::default()),
            bad_rows_kept: 5,
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let range = |name, value: usize, least: usize| {
            if (least..=BYTES_MAX).contains(&value) {
                return Ok(());
            }
            let why = format!("it must be between {least} and {BYTES_MAX} bytes");
            Err(Error::InvalidOption { name, value: value.to_string(), why })
        };
        range("chunk_bytes", self.chunk_bytes, 1)?;
        if self.chunk_lines == 0 {
            let why = "a chunk holds at least one line".to_owned();
            return Err(Error::InvalidOption { name: "chunk_lines", value: "0".to_owned(), why });
        }
        range("record_bytes_max", self.record_bytes_max, 1)?;
        if self.keys.len() > KEY_FIELDS_MAX {
            return Err(Error::InvalidOption {
                name: "key",
                value: self.keys.len().to_string(),
                why: format!("a key has at most {KEY_FIELDS_MAX} fields"),
            });
        }
        if self.payload.fields().len() > PAYLOAD_FIELDS_MAX || self.payload == Payload::Fields(Vec::new()) {
            return Err(Error::InvalidOption {
                name: "payload",
                value: self.payload.fields().len().to_string(),
                why: format!("what goes with a key has 1 to {PAYLOAD_FIELDS_MAX} fields"),
            });
        }
        let fields = self.fields().count();
        if self.columns.len() > COLUMNS_MAX || fields > FIELDS_MAX {
            let why = format!("a row has at most {COLUMNS_MAX} columns, and {FIELDS_MAX} fields in all");
            return Err(Error::InvalidOption { name: "columns", value: fields.to_string(), why });
        }
        if self.bare_rows && (fields > 0 || self.payload != Payload::None || self.sequence_overlap.is_some())
        {
            let why = "rows that are only counted have no fields, and nothing that goes with them".to_owned();
            return Err(Error::InvalidOption { name: "bare_rows", value: "true".to_owned(), why });
        }
        if let Some(overlap) = self.sequence_overlap {
            let invalid = |why: String| {
                Err(Error::InvalidOption { name: "sequence_overlap", value: overlap.to_string(), why })
            };
            if overlap > OVERLAP_MAX {
                return invalid(format!("pieces of sequences overlap by at most {OVERLAP_MAX} letters"));
            }
            if fields > 0 || self.payload != Payload::None || self.keep_rows {
                return invalid("pieces of sequences have no fields, nothing that goes with them, and are no rows to be kept".to_owned());
            }
        }
        if self.missing == Missing::Keep && !self.keep_rows && !self.number_rows {
            let why = "rows without a key can only be yielded where rows are kept or numbered".to_owned();
            return Err(Error::InvalidOption { name: "missing", value: "keep".to_owned(), why });
        }
        let has_own_ends = !matches!(self.format, Format::Auto | Format::Lines | Format::Delimited(_));
        if self.nul_ends_lines && has_own_ends {
            let why = "a NUL ends lines of text, whole or of delimited fields, not what other formats have for rows".to_owned();
            return Err(Error::InvalidOption { name: "format", value: format!("{:?}", self.format), why });
        }
        Ok(())
    }

    /// What is wrong with escapes in an input of `format`.
    pub(crate) fn check_escapes(&self, format: Format, path: &Path) -> Result<()> {
        if !self.has_escapes || matches!(format, Format::Delimited(_)) {
            return Ok(());
        }
        Err(Error::InvalidOption {
            name: "escapes",
            value: path.display().to_string(),
            why: "only delimited fields are written with escapes; choose the format delimited, or leave escapes away".to_owned(),
        })
    }

    /// Whether fields of rows are asked for, and not what the rows are as a whole.
    pub(crate) fn names_fields(&self) -> bool {
        !self.keys.is_empty() || !self.columns.is_empty()
    }

    /// Whether a format that has fields has no key unless one is named.
    pub(crate) fn lacks_key(&self) -> bool {
        !self.names_fields() && !self.bare_rows
    }

    /// The byte that ends a line.
    pub(crate) fn line_end(&self) -> u8 {
        if self.nul_ends_lines { 0 } else { b'\n' }
    }

    pub(crate) fn record_limit(&self) -> usize {
        self.record_bytes_max.max(self.chunk_bytes)
    }

    /// The fields wanted, in slot order: the keys, then the weight, then the value, then those of the payload, then the columns.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let keys = self.keys.iter().map(String::as_str);
        let payload = self.payload.fields().iter().map(String::as_str);
        let columns = self.columns.iter().map(|column| column.name.as_str());
        keys.chain(self.weight.as_deref()).chain(self.value.as_deref()).chain(payload).chain(columns)
    }

    /// 64 bits that differ where the rows read would differ. What was added later shows only where it is not at its default, so
    /// that positions from before stay good.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut text = format!("{:?}|{:?}|{:?}|{:?}", self.format, self.keys, self.weight, self.value);
        if !self.header {
            text.push_str("|no header");
        }
        if self.has_escapes {
            text.push_str("|escapes");
        }
        if self.nul_ends_lines {
            text.push_str("|NUL");
        }
        if self.key_form != KeyForm::Text {
            text.push_str(&format!("|{:?}", self.key_form));
        }
        if self.payload != Payload::None {
            text.push_str(&format!("|payload {:?}", self.payload));
        }
        if !self.columns.is_empty() {
            // Their types are what is made of the rows, not which rows are read.
            let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            text.push_str(&format!("|columns {names:?}"));
        }
        if self.bare_rows {
            text.push_str("|bare rows");
        }
        if let Some(overlap) = self.sequence_overlap {
            text.push_str(&format!("|overlap {overlap}"));
        }
        if self.missing != Missing::Drop {
            text.push_str(&format!("|{:?}", self.missing));
        }
        KeyHasher::new(HashKind::Xxh3, Seed(0)).hash(text.as_bytes()).fold()
    }

    /// What alone differs from options of this fingerprint, with what it was and what it is, where that can be told from so little.
    pub(crate) fn changed_since(&self, fingerprint: u64) -> Option<(&'static str, String, String)> {
        let is_it = |other: &Self| other.fingerprint() == fingerprint;
        let forms = [KeyForm::Text, KeyForm::Numbers].map(|key_form| Self { key_form, ..self.clone() });
        if let Some(was) = forms.iter().find(|other| is_it(other)) {
            let shown = |options: &Self| options.key_form.shown().to_owned();
            return Some(("the form of keys", shown(was), shown(self)));
        }
        let fates = [Missing::Keep, Missing::Drop, Missing::Error];
        let fates = fates.map(|missing| Self { missing, ..self.clone() });
        let was = fates.iter().find(|other| is_it(other))?;
        let shown = |options: &Self| format!("{:?}", options.missing).to_lowercase();
        Some(("what becomes of rows without a key", shown(was), shown(self)))
    }
}
