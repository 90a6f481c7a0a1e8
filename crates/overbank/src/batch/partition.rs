//! Stable partition of records by hash range or by any index, with write-combining.
//!
//! ```text
//!   from   r r r r r r r …
//!            │ index(r)
//!            ▼
//!   lines  [····▒▒▒▒] [▒▒······] …     one line of ~64 bytes a partition, all of them in L2
//!              │ full: one copy of a whole line
//!              ▼
//!   into   │ partition 0 │ partition 1 │ …      ends[p] = where partition p ends
//! ```
//!
//! Scattering record by record touches a page of memory for each; scattering line by line touches one for
//! each line.
//!
//! Invariants:
//! 1. Slot `s` of a line waits for a position `= s` modulo the line's length, so a full line goes to a whole
//!    line of `into`.
//! 2. A first line that starts inside another partition's last one is copied whole, and so overwrites what is
//!    not its own; the partial last lines, written after all full ones, put that right.
//!
//! | cost | |
//! |---|---|
//! | CPU | two passes: O(records + partitions) |
//! | RAM | partitions x (one line + 16 bytes), kept for the next call |

use super::order::HashOrdered;
use crate::bits::stream::{LINE_BYTES, LineWriter};

/// The most partitions a call may ask for: 2^16 lines still fit a second-level cache of 4 MiB, and more want
/// two passes.
const PARTITIONS_MAX: usize = 1 << 16;

/// Partitions slices of records; keeps its lines and counts from call to call.
///
/// ```
/// # #[cfg(feature = "internals")]
/// # {
/// use overbank::batch::Partitioner;
/// let mut into = [0u64; 3];
/// let ends = Partitioner::new().by_prefix(&[3 << 62, 0, 1 << 62], 2, &mut into).to_vec();
/// assert_eq!(into, [0, 1 << 62, 3 << 62]);
/// assert_eq!(ends, [1, 2, 2, 3]);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Partitioner<T> {
    lines: Vec<T>,
    cursors: Vec<usize>,
    ends: Vec<usize>,
}

impl<T: HashOrdered> Partitioner<T> {
    /// A partitioner that holds no memory yet.
    pub fn new() -> Self {
        Self { lines: Vec::new(), cursors: Vec::new(), ends: Vec::new() }
    }

    /// Bytes that it will hold after a call for this many partitions.
    pub const fn memory_bytes(partitions: usize) -> usize {
        (partitions + 1) * (line_records::<T>() * size_of::<T>() + 2 * size_of::<usize>())
    }

    /// Bytes that it holds now.
    pub(super) fn held_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<T>()
            + (self.cursors.capacity() + self.ends.capacity()) * size_of::<usize>()
    }

    /// Partitions by the top `lg_partitions` bits of the hash, in hash order; records of a partition stay in
    /// order of arrival. Returns where each partition ends in `into`.
    ///
    /// # Panics
    /// When `into` is not as long as `from`, or `lg_partitions` is above 16.
    #[cfg(feature = "internals")]
    pub fn by_prefix(&mut self, from: &[T], lg_partitions: u32, into: &mut [T]) -> &[usize] {
        assert!(lg_partitions <= PARTITIONS_MAX.ilog2(), "at most 2^16 partitions");
        // Two shifts, for a shift by 64 is not defined and one partition needs it.
        let shift = 63 - lg_partitions;
        self.by_index(from, 1 << lg_partitions, |record| (record.prefix() >> shift >> 1) as usize, into)
    }

    /// Partitions by `index(record)`, which must be below `partitions` and the same each time it is asked.
    /// Returns where each partition ends in `into`.
    ///
    /// # Panics
    /// When `into` is not as long as `from`, when `partitions` is 0 or above 2^16, or when an
    /// index is not below `partitions`.
    #[cfg(any(test, feature = "internals"))]
    pub fn by_index(
        &mut self,
        from: &[T],
        partitions: usize,
        index: impl Fn(&T) -> usize,
        into: &mut [T],
    ) -> &[usize] {
        self.count(from, partitions, &index);
        self.scatter(from, index, into)
    }

    /// The first pass: how many records each partition gets. Returns where each will end.
    pub(super) fn count(&mut self, from: &[T], partitions: usize, index: impl Fn(&T) -> usize) -> &[usize] {
        assert!((1..=PARTITIONS_MAX).contains(&partitions), "1 to 2^16 partitions");
        self.ends.clear();
        self.ends.resize(partitions, 0);
        let counts = &mut self.ends[..];
        for record in from {
            let count = &mut counts[index(record)];
            *count = count.wrapping_add(1);
        }
        self.cursors.clear();
        let mut end = 0;
        for count in counts {
            self.cursors.push(end);
            end += *count;
            *count = end;
        }
        &self.ends
    }

    /// Where each partition of the last call ends.
    pub(super) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The second pass, after [`Partitioner::count`] of the same records by the same index.
    pub(super) fn scatter(&mut self, from: &[T], index: impl Fn(&T) -> usize, into: &mut [T]) -> &[usize] {
        assert_eq!(from.len(), into.len(), "a place for each record");
        let (lines, cursors, ends) = (&mut self.lines, &mut self.cursors, &self.ends[..]);
        lines.resize((ends.len() + 1) * line_records::<T>(), T::default());
        // From a line's border, so that no line straddles two of the cache's.
        let border = lines.as_ptr().align_offset(LINE_BYTES);
        let lines = &mut lines[if border < line_records::<T>() { border } else { 0 }..];
        match line_records::<T>() {
            16 => scatter_lines::<T, 16>(from, index, into, lines, cursors, ends),
            8 => scatter_lines::<T, 8>(from, index, into, lines, cursors, ends),
            _ => scatter_lines::<T, 4>(from, index, into, lines, cursors, ends),
        }
        ends
    }
}

/// Records in a line: 64 bytes of them, and never fewer than 4.
const fn line_records<T>() -> usize {
    match size_of::<T>() {
        0..=4 => 16,
        5..=8 => 8,
        _ => 4,
    }
}

/// Positions are counted from `lead` records before `into`, so that a multiple of `LINE` falls on a cache
/// line.
fn scatter_lines<T: HashOrdered, const LINE: usize>(
    from: &[T],
    index: impl Fn(&T) -> usize,
    into: &mut [T],
    lines: &mut [T],
    cursors: &mut [usize],
    ends: &[usize],
) {
    let head = into.as_ptr().align_offset(LINE_BYTES);
    let head = if head < LINE { head.min(into.len()) } else { 0 };
    let lead = LINE - head;
    let (lines, _) = lines.as_chunks_mut::<LINE>();
    cursors.iter_mut().for_each(|cursor| *cursor += lead);
    {
        let writer = LineWriter::new();
        let (head, body) = into.split_at_mut(head);
        // A position whose line is full lies in a whole chunk, so the remainder never receives one.
        let (places, _) = body.as_chunks_mut::<LINE>();
        for record in from {
            let partition = index(record);
            let (line, cursor) = (&mut lines[partition], &mut cursors[partition]);
            let at = *cursor;
            line[at % LINE] = *record;
            *cursor = at.wrapping_add(1);
            if at % LINE == LINE - 1 {
                match places.get_mut((at / LINE).wrapping_sub(1)) {
                    Some(place) => writer.copy(place, line),
                    None => head.copy_from_slice(&line[LINE - head.len()..]),
                }
            }
        }
    }
    let mut start = 0;
    for (line, &end) in lines.iter().zip(ends) {
        let begin = (end + lead) - (end + lead) % LINE;
        let first = start.max(begin.saturating_sub(lead));
        into[first..end].copy_from_slice(&line[(first + lead) % LINE..][..end - first]);
        start = end;
    }
}
