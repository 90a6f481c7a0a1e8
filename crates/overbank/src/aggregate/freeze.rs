//! Groups that are done become a dictionary, for lookups of one read: both are in hash order, so nothing is sorted.

use super::Groups;
use super::group::KeyState;
use super::scan::GroupScan;
use super::state::Aggregate;
use crate::dictionary::{Dictionary, HashedItem, SortedItems};
use crate::{KeyHasher, Result};

impl<A: Aggregate> Groups<A> {
    /// Writes all groups into a dictionary whose keys are hashed alike, as its newest items: `value` appends what a group's key is to
    /// have. Returns how many groups there are. Rows that come in meanwhile are in some of them.
    ///
    /// # Cost
    /// Two scans, the first of which counts, and the dictionary's pages written once, in order.
    ///
    /// # Errors
    /// `Incompatible` for a dictionary of another seed or hash function; as [`Groups::scan`] and
    /// [`Dictionary::insert_many`]. What was written before an error is not in.
    ///
    /// ```
    /// use overbank::aggregate::{Count, GroupsOptions};
    /// use overbank::dictionary::DictionaryOptions;
    /// use overbank::store::{Store, StoreOptions};
    ///
    /// let store = Store::in_memory(StoreOptions::new())?;
    /// let words = store.groups("words", Count, GroupsOptions::new().memory_bytes(8 << 20))?;
    /// words.insert_many(&["to", "be", "or", "not", "to", "be"], &[])?;
    /// let counts = store.dictionary("counts", DictionaryOptions::new())?;
    /// words.freeze(&counts, |group, value| value.extend(group.words[0].to_le_bytes()))?;
    /// assert_eq!(counts.get(b"be")?, Some(2u64.to_le_bytes().to_vec()));
    /// # Ok::<(), overbank::Error>(())
    /// ```
    pub fn freeze(
        &self,
        dictionary: &Dictionary,
        mut value: impl FnMut(&KeyState, &mut Vec<u8>),
    ) -> Result<u64> {
        crate::sketch::HashId::from(self.hasher()).require(dictionary.hasher().into())?;
        let (mut items, mut bytes, mut buffer) = (0u64, 0u64, Vec::new());
        let mut scan = self.scan()?;
        while let Some(group) = scan.next_group()? {
            buffer.clear();
            value(group, &mut buffer);
            items += 1;
            bytes += (group.key.len() + buffer.len()) as u64;
        }
        drop(scan);
        let mut states = States { scan: self.scan()?, hasher: self.hasher(), value, buffer };
        dictionary.load_sorted(items, bytes, &mut states)
    }
}

/// Groups as items.
struct States<A: Aggregate, F> {
    scan: GroupScan<A>,
    hasher: KeyHasher,
    value: F,
    buffer: Vec<u8>,
}

impl<A: Aggregate, F: FnMut(&KeyState, &mut Vec<u8>)> SortedItems for States<A, F> {
    fn next_item(&mut self) -> Result<Option<HashedItem<'_>>> {
        let Some(group) = self.scan.next_group()? else { return Ok(None) };
        self.buffer.clear();
        (self.value)(group, &mut self.buffer);
        Ok(Some((self.hasher.hash(&group.key), &group.key, &self.buffer)))
    }
}
