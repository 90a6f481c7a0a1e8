//! `overbank estimate STORE KEY…`: how often keys came, with lower and upper bounds.

use crate::arguments::EstimateArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::{Align, Page, key_text};
use crate::units;
use overbank::profile::Profile;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

pub(crate) fn run(arguments: &EstimateArguments) -> CommandResult {
    let store = super::open_to_read(&arguments.store)?;
    let profile = Profile::load(&store)?;
    let hasher = store.hasher();
    let mut absent = false;
    let mut answer = |key: &[u8]| {
        let bounds = profile.estimate(hasher.hash(key));
        absent |= bounds.upper == 0;
        bounds
    };
    if arguments.json {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        each_key(arguments, |key| {
            let bounds = answer(key);
            let object = json!({
                "key": String::from_utf8_lossy(key),
                "estimate": bounds.estimate,
                "lower": bounds.lower,
                "upper": bounds.upper,
            });
            Ok(writeln!(out, "{object}")?)
        })?;
        out.flush()?;
    } else {
        let mut rows = Vec::new();
        each_key(arguments, |key| {
            let bounds = answer(key);
            rows.push(vec![
                units::count(bounds.estimate),
                units::count(bounds.lower),
                units::count(bounds.upper),
                key_text(key, 42),
            ]);
            Ok(())
        })?;
        let mut page = Page::new();
        page.table(
            &[
                ("count", Align::Right),
                ("at least", Align::Right),
                ("at most", Align::Right),
                ("key", Align::Left),
            ],
            &rows,
        );
        page.print()?;
    }
    Ok(if absent { Outcome::Absent } else { Outcome::Found })
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
    let unreadable = |error: std::io::Error| {
        Failure::Usage(format!(
            "cannot read keys from {}: {error}; name a readable file, or - for standard input",
            path.display()
        ))
    };
    let mut lines: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(std::fs::File::open(path).map_err(unreadable)?))
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            return Ok(());
        }
        let key = line.strip_suffix(b"\n").unwrap_or(&line);
        visit(key.strip_suffix(b"\r").unwrap_or(key))?;
    }
}
