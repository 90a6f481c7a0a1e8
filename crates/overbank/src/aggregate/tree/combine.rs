//! Objects of one key become one.
//!
//! Objects come in the order of their hashes. Where neighbours share a hash they are looked at together: mostly they share the key, too,
//! and one accumulator takes them all. Where keys collide, the objects are put in the order of their keys first, so that each key
//! needs no more than that one accumulator; the paper keeps one for each colliding key, in a hash table.
//!
//! Source: Amur et al., section 3.3 (Handling hash collisions).

use super::super::state::{Aggregate, Shape, State, StateMut};
use super::object::{Object, push_object};
use super::run::Run;
use crate::Result;

/// Takes objects in, and appends one for each key to a run.
#[derive(Debug)]
pub(super) struct Combiner<'r, A> {
    aggregate: &'r A,
    shape: Shape,
    /// Of one hash.
    same: Vec<&'r [u8]>,
    words: Vec<u64>,
    others: Vec<u64>,
    tail: Vec<u8>,
}

impl<'r, A: Aggregate> Combiner<'r, A> {
    pub(super) fn new(aggregate: &'r A, shape: Shape) -> Self {
        let words = vec![0; shape.state_words];
        Combiner { aggregate, shape, same: Vec::new(), others: words.clone(), words, tail: Vec::new() }
    }

    /// Takes an object in, of the same hash as the others since [`Combiner::combine`].
    #[inline]
    pub(super) fn add(&mut self, object: &'r [u8]) {
        self.same.push(object);
    }

    /// Appends what the objects come to, which are of this hash.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no object; `CapacityExceeded` past what a run holds.
    pub(super) fn combine(&mut self, hash: u32, into: &mut Run) -> Result<()> {
        let mut same = std::mem::take(&mut self.same);
        let Some((first, rest)) = same.split_first() else { return Ok(()) };
        let prefix = Object::read(first)?.prefix;
        let is_one_key = rest.iter().all(|object| object.starts_with(prefix));
        if is_one_key {
            self.combine_key(hash, &same, into)?;
        } else {
            for object in rest {
                Object::read(object)?;
            }
            let parts = |object: &&'r [u8]| {
                Object::read(object).map_or((&[][..], &[][..]), |object| (object.key, object.prefix))
            };
            same.sort_by(|a, b| parts(a).cmp(&parts(b)));
            for objects in same.chunk_by(|a, b| parts(a).1 == parts(b).1) {
                self.combine_key(hash, objects, into)?;
            }
        }
        same.clear();
        self.same = same;
        Ok(())
    }

    /// Objects of one key, at least one.
    fn combine_key(&mut self, hash: u32, objects: &[&[u8]], into: &mut Run) -> Result<()> {
        let Some((first, rest)) = objects.split_first() else { return Ok(()) };
        let first = Object::read(first)?;
        self.tail.clear();
        self.tail.extend_from_slice(first.state(self.shape, &mut self.words)?);
        for object in rest {
            let tail = first.of_the_same_key(object).state(self.shape, &mut self.others)?;
            let state = StateMut { words: &mut self.words, tail: &mut self.tail };
            self.aggregate.merge(state, State { words: &self.others, tail });
        }
        push_object(first.key, State { words: &self.words, tail: &self.tail }, &mut into.payload);
        into.close(hash)
    }
}
