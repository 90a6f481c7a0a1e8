//! The keys that a store is asked for, on the command line or a line each in a file.
//!
//! Of a key with several fields, the fields are written as they are, with tabs between them; the store knows how many there are. Only a
//! field with a tab in it needs `--escaped`, which takes keys as `top --json` prints them.
//!
//! They are asked in batches, each answered before the next is read: a file of keys of any length takes the memory of one batch.

use super::input;
use crate::arguments::{AskedKeys, KeyArguments};
use crate::failure::Failure;
use crate::stream_fields::StreamFields;
use crate::units;
use overbank::store::Store;
use overbank::{KeyHash, KeyHasher};
use overbank_ingest::{Error, Format, KeyForm, Options, Parser, Reader, join_key};
use serde_json::Value;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Keys asked together: on a sketch of a gigabyte every few pages are wanted then, and reads join.
const BATCH_KEYS: usize = 64 << 10;
/// Their bytes at most, the last key aside.
const BATCH_BYTES: usize = 8 << 20;
/// A longer line is no key but a file without line ends.
const KEY_BYTES_MAX: usize = 16 << 20;

/// The keys that are asked for, of a store.
pub(super) struct Keys<'a> {
    asked: &'a AskedKeys,
    hasher: KeyHasher,
    /// The fields that make a key, where the store knows.
    fields: Option<&'a StreamFields>,
    form: KeyForm,
    /// What reads the file of keys, if there is one.
    lines: Option<Lines<'a>>,
}

impl<'a> Keys<'a> {
    /// The keys of `arguments` for a store that remembers `fields`.
    pub(super) fn of(
        arguments: &'a KeyArguments,
        store: &Store,
        fields: Option<&'a StreamFields>,
    ) -> Result<Self, Failure> {
        let asked = arguments.key_form();
        let form = fields.map_or(asked, StreamFields::form);
        if asked == KeyForm::Numbers && form != asked {
            return Err(Failure::Usage(format!(
                "{} holds integers as their digits, for it was filled without --integers; leave that away",
                arguments.store.display()
            )));
        }
        Self::in_form(&arguments.asked, store.hasher(), fields, form)
    }

    /// Keys that are asked for as their bytes, of a store that remembers `fields`.
    pub(super) fn as_bytes(
        asked: &'a AskedKeys,
        store: &Store,
        fields: Option<&'a StreamFields>,
    ) -> Result<Self, Failure> {
        Self::in_form(asked, store.hasher(), fields, KeyForm::Text)
    }

    fn in_form(
        asked: &'a AskedKeys,
        hasher: KeyHasher,
        fields: Option<&'a StreamFields>,
        form: KeyForm,
    ) -> Result<Self, Failure> {
        // A file that is not there is found before anything is printed.
        let lines = asked.keys_from.as_deref().map(|path| Lines::open(path, asked.null)).transpose()?;
        Ok(Self { asked, hasher, fields, form, lines })
    }

    /// Calls `answer` for batches of all keys, in order: those of the command line, then those of the file.
    pub(super) fn each_batch(
        self,
        mut answer: impl FnMut(&Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { asked, hasher, fields, form, lines } = self;
        let mut batch = Batch::default();
        let mut visit = |written: &[u8]| {
            let key = match fields.map(StreamFields::len) {
                Some(fields @ 2..) if !asked.escaped => joined(written, fields),
                _ => Cow::Borrowed(written),
            };
            batch.push(&key, form.hash(&hasher, &key));
            if batch.is_full() {
                answer(&batch)?;
                batch.clear();
            }
            Ok(())
        };
        for key in &asked.keys {
            visit(key.as_bytes())?;
        }
        lines.map_or(Ok(()), |lines| lines.each(&mut visit))?;
        answer(&batch)
    }
}

/// A file with a key a line, or with a NUL behind each.
struct Lines<'a> {
    path: &'a Path,
    reader: Reader,
    parser: Parser,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path, null: bool) -> Result<Self, Failure> {
        input::not_closed(&[path.to_owned()])?;
        let mut options = Options::new([path]);
        (options.format, options.nul_ends_lines) = (Format::Lines, null);
        options.record_bytes_max = KEY_BYTES_MAX;
        // Keys are hashed once they are known: these hashes are not looked at.
        let parser = Parser::new(&options, KeyHasher::new(overbank::HashKind::Xxh3, overbank::Seed(0)));
        let reader = Reader::open(options).map_err(|error| told(path, error))?;
        Ok(Self { path, reader, parser })
    }

    /// Calls `visit` for each line.
    fn each(mut self, visit: &mut impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let told = |error| told(self.path, error);
        let mut lines = overbank_ingest::Batch::new();
        while let Some(chunk) = self.reader.next_chunk().map_err(told)? {
            self.parser.parse(chunk, &mut lines).map_err(told)?;
            lines.keys().try_for_each(&mut *visit)?;
        }
        Ok(())
    }
}

/// An error of the file of keys.
fn told(path: &Path, error: Error) -> Failure {
    match error {
        Error::RowTooLong { line, .. } => Failure::Usage(format!(
            "line {line} of {} is longer than {}; write one key a line",
            path.display(),
            units::bytes(KEY_BYTES_MAX as u64)
        )),
        Error::Open { source, .. } | Error::Read { source, .. } => Failure::Usage(format!(
            "cannot read keys from {}: {source}; name a readable file, or - for standard input",
            path.display()
        )),
        error => error.into(),
    }
}

/// An object of `facts` about a key.
pub(super) fn as_json(key: &[u8], facts: &Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("key".to_owned(), String::from_utf8_lossy(key).into());
    object.extend(facts.as_object().into_iter().flatten().map(|(name, fact)| (name.clone(), fact.clone())));
    if std::str::from_utf8(key).is_err() {
        object.insert("key_hex".to_owned(), hex(key).into());
    }
    object.into()
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keys that are asked together.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<KeyHash>,
}

impl Batch {
    fn push(&mut self, key: &[u8], hash: KeyHash) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
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

/// The key of the fields in `written`, which have tabs between them. One that has not so many fields is left as it is: it never came.
fn joined(written: &[u8], fields: usize) -> Cow<'_, [u8]> {
    let parts: Vec<&[u8]> = written.split(|&byte| byte == b'\t').collect();
    if parts.len() == fields { Cow::Owned(join_key(&parts)) } else { Cow::Borrowed(written) }
}
