//! Decay of the counts, so that heavy keys of now outweigh those of long ago.

use super::{Front, Index, SpaceSaving};

impl SpaceSaving {
    /// Halves all counts, rounding down: what happened before weighs half from now on. A key whose count comes to 0 is absent.
    ///
    /// # Accuracy
    /// All bounds hold for the halved counts, each rounded down. They lie at most 1 further apart than half of what they did. A
    /// count that stands at `u64::MAX` stays there, and so does the total weight.
    ///
    /// # Cost
    /// O(capacity), and the index of the keys is made anew.
    pub fn decay(&mut self) {
        let mut kept = 0;
        for slot in 0..self.counts.len() {
            let (count, error) = (self.counts[slot], self.errors[slot]);
            let halved = if count == u64::MAX { count } else { count / 2 };
            if halved == 0 {
                continue;
            }
            self.counts[kept] = halved;
            self.errors[kept] = halved - (count - error) / 2;
            self.hashes[kept] = self.hashes[slot];
            self.keys.shift(slot, kept);
            kept += 1;
        }
        self.counts.truncate(kept);
        self.errors.truncate(kept);
        self.hashes.truncate(kept);
        for sum in [&mut self.total_weight, &mut self.missed] {
            // What is full says that it is not known.
            if *sum < u64::MAX {
                *sum /= 2;
            }
        }
        // Slots are other keys' now, and free ones may be filled with counts below any that there was.
        (self.admissions, self.floor) = (self.admissions + 1, 0);
        self.index = Index::new(self.capacity);
        self.front = Front::new(self.capacity);
        for (slot, &hash) in self.hashes.iter().enumerate() {
            if let Err(place) = self.index.find(hash, &self.hashes) {
                self.index.insert(place, hash, slot);
            }
        }
    }
}
