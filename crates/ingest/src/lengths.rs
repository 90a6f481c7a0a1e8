//! Where raw records end: what their lengths say.
//!
//! ```text
//! key length u32 │ key │ value length u32 │ value          little-endian, one record behind the other, nothing between
//! ```

const LENGTH_BYTES: usize = size_of::<u32>();

/// The ends of the whole records that `bytes` starts with.
pub(crate) fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at = part(bytes, part(bytes, at)?.1)?.1;
        Some(at)
    })
}

/// The end of the last of them.
pub(crate) fn last_end(bytes: &[u8]) -> Option<usize> {
    ends(bytes).last()
}

/// The start and the end of the bytes whose length stands at `at`.
#[inline]
pub(crate) fn part(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let length = bytes.get(at..)?.first_chunk::<LENGTH_BYTES>()?;
    let start = at + LENGTH_BYTES;
    let end = start.checked_add(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (end <= bytes.len()).then_some((start, end))
}

/// A search for the end of one record, which may come in pieces of any size.
pub(crate) struct RawSearch {
    /// Bytes of the record that were seen.
    passed: u64,
    /// The length at hand, and how many of its bytes were seen.
    length: [u8; LENGTH_BYTES],
    filled: usize,
    /// Where the length at hand starts in the record, and whether it is that of the value.
    at: u64,
    is_value: bool,
}

impl RawSearch {
    pub(crate) fn new() -> Self {
        Self { passed: 0, length: [0; LENGTH_BYTES], filled: 0, at: 0, is_value: false }
    }

    /// The place in `piece` behind the record, if it is there.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Option<usize> {
        let start = self.passed;
        let end = start + piece.len() as u64;
        loop {
            while self.filled < LENGTH_BYTES {
                let wanted = self.at + self.filled as u64;
                if wanted >= end {
                    self.passed = end;
                    return None;
                }
                self.length[self.filled] = piece[(wanted - start) as usize];
                self.filled += 1;
            }
            let behind = self.least_bytes();
            if self.is_value {
                self.passed = end;
                return (behind <= end).then(|| (behind - start) as usize);
            }
            // What was seen of the key's length says where that of the value is.
            (self.at, self.filled, self.is_value) = (behind - LENGTH_BYTES as u64, 0, true);
        }
    }

    /// How long the record is at least, as far as its lengths were seen.
    pub(crate) fn least_bytes(&self) -> u64 {
        let known = if self.filled == LENGTH_BYTES { u32::from_le_bytes(self.length).into() } else { 0 };
        let lengths = if self.is_value { 1 } else { 2 };
        self.at + lengths * LENGTH_BYTES as u64 + known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let part = |bytes: &Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
        pairs.iter().flat_map(|(key, value)| [part(key), part(value)].concat()).collect()
    }

    proptest! {
        #[test]
        fn a_record_ends_where_it_ends_whatever_the_pieces(
            pairs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), prop::collection::vec(any::<u8>(), 0..9)), 1..5),
            piece_bytes in 1usize..9,
        ) {
            let bytes = records(&pairs);
            let first = records(&pairs[..1]).len();
            let mut search = RawSearch::new();
            let mut before = 0;
            let mut found = None;
            for piece in bytes.chunks(piece_bytes) {
                found = search.feed(piece).map(|end| before + end);
                before += piece.len();
                if found.is_some() {
                    break;
                }
                prop_assert!(search.least_bytes() <= first as u64);
            }
            prop_assert_eq!(found, Some(first));
            prop_assert_eq!(search.least_bytes(), first as u64);
            prop_assert_eq!(ends(&bytes).count(), pairs.len());
            prop_assert_eq!(last_end(&bytes), Some(bytes.len()));
            prop_assert_eq!(last_end(&bytes[..bytes.len() - 1]), (pairs.len() > 1).then(|| records(&pairs[..pairs.len() - 1]).len()));
        }
    }

    #[test]
    fn lengths_beyond_what_is_there_are_no_record() {
        for bytes in [
            &b"\xff\xff\xff\xff"[..],
            b"\xff\xff\xff\xffabc",
            b"\0\0\0\0\xff\xff\xff\xff",
            b"\x01\0\0\0a\x01\0\0\0",
            b"\0\0\0",
        ] {
            assert_eq!(last_end(bytes), None, "{bytes:?}");
        }
        let mut search = RawSearch::new();
        assert_eq!(search.feed(b"\xff\xff\xff\xff"), None);
        assert_eq!(search.least_bytes(), u64::from(u32::MAX) + 8);
    }
}
