//! A set of keys that is opened by its name: runs that are merged and given up at any time, a merge that is published between commits,
//! and a state that is now and then too long for the manifest.
//!
//! ```text
//!   state   length of the padding u64, its seed u64 │ the padding, words that follow from the seed
//! ```

use crate::summaries::{bytes, defect, numbers};
use crate::workload::Random;
use overbank::Result;
use overbank::store::registry::Kind;
use overbank::store::{
    FileRef, Files, Handle, Openable, Participant, Prepared, Publisher, Record, Store, Structure,
};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Words of padding: none, some that stay in the manifest, and so many that the record does not.
const PADDING_WORDS: [u64; 3] = [0, 200, 2_200];

/// What it holds: keys, and length and seed of the padding.
pub(crate) type Content = (BTreeSet<u64>, u64, u64);

pub(crate) struct Levels {
    files: Files,
    publisher: Publisher,
    inner: Mutex<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    buffer: BTreeSet<u64>,
    runs: Vec<Run>,
    padding: (u64, u64),
    /// What a commit under way, or one that failed, names; what the last one does.
    prepared: Option<Named>,
    committed: Named,
    /// Counts the commits that began.
    round: u64,
    is_changed: bool,
}

#[derive(Clone, Default)]
struct Named {
    runs: Vec<Run>,
    padding: (u64, u64),
}

#[derive(Clone, PartialEq)]
struct Run {
    file: FileRef,
    keys: BTreeSet<u64>,
}

impl Named {
    fn record(&self) -> Record {
        let (words, seed) = self.padding;
        let state = bytes([words, seed].into_iter().chain(padding(words, seed)));
        Record { state, files: self.runs.iter().map(|run| run.file).collect() }
    }
}

fn padding(words: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random(seed);
    (0..words).map(move |_| random.next())
}

impl Levels {
    /// The one that is open, the stored one, or a new one.
    pub(crate) fn open(store: &Store) -> Result<Handle<Levels>> {
        store.open_with("levels", |stored| {
            let files = store.files().clone();
            let mut inner = Inner { is_changed: stored.is_none(), ..Inner::default() };
            if let Some(entry) = stored {
                let state = numbers(&entry.record.state)?;
                let [words, seed, rest @ ..] = &state[..] else { return Err(defect("levels")) };
                if !rest.iter().copied().eq(padding(*words, *seed)) {
                    return Err(defect("the padding"));
                }
                let run = |file: &FileRef| {
                    Ok(Run { file: *file, keys: numbers(&files.read_blob(file)?)?.into_iter().collect() })
                };
                inner.runs = entry.record.files.iter().map(run).collect::<Result<_>>()?;
                inner.padding = (*words, *seed);
                inner.committed = Named { runs: inner.runs.clone(), padding: inner.padding };
            }
            Ok(Levels { files, publisher: store.publisher("levels"), inner: Mutex::new(inner) })
        })
    }

    pub(crate) fn content(&self) -> Content {
        let inner = self.inner.lock().unwrap();
        let keys = inner.runs.iter().flat_map(|run| &run.keys).chain(&inner.buffer).copied().collect();
        (keys, inner.padding.0, inner.padding.1)
    }

    pub(crate) fn insert(&self, key: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.buffer.insert(key);
        inner.is_changed = true;
    }

    pub(crate) fn pad(&self, length: u64, seed: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.padding = (PADDING_WORDS[length as usize], seed);
        inner.is_changed = true;
    }

    fn write(&self, keys: BTreeSet<u64>) -> Result<Run> {
        Ok(Run { file: self.files.write_blob(&bytes(keys.iter().copied()))?, keys })
    }

    /// Moves the buffer to a run of its own.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if !inner.buffer.is_empty() {
            let run = self.write(inner.buffer.clone())?;
            inner.buffer.clear();
            inner.runs.push(run);
        }
        Ok(())
    }

    /// Makes one run of all, durable or not, and gives them up.
    pub(crate) fn merge(&self) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if inner.runs.len() > 1 {
            let merged = self.write(inner.runs.iter().flat_map(|run| &run.keys).copied().collect())?;
            inner.is_changed = true;
            for old in std::mem::replace(&mut inner.runs, vec![merged]) {
                self.files.retire(old.file.id);
            }
        }
        Ok(())
    }

    /// Makes one run of those that are durable and not yet merged with others, and commits that alone.
    pub(crate) fn publish(&self) -> Result<bool> {
        let old: Vec<Run> = {
            let inner = self.inner.lock().unwrap();
            inner.committed.runs.iter().filter(|run| inner.runs.contains(run)).cloned().collect()
        };
        if old.len() < 2 {
            return Ok(false);
        }
        let merged = self.write(old.iter().flat_map(|run| &run.keys).copied().collect())?;
        let replaced = |runs: &[Run]| {
            let others = runs.iter().filter(|run| !old.contains(run)).cloned();
            std::iter::once(merged.clone()).chain(others).collect::<Vec<_>>()
        };
        // From here on a commit names the merged run, published or not.
        {
            let mut inner = self.inner.lock().unwrap();
            inner.runs = replaced(&inner.runs);
            inner.is_changed = true;
        }
        old.iter().for_each(|run| self.files.retire(run.file.id));
        let mut before = None;
        let published = self.publisher.publish(|| {
            let mut inner = self.inner.lock().unwrap();
            if !old.iter().all(|run| inner.committed.runs.contains(run)) {
                return None;
            }
            let (runs, padding) = (replaced(&inner.committed.runs), inner.committed.padding);
            let record = Named { runs: runs.clone(), padding }.record();
            before = Some((std::mem::replace(&mut inner.committed.runs, runs), inner.round));
            Some(record)
        });
        if let (Some((runs, round)), false) = (before, matches!(published, Ok(true))) {
            let mut inner = self.inner.lock().unwrap();
            if inner.round == round {
                inner.committed.runs = runs;
            }
        }
        published
    }
}

impl Participant for Levels {
    fn structure(&self) -> Structure {
        Self::KIND.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        let mut inner = self.inner.lock().unwrap();
        if inner.prepared.take().is_some() {
            inner.is_changed = true;
        }
        if !inner.is_changed {
            return Ok(Prepared::Unchanged);
        }
        let mut named = Named { runs: inner.runs.clone(), padding: inner.padding };
        if !inner.buffer.is_empty() {
            // The buffer's file exists for this commit only: it becomes a run when the commit succeeds.
            named.runs.push(self.write(inner.buffer.clone())?);
        }
        let record = named.record();
        inner.prepared = Some(named);
        inner.round += 1;
        inner.is_changed = false;
        Ok(Prepared::Changed(record))
    }

    fn committed(&self) {
        let mut inner = self.inner.lock().unwrap();
        let named = inner.prepared.take().expect("it was prepared");
        if let Some(run) = named.runs.last().filter(|run| !inner.runs.contains(run)).cloned() {
            inner.buffer.retain(|key| !run.keys.contains(key));
            inner.runs.push(run);
        }
        inner.committed = named;
    }

    fn is_changed(&self) -> bool {
        let inner = self.inner.lock().unwrap();
        inner.is_changed || inner.prepared.is_some()
    }
}

impl Openable for Levels {
    const KIND: Kind = Kind { id: 1004, version: 1, name: "set of keys" };
}
