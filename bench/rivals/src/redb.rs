//! redb: a B+ tree of copied pages with a cache of its own.

use crate::Result;
use crate::engine::{Batch, Engine, Look, Reader, Store};
use ::redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

pub(crate) const ENGINE: Engine = Engine {
    name: "redb",
    settings: |memory| {
        format!(
            "redb: transactions of {} MiB, each inserted in the order of its keys, durable at the end alone; a cache of {} MiB",
            batch_bytes(memory) >> 20,
            cache_bytes(memory) >> 20
        )
    },
    open,
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("items");

struct Redb {
    db: Database,
    batch_bytes: usize,
}

fn batch_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / 8).max(1 << 20)
}

fn cache_bytes(memory_bytes: usize) -> usize {
    memory_bytes / 2
}

fn open(folder: &Path, memory_bytes: usize) -> Result<Box<dyn Store>> {
    let mut builder = Database::builder();
    builder.set_cache_size(cache_bytes(memory_bytes));
    Ok(Box::new(Redb {
        db: builder.create(folder.join("items.redb"))?,
        batch_bytes: batch_bytes(memory_bytes),
    }))
}

impl Store for Redb {
    fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    fn insert(&mut self, batch: &mut Batch) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(Durability::None)?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in batch.sorted() {
                table.insert(key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.db.begin_write()?.commit()?)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(Box::new(move |look: &mut Look| {
            look.each(|key, value| Ok(table.get(key)?.is_some_and(|found| found.value() == value)))
        }))
    }
}
