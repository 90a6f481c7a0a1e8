//! `overbank estimate STORE KEY…`: how often keys came, with lower and upper bounds.
//!
//! The upper bound is certain, and so is the lower bound of a key among the heavy ones. That of any other key comes from a
//! count-min sketch, and holds with 95 % confidence for each key: the table's heading says so, and in JSON each key.
//!
//! Each batch of keys is printed before the next is read; the sketch on flash is read in its own order.

use super::epochs::Epochs;
use super::{Snapshot, keys};
use crate::arguments::{EstimateArguments, Form};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::key_text;
use crate::plain::{Field, Plain};
use crate::stream_fields::StreamFields;
use crate::{picture, units};
use overbank::profile::Estimate;
use serde_json::json;
use std::io::{self, BufWriter, Write};

/// The widest line of a table, unless counts leave the key less than it needs.
const COLUMNS: usize = 80;
const KEY_COLUMNS_MIN: usize = 16;
const AT_LEAST: &str = "at least, 95 %";

pub(crate) fn run(arguments: &EstimateArguments) -> CommandResult {
    let EstimateArguments { keys: arguments, of } = arguments;
    if let Some(epochs) = Epochs::of(&arguments.store, of.epoch)? {
        return epochs.estimate(&arguments.asked, arguments.output.form());
    }
    let mut snapshot = Snapshot::open(&arguments.store)?;
    let fields = StreamFields::of(&snapshot.store)?;
    let keys = keys::Keys::of(arguments, &snapshot.store, fields.as_ref())?;
    let mut printer = Printer::start(arguments.output.form(), snapshot.profile.weight()?)?;
    let mut absent = false;
    keys.each_batch(|batch| {
        let bounds = snapshot.ask(|profile| profile.estimates(batch.hashes()))?;
        for (key, bounds) in batch.keys().zip(&bounds) {
            printer.print(key, bounds)?;
        }
        absent |= bounds.iter().any(|bounds| bounds.upper == 0);
        Ok(())
    })?;
    printer.out.get_mut().flush()?;
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
}

/// Lines on standard output: of a table whose widths are known from the start, of JSON, or plain.
struct Printer {
    out: Plain<BufWriter<io::StdoutLock<'static>>>,
    form: Form,
    number_columns: usize,
    key_columns: usize,
}

impl Printer {
    /// No count is longer than the total weight, or than what a counter holds.
    fn start(form: Form, weight: u128) -> Result<Self, Failure> {
        let number_columns = units::count(weight.min(u64::MAX.into())).len().max("no bound".len());
        let least_columns = number_columns.max(AT_LEAST.len());
        let key_columns = COLUMNS.saturating_sub(1 + 2 * (number_columns + 2) + least_columns + 2);
        let key_columns = key_columns.max(KEY_COLUMNS_MIN);
        let out = BufWriter::new(io::stdout().lock());
        let out = Plain::begin(form, out, &["estimate", "lower", "upper", "key"])?;
        let mut printer = Self { out, form, number_columns, key_columns };
        if form == Form::Table {
            printer.line(["count", AT_LEAST, "at most"], "key")?;
        }
        Ok(printer)
    }

    fn print(&mut self, key: &[u8], bounds: &Estimate) -> Result<(), Failure> {
        let Estimate { estimate, lower, upper, lower_confidence } = *bounds;
        match self.form {
            Form::Table => {
                let numbers = [units::bound(estimate), units::count(lower), units::bound(upper)];
                let text = key_text(key, self.key_columns);
                self.line(numbers.each_ref().map(String::as_str), &text)
            }
            Form::Json => {
                let mut facts = json!({
                    "estimate": picture::bound_json(estimate),
                    "lower": lower,
                    "upper": picture::bound_json(upper),
                    "lower_confidence": lower_confidence,
                });
                if bounds.saturated() {
                    facts["saturated"] = true.into();
                }
                Ok(writeln!(self.out.get_mut(), "{}", keys::as_json(key, &facts))?)
            }
            Form::Tsv | Form::Csv => {
                let [estimate, lower, upper] =
                    [Field::bound(estimate), Field::Count(lower), Field::bound(upper)];
                Ok(self.out.row(&[estimate, lower, upper, Field::Text(key)])?)
            }
        }
    }

    fn line(&mut self, numbers: [&str; 3], key: &str) -> Result<(), Failure> {
        let (width, least_width) = (self.number_columns, self.number_columns.max(AT_LEAST.len()));
        let [count, least, most] = numbers;
        Ok(writeln!(self.out.get_mut(), " {count:>width$}  {least:>least_width$}  {most:>width$}  {key}")?)
    }
}
