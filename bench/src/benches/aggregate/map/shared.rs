//! A map that threads change at once: dashmap, the most used of the maintained ones. A shard is locked for each key.

use super::{Fixed, Hashing, Stored, Xxh3, one_more};
use crate::Result;
use crate::benches::aggregate::job::Counter;
use dashmap::DashMap;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};

pub(in super::super) struct Shared<K> {
    counts: DashMap<K, u32, OurHash>,
}

impl<K: Eq + Hash> Default for Shared<K> {
    fn default() -> Self {
        Self { counts: DashMap::with_hasher(OurHash::default()) }
    }
}

impl<K: Stored + Hash + Borrow<[u8]>> Counter for Shared<K> {
    fn insert(&self, keys: &[&[u8]]) -> Result<()> {
        for &key in keys {
            // Two steps, so that a known key is not copied; between them another thread may have brought it.
            match self.counts.get_mut(key) {
                Some(mut count) => one_more(&mut count)?,
                None => one_more(&mut self.counts.entry(K::of(key)).or_insert(0))?,
            }
        }
        Ok(())
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
        self.counts.iter().for_each(|entry| visit(entry.key().bytes(), u64::from(*entry.value())));
        Ok(())
    }
}

impl<const N: usize> Borrow<[u8]> for Fixed<N> {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl<const N: usize> Hash for Fixed<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

/// The hash of the other maps, as the standard library's traits want it.
#[derive(Clone, Default)]
struct OurHash(u64);

impl BuildHasher for OurHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for OurHash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = Xxh3::hash(bytes);
    }

    /// The length of a slice, which its bytes tell.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
