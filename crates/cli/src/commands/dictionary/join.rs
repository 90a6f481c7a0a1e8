//! `overbank dict join STORE [FILE…]`: each row with the value of its key behind it, in order.
//!
//! Rows wait while their keys are looked up together, as long as [`Patience`] says; the answers do not depend on that.

use super::joined_row::Joint;
use super::open::{Opened, bytes};
use super::session;
use super::slices::Slices;
use crate::arguments::{AbsentName, JoinArguments};
use crate::commands::filter::outlet::Escape;
use crate::commands::filter::output::Output;
use crate::commands::filter::pass::{Pass, Printed, Take};
use crate::commands::filter::patience::Patience;
use crate::commands::filter::sink::Place;
use crate::commands::input::ParsedRows;
use crate::commands::losses::{self, shown_input};
use crate::commands::places::Written;
use crate::failure::{CommandResult, Failure, Outcome, say};
use crate::interrupt::Interrupt;
use crate::page::key_text;
use crate::units;
use overbank_ingest::{Chunk, Format, Position, Reader};
use serde_json::json;
use std::io::Write as _;

/// Characters of a key in a message.
const SHOWN: usize = 60;
/// More keys together gain nothing.
const KEYS_MAX: usize = 256 << 10;

pub(super) fn run(arguments: &JoinArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    interrupt.keeps_nothing();
    let machine = &arguments.machine;
    let file = arguments.output.as_deref();
    let rejects = arguments.input.rejects.as_deref();
    Written { store: Some(&arguments.store), output: file, prints_rows: true, rejects }.check()?;
    session::fields(&arguments.input)?;
    let pass = Pass::new(&arguments.input, machine, Printed::Rows, &interrupt)?;
    pass.check_inputs()?;
    let opened = Opened::open(&arguments.store, machine.memory, machine.memory / 8 * 3)?;
    let escape = Escape { call: interrupt.call()?, owed: None };
    let line_end = if arguments.input.null { 0 } else { b'\n' };
    let place = Place { file, commits: false, resumes: false };
    let output = Output::open(place, None, escape, line_end, None)?;
    let hasher = opened.store.hasher();
    let mut joining = Joining {
        slices: Slices::new(&opened.dictionary.report(), machine.memory / 8),
        opened,
        output,
        waiting: Waiting::default(),
        waiting_bytes: bytes(machine.memory / 16),
        patience: Patience::new(pass.clock()),
        absent: arguments.absent,
        name: &arguments.name,
        line_end,
        delimiter: arguments.input.delimiter,
        joint: None,
        header: None,
        counts: Counts::default(),
    };
    let passed = pass.run(hasher, None, &interrupt, &mut joining)?;
    let Counts { rows, found } = joining.counts;
    if !passed.complete {
        return Err(Failure::Interrupted(format!(
            "interrupted after {} rows; run the same command again",
            units::count(rows)
        )));
    }
    if arguments.json {
        let absent = rows - found;
        let dropped = if arguments.absent == AbsentName::Drop { absent } else { 0 };
        let facts = json!({
            "rows": rows,
            "found": found,
            "absent": absent,
            "dropped": dropped,
            "malformed": passed.losses.malformed,
            "missing": passed.losses.missing,
            "seconds": passed.seconds,
        });
        // Nobody is left to tell when standard error is closed too.
        let _ = writeln!(std::io::stderr(), "{facts}");
    } else if arguments.absent == AbsentName::Drop && rows > found {
        say(format_args!("{} without a value left out", units::counted(rows - found, "row")));
    }
    losses::report_failures(passed.failures.into_iter(), passed.inputs)?;
    Ok(Outcome::Found)
}

/// What became of the rows.
#[derive(Clone, Copy, Default)]
struct Counts {
    rows: u64,
    /// Rows whose key has a value.
    found: u64,
}

/// Adds values to the rows of a stream.
struct Joining<'a> {
    opened: Opened,
    output: Output,
    waiting: Waiting,
    waiting_bytes: usize,
    slices: Slices,
    patience: Patience,
    absent: AbsentName,
    name: &'a str,
    line_end: u8,
    /// What was said to stand between fields.
    delimiter: Option<u8>,
    /// How rows and values are put together, once the format is known.
    joint: Option<Joint>,
    /// The header that was printed.
    header: Option<Vec<u8>>,
    counts: Counts,
}

/// Rows whose keys are looked up together.
#[derive(Default)]
struct Waiting {
    rows: Vec<u8>,
    keys: Vec<u8>,
    /// Where each row and its key end; a row without a key has none.
    ends: Vec<(usize, Option<usize>)>,
}

impl Waiting {
    fn push(&mut self, row: &[u8], key: Option<&[u8]>) {
        self.rows.extend_from_slice(row);
        self.keys.extend_from_slice(key.unwrap_or_default());
        self.ends.push((self.rows.len(), key.map(|_| self.keys.len())));
    }

    fn bytes(&self) -> usize {
        self.rows.len() + self.keys.len() + self.ends.len() * size_of::<(usize, Option<usize>)>()
    }

    /// Rows and their keys, in order.
    fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let (mut row_start, mut key_start) = (0, 0);
        self.ends.iter().map(move |&(row_end, key_end)| {
            let row = &self.rows[std::mem::replace(&mut row_start, row_end)..row_end];
            let key = key_end.map(|end| &self.keys[std::mem::replace(&mut key_start, end)..end]);
            (row, key)
        })
    }

    fn clear(&mut self, bytes_max: usize) {
        self.rows.clear();
        self.keys.clear();
        self.ends.clear();
        // A row as long as a chunk would keep its memory for ever.
        self.rows.shrink_to(bytes_max);
        self.keys.shrink_to(bytes_max);
    }
}

impl Joining<'_> {
    /// Takes up the format and the header of a chunk's input; one output has one of each.
    fn meet(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let input = || shown_input(chunk.input());
        let joint = Joint::of(chunk.format(), self.name, self.line_end)
            .map_err(|why| Failure::Usage(format!("{}: {why}", input())))?;
        if self.joint.get_or_insert_with(|| joint.clone()).fits(&joint) {
            return self.pass_header(chunk.header(), &input());
        }
        Err(Failure::Usage(format!(
            "{} has another format than the input before it, and one output cannot have both; run it by itself",
            input()
        )))
    }

    fn pass_header(&mut self, header: Option<&[u8]>, input: &str) -> Result<(), Failure> {
        let Some(header) = header else { return Ok(()) };
        match &self.header {
            Some(first) if first.trim_ascii_end() == header.trim_ascii_end() => return Ok(()),
            Some(_) => {
                return Err(Failure::Usage(format!(
                    "{input} has another header row than the input before it, and one output cannot have both; run it by itself"
                )));
            }
            None => {}
        }
        if let Some(joint) = &self.joint {
            let mut row = Vec::new();
            joint.push_header(header, &mut row);
            self.output.row(&row)?;
        }
        self.header = Some(header.to_owned());
        Ok(())
    }

    fn wait(&mut self, rows: &ParsedRows, row: &[u8], key: Option<&[u8]>) -> Result<(), Failure> {
        if self.waiting.ends.is_empty() {
            self.patience.begin(rows.chunk().since());
        }
        self.waiting.push(row, key);
        if self.waiting.bytes() >= self.waiting_bytes || self.waiting.ends.len() >= KEYS_MAX {
            return self.answer();
        }
        Ok(())
    }

    /// Prints the rows that wait, with their values.
    fn answer(&mut self) -> Result<(), Failure> {
        if self.waiting.ends.is_empty() {
            return Ok(());
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        self.print(&waiting)?;
        waiting.clear(self.waiting_bytes);
        self.waiting = waiting;
        self.output.flush()
    }

    fn print(&mut self, waiting: &Waiting) -> Result<(), Failure> {
        let Self { opened, output, slices, patience, absent, counts, joint, .. } = self;
        let Some(joint) = joint else { return Ok(()) };
        let keys: Vec<&[u8]> = waiting.iter().filter_map(|(_, key)| key).collect();
        let mut rows = waiting.iter();
        let mut line = Vec::new();
        let mut print = |row: &[u8], key: Option<&[u8]>, value: Option<&[u8]>| {
            counts.rows += 1;
            counts.found += u64::from(value.is_some());
            match (value, *absent) {
                (None, AbsentName::Drop) => return Ok(()),
                (None, AbsentName::Fail) => return Err(absent_key(key)),
                _ => {}
            }
            line.clear();
            joint.push(row, value, &mut line).map_err(Failure::Usage)?;
            output.row(&line)
        };
        patience.time(|| {
            slices.each(opened, &keys, |_, value| {
                for (row, key) in rows.by_ref() {
                    print(row, key, key.and(value))?;
                    if key.is_some() {
                        break;
                    }
                }
                Ok(())
            })
        })?;
        rows.try_for_each(|(row, key)| print(row, key, None))
    }
}

fn absent_key(key: Option<&[u8]>) -> Failure {
    Failure::Usage(match key {
        Some(key) => format!(
            "the dictionary has no key {}; choose --absent empty or drop if keys may lack a value",
            key_text(key, SHOWN)
        ),
        None => "a row has no key; choose --absent empty or drop if rows may lack one".to_owned(),
    })
}

impl Take for Joining<'_> {
    fn begin(&mut self, reader: &Reader) -> Result<(), Failure> {
        self.output.check(reader.inputs())?;
        self.output.start()
    }

    fn take(&mut self, rows: &ParsedRows) -> Result<(), Failure> {
        let chunk = rows.chunk();
        if !chunk.is_empty() || chunk.header().is_some() {
            self.meet(chunk)?;
        }
        let mut keyless = rows.keyless().peekable();
        for (at, key) in rows.keys().enumerate() {
            while let Some((.., row)) = keyless.next_if(|(before, ..)| *before <= at) {
                self.wait(rows, row, None)?;
            }
            self.wait(rows, rows.row(at), Some(key))?;
        }
        for (.., row) in keyless {
            self.wait(rows, row, None)?;
        }
        if chunk.is_before_pause() || self.patience.is_over() && !self.waiting.ends.is_empty() {
            self.answer()?;
        }
        if self.waiting.ends.is_empty() {
            // A header has no answer to wait for.
            self.output.flush()?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Failure> {
        self.answer()?;
        self.output.flush()
    }

    fn end(&mut self, _: &Position, header: Option<&[u8]>, complete: bool) -> Result<(), Failure> {
        self.answer()?;
        if let Some(names) = header.filter(|_| self.joint.is_none()) {
            // A table without rows has no chunk that tells what stands between its names.
            let between = if names.contains(&b'\t') { b'\t' } else { b',' };
            let delimiter = self.delimiter.unwrap_or(between);
            self.joint = Joint::of(Format::Csv { delimiter, header: true }, self.name, self.line_end).ok();
            self.pass_header(header, "the input")?;
        }
        if complete { self.output.finish() } else { self.output.flush() }
    }
}
