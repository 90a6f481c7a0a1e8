//! A leaf whose records wait on flash: how they get there, and how groups become of them.
//!
//! ```text
//!   pieces ──a part of the hashes at a time──▶ pending ─▶ pages of a leaf of their own      too many groups: half of the hashes
//! ```

use super::{Ground, Leaf, Scratch, get_from};
use crate::Result;
use crate::aggregate::backlog::{Backlog, BacklogFile};
use crate::aggregate::group::KeyState;
use crate::aggregate::pool::{BLOCK_BYTES, Pool};
use crate::aggregate::record::Chunk;
use crate::aggregate::state::Aggregate;
use crate::device::AlignedBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The most bits of a hash that tell parts of a leaf apart: what does not fit the memory then are states of some KiB each of as many
/// groups of one part, and takes more.
const LG_PARTS_MAX: u32 = 16;

/// What gathering may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct GatherLimits {
    /// Of pages.
    pub(in crate::aggregate) bytes: usize,
    /// Of records whose groups are not there.
    pub(in crate::aggregate) missing_blocks: usize,
}

/// The hashes of a leaf that have some first bits.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::aggregate) struct HashPart {
    number: u32,
    lg_parts: u32,
}

impl HashPart {
    /// The first half.
    pub(in crate::aggregate) fn half(self) -> HashPart {
        HashPart { number: self.number * 2, lg_parts: self.lg_parts + 1 }
    }

    /// The next part of this size; after the last, `None`, and the first.
    pub(in crate::aggregate) fn next(self) -> (Option<HashPart>, HashPart) {
        let number = self.number + 1;
        let next = (number >> self.lg_parts == 0).then_some(HashPart { number, ..self });
        (next, HashPart { number: 0, ..self })
    }

    fn is_least(self) -> bool {
        self.lg_parts == LG_PARTS_MAX
    }

    #[inline]
    fn has(self, hash: u32) -> bool {
        u64::from(hash) >> (u32::BITS - self.lg_parts) == u64::from(self.number)
    }
}

/// What a leaf was like whose records became groups: the next one is like it, for hashes are spread evenly.
#[derive(Default, Debug)]
pub(super) struct LastGathered {
    lg_parts: AtomicU32,
    /// Groups of a part.
    groups: AtomicUsize,
}

/// Makes groups of records on flash, whatever is computed of them. Whoever has it do so waits for a scratch, and has no lock of a leaf.
pub(in crate::aggregate) trait Gather: Send + Sync {
    /// The part of a leaf that is likely to fit the memory, the first one.
    fn first_part(&self) -> HashPart;

    /// The groups, of hashes of a part, of what waits on flash for a leaf; `None` where they do not fit the memory.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    fn gather(&self, leaf: &Leaf, part: HashPart, limits: GatherLimits) -> Result<Option<Leaf>>;
}

impl<A: Aggregate> Gather for Ground<A> {
    fn first_part(&self) -> HashPart {
        HashPart { number: 0, lg_parts: self.gathered.lg_parts.load(Ordering::Relaxed) }
    }

    fn gather(&self, leaf: &Leaf, part: HashPart, limits: GatherLimits) -> Result<Option<Leaf>> {
        let last = &self.gathered;
        let mut gathered = leaf.like();
        gathered.lg_buckets = gathered.lg_buckets_for(last.groups.load(Ordering::Relaxed));
        let is_whole = gathered.take_backlog_of(leaf, part, limits, self, &mut self.scratches.take());
        if !matches!(is_whole, Ok(true)) {
            gathered.drop_all(&self.pool);
            return is_whole.map(|_| None);
        }
        let has_room_for_more = gathered.page_bytes() < limits.bytes / 4;
        let lg_parts = part.lg_parts.saturating_sub(u32::from(has_room_for_more));
        last.lg_parts.store(lg_parts, Ordering::Relaxed);
        last.groups.store(gathered.groups(), Ordering::Relaxed);
        Ok(Some(gathered))
    }
}

impl Leaf {
    /// Has the records wait on flash when room is needed, from now on.
    pub(in crate::aggregate) fn send_away(&mut self) {
        self.is_away = true;
        self.pending.append(&mut self.misses);
    }

    /// Has the records stay in memory, as long as there is room.
    pub(in crate::aggregate) fn call_back(&mut self) {
        self.is_away = false;
    }

    pub(in crate::aggregate) fn is_away(&self) -> bool {
        self.is_away
    }

    /// Bytes of the records that may go to flash.
    pub(in crate::aggregate) fn bytes_to_write(&self) -> usize {
        if self.is_away { self.pending.iter().map(|chunk| chunk.block.len()).sum() } else { 0 }
    }

    /// What waits on flash.
    pub(in crate::aggregate) fn backlog(&self) -> Option<&Backlog> {
        self.backlog.as_ref()
    }

    /// Writes the records that wait, as many at a time as `buffer` has room for, which is one at least.
    ///
    /// # Errors
    /// `Full` or `Io`: what was not written waits as before.
    pub(in crate::aggregate) fn write_pending(
        &mut self,
        file: &Arc<BacklogFile>,
        buffer: &mut AlignedBuf,
        pool: &Pool,
    ) -> Result<()> {
        while let Some(last) = self.pending.last() {
            if last.used > buffer.len() {
                *buffer = AlignedBuf::zeroed(last.used);
            }
            let (mut bytes, mut chunks) = (0, 0);
            for chunk in self.pending.iter().rev() {
                let Some(into) = buffer.get_mut(bytes..bytes + chunk.used) else { break };
                into.copy_from_slice(&chunk.block[..chunk.used]);
                (bytes, chunks) = (bytes + chunk.used, chunks + 1);
            }
            let piece = file.append(buffer, bytes)?;
            self.backlog.get_or_insert_with(|| Backlog::new(file)).push(piece);
            let left = self.pending.len() - chunks;
            self.pending.drain(left..).for_each(|chunk| pool.give(chunk.block));
        }
        Ok(())
    }

    /// Takes away what waits on flash, if it is wanted, as a leaf that has nothing else.
    pub(in crate::aggregate) fn take_backlog_if(&mut self, is_wanted: impl Fn(&Backlog) -> bool) -> Leaf {
        Leaf { backlog: self.backlog.take_if(|backlog| is_wanted(backlog)), ..self.like() }
    }

    /// Has what was taken away wait on flash again; nothing else does.
    pub(in crate::aggregate) fn give_backlog(&mut self, backlog: Backlog) {
        self.backlog = Some(backlog);
    }

    /// What waits on flash now, as a leaf that has nothing else.
    pub(in crate::aggregate) fn copy_backlog(&self) -> Leaf {
        Leaf { backlog: self.backlog.clone(), ..self.like() }
    }

    /// An empty leaf whose keys will be packed as they are here.
    fn like(&self) -> Leaf {
        Leaf { alphabet: self.alphabet.clone(), symbols: self.symbols.clone(), ..Leaf::new() }
    }

    /// Takes the records of a part that wait on flash for another leaf; `false` where there is no room for their groups.
    fn take_backlog_of<A: Aggregate>(
        &mut self,
        other: &Leaf,
        part: HashPart,
        limits: GatherLimits,
        ground: &Ground<A>,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let Some(backlog) = &other.backlog else { return Ok(true) };
        for (number, piece) in backlog.pieces().iter().enumerate() {
            let mut chunk = Chunk::new(ground.pool.take_for(piece.file_bytes()));
            let read = backlog.read(number, &mut chunk.block[..piece.file_bytes()]);
            chunk.used = piece.bytes();
            if part.lg_parts > 0 && read.is_ok() {
                let all = std::mem::replace(&mut chunk, Chunk::new(ground.pool.take_for(piece.file_bytes())));
                let records = all.records(ground.shape());
                let of_part = records.filter(|(_, record)| part.has(record.hash));
                of_part.for_each(|(_, record)| chunk.push_copy(record.whole));
                ground.pool.give(all.block);
            }
            self.push(chunk);
            read?;
            self.apply(ground, scratch);
            let most = limits.missing_blocks.max(1);
            if self.misses() >= (self.pages() / 4).clamp(most.div_ceil(4), most) {
                self.compact(ground, scratch);
            }
            if self.page_bytes() > limits.bytes && !part.is_least() {
                return Ok(false);
            }
        }
        self.settle(ground, scratch);
        Ok(true)
    }

    /// Adds what waits on flash of a key to `group`, which is that of the key if `is_known`; whether there was anything.
    ///
    /// # Errors
    /// `Corrupt`; what the device says.
    pub(in crate::aggregate) fn get_backlog<A: Aggregate>(
        &self,
        ground: &Ground<A>,
        hash: u32,
        key: &[u8],
        scratch: &mut Scratch,
        group: &mut KeyState,
    ) -> Result<bool> {
        let (mut is_known, mut bytes) = (false, Vec::new());
        let Some(backlog) = &self.backlog else { return Ok(false) };
        for (number, piece) in backlog.pieces().iter().enumerate() {
            bytes.resize(piece.file_bytes().max(BLOCK_BYTES), 0);
            backlog.read(number, &mut bytes[..piece.file_bytes()])?;
            let chunk = Chunk { block: bytes.into_boxed_slice(), used: piece.bytes() };
            is_known |= get_from(&chunk, ground, hash, key, &mut scratch.words, group, is_known);
            bytes = chunk.block.into_vec();
        }
        Ok(is_known)
    }

    /// Gives all memory back.
    pub(in crate::aggregate) fn drop_all(&mut self, pool: &Pool) {
        self.drop_pages(pool);
        let waiting = self.pending.drain(..).chain(self.misses.drain(..));
        waiting.for_each(|chunk| pool.give(chunk.block));
    }
}
