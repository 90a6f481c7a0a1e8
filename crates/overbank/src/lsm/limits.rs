//! What a tree may take: memory, lanes, files, and flash beside what it merges.

/// What a tree may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// RAM of frozen runs and fences, in bytes.
    pub(crate) frozen_bytes: usize,
    /// Entries of a run that a flush of full RAM makes.
    pub(crate) flush_entries: u64,
    /// Lanes of a merge that are open at a time: threads that may work on it.
    pub(crate) lanes: usize,
    /// Open merges at a time, beside a flush.
    pub(crate) merges: usize,
    /// Runs that a merge reads which is not due: each holds memory.
    pub(crate) inputs_max: usize,
    /// A merge of fewer entries is not worth a second thread, and its pieces not a second file.
    pub(crate) lane_entries_min: u64,
    /// Shorter pieces are not worth a sync of their own, whatever space they give back.
    pub(crate) piece_bytes_min: u64,
}

impl Limits {
    /// The share of the frozen runs' room at which a flush begins: by the time it is done, what has come since fills the rest.
    pub(crate) const FLUSH: (usize, usize) = (9, 16);
    /// [`Limits::lane_entries_min`] and [`Limits::piece_bytes_min`] of a tree that is not a test's.
    pub(crate) const LANE_ENTRIES_MIN: u64 = 1 << 20;
    pub(crate) const PIECE_BYTES_MIN: u64 = 256 << 10;
    /// The most pieces of a run: a merge of the whole tree gives its inputs' space back in so many parts. A merge of a few runs then holds
    /// a sixty-fourth of the tree for each beside what it writes, and a tree has some hundred files open.
    pub(crate) const PIECES_MAX: u64 = 64;
    /// The most pieces of a run that a merge makes while writers wait for it: each piece begins and ends with work that nothing overlaps.
    pub(crate) const PIECES_DUE_MAX: u64 = 24;
    /// The share of the tree's flash, and the least bytes, that merging all of it may take beside.
    pub(crate) const SPARE: (u64, u64) = (3, 25);
    pub(crate) const SPARE_BYTES_MIN: u64 = 4 << 20;

    /// Lanes of a merge of so many entries, for its threads.
    pub(super) fn lanes_for_threads(&self, entries: u64) -> u64 {
        (entries / self.lane_entries_min).clamp(1, self.lanes as u64)
    }

    /// Lanes of a merge of so many entries and bytes, where the tree has `all_bytes`: so many that none makes a piece that is a large part
    /// of the tree.
    pub(super) fn lanes_for_space(&self, entries: u64, bytes: u64, all_bytes: u64, most: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(most) / u128::from(all_bytes.max(1));
        let for_space = (share as u64).min(most).min(bytes / self.piece_bytes_min);
        self.lanes_for_threads(entries).max(for_space)
    }
}
