//! A map that holds no empty slots, as the sparse hash map that the paper compares with.
//!
//! ```text
//!   slot s: group s / 48, place s % 48        group: 48 bits ▮▮▯▮…  and an array of the slots that are taken, exactly as long
//! ```
//!
//! Slots are probed quadratically; at a load of 0.8 their number doubles, a group at a time, so that what was moved is free at once.
//! An insertion makes the array of its group anew: that is the price.
//!
//! Where the original keeps a pointer and counts the bits, a safe slice has its length, too: 4 bits a slot instead of 2.67.

use super::phases::{Phase, Phases};
use super::{Hashing, Map, Stored, Xxh3, one_more};
use crate::{Metric, Result};
use std::marker::PhantomData;

const GROUP_SLOTS: usize = 48;
const LG_SLOTS_MIN: u32 = 5;

/// The map, and what its parts take.
pub(in super::super) struct Sparse<K, H = Xxh3> {
    table: Table<K, H>,
    phases: Phases,
}

impl<K, H> Default for Sparse<K, H> {
    fn default() -> Self {
        Self { table: Table::with_slots(LG_SLOTS_MIN), phases: Phases::new() }
    }
}

struct Table<K, H> {
    hashing: PhantomData<H>,
    groups: Vec<Group<K>>,
    lg_slots: u32,
    keys: usize,
}

struct Group<K> {
    /// Bit `i`: place `i` is taken.
    taken: u64,
    slots: Box<[Slot<K>]>,
}

struct Slot<K> {
    key: K,
    count: u32,
}

impl<K, H> Table<K, H> {
    fn with_slots(lg_slots: u32) -> Self {
        let empty = || Group { taken: 0, slots: Box::default() };
        let groups = (0..(1usize << lg_slots).div_ceil(GROUP_SLOTS)).map(|_| empty()).collect();
        Self { hashing: PhantomData, groups, lg_slots, keys: 0 }
    }

    /// The slots that a hash looks at, one after another: all of them in the end.
    fn probes(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> + use<K, H> {
        let mask = (1usize << self.lg_slots) - 1;
        let mut slot = hash as usize & mask;
        (1..).map(move |step| {
            let probed = slot;
            slot = (slot + step) & mask;
            (probed / GROUP_SLOTS, (probed % GROUP_SLOTS) as u32)
        })
    }

    /// Puts a slot that is not there.
    fn put(&mut self, hash: u64, slot: Slot<K>) {
        let free = self.probes(hash).find(|&(group, place)| self.groups[group].slot(place).is_none());
        if let Some((group, place)) = free {
            self.groups[group].put(place, slot);
            self.keys += 1;
        }
    }
}

impl<K: Stored, H: Hashing> Table<K, H> {
    fn grow(&mut self) {
        let mut wider = Self::with_slots(self.lg_slots + 1);
        for group in std::mem::take(&mut self.groups) {
            for slot in group.slots {
                wider.put(H::hash(slot.key.bytes()), slot);
            }
        }
        *self = wider;
    }

    /// Counts a key once more, if it is there.
    fn count(&mut self, hash: u64, key: &[u8]) -> Option<Result<()>> {
        for (group, place) in self.probes(hash) {
            let group = &mut self.groups[group];
            if group.taken >> place & 1 == 0 {
                return None;
            }
            let rank = group.rank(place);
            let slot = &mut group.slots[rank];
            if slot.key.bytes() == key {
                return Some(one_more(&mut slot.count));
            }
        }
        None
    }
}

impl<K> Group<K> {
    fn rank(&self, place: u32) -> usize {
        (self.taken & ((1 << place) - 1)).count_ones() as usize
    }

    fn slot(&self, place: u32) -> Option<&Slot<K>> {
        if self.taken >> place & 1 == 0 { None } else { self.slots.get(self.rank(place)) }
    }

    fn put(&mut self, place: u32, slot: Slot<K>) {
        let mut slots = Vec::with_capacity(self.slots.len() + 1);
        let rank = self.rank(place);
        let mut old = std::mem::take(&mut self.slots).into_iter();
        slots.extend(old.by_ref().take(rank));
        slots.push(slot);
        slots.extend(old);
        self.slots = slots.into_boxed_slice();
        self.taken |= 1 << place;
    }
}

impl<K: Stored, H: Hashing> Map for Sparse<K, H> {
    fn count(&mut self, key: &[u8]) -> Result<()> {
        let Self { table, phases } = self;
        let is_timed = phases.begin_row();
        let (hash, found) = phases.time(is_timed, Phase::Find, || {
            let hash = H::hash(key);
            (hash, table.count(hash, key))
        });
        if let Some(counted) = found {
            return counted;
        }
        if (table.keys + 1) * 5 > 4 << table.lg_slots {
            phases.time_resize(|| table.grow());
        }
        let slot = phases.time(is_timed, Phase::Key, || Slot { key: K::of(key), count: 1 });
        phases.time(is_timed, Phase::Place, || table.put(hash, slot));
        Ok(())
    }

    fn breakdown(&self) -> Vec<(Metric, u64)> {
        self.phases.breakdown()
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) {
        for slot in self.table.groups.iter().flat_map(|group| &group.slots) {
            visit(slot.key.bytes(), u64::from(slot.count));
        }
    }
}
