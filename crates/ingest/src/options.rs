//! What to read and how: inputs, format, the fields that become key, weight and value, and the memory bounds.

use crate::{Error, Result, SystemWaiter, Waiter};
use keyhash::{HashKind, KeyHasher, Seed};
use std::path::PathBuf;
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
    /// `jsonl`, `ndjson`, `json`, `parquet`. Anything else, and stdin, is lines; where keys are asked for and
    /// all of them are numbers, it is fields between blanks.
    #[default]
    Auto,
    /// Each line is a key. An empty line is the empty key.
    Lines,
    /// Lines of fields, without quoting; keys are field numbers from 1.
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
}

/// What to read and how. The fields are public; [`Options::new`] has the defaults.
///
/// # Cost
/// Memory in use is at most `chunk_bytes` x (chunks in flight + 2), plus the decoder's window (gzip 32 KiB, zstd
/// as the frame says but at most `zstd_window_bytes_max`), plus `record_bytes_max` x (chunks in flight + 2)
/// where records are longer than `chunk_bytes`. For Parquet, a chunk's decoded columns take about `chunk_bytes`,
/// and a page of each column on top.
#[derive(Clone, Debug)]
pub struct Options {
    /// Paths, patterns with `*`, `?`, `[…]` (expanded here, in byte order), and `-` for stdin; none means stdin.
    pub inputs: Vec<PathBuf>,
    /// The format, by default [`Format::Auto`].
    pub format: Format,
    /// The fields that make the key, in order; empty where the whole line is the key.
    pub keys: Vec<String>,
    /// The field that holds the weight, a whole number from 0; without it no weights are yielded.
    pub weight: Option<String>,
    /// The field that holds the value, a finite number; without it no values are yielded.
    pub value: Option<String>,
    /// Whether the first malformed row is an error; by default such rows are skipped and counted.
    pub strict: bool,
    /// How many bytes a chunk holds, more only where one record is longer. Default 1 MiB.
    pub chunk_bytes: usize,
    /// How many lines (rows of Parquet) a chunk holds at most, more only where one record has more. It bounds what a
    /// batch takes beside the text, about 50 bytes a row. Default 131,072.
    pub chunk_lines: usize,
    /// The longest record that is read (at least `chunk_bytes`); a longer one is skipped and counted. Default 64 MiB.
    pub record_bytes_max: usize,
    /// The largest window that a zstd frame may ask for. Default 128 MiB, as the `zstd` command has it; levels up
    /// to 19 use 8 MiB. Rounded down to a power of two.
    pub zstd_window_bytes_max: usize,
    /// Whether batches keep the rows as they stand in the input ([`crate::Batch::row`]), at 8 bytes a row. Parquet is then refused.
    pub keep_rows: bool,
    /// What makes live inputs (pipes, terminals) come out while they are read: a pipe that has nothing new for so long *pauses*
    /// ([`crate::Chunk::is_before_pause`]), and a chunk comes at the latest a quarter of it after the one before, with the whole
    /// records that came; it may be empty. After a pause, one comes about every second until the input goes on. By default, and
    /// from regular files, records wait until a chunk is full.
    pub pause: Option<Duration>,
    /// The clock, and what may call the reader away from an input that it waits for.
    pub waiter: Arc<dyn Waiter>,
    /// How many malformed rows of a batch are kept with line number and reason. Default 5.
    pub bad_rows_kept: usize,
}

/// The largest chunk or record: a key's place in a batch is 31 bits.
const BYTES_MAX: usize = 1 << 30;
/// The most key fields; more is surely a mistake.
const KEY_FIELDS_MAX: usize = 64;

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
            weight: None,
            value: None,
            strict: false,
            chunk_bytes: 1 << 20,
            chunk_lines: 1 << 17,
            record_bytes_max: 64 << 20,
            zstd_window_bytes_max: 128 << 20,
            keep_rows: false,
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
        Ok(())
    }

    pub(crate) fn record_limit(&self) -> usize {
        self.record_bytes_max.max(self.chunk_bytes)
    }

    /// The fields wanted, in slot order: the keys, then the weight, then the value.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let keys = self.keys.iter().map(String::as_str);
        keys.chain(self.weight.as_deref()).chain(self.value.as_deref())
    }

    /// 64 bits that differ where the rows read would differ: format, key, weight and value.
    pub(crate) fn fingerprint(&self) -> u64 {
        let text = format!("{:?}|{:?}|{:?}|{:?}", self.format, self.keys, self.weight, self.value);
        KeyHasher::new(HashKind::Xxh3, Seed(0)).hash(text.as_bytes()).fold()
    }
}
