//! `overbank seen STORE KEY…`: whether keys were seen before.
//!
//! Each batch of keys is printed before the next is read; the filter on flash is read in its own order, all levels at once.

use super::{filter, keys, open_to_read};
use crate::arguments::SeenArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::key_fields::KeyFields;
use crate::page::key_text;
use crate::units;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::sync::PoisonError;

/// Columns for a key beside its answer.
const KEY_COLUMNS: usize = 60;

pub(crate) fn run(arguments: &SeenArguments) -> CommandResult {
    let asked = &arguments.keys;
    let store = open_to_read(&asked.store)?;
    let filter = filter::info::open(&store, &asked.store)?;
    let reader = filter.lock().unwrap_or_else(PoisonError::into_inner).reader();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut absent = false;
    let fields = KeyFields::of(&store)?;
    let mut has_warned = false;
    keys::each_batch(asked, store.hasher(), |batch| {
        if let Some(fields) = fields.as_ref().filter(|_| !has_warned)
            && let Some(key) = batch.keys().find(|key| fields.has_other_number(key))
        {
            has_warned = true;
            warn_of_other_fields(key, fields);
        }
        if arguments.counts {
            for (key, count) in batch.keys().zip(reader.count_many(batch.hashes())?) {
                absent |= count == 0;
                print(&mut out, key, count > 0, Some(count), asked.json)?;
            }
        } else {
            for (key, is_seen) in batch.keys().zip(reader.contains_many(batch.hashes())?) {
                absent |= !is_seen;
                print(&mut out, key, is_seen, None, asked.json)?;
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
}

/// Says on standard error that a key cannot have come, for it is written otherwise than those of the store.
fn warn_of_other_fields(key: &[u8], fields: &KeyFields) {
    // Nobody is left to tell when standard error is closed too.
    let _ = writeln!(
        io::stderr(),
        "overbank: the store's keys were made with {}: they have {} fields with a tab between, unlike {}; it cannot have come",
        fields.shown(),
        fields.len(),
        key_text(key, KEY_COLUMNS)
    );
}

fn print(
    out: &mut impl Write,
    key: &[u8],
    is_seen: bool,
    count: Option<u64>,
    is_json: bool,
) -> Result<(), Failure> {
    if is_json {
        let mut facts = json!({ "seen": is_seen });
        if let Some(count) = count {
            facts["count"] = count.into();
        }
        return Ok(writeln!(out, "{}", keys::as_json(key, &facts))?);
    }
    let answer = match count {
        Some(count) => units::count(count),
        None => (if is_seen { "seen" } else { "new" }).to_owned(),
    };
    Ok(writeln!(out, " {answer:>12}  {}", key_text(key, KEY_COLUMNS))?)
}
