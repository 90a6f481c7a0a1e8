//! JSON lines: picks values out by path, without building a tree.
//!
//! A string gives its unescaped bytes, a number its text as written, true and false their names. Null, an array or an
//! object where a key field is wanted is a missing key; in a payload an array or an object is its text. A line that is not one JSON
//! value is malformed, and where columns are read also one that is no object, or no array where its elements are asked for: it has no
//! fields that could be null. Where an object names a member twice, the last counts. What is skipped is checked for structure, not for
//! UTF-8.

use crate::Result;
use crate::batch::Span;
use crate::path_tree::PathTree;
use crate::rows::Rows;
use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

pub(crate) fn parse(tree: &PathTree, rows: &mut Rows) -> Result<()> {
    let text = rows.text;
    let mut found: Vec<Option<&str>> = vec![None; rows.out.fields.len()];
    let mut start = 0;
    while start < text.len() {
        let end = memchr(b'\n', &text[start..]).map_or(text.len(), |hop| start + hop);
        let line = &text[start..end];
        if !line.trim_ascii().is_empty() {
            found.fill(None);
            let mut json = serde_json::Deserializer::from_slice(line);
            let outcome = Pick { tree, found: &mut found }.deserialize(&mut json).and_then(|()| json.end());
            match outcome {
                Ok(()) => match misfit(tree, line).filter(|_| rows.has_columns()) {
                    None => row(&found, text, start..text.len().min(end + 1), rows)?,
                    Some(what) => {
                        rows.bad(start..text.len().min(end + 1), || format!("the row is {what}"))?
                    }
                },
                Err(error) => {
                    rows.bad(start..text.len().min(end + 1), || format!("not JSON: {error}"))?;
                }
            }
        }
        start = end + 1;
    }
    Ok(())
}

/// What a value is that can have none of the fields in the tree.
fn misfit(tree: &PathTree, value: &[u8]) -> Option<&'static str> {
    let (members, elements) = (!tree.members.is_empty(), !tree.elements.is_empty());
    match value.trim_ascii_start().first() {
        _ if !tree.slots.is_empty() => None,
        Some(b'{') if members => None,
        Some(b'[') if elements => None,
        Some(b'{') => Some("an object, not an array"),
        Some(b'[') => Some("an array, not an object"),
        Some(b'"') => Some("a string, not an object"),
        Some(b'n') => Some("null, not an object"),
        Some(b't' | b'f') => Some("true or false, not an object"),
        _ => Some("a number, not an object"),
    }
}

fn row(found: &[Option<&str>], text: &[u8], place: Range<usize>, rows: &mut Rows) -> Result<()> {
    rows.begin();
    for (slot, raw) in found.iter().enumerate() {
        let Some(raw) = raw else { continue };
        if rows.is_of_column(slot) {
            rows.see_column(slot);
        }
        match scalar(raw, text, &mut rows.out.arena) {
            Ok(span) => rows.out.fields[slot] = span,
            Err(Unusable::Broken(what)) => {
                let name = rows.name(slot).to_owned();
                return rows.bad(place, || format!("field {name} is {what}"));
            }
            Err(Unusable::NoScalar(NULL)) if rows.is_of_column(slot) => {}
            Err(Unusable::NoScalar(what)) if rows.is_of_payload(slot) && what != NULL => {
                rows.out.fields[slot] = place_of(raw, text);
            }
            Err(Unusable::NoScalar(what)) => {
                let there = |slot: usize| found[slot].is_some();
                return rows.missing(slot, place, there, what);
            }
        }
    }
    rows.end(place)
}

/// Why a value is no field.
enum Unusable {
    /// There is a value, but no single one.
    NoScalar(&'static str),
    Broken(&'static str),
}

/// Where `part` lies, which is a slice of `text`.
fn place_of(part: &str, text: &[u8]) -> Span {
    Span::text(part.as_ptr() as usize - text.as_ptr() as usize, part.len())
}

/// What is said of a null.
const NULL: &str = "null";

/// The bytes of a scalar; `raw` is a slice of `text`.
fn scalar(raw: &str, text: &[u8], arena: &mut Vec<u8>) -> std::result::Result<Span, Unusable> {
    let place = |part: &str| place_of(part, text);
    match raw.as_bytes().first() {
        Some(b'"') if memchr(b'\\', raw.as_bytes()).is_none() => Ok(place(&raw[1..raw.len() - 1])),
        Some(b'"') => {
            let unescaped: String =
                serde_json::from_str(raw).map_err(|_| Unusable::Broken("a string with a broken escape"))?;
            let start = arena.len();
            arena.extend_from_slice(unescaped.as_bytes());
            Span::arena_from(start, arena)
                .ok_or(Unusable::Broken("too much: the chunk's keys take more than 2 GiB"))
        }
        Some(b'{') => Err(Unusable::NoScalar("an object, not a single value")),
        Some(b'[') => Err(Unusable::NoScalar("an array, not a single value")),
        Some(b'n') => Err(Unusable::NoScalar(NULL)),
        _ => Ok(place(raw)),
    }
}

/// Walks a value along the tree and notes the raw text of what is wanted.
struct Pick<'t, 'f, 'de> {
    tree: &'t PathTree,
    found: &'f mut [Option<&'de str>],
}

impl<'de> DeserializeSeed<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        if self.tree.slots.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let raw: &'de RawValue = serde::Deserialize::deserialize(deserializer)?;
        self.tree.slots.iter().for_each(|&slot| self.found[slot] = Some(raw.get()));
        if self.tree.is_leaf() {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(member) = map.next_key_seed(Member(&self.tree.members))? {
            match member {
                Some(tree) => {
                    tree.forget(self.found);
                    map.next_value_seed(Pick { tree, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<(), A::Error> {
        for index in 0.. {
            let tree = self.tree.elements.iter().find(|(wanted, _)| *wanted == index);
            let more = match tree {
                Some((_, tree)) => elements.next_element_seed(Pick { tree, found: self.found })?.is_some(),
                None => elements.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }
}

/// Finds the tree of the member that a key names.
struct Member<'t>(&'t [(String, PathTree)]);

impl<'de, 't> DeserializeSeed<'de> for Member<'t> {
    type Value = Option<&'t PathTree>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for Member<'t> {
    type Value = Option<&'t PathTree>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<Self::Value, E> {
        Ok(self.0.iter().find(|(wanted, _)| wanted == name).map(|(_, tree)| tree))
    }
}
