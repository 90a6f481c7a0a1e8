//! Rows that a stopped run could not print: kept in the store with the commit that has them for printed, and printed first by the next run.

use super::outlet::Owed;
use crate::failure::Failure;
use overbank::store::{Files, Participant, Prepared, Record, Store, Structure, registry};
use overbank::{Error, Result};
use std::io::{self, Read, Seek};
use std::sync::{Arc, Mutex, PoisonError};

/// The name that it has in its store.
const NAME: &str = "owed output";
/// Bytes copied at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Makes `owed` part of the store's commits.
pub(super) fn keep(store: &Store, owed: Owed) -> std::result::Result<(), Failure> {
    let kept = Kept { owed: Mutex::new(owed), files: store.files().clone() };
    Ok(store.attach(NAME, Arc::new(kept))?)
}

/// Whether the store owes anything.
pub(super) fn is_owed(store: &Store) -> bool {
    store.record(NAME).is_some()
}

/// Gives what the store owes to `print`, piece by piece; the next commit owes it no more.
pub(super) fn pay(
    store: &Store,
    mut print: impl FnMut(&[u8]) -> std::result::Result<(), Failure>,
) -> std::result::Result<(), Failure> {
    let Some(entry) = store.record(NAME) else { return Ok(()) };
    entry.require(NAME, registry::OWED_OUTPUT)?;
    for file in &entry.record.files {
        let printed = store.files().read_blob_with(file, |mut left, source| {
            let mut piece = vec![0; left.min(PIECE_BYTES)];
            while left > 0 {
                let piece = &mut piece[..left.min(PIECE_BYTES)];
                source(piece)?;
                if let Err(failure) = print(piece) {
                    return Ok(Err(failure));
                }
                left -= piece.len();
            }
            Ok(Ok(()))
        })?;
        printed?;
    }
    Ok(store.remove(NAME)?)
}

/// What is owed, as a part of the store's commits.
struct Kept {
    owed: Mutex<Owed>,
    files: Files,
}

impl Participant for Kept {
    fn structure(&self) -> Structure {
        registry::OWED_OUTPUT.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |source: io::Error| Error::Io { op: "read", path: "the rows that wait".into(), source };
        let total_bytes = usize::try_from(owed.bytes).unwrap_or(usize::MAX);
        owed.file.rewind().map_err(failed)?;
        let file = self.files.write_blob_with(total_bytes, |sink| {
            let mut piece = vec![0; total_bytes.min(PIECE_BYTES)];
            let mut left = total_bytes;
            while left > 0 {
                let piece = &mut piece[..left.min(PIECE_BYTES)];
                owed.file.read_exact(piece).map_err(failed)?;
                sink(piece)?;
                left -= piece.len();
            }
            Ok(())
        })?;
        Ok(Prepared::Changed(Record { state: Vec::new(), files: vec![file] }))
    }

    fn committed(&self) {}
}
