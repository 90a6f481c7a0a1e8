//! Keys that are inserted unless they are there, with the answer for each.
//!
//! ```text
//!   arrivals ─▶ rounds, by hash range ─▶ sort ─▶ first of equal ones ─▶ sums ─▶ 0: new, insert ─▶ mask in order of arrival
//! ```
//!
//! What a lookup on flash costs falls with the keys that are looked up together: a batch of a few thousand reads a block a key and
//! run, one of millions sweeps all runs at the device's sequential rate. [`Arrivals`] is for streams that can wait for that.

use super::Filter;
use super::class::WriteClass;
use super::shared::Shared;
use crate::batch::Sorter;
use crate::device::thread;
use crate::error::invalid;
use crate::lock::lock;
use crate::{KeyHash, Result};
use std::sync::Arc;

/// Rounds of a large batch: each looks through all hashes, some 1 ns each, for those of its range; more would take more of that, and
/// fewer more memory a round.
const ROUNDS_MAX: usize = 32;
/// Bytes of a key of a round: twice its hash and its place, for the sort.
const ROUND_KEY_BYTES: usize = 32;
/// Bytes of a waiting key: its hash, its answer, and its share of a round.
const KEY_BYTES: usize = 8 + 1 + (ROUND_KEY_BYTES * 5 / 4).div_ceil(ROUNDS_MAX);
/// Keys that a round takes at a time at least; their places are part of [`ROUND_BYTES`].
const ROUND_KEYS_MIN: usize = 1 << 14;
/// RAM of a round whatever the number of keys.
const ROUND_BYTES: usize = 4 << 20;
/// The least RAM: that of a round, and half as much for keys.
const MEMORY_BYTES_MIN: usize = 3 * ROUND_BYTES / 2;

/// Keys that wait to be inserted, in order of arrival: [`Filter::insert_if_absent`] for streams that can wait, so that
/// millions of keys share a sweep over the filter.
#[derive(Debug)]
pub struct Arrivals {
    prefixes: Vec<u64>,
    mask: Vec<bool>,
    capacity: usize,
}

impl Arrivals {
    /// Room for `memory_bytes`, 11 a key.
    ///
    /// # Errors
    /// `InvalidOption` below 6 MiB.
    pub fn new(memory_bytes: usize) -> Result<Self> {
        if memory_bytes < MEMORY_BYTES_MIN {
            return invalid(
                "memory_bytes",
                memory_bytes,
                format!("arrivals need at least {MEMORY_BYTES_MIN}"),
            );
        }
        let capacity = (memory_bytes - ROUND_BYTES) / KEY_BYTES;
        Ok(Arrivals { prefixes: Vec::new(), mask: Vec::new(), capacity })
    }

    /// Takes as many of `hashes` as fit, from the front, and returns how many.
    #[must_use = "what was not taken must be pushed again after they were inserted"]
    pub fn push(&mut self, hashes: &[KeyHash]) -> usize {
        let taken = hashes.len().min(self.capacity - self.prefixes.len());
        if self.prefixes.capacity() < self.prefixes.len() + taken {
            // Doubling, but never beyond the budget.
            let wanted = (2 * self.prefixes.capacity()).clamp(self.prefixes.len() + taken, self.capacity);
            self.prefixes.reserve_exact(wanted - self.prefixes.len());
        }
        self.prefixes.extend(hashes[..taken].iter().map(|hash| hash.high()));
        taken
    }

    /// Keys that wait.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Keys that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the next push takes nothing.
    pub fn is_full(&self) -> bool {
        self.prefixes.len() == self.capacity
    }

    /// Inserts those that are not in `filter`, and tells for each, in order of arrival, whether it was new. They wait no more.
    ///
    /// # Cost
    /// As [`Filter::insert_if_absent`] of all of them.
    ///
    /// # Errors
    /// As there. Some may be inserted then, and all wait on.
    pub fn insert_if_absent(&mut self, filter: &Filter) -> Result<&[bool]> {
        self.mask.clear();
        self.mask.reserve_exact(self.prefixes.len());
        self.mask.resize(self.prefixes.len(), false);
        filter.shared().insert_if_absent(&self.prefixes, &mut self.mask)?;
        self.prefixes.clear();
        Ok(&self.mask)
    }
}

/// So many questions are worth a thread.
const LANE_QUESTIONS: usize = 1 << 12;

/// Prefixes of a round with the same fingerprint: their places in order of arrival, and how often the filter has it.
struct Group<'a> {
    places: &'a [[u64; 2]],
    sum: i64,
}

impl Group<'_> {
    fn first(&self) -> usize {
        self.places[0][1] as usize
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        self.places[1..].iter().map(|place| place[1] as usize)
    }
}

/// Places of the keys of a round, sorted by fingerprint: no more of them than a round's share and a quarter, whatever the keys.
struct RoundPlaces {
    places: Vec<[u64; 2]>,
    scratch: Vec<[u64; 2]>,
    sorter: Sorter<[u64; 2]>,
    keys_max: usize,
}

impl RoundPlaces {
    fn new(keys: usize, rounds: usize) -> Self {
        let keys_max = (keys / rounds * 5 / 4).max(ROUND_KEYS_MIN);
        Self {
            places: Vec::with_capacity(keys_max.min(keys)),
            scratch: Vec::new(),
            sorter: Sorter::new(),
            keys_max,
        }
    }

    /// Takes as many as it may from the front, in order of arrival, and sorts them.
    fn sorted<'a>(&mut self, mask: u64, places: &mut impl Iterator<Item = (&'a u64, u64)>) -> &[[u64; 2]] {
        self.places.clear();
        self.places.extend(places.take(self.keys_max).map(|(prefix, place)| [prefix & mask, place]));
        self.sorter.sort(&mut self.places, &mut self.scratch);
        &self.places
    }
}

impl Shared {
    /// Sets the mask of those prefixes that are not in the filter, and inserts them through a memtable: of equal ones the first.
    pub(super) fn insert_if_absent(
        self: &Arc<Self>,
        mut prefixes: &[u64],
        mut mask: &mut [bool],
    ) -> Result<()> {
        self.writable()?;
        while !prefixes.is_empty() {
            let (now, later) = prefixes.split_at(self.room_for(prefixes.len()));
            let (mask_now, mask_later) = mask.split_at_mut(now.len());
            self.insert_together(now, mask_now)?;
            (prefixes, mask) = (later, mask_later);
        }
        Ok(())
    }

    /// How many of so many keys are to be asked for together; a generation may begin.
    fn room_for(&self, keys: usize) -> usize {
        let in_slots: usize = self.slots.iter().map(|slot| lock(slot).memtable.len()).sum();
        let in_memtables = (in_slots + self.tree.table.shards.entries()) as u64;
        let mut state = self.state();
        let room = state.room_for(keys, in_memtables, &self.options);
        self.note_class(&state);
        room
    }

    /// As [`Shared::insert_if_absent`], of prefixes for which the generation has room.
    fn insert_together(self: &Arc<Self>, prefixes: &[u64], mask: &mut [bool]) -> Result<()> {
        self.rounds(prefixes, true, |groups, class| {
            let new_groups = || groups.iter().filter(|group| group.sum <= 0);
            let new: Vec<usize> = new_groups().map(Group::first).collect();
            if new.len() >= self.options.memtable_keys() / 8 {
                self.add_sorted(new.iter().map(|&i| prefixes[i]))?;
            } else {
                self.add(new.iter().map(|&i| (prefixes[i], 0)), false)?;
            }
            if self.state().writes != class {
                self.add_others(prefixes, groups)?;
            }
            new.iter().for_each(|&i| mask[i] = true);
            Ok(())
        })
    }

    /// Inserts what was answered with the first of its group, and is not in: longer fingerprints, of a class that began meanwhile,
    /// tell apart what was alike. Another writer may have inserted the first with such a one before it was asked for.
    fn add_others(self: &Arc<Self>, prefixes: &[u64], groups: &[Group<'_>]) -> Result<()> {
        let mut others: Vec<u64> = (groups.iter())
            .flat_map(|group| group.others().map(|i| (prefixes[group.first()], prefixes[i])))
            .filter_map(|(first, other)| (other != first).then_some(other))
            .collect();
        others.sort_unstable();
        others.dedup();
        let mut sums = Vec::new();
        self.sums_side_by_side(&others, true, &mut sums)?;
        let absent: Vec<u64> = others.iter().zip(&sums).filter(|one| *one.1 <= 0).map(|one| *one.0).collect();
        self.add(absent.into_iter().map(|prefix| (prefix, 0)), false)
    }

    /// Sets the mask of those prefixes that are in the filter, and removes an occurrence of each.
    pub(super) fn remove_if_present(self: &Arc<Self>, prefixes: &[u64], mask: &mut [bool]) -> Result<()> {
        self.removable()?;
        self.rounds(prefixes, false, |groups, _| {
            let there = |group: &Group<'_>| group.places.len().min(usize::try_from(group.sum).unwrap_or(0));
            let places = groups.iter().flat_map(|group| &group.places[..there(group)]);
            let old: Vec<usize> = places.map(|place| place[1] as usize).collect();
            self.add(old.iter().map(|&i| (prefixes[i], 0)), true)?;
            old.iter().for_each(|&i| mask[i] = true);
            Ok(())
        })
    }

    /// Gives `each` the prefixes of one hash range after the other, those of one fingerprint together, with what the filter has of it,
    /// and the class whose fingerprints these are. No run has longer ones, unless other writers begin a generation meanwhile.
    fn rounds(
        self: &Arc<Self>,
        prefixes: &[u64],
        presence: bool,
        mut each: impl FnMut(&[Group<'_>], WriteClass) -> Result<()>,
    ) -> Result<()> {
        self.writable()?;
        if prefixes.len() >= self.options.memtable_keys() {
            // Few entries in a log would cost every question a search.
            self.freeze_all()?;
        }
        let rounds = prefixes.len().div_ceil(self.options.questions()).next_power_of_two().min(ROUNDS_MAX);
        let mut round_places = RoundPlaces::new(prefixes.len(), rounds);
        for round in 0..rounds as u64 {
            let in_round = |prefix: u64| rounds == 1 || prefix >> (64 - rounds.ilog2()) == round;
            let mut places = (prefixes.iter().zip(0u64..)).filter(|one| in_round(*one.0)).peekable();
            // More keys than a round's share, most of them one key, come one part after the other: in order of arrival, so that a later
            // part finds what an earlier one inserted.
            while places.peek().is_some() {
                let class = self.state().writes;
                let part = round_places.sorted(self.place(class).mask, &mut places);
                self.round(prefixes, part, class, presence, &mut each)?;
            }
        }
        Ok(())
    }

    /// The same for places that are sorted.
    fn round(
        self: &Arc<Self>,
        prefixes: &[u64],
        places: &[[u64; 2]],
        class: WriteClass,
        presence: bool,
        each: &mut impl FnMut(&[Group<'_>], WriteClass) -> Result<()>,
    ) -> Result<()> {
        let (mut asked, mut sums) = (Vec::new(), Vec::new());
        let mut alike = places.chunk_by(|a, b| a[0] == b[0]).peekable();
        while alike.peek().is_some() {
            let alike: Vec<&[[u64; 2]]> = alike.by_ref().take(self.options.questions()).collect();
            asked.clear();
            // Whole prefixes: a generation that begins now has longer fingerprints.
            asked.extend(alike.iter().map(|places| prefixes[places[0][1] as usize]));
            let (Some(first), Some(last)) = (asked.first(), asked.last()) else { continue };
            // Whoever asks in order to write does not rest, however long a sweep takes.
            self.tree.note_writer();
            // From the question to what follows from its answer, nobody else asks for these keys to insert or remove them.
            let _held = self.tree.table.shards.hold_range(*first..=*last);
            self.sums_side_by_side(&asked, presence, &mut sums)?;
            let groups: Vec<Group<'_>> =
                alike.iter().zip(&sums).map(|(places, &sum)| Group { places, sum }).collect();
            each(&groups, class)?;
        }
        Ok(())
    }

    /// As [`Shared::sums`], of a large batch by two threads if the store has threads.
    fn sums_side_by_side(&self, prefixes: &[u64], presence: bool, sums: &mut Vec<i64>) -> Result<()> {
        if self.tree.threads() == 0 || prefixes.len() < 2 * LANE_QUESTIONS {
            return self.sums(prefixes, presence, sums);
        }
        self.tree.join_frozen()?;
        let (front, back) = prefixes.split_at(prefixes.len() / 2);
        let mut others = Vec::new();
        let is_done = std::thread::scope(|scope| {
            let other =
                thread::start_scoped(scope, "overbank-ask", || self.sums(back, presence, &mut others));
            self.sums(front, presence, sums)?;
            match other {
                Ok(other) => {
                    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(|()| true)
                }
                Err(_) => Ok(false),
            }
        })?;
        if !is_done {
            self.sums(back, presence, &mut others)?;
        }
        sums.append(&mut others);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::cascade::FilterOptions;
    use crate::store::{Store, StoreOptions};

    #[test]
    fn what_was_alike_before_an_era_began_is_in_whoever_inserted_the_first() {
        let store = Store::in_memory(StoreOptions::new()).unwrap();
        let options = FilterOptions {
            keys: 8,
            false_positive_rate: 0.01,
            memory_bytes: 20 << 20,
            ..FilterOptions::default()
        };
        let filter = store.filter("f", options).unwrap();
        let before = filter.shared().place(filter.shared().state().writes).mask;
        // Alike in the first era, not in the one that has begun when they are asked for.
        let first = 0x1234_5678_9abc_def0 & before;
        let other = first | !before;
        assert_eq!(first & before, other & before);
        let hashes: Vec<KeyHash> = (0..100_000u64).map(|key| store.hasher().hash_u64(key)).collect();
        filter.insert(&hashes).unwrap();
        filter.insert(&[KeyHash::new(first, 0)]).unwrap();
        assert!(!filter.contains_many(&[KeyHash::new(other, 0)]).unwrap()[0]);
        let places = [[first & before, 0], [first & before, 1]];
        let group = Group { places: &places, sum: 1 };
        filter.shared().add_others(&[first, other], &[group]).unwrap();
        assert_eq!(
            filter.contains_many(&[first, other].map(|prefix| KeyHash::new(prefix, 0))).unwrap(),
            [true, true]
        );
        assert_eq!(filter.count_many(&[KeyHash::new(first, 0)]).unwrap(), [1]);
    }
}
