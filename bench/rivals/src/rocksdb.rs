//! RocksDB, in two ways: loaded in bulk and compacted once, or with leveled compaction beside the load.

use crate::Result;
use crate::engine::{Batch, Engine, Look, Reader, Store, check};
use ::rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType,
    MemtableFactory, Options, WriteBatch, WriteOptions,
};
use std::path::Path;
use std::time::Duration;

/// No compaction while items come, one at the end.
pub(crate) const BULK: Engine = Engine {
    name: "rocksdb",
    settings: |memory| {
        format!(
            "RocksDB: vector memtables of {} MiB, no write-ahead log, no compaction before one of everything at the end; {SHARED}",
            buffer_bytes(memory) >> 20
        )
    },
    open: |folder, memory| open(folder, memory, Way::Bulk),
};

/// Compactions as items come, until nothing is left to do.
pub(crate) const LEVELED: Engine = Engine {
    name: "rocksdb_leveled",
    settings: |memory| {
        format!(
            "RocksDB: skip-list memtables of {} MiB, no write-ahead log, leveled compaction beside the load; {SHARED}",
            buffer_bytes(memory) >> 20
        )
    },
    open: |folder, memory| open(folder, memory, Way::Leveled),
};

const SHARED: &str = "four of them at most, no compression, Bloom filters of 10 bits in RAM, blocks of 4 KiB, an eighth of the memory as \
                      block cache, direct I/O, two background threads of each kind, no checksum left out";

/// Memtables that may wait to be flushed, with the one that is filled.
const BUFFERS: i32 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Bulk,
    Leveled,
}

struct RocksDb {
    db: DB,
    way: Way,
}

fn buffer_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / 6).max(1 << 20)
}

fn open(folder: &Path, memory_bytes: usize, way: Way) -> Result<Box<dyn Store>> {
    let mut tables = BlockBasedOptions::default();
    tables.set_bloom_filter(10.0, false);
    tables.set_block_size(4096);
    tables.set_format_version(5);
    tables.set_block_cache(&Cache::new_lru_cache(memory_bytes / 8)?);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&tables);
    options.set_write_buffer_size(buffer_bytes(memory_bytes));
    options.set_max_write_buffer_number(BUFFERS);
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options.set_compaction_readahead_size(2 << 20);
    options.set_max_background_jobs(4);
    options.set_max_subcompactions(2);
    options.set_max_open_files(-1);
    options.set_target_file_size_base(256 << 20);
    options.set_max_bytes_for_level_base(1 << 30);
    if way == Way::Bulk {
        options.set_memtable_factory(MemtableFactory::Vector);
        options.set_allow_concurrent_memtable_write(false);
        options.set_disable_auto_compactions(true);
        options.set_level_zero_slowdown_writes_trigger(1 << 20);
        options.set_level_zero_stop_writes_trigger(1 << 20);
    }
    Ok(Box::new(RocksDb { db: DB::open(&options, folder)?, way }))
}

impl RocksDb {
    fn property(&self, name: &str) -> Result<u64> {
        Ok(self.db.property_int_value(name)?.unwrap_or(0))
    }
}

impl Store for RocksDb {
    fn batch_bytes(&self) -> usize {
        256 << 10
    }

    fn insert(&mut self, batch: &mut Batch) -> Result<()> {
        let mut writes = WriteBatch::default();
        batch.arrived().for_each(|(key, value)| writes.put(key, value));
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        Ok(self.db.write_opt(writes, &options)?)
    }

    fn finish(&mut self) -> Result<()> {
        self.db.flush()?;
        if self.way == Way::Bulk {
            let mut options = CompactOptions::default();
            options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
            self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
            return Ok(());
        }
        while self.property("rocksdb.compaction-pending")?
            + self.property("rocksdb.num-running-compactions")?
            > 0
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn reader(&self) -> Result<Reader<'_>> {
        Ok(Box::new(|look: &mut Look| {
            if look.pairs().nth(1).is_none() {
                return look
                    .each(|key, value| Ok(self.db.get_pinned(key)?.is_some_and(|found| *found == *value)));
            }
            let found = self.db.multi_get(look.pairs().map(|(key, _)| key));
            look.pairs()
                .zip(found)
                .try_for_each(|((_, value), found)| check(found?.is_some_and(|found| found == value)))
        }))
    }

    fn index_bytes(&self) -> Option<u64> {
        self.property("rocksdb.estimate-table-readers-mem").ok()
    }
}
