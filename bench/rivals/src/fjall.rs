//! fjall: a log-structured merge tree in Rust.

use crate::Result;
use crate::engine::{Batch, Engine, Look, Reader, Store};
use ::fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::time::Duration;

pub(crate) const ENGINE: Engine = Engine {
    name: "fjall",
    settings: |memory| {
        format!(
            "fjall: memtables of {} MiB, a journal that is not synced, leveled compaction beside the load until nothing is left to do, no \
             compression, Bloom filters of 10 bits, blocks of 4 KiB, a cache of {} MiB, two worker threads",
            memtable_bytes(memory) >> 20,
            cache_bytes(memory) >> 20
        )
    },
    open,
};

/// The least that fjall takes as the limit of its journals.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// How long nothing may happen before there is nothing left to do.
const AT_REST: Duration = Duration::from_millis(50);

struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

fn memtable_bytes(memory_bytes: usize) -> u64 {
    (memory_bytes / 8).max(1 << 20) as u64
}

fn cache_bytes(memory_bytes: usize) -> u64 {
    (memory_bytes / 4) as u64
}

fn open(folder: &Path, memory_bytes: usize) -> Result<Box<dyn Store>> {
    let db = Database::builder(folder)
        .cache_size(cache_bytes(memory_bytes))
        .manual_journal_persist(true)
        .worker_threads(2)
        .max_journaling_size((4 * memtable_bytes(memory_bytes)).max(JOURNAL_BYTES_MIN))
        .open()?;
    let keyspace = db.keyspace("items", || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(true)
            .max_memtable_size(memtable_bytes(memory_bytes))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(
                10.0,
            ))))
    })?;
    Ok(Box::new(Fjall { db, keyspace }))
}

impl Store for Fjall {
    fn batch_bytes(&self) -> usize {
        256 << 10
    }

    fn insert(&mut self, batch: &mut Batch) -> Result<()> {
        batch.arrived().try_for_each(|(key, value)| Ok(self.keyspace.insert(key, value)?))
    }

    fn finish(&mut self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        let mut completed = None;
        loop {
            let now = self.db.compactions_completed();
            let is_idle = self.db.active_compactions() == 0 && self.db.outstanding_flushes() == 0;
            if is_idle && completed == Some(now) {
                break;
            }
            completed = is_idle.then_some(now);
            std::thread::sleep(AT_REST);
        }
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        Ok(Box::new(|look: &mut Look| {
            look.each(|key, value| Ok(self.keyspace.get(key)?.is_some_and(|found| *found == *value)))
        }))
    }
}
