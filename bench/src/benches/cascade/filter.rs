//! What a contest asks of a filter on flash: ours and the rivals'.

use crate::Result;
use keyhash::KeyHash;

/// Keys of a call of an insert: 64 KiB of hashes stay in a first- or second-level cache.
pub(super) const BATCH_KEYS: usize = 4096;

/// A thread that adds keys beside others.
pub(super) type Adder<'a> = Box<dyn FnMut(&[KeyHash]) -> Result<()> + Send + 'a>;

/// A filter on flash.
pub(super) trait Filter {
    /// Adds keys.
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()>;

    /// Takes keys out that are in, where the filter can.
    fn remove(&mut self, _hashes: &[KeyHash]) -> Result<()> {
        Err("this filter has no removals".into())
    }

    /// Adds the keys that are not in, and tells which: `true` is new.
    fn insert_if_absent(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut new = Vec::with_capacity(hashes.len());
        for hash in hashes.chunks(1) {
            let is_new = !self.contains(hash)?[0];
            if is_new {
                self.insert(hash)?;
            }
            new.push(is_new);
        }
        Ok(new)
    }

    /// Moves what waits in RAM to flash, and syncs.
    fn finish(&mut self) -> Result<()>;

    /// Which keys are in.
    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>>;

    /// Bits a key in RAM that save look-ups reads, where the filter has such.
    fn front_bits(&mut self) -> Option<f64> {
        None
    }

    /// Bits of flash a key, where the filter says it.
    fn bits_per_key(&mut self) -> Option<f64> {
        None
    }

    /// Keys of a call of `insert`, so that a slow filter looks at the time often enough.
    fn part_keys(&self) -> usize {
        BATCH_KEYS
    }

    /// So many threads that add, where the filter can.
    fn adders(&mut self, _count: usize) -> Result<Vec<Adder<'_>>> {
        Err("this filter has one writer".into())
    }
}

/// Fails unless all these keys, which were inserted, are found.
pub(super) fn check(engine: &str, filter: &mut dyn Filter, hashes: &[KeyHash]) -> Result<()> {
    match filter.contains(hashes)?.iter().position(|&found| !found) {
        None => Ok(()),
        Some(at) => {
            Err(format!("{engine} does not find key {at} of {}, which was inserted", hashes.len()).into())
        }
    }
}
