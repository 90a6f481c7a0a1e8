//! What every store can do here, and what it is given.

use crate::Result;
use items::{Asked, Items};
use std::path::Path;

/// A store, by its name.
pub(crate) struct Engine {
    /// The name on the command line and in figures.
    pub(crate) name: &'static str,
    /// One sentence with the settings that matter, for so much memory.
    pub(crate) settings: fn(usize) -> String,
    /// Opens the store in a folder, or makes one, for so much memory.
    pub(crate) open: fn(&Path, usize) -> Result<Box<dyn Store>>,
}

/// Looks up the keys of a [`Look`], each of which must be there with its value.
pub(crate) type Reader<'s> = Box<dyn FnMut(&mut Look) -> Result<()> + 's>;

/// An open store.
pub(crate) trait Store: Sync {
    /// Bytes of keys and values that it likes to get together.
    fn batch_bytes(&self) -> usize;

    /// Inserts a batch, which it may put into another order.
    fn insert(&mut self, batch: &mut Batch) -> Result<()>;

    /// Everything that was inserted is on disk and synced, and merged as far as its settings say.
    fn finish(&mut self) -> Result<()>;

    /// A reader for one thread.
    fn reader(&self) -> Result<Reader<'_>>;

    /// RAM that its indexes and filters take, where it tells.
    fn index_bytes(&self) -> Option<u64> {
        None
    }
}

/// Items back to back.
pub(crate) struct Batch {
    items: Items,
    bytes: Vec<u8>,
    limit: usize,
    order: Vec<u32>,
}

impl Batch {
    pub(crate) fn new(items: Items, bytes: usize) -> Self {
        Self { items, bytes: Vec::new(), limit: (bytes / items.item_bytes()).max(1), order: Vec::new() }
    }

    /// Puts in items from `first` on, below `end`; returns the first that was not.
    pub(crate) fn fill(&mut self, first: u64, end: u64) -> u64 {
        let next = end.min(first + self.limit as u64);
        self.bytes.resize((next - first) as usize * self.items.item_bytes(), 0);
        let places = self.bytes.chunks_exact_mut(self.items.item_bytes());
        (first..next).zip(places).for_each(|(number, place)| self.items.fill(number, place));
        next
    }

    /// Keys and values in the order of their arrival.
    pub(crate) fn arrived(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.bytes.chunks_exact(self.items.item_bytes()).map(|item| item.split_at(self.items.key_bytes()))
    }

    /// Keys and values in the order of the keys: for trees that walk less then.
    pub(crate) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (bytes, item_bytes, key_bytes) = (&self.bytes, self.items.item_bytes(), self.items.key_bytes());
        let key = |at: u32| &bytes[at as usize * item_bytes..][..key_bytes];
        self.order.clear();
        self.order.extend(0..(bytes.len() / item_bytes) as u32);
        self.order.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
        self.order.iter().map(move |at| bytes[*at as usize * item_bytes..][..item_bytes].split_at(key_bytes))
    }
}

/// Keys that are looked up together, and the values that must come.
pub(crate) struct Look {
    items: Items,
    bytes: Vec<u8>,
}

impl Look {
    pub(crate) fn new(items: Items, batch: u64) -> Self {
        Self { items, bytes: vec![0; batch as usize * items.item_bytes()] }
    }

    /// Draws the next keys.
    pub(crate) fn fill(&mut self, asked: &mut Asked) {
        let places = self.bytes.chunks_exact_mut(self.items.item_bytes());
        places.zip(asked).for_each(|(place, number)| self.items.fill(number, place));
    }

    /// Each key with the value that must come.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.bytes.chunks_exact(self.items.item_bytes()).map(|item| item.split_at(self.items.key_bytes()))
    }

    /// Looks up one key after the other.
    pub(crate) fn each(&self, mut is_there: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        self.pairs().try_for_each(|(key, value)| check(is_there(key, value)?))
    }
}

/// Fails where a key was not found with its value.
pub(crate) fn check(is_there: bool) -> Result<()> {
    if is_there { Ok(()) } else { Err("a key was not found with its value".into()) }
}
