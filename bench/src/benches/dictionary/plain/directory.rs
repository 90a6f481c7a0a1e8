//! The two-level index of the virtual buckets: for each, where its items and its bits begin.
//!
//! ```text
//!   upper   u64 of items, u64 of bits       every 64th bucket (fewer buckets apart where buckets are larger than 256 keys)
//!   lower   u16 of items, u16 of bits       every bucket, counted from the upper one before it
//! ```
//!
//! Source: Lim, Andersen, Kaminsky, ALENEX 2013, section 2.3.

use super::stored::Stored;
use crate::Result;

#[derive(Debug)]
pub(super) struct Directory {
    buckets: u64,
    /// Buckets from one absolute offset to the next.
    group: u64,
    upper: Vec<(u64, u64)>,
    lower: Vec<(u16, u16)>,
    items: u64,
    bits: u64,
}

/// Where a bucket's items and bits begin, and how many items it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket {
    pub(super) first_item: u64,
    pub(super) items: u64,
    pub(super) first_bit: u64,
}

impl Directory {
    /// For so many buckets of so many keys on average.
    pub(super) fn new(buckets: u64, bucket_keys: u64) -> Self {
        let group = (64 * 256 / bucket_keys.max(1)).clamp(1, 64);
        Self { buckets, group, upper: Vec::new(), lower: Vec::new(), items: 0, bits: 0 }
    }

    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Adds the next bucket.
    pub(super) fn push(&mut self, items: u64, bits: u64) -> Result<()> {
        self.mark()?;
        (self.items, self.bits) = (self.items + items, self.bits + bits);
        Ok(())
    }

    /// Adds the end of the last bucket.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.mark()
    }

    fn mark(&mut self) -> Result<()> {
        if (self.lower.len() as u64).is_multiple_of(self.group) {
            self.upper.push((self.items, self.bits));
        }
        let (items, bits) = *self.upper.last().ok_or("no upper offset")?;
        let too_large = "the buckets are too large for offsets of 16 bits";
        let items = u16::try_from(self.items - items).map_err(|_| too_large)?;
        let bits = u16::try_from(self.bits - bits).map_err(|_| too_large)?;
        self.lower.push((items, bits));
        Ok(())
    }

    pub(super) fn get(&self, bucket: u64) -> Bucket {
        let start = |at: u64| {
            let (items, bits) = self.upper[(at / self.group) as usize];
            let (more_items, more_bits) = self.lower[at as usize];
            (items + u64::from(more_items), bits + u64::from(more_bits))
        };
        let (first_item, first_bit) = start(bucket);
        Bucket { first_item, items: start(bucket + 1).0 - first_item, first_bit }
    }

    pub(super) fn size_bits(&self) -> u64 {
        self.upper.len() as u64 * 128 + self.lower.len() as u64 * 32
    }

    pub(super) fn store(&self, into: &mut Stored) {
        into.push([self.buckets, self.group, self.items, self.bits]);
        into.push(self.upper.iter().flat_map(|(items, bits)| [*items, *bits]));
        into.push(self.lower.iter().map(|(items, bits)| u64::from(*items) << 16 | u64::from(*bits)));
    }

    pub(super) fn load(from: &mut Stored) -> Result<Self> {
        let [buckets, group, items, bits] = from.pop()?[..] else { return Err("no directory".into()) };
        let upper = from.pop()?.as_chunks::<2>().0.iter().map(|pair| (pair[0], pair[1])).collect();
        let lower = from.pop()?.iter().map(|pair| ((pair >> 16) as u16, *pair as u16)).collect();
        Ok(Self { buckets, group, upper, lower, items, bits })
    }
}
