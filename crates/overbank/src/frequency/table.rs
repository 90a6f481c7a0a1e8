//! What of a sketch is on flash, as one small value that changes under one short lock.
//!
//! ```text
//!   Table ─┬─ places: group ─▶ extent, sequence      a pass changes them one by one, as their new extents are written
//!          ├─ logs, by sequence                      a writer adds one; a pass takes those away that it has applied
//!          ├─ weight of both
//!          └─ emptied: slot ─▶ how often             so a reader sees that a buffer moved between two looks
//! ```
//!
//! 1. The table's lock is held for look-ups and changes of some numbers: never across device I/O, never while another lock is waited
//!    for except that of a file's extents.
//! 2. An update moves from a buffer to a log under the buffer's lock and the table's, and from logs to pages under the table's: whoever
//!    holds both sees it in exactly one place.
//! 3. [`Cut`] is what an estimate takes: the places of its pages with their extents pinned, the logs, and copies of what waits for these
//!    pages in the buffers. It is taken without holding two locks of buffers at once, unless buffers are emptied faster than they are
//!    looked at, and is a state that the sketch was in between the beginning and the end of the call, but for what was added meanwhile.
//!
//! Why a cut misses nothing and counts nothing twice: it looks at the table first, then at the buffers. An update that was in a buffer
//! when the table was looked at is there still, or its slot's number has changed, and then the cut begins anew; after some tries with
//! all buffers locked for reading, so that it ends however many writers there are. An update that came
//! later may be seen or not. Removals wait in slot 0 alone, which is looked at before the other slots: what a removal takes off was
//! added before it, so it is in what is looked at later.

use super::flash::{PagesFile, Pin};
use super::format::{GroupPlace, NO_EXTENT};
use super::log::Log;
use super::memory::Buffer;
use super::page::{Updates, Weighted};
use super::shape::Shape;
use super::slots::{Waiting, WriterSlot};
use super::{narrowed, plus};
use crate::lock::{lock, read};
use std::sync::{Arc, Mutex};

/// The part of a sketch that is on flash.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) shape: Shape,
    pub(super) file: Option<Arc<PagesFile>>,
    pub(super) places: Vec<GroupPlace>,
    /// By sequence.
    pub(super) logs: Arc<Vec<Arc<Log>>>,
    /// How often each slot's buffer was emptied.
    pub(super) emptied: Vec<u64>,
    /// The weight in pages and logs.
    pub(super) weight: u128,
    /// Which pane of a window it is; 0 otherwise.
    pub(super) epoch: u64,
    /// How often the whole was replaced: by a merge, a fold, a decay or a clear.
    pub(super) generation: u64,
    /// The number of the last change that a commit has to hold, and of the last one of places.
    pub(super) edit: u64,
    pub(super) places_edit: u64,
    /// The edit that the last durable record has; 0 before there is one.
    pub(super) committed_edit: u64,
}

impl Table {
    /// That of an empty sketch.
    pub(super) fn new(shape: Shape, writers: usize) -> Self {
        Table {
            shape,
            file: None,
            places: vec![GroupPlace::EMPTY; shape.groups()],
            logs: Arc::default(),
            emptied: vec![0; writers],
            weight: 0,
            epoch: 0,
            generation: 0,
            edit: 1,
            places_edit: 1,
            committed_edit: 0,
        }
    }

    /// Notes a change that the next commit has to hold.
    pub(super) fn change(&mut self) {
        self.edit += 1;
    }

    /// Notes a change of places.
    pub(super) fn change_places(&mut self) {
        self.edit += 1;
        self.places_edit = self.edit;
    }

    /// Adds a log. Writers end in another order than they drew their sequences in, and a commit names the logs by sequence.
    pub(super) fn add_log(&mut self, log: Log) {
        let at = self.logs.partition_point(|earlier| earlier.sequence < log.sequence);
        Arc::make_mut(&mut self.logs).insert(at, Arc::new(log));
    }

    /// Takes away the logs up to `sequence`, whose updates are in another place now.
    pub(super) fn remove_logs(&mut self, sequence: u64) {
        Arc::make_mut(&mut self.logs).retain(|log| log.sequence > sequence);
        self.change();
    }

    /// Gives a group another place, and lets go of the one before.
    pub(super) fn set_place(&mut self, group: usize, place: GroupPlace) {
        let old = std::mem::replace(&mut self.places[group], place);
        if let Some(file) = &self.file {
            file.release(old.extent);
        }
        self.change_places();
    }
}

/// Copies of what waits for some pages in one buffer, by page.
#[derive(Default, Debug)]
struct Copied {
    units: Vec<u64>,
    weighted: Vec<Weighted>,
}

/// More updates of a page than this are joined as they are copied: a stream of few keys would else copy whole buffers.
const RAW_UPDATES_MAX: usize = 256;

impl Copied {
    fn push(&mut self, updates: Updates<'_>) {
        if updates.units.len() + updates.weighted.len() > RAW_UPDATES_MAX {
            updates.joined_all(|entry, weight| self.weighted.push([entry, weight.cast_unsigned()]));
        } else {
            self.units.extend_from_slice(updates.units);
            self.weighted.extend_from_slice(updates.weighted);
        }
    }

    /// Copies what waits for `pages` in a buffer: of its runs, and of the tail that is not in order.
    fn copy(&mut self, shape: Shape, pages: &[u64], buffer: &Buffer) {
        let entries = shape.entry_layout();
        let (Some(&first), Some(&last)) = (pages.first(), pages.last()) else { return };
        for run in buffer.runs() {
            let mut rest = run.of_pages(entries, first, last + 1);
            for &page in pages {
                if rest.is_empty() {
                    break;
                }
                rest = rest.split_below(entries, page).1;
                let (here, behind) = rest.split_below(entries, page + 1);
                if !here.is_empty() {
                    self.push(here);
                }
                rest = behind;
            }
        }
        let tail = buffer.tail();
        let is_asked = |entry: u64| pages.binary_search(&entries.page(entry)).is_ok();
        self.units.extend(tail.units.iter().filter(|&&entry| is_asked(entry)));
        self.weighted.extend(tail.weighted.iter().filter(|&&[entry, _]| is_asked(entry)));
        // Of one run they are in order, and this is a look at each.
        self.units.sort_unstable();
        // Stable: what was added to a key comes before what was taken off it.
        self.weighted.sort_by_key(|&[entry, _]| entry);
    }
}

/// What one round of an estimate looks at.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) shape: Shape,
    pub(super) logs: Arc<Vec<Arc<Log>>>,
    /// That of each page's group.
    pub(super) places: Vec<GroupPlace>,
    /// The extents of these groups; `None` where none of them was ever written.
    pin: Option<Pin>,
    /// What waits, slot by slot.
    copied: Vec<Copied>,
    /// The sum of all weights; `u64::MAX` stands for that and more.
    pub(super) total_weight: u64,
}

/// How often a cut begins anew before it locks all buffers at once. A writer empties a buffer in the time of a device's write, in which
/// a cut looks at thousands of pages: a second try is rare where buffers have the memory of the default.
const TRIES: usize = 8;

#[cfg(test)]
thread_local! {
    /// Whether this thread's cuts lock all buffers at once.
    pub(super) static AT_ONCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Cut {
    /// A cut for `pages`, which ascend; `None` if the sketch is not of this generation any more, where one is asked for.
    pub(super) fn take(
        table: &Mutex<Table>,
        slots: &[WriterSlot],
        generation: Option<u64>,
        pages: &[u64],
    ) -> Option<Self> {
        #[cfg(test)]
        let tries = if AT_ONCE.get() { 0 } else { TRIES };
        #[cfg(not(test))]
        let tries = TRIES;
        for _ in 0..tries {
            let (mut cut, emptied, weight) = Self::on_flash(table, generation, pages)?;
            let mut waiting_weight = 0i128;
            let is_whole = slots.iter().zip(emptied).enumerate().all(|(number, (slot, emptied))| {
                let waiting = read(&slot.waiting);
                if waiting.emptied != emptied {
                    return false;
                }
                waiting_weight = waiting_weight.saturating_add(cut.copy(number, pages, &waiting));
                true
            });
            if is_whole {
                cut.total_weight = narrowed(plus(weight, waiting_weight));
                return Some(cut);
            }
        }
        // By number, as whoever replaces the whole locks them, and before the table, as whoever empties one.
        let all: Vec<_> = slots.iter().map(|slot| read(&slot.waiting)).collect();
        let (mut cut, _, weight) = Self::on_flash(table, generation, pages)?;
        let waiting = all.iter().enumerate().map(|(number, waiting)| cut.copy(number, pages, waiting));
        let waiting_weight = waiting.fold(0, i128::saturating_add);
        cut.total_weight = narrowed(plus(weight, waiting_weight));
        Some(cut)
    }

    /// Copies what waits for `pages` in a slot; the weight of all that waits there.
    fn copy(&mut self, number: usize, pages: &[u64], waiting: &Waiting) -> i128 {
        self.copied[number].copy(self.shape, pages, &waiting.buffer);
        waiting.weight
    }

    /// The part of a cut that is on flash, with what each slot's number was, and the weight.
    fn on_flash(
        table: &Mutex<Table>,
        generation: Option<u64>,
        pages: &[u64],
    ) -> Option<(Self, Vec<u64>, u128)> {
        let table = lock(table);
        if generation.is_some_and(|generation| generation != table.generation) {
            return None;
        }
        let group_pages = u64::from(table.shape.group_pages);
        let mut places = Vec::with_capacity(pages.len());
        let mut extents = Vec::new();
        for &page in pages {
            let place = table.places[(page / group_pages) as usize];
            if place.extent != NO_EXTENT && extents.last() != Some(&place.extent) {
                extents.push(place.extent);
            }
            places.push(place);
        }
        let pin = table.file.as_ref().filter(|_| !extents.is_empty()).map(|file| Pin::new(file, extents));
        let copied = table.emptied.iter().map(|_| Copied::default()).collect();
        let cut =
            Cut { shape: table.shape, logs: Arc::clone(&table.logs), places, pin, copied, total_weight: 0 };
        Some((cut, table.emptied.clone(), table.weight))
    }

    /// The file of the pages, if one of them was ever written.
    pub(super) fn file(&self) -> Option<&Arc<PagesFile>> {
        self.pin.as_ref().map(|pin| &pin.file)
    }

    /// What waits in the buffers, in the order in which it is to be added: removals, which are in slot 0, last.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Updates<'_>> {
        self.copied.iter().rev().map(|copied| Updates { units: &copied.units, weighted: &copied.weighted })
    }
}
