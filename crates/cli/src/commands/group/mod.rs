//! `overbank group --by FIELD --agg FUNCTIONS [FILE…]`, and what is short for it: `wordcount`, `ngrams`, `kmers`.

mod pass;
mod sequences;
mod session;
pub(crate) mod state;
mod table;
mod text;
mod words;
mod writer;

pub(crate) use session::NAME;

use crate::arguments::{
    GroupArguments, GroupedArguments, KmersArguments, NgramsArguments, WordcountArguments,
};
use crate::failure::{CommandResult, Failure};
use arrow_schema::Schema;
use overbank_table::{Error, Order};

pub(crate) fn run(arguments: &GroupArguments) -> CommandResult {
    if arguments.input.key_form() != overbank_ingest::KeyForm::Text {
        return Err(Failure::Usage(
            "--integers is for keys that are hashed as numbers; give types instead: --types x:int".to_owned(),
        ));
    }
    pass::run(&arguments.input, &arguments.grouped, &table::Fields { arguments })
}

pub(crate) fn wordcount(arguments: &WordcountArguments) -> CommandResult {
    let words = words::Words::new("word", &arguments.words, words::Piece::Words(1));
    pass::run(&arguments.input, &arguments.grouped, &words)
}

pub(crate) fn ngrams(arguments: &NgramsArguments) -> CommandResult {
    let length = usize::try_from(arguments.length).unwrap_or(usize::MAX);
    let piece =
        if arguments.characters { words::Piece::Characters(length) } else { words::Piece::Words(length) };
    pass::run(&arguments.input, &arguments.grouped, &words::Words::new("ngram", &arguments.words, piece))
}

pub(crate) fn kmers(arguments: &KmersArguments) -> CommandResult {
    let length = usize::try_from(arguments.length).unwrap_or(usize::MAX);
    let kmers = sequences::Kmers { length, is_canonical: arguments.canonical };
    pass::run(&arguments.input, &arguments.grouped, &kmers)
}

/// A refusal of the table in the words of the command line.
fn told(error: Error) -> Failure {
    match error {
        Error::Overbank(error) => Failure::Overbank(error),
        Error::Unsupported { column, data_type, what, remedy } if remedy.contains("type of") => {
            Failure::Usage(format!(
                "field {column} is {data_type}, which cannot be {what}; say its type with --types, such as {column}:int, or {remedy}"
            ))
        }
        other => Failure::Usage(other.to_string()),
    }
}

/// The order that is asked for, and how many groups of it; `keys` of the results are those of the key.
fn order(
    arguments: &GroupedArguments,
    schema: &Schema,
    keys: usize,
) -> Result<Option<(Order, u64)>, Failure> {
    let groups = arguments.top.as_ref().map_or(u64::MAX, |top| top.groups);
    let result = arguments.top.as_ref().and_then(|top| top.result.as_ref());
    if let (Some(_), Some(result)) = (&arguments.sort, result) {
        return Err(Failure::Usage(format!(
            "--sort and --top both name an order; give --top N with --sort, or --top N:{result} alone"
        )));
    }
    let order = match (&arguments.sort, result) {
        (_, Some(result)) => Order::descending(result),
        (Some(sort), None) if sort.is_descending => Order::descending(&sort.result),
        (Some(sort), None) => Order::ascending(&sort.result),
        (None, None) => match schema.fields().get(keys).filter(|_| arguments.top.is_some()) {
            Some(first) => Order::descending(first.name()),
            None => return Ok(None),
        },
    };
    if schema.index_of(order.column()).is_err() {
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        return Err(told(Error::NoSuchColumn { name: order.column().to_owned(), columns }));
    }
    Ok(Some((order, groups)))
}
