//! `overbank dict rank STORE KEY…`: a number of its own for each key, from 0 without a gap.

use super::open::Opened;
use crate::arguments::{Form, RankArguments};
use crate::commands::keys::{self, Keys};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::key_text;
use crate::plain::{Field, Plain};
use crate::stream_fields::StreamFields;
use crate::units;
use serde_json::json;
use std::io::{self, BufWriter, Write};

/// Columns for a key beside its answer.
const KEY_COLUMNS: usize = 60;

pub(super) fn run(arguments: &RankArguments) -> CommandResult {
    let memory = arguments.ask.memory;
    let mut opened = Opened::open(&arguments.store, memory, memory / 4 * 3)?;
    if !opened.dictionary.options().has_ranks() {
        return Err(Failure::Usage(format!(
            "{} keeps no ranks; build it with --ranks",
            arguments.store.display()
        )));
    }
    let fields = StreamFields::of(&opened.store)?;
    let keys = Keys::as_bytes(&arguments.asked, &opened.store, fields.as_ref())?;
    let form = arguments.output.form();
    let mut out = Plain::begin(form, BufWriter::new(io::stdout().lock()), &["rank", "key"])?;
    let mut has_absent = false;
    keys.each_batch(|batch| {
        for key in batch.keys() {
            let rank = opened.ask(|dictionary| dictionary.rank(key))?;
            has_absent |= rank.is_none();
            match form {
                Form::Json => {
                    writeln!(out.get_mut(), "{}", keys::as_json(key, &json!({ "rank": rank })))?;
                }
                Form::Table => {
                    let answer = rank.map_or_else(|| "absent".to_owned(), units::count);
                    writeln!(out.get_mut(), " {answer:>12}  {}", key_text(key, KEY_COLUMNS))?;
                }
                Form::Tsv | Form::Csv => {
                    out.row(&[rank.map_or(Field::Nothing, Field::Count), Field::Text(key)])?;
                }
            }
        }
        Ok(())
    })?;
    out.get_mut().flush()?;
    Ok(if has_absent { Outcome::Absent } else { Outcome::Found })
}
