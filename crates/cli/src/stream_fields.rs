//! Which fields of a row are the key of a store: what `--key` named, kept in the store, so that no other keys are mixed into it.
//!
//! ```text
//!   state   fields u32 │ of each: bytes u32, name          none: the whole row is the key
//! ```
//!
//! A key is the same text whatever format and delimiter brought it, so only fields are compared. A number and a name may stand for
//! one field, in a file without and one with a header: they pass for each other.

use crate::failure::Failure;
use overbank::store::{Participant, Prepared, Record, Store, Structure, registry};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name that it has in its store.
const NAME: &str = "stream key";

/// The fields of a key, in order; none for the whole row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyFields(Vec<String>);

impl KeyFields {
    /// What `--key` named.
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.to_vec())
    }

    /// What a store remembers; nothing if it was made before stores did.
    pub(crate) fn of(store: &Store) -> Result<Option<Self>, Failure> {
        let Some(entry) = store.record(NAME) else { return Ok(None) };
        entry.require(NAME, registry::STREAM_KEY)?;
        match decode(&entry.record.state) {
            Some(fields) => Ok(Some(Self(fields))),
            None => Err(Failure::Overbank(overbank::Error::Corrupt {
                path: NAME.into(),
                at: 0,
                what: "the fields of the key",
                expected: "names with their lengths".to_owned(),
                found: format!("{} bytes", entry.record.state.len()),
            })),
        }
    }

    /// Refuses to put these keys into the store at `place` if it has others, and has its next commit remember them.
    pub(crate) fn adopt(self, store: &Store, place: &Path) -> Result<(), Failure> {
        let Some(stored) = Self::of(store)? else {
            let kept = Kept { fields: self, is_committed: AtomicBool::new(false) };
            return Ok(store.attach(NAME, Arc::new(kept))?);
        };
        if stored.may_be(&self) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{} holds keys made with {}, and keys made with {} would mean something else; give the same --key, or another \
             directory",
            place.display(),
            stored.shown(),
            self.shown()
        )))
    }

    /// What the stores at `places` remember, as far as they do; they are refused if that differs.
    pub(crate) fn common(places: &[PathBuf], stores: &[Store]) -> Result<Option<Self>, Failure> {
        let mut common: Option<(Self, &Path)> = None;
        for (place, store) in places.iter().zip(stores) {
            let Some(key) = Self::of(store)? else { continue };
            match &common {
                Some((other, its_place)) if !other.may_be(&key) => {
                    return Err(Failure::Usage(format!(
                        "{} holds keys made with {}, and {} keys made with {}, which would mean something else; merge stores \
                         that were filled with the same --key",
                        its_place.display(),
                        other.shown(),
                        place.display(),
                        key.shown()
                    )));
                }
                Some(_) => {}
                None => common = Some((key, place)),
            }
        }
        Ok(common.map(|(key, _)| key))
    }

    /// Whether both may name the same fields.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a == b || is_number(a) != is_number(b))
    }

    /// As people give them.
    pub(crate) fn shown(&self) -> String {
        if self.0.is_empty() {
            "no --key, of whole rows".to_owned()
        } else {
            format!("--key {}", self.0.join(","))
        }
    }

    /// Whether `key`, whose fields have tabs between them, cannot be a key of the store, for the number of its fields.
    pub(crate) fn has_other_number(&self, key: &[u8]) -> bool {
        self.0.len() > 1 && key.split(|&byte| byte == b'\t').count() != self.0.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The fields as a part of the store's commits.
struct Kept {
    fields: KeyFields,
    is_committed: AtomicBool,
}

impl Participant for Kept {
    fn structure(&self) -> Structure {
        registry::STREAM_KEY.structure()
    }

    fn prepare(&self) -> overbank::Result<Prepared> {
        if !self.is_changed() {
            return Ok(Prepared::Unchanged);
        }
        Ok(Prepared::Changed(Record { state: encode(&self.fields.0), files: Vec::new() }))
    }

    fn committed(&self) {
        self.is_committed.store(true, Ordering::Release);
    }

    fn is_changed(&self) -> bool {
        !self.is_committed.load(Ordering::Acquire)
    }
}

fn encode(fields: &[String]) -> Vec<u8> {
    let mut bytes = (fields.len() as u32).to_le_bytes().to_vec();
    for field in fields {
        bytes.extend((field.len() as u32).to_le_bytes());
        bytes.extend(field.as_bytes());
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for _ in 0..take_number(&mut bytes)? {
        let length = take_number(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        fields.push(String::from_utf8(name.to_vec()).ok()?);
    }
    bytes.is_empty().then_some(fields)
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(names: &[&str]) -> KeyFields {
        KeyFields(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn fields_come_back_and_what_is_none_is_refused() {
        for names in [&[][..], &["url"], &["a,b", "", "ü"]] {
            let bytes = encode(&fields(names).0);
            assert_eq!(decode(&bytes), Some(fields(names).0));
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), None);
            }
            assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }
        assert_eq!(decode(&u32::MAX.to_le_bytes()), None);
    }

    #[test]
    fn a_number_may_be_a_name() {
        let url = fields(&["url", "host"]);
        assert!(url.may_be(&url) && url.may_be(&fields(&["2", "host"])) && fields(&["2", "3"]).may_be(&url));
        for other in [fields(&[]), fields(&["url"]), fields(&["host", "url"]), fields(&["2", "url"])] {
            assert!(!url.may_be(&other) && !other.may_be(&url), "{other:?}");
        }
        assert!(!fields(&["1"]).may_be(&fields(&["2"])));
    }

    #[test]
    fn a_key_of_several_fields_has_tabs_between_them() {
        assert!(
            fields(&["a", "b"]).has_other_number(b"x") && fields(&["a", "b"]).has_other_number(b"x\ty\tz")
        );
        assert!(!fields(&["a", "b"]).has_other_number(b"x\ty"));
        assert!(!fields(&["a"]).has_other_number(b"x\ty") && !fields(&[]).has_other_number(b"x\ty"));
    }
}
