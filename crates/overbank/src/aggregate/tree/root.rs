//! A buffer of the root: objects as they come, not compressed.
//!
//! ```text
//!   entries   hash, place │ hash, place │ …            sorted by radix
//!   bytes     size of an object │ object │ size │ …    stay where they are
//! ```
//!
//! | cost a row | CPU | RAM |
//! |---|---|---|
//! | push | a copy | 8 bytes and the object |
//! | sort | two or three passes over 8 bytes, and a read of the object at random | a run of one object a key |
//!
//! Source: Amur et al., section 3.3 (Emptying the Root Node).

use super::super::state::{Aggregate, Shape, State};
use super::combine::Combiner;
use super::object::{object_bytes, push_object};
use super::run::{Held, Run};
use crate::Result;
use crate::batch::Sorter;
use crate::bits::prefetch::prefetch;
use crate::bits::varint;
use crate::error::corrupt_bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// How far ahead objects are asked for while they are read in the order of their hashes: a dozen misses under way, about as many as a
/// core has.
const AHEAD: usize = 12;

type Entry = (u32, u32);

/// Objects in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct RootBuffer {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    held: Held,
}

/// What a thread sorts with.
#[derive(Debug, Default)]
pub(super) struct Sorting {
    sorter: Sorter<Entry>,
    scratch: Vec<Entry>,
}

impl Sorting {
    pub(super) fn memory_bytes(&self) -> usize {
        self.scratch.capacity() * size_of::<Entry>()
            + if self.scratch.is_empty() { 0 } else { Sorter::<Entry>::memory_bytes() }
    }
}

impl RootBuffer {
    /// An empty one, whose bytes count in `total`.
    pub(super) fn new(total: &Arc<AtomicUsize>) -> RootBuffer {
        RootBuffer { held: Held::of(total), ..RootBuffer::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that are in use.
    #[inline]
    pub(super) fn raw_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    /// Counts what is held, after it has grown.
    pub(super) fn count_bytes(&mut self) {
        self.held.set(self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>());
    }

    /// Takes an object in. The buffer has fewer than 4 GiB: options see to it.
    #[inline]
    pub(super) fn push(&mut self, hash: u32, key: &[u8], state: State<'_>) {
        self.entries.push((hash, self.bytes.len() as u32));
        varint::push(object_bytes(key, state) as u64, &mut self.bytes);
        push_object(key, state, &mut self.bytes);
    }

    /// Appends the objects to `into` in hash order, one for each key.
    ///
    /// # Errors
    /// `OutOfMemory`; `CapacityExceeded` past what a run holds.
    pub(super) fn sort<A: Aggregate>(
        &mut self,
        aggregate: &A,
        shape: Shape,
        sorting: &mut Sorting,
        into: &mut Run,
    ) -> Result<()> {
        sorting.sorter.sort(&mut self.entries, &mut sorting.scratch);
        let mut combiner = Combiner::new(aggregate, shape);
        let (entries, bytes) = (&self.entries[..], &self.bytes[..]);
        let mut i = 0;
        while let Some(&(hash, place)) = entries.get(i) {
            if let Some(&(_, ahead)) = entries.get(i + AHEAD) {
                prefetch(bytes, ahead as usize);
            }
            let more = entries[i + 1..].iter().take_while(|entry| entry.0 == hash).count();
            if more == 0 {
                into.push(hash, object_at(bytes, place)?)?;
            } else {
                for &(_, place) in &entries[i..=i + more] {
                    combiner.add(object_at(bytes, place)?);
                }
                combiner.combine(hash, into)?;
            }
            i += 1 + more;
        }
        into.count_bytes();
        Ok(())
    }
}

/// The object whose size stands at `place`.
#[inline(always)]
fn object_at(bytes: &[u8], place: u32) -> Result<&[u8]> {
    let mut rest = &bytes[place as usize..];
    let size = varint::take(&mut rest);
    match size.and_then(|size| rest.get(..size as usize)) {
        Some(object) => Ok(object),
        None => {
            Err(corrupt_bytes(place as usize, "an object of the root", "its size and its bytes", "fewer"))
        }
    }
}
