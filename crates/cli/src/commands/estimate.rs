//! `overbank estimate STORE KEY…`: how often keys came, with lower and upper bounds.
//!
//! Each batch of keys is printed before the next is read; the sketch on flash is read in its own order.

use super::{Snapshot, keys};
use crate::arguments::KeyArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::key_text;
use crate::units;
use overbank::sketch::CountBounds;
use serde_json::json;
use std::io::{self, BufWriter, Write};

/// The widest line of a table.
const COLUMNS: usize = 80;

pub(crate) fn run(arguments: &KeyArguments) -> CommandResult {
    let mut snapshot = Snapshot::open(&arguments.store)?;
    let mut printer = Printer::start(arguments.json, snapshot.profile.weight())?;
    let mut absent = false;
    let keys = keys::Keys::of(arguments, &snapshot.store)?;
    keys.each_batch(|batch| {
        let bounds = snapshot.ask(|profile| profile.estimates(batch.hashes()))?;
        for (key, bounds) in batch.keys().zip(&bounds) {
            printer.print(key, bounds)?;
        }
        absent |= bounds.iter().any(|bounds| bounds.upper == 0);
        Ok(())
    })?;
    printer.out.flush()?;
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
}

/// Lines on standard output, of a table whose widths are known from the start, or of JSON.
struct Printer {
    out: BufWriter<io::StdoutLock<'static>>,
    is_json: bool,
    number_columns: usize,
    key_columns: usize,
}

impl Printer {
    /// No count is longer than the total weight.
    fn start(is_json: bool, weight: u64) -> Result<Self, Failure> {
        let number_columns = units::count(weight).len().max("at least".len());
        let key_columns = COLUMNS - 1 - 3 * (number_columns + 2);
        let out = BufWriter::new(io::stdout().lock());
        let mut printer = Self { out, is_json, number_columns, key_columns };
        if !is_json {
            printer.line(["count", "at least", "at most"], "key")?;
        }
        Ok(printer)
    }

    fn print(&mut self, key: &[u8], bounds: &CountBounds) -> Result<(), Failure> {
        let CountBounds { estimate, lower, upper } = *bounds;
        if !self.is_json {
            let numbers = [estimate, lower, upper].map(units::count);
            let text = key_text(key, self.key_columns);
            return self.line(numbers.each_ref().map(String::as_str), &text);
        }
        let object = keys::as_json(key, &json!({ "estimate": estimate, "lower": lower, "upper": upper }));
        Ok(writeln!(self.out, "{object}")?)
    }

    fn line(&mut self, numbers: [&str; 3], key: &str) -> Result<(), Failure> {
        let width = self.number_columns;
        let [count, least, most] = numbers;
        Ok(writeln!(self.out, " {count:>width$}  {least:>width$}  {most:>width$}  {key}")?)
    }
}
