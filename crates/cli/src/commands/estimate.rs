//! `overbank estimate STORE KEY…`: how often keys came, with lower and upper bounds.
//!
//! Keys are asked in batches, and each batch is printed before the next is read: a file of keys of any length takes the
//! memory of one batch, and the sketch on flash is read in its own order.

use super::Snapshot;
use crate::arguments::EstimateArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::key_text;
use crate::units;
use overbank::sketch::CountBounds;
use overbank::{KeyHash, KeyHasher};
use serde_json::json;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Keys asked together: on a sketch of a gigabyte every few pages are wanted then, and reads join.
const BATCH_KEYS: usize = 64 << 10;
/// Their bytes at most, the last key aside.
const BATCH_BYTES: usize = 8 << 20;
/// A longer line is no key but a file without line ends.
const KEY_BYTES_MAX: usize = 16 << 20;
/// The widest line of a table.
const COLUMNS: usize = 80;

pub(crate) fn run(arguments: &EstimateArguments) -> CommandResult {
    let mut snapshot = Snapshot::open(&arguments.store)?;
    let hasher = snapshot.store.hasher();
    let mut printer = Printer::start(arguments.json, snapshot.profile.weight())?;
    let mut batch = Batch::default();
    let mut absent = false;
    each_key(arguments, |key| {
        batch.push(key, hasher);
        if batch.is_full() {
            absent |= answer(&mut snapshot, &mut batch, &mut printer)?;
        }
        Ok(())
    })?;
    absent |= answer(&mut snapshot, &mut batch, &mut printer)?;
    printer.out.flush()?;
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
}

/// Prints the answers of a batch and empties it; whether one of its keys surely never came.
fn answer(snapshot: &mut Snapshot<'_>, batch: &mut Batch, printer: &mut Printer) -> Result<bool, Failure> {
    let bounds = snapshot.ask(|profile| profile.estimates(&batch.hashes))?;
    for (key, bounds) in batch.keys().zip(&bounds) {
        printer.print(key, bounds)?;
    }
    batch.clear();
    Ok(bounds.iter().any(|bounds| bounds.upper == 0))
}

/// Keys that are asked together.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<KeyHash>,
}

impl Batch {
    fn push(&mut self, key: &[u8], hasher: KeyHasher) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.hashes.push(hasher.hash(key));
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_KEYS || self.bytes.len() >= BATCH_BYTES
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
    }
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
        let mut object = json!({
            "key": String::from_utf8_lossy(key),
            "estimate": estimate,
            "lower": lower,
            "upper": upper,
        });
        if std::str::from_utf8(key).is_err() {
            object["key_hex"] = key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        }
        Ok(writeln!(self.out, "{object}")?)
    }

    fn line(&mut self, numbers: [&str; 3], key: &str) -> Result<(), Failure> {
        let width = self.number_columns;
        let [count, least, most] = numbers;
        Ok(writeln!(self.out, " {count:>width$}  {least:>width$}  {most:>width$}  {key}")?)
    }
}

/// Calls `visit` for the keys of the command line, then for those of the file.
fn each_key(
    arguments: &EstimateArguments,
    mut visit: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for key in &arguments.keys {
        visit(key.as_bytes())?;
    }
    let Some(path) = &arguments.keys_from else { return Ok(()) };
    let unreadable = |error: io::Error| {
        Failure::Usage(format!(
            "cannot read keys from {}: {error}; name a readable file, or - for standard input",
            path.display()
        ))
    };
    let mut lines: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(std::fs::File::open(path).map_err(unreadable)?))
    };
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        // One byte more than a key and its line end may have.
        let taken = lines.by_ref().take(KEY_BYTES_MAX as u64 + 3).read_until(b'\n', &mut line);
        if taken.map_err(unreadable)? == 0 {
            break;
        }
        let key = line.strip_suffix(b"\n").unwrap_or(&line);
        let key = key.strip_suffix(b"\r").unwrap_or(key);
        if key.len() > KEY_BYTES_MAX {
            return Err(Failure::Usage(format!(
                "line {number} of {} is longer than {}; write one key a line",
                path.display(),
                units::bytes(KEY_BYTES_MAX as u64)
            )));
        }
        visit(key)?;
    }
    Ok(())
}
