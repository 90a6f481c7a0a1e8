//! The classic Bloom filter in a memory map: each bit of a key on a page of its own.

use super::filter::Filter;
use crate::{Mapping, Readahead, Result, bloom_contains, bloom_insert};
use keyhash::KeyHash;
use std::path::Path;

/// Keys between two looks at the time: this filter may do a hundred a second.
const PART_KEYS: usize = 16;

pub(super) struct Mapped {
    map: Mapping,
}

impl Mapped {
    /// The filter that is all of `file`; to build one in ample memory, the kernel may read ahead.
    pub(super) fn open(file: &Path, readahead: Readahead) -> Result<Self> {
        Ok(Self { map: Mapping::open(file, readahead)? })
    }
}

impl Filter for Mapped {
    fn insert(&mut self, hashes: &[KeyHash]) -> Result<()> {
        let bytes = self.map.bytes();
        hashes.iter().for_each(|&hash| bloom_insert(bytes, hash));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.map.sync()
    }

    fn contains(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let bytes = self.map.bytes();
        Ok(hashes.iter().map(|&hash| bloom_contains(bytes, hash)).collect())
    }

    fn part_keys(&self) -> usize {
        PART_KEYS
    }
}

#[cfg(test)]
mod tests {
    use super::super::{hasher, keys::Keys};
    use super::*;
    use crate::{bloom_bytes, write_zeros};

    #[test]
    fn what_was_inserted_is_found_when_it_is_opened_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("filter");
        write_zeros(&file, bloom_bytes(5_000, 4e-4, 4096).expect("small") as u64).expect("written");
        let hashes = Keys::new(10_000).first(10_000);
        let (present, absent) = hashes.split_at(5_000);
        let mut filter = Mapped::open(&file, Readahead::Off).expect("mapped");
        filter.insert(present).expect("inserted");
        filter.finish().expect("synced");
        let mut again = Mapped::open(&file, Readahead::Default).expect("mapped");
        assert!(again.contains(present).expect("read").iter().all(|&found| found));
        let hits = again.contains(absent).expect("read").iter().filter(|&&found| found).count();
        assert!(hits < 20, "{hits} of 5,000 where 2 are expected");
        let unknown = [hasher().hash_u64(1), hasher().hash_u64(1)];
        assert_eq!(again.insert_if_absent(&unknown).expect("inserted"), [true, false]);
    }
}
