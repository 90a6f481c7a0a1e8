//! What is asked of a dictionary: random items, by threads that draw each their own.

use super::Shape;
use crate::Result;
use items::{Asked, Items};

/// What a reader looks up together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asking {
    pub(super) lookups: u64,
    pub(super) threads: u64,
    pub(super) batch: u64,
    pub(super) seed: u64,
}

/// Items that are looked up together.
pub(super) struct Looked {
    items: Items,
    bytes: Vec<u8>,
}

impl Looked {
    pub(super) fn new(items: Items, count: usize) -> Self {
        Self { items, bytes: vec![0; count * items.item_bytes()] }
    }

    pub(super) fn draw(&mut self, asked: &mut Asked) {
        let places = self.bytes.chunks_exact_mut(self.items.item_bytes());
        places.zip(asked).for_each(|(place, number)| self.items.fill(number, place));
    }

    /// Key and value of one of them.
    pub(super) fn pair(&self, at: usize) -> (&[u8], &[u8]) {
        let item_bytes = self.items.item_bytes();
        self.bytes[at * item_bytes..][..item_bytes].split_at(self.items.key_bytes())
    }

    pub(super) fn keys(&self) -> Vec<&[u8]> {
        let items = self.bytes.chunks_exact(self.items.item_bytes());
        items.map(|item| &item[..self.items.key_bytes()]).collect()
    }
}

/// Does the same work in each thread, with other keys.
pub(super) fn by_threads(
    shape: Shape,
    asking: Asking,
    work: impl Fn(&mut Asked) -> Result<()> + Sync,
) -> Result<()> {
    std::thread::scope(|scope| {
        let start = |thread| {
            let work = &work;
            scope.spawn(move || work(&mut Asked::new(shape.count, asking.seed << 8 | thread)))
        };
        let threads: Vec<_> = (0..asking.threads).map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a reader panicked")?)
    })
}

/// Fails where a key was not found with its value.
pub(super) fn check(is_there: bool) -> Result<()> {
    if is_there { Ok(()) } else { Err("a key was not found with its value".into()) }
}
