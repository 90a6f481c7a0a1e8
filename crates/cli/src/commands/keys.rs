//! The keys that a store is asked for, on the command line or a line each in a file.
//!
//! They are asked in batches, each answered before the next is read: a file of keys of any length takes the memory of one batch.

use crate::arguments::KeyArguments;
use crate::failure::Failure;
use crate::units;
use overbank::{KeyHash, KeyHasher};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Keys asked together: on a sketch of a gigabyte every few pages are wanted then, and reads join.
const BATCH_KEYS: usize = 64 << 10;
/// Their bytes at most, the last key aside.
const BATCH_BYTES: usize = 8 << 20;
/// A longer line is no key but a file without line ends.
const KEY_BYTES_MAX: usize = 16 << 20;
/// Calls `answer` for batches of all keys, in order.
pub(super) fn each_batch(
    arguments: &KeyArguments,
    hasher: KeyHasher,
    mut answer: impl FnMut(&Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut batch = Batch::default();
    each_key(arguments, |key| {
        batch.push(key, hasher);
        if batch.is_full() {
            answer(&batch)?;
            batch.clear();
        }
        Ok(())
    })?;
    answer(&batch)
}

/// An object of `facts` about a key.
pub(super) fn as_json(key: &[u8], facts: &Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("key".to_owned(), String::from_utf8_lossy(key).into());
    object.extend(facts.as_object().into_iter().flatten().map(|(name, fact)| (name.clone(), fact.clone())));
    if std::str::from_utf8(key).is_err() {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        object.insert("key_hex".to_owned(), hex.into());
    }
    object.into()
}

/// Keys that are asked together.
#[derive(Default)]
pub(super) struct Batch {
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

    pub(super) fn hashes(&self) -> &[KeyHash] {
        &self.hashes
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
    }
}

/// Calls `visit` for the keys of the command line, then for those of the file.
fn each_key(
    arguments: &KeyArguments,
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
