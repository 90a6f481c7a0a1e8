//! What commits name of a sketch, and what only one thread at a time may do with it.

use super::flash::Pin;
use super::table::Table;
use crate::store::FileRef;

/// What only one thread at a time may do, and what it has to know.
#[derive(Default, Debug)]
pub(super) struct Upkeep {
    /// The state that the last durable record names, and that which the commit under way does.
    pub(super) committed: Option<Commitment>,
    pub(super) prepared: Option<Commitment>,
}

/// A state that a commit names.
#[derive(Debug)]
pub(super) struct Commitment {
    /// The edits of the table that it has.
    pub(super) edit: u64,
    pub(super) places_edit: u64,
    /// The file that holds the table of places.
    pub(super) table: FileRef,
    /// Its extents, group by group; `None` where no page was ever written.
    pub(super) pin: Option<Pin>,
}

impl Commitment {
    /// The state of `table`, whose places are in the file `blob`. Its extents are pinned.
    pub(super) fn new(table: &Table, blob: FileRef) -> Self {
        let extents = || table.places.iter().map(|place| place.extent).collect();
        let pin = table.file.as_ref().map(|file| Pin::new(file, extents()));
        Commitment { edit: table.edit, places_edit: table.places_edit, table: blob, pin }
    }
}
