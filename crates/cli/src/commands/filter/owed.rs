//! Rows that a stopped run could not print: kept in the store with the commit that has them for printed, and printed first by the next run.

use super::outlet::Owed;
use crate::failure::Failure;
use overbank::store::{CommitId, Files, Participant, Prepared, Record, Store, Structure};
use overbank::{Error, Result};
use std::io::{self, Read, Seek};
use std::sync::{Arc, Mutex};

/// The name that it has in its store.
const NAME: &str = "owed output";
/// Owed output has this number among the structures of a store.
pub(super) const STRUCTURE: u16 = 64;
const VERSION: u16 = 1;
/// Bytes copied at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Makes `owed` part of the store's commits.
pub(super) fn keep(store: &Store, owed: Owed) -> std::result::Result<(), Failure> {
    Ok(store.attach(NAME, Arc::new(Mutex::new(owed)))?)
}

/// Gives what the store owes to `print`, piece by piece; the next commit owes it no more.
pub(super) fn pay(
    store: &Store,
    mut print: impl FnMut(&[u8]) -> std::result::Result<(), Failure>,
) -> std::result::Result<(), Failure> {
    let Some(entry) = store.record(NAME) else { return Ok(()) };
    if (entry.structure.id, entry.structure.version) != (STRUCTURE, VERSION) {
        return Err(Failure::Overbank(Error::UnsupportedVersion {
            what: "the rows that the store owes".to_owned(),
            found: entry.structure.version.into(),
            supported: VERSION.into(),
        }));
    }
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

impl Participant for Owed {
    fn structure(&self) -> Structure {
        Structure { id: STRUCTURE, version: VERSION }
    }

    fn prepare(&mut self, files: &Files, _: CommitId) -> Result<Prepared> {
        let failed = |source: io::Error| Error::Io { op: "read", path: "the rows that wait".into(), source };
        let total_bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        self.file.rewind().map_err(failed)?;
        let file = files.write_blob_with(total_bytes, |sink| {
            let mut piece = vec![0; total_bytes.min(PIECE_BYTES)];
            let mut left = total_bytes;
            while left > 0 {
                let piece = &mut piece[..left.min(PIECE_BYTES)];
                self.file.read_exact(piece).map_err(failed)?;
                sink(piece)?;
                left -= piece.len();
            }
            Ok(())
        })?;
        Ok(Prepared::Changed(Record { state: Vec::new(), files: vec![file] }))
    }

    fn committed(&mut self, _: CommitId) {}
}
