//! LMDB: a B+ tree of copied pages in a memory map.

use crate::Result;
use crate::engine::{Batch, Engine, Look, Reader, Store};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use std::path::Path;

pub(crate) const ENGINE: Engine = Engine {
    name: "lmdb",
    settings: |memory| {
        format!(
            "LMDB: transactions of {} MiB, each inserted in the order of its keys, no sync but one at the end, no readahead",
            batch_bytes(memory) >> 20
        )
    },
    open,
};

/// Address space of the map.
const MAP_BYTES: usize = 256 << 30;

struct Lmdb {
    env: Env<WithTls>,
    batch_bytes: usize,
}

fn batch_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / 8).max(1 << 20)
}

fn open(folder: &Path, memory_bytes: usize) -> Result<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(1024);
    // SAFETY: without a sync a crash may lose or break the file, which nobody wants back; no other process opens it.
    let env = unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD).open(folder)? };
    Ok(Box::new(Lmdb { env, batch_bytes: batch_bytes(memory_bytes) }))
}

impl Lmdb {
    /// The one table, made where it is missing.
    fn table(&self) -> Result<Database<'_, Bytes, Bytes>> {
        let transaction = self.env.write_txn()?;
        let made = self.env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database::<Bytes, Bytes>(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        match made {
            CommitOrAbort::Commit(table) => Ok(table),
            CommitOrAbort::Abort(()) => Err("the table was not made".into()),
        }
    }
}

impl Store for Lmdb {
    fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    fn insert(&mut self, batch: &mut Batch) -> Result<()> {
        let table = self.table()?;
        let mut transaction = self.env.write_txn()?;
        for (key, value) in batch.sorted() {
            table.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let table = self.table()?;
        let transaction = self.env.read_txn()?;
        Ok(Box::new(move |look: &mut Look| {
            look.each(|key, value| Ok(table.get(&transaction, key)? == Some(value)))
        }))
    }
}
