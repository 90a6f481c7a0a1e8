//! Which fields of a row a store was filled with: what `--key`, `--weight` and `--value` named, kept in the store, so that nothing else is
//! mixed into it.
//!
//! ```text
//!   state   fields u32 │ of each: name │ weight │ value │ form u8      no fields: the whole row is the key
//!   name    bytes u32, bytes                  weight, value: 0 u8, or 1 u8 and a name
//!                                             form: 0 keys are text, 1 integers are numbers (`--integers`)
//! ```
//!
//! A key is the same text whatever format and delimiter brought it, so only fields are compared. A number and a name may stand for
//! one field, in a file without and one with a header: they pass for each other. Version 1 had the names of the key alone.

use crate::arguments::InputArguments;
use crate::failure::Failure;
use overbank::store::{Participant, Prepared, Record, Store, Structure, registry};
use overbank_ingest::KeyForm;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name that they have in their store.
const NAME: &str = "stream key";
/// The oldest version that is read.
const OLDEST: u16 = 1;

/// The fields of a stream's rows that a store is filled with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StreamFields {
    /// The fields of the key, in order; none for the whole row.
    key: Vec<String>,
    /// What of a key is hashed.
    form: KeyForm,
    /// The fields of the weight and of the value; nothing if the store was made before stores remembered them.
    numbers: Option<[Option<String>; 2]>,
}

/// The options that name them.
const NUMBERS: [&str; 2] = ["--weight", "--value"];

impl StreamFields {
    /// What `--key`, `--integers`, `--weight` and `--value` say.
    pub(crate) fn new(input: &InputArguments, weight: Option<&String>, value: Option<&String>) -> Self {
        Self { key: input.keys(), form: input.key_form(), numbers: Some([weight.cloned(), value.cloned()]) }
    }

    /// What a store remembers; nothing if it was made before stores did.
    pub(crate) fn of(store: &Store) -> Result<Option<Self>, Failure> {
        let Some(entry) = store.record(NAME) else { return Ok(None) };
        entry.require_since(NAME, registry::STREAM_KEY, OLDEST)?;
        match decode(&entry.record.state, entry.structure.version) {
            Some(fields) => Ok(Some(fields)),
            None => Err(Failure::Overbank(overbank::Error::Corrupt {
                path: NAME.into(),
                at: 0,
                what: "the fields of the stream",
                expected: "names with their lengths".to_owned(),
                found: format!("{} bytes", entry.record.state.len()),
            })),
        }
    }

    /// Refuses to put rows with these fields into the store at `place` if it has others, and has its next commit remember them.
    pub(crate) fn adopt(self, store: &Store, place: &Path) -> Result<(), Failure> {
        let Some(stored) = Self::of(store)? else {
            let kept = Kept { fields: self, is_committed: AtomicBool::new(false) };
            return Ok(store.attach(NAME, Arc::new(kept))?);
        };
        if !stored.has_key_of(&self) {
            return Err(Failure::Usage(format!(
                "{} holds keys made with {}, and keys made with {} would mean something else; give the same{}, or another directory",
                place.display(),
                stored.shown_key(),
                self.shown_key(),
                stored.differing_option(&self)
            )));
        }
        match stored.other_number(&self) {
            None => Ok(()),
            Some((option, was, is)) => Err(Failure::Usage(format!(
                "{} was filled {}, and rows {} would mean something else; give the same {option}, or another directory",
                place.display(),
                shown(option, was),
                shown(option, is)
            ))),
        }
    }

    /// What the stores at `places` remember, as far as they do; they are refused if that differs.
    pub(crate) fn common(places: &[PathBuf], stores: &[Store]) -> Result<Option<Self>, Failure> {
        let mut common: Option<(Self, &Path)> = None;
        for (place, store) in places.iter().zip(stores) {
            let Some(fields) = Self::of(store)? else { continue };
            let Some((other, its_place)) = &mut common else {
                common = Some((fields, place));
                continue;
            };
            if !other.has_key_of(&fields) {
                return Err(Failure::Usage(format!(
                    "{} holds keys made with {}, and {} keys made with {}, which would mean something else; merge stores \
                     that were filled with the same{}",
                    its_place.display(),
                    other.shown_key(),
                    place.display(),
                    fields.shown_key(),
                    other.differing_option(&fields)
                )));
            }
            if let Some((option, one, two)) = other.other_number(&fields) {
                return Err(Failure::Usage(format!(
                    "{} was filled {}, and {} {}, which would mean something else; merge stores that were filled with the same \
                     {option}",
                    its_place.display(),
                    shown(option, one),
                    place.display(),
                    shown(option, two)
                )));
            }
            if other.numbers.is_none() {
                other.numbers = fields.numbers;
            }
        }
        Ok(common.map(|(fields, _)| fields))
    }

    /// Whether the keys of both may be the same fields.
    fn has_key_of(&self, other: &Self) -> bool {
        self.form == other.form && self.has_fields_of(other)
    }

    fn has_fields_of(&self, other: &Self) -> bool {
        self.key.len() == other.key.len() && self.key.iter().zip(&other.key).all(|(a, b)| may_be(a, b))
    }

    /// The option, behind a blank, in which keys differ that are not of the same fields and form.
    fn differing_option(&self, other: &Self) -> &'static str {
        if self.has_fields_of(other) { " choice of --integers" } else { " --key" }
    }

    /// The option that names the first number which cannot be the same field in both, with what it names in either.
    fn other_number<'f>(
        &'f self,
        other: &'f Self,
    ) -> Option<(&'static str, Option<&'f str>, Option<&'f str>)> {
        let (own, others) = (self.numbers.as_ref()?, other.numbers.as_ref()?);
        let pairs = NUMBERS.into_iter().zip(own.iter().zip(others));
        pairs.map(|(option, (a, b))| (option, a.as_deref(), b.as_deref())).find(|(_, a, b)| match (a, b) {
            (Some(a), Some(b)) => !may_be(a, b),
            (a, b) => a != b,
        })
    }

    /// The fields of the key as people give them.
    pub(crate) fn shown_key(&self) -> String {
        let form = if self.form == KeyForm::Numbers { " and --integers" } else { "" };
        if self.key.is_empty() {
            format!("no --key, of whole rows{form}")
        } else {
            format!("--key {}{form}", self.key.join(","))
        }
    }

    /// Whether `key`, whose fields have tabs between them, cannot be a key of the store, for the number of its fields.
    pub(crate) fn has_other_number(&self, key: &[u8]) -> bool {
        self.key.len() > 1 && key.split(|&byte| byte == b'\t').count() != self.key.len()
    }

    /// What of a key is hashed.
    pub(crate) fn form(&self) -> KeyForm {
        self.form
    }

    /// How many fields the key has; none where it is the whole row.
    pub(crate) fn len(&self) -> usize {
        self.key.len()
    }
}

/// Whether both may name one field.
fn may_be(one: &str, other: &str) -> bool {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    one == other || is_number(one) != is_number(other)
}

fn shown(option: &str, field: Option<&str>) -> String {
    field.map_or_else(|| format!("without {option}"), |field| format!("with {option} {field}"))
}

/// The fields as a part of the store's commits.
struct Kept {
    fields: StreamFields,
    is_committed: AtomicBool,
}

impl Participant for Kept {
    fn structure(&self) -> Structure {
        // What is not known of weight and value was made by version 1, and stays so.
        let version = self.fields.numbers.as_ref().map_or(OLDEST, |_| registry::STREAM_KEY.version);
        Structure { version, ..registry::STREAM_KEY.structure() }
    }

    fn prepare(&self) -> overbank::Result<Prepared> {
        if !self.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        Ok(Prepared::Changed(Record { state: encode(&self.fields), files: Vec::new() }))
    }

    fn committed(&self) {
        self.is_committed.store(true, Ordering::Release);
    }

    fn is_changed(&self) -> bool {
        !self.is_committed.load(Ordering::Acquire)
    }
}

fn encode(fields: &StreamFields) -> Vec<u8> {
    let mut bytes = (fields.key.len() as u32).to_le_bytes().to_vec();
    fields.key.iter().for_each(|field| put_name(&mut bytes, field));
    for number in fields.numbers.iter().flatten() {
        bytes.push(u8::from(number.is_some()));
        number.iter().for_each(|field| put_name(&mut bytes, field));
    }
    if fields.numbers.is_some() {
        bytes.push(u8::from(fields.form == KeyForm::Numbers));
    }
    bytes
}

fn put_name(bytes: &mut Vec<u8>, name: &str) {
    bytes.extend((name.len() as u32).to_le_bytes());
    bytes.extend(name.as_bytes());
}

fn decode(mut bytes: &[u8], version: u16) -> Option<StreamFields> {
    let fields = take_number(&mut bytes)?;
    let mut key = Vec::new();
    for _ in 0..fields {
        key.push(take_name(&mut bytes)?);
    }
    if version == OLDEST {
        return bytes.is_empty().then_some(StreamFields { key, form: KeyForm::Text, numbers: None });
    }
    let numbers = Some([take_optional(&mut bytes)?, take_optional(&mut bytes)?]);
    let form = match bytes {
        [0] => KeyForm::Text,
        [1] => KeyForm::Numbers,
        _ => return None,
    };
    Some(StreamFields { key, form, numbers })
}

/// A name if there is one; nothing where the bytes are none.
fn take_optional(bytes: &mut &[u8]) -> Option<Option<String>> {
    let (flag, rest) = bytes.split_first()?;
    *bytes = rest;
    match flag {
        0 => Some(None),
        1 => take_name(bytes).map(Some),
        _ => None,
    }
}

fn take_name(bytes: &mut &[u8]) -> Option<String> {
    let length = take_number(bytes)?;
    let (name, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(name.to_vec()).ok()
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(key: &[&str], weight: Option<&str>, value: Option<&str>) -> StreamFields {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        let key: Vec<String> = key.iter().map(|&name| name.to_owned()).collect();
        StreamFields { key, form: KeyForm::Text, numbers: Some([owned(weight), owned(value)]) }
    }

    fn of_key(key: &[&str]) -> StreamFields {
        fields(key, None, None)
    }

    #[test]
    fn fields_come_back_and_what_is_none_is_refused() {
        for key in [&[][..], &["url"], &["a,b", "", "ü"]] {
            for (weight, value) in
                [(None, None), (Some("w"), None), (None, Some("")), (Some("1"), Some("ms"))]
            {
                let mut one = fields(key, weight, value);
                if weight.is_some() {
                    one.form = KeyForm::Numbers;
                }
                let bytes = encode(&one);
                assert_eq!(decode(&bytes, 2).as_ref(), Some(&one));
                for length in 0..bytes.len() {
                    assert_eq!(decode(&bytes[..length], 2), None);
                }
                assert_eq!(decode(&[&bytes[..], b"x"].concat(), 2), None);
            }
            // Version 1 ends behind the key.
            let (one, bytes) = (of_key(key), encode(&of_key(key)));
            let first = StreamFields { numbers: None, ..one };
            assert_eq!(encode(&first), bytes[..bytes.len() - 3]);
            assert_eq!(decode(&bytes[..bytes.len() - 3], 1), Some(first));
        }
        assert_eq!(decode(&u32::MAX.to_le_bytes(), 2), None);
    }

    #[test]
    fn a_number_may_be_a_name() {
        let url = of_key(&["url", "host"]);
        let goes = |one: &StreamFields, other: &StreamFields| one.has_key_of(other) && other.has_key_of(one);
        assert!(goes(&url, &url) && goes(&url, &of_key(&["2", "host"])) && goes(&url, &of_key(&["2", "3"])));
        for other in [of_key(&[]), of_key(&["url"]), of_key(&["host", "url"]), of_key(&["2", "url"])] {
            assert!(!url.has_key_of(&other) && !other.has_key_of(&url), "{other:?}");
        }
        assert!(!of_key(&["1"]).has_key_of(&of_key(&["2"])));
        let numbers = StreamFields { form: KeyForm::Numbers, ..of_key(&["url", "host"]) };
        assert!(goes(&numbers, &numbers) && !url.has_key_of(&numbers) && !numbers.has_key_of(&url));
    }

    #[test]
    fn other_numbers_are_told_and_unknown_ones_pass() {
        let bytes = fields(&[], Some("bytes"), Some("ms"));
        for same in
            [&bytes, &fields(&[], Some("7"), Some("8")), &StreamFields { numbers: None, ..bytes.clone() }]
        {
            assert_eq!((bytes.other_number(same), same.other_number(&bytes)), (None, None));
        }
        let rows = fields(&[], None, Some("ms"));
        assert_eq!(bytes.other_number(&rows), Some(("--weight", Some("bytes"), None)));
        let other = fields(&[], Some("bytes"), Some("seconds"));
        assert_eq!(bytes.other_number(&other), Some(("--value", Some("ms"), Some("seconds"))));
    }

    #[test]
    fn a_key_of_several_fields_has_tabs_between_them() {
        assert!(
            of_key(&["a", "b"]).has_other_number(b"x") && of_key(&["a", "b"]).has_other_number(b"x\ty\tz")
        );
        assert!(!of_key(&["a", "b"]).has_other_number(b"x\ty"));
        assert!(!of_key(&["a"]).has_other_number(b"x\ty") && !of_key(&[]).has_other_number(b"x\ty"));
    }
}
