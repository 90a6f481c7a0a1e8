//! Hash maps from keys to counts, which the groups are compared with: sparse, over an arena, shared by threads.
//!
//! | map | of the paper | an entry takes |
//! |---|---|---|
//! | `sparse`, fixed keys | SH | the longest key rounded up, its length, 4 bytes, half a byte a slot |
//! | `sparse`, pointer keys | SH-ptr | 24 bytes, half a byte a slot, the key in the heap |
//! | `arena` | | 12 bytes by hashbrown, the key in one vector of all keys |
//! | `arena`, fixed keys | | as in `sparse`, by hashbrown |
//! | `shared` | CHT, CHT-ptr | by dashmap, a lock a shard |
//!
//! All hash as the groups do, so that what differs is the map.

mod arena;
mod phases;
mod shared;
mod sparse;

pub(super) use arena::{Arena, Flat};
pub(super) use shared::Shared;
pub(super) use sparse::Sparse;

use super::job::Counter;
use crate::{Metric, Result};
use keyhash::{HashKind, KeyHasher, Seed};
use std::sync::{Mutex, PoisonError};

/// A key as a map keeps it.
pub(super) trait Stored: Eq + Send + Sync + 'static {
    fn of(key: &[u8]) -> Self;
    fn bytes(&self) -> &[u8];
}

/// Pointer keys: a piece of the heap for each.
impl Stored for Box<[u8]> {
    fn of(key: &[u8]) -> Self {
        key.into()
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Fixed keys: at most `N` bytes, in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fixed<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> Stored for Fixed<N> {
    fn of(key: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes[..key.len()].copy_from_slice(key);
        Self { length: key.len() as u8, bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A map that one thread changes.
pub(super) trait Map: Default + Send {
    /// Counts a key once more.
    fn count(&mut self, key: &[u8]) -> Result<()>;

    /// As [`Counter::breakdown`].
    fn breakdown(&self) -> Vec<(Metric, u64)> {
        Vec::new()
    }

    /// Shows every key with its count.
    fn each(&self, visit: &mut dyn FnMut(&[u8], u64));
}

/// A map behind a lock that is taken once a batch.
#[derive(Default)]
pub(super) struct Alone<M>(Mutex<M>);

impl<M: Map> Counter for Alone<M> {
    fn insert(&self, keys: &[&[u8]]) -> Result<()> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().try_for_each(|key| map.count(key))
    }

    fn breakdown(&self) -> Vec<(Metric, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).breakdown()
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).each(visit);
        Ok(())
    }
}

/// How a map hashes. Tests drop bits, so that different keys share all of them.
pub(super) trait Hashing: Send + 'static {
    fn hash(key: &[u8]) -> u64;
}

/// As the groups do.
pub(super) struct Xxh3;

impl Hashing for Xxh3 {
    fn hash(key: &[u8]) -> u64 {
        KeyHasher::new(HashKind::Xxh3, Seed(0)).hash(key).fold()
    }
}

/// One more, or an error where a count of 32 bits, as in the paper, ends.
fn one_more(count: &mut u32) -> Result<()> {
    *count = count.checked_add(1).ok_or("a key came more than 2^32 - 1 times")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn counts(map: &impl Map) -> HashMap<Vec<u8>, u64> {
        let mut counts = HashMap::new();
        map.each(&mut |key, count| assert!(counts.insert(key.to_vec(), count).is_none(), "shown twice"));
        counts
    }

    /// Hashes of so many bits.
    struct Bits<const BITS: u32>;

    impl<const BITS: u32> Hashing for Bits<BITS> {
        fn hash(key: &[u8]) -> u64 {
            Xxh3::hash(key) & ((1 << BITS) - 1)
        }
    }

    fn check<M: Map>(keys: &[Vec<u8>], expected: &HashMap<Vec<u8>, u64>) {
        let mut map = M::default();
        keys.iter().for_each(|key| map.count(key).expect("few"));
        assert_eq!(&counts(&map), expected);
    }

    fn check_all<H: Hashing>(keys: &[Vec<u8>], expected: &HashMap<Vec<u8>, u64>) {
        check::<Sparse<Fixed<15>, H>>(keys, expected);
        check::<Sparse<Box<[u8]>, H>>(keys, expected);
        check::<Flat<Fixed<15>, H>>(keys, expected);
        check::<Arena<H>>(keys, expected);
    }

    proptest! {
        #[test]
        fn maps_count_as_a_hash_map_does(
            keys in prop::collection::vec(prop::collection::vec(0u8..4, 0..8), 0..600),
        ) {
            let mut expected = HashMap::new();
            keys.iter().for_each(|key| *expected.entry(key.clone()).or_insert(0) += 1);
            check_all::<Xxh3>(&keys, &expected);
            check_all::<Bits<6>>(&keys, &expected);
            check_all::<Bits<0>>(&keys, &expected);
            let shared = Shared::<Fixed<15>>::default();
            let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            shared.insert(&slices).expect("few");
            let mut found = HashMap::new();
            shared.each(&mut |key, count| { found.insert(key.to_vec(), count); }).expect("in memory");
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_sparse_map_of_many_keys_keeps_them_all_as_it_grows() {
        let mut map = Sparse::<Fixed<15>>::default();
        for round in 1..=3 {
            for i in 0..20_000u32 {
                let key = i.to_le_bytes();
                map.count(&key).expect("few");
            }
            let counts = counts(&map);
            assert_eq!(counts.len(), 20_000);
            assert!(counts.values().all(|&count| count == round));
        }
    }
}
