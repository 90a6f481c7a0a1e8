//! All of one filter added to another of the same seed.
//!
//! A fingerprint is the front of a hash, so it goes in like a hash whose other bits are not known. That is enough as long as the
//! filter keeps no more bits of it than the other one has.

use super::CascadeFilter;
use crate::error::invalid;
use crate::filter::run::Entries;
use crate::{Error, Result};
use std::iter::repeat_n;

impl CascadeFilter {
    /// Adds what `other`, of the same or another store, holds: as if its keys had been inserted and removed here.
    ///
    /// # Cost
    /// One pass over `other`, and an insert for each of its occurrences.
    ///
    /// # Errors
    /// `Incompatible` for filters of another seed, hash kind or number of value bits, and if fingerprints there are shorter than
    /// here, with any part added then; `InvalidOption` for values and windows, whose entries are more than fingerprints; what
    /// [`CascadeFilter::insert`] and reading bring.
    pub fn merge_from(&mut self, other: &CascadeFilter) -> Result<()> {
        self.check_kind(other)?;
        // What is in its logs is seen as packed runs.
        other.shared.seal_all()?;
        let (packed, runs) = {
            let board = other.shared.board();
            (board.packed.clone(), board.runs.clone())
        };
        let mut entries = Entries::default();
        // The oldest first: a removal finds what it removes.
        for run in &runs {
            for piece in &run.pieces {
                let mut cursor = piece.cursor(true)?;
                while cursor.next_block(&mut entries)? {
                    self.absorb(&mut entries, run.bits)?;
                }
            }
        }
        for packed in &packed {
            let mut cursor = packed.run.cursor(0..=u64::MAX);
            while cursor.next_block(&mut entries)? {
                self.absorb(&mut entries, packed.bits)?;
            }
        }
        Ok(())
    }

    /// Adds entries of fingerprints of `bits` bits, and clears them.
    fn absorb(&mut self, entries: &mut Entries, bits: u32) -> Result<()> {
        let mut once = Vec::with_capacity(entries.len());
        for (fingerprint, count) in entries.iter() {
            let prefix = fingerprint << (64 - bits);
            let times = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            match count {
                1 => once.push(prefix),
                _ => self.shared.add(0, repeat_n(prefix, times), count < 0)?,
            }
        }
        self.shared.add(0, once.into_iter(), false)?;
        entries.clear();
        // A generation of longer fingerprints may have begun on the way.
        let kept = self.shared.options.bits(self.shared.board().era.generation);
        if kept <= bits {
            return Ok(());
        }
        let [expected, found] = [kept, bits].map(|bits| format!("{bits} bits"));
        Err(Error::Incompatible { what: "the length of fingerprints", expected, found })
    }

    fn check_kind(&self, other: &CascadeFilter) -> Result<()> {
        let (ours, theirs) = (&self.shared, &other.shared);
        if ours.options.panes > 0 || theirs.options.panes > 0 {
            return invalid(
                "panes",
                ours.options.panes.max(theirs.options.panes),
                "windows have no panes in common; merge filters without",
            );
        }
        if ours.options.value_bits > 0 || theirs.options.value_bits > 0 {
            let bits = ours.options.value_bits.max(theirs.options.value_bits);
            return invalid("value_bits", bits, "only filters without values are merged");
        }
        let of = |kind: &crate::filter::run::RunKind| (kind.seed_fingerprint, kind.hash_kind);
        if of(&ours.kind) == of(&theirs.kind) {
            return Ok(());
        }
        let [expected, found] = [&ours.kind, &theirs.kind]
            .map(|kind| format!("{:?} of seed {:016x}", kind.hash_kind, kind.seed_fingerprint));
        Err(Error::Incompatible { what: "the hash", expected, found })
    }
}
