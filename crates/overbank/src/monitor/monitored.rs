//! What a sketch tells the framework, to be kept by many workers at once.

use super::key::Key;
use super::rule::Rule;

/// Reads counters: `read(places, sums)` sets `sums[i]` to what counter `places[i]` holds. At most 64 at a time.
pub trait ReadCounters: FnMut(&[u32], &mut [u64]) {}

impl<F: FnMut(&[u32], &mut [u64])> ReadCounters for F {}

/// A sketch of counters, which every worker has in 8 bits and the aggregator in 64.
///
/// It holds no counters itself: it is the shape, copied or shared by all, and says which counters an element changes.
pub trait Monitored: Send + Sync + 'static {
    /// What is inserted.
    type Element: Copy;
    /// What a message carries to say whom it is about.
    type Key: Key;
    /// What counters do.
    type Rule: Rule;
    /// Whether the aggregator keeps the keys that weigh most.
    const SHOWS_KEYS: bool;

    /// How many counters there are.
    fn cells(&self) -> usize;

    /// The element's weight: what is summed to the total.
    fn weight(&self, element: Self::Element) -> u64;

    /// Calls `change(counter, amount)` for each counter that the element changes.
    fn visit(&self, element: Self::Element, change: impl FnMut(usize, u64));

    /// As [`visit`](Self::visit) while the threshold is `tau`: calls `change(counter, amount, threshold)`, where a sketch may ask for
    /// a lower threshold of some counters, 1 or more.
    #[inline(always)]
    fn visit_below(&self, element: Self::Element, tau: u8, mut change: impl FnMut(usize, u64, u8)) {
        self.visit(element, |counter, amount| change(counter, amount, tau));
    }

    /// The element's key.
    fn key(&self, element: Self::Element) -> Self::Key;

    /// How many groups of keys there are: the heaviest of each are kept.
    #[inline]
    fn groups(&self) -> usize {
        1
    }

    /// A key's group, below [`groups`](Self::groups).
    #[inline]
    fn group_of(&self, _key: Self::Key) -> usize {
        0
    }

    /// What the counters say of a key, and 64 bits that keys are told apart by quickly; `None` for a sketch that shows no keys.
    #[inline]
    fn weigh(&self, _key: Self::Key, _read: impl ReadCounters) -> Option<Weighed> {
        None
    }
}

/// A key's weight and its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weighed {
    /// What the counters say.
    pub weight: u64,
    /// 64 bits of a hash of the key.
    pub hash: u64,
}
