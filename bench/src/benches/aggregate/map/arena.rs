//! The maps that a Rust programmer writes today: hashbrown's, with the keys in one arena or in place.

use super::{Hashing, Map, Stored, Xxh3, one_more};
use crate::Result;
use hashbrown::HashTable;
use std::marker::PhantomData;

/// Keys one after another in a vector; the table says where.
pub(in super::super) struct Arena<H = Xxh3> {
    hashing: PhantomData<H>,
    keys: Vec<u8>,
    table: HashTable<Entry>,
}

impl<H> Default for Arena<H> {
    fn default() -> Self {
        Self { hashing: PhantomData, keys: Vec::new(), table: HashTable::new() }
    }
}

struct Entry {
    at: u32,
    length: u8,
    count: u32,
}

impl Entry {
    fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        &keys[self.at as usize..][..usize::from(self.length)]
    }
}

impl<H: Hashing> Map for Arena<H> {
    fn count(&mut self, key: &[u8]) -> Result<()> {
        let Self { keys, table, .. } = self;
        let hash = H::hash(key);
        if let Some(entry) = table.find_mut(hash, |entry| entry.key(keys) == key) {
            return one_more(&mut entry.count);
        }
        let at = u32::try_from(keys.len()).map_err(|_| "the arena holds 4 GiB of keys")?;
        keys.extend_from_slice(key);
        let entry = Entry { at, length: u8::try_from(key.len())?, count: 1 };
        table.insert_unique(hash, entry, |entry| H::hash(entry.key(keys)));
        Ok(())
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) {
        self.table.iter().for_each(|entry| visit(entry.key(&self.keys), u64::from(entry.count)));
    }
}

/// Keys in the table.
pub(in super::super) struct Flat<K, H = Xxh3> {
    hashing: PhantomData<H>,
    table: HashTable<(K, u32)>,
}

impl<K, H> Default for Flat<K, H> {
    fn default() -> Self {
        Self { hashing: PhantomData, table: HashTable::new() }
    }
}

impl<K: Stored, H: Hashing> Map for Flat<K, H> {
    fn count(&mut self, key: &[u8]) -> Result<()> {
        let hash = H::hash(key);
        if let Some((_, count)) = self.table.find_mut(hash, |(known, _)| known.bytes() == key) {
            return one_more(count);
        }
        self.table.insert_unique(hash, (K::of(key), 1), |(known, _)| H::hash(known.bytes()));
        Ok(())
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) {
        self.table.iter().for_each(|(key, count)| visit(key.bytes(), u64::from(*count)));
    }
}
