//! What can go wrong between a path and a batch of keys, with the facts as fields.

use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The whole memory is so many times what Parquet may take of it: what an error advises is computed by that.
const PARQUET_SHARE: u64 = 8;

/// What can go wrong, with the facts as fields; `Display` is a sentence with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be opened.
    #[error("cannot open {}: {source}", shown(path))]
    Open {
        /// The input.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// An input cannot be read any further.
    #[error("cannot read {} beyond byte {at}: {source}", shown(path))]
    Read {
        /// The input.
        path: PathBuf,
        /// How many bytes of the file (compressed, where it is) were read.
        at: u64,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// The reader was called away by its [`crate::Waiter`]. It stands behind the last chunk.
    #[error("interrupted while {} was read", shown(path))]
    Interrupted {
        /// The input.
        path: PathBuf,
    },

    /// A directory was named where a file was expected.
    #[error("{} is a directory; name its files, for example '{}/*'", shown(path), shown(path))]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },

    /// No file matches a pattern.
    #[error("no file matches '{pattern}'; check the pattern, and quote it if the shell should not touch it")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },

    /// An input uses something that cannot be read here.
    #[error("{} uses {what}, which is not supported; write it again in another form", shown(path))]
    Unsupported {
        /// The input.
        path: PathBuf,
        /// What it uses.
        what: String,
    },

    /// A part of an input that must be in memory as a whole does not fit into the share that there is.
    #[error(
        "{what} of {} takes {}, where {} are left for such parts; give --memory at least {}",
        shown(path), mebibytes(*bytes), mebibytes(*limit_bytes), mebibytes(needed_bytes.saturating_mul(PARQUET_SHARE))
    )]
    DoesNotFit {
        /// The input.
        path: PathBuf,
        /// The part.
        what: String,
        /// What it takes, in bytes.
        bytes: u64,
        /// What it takes with what must be there beside it.
        needed_bytes: u64,
        /// [`crate::Options::parquet_bytes_max`].
        limit_bytes: u64,
    },

    /// The output cannot be written.
    #[error("cannot write the output: {source}")]
    Write {
        /// What the operating system said.
        source: std::io::Error,
    },

    /// A compressed input ends in the middle. Its whole rows up to there were yielded.
    #[error(
        "{} is cut short at byte {at} ({compression}); its whole rows up to there were read; fetch it again",
        shown(path)
    )]
    CutShort {
        /// The input.
        path: PathBuf,
        /// Its compression.
        compression: &'static str,
        /// How many compressed bytes there are.
        at: u64,
    },

    /// An input is compressed or packed in a way that is not read.
    #[error("{} is {what}; unpack it first, or compress it with zstd, gzip, xz, bzip2 or lz4", shown(path))]
    Refused {
        /// The input.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },

    /// An input is of a kind that this build was made without.
    #[error(
        "{} is {what}, which this build does not read; build it with the feature `{feature}`, or unpack the input first",
        shown(path)
    )]
    NotBuilt {
        /// The input.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// The cargo feature of `overbank-ingest` that reads it.
        feature: &'static str,
    },

    /// A compressed input needs a larger window than the options allow. It is not damaged.
    #[error("{} ({compression}) needs a window of {} to be decompressed, more than the {limit_bytes} bytes that window_bytes_max allows",
        shown(path), bytes.map_or("unknown size".into(), |bytes| format!("{bytes} bytes")))]
    WindowTooLarge {
        /// The input.
        path: PathBuf,
        /// Its compression.
        compression: &'static str,
        /// The window that it needs, where that is known.
        bytes: Option<u64>,
        /// The largest window that the options allow.
        limit_bytes: usize,
    },

    /// A row is longer than the options allow.
    #[error(
        "the row in line {line} of {}, at byte {at}, is {} {bytes} bytes long, more than the {limit_bytes} that record_bytes_max \
         allows{}",
        shown(path), if *is_whole { "" } else { "at least" }, if *is_quoted { "; or a quote is never closed" } else { "" }
    )]
    RowTooLong {
        /// The input.
        path: PathBuf,
        /// Its first line's number, from 1; of a raw record its own.
        line: u64,
        /// Where it starts in the (decompressed) input.
        at: u64,
        /// How long it is, as far as it was looked at.
        bytes: u64,
        /// Whether that is all of it.
        is_whole: bool,
        /// Whether the format has quotes, of which one may not be closed.
        is_quoted: bool,
        /// The longest row that the options allow.
        limit_bytes: usize,
    },

    /// An input ends within a raw record. Those before it were yielded.
    #[error(
        "{} ends in its record {record}, which starts at byte {at}: {bytes} bytes are there and its lengths say at least \
         {needed_bytes}; fetch it again, or check that it holds length-prefixed records",
        shown(path)
    )]
    RecordCutOff {
        /// The input.
        path: PathBuf,
        /// The record's number, from 1.
        record: u64,
        /// Where it starts in the (decompressed) input.
        at: u64,
        /// How many bytes of it there are.
        bytes: u64,
        /// How many there must be, as far as that can be told.
        needed_bytes: u64,
    },

    /// A capture ends within a packet, a block or its header. The whole packets before were given.
    #[error(
        "{} ends too early: what starts at byte {at} takes at least {needed_bytes} bytes, of which {bytes} are there; the {packets} \
         whole packets before were read; fetch it again, or let what writes it come to its end",
        shown(path)
    )]
    CaptureCutOff {
        /// The input.
        path: PathBuf,
        /// How many packets were whole.
        packets: u64,
        /// Where the part that is not whole starts in the (decompressed) input.
        at: u64,
        /// How many bytes of it there are.
        bytes: u64,
        /// How many there must be, as far as that can be told.
        needed_bytes: u64,
    },

    /// An input that should be a capture of packets begins like none.
    #[error(
        "{} is no capture of packets: it starts with the bytes {head:02x?}; pcap and pcapng are read",
        shown(path)
    )]
    NotACapture {
        /// The input.
        path: PathBuf,
        /// Its first bytes.
        head: [u8; 4],
    },

    /// A file lost bytes while it was being read, as when a log is truncated in place.
    #[error(
        "{} had {expected} bytes when it was opened and has {found} now; read a copy that nobody truncates",
        shown(path)
    )]
    Shrunk {
        /// The input.
        path: PathBuf,
        /// Its size in bytes when it was opened.
        expected: u64,
        /// Its size in bytes at the end of what could be read.
        found: u64,
    },

    /// An input is not what its first bytes promise.
    #[error("{} is damaged near byte {at} ({what}): {why}", shown(path))]
    Damaged {
        /// The input.
        path: PathBuf,
        /// The format or compression that was being decoded.
        what: &'static str,
        /// How many bytes of the file were consumed; the row for Parquet; for a capture, where in the (decompressed) input it is.
        at: u64,
        /// What the decoder said.
        why: String,
    },

    /// No column has the name that was asked for.
    #[error(
        "no such column {name:?} in {}{}; columns are: {}",
        shown(path),
        meant(name, columns),
        listed(columns)
    )]
    NoSuchColumn {
        /// The name.
        name: String,
        /// The input.
        path: PathBuf,
        /// The columns that there are.
        columns: Vec<String>,
    },

    /// Several columns have the name that was asked for.
    #[error(
        "columns {} and {} of {} are both named {name:?}; give them different names, or, in CSV, take the header away and name columns by \
         number (--no-header)",
        columns[0],
        columns[1],
        shown(path)
    )]
    ColumnTwice {
        /// The name.
        name: String,
        /// The input.
        path: PathBuf,
        /// The first two of them, from 1.
        columns: [usize; 2],
    },

    /// The format has columns, and none was chosen as the key.
    #[error("{} has columns, so name the key with --key; {}", shown(path), choices)]
    KeyNeeded {
        /// The input.
        path: PathBuf,
        /// What can be chosen from.
        choices: String,
    },

    /// A column cannot serve as key, weight or value.
    #[error("column {name:?} of {} cannot be used: {why}", shown(path))]
    ColumnUnusable {
        /// The column.
        name: String,
        /// The input.
        path: PathBuf,
        /// Why not.
        why: String,
    },

    /// An option is out of its range or does not fit the others.
    #[error("{name} cannot be {value:?}: {why}")]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The range, and the remedy.
        why: String,
    },

    /// A malformed row, where `strict` makes the first one an error.
    #[error("{}:{line}: {why}; leave out --strict to skip such rows and count them", shown(path))]
    BadRow {
        /// The input.
        path: PathBuf,
        /// Line number from 1 (row number for Parquet).
        line: u64,
        /// What is wrong with the row.
        why: String,
    },

    /// A row without a key, where the options make the first one an error.
    #[error(
        "{}:{line}: {why}; choose --missing drop, or keep for dedup, if rows may lack a key",
        shown(path)
    )]
    MissingKey {
        /// The input.
        path: PathBuf,
        /// Line number from 1 (row number for Parquet).
        line: u64,
        /// Which field lacks, and how.
        why: String,
    },

    /// A format that needs random access was asked of a pipe.
    #[error(
        "{} cannot be read from its end, as {what} must; name a file, saved from it if need be",
        shown(path)
    )]
    NotAFile {
        /// The input.
        path: PathBuf,
        /// The format.
        what: &'static str,
    },

    /// Stored bytes are not a position, or one of another version.
    #[error("the stored position cannot be read: {why}; start again without --resume")]
    BadPosition {
        /// What is wrong with it.
        why: String,
    },

    /// The inputs or options are not those that the position was taken from.
    #[error(
        "cannot resume: {what} was {expected} and is {found}; give the same inputs and options, or start again without --resume"
    )]
    Changed {
        /// What differs.
        what: String,
        /// At the time of the position.
        expected: String,
        /// Now.
        found: String,
    },
}

/// A size, rounded up.
fn mebibytes(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

impl Error {
    /// Whether it says something of one input alone, so that another may be read nevertheless.
    pub(crate) fn is_of_one_input(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Read { .. }
                | Self::CutShort { .. }
                | Self::Refused { .. }
                | Self::WindowTooLarge { .. }
                | Self::RowTooLong { .. }
                | Self::RecordCutOff { .. }
                | Self::CaptureCutOff { .. }
                | Self::NotACapture { .. }
                | Self::Shrunk { .. }
                | Self::Damaged { .. }
                | Self::NoSuchColumn { .. }
                | Self::ColumnUnusable { .. }
                | Self::NotAFile { .. }
                | Self::Unsupported { .. }
                | Self::DoesNotFit { .. }
        )
    }
}

/// The first columns, long names cut: what is no table may have a megabyte for a name.
fn listed(columns: &[String]) -> String {
    const COLUMNS_SHOWN: usize = 100;
    const CHARACTERS_SHOWN: usize = 60;
    let cut = |column: &String| match column.char_indices().nth(CHARACTERS_SHOWN) {
        Some((end, _)) => format!("{}…", &column[..end]),
        None => column.clone(),
    };
    let mut names: Vec<String> = columns.iter().take(COLUMNS_SHOWN).map(cut).collect();
    if columns.len() > COLUMNS_SHOWN {
        names.push(format!("and {} more", columns.len() - COLUMNS_SHOWN));
    }
    names.join(", ")
}

/// The column that a mistyped name comes nearest to, as a question; of a number, when it names one.
fn meant(name: &str, columns: &[String]) -> String {
    /// Names this alike are taken for one another, as those of options are.
    const ALIKE: f64 = 0.7;
    let likeness = |column: &String| strsim::jaro(&name.to_lowercase(), &column.to_lowercase());
    let nearest = columns.iter().map(|column| (likeness(column), column)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, column)) if likeness > ALIKE => format!("; did you mean {column:?}?"),
        _ if name.parse::<u32>().is_ok() => {
            " (a number names a column only of what has no header: --no-header says so)".to_owned()
        }
        _ => String::new(),
    }
}

/// An input as people know it.
fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_column_is_asked_back() {
        let columns = ["user_id", "name", "ms"].map(str::to_owned);
        assert_eq!(meant("User_ID", &columns), "; did you mean \"user_id\"?");
        assert_eq!(meant("nmae", &columns), "; did you mean \"name\"?");
        assert_eq!(meant("zebra", &columns), "");
        assert_eq!(meant("x", &[]), "");
        assert!(meant("2", &columns).contains("--no-header"));
    }

    #[test]
    fn a_list_of_columns_is_short() {
        assert_eq!(listed(&["a".to_owned(), "é".repeat(61)]), format!("a, {}…", "é".repeat(60)));
        assert!(listed(&vec!["x".to_owned(); 103]).ends_with(", x, and 3 more"));
    }
}
