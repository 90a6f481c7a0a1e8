//! What can go wrong between batches and groups.

use arrow_schema::{ArrowError, DataType};

/// Why batches could not be grouped. Every message names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column that is not there.
    #[error("there is no column {name}; columns are: {}", columns.join(", "))]
    NoSuchColumn {
        /// As it was asked for.
        name: String,
        /// Those that are there.
        columns: Vec<String>,
    },
    /// A column whose type has no such use.
    #[error("column {column} is {data_type}, which cannot be {what}; {remedy}")]
    Unsupported {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// What it was to be.
        what: String,
        /// What helps.
        remedy: &'static str,
    },
    /// A function that is not one, or has other arguments.
    #[error("{text}: {why}")]
    Call {
        /// As it was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A batch whose columns are not those of the table.
    #[error(
        "a batch has {found} in column {column}, and the table {expected}; cast it, or make a table of the batch's schema"
    )]
    Mismatch {
        /// The column.
        column: String,
        /// What the table has.
        expected: String,
        /// What the batch has.
        found: String,
    },
    /// A key that was not made of these columns, or a state that was not.
    #[error(
        "a group's {what} is not what these columns and functions make; open the groups with those that they were made with"
    )]
    Foreign {
        /// Its key or its state.
        what: &'static str,
    },
    /// A decimal that its type has no room for.
    #[error("{value}, without its point, is a decimal of more than {digits} digits; sum floats instead")]
    TooManyDigits {
        /// Without its point.
        value: i128,
        /// What its type has room for.
        digits: u8,
    },
    /// The groups refused.
    #[error(transparent)]
    Overbank(#[from] overbank::Error),
    /// Arrow refused.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
