//! JSON lines: picks values out by path, without building a tree.
//!
//! A string gives its unescaped bytes, a number its text as written, true and false their names. Null, an array or an
//! object where a key field is wanted is a missing key. A line that is not one JSON value is malformed. Where an object
//! names a member twice, the last counts. What is skipped is checked for structure, not for UTF-8.

use crate::batch::Span;
use crate::parser::Rows;
use crate::{Error, Result};
use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// The wanted paths, joined where they start alike.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    /// The slots that take the value here.
    slots: Vec<usize>,
    members: Vec<(String, PathTree)>,
    elements: Vec<(usize, PathTree)>,
}

impl PathTree {
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut tree = Self::default();
        for (slot, path) in paths.enumerate() {
            let steps = steps(path).ok_or_else(|| Error::InvalidOption {
                name: "key",
                value: path.into(),
                why: "a JSON path is like user.id, items[0].sku or /user/id".into(),
            })?;
            tree.insert(&steps, slot);
        }
        Ok(tree)
    }

    fn insert(&mut self, steps: &[Step], slot: usize) {
        let Some((first, rest)) = steps.split_first() else { return self.slots.push(slot) };
        if let Some(name) = &first.member {
            child(&mut self.members, name.clone()).insert(rest, slot);
        }
        if let Some(index) = first.element {
            child(&mut self.elements, index).insert(rest, slot);
        }
    }

    fn is_leaf(&self) -> bool {
        self.members.is_empty() && self.elements.is_empty()
    }

    /// Forgets what an earlier member of the same name left.
    fn forget(&self, found: &mut [Option<&str>]) {
        self.slots.iter().for_each(|&slot| found[slot] = None);
        self.members.iter().for_each(|(_, child)| child.forget(found));
        self.elements.iter().for_each(|(_, child)| child.forget(found));
    }
}

fn child<K: PartialEq>(children: &mut Vec<(K, PathTree)>, key: K) -> &mut PathTree {
    let index = children.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        children.push((key, PathTree::default()));
        children.len() - 1
    });
    &mut children[index].1
}

/// One step of a path: a member's name, an element's index, or a number in a pointer, which may be either.
#[derive(Debug, PartialEq)]
struct Step {
    member: Option<String>,
    element: Option<usize>,
}

fn steps(path: &str) -> Option<Vec<Step>> {
    if let Some(pointer) = path.strip_prefix('/') {
        let step = |part: &str| {
            let name = part.replace("~1", "/").replace("~0", "~");
            Step { element: name.parse().ok(), member: Some(name) }
        };
        return Some(pointer.split('/').map(step).collect());
    }
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, indices) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        match (name.is_empty(), indices.is_empty(), steps.is_empty()) {
            (false, _, _) => steps.push(Step { member: Some(name.into()), element: None }),
            (true, false, true) => {}
            _ => return None,
        }
        let mut rest = indices;
        while !rest.is_empty() {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step { member: None, element: Some(index.parse().ok()?) });
            rest = after;
        }
    }
    Some(steps)
}

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
                Ok(()) => row(&found, text, start..text.len().min(end + 1), rows)?,
                Err(error) => {
                    rows.bad(start..text.len().min(end + 1), || format!("not JSON: {error}"))?;
                }
            }
        }
        start = end + 1;
    }
    Ok(())
}

fn row(found: &[Option<&str>], text: &[u8], place: Range<usize>, rows: &mut Rows) -> Result<()> {
    rows.begin();
    for (slot, raw) in found.iter().enumerate() {
        let Some(raw) = raw else { continue };
        match scalar(raw, text, &mut rows.out.arena) {
            Ok(span) => rows.out.fields[slot] = span,
            Err(Unusable::Broken(what)) => {
                let name = rows.name(slot).to_owned();
                return rows.bad(place, || format!("field {name} is {what}"));
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

/// The bytes of a scalar; `raw` is a slice of `text`.
fn scalar(raw: &str, text: &[u8], arena: &mut Vec<u8>) -> std::result::Result<Span, Unusable> {
    let place = |part: &str| Span::text(part.as_ptr() as usize - text.as_ptr() as usize, part.len());
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
        Some(b'n') => Err(Unusable::NoScalar("null")),
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
