//! A chunk's rows by shard.

use keyhash::KeyHash;

/// A chunk's rows grouped by shard, each group in stream order. The hashes are copied along, so that a shard reads its
/// own from end to end; fetching each from its row cost a cache miss a row, a quarter of a profile's time.
#[derive(Debug, Default)]
pub(super) struct Groups {
    rows: Vec<u32>,
    hashes: Vec<KeyHash>,
    /// Where each shard's rows begin, and where the last one's end; empty where there is one shard.
    starts: Vec<u32>,
}

/// The rows of one shard, in stream order.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    hashes: &'a [KeyHash],
    /// Their numbers within the chunk; `None` if they are all of the chunk's.
    rows: Option<&'a [u32]>,
}

impl<'a> Group<'a> {
    /// The hash of each row.
    pub fn hashes(&self) -> &'a [KeyHash] {
        self.hashes
    }

    /// The number within the chunk of the group's `i`-th row.
    ///
    /// # Panics
    /// If there are not more than `i` rows, and more than one shard.
    #[inline]
    pub fn row(&self, i: usize) -> usize {
        self.rows.map_or(i, |rows| rows[i] as usize)
    }
}

impl Groups {
    /// Groups `hashes` into `1 << lg_shards` ranges of the hash. One range is the chunk as it stands: nothing is copied.
    ///
    /// # Panics
    /// If there are 2³² hashes or more; chunks are far smaller.
    pub(super) fn assign(&mut self, hashes: &[KeyHash], lg_shards: u32) {
        self.starts.clear();
        if lg_shards == 0 {
            return;
        }
        let shards = 1usize << lg_shards;
        let shard_of = |hash: &KeyHash| shard_of(*hash, lg_shards);
        u32::try_from(hashes.len()).expect("a chunk has fewer than 2^32 rows");
        self.starts.resize(shards + 1, 0);
        for hash in hashes {
            self.starts[shard_of(hash) + 1] += 1;
        }
        for shard in 0..shards {
            self.starts[shard + 1] += self.starts[shard];
        }
        // What is left of the last chunk is overwritten: every place is some row's.
        self.rows.resize(hashes.len(), 0);
        self.hashes.resize(hashes.len(), KeyHash::default());
        let mut at = self.starts.clone();
        for (row, hash) in hashes.iter().enumerate() {
            let next = &mut at[shard_of(hash)];
            self.rows[*next as usize] = row as u32;
            self.hashes[*next as usize] = *hash;
            *next += 1;
        }
    }

    /// The rows of one shard of the chunk with these `hashes`, which were assigned last.
    pub(super) fn shard<'a>(&'a self, shard: usize, hashes: &'a [KeyHash]) -> Group<'a> {
        let Some(&[start, end]) = self.starts.get(shard..shard + 2) else {
            return Group { hashes, rows: None };
        };
        let range = start as usize..end as usize;
        Group { hashes: &self.hashes[range.clone()], rows: Some(&self.rows[range]) }
    }
}

/// The shard of a hash: its top `lg_shards` bits.
#[inline]
pub(crate) fn shard_of(hash: KeyHash, lg_shards: u32) -> usize {
    (hash.high() >> 1 >> (63 - lg_shards)) as usize
}
