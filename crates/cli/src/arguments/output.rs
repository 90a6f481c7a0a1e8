//! How an answer is written: for people, or for other programs.

use clap::{Args, ValueEnum};

/// The form of an answer.
#[derive(Args, Debug)]
pub(crate) struct OutputArguments {
    /// How the answer is written: numbers of tsv and csv are whole, and the key stands last
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    output: Form,

    /// Short for --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl OutputArguments {
    /// What was asked for.
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { self.output }
    }
}

/// The forms by the names a user types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A page for people
    #[default]
    Table,
    /// A line an answer, tabs between, no header, as `uniq -c` has them; \t, \n, \r and \\ stand for those bytes in a key
    Tsv,
    /// RFC 4180 with a header, and a line feed behind each row
    Csv,
    /// As docs/schema describes it
    Json,
}
