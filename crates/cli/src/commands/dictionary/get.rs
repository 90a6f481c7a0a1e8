//! `overbank dict get STORE KEY…`: the values of keys, one by one or in bulk.
//!
//! Keys are asked in batches, each answered before the next is read, and in slices of them, so that long values do not take the memory
//! that short ones would.

use super::open::Opened;
use super::pairs::Pairs;
use super::slices::Slices;
use crate::arguments::{DictionaryForm, GetArguments};
use crate::commands::keys::Keys;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::stream_fields::StreamFields;
use std::io::{self, BufWriter, Write};

/// The dictionary's share of the memory; the rest is for keys, values and what is printed.
const DICTIONARY_SHARE: u64 = 2;

pub(super) fn run(arguments: &GetArguments) -> CommandResult {
    let form = arguments.form.form;
    if arguments.absent && !matches!(form, DictionaryForm::Tsv | DictionaryForm::Json) {
        return Err(Failure::Usage(
            "--absent needs a form that can tell a key without a value from one with an empty one: --as tsv or json".to_owned(),
        ));
    }
    let memory = arguments.ask.memory;
    let mut opened = Opened::open(&arguments.store, memory, memory / DICTIONARY_SHARE)?;
    let fields = StreamFields::of(&opened.store)?;
    let keys = Keys::as_bytes(&arguments.asked, &opened.store, fields.as_ref())?;
    let mut out = Pairs::begin(form, BufWriter::new(io::stdout().lock()))?;
    let mut slices = Slices::new(&opened.dictionary.report(), memory / 4);
    let mut has_absent = false;
    keys.each_batch(|batch| {
        let keys: Vec<&[u8]> = batch.keys().collect();
        slices.each(&mut opened, &keys, |at, value| {
            has_absent |= value.is_none();
            if value.is_some() || arguments.absent {
                out.pair(keys[at], value)?;
            }
            Ok(())
        })
    })?;
    out.get_mut().flush()?;
    Ok(if has_absent { Outcome::Absent } else { Outcome::Found })
}
