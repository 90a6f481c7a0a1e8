//! What can go wrong between a path and a batch of keys, with the facts as fields.

use std::path::PathBuf;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, with the facts as fields; `Display` is a sentence with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The input.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// An input cannot be read any further.
    #[error("cannot read {} beyond byte {at}: {source}", path.display())]
    Read {
        /// The input.
        path: PathBuf,
        /// How many bytes of the file (compressed, where it is) were read.
        at: u64,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// The reader was called away by its [`crate::Waiter`]. It stands behind the last chunk.
    #[error("interrupted while {} was read", path.display())]
    Interrupted {
        /// The input.
        path: PathBuf,
    },

    /// A directory was named where a file was expected.
    #[error("{} is a directory; name its files, for example '{}/*'", path.display(), path.display())]
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

    /// The rows of a binary format were wanted as text.
    #[error("{} is Parquet, whose rows are no text that could be passed on; write it as CSV or JSON lines first", path.display())]
    NoText {
        /// The input.
        path: PathBuf,
    },

    /// A compressed input ends in the middle.
    #[error("{} is cut short at byte {at} ({compression}); fetch it again, or decompress what there is and read that", path.display())]
    CutShort {
        /// The input.
        path: PathBuf,
        /// Its compression.
        compression: &'static str,
        /// How many compressed bytes there are.
        at: u64,
    },

    /// A file lost bytes while it was being read, as when a log is truncated in place.
    #[error("{} had {expected} bytes when it was opened and has {found} now; read a copy that nobody truncates", path.display())]
    Shrunk {
        /// The input.
        path: PathBuf,
        /// Its size in bytes when it was opened.
        expected: u64,
        /// Its size in bytes at the end of what could be read.
        found: u64,
    },

    /// An input is not what its first bytes promise.
    #[error("{} is damaged near byte {at} ({what}): {why}", path.display())]
    Damaged {
        /// The input.
        path: PathBuf,
        /// The format or compression that was being decoded.
        what: &'static str,
        /// How many bytes of the file were consumed, or the row for Parquet.
        at: u64,
        /// What the decoder said.
        why: String,
    },

    /// No column has the name that was asked for.
    #[error("no such column {name:?} in {}; columns are: {}", path.display(), columns.join(", "))]
    NoSuchColumn {
        /// The name.
        name: String,
        /// The input.
        path: PathBuf,
        /// The columns that there are.
        columns: Vec<String>,
    },

    /// The format has columns, and none was chosen as the key.
    #[error("{} has columns, so name the key with --key; {}", path.display(), choices)]
    KeyNeeded {
        /// The input.
        path: PathBuf,
        /// What can be chosen from.
        choices: String,
    },

    /// A column cannot serve as key, weight or value.
    #[error("column {name:?} of {} cannot be used: {why}", path.display())]
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
    #[error("{}:{line}: {why}; leave out --strict to skip such rows and count them", path.display())]
    BadRow {
        /// The input.
        path: PathBuf,
        /// Line number from 1 (row number for Parquet).
        line: u64,
        /// What is wrong with the row.
        why: String,
    },

    /// A format that needs random access was asked of a pipe.
    #[error("{} is a pipe, and {what} needs a file that can be read from its end; save it to a file first", path.display())]
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
