//! `overbank seen STORE KEY…`: whether keys were seen before.
//!
//! Each batch of keys is printed before the next is read; the filter on flash is read in its own order, all levels at once.

use super::{filter, keys, open_to_read};
use crate::arguments::{Form, SeenArguments};
use crate::failure::{CommandResult, Failure, Outcome, say};
use crate::page::key_text;
use crate::plain::{Field, Plain};
use crate::stream_fields::StreamFields;
use crate::units;
use serde_json::json;
use std::io::{self, BufWriter, Write};

/// Columns for a key beside its answer.
const KEY_COLUMNS: usize = 60;

pub(crate) fn run(arguments: &SeenArguments) -> CommandResult {
    let asked = &arguments.keys;
    let store = open_to_read(&asked.store)?;
    let filter = filter::info::open(&store, &asked.store)?;
    let fields = StreamFields::of(&store)?;
    let keys = keys::Keys::of(asked, &store, fields.as_ref())?;
    let form = asked.output.form();
    let names = if arguments.counts { ["count", "key"] } else { ["answer", "key"] };
    let mut out = Plain::begin(form, BufWriter::new(io::stdout().lock()), &names)?;
    let mut absent = false;
    let mut has_warned = false;
    keys.each_batch(|batch| {
        if let Some(fields) = fields.as_ref().filter(|_| !has_warned)
            && let Some(key) = batch.keys().find(|key| fields.has_other_number(key))
        {
            has_warned = true;
            warn_of_other_fields(key, fields);
        }
        if arguments.counts {
            for (key, count) in batch.keys().zip(filter.count_many(batch.hashes())?) {
                absent |= count == 0;
                print(&mut out, key, count > 0, Some(count), form)?;
            }
        } else {
            for (key, is_seen) in batch.keys().zip(filter.contains_many(batch.hashes())?) {
                absent |= !is_seen;
                print(&mut out, key, is_seen, None, form)?;
            }
        }
        Ok(())
    })?;
    out.get_mut().flush()?;
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
}

/// Says on standard error that a key cannot have come, for it is written otherwise than those of the store.
fn warn_of_other_fields(key: &[u8], fields: &StreamFields) {
    say(format_args!(
        "the store's keys were made with {}: they have {} fields with a tab between, unlike {}; it cannot have come",
        fields.shown_key(),
        fields.len(),
        key_text(key, KEY_COLUMNS)
    ));
}

fn print(
    out: &mut Plain<impl Write>,
    key: &[u8],
    is_seen: bool,
    count: Option<u64>,
    form: Form,
) -> Result<(), Failure> {
    let word = if is_seen { "seen" } else { "new" };
    match form {
        Form::Json => {
            let mut facts = json!({ "seen": is_seen });
            if let Some(count) = count {
                facts["count"] = count.into();
            }
            writeln!(out.get_mut(), "{}", keys::as_json(key, &facts))?;
        }
        Form::Table => {
            let answer = count.map_or_else(|| word.to_owned(), units::count);
            writeln!(out.get_mut(), " {answer:>12}  {}", key_text(key, KEY_COLUMNS))?;
        }
        Form::Tsv | Form::Csv => {
            let answer = count.map_or(Field::Text(word.as_bytes()), Field::Count);
            out.row(&[answer, Field::Text(key)])?;
        }
    }
    Ok(())
}
