//! The tail of a state of several functions: a section for each that needs one.
//!
//! ```text
//!   nothing, where all sections are empty
//!   ┼ length ┼ section 0 ┼ length ┼ section 1 ┼ …        lengths are varints: 7 bits a byte, least first
//! ```
//!
//! 1. Bytes may come from a file, and be anything. What is no tail, or has a section that is none, becomes [`CORRUPT`] when a state is
//!    merged into it or it into another: damage is not lost by a merge, whatever the order.

use super::value::{ColumnType, Item};
use crate::bits::varint;
use std::ops::Range;

/// A tail that is none.
pub(super) const CORRUPT: [u8; 1] = [0x80];

/// What becomes of a section.
#[derive(Debug)]
pub(super) enum Change {
    /// It was changed where it is, or not at all.
    Done,
    /// It becomes this.
    To(Vec<u8>),
}

/// Where section `index` of a tail that is not empty is: where its length begins, and its bytes.
pub(super) fn section(tail: &[u8], index: usize) -> Option<(usize, Range<usize>)> {
    let mut reader = Reader::new(tail);
    for _ in 0..index {
        reader.section()?;
    }
    let begin = tail.len() - reader.left();
    let bytes = reader.section()?.len();
    let end = tail.len() - reader.left();
    Some((begin, end - bytes..end))
}

/// Changes section `index` of `sections` by what `change` makes of it; `None` of it says that it is corrupt.
pub(super) fn update_section(
    tail: &mut Vec<u8>,
    index: usize,
    sections: usize,
    change: impl FnOnce(&mut [u8]) -> Option<Change>,
) {
    let found = if tail.is_empty() { Some((index, 0..0)) } else { section(tail, index) };
    let changed = found.and_then(|(begin, range)| Some((begin, range.end, change(&mut tail[range])?)));
    match changed {
        Some((_, _, Change::Done)) => {}
        Some((begin, end, Change::To(bytes))) => {
            if tail.is_empty() {
                tail.resize(sections, 0);
                replace(tail, begin..index + 1, &bytes);
            } else {
                replace(tail, begin..end, &bytes);
            }
            if bytes.is_empty() && tail.iter().all(|&length| length == 0) {
                tail.clear();
            }
        }
        None => corrupt(tail),
    }
}

/// Says that a tail is none.
pub(super) fn corrupt(tail: &mut Vec<u8>) {
    tail.clear();
    tail.extend_from_slice(&CORRUPT);
}

/// Puts a section and its length in place of what is at `range`.
fn replace(tail: &mut Vec<u8>, range: Range<usize>, bytes: &[u8]) {
    let (length, length_bytes) = varint::encoded(bytes.len() as u64);
    let new_end = range.start + length_bytes + bytes.len();
    let rest = tail.len() - range.end;
    tail.resize(tail.len().max(new_end + rest), 0);
    tail.copy_within(range.end..range.end + rest, new_end);
    tail.truncate(new_end + rest);
    tail[range.start..range.start + length_bytes].copy_from_slice(&length[..length_bytes]);
    tail[range.start + length_bytes..new_end].copy_from_slice(bytes);
}

/// Appends a section and its length.
pub(super) fn push_section(tail: &mut Vec<u8>, bytes: &[u8]) {
    varint::push(bytes.len() as u64, tail);
    tail.extend_from_slice(bytes);
}

/// Appends an item that is not NULL.
pub(super) fn put_item(bytes: &mut Vec<u8>, item: Item<'_>) {
    let (words, count) = item.words();
    words[..count].iter().for_each(|&word| varint::push(word, bytes));
    if let Item::Bytes(own) = item {
        bytes.extend_from_slice(own);
    }
}

/// Reads what may be anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Bytes that were not read.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// What was not read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        varint::take(&mut self.rest)
    }

    pub(super) fn section(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.varint()?).ok()?;
        self.take(bytes)
    }

    pub(super) fn item(&mut self, column_type: ColumnType) -> Option<Item<'a>> {
        let mut words = [0; 2];
        for word in &mut words[..column_type.words()] {
            *word = self.varint()?;
        }
        let bytes = match column_type {
            ColumnType::Bytes => self.take(usize::try_from(words[0]).ok()?)?,
            _ => &[],
        };
        Some(Item::of_words(column_type, &words, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sections_are_changed_apart(changes in prop::collection::vec((0usize..3, prop::collection::vec(any::<u8>(), 0..300)), 0..12)) {
            let (mut tail, mut expected) = (Vec::new(), vec![Vec::new(); 3]);
            for (index, bytes) in changes {
                update_section(&mut tail, index, 3, |old| {
                    assert_eq!(old, &expected[index][..]);
                    Some(Change::To(bytes.clone()))
                });
                expected[index] = bytes;
                prop_assert_eq!(tail.is_empty(), expected.iter().all(Vec::is_empty));
                if tail.is_empty() {
                    continue;
                }
                for (i, expected) in expected.iter().enumerate() {
                    let (_, range) = section(&tail, i).unwrap();
                    prop_assert_eq!(&tail[range], &expected[..]);
                }
            }
        }

        #[test]
        fn numbers_come_back(number: u64, shift in 0u32..64) {
            let mut bytes = Vec::new();
            varint::push(number >> shift, &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!((reader.varint(), reader.is_empty()), (Some(number >> shift), true));
        }

        #[test]
        fn anything_is_read_without_a_panic(bytes: Vec<u8>, index in 0usize..4) {
            if let Some((begin, range)) = section(&bytes, index) {
                prop_assert!(begin < range.start && range.end <= bytes.len());
            }
            for column_type in [ColumnType::Unsigned, ColumnType::Wide, ColumnType::Float, ColumnType::Bytes] {
                let mut reader = Reader::new(&bytes);
                while reader.item(column_type).is_some() {}
            }
        }
    }

    #[test]
    fn what_is_corrupt_stays_so() {
        let mut tail = vec![5, 1];
        update_section(&mut tail, 0, 2, |_| Some(Change::Done));
        assert_eq!(tail, CORRUPT);
        update_section(&mut tail, 0, 2, |_| Some(Change::To(vec![7])));
        assert_eq!(tail, CORRUPT);
    }
}
